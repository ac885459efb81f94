import type { JupyterFrontEnd } from '@jupyterlab/application';
import { expect, it, vi } from 'vitest';

import type { ISubmarine } from '../plugin';
import { Actions } from './actions';
import { summary } from './choose';
import { mayCancel } from './dialogs';
import type { Tabs } from './tabs';

// What needs a whole page.
vi.mock('@jupyterlab/apputils', () => ({ Notification: { info: () => undefined } }));
vi.mock('@jupyterlab/notebook', () => ({}));
vi.mock('@jupyterlab/ui-components', () => ({}));
vi.mock('@lumino/widgets', () => ({}));
vi.mock('../charts/compare', () => ({}));
vi.mock('../charts/view', () => ({}));
vi.mock('../flow/view', () => ({}));
vi.mock('../icons', () => ({}));
vi.mock('../stacks/view', () => ({}));
vi.mock('./dialogs', () => ({ mayCancel: vi.fn(async () => false) }));
vi.mock('./notebooks', () => ({}));

it('asks about a job by its age now, however old the overview is', async () => {
  const feed = { now: 8600, overview: { now: 1000, jobs: [] } };
  const submarine = { api: {}, feed } as unknown as ISubmarine;
  const actions = new Actions({} as JupyterFrontEnd, submarine, null, null, {} as Tabs);
  await actions.cancel({ ...summary('j'), name: 'net', created: 900 });
  await actions.cancel({ ...summary('j'), name: 'new', created: null });
  expect(vi.mocked(mayCancel).mock.calls).toEqual([
    ['net', 7700],
    ['new', 0]
  ]);
});
