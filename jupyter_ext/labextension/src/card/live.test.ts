// @vitest-environment jsdom
import { OutputArea } from '@jupyterlab/outputarea';
import { Panel, Widget } from '@lumino/widgets';
import { expect, it, vi } from 'vitest';

import { isWritten } from './live';

vi.hoisted(() => vi.stubGlobal('DragEvent', Event)); // jsdom has none, and Lumino derives from it
vi.mock('@jupyterlab/outputarea', async () => {
  const { Panel } = await import('@lumino/widgets');
  return { OutputArea: class extends Panel {} }; // the real one needs a whole page
});

function running() {
  const told: { end?: () => void } = {};
  const future = { isDisposed: false, done: new Promise<void>(end => (told.end = end)) };
  const area = Object.assign(new (OutputArea as unknown as typeof Panel)(), { future });
  const widget = new Widget();
  area.addWidget(widget);
  return { widget, end: async () => (told.end!(), await Promise.resolve(future.done)) };
}

it('tells of the end of the cell', async () => {
  const { widget, end } = running();
  const ended = vi.fn();
  expect(isWritten(widget, ended)).toBe(true);
  await end();
  await vi.waitFor(() => expect(ended).toHaveBeenCalledOnce());
  expect(isWritten(widget, ended)).toBe(false);
});

it('tells a card that the cell has cleared meanwhile nothing', async () => {
  const { widget, end } = running();
  const area = widget.parent as Panel;
  const ended = vi.fn();
  isWritten(widget, ended);
  widget.dispose(); // clear_output
  const next = new Widget();
  area.addWidget(next);
  await end();
  await vi.waitFor(() => expect(isWritten(next, vi.fn())).toBe(false));
  expect(ended).not.toHaveBeenCalled();
});
