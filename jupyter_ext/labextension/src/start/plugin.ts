/** *New → Notebook on Cluster…*: asks for GPUs, starts it, and opens it when it can be used. */

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { Dialog, ICommandPalette, Notification, showDialog } from '@jupyterlab/apputils';
import { URLExt } from '@jupyterlab/coreutils';
import { IDefaultFileBrowser } from '@jupyterlab/filebrowser';
import { ILauncher } from '@jupyterlab/launcher';

import type { Api } from '../api';
import { details } from '../commands/dialogs';
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
          const started = await ask(submarine, contents.localPath(cwd));
          if (started) {
            void tell(app, submarine.api, started);
          }
        })
    });
    const kernelIconUrl = `data:image/svg+xml,${encodeURIComponent(clusterIcon.svgstr)}`;
    launcher?.add({ command: NEW_NOTEBOOK, category: 'Notebook', rank: 2, kernelIconUrl });
    palette?.addItem({ command: NEW_NOTEBOOK, category: 'Submarine', args: { isPalette: true } });
  }
};

/** A notebook that starts: its job, and the notification that tells how far it is. */
interface Started {
  job: string;
  shown: string;
}

/** Ask for what it shall have until it is started; null where nobody wants it. */
async function ask({ api, feed }: ISubmarine, folder: string): Promise<Started | null> {
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
      return null;
    }
    values = answer.value;
    // What it needs may have to be sent first, which takes minutes.
    const begun = 'The notebook on the cluster is submitted…';
    const shown = Notification.emit(begun, 'in-progress', { autoClose: false });
    try {
      const given = Object.entries(values).filter(([, text]) => text);
      const { job } = await api.startNotebook(folder, Object.fromEntries(given));
      return { job, shown };
    } catch (error) {
      Notification.dismiss(shown);
      refused = blame(error, fields);
    }
  }
}

/** Tell how far it is, in one notification, until it can be used or has failed. */
async function tell(app: JupyterFrontEnd, api: Api, { job, shown: id }: Started): Promise<void> {
  const action = (label: string, command: string) => ({
    label,
    callback: () => void app.commands.execute(command, { job })
  });
  const stop = [action('Cancel', CANCEL)];
  const say = (message: string) =>
    Notification.update({ id, message, actions: [...stop, ...details(message)] });
  say('The notebook on the cluster starts.');
  try {
    const url = await follow(
      () => api.notebook(job),
      words => say(sentence(visible(words, 300)))
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
    const message = `The notebook on the cluster did not start. ${sentence(problem(error))}`;
    Notification.update({
      id,
      type: 'error',
      message,
      autoClose: false,
      actions: [action('Open log', SHOW_LOG), ...details(message)]
    });
  }
}
