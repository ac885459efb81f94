/** A log view that is fed by the page's stream alone, without a card beside it. */

import type { Feed } from '../feed';
import type { Card } from '../types';
import type { LogView } from './view';

/** Give `view` the job's logs as they come, and tell there why none come; returns what ends it. */
export function followLogs(
  feed: Feed,
  job: string,
  view: Pick<LogView, 'setLogs' | 'setTrouble'>
): () => void {
  const watched = feed.watch(job);
  const take = (_: unknown, card: Card) => {
    if (card.job_id === job) {
      view.setLogs(card.logs, card.outputs);
    }
  };
  const tell = () => {
    const gone = feed.isGone(job) ? 'This server does not know the job' : '';
    view.setTrouble(gone || feed.trouble(job));
  };
  feed.cardChanged.connect(take);
  feed.gone.connect(tell);
  feed.troubled.connect(tell);
  const known = feed.cards.get(job);
  if (known) {
    take(null, known);
  }
  tell();
  return () => {
    watched.dispose();
    feed.cardChanged.disconnect(take);
    feed.gone.disconnect(tell);
    feed.troubled.disconnect(tell);
  };
}
