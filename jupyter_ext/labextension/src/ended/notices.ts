/** Which notebooks on the cluster are about to end because nobody uses them. */

import type { Feed } from '../feed';
import type { Card } from '../types';
import { visible } from '../words';

/** That a job ends soon, in words. */
export interface Notice {
  id: string;
  /** `explore: nobody has used it for 50 min; it ends in 10 min, …`. */
  text: string;
  /** Whether it has a page that can be opened. */
  opens: boolean;
}

/**
 * Tells of each notice once, and takes it back when it holds no more: the notebook is used, or over.
 *
 * Each page tells for itself, unlike of an end: what holds now is to be before whoever comes.
 */
export class Notices {
  /**
   * @param feed - Whose cards are looked at: those of all jobs that run, see `Endings`.
   * @param tell - Shows a notice; what it returns takes that away.
   */
  constructor(
    feed: Pick<Feed, 'cardChanged' | 'gone'>,
    private readonly _tell: (notice: Notice) => () => void
  ) {
    feed.cardChanged.connect((_, card) => this._card(card));
    feed.gone.connect((_, id) => this._show(id, ''));
  }

  private _card({ job_id: id, title, running, notice, notebook }: Card): void {
    const text = running && notice ? `${visible(title || id, 40)}: ${visible(notice, 200)}` : '';
    this._show(id, text, Boolean(notebook));
  }

  private _show(id: string, text: string, opens = false): void {
    if (text === (this._shown.get(id)?.text ?? '')) {
      return;
    }
    this._shown.get(id)?.dismiss();
    this._shown.delete(id);
    if (text) {
      this._shown.set(id, { text, dismiss: this._tell({ id, text, opens }) });
    }
  }

  private readonly _shown = new Map<string, { text: string; dismiss: () => void }>();
}
