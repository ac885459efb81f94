import { describe, expect, it, vi } from 'vitest';

import type { Api } from '../api';
import type { Feed } from '../feed';
import type { Card, JobSummary, Overview } from '../types';
import { jobs, known, summary } from './choose';

vi.mock('@jupyterlab/apputils', () => ({})); // its dialogs need a whole page

function feed(jobs: Partial<JobSummary>[] | null, cards: Partial<Card>[]): Feed {
  const overview = jobs && ({ jobs } as Overview);
  const known = new Map(cards.map(card => [card.job_id!, card as Card]));
  return { overview, cards: known } as Partial<Feed> as Feed;
}

describe('known', () => {
  it('takes the overview, else a card that is shown, and asks nobody', () => {
    const times = { now: 1010, elapsed: 10 };
    const card = { job_id: 'b', title: 'net', state: 'running', cluster: 'yarn', ...times };
    const row = { ...summary('a'), name: 'listed' };
    for (const overview of [null, [row]]) {
      const found = known(feed(overview, [card]), 'b');
      const expected = { name: 'net', state: 'running', cluster: 'yarn', created: 1000 };
      expect(found).toEqual({ ...summary('b'), ...expected });
    }
    expect(known(feed([row], [{ ...card, job_id: 'a' }]), 'a')).toBe(row);
    expect(known(feed([row], [card]), 'c')).toBeUndefined();
    const late = feed([row], [{ ...card, job_id: 'a' }]);
    late.overview!.now = 500; // nobody has looked at it since
    expect(known(late, 'a')).toEqual({ ...row, state: 'running' });
  });
});

it('asks for the jobs where those of the page may be old', async () => {
  const [old, now] = [[summary('a')], [summary('a'), summary('b')]];
  const api = { overview: async () => ({ jobs: now }) } as unknown as Api;
  const overview = { jobs: old } as Overview;
  expect(await jobs({ overview, fresh: null } as Partial<Feed> as Feed, api)).toBe(now);
  expect(await jobs({ overview, fresh: overview } as Partial<Feed> as Feed, api)).toBe(old);
});
