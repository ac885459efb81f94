/** Numbers of cards and logs as words. */

const UNITS = ['bytes', 'kB', 'MB', 'GB', 'TB'];

/** `72 %`; never 100 % before the end. */
export function percent(fraction: number): string {
  return `${Math.floor(fraction * 100 + 1e-9)} %`;
}

/** `843 bytes`, `1.20 MB`. */
export function size(bytes: number): string {
  let at = 0;
  while (bytes >= 1000 && at < UNITS.length - 1) {
    [bytes, at] = [bytes / 1000, at + 1];
  }
  return `${at ? bytes.toPrecision(3) : bytes} ${UNITS[at]}`;
}

/** A measured value in few digits. */
export function measured(value: number): string {
  if (!Number.isFinite(value)) {
    return String(value);
  }
  const far = value !== 0 && (Math.abs(value) < 1e-3 || Math.abs(value) >= 1e6);
  return far ? value.toExponential(2) : String(Number(value.toPrecision(4)));
}

/** `1,234 lines`, `1 line`. */
export function count(number: number, noun: string): string {
  return `${number.toLocaleString('en')} ${noun}${number === 1 ? '' : 's'}`;
}
