/** The flow of the current notebook, in the panel: asked for when its reader opens it. */

import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import type { IDisposable } from '@lumino/disposable';

import type { Api } from '../api';
import { SHOW_FLOW } from '../commands/ids';
import { element, setText } from '../dom';
import { visible } from '../words';
import { FlowView } from './view';

const NONE = 'No notebook is open.';

export class FlowSection implements IDisposable {
  constructor(
    api: Api,
    private readonly _app: JupyterFrontEnd,
    private readonly _tracker: INotebookTracker
  ) {
    this._view = new FlowView(api, _app.commands, '');
    const open = element('button', 'submarine-FlowSection-open jp-mod-styled', {
      type: 'button',
      title: 'Show this flow in a tab of its own, where there is more room'
    });
    open.textContent = 'Open in a tab';
    open.addEventListener('click', () => {
      void _app.commands.execute(SHOW_FLOW, { path: this._path });
    });
    this._open = open;
    const head = element('div', 'submarine-FlowSection-head');
    head.append(this._of, open);
    this.node.append(element('summary', '', {}, 'Flow'), head, this._view.node);
    this.node.addEventListener('toggle', () => this._update());
    _tracker.currentChanged.connect(this._follow, this);
    this._follow();
  }

  readonly node = element('details', 'submarine-FlowSection') as HTMLDetailsElement;

  get isDisposed(): boolean {
    return this._view.isDisposed;
  }

  dispose(): void {
    this._tracker.currentChanged.disconnect(this._follow, this);
    this._context?.pathChanged.disconnect(this._update, this);
    this._view.dispose();
  }

  private get _path(): string {
    const path = this._tracker.currentWidget?.context.path ?? '';
    return this._app.serviceManager.contents.localPath(path);
  }

  private _follow(): void {
    this._context?.pathChanged.disconnect(this._update, this);
    this._context = this._tracker.currentWidget?.context ?? null;
    this._context?.pathChanged.connect(this._update, this);
    this._update();
  }

  private _update(): void {
    const path = this._path;
    setText(this._of, path ? visible(path.split('/').pop(), 60) : NONE);
    this._open.hidden = !path;
    if (this.node.open) {
      this._view.path = path;
    }
  }

  private _context: NotebookPanel['context'] | null = null;
  private readonly _view: FlowView;
  private readonly _open: HTMLElement;
  private readonly _of = element('span', 'submarine-Quiet');
}
