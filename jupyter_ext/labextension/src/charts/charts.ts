/** The charts of a view: each built once, their cursors and what they show together. */

import type { IDisposable } from '@lumino/disposable';
import { Signal } from '@lumino/signaling';

import { element } from '../dom';
import { Chart, type Range, type Shared } from './chart';
import type { Drawing } from './model';

let groups = 0;

export type Window = Range | null;

export class Charts implements IDisposable {
  constructor(aligned: boolean) {
    this._shared = {
      sync: `submarine-charts-${groups++}`,
      aligned,
      theme: () => (this._theme ??= themeOf(this.node)),
      moved: at => this.moved.emit(at),
      zoomed: (from, to) => this.zoom(from === null || to === null ? null : [from, to])
    };
    this._sizes.observe(this.node);
    this._themes.observe(document.body, { attributeFilter: ['data-jp-theme-name'] });
  }

  readonly node = element('div', 'submarine-Charts');
  /** Emitted with the time at the cursor, null where it has left. */
  readonly moved = new Signal<this, number | null>(this);
  /** Emitted with what the reader wants to see. */
  readonly zoomed = new Signal<this, Window>(this);

  get window(): Window {
    return this._window;
  }

  get isDisposed(): boolean {
    return this._disposed;
  }

  /** Show these; a chart that is there already gets its new numbers. */
  update(drawings: Drawing[]): void {
    if (!this._window) {
      this._whole = reach(drawings);
    }
    const gone = new Map(this._charts);
    let before: Element | null = this.node.firstElementChild;
    for (const drawing of drawings) {
      let chart = this._charts.get(drawing.key);
      if (!chart?.update(drawing, this._range)) {
        const next = new Chart(this._shared, drawing);
        if (chart) {
          before = before === chart.node ? before.nextElementSibling : before;
          chart.dispose();
        }
        chart = next;
        this._charts.set(drawing.key, chart);
      }
      gone.delete(drawing.key);
      if (chart.node === before) {
        before = before.nextElementSibling;
      } else {
        this.node.insertBefore(chart.node, before);
      }
    }
    for (const [key, chart] of gone) {
      chart.dispose();
      this._charts.delete(key);
    }
    this._fit();
  }

  /** Show a part of the time in all of them, or all of it. */
  zoom(window: Window): void {
    this._window = window;
    for (const chart of this._charts.values()) {
      chart.show(this._range);
    }
    this.zoomed.emit(window);
  }

  dispose(): void {
    this._disposed = true;
    this._sizes.disconnect();
    this._themes.disconnect();
    for (const chart of this._charts.values()) {
      chart.dispose();
    }
    this._charts.clear();
    Signal.clearData(this);
  }

  private get _range(): Range {
    return this._window ?? this._whole;
  }

  private _fit(): void {
    for (const chart of this._charts.values()) {
      chart.fit(this._range);
    }
  }

  private readonly _shared: Shared;
  private readonly _charts = new Map<string, Chart>();
  private readonly _sizes = new ResizeObserver(() => this._fit());
  private readonly _themes = new MutationObserver(() => {
    this._theme = null;
    for (const chart of this._charts.values()) {
      chart.redraw();
    }
  });
  private _theme: { text: string; grid: string } | null = null;
  private _window: Window = null;
  /** What all of them reach over: they stand below each other. */
  private _whole: Range = [0, 1];
  private _disposed = false;
}

function reach(drawings: Drawing[]): Range {
  const times = drawings.map(each => each.data[0]).filter(each => each.length);
  return [
    Math.min(...times.map(each => each[0])),
    Math.max(...times.map(each => each[each.length - 1]))
  ];
}

function themeOf(node: HTMLElement): { text: string; grid: string } {
  const style = getComputedStyle(node);
  const of = (name: string, other: string) => style.getPropertyValue(name).trim() || other;
  return {
    text: of('--jp-ui-font-color2', '#666'),
    grid: of('--jp-border-color2', '#ddd')
  };
}
