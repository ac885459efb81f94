import { afterEach, beforeEach, expect, it, vi } from 'vitest';

import { Poll, QUICKEST, SELDOM } from './poll';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => vi.useRealTimers());

it('asks while somebody looks and there is more to come', async () => {
  let [more, seen] = [true, true];
  const ask = vi.fn(async () => more);
  const poll = new Poll(ask, () => seen);
  await poll.now();
  await vi.advanceTimersByTimeAsync(QUICKEST);
  expect(ask).toHaveBeenCalledTimes(2);
  seen = false;
  await vi.advanceTimersByTimeAsync(10 * QUICKEST);
  expect(ask).toHaveBeenCalledTimes(2);
  [more, seen] = [false, true];
  await vi.advanceTimersByTimeAsync(10 * QUICKEST);
  expect(ask).toHaveBeenCalledTimes(3);
});

it('asks one question at a time, and seldom where answers take long', async () => {
  const ask = vi.fn(() => new Promise<boolean>(go => setTimeout(() => go(true), 1000)));
  const poll = new Poll(ask, () => true);
  const first = poll.now();
  void poll.now();
  void poll.now();
  await vi.advanceTimersByTimeAsync(2000);
  await first;
  expect(ask).toHaveBeenCalledTimes(2);
  await vi.advanceTimersByTimeAsync(30_000);
  expect(ask).toHaveBeenCalledTimes(2);
  await vi.advanceTimersByTimeAsync(10_000);
  expect(ask).toHaveBeenCalledTimes(3);
  poll.dispose();
  await vi.advanceTimersByTimeAsync(100_000);
  expect(ask).toHaveBeenCalledTimes(3);
});

it('asks again in a minute, however long an answer took', async () => {
  const ask = vi.fn(() => new Promise<boolean>(go => setTimeout(() => go(true), 600_000)));
  const poll = new Poll(ask, () => true);
  void poll.now();
  await vi.advanceTimersByTimeAsync(600_000 + SELDOM);
  expect(ask).toHaveBeenCalledTimes(2);
  poll.dispose();
});
