import { Signal } from '@lumino/signaling';
import { expect, it } from 'vitest';

import type { Card } from '../types';
import { type Notice, Notices } from './notices';

class Told {
  cardChanged = new Signal<this, Card>(this);
  gone = new Signal<this, string>(this);
}

it('tells of each notice once, and takes it back when it holds no more', () => {
  const feed = new Told();
  const shown: Notice[] = [];
  new Notices(feed as never, notice => {
    shown.push(notice);
    return () => void shown.splice(shown.indexOf(notice), 1);
  });
  const card = { job_id: 'a', title: 'explore\u202e', running: true, notebook: true };
  const say = (notice: string, more = {}) =>
    feed.cardChanged.emit({ ...card, notice, ...more } as Card);
  say('');
  expect(shown).toEqual([]);
  say('it ends in 1 h');
  const [hour] = shown;
  expect(hour).toEqual({ id: 'a', text: 'explore[U+202E]: it ends in 1 h', opens: true });
  say('it ends in 1 h', { elapsed: 5 });
  expect(shown).toEqual([hour]);
  expect(shown[0]).toBe(hour); // the very same: it was not shown anew
  say('it ends in 10 min');
  expect(shown.map(one => one.text)).toEqual(['explore[U+202E]: it ends in 10 min']);
  say(''); // somebody uses it
  expect(shown).toEqual([]);
  say('it ends in 10 min');
  say('it ends in 1 h', { job_id: 'b', notebook: false });
  expect(shown.map(one => one.opens)).toEqual([true, false]);
  say('it ends in 10 min', { running: false });
  feed.gone.emit('b');
  expect(shown).toEqual([]);
});
