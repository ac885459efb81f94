/** A job's log in a tab of its own; it is there again after a reload. */

import type { ILayoutRestorer, JupyterFrontEnd } from '@jupyterlab/application';
import { MainAreaWidget, WidgetTracker } from '@jupyterlab/apputils';

import type { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import { fileIcon } from '@jupyterlab/ui-components';

import { OPEN_LOG } from '../commands/ids';
import type { ISubmarine } from '../plugin';
import { followLogs } from './follow';
import { LogView } from './view';

class LogTab extends MainAreaWidget<LogView> {
  constructor(
    readonly job: string,
    readonly name: string,
    submarine: ISubmarine,
    rendermime: IRenderMimeRegistry
  ) {
    super({ content: new LogView(submarine.api, job, { rendermime }) });
    this.id = `submarine-log-${job}`;
    this.title.label = `Log: ${name || job}`;
    this.title.icon = fileIcon;
    this.title.closable = true;
    this.content.addClass('submarine-mod-tab');
    this.disposed.connect(followLogs(submarine.feed, job, this.content));
  }
}

/** Register the command; return what opens a log. Without `tabs`, its page opens in the browser. */
export function logTabs(
  app: JupyterFrontEnd,
  submarine: ISubmarine,
  rendermime: IRenderMimeRegistry,
  tabs: boolean,
  restorer: ILayoutRestorer | null
): (job: string, name: string) => void {
  const tracker = new WidgetTracker<LogTab>({ namespace: 'submarine-log' });
  const open = (job: string, name: string) => {
    if (!tabs) {
      window.open(submarine.api.url(`jobs/${encodeURIComponent(job)}`), '_blank', 'noopener');
      return;
    }
    let tab = tracker.find(each => each.job === job);
    if (!tab) {
      tab = new LogTab(job, name, submarine, rendermime);
      void tracker.add(tab);
    }
    if (!tab.isAttached) {
      app.shell.add(tab, 'main', { mode: 'split-bottom' });
    }
    app.shell.activateById(tab.id);
  };
  app.commands.addCommand(OPEN_LOG, {
    label: 'Open the log of a Submarine job',
    describedBy: {
      args: { type: 'object', properties: { job: { type: 'string' }, name: { type: 'string' } } }
    },
    execute: args => (args.job ? open(String(args.job), String(args.name ?? '')) : undefined)
  });
  if (tabs && restorer) {
    void restorer.restore(tracker, {
      command: OPEN_LOG,
      args: tab => ({ job: tab.job, name: tab.name }),
      name: tab => tab.job
    });
  }
  return open;
}
