import { describe, expect, it } from 'vitest';

import amounts from '../../../tests/card/amounts.json';
import {
  clock,
  count,
  duration,
  glyph,
  isFinal,
  percent,
  sentence,
  size,
  stateWord,
  visible,
  when
} from './words';

describe('words of a job', () => {
  it('tells who was killed from who was cancelled', () => {
    expect(stateWord('cancelled', 'killed')).toBe('killed');
    expect(stateWord('cancelling', 'killed')).toBe('killing');
    expect(stateWord('cancelled', 'enough')).toBe('cancelled');
    expect(stateWord('failed', 'killed')).toBe('failed');
  });

  it('dates what is not of today', () => {
    const at = (...parts: [number, number, number, number, number]) => +new Date(...parts) / 1000;
    const now = at(2025, 2, 14, 18, 0);
    expect(when(at(2025, 2, 14, 15, 9), now)).toBe('15:09');
    expect(when(at(2025, 2, 3, 5, 9), now)).toBe('3 Mar 05:09');
    expect(when(at(2024, 11, 31, 23, 59), now)).toBe('31 Dec 2024');
  });

  it('begins a sentence', () => {
    expect([sentence('waiting behind bob'), sentence('')]).toEqual(['Waiting behind bob', '']);
  });
});

describe('visible', () => {
  it('leaves plain text as it is', () => {
    expect(visible('mnist – Größe 👩‍🚀')).toBe('mnist – Größe 👩‍🚀');
  });

  it('shows what would hide or reorder', () => {
    expect(visible('a\u202eb\u0000c\u007fd\ne')).toBe('a[U+202E]b␀c␡d␊e');
  });

  it('cuts long text in the middle', () => {
    const line = visible('x'.repeat(10_000), 90);
    expect(line).toBe(`${'x'.repeat(60)} … ${'x'.repeat(30)}`);
  });

  it('takes anything', () => {
    expect([null, undefined, 3, {}].map(each => visible(each))).toEqual([
      '',
      '',
      '3',
      '[object Object]'
    ]);
  });
});

describe('amounts', () => {
  const told: Record<string, (amount: number) => string> = { clock, duration, percent, size };

  it.each(Object.entries(amounts))('tells %s as Python does', (name, cases) => {
    const [given, words] = [cases.map(each => each[0]), cases.map(each => each[1])];
    expect(given.map(amount => told[name]((amount as number | null) ?? NaN))).toEqual(words);
  });

  it('tells no time that never ends', () => {
    expect([clock(Infinity), duration(Infinity)]).toEqual(['—', '—']);
  });
});

it('counts and draws', () => {
  expect([count(1, 'GPU'), count(0, 'GPU')]).toEqual(['1 GPU', '0 GPUs']);
  expect([glyph('running'), glyph('__proto__x')]).toEqual(['●', '?']);
  expect(['running', 'cancelling', 'lost', 'succeeded'].map(isFinal)).toEqual([
    false,
    false,
    true,
    true
  ]);
});
