/** Asks again and again while somebody looks, as often as the answers allow. */

import type { IDisposable } from '@lumino/disposable';

/** Milliseconds between two questions, at least. */
export const QUICKEST = 2000;
/** Of the time at most one part in so many is spent with questions. */
const SHARE = 20;
/** Milliseconds between two questions, at most: one that took long may have been a server's end. */
export const SELDOM = 60_000;

export class Poll implements IDisposable {
  /**
   * @param _ask Returns whether there may be more to come.
   * @param _seen Whether anybody sees the answer.
   */
  constructor(
    private readonly _ask: () => Promise<boolean>,
    private readonly _seen: () => boolean
  ) {}

  get isDisposed(): boolean {
    return this._disposed;
  }

  /** Ask now; one question at a time, and one more for what changed meanwhile. */
  async now(): Promise<void> {
    clearTimeout(this._timer);
    if (this._busy) {
      this._again = true;
      return;
    }
    this._busy = true;
    const began = performance.now();
    let more = true;
    do {
      this._again = false;
      more = await this._ask();
    } while (this._again && !this._disposed);
    this._busy = false;
    if (more && !this._disposed) {
      const took = performance.now() - began;
      const pause = Math.min(SELDOM, Math.max(QUICKEST, SHARE * took));
      this._timer = setTimeout(() => this._tick(), pause);
    }
  }

  dispose(): void {
    this._disposed = true;
    clearTimeout(this._timer);
  }

  private _tick(): void {
    if (this._seen()) {
      void this.now();
    } else {
      this._timer = setTimeout(() => this._tick(), QUICKEST);
    }
  }

  private _timer: ReturnType<typeof setTimeout> | undefined;
  private _busy = false;
  private _again = false;
  private _disposed = false;
}
