// @vitest-environment jsdom
import { Signal } from '@lumino/signaling';
import { expect, it, vi } from 'vitest';

import type { Feed } from '../feed';
import type { Card, Overview } from '../types';
import { TitleBadge } from './badge';
import { type Ending, Endings } from './endings';

class Told {
  cardChanged = new Signal<this, Card>(this);
  overviewChanged = new Signal<this, Overview>(this);
  watched: string[] = [];
  watch = (id: string) => {
    this.watched.push(id);
    return { isDisposed: false, dispose: () => void this.watched.splice(0, 1) };
  };
}

it('follows what runs, and tells of each end once', () => {
  const feed = new Told();
  const endings: Ending[] = [];
  new Endings(feed as unknown as Feed, ending => endings.push(ending));
  const job = { name: 'net\u202e', reason: '', created: 10, finished: null as number | null };
  const overview = (state: string, more = {}) =>
    feed.overviewChanged.emit({ jobs: [{ id: 'a', state, ...job, ...more }] } as Overview);
  overview('succeeded', { finished: 20 }); // over before it was seen
  expect([endings, feed.watched]).toEqual([[], []]);
  overview('running');
  overview('running');
  expect(feed.watched).toEqual(['a']);
  const card = { job_id: 'a', title: 'net', sentence: 'exit code 1', elapsed: 185 };
  feed.cardChanged.emit({ ...card, state: 'failed' } as Card);
  overview('failed', { finished: 195 });
  expect(endings).toEqual([
    { id: 'a', state: 'failed', text: 'net failed after 3 min 05 s. Exit code 1' }
  ]);
  overview('running'); // an overview that is older than the card
  overview('failed', { finished: 195 });
  expect(endings).toHaveLength(1);
  expect(feed.watched).toEqual([]);
  const other = { id: 'b', ...job, state: 'cancelled', finished: 12, reason: 'killed' };
  for (const state of ['running', 'cancelled']) {
    feed.overviewChanged.emit({ jobs: [{ ...other, state }] } as Overview);
  }
  expect(endings[1].text).toBe('net[U+202E] killed after 2.0 s');
});

it('marks a tab until it is seen', () => {
  document.title = 'a.ipynb';
  const badge = new TitleBadge();
  badge.show('succeeded', 'net succeeded');
  badge.show('failed', 'other failed');
  expect(document.title).toBe('✕ other failed · a.ipynb');
  vi.spyOn(document, 'visibilityState', 'get').mockReturnValue('visible');
  document.dispatchEvent(new Event('visibilitychange'));
  expect(document.title).toBe('a.ipynb');
});
