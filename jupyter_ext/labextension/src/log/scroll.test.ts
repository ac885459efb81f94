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

describe('Heights', () => {
  it('puts the lines below a high one where they are', () => {
    const log = scroll(100);
    expect(log.measure(10, 118)).toBe(true);
    expect(log.measure(10, 118)).toBe(false);
    log.measure(5, 38);
    expect([log.offset(5), log.offset(6), log.offset(11)]).toEqual([90, 128, 318]);
    expect(log.textHeight).toBe(1920);
    expect([log.lineAt(200), log.lineAt(317), log.lineAt(318)]).toEqual([10, 10, 11]);
    log.measure(10, 18);
    expect(log.textHeight).toBe(1820);
    log.heights.clear();
    expect(log.textHeight).toBe(1800);
  });

  it('keeps what is in sight where it is when a line above it turns out to be high', () => {
    const log = scroll(100);
    log.move(900);
    log.measure(3, 218);
    expect(log.position).toBe(1100);
    expect(log.range()[0]).toBe(50);
    log.measure(50, 218);
    expect(log.position).toBe(1100);
  });
});
