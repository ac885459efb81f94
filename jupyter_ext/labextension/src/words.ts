/** Numbers, times and foreign text as words: what the card's own script has, and what a panel needs. */

import { seen } from '../../../magics/submarine_magics/card/words.js';

export { clock, duration, percent, size } from '../../../magics/submarine_magics/card/words.js';

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

const FINAL = new Set(['succeeded', 'failed', 'cancelled', 'lost']);

/** Foreign text as one line that cannot reorder or hide what stands around it, cut in the middle. */
export function visible(text: unknown, limit = 200): string {
  let line = String(text ?? '');
  if (line.length > limit) {
    const head = Math.floor((limit * 2) / 3);
    line = `${line.slice(0, head)} … ${line.slice(line.length - (limit - head))}`;
  }
  return seen(line);
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

/** What went wrong, in the words of who noticed it. */
export function problem(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
