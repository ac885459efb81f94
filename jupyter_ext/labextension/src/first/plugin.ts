/** *Run your first job*: in the launcher, in the palette, and where the panel has no jobs. */

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { IDefaultFileBrowser } from '@jupyterlab/filebrowser';
import { ILauncher } from '@jupyterlab/launcher';

import { FIRST_JOB } from '../commands/ids';
import { told } from '../commands/plugin';
import { jobsIcon } from '../icons';
import { ISubmarine } from '../plugin';
import { placed } from './place';

export const firstPlugin: JupyterFrontEndPlugin<void> = {
  id: '@submarine-notebook/labextension:first',
  description: 'Offers a notebook that runs a first job.',
  autoStart: true,
  requires: [ISubmarine],
  optional: [ILauncher, ICommandPalette, IDefaultFileBrowser],
  activate: (
    app: JupyterFrontEnd,
    { api }: ISubmarine,
    launcher: ILauncher | null,
    palette: ICommandPalette | null,
    browser: IDefaultFileBrowser | null
  ) => {
    app.commands.addCommand(FIRST_JOB, {
      label: 'Run your first job',
      caption: 'Open a notebook that runs a job and explains it: nothing to install',
      icon: jobsIcon,
      describedBy: { args: { type: 'object', properties: { cwd: { type: 'string' } } } },
      execute: args =>
        told(async () => {
          const folder = typeof args.cwd === 'string' ? args.cwd : (browser?.model.path ?? '');
          const { contents } = app.serviceManager;
          const path = await placed(contents, folder, () => api.get('api/first-job'));
          await app.commands.execute('docmanager:open', { path });
        })
    });
    // Among the notebooks, at the top; there, a card's picture is an address.
    const kernelIconUrl = `data:image/svg+xml,${encodeURIComponent(jobsIcon.svgstr)}`;
    launcher?.add({ command: FIRST_JOB, category: 'Notebook', rank: 1, kernelIconUrl });
    palette?.addItem({ command: FIRST_JOB, category: 'Submarine' });
  }
};
