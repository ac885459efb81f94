import { describe, expect, it } from 'vitest';

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
