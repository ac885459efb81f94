/**
 * The end of a job, and that a notebook on the cluster is about to end since nobody uses it: a
 * message, a sign on the browser's tab, and the browser's notification.
 */

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette, Notification } from '@jupyterlab/apputils';
import { ISettingRegistry } from '@jupyterlab/settingregistry';

import type { Api } from '../api';
import { details } from '../commands/dialogs';
import { GO_TO_CELL, NOTIFY, OPEN_NOTEBOOK, SHOW_LOG } from '../commands/ids';
import { told } from '../commands/plugin';
import { jobsIcon } from '../icons';
import { ISubmarine } from '../plugin';
import { TitleBadge } from './badge';
import { claim } from './claims';
import { type Ending, Endings } from './endings';
import { type Notice, Notices } from './notices';
import { isSeen } from './seen';

const PLUGIN_ID = '@submarine-notebook/labextension:ended';
const SHOWN = 10_000; // ms
const KINDS: Record<string, Notification.TypeOptions> = {
  succeeded: 'success',
  failed: 'error',
  lost: 'error'
};

export const endedPlugin: JupyterFrontEndPlugin<void> = {
  id: PLUGIN_ID,
  description: 'Tells when a job is over, or a notebook that nobody uses about to be.',
  autoStart: true,
  requires: [ISubmarine],
  optional: [ISettingRegistry, ICommandPalette],
  activate: async (
    app: JupyterFrontEnd,
    { api, feed }: ISubmarine,
    registry: ISettingRegistry | null,
    palette: ICommandPalette | null
  ) => {
    app.commands.addCommand(NOTIFY, {
      label: 'Allow Notifications of Ended Jobs',
      caption: 'Let the browser tell when a job is over while this page is not seen',
      icon: jobsIcon,
      isEnabled: () => 'Notification' in window,
      describedBy: { args: { type: 'object', properties: {} } },
      execute: () =>
        told(async () => {
          const answer = await window.Notification.requestPermission();
          Notification.info(
            answer === 'granted'
              ? 'The browser will tell when a job is over.'
              : "The browser does not allow it. Change this site's permissions in its settings.",
            { autoClose: SHOWN }
          );
        })
    });
    palette?.addItem({ command: NOTIFY, category: 'Submarine' });
    const badge = new TitleBadge();
    const settings = await registry?.load(PLUGIN_ID).catch(() => null);
    new Endings(feed, async ending => {
      if (settings?.composite.enabled === false) {
        return;
      }
      // Looked at now: when it is this tab's turn, the reader may have gone elsewhere.
      const [visible, seen] = [document.visibilityState === 'visible', isSeen(ending.id)];
      if (!visible) {
        badge.show(ending.state, ending.text);
      }
      if (!(await claim(ending.id, visible))) {
        return;
      }
      if (!visible) {
        notify(ending, () => void app.commands.execute(SHOW_LOG, { job: ending.id }));
      }
      if (!seen) {
        // Of a job that is not in the overview nobody knows; the command says what there is.
        const row = feed.overview?.jobs.find(job => job.id === ending.id);
        toast(app, ending, !row || Boolean(row.notebook));
      }
    });
    new Notices(feed, notice => {
      if (document.visibilityState !== 'visible') {
        badge.show('cancelling', 'a notebook ends soon');
        notify(notice, () => undefined);
      }
      return warn(app, api, notice);
    });
  }
};

function toast(app: JupyterFrontEnd, { id, state, text }: Ending, ofCell: boolean): void {
  const action = (label: string, command: string) => ({
    label,
    callback: () => void app.commands.execute(command, { job: id })
  });
  Notification.emit(text, KINDS[state] ?? 'info', {
    autoClose: SHOWN,
    actions: [
      action('Open log', SHOW_LOG),
      ...(ofCell ? [action('Go to cell', GO_TO_CELL)] : []),
      ...details(text)
    ]
  });
}

/** Show that a notebook is about to end; what it returns takes that away. */
function warn(app: JupyterFrontEnd, api: Api, { id, text, opens }: Notice): () => void {
  const keep = (event: MouseEvent) => {
    event.preventDefault(); // it stays until it was kept: where that fails it still holds
    void told(async () => {
      await api.keep(id);
      Notification.dismiss(shown);
    });
  };
  const open = () => void app.commands.execute(OPEN_NOTEBOOK, { job: id });
  const shown = Notification.warning(text, {
    autoClose: false,
    actions: [
      { label: 'Keep', caption: 'Keep it: the time without use begins anew', callback: keep },
      ...(opens ? [{ label: 'Open notebook', callback: open }] : []),
      ...details(text)
    ]
  });
  return () => Notification.dismiss(shown);
}

function notify({ id, text }: Pick<Ending, 'id' | 'text'>, clicked: () => void): void {
  if ('Notification' in window && window.Notification.permission === 'granted') {
    const shown = new window.Notification(text, { tag: id });
    shown.onclick = () => {
      window.focus();
      clicked();
    };
  }
}
