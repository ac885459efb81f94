import { afterEach, describe, expect, it, vi } from 'vitest';

import { type Api, ApiError } from './api';
import { Feed } from './feed';
import { SILENCE } from './sse';

/** Stands in for the server: streams that a test writes to and breaks. */
class Streams {
  asked: string[] = [];
  open: ReadableStreamDefaultController<Uint8Array>[] = [];
  refuse: Error | null = null;

  readonly api = {
    request: async (path: string, init: RequestInit) => {
      this.asked.push(path);
      if (this.refuse) {
        throw this.refuse;
      }
      const body = new ReadableStream<Uint8Array>({
        start: controller => {
          this.open.push(controller);
          init.signal!.addEventListener('abort', () => controller.error(new Error('aborted')));
        }
      });
      return new Response(body);
    }
  } as unknown as Api;

  say(kind: string, data: unknown): void {
    this._write(`event: ${kind}\ndata: ${JSON.stringify(data)}\n\n`);
  }

  /** What keeps a stream that has nothing to say open. */
  beat(): void {
    this._write(': nothing new\n\n');
  }

  private _write(text: string): void {
    this.open[this.open.length - 1].enqueue(new TextEncoder().encode(text));
  }
}

const card = (id: string, running: boolean) => ({ job_id: id, running });

afterEach(() => vi.useRealTimers());

describe('Feed', () => {
  it('opens one stream for all jobs of a page, and again where it breaks', async () => {
    vi.useFakeTimers();
    const server = new Streams();
    const feed = new Feed(server.api);
    const [seen, troubles] = [[] as string[], [] as string[]];
    feed.cardChanged.connect((_, each) => seen.push(each.job_id));
    feed.troubled.connect(() => troubles.push(feed.trouble('a')));
    feed.watch('a');
    feed.watch('b');
    await vi.advanceTimersByTimeAsync(100);
    expect(server.asked).toEqual(['api/stream?jobs=a,b']);
    server.say('card', card('a', true));
    await vi.advanceTimersByTimeAsync(1);
    server.refuse = new Error('no answer');
    server.open[0].error(new Error('broken'));
    await vi.advanceTimersByTimeAsync(5000);
    expect(troubles.at(-1)).toBe('Server unreachable; reconnecting');
    server.refuse = null;
    await vi.advanceTimersByTimeAsync(20_000);
    expect(troubles.at(-1)).toBe('');
    server.say('card', card('b', true));
    await vi.advanceTimersByTimeAsync(1);
    expect(seen).toEqual(['a', 'b']);
  });

  it('knows when the server made what it sends again', async () => {
    vi.useFakeTimers({ now: 100_000 });
    const server = new Streams();
    const feed = new Feed(server.api);
    feed.watch('a');
    await vi.advanceTimersByTimeAsync(100);
    server.say('card', { ...card('a', true), now: 40 }); // another clock, and some time ago
    await vi.advanceTimersByTimeAsync(1);
    expect(feed.made({ now: 40 })).toBeCloseTo(Date.now(), -2);
    server.say('card', { ...card('a', true), now: 50 });
    await vi.advanceTimersByTimeAsync(1);
    expect(feed.made({ now: 50 })).toBeCloseTo(Date.now(), -2);
    expect(feed.made({ now: 40 })).toBeCloseTo(Date.now() - 10_000, -2);
  });

  it('knows what the time is for the server', async () => {
    vi.useFakeTimers({ now: 100_000 });
    const server = new Streams();
    const feed = new Feed(server.api);
    expect(feed.now).toBe(100);
    feed.watchOverview();
    await vi.advanceTimersByTimeAsync(100);
    server.say('overview', { jobs: [], now: 5000 });
    await vi.advanceTimersByTimeAsync(1);
    vi.setSystemTime(Date.now() + 3_600_000);
    expect(feed.now).toBeCloseTo(8600, 0); // however old the overview is
  });

  it('knows whether the overview is how things stand', async () => {
    vi.useFakeTimers();
    const server = new Streams();
    const feed = new Feed(server.api);
    const followed = feed.watchOverview();
    await vi.advanceTimersByTimeAsync(100);
    expect(feed.fresh).toBe(null);
    server.say('overview', { jobs: [] });
    await vi.advanceTimersByTimeAsync(1);
    expect(feed.fresh).toBe(feed.overview);
    followed.dispose();
    expect([feed.fresh, feed.overview]).toEqual([null, { jobs: [] }]);
    feed.watchOverview(); // what was told last is not what is
    expect(feed.fresh).toBe(null);
  });

  it('opens a stream anew that has fallen silent', async () => {
    vi.useFakeTimers();
    const server = new Streams();
    const feed = new Feed(server.api);
    feed.watch('a');
    await vi.advanceTimersByTimeAsync(100);
    server.say('card', card('a', true));
    await vi.advanceTimersByTimeAsync(SILENCE);
    expect(feed.trouble('a')).toBe('Server unreachable; reconnecting');
    await vi.advanceTimersByTimeAsync(1000);
    expect(server.asked).toHaveLength(2);
    expect(feed.trouble('a')).toBe('');
  });

  it('asks for as many jobs as the server takes, and for others as those get over', async () => {
    vi.useFakeTimers();
    const server = new Streams();
    const feed = new Feed(server.api);
    const ids = Array.from({ length: 203 }, (_, at) => `j${1000 + at}`);
    ids.forEach(id => feed.watch(id));
    await vi.advanceTimersByTimeAsync(100);
    const jobs = (path: string) => path.split('=')[1].split(',');
    expect(jobs(server.asked[0])).toEqual(ids.slice(3));
    server.say('card', card('j1100', false));
    server.say('gone', { id: 'j1101' });
    await vi.advanceTimersByTimeAsync(100);
    expect(server.asked).toHaveLength(2); // once for both
    const left = ids.filter(id => id !== 'j1100' && id !== 'j1101');
    expect(jobs(server.asked[1])).toEqual(left.slice(1));
    left.slice(1).forEach(id => server.say('card', card(id, false)));
    await vi.advanceTimersByTimeAsync(100);
    expect(jobs(server.asked[2])).toEqual(['j1000']);
  });

  it('tells of what the server cannot look at, until it can', async () => {
    vi.useFakeTimers();
    const server = new Streams();
    const feed = new Feed(server.api);
    const [troubles, gone] = [[] as string[][], [] as string[]];
    feed.troubled.connect(() => troubles.push([feed.trouble(), feed.trouble('a')]));
    feed.gone.connect((_, id) => gone.push(id));
    feed.watchOverview();
    feed.watch('a');
    await vi.advanceTimersByTimeAsync(100);
    server.say('problem', { id: '', what: 'no TOML', where: 'config.toml', fix: '' });
    server.say('problem', { id: 'a', what: 'no answer', where: 'yarn', fix: 'ask\u202e again' });
    await vi.advanceTimersByTimeAsync(1);
    expect(troubles.at(-1)).toEqual([
      'No TOML (config.toml)',
      'No answer (yarn). Ask[U+202E] again.'
    ]);
    server.say('overview', { jobs: [] });
    server.say('card', card('a', true));
    await vi.advanceTimersByTimeAsync(1);
    expect(troubles.at(-1)).toEqual(['', '']);
    for (let beat = 0; beat < 4; beat++) {
      server.beat();
      await vi.advanceTimersByTimeAsync(15_000);
    }
    expect(server.asked).toEqual(['api/stream?jobs=a&overview=1']); // it is followed as before
    expect(gone).toEqual([]);
  });

  it('finds an extension that was enabled later, and asks for it seldom', async () => {
    vi.useFakeTimers();
    const server = new Streams();
    const feed = new Feed(server.api);
    server.refuse = new ApiError('Not Found', '', '', 404);
    feed.watch('a');
    await vi.advanceTimersByTimeAsync(30_000);
    expect(server.asked).toHaveLength(1);
    expect(feed.trouble('a')).toContain('jupyter server extension enable submarine_jupyter');
    server.refuse = null;
    await vi.advanceTimersByTimeAsync(60_000);
    expect(feed.trouble('a')).toBe('');
    server.say('card', card('a', true));
    await vi.advanceTimersByTimeAsync(1);
    expect(feed.cards.has('a')).toBe(true);
  });

  it('asks ever more seldom where nothing but problems come', async () => {
    vi.useFakeTimers();
    const server = new Streams();
    const feed = new Feed(server.api);
    feed.watchOverview();
    await vi.advanceTimersByTimeAsync(100);
    const broken = async (kind: string) => {
      server.say(kind, { id: '', what: 'no' });
      await vi.advanceTimersByTimeAsync(1);
      server.open.at(-1)!.close();
      const before = server.asked.length;
      let waited = 0;
      for (; server.asked.length === before; waited += 500) {
        await vi.advanceTimersByTimeAsync(500);
      }
      return waited;
    };
    const waits = [];
    for (const kind of ['problem', 'problem', 'problem', 'overview']) {
      waits.push(await broken(kind));
    }
    expect(waits).toEqual([500, 1000, 2000, 500]);
  });

  it('asks no more for what is over, unknown or not looked at', async () => {
    vi.useFakeTimers();
    const server = new Streams();
    const feed = new Feed(server.api);
    const gone: string[] = [];
    feed.gone.connect((_, id) => gone.push(id));
    const watched = ['a', 'b', 'c', 'd'].map(id => feed.watch(id));
    await vi.advanceTimersByTimeAsync(100);
    server.say('card', card('a', false));
    server.say('gone', { id: 'b' });
    await vi.advanceTimersByTimeAsync(1);
    watched[2].dispose();
    await vi.advanceTimersByTimeAsync(100);
    expect(server.asked.at(-1)).toBe('api/stream?jobs=d');
    expect(gone).toEqual(['b']);
    expect(['a', 'b', 'd'].map(id => feed.isGone(id))).toEqual([false, true, false]);
    watched.forEach(each => each.dispose());
    expect(feed.isGone('b')).toBe(false);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(server.asked).toHaveLength(2);
  });
});
