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

  /** Begin anew; goes to the first line found from `near` on. */
  async find(text: string, near: number): Promise<number | null> {
    this._abort.abort();
    this._abort = new AbortController();
    [this.text, this.lines, this.at, this._next] = [text, [], -1, 0];
    if (!text) {
      return null;
    }
    await this._more();
    const at = this.lines.findIndex(line => line >= near);
    this.at = at < 0 && this.lines.length ? 0 : at;
    return this.line;
  }

  /** Go to the next line, or with -1 to the one before; round at the ends. */
  async step(by: 1 | -1): Promise<number | null> {
    if (by > 0 && this.at === this.lines.length - 1 && this._next !== null) {
      await this._more();
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

  private async _more(): Promise<void> {
    while (this._next !== null) {
      const { signal } = this._abort;
      const found = await this._search(this.text, this._next, signal);
      if (signal.aborted) {
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
