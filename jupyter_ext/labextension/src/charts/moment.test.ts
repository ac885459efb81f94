// @vitest-environment jsdom
import { afterEach, beforeEach, expect, it, vi } from 'vitest';

import type { LineAt } from '../types';
import { LogMoment } from './moment';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => vi.useRealTimers());

type Ask = (job: string, task: string, at: number) => Promise<LineAt>;

const answer = (line: number | null, ...lines: string[]): LineAt => ({
  total: 9, size: 9, start: 0, lines, times: lines.map(() => 1), streams: [], line
}); // prettier-ignore

it('asks once the cursor rests, one question at a time, and shows text as text', async () => {
  const answers: ((told: LineAt) => void)[] = [];
  const lineAt = vi.fn<Ask>(() => new Promise(go => answers.push(go)));
  const moment = new LogMoment({ lineAt }, 'j');
  moment.at(4);
  await vi.runAllTimersAsync();
  expect(lineAt).not.toHaveBeenCalled(); // no task has told anything yet
  moment.offer(['worker-0', 'worker-1']);
  moment.at(5);
  moment.at(6);
  await vi.runAllTimersAsync();
  moment.at(7);
  moment.at(null);
  await vi.runAllTimersAsync();
  expect(lineAt.mock.calls).toEqual([['j', 'worker-0', 6]]);
  answers[0](answer(1, 'first', '<b>second</b>'));
  await vi.runAllTimersAsync();
  expect(lineAt.mock.calls.slice(1)).toEqual([['j', 'worker-0', 7]]);
  expect(moment.node.querySelector('b')).toBe(null);
  const now = moment.node.querySelector('[aria-current]')!;
  expect(now.textContent).toContain('<b>second</b>');
  answers[1](answer(null));
  await vi.runAllTimersAsync();
  expect(moment.node.textContent).toContain('nothing was written yet');
});

it('asks for the task that is chosen, and says what went wrong', async () => {
  const lineAt = vi.fn<Ask>(() => Promise.reject(new Error('it is gone')));
  const moment = new LogMoment({ lineAt }, 'j');
  moment.offer(['worker-0', 'worker-1']);
  const select = moment.node.querySelector('select')!;
  select.value = 'worker-1';
  moment.offer(['worker-0', 'worker-1', 'worker-2']);
  moment.at(5);
  await vi.runAllTimersAsync();
  expect(lineAt.mock.calls).toEqual([['j', 'worker-1', 5]]);
  expect(moment.node.textContent).toContain('No log: it is gone');
  moment.dispose();
  moment.at(6);
  await vi.runAllTimersAsync();
  expect(lineAt).toHaveBeenCalledOnce();
});
