/** The panel: GPUs, what can be done to the selected job, a filter, the jobs. */

import type { CommandRegistry } from '@lumino/commands';
import type { ReadonlyJSONObject } from '@lumino/coreutils';
import type { Message } from '@lumino/messaging';
import { Menu, Widget } from '@lumino/widgets';

import { COMPARE, FIRST_JOB, INSERT_ATTACH, SHOW_LOG } from '../commands/ids';
import { element, setText } from '../dom';
import type { Feed } from '../feed';
import { Looker } from '../looker';
import type { ISubmarine } from '../plugin';
import { Gpus } from './gpus';
import { Usage } from '../usage/section';
import { JobList } from './list';
import { counted, type Filter, rows } from './rows';
import { Sparks } from './sparks';

export const PANEL_ID = 'submarine-panel';

export class JobsPanel extends Widget {
  constructor(
    private readonly _submarine: ISubmarine,
    private readonly _commands: CommandRegistry,
    private readonly _groups: string[][],
    flow: HTMLElement | null = null
  ) {
    super();
    this.id = PANEL_ID;
    this.addClass('submarine-Panel');
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', 'Jobs and GPUs');
    this.title.caption = 'Jobs and GPUs';
    this._looker = new Looker(_submarine.feed);
    this._sparks = new Sparks(jobs => _submarine.api.sparklines(jobs), this._list.node);
    this._note.hidden = true;
    this.node.append(
      this._note,
      this._gpus.node,
      ...(flow ? [flow] : []),
      new Usage(_submarine.api).node,
      this._makeFilter(),
      this._makeButtons(),
      this._list.node,
      this._empty,
      this._first
    );
    this._first.hidden = true;
    this._first.addEventListener('click', () => void this._commands.execute(FIRST_JOB));
    this._list.selected.connect(() => this._updateButtons());
    this._list.opened.connect((_, job) => this._execute(SHOW_LOG, job));
    this._list.menuAsked.connect((_, { x, y }) => this._openMenu(x, y));
    const { feed } = _submarine;
    feed.overviewChanged.connect(this._onOverview, this);
    feed.troubled.connect(this._onTrouble, this);
    this._onTrouble(feed);
  }

  override dispose(): void {
    clearInterval(this._timer);
    this._looker.dispose();
    this._sparks.dispose();
    this._submarine.feed.overviewChanged.disconnect(this._onOverview, this);
    this._submarine.feed.troubled.disconnect(this._onTrouble, this);
    super.dispose();
  }

  protected override onAfterShow(message: Message): void {
    super.onAfterShow(message);
    this._looker.looking = true;
    this._timer = setInterval(() => this._tick(), 1000);
    this._update();
  }

  protected override onAfterAttach(message: Message): void {
    super.onAfterAttach(message);
    if (this.isVisible) {
      this.onAfterShow(message);
    }
  }

  protected override onBeforeHide(message: Message): void {
    this._looker.looking = false;
    clearInterval(this._timer);
    super.onBeforeHide(message);
  }

  protected override onBeforeDetach(message: Message): void {
    this._looker.looking = false;
    clearInterval(this._timer);
    super.onBeforeDetach(message);
  }

  protected override onActivateRequest(message: Message): void {
    super.onActivateRequest(message);
    this._list.node.focus();
  }

  private _onOverview(): void {
    if (this.isVisible) {
      this._update();
    }
  }

  private _onTrouble(feed: Feed): void {
    const words = feed.trouble();
    setText(this._note, words);
    this._note.hidden = !words;
  }

  private _rows() {
    const { overview } = this._submarine.feed;
    if (!overview) {
      return [];
    }
    const age = Math.max(0, (Date.now() - this._submarine.feed.made(overview)) / 1000);
    return rows(overview, this._filter, age);
  }

  private _tick(): void {
    this._list.tick(this._rows());
    if (document.visibilityState === 'visible') {
      this._sparks.refresh();
    }
  }

  private _update(): void {
    const { overview } = this._submarine.feed;
    if (!overview) {
      return;
    }
    this._gpus.update(overview);
    const shown = this._rows();
    this._list.update(shown);
    this._sparks.update(shown, this._list.rows);
    const all = overview.jobs.length;
    setText(this._count, counted(overview.jobs));
    setText(this._empty, shown.length ? '' : all ? 'No matching jobs' : 'No jobs yet');
    this._first.hidden = all > 0;
    this._updateButtons();
  }

  private _makeFilter(): HTMLElement {
    const node = element('div', 'submarine-Filter', { role: 'search' });
    this._text.addEventListener('input', () => {
      this._filter.text = this._text.value;
      this._update();
    });
    this._text.addEventListener('keydown', event => {
      if (event.key === 'ArrowDown') {
        this._list.node.focus();
        event.preventDefault();
      }
    });
    const label = element('label', 'submarine-Filter-running');
    const box = element('input', '', { type: 'checkbox' });
    box.addEventListener('change', () => {
      this._filter.running = box.checked;
      this._update();
    });
    label.append(box, 'running only');
    node.append(this._text, label, this._count);
    return node;
  }

  private _makeButtons(): HTMLElement {
    const commands = this._groups.flat().filter(each => each !== INSERT_ATTACH);
    for (const command of commands) {
      const words = this._commands.label(command);
      const title = this._commands.caption(command) || words;
      const button = element('button', 'submarine-Button jp-mod-styled', {
        type: 'button',
        'aria-label': words,
        title,
        'data-command': command
      });
      const icon = this._commands.icon(command);
      if (icon && typeof icon !== 'string') {
        const image = element('span', 'submarine-Button-icon', { 'aria-hidden': 'true' });
        icon.render(image);
        button.append(image);
      }
      button.addEventListener('click', () => {
        if (this._isPossible(command)) {
          void this._commands.execute(command, this._args(command));
        }
      });
      this._buttons.append(button);
    }
    this._updateButtons();
    return this._buttons;
  }

  private _updateButtons(): void {
    for (const button of this._buttons.querySelectorAll('button')) {
      button.disabled = !this._isPossible(button.dataset.command!);
    }
  }

  private _args(command: string): ReadonlyJSONObject {
    const jobs = this._list.selections;
    // The list has the newest first; what came later is compared with what was before.
    return command === COMPARE
      ? { jobs: jobs.reverse() }
      : { job: jobs.length === 1 ? jobs[0] : '' };
  }

  /** Whether a command can be done to what is selected: but for one, all are about one job. */
  private _isPossible(command: string): boolean {
    const several = this._list.selections.length > 1;
    const args = this._args(command);
    return (command === COMPARE ? several : !!args.job) && this._commands.isEnabled(command, args);
  }

  private _execute(command: string, job: string): void {
    if (job) {
      void this._commands.execute(command, { job });
    }
  }

  private _openMenu(x: number, y: number): void {
    const menu = new Menu({ commands: this._commands });
    menu.title.label = 'Job';
    this._groups.forEach(group => {
      const possible = group.filter(each => this._isOffered(each));
      if (possible.length && menu.items.length) {
        menu.addItem({ type: 'separator' });
      }
      possible.forEach(command => menu.addItem({ command, args: this._args(command) }));
    });
    menu.aboutToClose.connect(() => setTimeout(() => menu.dispose()));
    menu.open(x, y);
  }

  /** Whether a menu has it: of one job all but what needs several, of several that alone. */
  private _isOffered(command: string): boolean {
    return (command === COMPARE) === this._list.selections.length > 1;
  }

  private readonly _looker: Looker;
  private readonly _sparks: Sparks;
  private readonly _filter: Filter = { text: '', running: false };
  private readonly _gpus = new Gpus();
  private readonly _list = new JobList();
  private readonly _note = element('div', 'submarine-Note', { role: 'status' });
  private readonly _empty = element('div', 'submarine-Quiet', { 'aria-live': 'polite' });
  private readonly _first = element(
    'button',
    'submarine-First jp-mod-styled jp-mod-accept',
    { type: 'button' },
    'Run your first job'
  );
  private readonly _count = element('span', 'submarine-Count', { 'aria-live': 'polite' });
  private readonly _buttons = element('div', 'submarine-Buttons', {
    role: 'group',
    'aria-label': 'The selected job'
  });
  private readonly _text = element('input', 'jp-mod-styled', {
    type: 'search',
    placeholder: 'Filter jobs',
    'aria-label': 'Filter jobs by name, notebook, cluster, state or id'
  });
  private _timer: ReturnType<typeof setInterval> | undefined;
}
