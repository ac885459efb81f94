// @vitest-environment jsdom
import type { JupyterFrontEnd } from '@jupyterlab/application';
import { beforeEach, expect, it, vi } from 'vitest';

import { ApiError } from '../api';
import { NEW_NOTEBOOK } from '../commands/ids';
import type { ISubmarine } from '../plugin';
import { startPlugin } from './plugin';

// What needs a whole page: here notifications are a list of what is shown.
type Shown = { message: string; type: string; actions: { label: string }[] };
const { shown, answers } = vi.hoisted(() => ({
  shown: [] as Shown[],
  answers: [] as unknown[]
}));
vi.mock('@jupyterlab/apputils', () => ({
  ICommandPalette: {},
  Dialog: { cancelButton: () => ({}), okButton: () => ({}) },
  Notification: {
    emit: (message: string, type: string) => String(shown.push({ message, type, actions: [] }) - 1),
    update: ({ id, ...rest }: { id: string }) => Object.assign(shown[Number(id)], rest),
    dismiss: () => void shown.pop()
  },
  showDialog: async () => ({ button: { accept: answers.length > 0 }, value: answers.shift() })
}));
vi.mock('@jupyterlab/filebrowser', () => ({ IDefaultFileBrowser: {} }));
vi.mock('@jupyterlab/launcher', () => ({ ILauncher: {} }));
vi.mock('../commands/plugin', () => ({ told: (action: () => unknown) => action() }));
vi.mock('../icons', () => ({ clusterIcon: { svgstr: '' } }));
vi.mock('../plugin', () => ({ ISubmarine: {} }));
vi.mock('./form', () => ({
  StartForm: class {},
  blame: (error: Error) => ({ key: '', words: error.message })
}));

/** What starts a notebook in a page whose server answers so. */
async function started(api: object): Promise<() => Promise<void>> {
  const commands: Record<string, { execute: (args: object) => Promise<void> }> = {};
  const addCommand = (id: string, options: (typeof commands)[string]) => {
    commands[id] = options;
  };
  const contents = { localPath: (path: string) => path };
  const app = { commands: { addCommand, execute: vi.fn() }, serviceManager: { contents } };
  const all = { notebookForm: async () => [], settings: { baseUrl: '/' }, ...api };
  await startPlugin.activate(
    app as unknown as JupyterFrontEnd,
    { api: all, feed: { overview: {} } } as unknown as ISubmarine,
    null,
    null,
    null
  );
  return () => commands[NEW_NOTEBOOK].execute({});
}

beforeEach(() => void (shown.length = 0));

it('tells that a notebook is submitted, which may take long, and then how far it is', async () => {
  const told: { job?: (of: { job: string }) => void } = {};
  const startNotebook = () => new Promise(resolve => (told.job = resolve));
  const why = `${'It waits for GPUs. '.repeat(20)}Ask for fewer.`;
  const notebook = async () => Promise.reject(new ApiError(why, '', '', 409));
  const start = await started({ startNotebook, notebook });
  answers.push({ gpus: '1' });
  const starting = start();
  await vi.waitFor(() => expect(told.job).toBeDefined());
  expect(shown.map(each => [each.message, each.type])).toEqual([
    ['The notebook on the cluster is submitted…', 'in-progress']
  ]);
  told.job!({ job: 'j' });
  await starting;
  await vi.waitFor(() => expect(shown[0].type).toBe('error'));
  expect(shown).toHaveLength(1);
  expect(shown[0].actions.map(each => each.label)).toEqual(['Open log', 'Details']);
});

it('takes that back where the notebook is refused, and asks again', async () => {
  const startNotebook = vi.fn(async () => Promise.reject(new ApiError('no such queue')));
  const start = await started({ startNotebook });
  answers.push({ queue: 'a' }, { queue: 'b' });
  await start();
  expect(startNotebook).toHaveBeenCalledTimes(2);
  expect(shown).toEqual([]);
});
