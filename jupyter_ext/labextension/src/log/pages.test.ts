import { describe, expect, it } from 'vitest';

import { MOST_PAGES, PAGE, Pages } from './pages';

/** A log in memory that answers as the server does. */
class Log {
  lines: string[] = [];
  asked: (number | undefined)[] = [];

  readonly fetch = async (count: number, start?: number) => {
    this.asked.push(start);
    const total = this.lines.length;
    const first = start ?? Math.max(0, total - count);
    const lines = this.lines.slice(first, first + count);
    return { total, size: this.lines.join('\n').length, start: first, lines };
  };

  grow(to: number): void {
    while (this.lines.length < to) {
      this.lines.push(`line ${this.lines.length}`);
    }
  }
}

const text = (pages: Pages, at: number) => pages.line(at)?.text ?? null;

async function opened(lines: number): Promise<[Log, Pages]> {
  const log = new Log();
  log.grow(lines);
  const pages = new Pages(log.fetch);
  await pages.refresh();
  return [log, pages];
}

describe('Pages', () => {
  it('gives each line by its number, whatever was fetched before', async () => {
    const [log, pages] = await opened(3 * PAGE + 7);
    for (const at of [0, PAGE - 1, PAGE, 2 * PAGE + 3, 3 * PAGE + 6]) {
      await pages.load(at, at + 1);
      expect(text(pages, at)).toBe(log.lines[at]);
    }
    expect(text(pages, 3 * PAGE + 7)).toBeNull();
  });

  it('follows a log that grows, and a last line that goes on', async () => {
    const [log, pages] = await opened(3);
    log.lines[2] = 'line 2 goes on';
    log.grow(PAGE + 2);
    await pages.refresh();
    expect(pages.total).toBe(PAGE + 2);
    await pages.load(0, PAGE + 2);
    expect(log.lines.every((line, at) => text(pages, at) === line)).toBe(true);
  });

  it('begins anew where the job cut its log', async () => {
    const [log, pages] = await opened(10);
    log.lines = ['new'];
    await pages.refresh();
    expect([pages.total, text(pages, 0)]).toEqual([1, 'new']);
  });

  it('asks once for what it has or is getting', async () => {
    const [log, pages] = await opened(10 * PAGE);
    await Promise.all([pages.load(0, 10), pages.load(5, 20)]);
    await pages.load(0, PAGE);
    expect(log.asked.filter(start => start === 0)).toHaveLength(1);
  });

  it('keeps no more pages than it may', async () => {
    const [log, pages] = await opened(3 * MOST_PAGES * PAGE);
    for (let page = 0; page < 2 * MOST_PAGES; page++) {
      await pages.load(page * PAGE, page * PAGE + 1);
    }
    const kept = log.lines.filter((_, at) => text(pages, at) !== null).length;
    expect(kept).toBeLessThanOrEqual(MOST_PAGES * PAGE);
    expect(text(pages, 0)).toBeNull();
  });
});
