/** A flow: its graph, how far its newest run is, and what can be done with it. */

import type { CommandRegistry } from '@lumino/commands';
import { Widget } from '@lumino/widgets';

import {
  build,
  change,
  patch,
  tick,
  type Tree
} from '../../../../magics/submarine_magics/card/tree.js';
import type { Api, FlowAction } from '../api';
import { Poll } from '../charts/poll';
import { mayCancelRun } from '../commands/dialogs';
import { GO_TO_FLOW_CELL, SHOW_LOG } from '../commands/ids';
import { element, setText } from '../dom';
import type { FlowCard } from '../types';
import { problem } from '../words';

const BEAT = 1000; // ms
const DOES: Record<string, FlowAction> = {
  'flow-build': 'build',
  'flow-run': 'run',
  'flow-go-on': 'run',
  'flow-cancel': 'cancel',
  'flow-retry': 'retry'
};

/** What a view shows: a flow's newest run, or one run for good. */
export interface Shown {
  run?: string;
  /** Drawn until the server has answered. */
  tree?: Tree;
}

export class FlowView extends Widget {
  /** @param _path - of a notebook or folder, from the server's root or absolute; empty for none. */
  constructor(
    private readonly _api: Pick<Api, 'flow' | 'flowDo'>,
    private readonly _commands: Pick<CommandRegistry, 'execute'>,
    private _path: string,
    private readonly _shown: Shown = {}
  ) {
    super();
    this.addClass('submarine-Flow');
    this._trouble.hidden = true;
    this.node.append(this._trouble, this._body);
    this.node.addEventListener('click', event => this._onAct(event));
    this.node.addEventListener('keydown', event => {
      const of = (event.target as Element).closest?.('g[data-action]');
      if (of && (event.key === 'Enter' || event.key === ' ')) {
        event.preventDefault();
        this._onAct(event);
      }
    });
    if (_shown.tree) {
      this._draw(_shown.tree);
    }
    this._timer = setInterval(() => this._tick(), BEAT);
  }

  /** Show another notebook's flow. */
  set path(path: string) {
    if (path !== this._path) {
      this._path = path;
      this._card = this._tree = null;
      this._busy = this._refused = '';
      this._body.replaceChildren();
      this._say('');
      void this.ask();
    }
  }

  /** Ask for what there is; goes on while somebody looks. */
  ask(): Promise<void> {
    return this._poll.now();
  }

  override dispose(): void {
    clearInterval(this._timer);
    this._poll.dispose();
    super.dispose();
  }

  private async _ask(): Promise<boolean> {
    const path = this._path;
    if (!path || this.isDisposed) {
      return false;
    }
    try {
      this._take(await this._api.flow(path, this._shown.run), path);
      this._say('');
    } catch (error) {
      if (!this.isDisposed && path === this._path) {
        this._say(problem(error));
        this._body.hidden = !this._shown.tree;
      }
    }
    // One run does not change any more at its end; a flow may be run again, from anywhere.
    return !this._shown.run || this._card === null || this._card.going;
  }

  private _take(card: FlowCard, path: string): void {
    if (this.isDisposed || path !== this._path) {
      return;
    }
    this._card = card;
    this._drawn = Date.now();
    this._body.hidden = false;
    this._draw(card.tree);
  }

  private _draw(tree: Tree): void {
    const busy = this._busy;
    const next = busy ? change(tree, { [busy]: { disabled: '' } }) : tree;
    if (this._tree && this._body.firstChild) {
      patch(this._body.firstChild, this._tree, next);
    } else {
      this._body.replaceChildren(build(next));
    }
    this._tree = next;
    this._tick();
  }

  private _tick(): void {
    if (this._card?.going) {
      tick(this._body, (Date.now() - this._drawn) / 1000);
    }
  }

  private _onAct(event: Event): void {
    const found = (event.target as Element).closest<HTMLElement>('[data-action]');
    const { action = '', job = '', name = '' } = found?.dataset ?? {};
    if (!found || !this._card || found.hasAttribute('disabled')) {
      return;
    }
    if (action in DOES) {
      void this._do(action);
    } else if (job && action !== 'flow-cell') {
      void this._commands.execute(SHOW_LOG, { job, name });
    } else {
      const { cell = '', number = '' } = found.dataset;
      const { notebook } = this._card;
      void this._commands.execute(GO_TO_FLOW_CELL, { notebook, cell, number: Number(number) });
    }
  }

  private async _do(action: string): Promise<void> {
    const [card, path] = [this._card!, this._path];
    if (this._busy || (action === 'flow-cancel' && !(await mayCancelRun(card.name)))) {
      return;
    }
    if (this.isDisposed || path !== this._path) {
      return; // another flow was shown while the question stood there
    }
    // A new run for `run`; all else is about the run that is shown.
    const run = action === 'flow-run' || action === 'flow-build' ? '' : card.run;
    this._busy = action;
    this._refuse('');
    this._draw(card.tree);
    let next: FlowCard | null = null;
    let refused = '';
    try {
      next = await this._api.flowDo(DOES[action], path, run);
    } catch (error) {
      refused = problem(error);
    }
    if (this.isDisposed || path !== this._path) {
      return; // another flow is shown by now
    }
    this._busy = '';
    this._refuse(refused);
    if (next) {
      this._take(next, path);
    } else {
      this._draw((this._card ?? card).tree);
    }
    void this.ask();
  }

  private _say(words: string): void {
    this._said = words;
    this._tell();
  }

  private _refuse(words: string): void {
    this._refused = words;
    this._tell();
  }

  private _tell(): void {
    const words = this._refused || this._said;
    setText(this._trouble, words);
    this._trouble.hidden = !words;
  }

  private readonly _body = element('div');
  private readonly _trouble = element('div', 'submarine-Trouble', { role: 'alert' });
  private readonly _poll = new Poll(
    () => this._ask(),
    () => this.node.offsetParent !== null && document.visibilityState === 'visible'
  );
  private _card: FlowCard | null = null;
  private _tree: Tree | null = null;
  private _drawn = Date.now();
  private _busy = '';
  /** Why the last action failed: it stays until the next one. */
  private _refused = '';
  /** Why nothing could be asked for the last time. */
  private _said = '';
  private readonly _timer: ReturnType<typeof setInterval>;
}
