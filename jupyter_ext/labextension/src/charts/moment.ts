/** What the log said at the cursor's moment: the last line by then, and those around it. */

import type { IDisposable } from '@lumino/disposable';

import type { Api } from '../api';
import { element, setText } from '../dom';
import { timeText } from '../log/times';
import type { LineAt } from '../types';
import { problem, visible } from '../words';

const SOON = 60; // ms: a cursor that moves asks for where it stops

export class LogMoment implements IDisposable {
  constructor(
    private readonly _api: Pick<Api, 'lineAt'>,
    private readonly _job: string
  ) {
    this._task.addEventListener('change', () => this._soon());
    const head = element('div', 'submarine-Moment-head');
    head.append(this._title, this._task);
    this.node.append(head, this._lines);
    this.clear();
  }

  readonly node = element('section', 'submarine-Moment', { 'aria-label': 'Log at the cursor' });

  get isDisposed(): boolean {
    return this._disposed;
  }

  /** Let the reader choose among these tasks. */
  offer(tasks: string[]): void {
    const now = [...this._task.options].map(each => each.value);
    if (now.join() !== tasks.join()) {
      const chosen = this._task.value;
      this._task.replaceChildren(...tasks.map(each => element('option', '', {}, each)));
      this._task.value = tasks.includes(chosen) ? chosen : (tasks[0] ?? '');
      this._task.hidden = tasks.length < 2;
    }
  }

  /** Show the log of this time; what was shown stays where the cursor has left. */
  at(seconds: number | null): void {
    if (seconds !== null) {
      this._at = seconds;
      this._soon();
    }
  }

  clear(): void {
    setText(this._title, 'Log: point at a chart');
    this._lines.replaceChildren();
  }

  dispose(): void {
    this._disposed = true;
    clearTimeout(this._timer);
  }

  private _soon(): void {
    clearTimeout(this._timer);
    this._timer = setTimeout(() => void this._ask(), SOON);
  }

  /** One question at a time, and one more for where the cursor went meanwhile. */
  private async _ask(): Promise<void> {
    const [at, task] = [this._at, this._task.value];
    if (this._disposed || at === null || !task) {
      return;
    }
    if (this._busy) {
      this._again = true;
      return;
    }
    this._busy = true;
    try {
      const found = await this._api.lineAt(this._job, task, at);
      if (!this._disposed) {
        this._show(at, found);
      }
    } catch (error) {
      setText(this._title, `No log: ${problem(error)}`);
      this._lines.replaceChildren();
    }
    this._busy = false;
    if (this._again) {
      this._again = false;
      void this._ask();
    }
  }

  private _show(at: number, found: LineAt): void {
    const words = found.line === null ? 'nothing was written yet' : `line ${found.line + 1}`;
    setText(this._title, `Log at ${timeText(at, 'clock', null)}: ${words}`);
    this._lines.replaceChildren(
      ...found.lines.map((line, number) => {
        const now = found.start + number === found.line;
        const time = timeText(found.times?.[number] ?? null, 'clock', null);
        const node = element('div', `submarine-Moment-line${now ? ' submarine-mod-now' : ''}`);
        if (now) {
          node.setAttribute('aria-current', 'true');
        }
        node.append(
          element('span', 'submarine-Moment-time', {}, time),
          element('code', '', {}, visible(line, 400))
        );
        return node;
      })
    );
  }

  private readonly _title = element('span', '', { role: 'status' });
  private readonly _task = element('select', 'submarine-Moment-task', { 'aria-label': 'Task' });
  private readonly _lines = element('div', 'submarine-Moment-lines');
  private _at: number | null = null;
  private _timer: ReturnType<typeof setTimeout> | undefined;
  private _busy = false;
  private _again = false;
  private _disposed = false;
}
