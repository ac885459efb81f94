/** The state of a cell's job beside the cell, and a mark on cells that run as jobs. */

import type { Cell } from '@jupyterlab/cells';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { IDisposable } from '@lumino/disposable';

import { jobOf } from '../commands/notebooks';
import { element, setAttribute, setText } from '../dom';
import type { ISubmarine } from '../plugin';
import { glyph, isFinal, visible } from '../words';
import { isTagged, optionsOf } from './tag';

const GATHER = 150; // ms: outputs of a running cell come often
const NEVER_RUN = '◇';

interface Badge {
  glyph: string;
  state: string;
  title: string;
}

/** Keeps the badges of one notebook. */
export class Badges implements IDisposable {
  constructor(
    private readonly _panel: NotebookPanel,
    private readonly _submarine: ISubmarine
  ) {
    _panel.content.modelContentChanged.connect(this._soon, this);
    _panel.content.cellInViewportChanged?.connect(this._soon, this);
    _panel.disposed.connect(this.dispose, this);
    _submarine.feed.cardChanged.connect(this._onCard, this);
    void _panel.context.ready.then(() => this._soon());
  }

  get isDisposed(): boolean {
    return this._disposed;
  }

  dispose(): void {
    this._disposed = true;
    clearTimeout(this._timer);
    this._panel.content?.modelContentChanged.disconnect(this._soon, this);
    this._panel.content?.cellInViewportChanged?.disconnect(this._soon, this);
    this._submarine.feed.cardChanged.disconnect(this._onCard, this);
    this._watched.forEach(watch => watch.dispose());
    this._watched.clear();
  }

  private _onCard(_: unknown, card: { job_id: string }): void {
    if (this._watched.has(card.job_id)) {
      this._soon();
    }
  }

  private _soon(): void {
    this._timer ??= setTimeout(() => {
      this._timer = undefined;
      if (!this._disposed) {
        this._update();
      }
    }, GATHER);
  }

  private _update(): void {
    const running = new Set<string>();
    for (const cell of this._panel.content.widgets) {
      if (cell.model.type === 'code') {
        show(cell, this._badge(cell, running));
      }
    }
    for (const [job, watch] of this._watched) {
      if (!running.has(job)) {
        watch.dispose();
        this._watched.delete(job);
      }
    }
  }

  private _badge(cell: Cell, running: Set<string>): Badge | null {
    const tags: unknown = cell.model.getMetadata('tags');
    const job = jobOf(cell.model);
    if (!job) {
      if (!isTagged(tags)) {
        return null;
      }
      const options = visible(optionsOf(tags), 100);
      const title = `Runs as a job${options ? ` with ${options}` : ''}: tag submarine`;
      return { glyph: NEVER_RUN, state: 'tagged', title };
    }
    let { state } = job;
    if (!isFinal(state)) {
      running.add(job.job_id);
      if (!this._watched.has(job.job_id)) {
        this._watched.set(job.job_id, this._submarine.feed.watch(job.job_id));
      }
      state = this._submarine.feed.cards.get(job.job_id)?.state ?? state;
    }
    const name = visible(job.name, 60);
    return { glyph: glyph(state), state, title: `Job ${name || job.job_id}: ${state}` };
  }

  private readonly _watched = new Map<string, IDisposable>();
  private _timer: ReturnType<typeof setTimeout> | undefined;
  private _disposed = false;
}

function show(cell: Cell, badge: Badge | null): void {
  const place = cell.inputArea?.node;
  if (!place) {
    return; // not drawn yet: asked again when it comes into view
  }
  let node = place.querySelector(':scope > .submarine-CellState');
  if (!badge) {
    node?.remove();
    return;
  }
  if (!node) {
    node = element('span', 'submarine-CellState', { role: 'img' });
    place.append(node);
  }
  setText(node, badge.glyph);
  setAttribute(node, 'data-state', badge.state);
  setAttribute(node, 'title', badge.title);
  setAttribute(node, 'aria-label', badge.title);
}
