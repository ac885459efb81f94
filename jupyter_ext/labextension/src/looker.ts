/** Nothing is asked of the server while nobody looks. */

import type { IDisposable } from '@lumino/disposable';

import type { Feed } from './feed';

/** Follows the overview while a part of the page shows it and the page itself is seen. */
export class Looker implements IDisposable {
  constructor(private readonly _feed: Pick<Feed, 'watchOverview'>) {
    document.addEventListener('visibilitychange', this._update);
  }

  /** Whether the part shows the overview now. */
  set looking(looking: boolean) {
    this._looking = looking;
    this._update();
  }

  get isDisposed(): boolean {
    return this._disposed;
  }

  dispose(): void {
    this._disposed = true;
    document.removeEventListener('visibilitychange', this._update);
    this._update();
  }

  private readonly _update = () => {
    const wanted = this._looking && !this._disposed && document.visibilityState === 'visible';
    if (wanted && !this._following) {
      this._following = this._feed.watchOverview();
    } else if (!wanted) {
      this._following?.dispose();
      this._following = null;
    }
  };

  private _looking = false;
  private _disposed = false;
  private _following: IDisposable | null = null;
}
