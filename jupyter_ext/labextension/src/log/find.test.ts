import { describe, expect, it, vi } from 'vitest';

import { Finder } from './find';
import { split } from './rows';

const LINES = [3, 50, 700];

function finder(): Finder {
  // Two lines an answer, and one answer without any, as of a long log.
  return new Finder(async (_, start) => {
    const found = LINES.filter(line => line >= start).slice(0, start === 51 ? 0 : 2);
    const next = start === 0 ? 51 : start === 51 ? 100 : null;
    return { lines: found, next };
  });
}

describe('Finder', () => {
  it('begins near the reader, goes on and round', async () => {
    const found = finder();
    expect(await found.find('x', 10)).toBe(50);
    expect(found.words).toBe('2 of 2+');
    expect(await found.step(1)).toBe(700);
    expect(found.words).toBe('3 of 3');
    expect(await found.step(1)).toBe(3);
    expect(await found.step(-1)).toBe(700);
  });

  it('says nothing of a search that another has taken the place of', async () => {
    const found = new Finder(
      (text, _, signal) =>
        new Promise((resolve, reject) => {
          signal.addEventListener('abort', () => reject(new Error('aborted')));
          if (text === 'loss') {
            resolve({ lines: [3, 50], next: null });
          }
        })
    );
    const first = found.find('los', 0);
    const second = found.find('loss', 10);
    expect(await first).toBeUndefined();
    expect(await second).toBe(50);
    expect(found.words).toBe('2 of 2');
  });

  it('asks once for what two steps need', async () => {
    const search = vi.fn(async (_: string, start: number) => ({
      lines: start ? [50, 700] : [3],
      next: start ? null : 10
    }));
    const found = new Finder(search);
    await found.find('x', 0);
    expect(await Promise.all([found.step(1), found.step(1)])).toEqual([50, 700]);
    expect([search.mock.calls.length, found.words]).toEqual([2, '3 of 3']);
  });

  it('says where there is nothing', async () => {
    const found = new Finder(async () => ({ lines: [], next: null }));
    expect(await found.find('x', 0)).toBeNull();
    expect(await found.step(1)).toBeNull();
    expect(found.words).toBe('not found');
  });
});

describe('split', () => {
  it('points out what was looked for, whatever its case', () => {
    expect(split('Loss, loss', 'LOSS')).toEqual([
      ['Loss', true],
      [', ', false],
      ['loss', true]
    ]);
    expect(split('<b>', '')).toEqual([['<b>', false]]);
  });
});
