/** What a task shows, as it stands now: each thing behind its line, drawn when it comes in sight. */

import type { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import type { IRenderMime } from '@jupyterlab/rendermime-interfaces';
import { Widget } from '@lumino/widgets';

import type { Bundle } from '../api';
import type { Shown } from '../types';
import { visible } from '../words';

/** One thing's place in the page; it stays while what is in it changes. */
export class Slot {
  constructor(
    readonly number: number,
    private readonly _fetch: (offset: number) => Promise<Bundle>,
    private readonly _rendermime: IRenderMimeRegistry
  ) {
    this.node.className = 'smc-shown';
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
    this.leave();
    this._renderer?.dispose();
    this._renderer = null;
    this.node.remove();
  }

  private async _draw(): Promise<void> {
    this._busy = true;
    const wanted = this.offset;
    try {
      const renderer = await this._rendered(await this._fetch(wanted));
      // The old state stays until the new one is ready: a live figure does not flicker.
      this.leave();
      this._renderer?.dispose();
      this._renderer = renderer;
      this._drawn = wanted;
    } catch {
      // It has a newer state already, or the server is gone, which the card says.
      await new Promise(done => setTimeout(done, 500));
    } finally {
      this._busy = false;
    }
    if (this.node.isConnected) {
      this.draw();
    }
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
    await renderer.renderModel(model);
    return renderer;
  }

  private _renderer: IRenderMime.IRenderer | null = null;
  private _drawn = -1;
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
