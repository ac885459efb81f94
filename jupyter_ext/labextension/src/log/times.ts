/** When a line was written, as the reader wants it. */

export type Times = '' | 'since' | 'clock';

const two = (number: number) => String(number).padStart(2, '0');

/** `0:12.3` or `1:02:03.4`, since the code began; `15:04:05.1`, by the clock. */
export function timeText(at: number | null, times: Times, began: number | null): string {
  if (at === null || !times) {
    return '';
  }
  if (times === 'clock') {
    const then = new Date(at * 1000);
    return `${then.toTimeString().slice(0, 8)}.${Math.floor(then.getMilliseconds() / 100)}`;
  }
  if (began === null) {
    return '';
  }
  const tenths = Math.max(0, Math.round((at - began) * 10));
  const [minutes, hours] = [Math.floor(tenths / 600), Math.floor(tenths / 36_000)];
  const seconds = `${two(Math.floor(tenths / 10) % 60)}.${tenths % 10}`;
  return hours ? `${hours}:${two(minutes % 60)}:${seconds}` : `${minutes}:${seconds}`;
}

/** The whole of it, for who points at the time. */
export function wholeTime(at: number | null): string {
  return at === null ? '' : new Date(at * 1000).toLocaleString('en-GB', { timeZoneName: 'short' });
}
