/** Numbers, times and foreign text as words, as Python's `submarine_magics.card.model` has them. */

const GLYPHS: Record<string, string> = {
  queued: '○',
  starting: '◌',
  running: '●',
  cancelling: '◍',
  succeeded: '✓',
  failed: '✕',
  cancelled: '■',
  lost: '?'
};

const UNITS = ['bytes', 'kB', 'MB', 'GB', 'TB'];

const FINAL = new Set(['succeeded', 'failed', 'cancelled', 'lost']);

// Unicode's control, format, surrogate, separator and private characters would reorder, hide or
// break the text around them; the two joiners spell words in Persian and Indic scripts.
const UNSEEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Co}]/gu;
const JOINERS = '\u200c\u200d';

/** Foreign text as one line that cannot reorder or hide what stands around it, cut in the middle. */
export function visible(text: unknown, limit = 200): string {
  let line = String(text ?? '');
  if (line.length > limit) {
    const head = Math.floor((limit * 2) / 3);
    line = `${line.slice(0, head)} … ${line.slice(line.length - (limit - head))}`;
  }
  return line.replace(UNSEEN, seen);
}

function seen(char: string): string {
  if (JOINERS.includes(char)) {
    return char;
  }
  const code = char.codePointAt(0)!;
  if (code < 0x20) {
    return String.fromCharCode(0x2400 + code);
  }
  return code === 0x7f ? '\u2421' : `[U+${code.toString(16).toUpperCase().padStart(4, '0')}]`;
}

/** A length of time in whole seconds: `38 s`, `3 min 05 s`, `2 h 07 min`, `4 d 1 h`. */
export function clock(seconds: number): string {
  if (!Number.isFinite(seconds)) {
    return '—';
  }
  const whole = Math.max(0, Math.floor(seconds));
  const [minutes, hours, days] = [60, 3600, 86400].map(unit => Math.floor(whole / unit));
  const two = (number: number) => String(number).padStart(2, '0');
  if (days) {
    return `${days} d ${hours % 24} h`;
  }
  if (hours) {
    return `${hours} h ${two(minutes % 60)} min`;
  }
  return minutes ? `${minutes} min ${two(whole % 60)} s` : `${whole} s`;
}

/** A length of time that is over: `38 ms`, `4.2 s`, `3 min 05 s`. */
export function duration(seconds: number): string {
  if (seconds < 0.9995) {
    return `${(Math.max(0, seconds) * 1000).toFixed(0)} ms`;
  }
  return seconds < 9.95 ? `${seconds.toFixed(1)} s` : clock(seconds + 0.5);
}

/** `1 GPU`, `1,234 lines`. */
export function count(number: number, noun: string): string {
  return `${number.toLocaleString('en')} ${noun}${number === 1 ? '' : 's'}`;
}

export function glyph(state: string): string {
  return GLYPHS[state] ?? '?';
}

/** A job's state as it is shown: one that was ended at once was not cancelled. */
export function stateWord(state: string, reason: string): string {
  const words: Record<string, string> = { cancelling: 'killing', cancelled: 'killed' };
  return (reason === 'killed' && words[state]) || state;
}

/** `Waiting behind bob-llm`, of `waiting behind bob-llm`. */
export function sentence(text: string): string {
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}

/** When something was, as short as it is clear: `15:09`, `14 Mar 15:09`, `14 Mar 2025`. */
export function when(seconds: number, now: number): string {
  const [then, today] = [new Date(seconds * 1000), new Date(now * 1000)];
  const day = then.toLocaleDateString('en-GB', { day: 'numeric', month: 'short' });
  if (then.getFullYear() !== today.getFullYear()) {
    return `${day} ${then.getFullYear()}`;
  }
  const time = then.toTimeString().slice(0, 5);
  return then.toDateString() === today.toDateString() ? time : `${day} ${time}`;
}

/** Whether a job in this state is over. */
export function isFinal(state: string): boolean {
  return FINAL.has(state);
}

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

/** What went wrong, in the words of who noticed it. */
export function problem(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
