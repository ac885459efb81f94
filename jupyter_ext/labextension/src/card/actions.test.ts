// @vitest-environment jsdom
import { expect, it, vi } from 'vitest';

import { mayCancel } from '../commands/dialogs';
import type { Card } from '../types';
import { Actions, type Place } from './actions';

vi.mock('../commands/dialogs', () => ({ mayCancel: vi.fn(async () => false) }));

it('asks about a job by its age now, not by that of its card', async () => {
  const place = { submarine: { api: {}, feed: { now: 8600 } } } as unknown as Place;
  const card = { title: 'net', elapsed: 100, now: 5000 } as Card;
  await new Actions(place, () => undefined).cancel(card);
  expect(vi.mocked(mayCancel).mock.calls).toEqual([['net', 3700]]);
});
