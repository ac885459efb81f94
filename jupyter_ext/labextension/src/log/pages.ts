/** A log's lines by number, fetched in pages; the ones looked at last are kept. */

import type { Lines } from '../types';

/** A line, which log it is of, and when it was written. */
export interface Line {
  text: string;
  err: boolean;
  at: number | null;
}

export const PAGE = 500;
export const MOST_PAGES = 40;

export type FetchLines = (count: number, start?: number, signal?: AbortSignal) => Promise<Lines>;

export class Pages {
  constructor(private readonly _fetch: FetchLines) {}

  /** Lines and bytes that the log had when the server was asked last; -1 before. */
  total = 0;
  size = -1;

  /** A line, or null where it is not here yet. */
  line(number: number): Line | null {
    const page = this._pages.get(Math.floor(number / PAGE));
    return page?.[number % PAGE] ?? null;
  }

  /** Get the lines from `first` to before `last`; true where that brought any. */
  async load(first: number, last: number): Promise<boolean> {
    const wanted: Promise<boolean>[] = [];
    const end = Math.min(last, this.total);
    for (let page = Math.floor(Math.max(0, first) / PAGE); page * PAGE < end; page++) {
      const kept = this._pages.get(page);
      if (kept && kept.length >= Math.min(PAGE, this.total - page * PAGE)) {
        this._pages.delete(page); // the one looked at last comes last
        this._pages.set(page, kept);
      } else {
        wanted.push(this._get(page));
      }
    }
    return (await Promise.all(wanted)).some(Boolean);
  }

  /** Ask how long the log is by now, with its end. */
  async refresh(): Promise<void> {
    const told = await this._fetch(PAGE);
    if (told.size < this.size || told.total < this.total) {
      this._pages.clear(); // the job cut its log
    } else {
      // The last line may have gone on since.
      this._pages.delete(Math.floor(Math.max(0, this.total - 1) / PAGE));
    }
    [this.total, this.size] = [told.total, told.size];
    this._keep(told);
  }

  private async _get(page: number): Promise<boolean> {
    const going = this._going.get(page);
    if (going) {
      return going;
    }
    const asked = this._fetch(PAGE, page * PAGE).then(told => {
      this._put(page, lines(told));
      return told.lines.length > 0;
    });
    this._going.set(page, asked);
    try {
      return await asked;
    } finally {
      this._going.delete(page);
    }
  }

  /** Keep lines that begin anywhere, where they make whole beginnings of pages. */
  private _keep(told: Lines): void {
    const found = lines(told);
    const end = told.start + found.length;
    for (let page = Math.floor(told.start / PAGE); page * PAGE < end; page++) {
      const before = this._pages.get(page) ?? [];
      const skipped = Math.max(0, told.start - page * PAGE);
      if (before.length >= skipped) {
        const from = Math.max(0, page * PAGE - told.start);
        const news = found.slice(from, from + PAGE - skipped);
        this._put(page, [...before.slice(0, skipped), ...news]);
      }
    }
  }

  private _put(page: number, kept: Line[]): void {
    this._pages.delete(page);
    this._pages.set(page, kept);
    for (const old of this._pages.keys()) {
      if (this._pages.size <= MOST_PAGES) {
        break;
      }
      this._pages.delete(old);
    }
  }

  private readonly _pages = new Map<number, Line[]>();
  private readonly _going = new Map<number, Promise<boolean>>();
}

function lines(told: Lines): Line[] {
  return told.lines.map((text, at) => ({
    text,
    err: told.streams?.[at] === 1,
    at: told.times?.[at] ?? null
  }));
}
