import { describe, expect, it } from 'vitest';

import { HIGHEST, Scroll } from './scroll';

function scroll(total: number, height = 360): Scroll {
  const made = new Scroll(18);
  [made.total, made.height] = [total, height];
  return made;
}

describe('Scroll', () => {
  it('is a plain scroll bar for logs that fit', () => {
    const short = scroll(1000);
    expect(short.scaled).toBe(false);
    expect(short.barHeight).toBe(18_000);
    short.takeTop(900);
    expect(short.position).toBe(900);
    expect(short.range()).toEqual([50, 70]);
    expect(short.range(100)).toEqual([0, 170]);
  });

  it('never makes an element higher than browsers take', () => {
    expect(scroll(50_000_000).barHeight).toBe(HIGHEST);
  });

  it('reaches the first and the last line of any log', () => {
    for (const total of [0, 1, 20, 1e6, 5e7]) {
      const log = scroll(total);
      log.takeTop(1e9);
      expect(log.atEnd).toBe(true);
      expect(log.range()[1]).toBe(total);
      expect(log.top).toBeCloseTo(Math.max(0, log.barHeight - log.height), 3);
      log.move(0);
      expect(log.range()[0]).toBe(0);
      expect(log.top).toBe(0);
    }
  });

  it('moves by single lines where a pixel of the bar is many', () => {
    const log = scroll(50_000_000);
    log.move(18 * 1_000_000);
    const before = log.range()[0];
    log.move(log.position + 18);
    expect(log.range()[0]).toBe(before + 1);
    expect(log.takeTop(Math.round(log.top))).toBe(false); // what it set itself moves nothing
  });

  it('does not go back to what was drawn when the page tells of it after a further move', () => {
    const log = scroll(1000);
    log.takeTop(9000);
    log.move(0); // Home
    log.shown = log.top; // drawn; the page's event is still to come
    log.move(342); // page down
    expect(log.takeTop(0)).toBe(false);
    expect(log.position).toBe(342);
    expect(log.takeTop(20)).toBe(true);
    expect(log.position).toBe(20);
  });

  it('brings a line into the middle, and leaves one alone that is in sight', () => {
    const log = scroll(1000);
    log.reveal(5);
    expect(log.position).toBe(0);
    log.reveal(500);
    const [first, last] = log.range();
    expect(first).toBeLessThan(500);
    expect(last).toBeGreaterThan(501);
  });
});
