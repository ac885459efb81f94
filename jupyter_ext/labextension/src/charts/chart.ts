/** One chart: its name, a legend with the numbers at the cursor, and the lines. */

import uPlot from 'uplot';

import { element, setText } from '../dom';
import { amount, type Drawing, isAlike, last, mark, places, reach, STEPS, tick } from './model';

const HEIGHT = 150;
/** Apart on light and on dark ground, also for those who see few colours; more lines are dashed. */
const COLOURS = [
  ...['#2f81f7', '#d9730d', '#2da44e', '#a371f7'],
  ...['#e5534b', '#1f9e9e', '#b08800', '#d6409f']
];

export function colour(number: number): string {
  return COLOURS[number % COLOURS.length];
}

/** From when to when. */
export type Range = [number, number];

/** What the charts of a view share. */
export interface Shared {
  /** Their cursors go together by this name. */
  sync: string;
  /** Whether times are counted from where each job began. */
  aligned: boolean;
  /** Colours of the theme: text, and lines behind the curves. */
  theme: () => { text: string; grid: string };
  /** The cursor stands at this time; null where it has left. */
  moved: (at: number | null) => void;
  /** The reader wants to see from here to there; null for all. */
  zoomed: (from: number | null, to: number | null) => void;
}

export class Chart {
  constructor(
    private readonly _shared: Shared,
    private _drawing: Drawing
  ) {
    const head = element('figcaption', 'submarine-Chart-head');
    const unit = _drawing.unit === 'cores' ? ' (cores)' : '';
    head.append(element('strong', 'submarine-Chart-name', {}, _drawing.name + unit), this._legend);
    this.node.append(head, this._place);
  }

  readonly node = element('figure', 'submarine-Chart');

  /** Show other numbers; return whether that is possible without another chart. */
  update(drawing: Drawing, range: Range): boolean {
    if (!isAlike(this._drawing, drawing)) {
      return false;
    }
    this._drawing = drawing;
    if (this._plot) {
      this._plot.setData(drawing.data, false);
      this.show(range);
      this._tell();
    }
    return true;
  }

  /** Draw it as wide as its place is; the first time it is made. */
  fit(range: Range): void {
    const width = Math.floor(this._place.clientWidth);
    if (width < 40) {
      return;
    }
    if (!this._plot) {
      this._plot = new uPlot(this._options(width), this._drawing.data, this._place);
      this._plot.over.addEventListener('dblclick', () => this._shared.zoomed(null, null));
      this.show(range);
      this._tell();
    } else if (this._plot.width !== width) {
      this._plot.setSize({ width, height: HEIGHT });
    }
  }

  /** Show from here to there. */
  show([min, max]: Range): void {
    this._plot?.setScale('x', { min, max: max > min ? max : min + 1 });
  }

  redraw(): void {
    this._plot?.redraw(false);
  }

  dispose(): void {
    this._plot?.destroy();
    this.node.remove();
  }

  private _options(width: number): uPlot.Options {
    const { sync, aligned, theme } = this._shared;
    const { unit, curves } = this._drawing;
    const axis = { stroke: () => theme().text, font: '11px sans-serif', ticks: { show: false } };
    const grid = { stroke: () => theme().grid, width: 1 };
    const series: uPlot.Series[] = [{}];
    const bands: uPlot.Band[] = [];
    for (const each of curves) {
      const stroke = colour(each.colour);
      const dash = each.dashed || each.colour >= COLOURS.length ? [5, 3] : undefined;
      series.push({ stroke, dash, width: 1.5, points: { show: points } });
      if (each.ranged) {
        const edge = { stroke: 'transparent', width: 0, points: { show: false } };
        series.push(edge, edge);
        bands.push({ series: [series.length - 1, series.length - 2], fill: `${stroke}33` });
      }
    }
    return {
      width,
      height: HEIGHT,
      series,
      bands,
      legend: { show: false },
      padding: [8, 12, 0, 0],
      scales: { x: { time: false }, y: { range: (_, min, max) => reach(min, max, unit) } },
      axes: [
        {
          ...axis,
          grid,
          size: 24,
          space: 70,
          incrs: STEPS,
          values: (plot, splits) => {
            const span = (plot.scales.x.max ?? 0) - (plot.scales.x.min ?? 0);
            return splits.map(each => tick(each, span, aligned));
          }
        },
        {
          ...axis,
          grid,
          size: 58,
          space: 28,
          values: (_, splits) => splits.map(each => mark(each, unit))
        }
      ],
      cursor: {
        drag: { x: true, y: false, setScale: false },
        points: { size: 6 },
        y: false,
        sync: { key: sync, scales: ['x', null], filters: { pub: isMove } }
      },
      hooks: {
        setCursor: [plot => this._onCursor(plot)],
        setSelect: [plot => this._onSelect(plot)]
      }
    };
  }

  private _onCursor(plot: uPlot): void {
    this._tell();
    if (plot.cursor.event) {
      // Of all that move together, the one below the pointer tells.
      const { left } = plot.cursor;
      this._shared.moved(left === undefined || left < 0 ? null : plot.posToVal(left, 'x'));
    }
  }

  private _onSelect(plot: uPlot): void {
    const { left, width } = plot.select;
    if (width > 4) {
      this._shared.zoomed(plot.posToVal(left, 'x'), plot.posToVal(left + width, 'x'));
    }
    if (width) {
      plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    }
  }

  /** Bring the legend to the cursor, or to the last numbers. */
  private _tell(): void {
    const { curves, data, unit } = this._drawing;
    const at = this._plot?.cursor.idxs;
    const inside = (this._plot?.cursor.left ?? -1) >= 0;
    while (this._legend.children.length > curves.length) {
      this._legend.lastElementChild!.remove();
    }
    places(curves).forEach((place, number) => {
      let node = this._legend.children[number];
      if (!node) {
        node = element('span', 'submarine-Chart-curve');
        const key = element('span', 'submarine-Chart-key', { 'aria-hidden': 'true' });
        key.style.background = colour(curves[number].colour);
        node.append(key, element('span', 'submarine-Chart-label'), element('b'));
        this._legend.append(node);
      }
      const index = at?.[place];
      const known = inside && index !== null && index !== undefined;
      const value = known ? data[place]?.[index] : last(data[place] ?? []);
      setText(node.children[1], curves[number].label);
      setText(node.children[2], amount(value, unit));
    });
  }

  private readonly _legend = element('span', 'submarine-Chart-legend');
  private readonly _place = element('div', 'submarine-Chart-place');
  private _plot: uPlot | null = null;
}

function isMove(type: string): boolean {
  return type === 'mousemove' || type === 'mouseleave' || type === 'mouseenter';
}

/** A lonely number is a point, since it makes no line. */
function points(plot: uPlot, series: number): boolean {
  let there = 0;
  for (const value of plot.data[series] ?? []) {
    if (value !== null && value !== undefined && ++there > 1) {
      return false;
    }
  }
  return true;
}
