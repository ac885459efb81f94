// @vitest-environment jsdom
import { afterEach, beforeEach, expect, it, vi } from 'vitest';

import { claim } from './claims';

beforeEach(() => {
  localStorage.clear();
  vi.useFakeTimers();
});
afterEach(() => void vi.useRealTimers());

it('lets one tab tell, the one that is seen first', async () => {
  const hidden = claim('a', false);
  expect(await claim('a', true)).toBe(true);
  await vi.runAllTimersAsync();
  expect(await hidden).toBe(false);
  expect(await claim('a', true)).toBe(false); // as after a reload
});

it('lets one that nobody sees tell where no other does', async () => {
  const [first, second] = [claim('a', false), claim('a', false)];
  await vi.runAllTimersAsync();
  expect([await first, await second].sort()).toEqual([false, true]);
});

it('tells where nothing can be stored, and keeps no more than some', async () => {
  localStorage.setItem('submarine:told', '{"spoilt');
  expect(await claim('a', true)).toBe(true);
  localStorage.setItem('submarine:told', JSON.stringify([...Array(500).keys()].map(String)));
  expect(await claim('a', true)).toBe(true);
  expect(JSON.parse(localStorage.getItem('submarine:told') ?? '')).toHaveLength(200);
});
