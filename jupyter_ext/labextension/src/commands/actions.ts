/** What can be done to a job, from wherever it is asked for. */

import type { ILabShell, JupyterFrontEnd } from '@jupyterlab/application';
import {
  Clipboard,
  Dialog,
  InputDialog,
  MainAreaWidget,
  Notification,
  showDialog
} from '@jupyterlab/apputils';
import { URLExt } from '@jupyterlab/coreutils';
import { type INotebookTracker, NotebookActions, NotebookPanel } from '@jupyterlab/notebook';
import { IFrame } from '@jupyterlab/ui-components';
import { type Title, Widget } from '@lumino/widgets';

import type { BoardWanted } from '../api';
import { CompareView } from '../charts/compare';
import { MetricsView } from '../charts/view';
import { element } from '../dom';
import { FlowView } from '../flow/view';
import { chartIcon } from '../icons';
import type { ISubmarine } from '../plugin';
import { StacksView } from '../stacks/view';
import type { JobSummary } from '../types';
import { visible } from '../words';
import { jobs } from './choose';
import { askForEnd, mayCancel } from './dialogs';
import { COMPARE, METRICS, OPEN_LOG, SHOW_FLOW, SHOW_SCRIPT, STACKS } from './ids';
import { contentsPaths, findCell, flowCell, insertAttach, showCell } from './notebooks';
import type { Again, Tabs } from './tabs';

/** JupyterLab's own: shows the terminal of a name. */
const OPEN_TERMINAL = 'terminal:open';

/** Said to the user as it is. */
export class Refusal extends Error {}

export class Actions {
  constructor(
    private readonly _app: JupyterFrontEnd,
    private readonly _submarine: ISubmarine,
    private readonly _tracker: INotebookTracker | null,
    private readonly _lab: ILabShell | null,
    private readonly _tabs: Tabs
  ) {}

  async showLog(job: JobSummary): Promise<void> {
    if (this._app.commands.hasCommand(OPEN_LOG)) {
      await this._app.commands.execute(OPEN_LOG, { job: job.id, name: visible(job.name, 60) });
    } else {
      this._open(this._submarine.api.url(`jobs/${encodeURIComponent(job.id)}`));
    }
  }

  async cancel(job: JobSummary): Promise<void> {
    if (await mayCancel(shown(job), this._age(job))) {
      this._tellAsked(job, (await this._submarine.api.cancel(job.id)).asked);
    }
  }

  async kill(job: JobSummary): Promise<void> {
    const { api } = this._submarine;
    const end = await askForEnd(shown(job));
    if (end !== 'keep') {
      const told = await (end === 'kill' ? api.kill(job.id) : api.cancel(job.id));
      this._tellAsked(job, told.asked);
    }
  }

  async attach(job: JobSummary, run: boolean): Promise<void> {
    const panel = this._tracker?.currentWidget;
    if (!panel) {
      throw new Refusal('No notebook is open. Open one first.');
    }
    await insertAttach(panel, job.id);
    if (run) {
      void NotebookActions.run(panel.content, panel.sessionContext);
    }
    this._app.shell.activateById(panel.id);
  }

  async tensorboard(wanted: BoardWanted): Promise<void> {
    const { url } = await this._submarine.api.tensorboard(wanted);
    const address = URLExt.join(this._submarine.api.settings.baseUrl, url);
    if (!this._lab) {
      return this._open(address);
    }
    const sandbox = ['allow-scripts', 'allow-same-origin', 'allow-downloads', 'allow-popups'];
    const content = new IFrame({ sandbox: sandbox as IFrame.SandboxExceptions[] });
    content.url = address;
    content.title.label = 'TensorBoard';
    content.title.icon = chartIcon;
    this._tabs.show(content, `submarine-tensorboard-${url}`);
  }

  /** Ask where a job's tasks stand; in a tab where there are tabs. */
  async stacks(job: JobSummary): Promise<void> {
    const { api } = this._submarine;
    const title = `Stacks: ${shown(job)}`;
    if (!this._lab) {
      const body = new StacksView(api, job.id);
      void body.ask();
      const buttons = [Dialog.okButton({ label: 'Close' })];
      return void (await showDialog({ title, body, buttons }));
    }
    const id = `submarine-stacks-${job.id}`;
    const content = new StacksView(api, job.id);
    content.addClass('submarine-mod-tab');
    content.title.label = title;
    const again = { command: STACKS, args: { job: job.id } };
    const there = this._tabs.show(content, id, again) as MainAreaWidget<StacksView>;
    void there.content.ask();
  }

  /** Show charts of what a job uses and reports; in a tab where there are tabs. */
  metrics(job: JobSummary): void {
    const content = new MetricsView(this._submarine.api, job.id);
    const again = { command: METRICS, args: { job: job.id } };
    void this._show(content, `Metrics: ${shown(job)}`, `submarine-metrics-${job.id}`, again);
  }

  /** Show jobs beside each other. */
  compare(jobs: string[]): void {
    const content = new CompareView(this._submarine.api, jobs);
    const again = { command: COMPARE, args: { jobs } };
    void this._show(content, 'Compare jobs', `submarine-compare-${jobs.join('-')}`, again);
  }

  /** Show the graph of a flow, with its newest run. */
  flow(path: string): void {
    const { commands } = this._app;
    const content = new FlowView(this._submarine.api, commands, path);
    content.addClass('submarine-mod-tab');
    const again = { command: SHOW_FLOW, args: { path } };
    const name = visible(path.split('/').pop(), 40);
    void this._show(content, `Flow: ${name}`, `submarine-flow-${path}`, again);
  }

  /** Go to a cell of a flow: by its id, else by its number among the cells that a kernel runs. */
  async goToFlowCell(notebook: string, cell: string, number: number): Promise<void> {
    const panel = await this._openPath(notebook);
    if (!panel) {
      throw new Refusal(
        `The notebook is not below this server's folder: ${visible(notebook, 200)}`
      );
    }
    this._app.shell.activateById(panel.id);
    const index = flowCell([...(panel.content.model?.cells ?? [])], cell, number);
    if (index < 0) {
      throw new Refusal('The cell is no longer in the notebook.');
    }
    await showCell(panel, index);
  }

  private async _show(
    content: MetricsView | CompareView | FlowView,
    title: string,
    id: string,
    again: Again
  ): Promise<void> {
    void content.ask();
    if (!this._lab) {
      content.addClass('submarine-mod-dialog');
      const buttons = [Dialog.okButton({ label: 'Close' })];
      return void (await showDialog({ title, body: content, buttons }));
    }
    content.title.label = title;
    this._tabs.show(content, id, again);
  }

  /** Open a shell inside a job, in one of JupyterLab's own terminals. */
  async terminal(job: JobSummary): Promise<void> {
    const { commands } = this._app;
    if (!commands.hasCommand(OPEN_TERMINAL)) {
      throw new Refusal('This page has no terminals.');
    }
    const { name } = await this._submarine.api.terminal(job.id);
    const tab: unknown = await commands.execute(OPEN_TERMINAL, { name });
    if (tab instanceof MainAreaWidget) {
      keepLabel(tab.content.title, `Terminal: ${shown(job)}`);
    }
  }

  /** Open the page of a notebook on the cluster, in a tab of the browser. */
  async openNotebook(job: JobSummary): Promise<void> {
    const { api } = this._submarine;
    const { url, waits, state } = await api.notebook(job.id);
    if (!url) {
      const why = waits || (state === 'running' ? 'it starts' : `it is ${state}`);
      throw new Refusal(`${shown(job)} cannot be opened yet: ${visible(why, 300)}.`);
    }
    this._open(URLExt.join(api.settings.baseUrl, url));
  }

  /** Open what a job serves at a port, in a tab of the browser. */
  async port(job: JobSummary): Promise<void> {
    const label = 'A port at which the job serves pages:';
    const { value } = await InputDialog.getText({ title: shown(job), label, placeholder: '8888' });
    if (value === null) {
      return;
    }
    if (!/^[0-9]{1,5}$/.test(value.trim())) {
      throw new Refusal(`${visible(value, 40)} is no port: type a number, as 8888.`);
    }
    const path = `proxy/${encodeURIComponent(job.id)}/${value.trim()}/`;
    this._open(this._submarine.api.url(path));
  }

  async showScript(job: JobSummary): Promise<void> {
    const path = `api/jobs/${encodeURIComponent(job.id)}/script`;
    if (!this._lab) {
      return this._open(this._submarine.api.url(path));
    }
    const text = await (await this._submarine.api.request(path)).text();
    const content = new Widget();
    content.addClass('submarine-Script');
    content.title.label = `${shown(job)}: script`;
    content.node.append(element('pre', '', { tabindex: '0' }, text));
    const again = { command: SHOW_SCRIPT, args: { job: job.id } };
    this._tabs.show(content, `submarine-script-${job.id}`, again);
  }

  copyId(job: JobSummary): void {
    Clipboard.copyToSystem(job.id);
  }

  async goToCell(job: JobSummary): Promise<void> {
    const open = () => this._tracker && findCell(this._tracker, job.id, job.cell_id ?? '');
    let found = open();
    if (!found) {
      const widget = await this._openNotebook(job);
      found = open();
      if (!found) {
        this._app.shell.activateById(widget.id);
        throw new Refusal(`The cell of ${shown(job)} is no longer in its notebook.`);
      }
    }
    this._app.shell.activateById(found.panel.id);
    await showCell(found.panel, found.index);
  }

  private async _openNotebook(job: JobSummary): Promise<NotebookPanel> {
    const { feed, api } = this._submarine;
    const all = job.notebook ? [] : await jobs(feed, api); // a card does not tell
    const { notebook } = all.find(each => each.id === job.id) ?? job;
    const widget = await this._openPath(notebook);
    if (widget) {
      return widget;
    }
    const where = visible(notebook, 200);
    throw new Refusal(
      where.endsWith('.ipynb')
        ? `The notebook of ${shown(job)} is not below this server's folder: ${where}`
        : `${shown(job)} does not come from a notebook.`
    );
  }

  /** Open a notebook by the path of its file; null where it is not below the server's root. */
  private async _openPath(notebook: string): Promise<NotebookPanel | null> {
    const { contents } = this._app.serviceManager;
    for (const path of contentsPaths(notebook)) {
      const there = await contents.get(path, { content: false }).catch(() => null);
      if (there) {
        const widget = await this._app.commands.execute('docmanager:open', { path });
        if (widget instanceof NotebookPanel) {
          await widget.context.ready;
          await widget.revealed;
          return widget;
        }
      }
    }
    return null;
  }

  /** Seconds since a job was submitted. */
  private _age(job: JobSummary): number {
    return job.created === null ? 0 : this._submarine.feed.now - job.created;
  }

  private _tellAsked(job: JobSummary, asked: boolean): void {
    if (!asked) {
      Notification.info(`${shown(job)} is already over`, { autoClose: 4000 });
    }
  }

  private _open(address: string): void {
    window.open(address, '_blank', 'noopener');
  }
}

function shown(job: JobSummary): string {
  return visible(job.name, 40) || job.id;
}

/** Name a terminal's tab for as long as it stands: once connected it names itself, and so do shells. */
function keepLabel(title: Title<Widget>, label: string): void {
  title.changed.connect(() => {
    title.label = label;
  });
  title.label = label;
}
