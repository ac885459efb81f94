/** What a task shows, as it stands now: each thing behind its line, drawn when it comes in sight. */

import type { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import type { IRenderMime } from '@jupyterlab/rendermime-interfaces';
import { Widget } from '@lumino/widgets';

import { ApiError, type Bundle } from '../api';
import type { Shown } from '../types';
import { problem, visible } from '../words';

const SOON = 500; // ms
const SELDOM = 15_000;

/** One thing's place in the page; it stays while what is in it changes. */
export class Slot {
  constructor(
    readonly number: number,
    private readonly _fetch: (offset: number) => Promise<Bundle>,
    private readonly _rendermime: IRenderMimeRegistry
  ) {
    this.node.className = 'smc-shown';
    this._why.className = 'smc-quiet';
  }

  readonly node = document.createElement('div');
  /** Lines before it. */
  line = 0;
  /** Which state it is to show. */
  offset = -1;

  /** Show its newest state; call this whenever it is in sight, and in the page. */
  draw(): void {
    if (this._renderer && !this._renderer.isAttached && this.node.isConnected) {
      Widget.attach(this._renderer as unknown as Widget, this.node);
    }
    if (this.offset !== this._drawn && !this._busy) {
      void this._draw();
    }
  }

  /** Take it out of the page; it may come again. */
  leave(): void {
    if (this._renderer?.isAttached && this._renderer.node.isConnected) {
      Widget.detach(this._renderer as unknown as Widget);
    }
  }

  dispose(): void {
    this._disposed = true;
    this._put(null);
    this.node.remove();
  }

  private async _draw(): Promise<void> {
    this._busy = true;
    const wanted = this.offset;
    if (await this._try(wanted)) {
      [this._drawn, this._pause] = [wanted, SOON];
    } else {
      await new Promise(done => setTimeout(done, this._pause));
      this._pause = Math.min(SELDOM, 2 * this._pause);
    }
    this._busy = false;
    if (this.node.isConnected) {
      this.draw();
    }
  }

  /** Show a state, or why it cannot be shown; false where it may be had later. */
  private async _try(wanted: number): Promise<boolean> {
    let bundle: Bundle;
    try {
      bundle = await this._fetch(wanted);
    } catch (error) {
      if (!(error instanceof ApiError) || error.passes) {
        return false; // the server is gone, which the card says
      }
      if (!this._renderer) {
        this._tell(error); // what is shown stays: most often there is a newer state already
      }
      return true;
    }
    try {
      // The old state stays until the new one is ready: a live figure does not flicker.
      this._put(await this._rendered(bundle));
      this._why.remove();
    } catch (error) {
      this._put(null);
      this._tell(error);
    }
    return true;
  }

  private _put(renderer: IRenderMime.IRenderer | null): void {
    this.leave();
    this._renderer?.dispose();
    this._renderer = this._disposed ? null : renderer;
    if (this._disposed) {
      renderer?.dispose();
    }
  }

  private _tell(error: unknown): void {
    this._why.textContent = `This cannot be shown: ${visible(problem(error))}`;
    this.node.append(this._why);
  }

  /** Draw it as the untrusted output that it is: HTML is sanitized, scripts never run. */
  private async _rendered(bundle: Bundle): Promise<IRenderMime.IRenderer> {
    const { data, metadata } = bundle;
    const kind = this._rendermime.preferredMimeType(data, 'ensure');
    const text = { 'text/plain': kind ? '' : plain(data) };
    const model = this._rendermime.createModel(
      kind ? { data, metadata, trusted: false } : { data: text, trusted: false }
    );
    const renderer = this._rendermime.createRenderer(kind ?? 'text/plain');
    try {
      await renderer.renderModel(model);
    } catch (error) {
      renderer.dispose();
      throw error;
    }
    return renderer;
  }

  private _renderer: IRenderMime.IRenderer | null = null;
  private readonly _why = document.createElement('div');
  private _drawn = -1;
  private _pause = SOON;
  private _disposed = false;
  private _busy = false;
}

/** All that a task shows. */
export class Displays {
  /** @param changed - called when other things are shown, or elsewhere. */
  constructor(
    private readonly _list: () => Promise<Shown>,
    private readonly _fetch: (offset: number) => Promise<Bundle>,
    private readonly _rendermime: IRenderMimeRegistry,
    private readonly _changed: () => void
  ) {}

  /** Slots by the number of lines before them. */
  private readonly _at = new Map<number, Slot[]>();
  private _slots: Slot[] = [];
  private _size = 0;
  private _wanted = 0;
  private _busy = false;

  get empty(): boolean {
    return this._slots.length === 0;
  }

  /** What stands below a line, and above the first one. */
  of(line: number): { above: Slot[]; below: Slot[] } {
    const above = line === 0 ? (this._at.get(0) ?? []) : [];
    return { above, below: this._at.get(line + 1) ?? [] };
  }

  /** Take how many bytes the task has shown by now; one question at a time, and none is lost. */
  async refresh(size: number): Promise<void> {
    this._wanted = size;
    if (this._busy) {
      return;
    }
    this._busy = true;
    try {
      while (this._size !== this._wanted) {
        const wanted = this._wanted;
        const { displays } = await this._list();
        this._size = wanted;
        this._take(displays);
      }
    } finally {
      this._busy = false;
    }
  }

  dispose(): void {
    this._slots.forEach(slot => slot.dispose());
    this._slots = [];
  }

  private _take(shown: Shown['displays']): void {
    this._slots.splice(shown.length).forEach(slot => slot.dispose());
    this._at.clear();
    shown.forEach(({ offset, line }, number) => {
      const slot = (this._slots[number] ??= new Slot(number, this._fetch, this._rendermime));
      [slot.offset, slot.line] = [offset, line];
      this._at.set(line, [...(this._at.get(line) ?? []), slot]);
    });
    this._changed();
  }
}

function plain(data: Bundle['data']): string {
  const text = data['text/plain'];
  return typeof text === 'string' ? visible(text, 10_000) : `<${visible(Object.keys(data)[0])}>`;
}
