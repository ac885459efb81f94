/** Which jobs end while the page is open, whoever looks at them. */

import type { IDisposable } from '@lumino/disposable';

import type { Feed } from '../feed';
import type { Card, Overview } from '../types';
import { duration, isFinal, sentence, stateWord, visible } from '../words';

const MOST = 50; // jobs that are followed for their end alone

/** A job that is over, in words. */
export interface Ending {
  id: string;
  state: string;
  /** `mnist succeeded after 3 min 05 s`. */
  text: string;
}

type Source = Pick<Feed, 'cards' | 'overview' | 'cardChanged' | 'overviewChanged' | 'watch'>;

/** Follows each job that was seen running to its end; asks for nothing where none runs. */
export class Endings {
  constructor(
    private readonly _feed: Source,
    private readonly _tell: (ending: Ending) => unknown
  ) {
    _feed.cardChanged.connect((_, card) => this._card(card));
    _feed.overviewChanged.connect((_, overview) => this._overview(overview));
  }

  private _card(card: Card): void {
    const { job_id: id, state, title, sentence: why, elapsed } = card;
    this._see(id, state, () => words(title || id, card.word ?? state, why, elapsed));
  }

  private _overview(overview: Overview): void {
    for (const job of overview.jobs) {
      const { id, state, name, reason, created, finished } = job;
      const took = created !== null && finished !== null ? finished - created : NaN;
      const word = stateWord(state, reason);
      const why = word === state && state !== 'succeeded' ? reason : '';
      this._see(id, state, () => words(name || id, word, why, took));
    }
  }

  private _see(id: string, state: string, text: () => string): void {
    const watch = this._open.get(id);
    if (!isFinal(state)) {
      // The overview may be older than the card that told of the end.
      if (!watch && !this._told.has(id) && this._open.size < MOST) {
        this._open.set(id, this._feed.watch(id));
      }
    } else if (watch) {
      this._open.delete(id);
      this._told.add(id);
      watch.dispose();
      this._tell({ id, state, text: text() });
    }
  }

  private readonly _told = new Set<string>();
  private readonly _open = new Map<string, IDisposable>();
}

function words(name: string, word: string, why: string, seconds: number): string {
  const after = Number.isFinite(seconds) ? ` after ${duration(seconds)}` : '';
  const told = why ? `. ${sentence(visible(why, 200))}` : '';
  return `${visible(name, 60)} ${word}${after}${told}`;
}
