// @vitest-environment jsdom
import { beforeEach, expect, it, vi } from 'vitest';

import { Charts } from './charts';
import type { Drawing } from './model';

/** What the library is told; jsdom has no canvas. */
const plots = vi.hoisted(() => [] as { data: unknown; scale: unknown; gone: boolean }[]);

vi.mock('uplot', () => ({
  default: class {
    data: unknown;
    scale: unknown;
    gone = false;
    over = document.createElement('div');
    cursor = { idxs: [], left: -10 };
    constructor(
      readonly options: { width: number },
      data: unknown
    ) {
      this.data = data;
      plots.push(this);
    }
    get width() {
      return this.options.width;
    }
    setData = (data: unknown) => (this.data = data);
    setScale = (_: string, scale: unknown) => (this.scale = scale);
    setSize = () => undefined;
    redraw = () => undefined;
    destroy = () => (this.gone = true);
  }
}));

beforeEach(() => {
  plots.length = 0;
  const none = { observe: () => undefined, disconnect: () => undefined };
  vi.stubGlobal('ResizeObserver', function () {
    return none;
  });
  vi.spyOn(HTMLElement.prototype, 'clientWidth', 'get').mockReturnValue(400);
});

function drawing(name: string, at: number[], labels = ['worker-0']): Drawing {
  const curves = labels.map((label, colour) => ({ label, colour, dashed: false, ranged: false }));
  return { key: name, name, unit: '', curves, data: [at, ...labels.map(() => at)] };
}

it('builds a chart once, and another where it has other lines', () => {
  const charts = new Charts(false);
  charts.update([drawing('loss', [1, 2]), drawing('CPU', [1, 2])]);
  const [first, second] = charts.node.children;
  charts.update([drawing('loss', [1, 2, 3]), drawing('CPU', [1, 2, 3], ['worker-0', 'worker-1'])]);
  expect(plots.length).toBe(3);
  expect([plots[0].data, plots[1].gone]).toEqual([
    [
      [1, 2, 3],
      [1, 2, 3]
    ],
    true
  ]);
  expect([...charts.node.children].indexOf(first)).toBe(0);
  expect([...charts.node.children].includes(second)).toBe(false);
  expect(first.querySelector('b')!.textContent).toBe('3');
  charts.update([drawing('CPU', [1, 2, 3], ['worker-0', 'worker-1'])]);
  expect(charts.node.children.length).toBe(1);
  expect(plots.map(each => each.gone)).toEqual([true, true, false]);
  charts.dispose();
  expect(plots.every(each => each.gone)).toBe(true);
});

it('shows the same time in all, also a part of it', () => {
  const charts = new Charts(false);
  const zoomed = vi.fn();
  charts.zoomed.connect((_, window) => zoomed(window));
  charts.update([drawing('loss', [5, 6]), drawing('CPU', [1, 9])]);
  const scales = () => plots.map(each => each.scale);
  expect(scales()).toEqual([
    { min: 1, max: 9 },
    { min: 1, max: 9 }
  ]);
  charts.zoom([5, 6]);
  expect(scales()).toEqual([
    { min: 5, max: 6 },
    { min: 5, max: 6 }
  ]);
  charts.update([drawing('loss', [5, 5.5, 6]), drawing('CPU', [5, 6])]);
  expect(scales()).toEqual([
    { min: 5, max: 6 },
    { min: 5, max: 6 }
  ]);
  charts.zoom(null);
  expect(scales()).toEqual([
    { min: 1, max: 9 },
    { min: 1, max: 9 }
  ]);
  expect(zoomed.mock.calls).toEqual([[[5, 6]], [null]]);
  charts.update([drawing('loss', [3])]);
  expect(plots[0].scale).toEqual({ min: 3, max: 4 }); // one number has no width
});
