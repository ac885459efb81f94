// @vitest-environment jsdom
import { Widget } from '@lumino/widgets';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';

import type { Tree } from '../../../../magics/submarine_magics/card/tree.js';
import { QUICKEST } from '../charts/poll';
import type { FlowCard } from '../types';
import { FlowView } from './view';

vi.hoisted(() => vi.stubGlobal('DragEvent', Event)); // jsdom has none, and Lumino derives from it
vi.mock('@jupyterlab/apputils', () => ({})); // its dialogs need a whole page
const may = vi.hoisted(() => ({ cancel: vi.fn(async () => true) }));
vi.mock('../commands/dialogs', () => ({ mayCancelRun: may.cancel }));

const tree: Tree = ['div', {}, [['button', { 'data-action': 'flow-run' }, ['Run']]]];

/** A flow in the page; the test answers what it does. */
async function opened() {
  const told: { refuse?: (why: string) => void } = {};
  const api = {
    flow: vi.fn(async (path: string) => ({ name: path, run: '', going: false, tree }) as FlowCard),
    flowDo: vi.fn(() => new Promise<FlowCard>((_, no) => (told.refuse = why => no(new Error(why)))))
  };
  const view = new FlowView(api, { execute: vi.fn() }, 'a.ipynb');
  Widget.attach(view, document.body);
  await view.ask();
  const run = () => view.node.querySelector<HTMLButtonElement>('[data-action=flow-run]')!;
  const words = () => view.node.querySelector('.submarine-Trouble')!.textContent;
  return { view, api, told, run, words };
}

beforeEach(() => {
  vi.useFakeTimers();
  // jsdom lays nothing out: what is in the page is seen.
  vi.spyOn(HTMLElement.prototype, 'offsetParent', 'get').mockReturnValue(document.body);
});
afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
  document.body.replaceChildren();
});

it('goes on saying why something was refused until something else is asked for', async () => {
  const { view, api, told, run, words } = await opened();
  run().click();
  expect(run().disabled).toBe(true);
  told.refuse!('the flow has a circle');
  await vi.advanceTimersByTimeAsync(2 * QUICKEST);
  expect(api.flow.mock.calls.length).toBeGreaterThan(1); // it was asked for again
  expect([words(), run().disabled]).toEqual(['the flow has a circle', false]);
  run().click();
  expect(words()).toBe('');
  view.dispose();
});

it('says nothing of a flow that is not shown any more, nor draws it', async () => {
  const { view, told, run, words } = await opened();
  run().click();
  view.path = 'b.ipynb';
  await vi.advanceTimersByTimeAsync(1);
  const shown = view.node.innerHTML;
  told.refuse!('the flow has a circle');
  await vi.advanceTimersByTimeAsync(1);
  expect([words(), run().disabled, view.node.innerHTML]).toEqual(['', false, shown]);
  view.dispose();
});

it('cancels nothing, and goes on, where another flow came under the question', async () => {
  const { view, api, run } = await opened();
  const cancel = document.createElement('button');
  cancel.dataset.action = 'flow-cancel';
  run().after(cancel);
  let answer: (yes: boolean) => void = () => undefined;
  may.cancel.mockImplementationOnce(() => new Promise(told => (answer = told)));
  cancel.click();
  view.path = 'b.ipynb';
  await vi.advanceTimersByTimeAsync(1);
  answer(true);
  await vi.advanceTimersByTimeAsync(1);
  expect(api.flowDo).not.toHaveBeenCalled();
  run().click();
  expect(api.flowDo).toHaveBeenCalledOnce();
  view.dispose();
});
