/** Where the tasks of a running job stand, side by side; asked for anew at each click. */

import type { Message } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';

import { build } from '../../../../magics/submarine_magics/card/tree.js';
import type { Api } from '../api';
import { element, setText } from '../dom';
import { problem } from '../words';

export interface Options {
  /** Called as a question begins and ends. */
  asking?: (busy: boolean) => void;
  /** Takes it away; it has no button for that where this is left out. */
  close?: () => void;
}

export class StacksView extends Widget {
  constructor(
    private readonly _api: Api,
    private readonly _job: string,
    private readonly _options: Options = {}
  ) {
    super();
    this.addClass('submarine-Stacks');
    this.addClass('submarine-card');
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', 'Stacks');
    this._again.addEventListener('click', () => void this.ask());
    const head = element('div', 'smc-head');
    const actions = element('span', 'smc-actions');
    actions.append(this._again);
    if (_options.close) {
      const close = element('button', 'smc-button', { type: 'button' }, 'Close');
      close.addEventListener('click', () => _options.close!());
      actions.append(close);
    }
    head.append(element('strong', 'smc-title', {}, 'Stacks'), this._when, actions);
    this._error.hidden = true;
    this.node.append(head, this._error, this._body);
  }

  /** Ask where the tasks stand, and show it; one question at a time. */
  async ask(): Promise<void> {
    if (this._busy) {
      return;
    }
    this._setBusy(true);
    try {
      const { at, tree } = await this._api.stacks(this._job);
      this._body.replaceChildren(build(tree));
      this._error.hidden = true;
      this._asOf = `as of ${new Date(at * 1000).toTimeString().slice(0, 8)}`;
    } catch (error) {
      setText(this._error, `No stacks: ${problem(error)}`);
      this._error.hidden = false;
    }
    this._setBusy(false);
  }

  protected override onActivateRequest(message: Message): void {
    super.onActivateRequest(message);
    this._again.focus();
  }

  private _setBusy(busy: boolean): void {
    this._busy = busy;
    this._again.disabled = busy;
    this.node.setAttribute('aria-busy', String(busy));
    setText(this._when, busy ? 'asking the tasks …' : this._asOf);
    this._options.asking?.(busy);
  }

  private readonly _when = element('span', 'smc-quiet', { role: 'status' });
  private readonly _again = element('button', 'smc-button', { type: 'button' }, 'Refresh');
  private readonly _error = element('div', 'smc-error', { role: 'alert' });
  private readonly _body = element('div', 'submarine-Stacks-body');
  private _busy = false;
  private _asOf = '';
}
