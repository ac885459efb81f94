/**
 * One stream for the whole page, whatever it shows: browsers allow few connections to one server.
 *
 * Widgets say which jobs they show, and whether they show the overview; the stream is opened anew
 * when that changes, after a moment, so that a notebook of many cards asks once. Where it breaks it
 * is opened again after a growing delay; each message is complete, so nothing can be missed.
 * What the server cannot look at for now is its trouble until the next good answer.
 */

import { Signal } from '@lumino/signaling';
import { DisposableDelegate, type IDisposable } from '@lumino/disposable';

import { type Api, ApiError } from './api';
import { readEvents } from './sse';
import type { Card, Overview } from './types';
import { problem, visible } from './words';

const GATHER = 30; // ms
const SHORTEST = 500;
const LONGEST = 15_000;
const SELDOM = 60_000; // it is somebody's to enable, and each question is a line of the server's log
const ABSENT =
  'The Jupyter server runs without Submarine. Run ' +
  '`jupyter server extension enable submarine_jupyter`, then restart it.';
const MOST_JOBS = 200; // of one stream; as the server has it
const RECONNECTING = 'Server unreachable; reconnecting';

export class Feed {
  constructor(private readonly _api: Api) {}

  /** The last card of each job that is watched. */
  readonly cards = new Map<string, Card>();
  overview: Overview | null = null;

  readonly cardChanged = new Signal<this, Card>(this);
  readonly overviewChanged = new Signal<this, Overview>(this);
  /** A job that the server does not know. */
  readonly gone = new Signal<this, string>(this);
  /** What `trouble` returns has changed. */
  readonly troubled = new Signal<this, void>(this);

  /** Whether the server does not know a job that is watched. */
  isGone(job: string): boolean {
    return this._gone.has(job);
  }

  /** Why what is shown of a job, or of the overview, may be old; empty where all is well. */
  trouble(job = ''): string {
    return visible(this._broken || this._problems.get(job), 400);
  }

  /** Follow a job until the result is disposed of. */
  watch(job: string): IDisposable {
    this._count(job, 1);
    return new DisposableDelegate(() => this._count(job, -1));
  }

  /** Follow the overview until the result is disposed of. */
  watchOverview(): IDisposable {
    this._overviews += 1;
    this._changed();
    return new DisposableDelegate(() => {
      this._overviews -= 1;
      this._fresh &&= this._overviews > 0;
      this._changed();
    });
  }

  /** When the server made what it sent, by this page's clock: it sends again what it knows already. */
  made(at: { now: number }): number {
    return (at.now + this._skew) * 1000;
  }

  /** The server's clock, where that is known, else this page's; in seconds. */
  get now(): number {
    return Date.now() / 1000 - (Number.isFinite(this._skew) ? this._skew : 0);
  }

  /** The overview while it is followed; null where it may be old. */
  get fresh(): Overview | null {
    return this._fresh ? this.overview : null;
  }

  private _count(job: string, by: number): void {
    const readers = (this._jobs.get(job) ?? 0) + by;
    if (readers > 0) {
      this._jobs.set(job, readers);
    } else {
      this._jobs.delete(job);
      this.cards.delete(job);
      this._over.delete(job);
      this._gone.delete(job);
      this._problems.delete(job);
    }
    this._changed();
  }

  private _changed(): void {
    clearTimeout(this._timer);
    this._timer = setTimeout(() => this._open(), GATHER);
  }

  private _query(): string {
    // Of too many the newest first: the others follow as those get over.
    const jobs = this._running.sort().slice(-MOST_JOBS);
    const wanted = jobs.map(encodeURIComponent).join(',');
    return [wanted && `jobs=${wanted}`, this._overviews > 0 && 'overview=1']
      .filter(Boolean)
      .join('&');
  }

  private get _running(): string[] {
    return [...this._jobs.keys()].filter(job => !this._over.has(job));
  }

  private _end(job: string): void {
    this._over.add(job);
    if (this._running.length >= MOST_JOBS) {
      this._changed(); // there is room for one that waits
    }
  }

  private _open(): void {
    const query = this._query();
    if (query === this._asked && this._abort && !this._abort.signal.aborted) {
      return;
    }
    this._abort?.abort();
    this._asked = query;
    this._abort = query ? new AbortController() : null;
    if (this._abort) {
      void this._follow(query, this._abort);
    }
  }

  private async _follow(query: string, abort: AbortController): Promise<void> {
    let delay = SHORTEST;
    while (!abort.signal.aborted) {
      try {
        const init = { signal: abort.signal, headers: { Accept: 'text/event-stream' } };
        const response = await this._api.request(`api/stream?${query}`, init);
        this._tell('');
        for await (const event of readEvents(response)) {
          this._take(event.kind, event.data);
          if (event.kind !== 'problem') {
            delay = SHORTEST;
          }
        }
        if (this._query() !== query) {
          return this._changed(); // some jobs are over: follow the others
        }
      } catch (error) {
        if (abort.signal.aborted) {
          return;
        }
        this._fresh = false;
        const absent = error instanceof ApiError && error.status === 404;
        delay = absent ? SELDOM : delay;
        const answered = error instanceof ApiError && error.status > 0;
        this._tell(absent ? ABSENT : answered ? problem(error) : RECONNECTING);
      }
      await new Promise(done => setTimeout(done, delay));
      delay = Math.min(LONGEST, delay * 2);
    }
  }

  private _tell(broken: string): void {
    if (broken !== this._broken) {
      this._broken = broken;
      this.troubled.emit();
    }
  }

  private _tellOf(job: string, why: string): void {
    if (why !== (this._problems.get(job) ?? '')) {
      this._problems.set(job, why);
      this.troubled.emit();
    }
  }

  private _take(kind: string, data: string): void {
    if (kind === 'card') {
      const card = JSON.parse(data) as Card;
      this._hear(card.now);
      this._tellOf(card.job_id, '');
      this.cards.set(card.job_id, card);
      if (!card.running) {
        this._end(card.job_id);
      }
      this.cardChanged.emit(card);
    } else if (kind === 'overview') {
      this.overview = JSON.parse(data) as Overview;
      this._fresh = this._overviews > 0;
      this._hear(this.overview.now);
      this._tellOf('', '');
      this.overviewChanged.emit(this.overview);
    } else if (kind === 'gone') {
      const { id } = JSON.parse(data) as { id: string };
      this._end(id);
      this._gone.add(id);
      this._tellOf(id, '');
      this.gone.emit(id);
    } else if (kind === 'problem') {
      const { id, what, where, fix } = JSON.parse(data) as Record<string, string>;
      this._tellOf(id, new ApiError(what, where, fix).message);
    }
  }

  /** Take the server's clock from what came quickest. */
  private _hear(now: number): void {
    const skew = Date.now() / 1000 - now;
    this._skew = skew < this._skew || !Number.isFinite(this._skew) ? skew : this._skew;
  }

  private _skew = Infinity;
  private readonly _jobs = new Map<string, number>();
  private readonly _over = new Set<string>();
  private readonly _gone = new Set<string>();
  /** By job, or the empty text for the overview. */
  private readonly _problems = new Map<string, string>();
  private _broken = '';
  private _overviews = 0;
  private _fresh = false;
  private _asked = '';
  private _abort: AbortController | null = null;
  private _timer: ReturnType<typeof setTimeout> | undefined;
}
