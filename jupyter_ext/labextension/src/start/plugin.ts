/** *New → Notebook on Cluster…*: asks for GPUs, starts it, and opens it when it can be used. */

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { Dialog, ICommandPalette, Notification, showDialog } from '@jupyterlab/apputils';
import { URLExt } from '@jupyterlab/coreutils';
import { IDefaultFileBrowser } from '@jupyterlab/filebrowser';
import { ILauncher } from '@jupyterlab/launcher';

import type { Api } from '../api';
import { CANCEL, NEW_NOTEBOOK, OPEN_NOTEBOOK, SHOW_LOG } from '../commands/ids';
import { told } from '../commands/plugin';
import { clusterIcon } from '../icons';
import { ISubmarine } from '../plugin';
import { problem, sentence, visible } from '../words';
import { blame, StartForm } from './form';
import { follow } from './follow';

export const startPlugin: JupyterFrontEndPlugin<void> = {
  id: '@submarine-notebook/labextension:start',
  description: 'Starts notebooks on the cluster.',
  autoStart: true,
  requires: [ISubmarine],
  optional: [ILauncher, ICommandPalette, IDefaultFileBrowser],
  activate: (
    app: JupyterFrontEnd,
    submarine: ISubmarine,
    launcher: ILauncher | null,
    palette: ICommandPalette | null,
    browser: IDefaultFileBrowser | null
  ) => {
    const { contents } = app.serviceManager;
    app.commands.addCommand(NEW_NOTEBOOK, {
      label: args =>
        args.isPalette || args.isMenu ? 'Notebook on Cluster…' : 'Notebook on Cluster',
      caption: 'Start JupyterLab on the cluster, with GPUs, and open it when it is ready',
      icon: clusterIcon,
      describedBy: { args: { type: 'object', properties: { cwd: { type: 'string' } } } },
      execute: args =>
        told(async () => {
          const cwd = typeof args.cwd === 'string' ? args.cwd : (browser?.model.path ?? '');
          const job = await ask(submarine, contents.localPath(cwd));
          if (job) {
            void tell(app, submarine.api, job);
          }
        })
    });
    const kernelIconUrl = `data:image/svg+xml,${encodeURIComponent(clusterIcon.svgstr)}`;
    launcher?.add({ command: NEW_NOTEBOOK, category: 'Notebook', rank: 2, kernelIconUrl });
    palette?.addItem({ command: NEW_NOTEBOOK, category: 'Submarine', args: { isPalette: true } });
  }
};

/** Ask for what it shall have until it is started; the id of its job, empty for none. */
async function ask({ api, feed }: ISubmarine, folder: string): Promise<string> {
  const fields = await api.notebookForm();
  const overview = feed.overview ?? (await api.overview().catch(() => null));
  let values: Record<string, string> = {};
  let refused = { key: '', words: '' };
  for (;;) {
    const answer = await showDialog({
      title: 'Notebook on Cluster',
      body: new StartForm(fields, overview, values, refused),
      buttons: [Dialog.cancelButton(), Dialog.okButton({ label: 'Start' })],
      focusNodeSelector: `[name=${refused.key || 'gpus'}]`
    });
    if (!answer.button.accept || !answer.value) {
      return '';
    }
    values = answer.value;
    try {
      const given = Object.entries(values).filter(([, text]) => text);
      return (await api.startNotebook(folder, Object.fromEntries(given))).job;
    } catch (error) {
      refused = blame(error, fields);
    }
  }
}

/** Tell how far it is, in one notification, until it can be used or has failed. */
async function tell(app: JupyterFrontEnd, api: Api, job: string): Promise<void> {
  const action = (label: string, command: string) => ({
    label,
    callback: () => void app.commands.execute(command, { job })
  });
  const stop = [action('Cancel', CANCEL)];
  const begun = 'The notebook on the cluster starts.';
  const id = Notification.emit(begun, 'in-progress', { autoClose: false, actions: stop });
  try {
    const url = await follow(
      () => api.notebook(job),
      words => Notification.update({ id, message: sentence(visible(words, 300)) })
    );
    const address = URLExt.join(api.settings.baseUrl, url);
    // A browser that takes this for a pop-up leaves it to the button.
    const opened = window.open(address, '_blank');
    if (opened) {
      opened.opener = null;
    }
    Notification.update({
      id,
      type: 'success',
      message: 'The notebook on the cluster is ready.',
      autoClose: false,
      actions: [action('Open notebook', OPEN_NOTEBOOK)]
    });
  } catch (error) {
    Notification.update({
      id,
      type: 'error',
      message: `The notebook on the cluster did not start. ${sentence(problem(error))}`,
      autoClose: false,
      actions: [action('Open log', SHOW_LOG)]
    });
  }
}
