import { expect, it, vi } from 'vitest';

import { told } from './plugin';

// What needs a whole page.
const error = vi.hoisted(() => vi.fn());
vi.mock('@jupyterlab/application', () => ({ ILabShell: {}, ILayoutRestorer: {} }));
vi.mock('@jupyterlab/apputils', () => ({ ICommandPalette: {}, Notification: { error } }));
vi.mock('@jupyterlab/filebrowser', () => ({ IDefaultFileBrowser: {} }));
vi.mock('@jupyterlab/notebook', () => ({ INotebookTracker: {} }));
vi.mock('@jupyterlab/settingregistry', () => ({ ISettingRegistry: {} }));
vi.mock('@jupyterlab/ui-components', () => ({}));
vi.mock('../charts/compare', () => ({}));
vi.mock('../icons', () => ({}));
vi.mock('../plugin', () => ({ ISubmarine: {} }));
vi.mock('./actions', () => ({}));
vi.mock('./notebooks', () => ({}));
vi.mock('./tabs', () => ({}));

it('says why something did not work, and all of it where that is long', async () => {
  for (const words of ['No YARN', 'No YARN. '.repeat(30)]) {
    await told(() => Promise.reject(new Error(words)));
  }
  const said = error.mock.calls.map(([words, { actions }]) => [words.length, actions.length]);
  expect(said).toEqual([
    [7, 0],
    [270, 1]
  ]);
});
