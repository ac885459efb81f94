import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { INotebookTracker } from '@jupyterlab/notebook';
import { expect, it, vi } from 'vitest';

import { RUN_AS_JOB } from '../commands/ids';
import type { ISubmarine } from '../plugin';
import { toolbarPlugin } from './plugin';

// What needs a whole page.
const { run, runCells } = vi.hoisted(() => ({ run: vi.fn(), runCells: vi.fn() }));
const signal = () => ({ connect: () => true });
vi.mock('@jupyterlab/notebook', () => ({
  INotebookTracker: {},
  NotebookActions: { run, runCells, executed: { connect: () => true } }
}));
vi.mock('@jupyterlab/apputils', () => ({ ICommandPalette: {} }));
vi.mock('@jupyterlab/settingregistry', () => ({ ISettingRegistry: {} }));
vi.mock('../commands/actions', () => ({ Refusal: Error }));
vi.mock('../commands/plugin', () => ({ told: (action: () => unknown) => action() }));
vi.mock('../icons', () => ({ clusterIcon: {}, runIcon: {} }));
vi.mock('../plugin', () => ({ ISubmarine: {} }));
vi.mock('./badges', () => ({ Badges: class {} }));

function cell() {
  const model = {
    type: 'code',
    getMetadata: () => [],
    setMetadata: vi.fn(),
    sharedModel: { getSource: () => 'train()' }
  };
  return { model };
}

it('runs the cell that was the active one, also where another is by the time the magics are loaded', async () => {
  const widgets = [cell(), cell()];
  const kernel = {
    name: 'python3',
    status: 'idle',
    info: Promise.resolve({ language_info: { name: 'python' } }),
    requestExecute: () => {
      tracker.activeCell = widgets[1]; // the reader goes on
      return { done: Promise.resolve({ content: {} }) };
    }
  };
  const sessionContext = { ready: Promise.resolve(), session: { kernel } };
  const currentWidget = { content: { widgets, isDisposed: false }, sessionContext };
  const tracker = {
    ...{ currentWidget, activeCell: widgets[0], activeCellChanged: signal() },
    ...{ widgetAdded: signal(), forEach: () => undefined }
  };
  const commands: Record<string, { execute: (args: object) => Promise<void> }> = {};
  const addCommand = (id: string, options: (typeof commands)[string]) => {
    commands[id] = options;
  };
  const app = { commands: { addCommand, notifyCommandChanged: vi.fn() } };
  await toolbarPlugin.activate(
    app as unknown as JupyterFrontEnd,
    {} as ISubmarine,
    tracker as unknown as INotebookTracker,
    null,
    null
  );
  await commands[RUN_AS_JOB].execute({});
  expect(run).not.toHaveBeenCalled();
  expect(runCells.mock.calls).toEqual([[currentWidget.content, [widgets[0]], sessionContext]]);
  expect(widgets[0].model.setMetadata).toHaveBeenCalledWith('tags', ['submarine']);
});
