/** Looking for text in a log: the server searches, the reader goes from line to line. */

import type { Found } from '../types';

export type Search = (text: string, start: number, signal: AbortSignal) => Promise<Found>;

/** Which lines hold the text, as far as they are known, and which of them is shown. */
export class Finder {
  constructor(private readonly _search: Search) {}

  text = '';
  lines: number[] = [];
  at = -1;
  /** Where to search on; null where all lines are known. */
  private _next: number | null = null;
  private _abort = new AbortController();
  private _asking: Promise<void> | null = null;

  /** Begin anew; goes to the first line found from `near` on. Undefined once another has begun. */
  async find(text: string, near: number): Promise<number | null | undefined> {
    this._abort.abort();
    const { signal } = (this._abort = new AbortController());
    this._asking = null;
    [this.text, this.lines, this.at, this._next] = [text, [], -1, 0];
    if (!text) {
      return null;
    }
    await this._more();
    if (signal.aborted) {
      return undefined;
    }
    const at = this.lines.findIndex(line => line >= near);
    this.at = at < 0 && this.lines.length ? 0 : at;
    return this.line;
  }

  /** Go to the next line, or with -1 to the one before; round at the ends. As `find` for the rest. */
  async step(by: 1 | -1): Promise<number | null | undefined> {
    const { signal } = this._abort;
    if (by > 0 && this.at === this.lines.length - 1 && this._next !== null) {
      await this._more();
    }
    if (signal.aborted) {
      return undefined;
    }
    const { length } = this.lines;
    this.at = length ? (this.at + by + length) % length : -1;
    return this.line;
  }

  get line(): number | null {
    return this.lines[this.at] ?? null;
  }

  /** `3 of 1,000+`. */
  get words(): string {
    if (!this.text) {
      return '';
    }
    const all = `${this.lines.length.toLocaleString('en')}${this._next === null ? '' : '+'}`;
    return this.lines.length ? `${(this.at + 1).toLocaleString('en')} of ${all}` : 'not found';
  }

  /** Search on, once for all who ask meanwhile. */
  private async _more(): Promise<void> {
    const asking = (this._asking ??= this._ask(this._abort.signal));
    try {
      await asking;
    } finally {
      if (this._asking === asking) {
        this._asking = null;
      }
    }
  }

  private async _ask(signal: AbortSignal): Promise<void> {
    while (this._next !== null) {
      const found = await this._search(this.text, this._next, signal).catch((error: unknown) => {
        if (signal.aborted) {
          return null;
        }
        throw error;
      });
      if (!found || signal.aborted) {
        return;
      }
      this.lines.push(...found.lines);
      this._next = found.next;
      if (found.lines.length) {
        return;
      }
    }
  }
}
