/** A small curve in each row of the list: asked for and drawn for the rows that are seen alone. */

import type { IDisposable } from '@lumino/disposable';

import type { Spark } from '../types';
import { visible } from '../words';

/** Jobs of one question. */
export const BATCH = 50;
/** Milliseconds after which the curve of a job that runs is old. */
export const OLD = 5000;
const [WIDTH, HEIGHT] = [56, 14];
const SVG = 'http://www.w3.org/2000/svg';

interface Known {
  /** When it was asked for. */
  at: number;
  /** Whether the job was over by then: nothing comes any more. */
  final: boolean;
  /** Whether there was no answer. */
  failed?: boolean;
}

export interface Job {
  id: string;
  final: boolean;
}

export class Sparks implements IDisposable {
  /**
   * @param _ask Asks the server for curves by job.
   * @param root What scrolls the rows.
   */
  constructor(
    private readonly _ask: (jobs: string[]) => Promise<Record<string, Spark | null>>,
    root: HTMLElement
  ) {
    this._seen = new IntersectionObserver(entries => this._onSeen(entries), {
      root,
      rootMargin: '100px'
    });
  }

  get isDisposed(): boolean {
    return this._disposed;
  }

  /** Look after the rows of these jobs; `nodes` has them by the job's id. */
  update(jobs: Job[], nodes: ReadonlyMap<string, HTMLElement>): void {
    this._jobs = new Map(jobs.map(each => [each.id, each]));
    for (const [id, node] of this._nodes) {
      if (nodes.get(id) !== node) {
        this._seen.unobserve(node);
        this._nodes.delete(id);
        this._known.delete(id);
        this._shown.delete(id);
      }
    }
    for (const [id, node] of nodes) {
      if (!this._nodes.has(id)) {
        this._nodes.set(id, node);
        this._seen.observe(node);
      }
    }
    this.refresh();
  }

  /** Ask for the curves of rows that are seen, where they are not known or old. */
  refresh(): void {
    if (!this._busy && !this._disposed) {
      void this._refresh();
    }
  }

  dispose(): void {
    this._disposed = true;
    this._seen.disconnect();
  }

  private async _refresh(): Promise<void> {
    const now = Date.now();
    const wanted = [...this._shown].filter(id => this._isOld(id, now)).slice(0, BATCH);
    if (!wanted.length) {
      return;
    }
    this._busy = true;
    for (const id of wanted) {
      this._known.set(id, { at: now, final: this._jobs.get(id)?.final ?? false });
    }
    const found = await this._ask(wanted).catch(() => {
      wanted.forEach(id => this._known.set(id, { at: now, final: false, failed: true }));
      return {} as Record<string, Spark | null>;
    });
    this._busy = false;
    if (this._disposed) {
      return;
    }
    for (const id of wanted) {
      const node = this._nodes.get(id);
      if (node && id in found) {
        draw(node, found[id]);
      }
    }
    this.refresh();
  }

  private _isOld(id: string, now: number): boolean {
    const [known, job] = [this._known.get(id), this._jobs.get(id)];
    if (!job || known?.final) {
      return false;
    }
    return !known || now - known.at >= OLD || (job.final && !known.failed);
  }

  private _onSeen(entries: Pick<IntersectionObserverEntry, 'target' | 'isIntersecting'>[]): void {
    for (const { target, isIntersecting } of entries) {
      const id = (target as HTMLElement).dataset.job ?? '';
      if (isIntersecting && this._nodes.has(id)) {
        this._shown.add(id);
      } else {
        this._shown.delete(id);
      }
    }
    this.refresh();
  }

  private readonly _seen: IntersectionObserver;
  private readonly _nodes = new Map<string, HTMLElement>();
  private readonly _known = new Map<string, Known>();
  private readonly _shown = new Set<string>();
  private _jobs = new Map<string, Job>();
  private _busy = false;
  private _disposed = false;
}

/** Draw a curve into a job's row, or take it away. */
export function draw(row: HTMLElement, spark: Spark | null): void {
  let picture = row.querySelector<SVGElement>('.submarine-Job-spark');
  row.classList.toggle('submarine-mod-spark', !!spark);
  if (!spark) {
    picture?.remove();
    return;
  }
  if (!picture) {
    picture = document.createElementNS(SVG, 'svg');
    picture.setAttribute('class', 'submarine-Job-spark');
    picture.setAttribute('viewBox', `0 0 ${WIDTH} ${HEIGHT}`);
    picture.setAttribute('role', 'img');
    picture.append(document.createElementNS(SVG, 'title'));
    picture.append(document.createElementNS(SVG, 'polyline'));
    row.append(picture);
  }
  const [title, line] = picture.children;
  const words = `${visible(spark.name, 40)} over time, now ${visible(spark.last, 40)}`;
  title.textContent = words;
  picture.setAttribute('aria-label', words);
  line.setAttribute('points', corners(spark));
}

/** Where the line goes, in the picture's own measure. */
export function corners({ points, least, most }: Spark): string {
  const [xs, ys] = [points.map(([x]) => x), points.map(([, y]) => y)];
  const [left, right] = [Math.min(...xs), Math.max(...xs)];
  const [low, high] = [Math.min(...ys, least ?? Infinity), Math.max(...ys, most ?? -Infinity)];
  return points
    .map(([x, y]) => {
      const across = right > left ? (x - left) / (right - left) : 0;
      const up = high > low ? (y - low) / (high - low) : 0.5;
      return `${(across * WIDTH).toFixed(1)},${(HEIGHT - 1 - up * (HEIGHT - 2)).toFixed(1)}`;
    })
    .join(' ');
}
