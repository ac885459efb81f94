// @vitest-environment jsdom
import { afterEach, beforeEach, expect, it, vi } from 'vitest';

import type { Spark } from '../types';
import { BATCH, corners, draw, OLD, Sparks } from './sparks';

/** What jsdom has none of: the test says which rows are seen. */
class Observer {
  static last: Observer;
  readonly observed = new Set<Element>();
  constructor(readonly tell: (entries: unknown[]) => void) {
    Observer.last = this;
  }
  observe = (node: Element) => this.observed.add(node);
  unobserve = (node: Element) => this.observed.delete(node);
  disconnect = () => this.observed.clear();
}

type Ask = (ids: string[]) => Promise<Record<string, Spark>>;

const spark: Spark = { name: 'GPU', last: '93 %', points: [[0, 0], [1, 100]], least: 0, most: 100 }; // prettier-ignore

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal('IntersectionObserver', Observer);
});
afterEach(() => vi.useRealTimers());

function listed(count: number, final = false) {
  const nodes = new Map(
    Array.from({ length: count }, (_, number) => {
      const node = document.createElement('div');
      node.dataset.job = `j${number}`;
      return [`j${number}`, node] as const;
    })
  );
  const jobs = [...nodes.keys()].map(id => ({ id, final }));
  const see = (isIntersecting: boolean, ...ids: string[]) =>
    Observer.last.tell(ids.map(id => ({ target: nodes.get(id), isIntersecting })));
  return { nodes, jobs, see };
}

it('asks for the rows that are seen alone, and for those that run again', async () => {
  const ask = vi.fn(async (ids: string[]) => Object.fromEntries(ids.map(id => [id, spark])));
  const sparks = new Sparks(ask, document.body);
  const { nodes, jobs, see } = listed(200);
  sparks.update(jobs, nodes);
  expect(ask).not.toHaveBeenCalled();
  see(true, 'j0', 'j1');
  await vi.runAllTimersAsync();
  expect(ask.mock.calls).toEqual([[['j0', 'j1']]]);
  expect(nodes.get('j1')!.querySelector('polyline')).not.toBe(null);
  sparks.refresh();
  expect(ask).toHaveBeenCalledOnce(); // it is not old yet
  vi.setSystemTime(Date.now() + OLD);
  see(false, 'j0');
  await vi.runAllTimersAsync();
  expect(ask.mock.calls.slice(1)).toEqual([[['j1']]]);
  sparks.update([{ id: 'j1', final: true }], new Map([['j1', nodes.get('j1')!]]));
  await vi.runAllTimersAsync();
  vi.setSystemTime(Date.now() + OLD);
  sparks.refresh();
  expect(ask.mock.calls.slice(2)).toEqual([[['j1']]]); // once more as it is over, and no more
  expect(Observer.last.observed.size).toBe(1);
});

it('asks for some at a time, and for none once it is gone', async () => {
  const answers: ((told: Record<string, Spark>) => void)[] = [];
  const ask = vi.fn<Ask>(() => new Promise(go => answers.push(go)));
  const sparks = new Sparks(ask, document.body);
  const { nodes, jobs, see } = listed(BATCH + 5, true);
  sparks.update(jobs, nodes);
  see(true, ...nodes.keys());
  expect(ask.mock.calls[0][0].length).toBe(BATCH);
  sparks.refresh();
  expect(ask).toHaveBeenCalledOnce(); // one question at a time
  answers[0]({ j0: spark });
  await vi.runAllTimersAsync();
  expect(ask.mock.calls[1][0].length).toBe(5);
  sparks.dispose();
  answers[1]({ j52: spark });
  await vi.runAllTimersAsync();
  expect(nodes.get('j52')!.childElementCount).toBe(0);
  expect(ask).toHaveBeenCalledTimes(2);
});

it('goes on after a question that failed', async () => {
  const ask = vi.fn<Ask>(() => Promise.reject(new Error('no')));
  const sparks = new Sparks(ask, document.body);
  const { nodes, jobs, see } = listed(1);
  sparks.update(jobs, nodes);
  see(true, 'j0');
  await vi.runAllTimersAsync();
  vi.setSystemTime(Date.now() + OLD);
  sparks.refresh();
  expect(ask).toHaveBeenCalledTimes(2);
});

it('asks again for a job that is over where that question failed, but not at once', async () => {
  const ask = vi.fn<Ask>(() => Promise.reject(new Error('no')));
  const sparks = new Sparks(ask, document.body);
  const { nodes, jobs, see } = listed(1, true);
  sparks.update(jobs, nodes);
  see(true, 'j0');
  await vi.advanceTimersByTimeAsync(1);
  sparks.refresh();
  expect(ask).toHaveBeenCalledOnce();
  ask.mockImplementation(async () => ({ j0: spark }));
  for (let round = 0; round < 2; round++) {
    vi.setSystemTime(Date.now() + OLD);
    sparks.refresh();
    await vi.advanceTimersByTimeAsync(1);
    expect(ask).toHaveBeenCalledTimes(2); // its curve is not asked for again
  }
  expect(nodes.get('j0')!.querySelector('polyline')).not.toBe(null);
});

it('draws a curve as far as it reaches, and takes it away', () => {
  expect(corners(spark)).toBe('0.0,13.0 56.0,1.0');
  expect(corners({ ...spark, least: null, most: null, points: [[3, 5], [3, 5]] })).toBe('0.0,7.0 0.0,7.0'); // prettier-ignore
  const row = document.createElement('div');
  draw(row, { ...spark, name: '<img src=x>' });
  draw(row, spark);
  expect(row.querySelectorAll('svg').length).toBe(1);
  expect(row.querySelector('img')).toBe(null);
  expect(row.querySelector('svg')!.getAttribute('aria-label')).toBe('GPU over time, now 93 %');
  draw(row, null);
  expect(row.childElementCount).toBe(0);
});
