/** Which log is shown: a task from a list, where there are several, and of its logs one by tabs. */

import { size } from '../words';
import type { LogView } from '../types';

export class Lanes {
  constructor(private readonly _chosen: (log: LogView) => void) {
    this.node.className = 'smc-lanes';
    this._list.setAttribute('aria-label', 'Task');
    this._list.addEventListener('change', () => this._chooseTask(this._list.value));
  }

  readonly node = document.createElement('div');
  current: LogView | null = null;

  /** Take the logs as they are now; the first that holds anything is chosen, until the reader is. */
  set(logs: LogView[]): void {
    this._logs = logs;
    const same = logs.find(log => key(log) === key(this.current));
    const first = logs.find(log => log.size > 0) ?? logs[0] ?? null;
    const next = same && (this._picked || same.size > 0) ? same : first;
    const changed = key(next) !== key(this.current);
    this.current = next;
    this._draw();
    if (changed && next) {
      this._chosen(next);
    }
  }

  private _choose(log: LogView): void {
    this._picked = true;
    this.current = log;
    this._draw();
    this._chosen(log);
  }

  /** Show the same stream of another task. */
  private _chooseTask(task: string): void {
    const its = this._of(task);
    this._choose(its.find(log => log.stream === this.current?.stream) ?? its[0]);
  }

  private _of(task: string | undefined): LogView[] {
    return this._logs.filter(log => log.task === task);
  }

  private _draw(): void {
    const tasks = [...new Set(this._logs.map(log => log.task))];
    const mine = this._of(this.current?.task);
    const several = tasks.length > 1;
    const wanted = mine.length + (several ? 1 : 0);
    if (this.node.childNodes.length !== wanted || several !== this._list.isConnected) {
      const tabs = mine.map((_, at) => this._tab(at));
      this.node.replaceChildren(...(several ? [this._list] : []), ...tabs);
    }
    const renewed = tasks.join() !== [...this._list.options].map(each => each.value).join();
    if (renewed) {
      this._list.replaceChildren(...tasks.map(task => new Option(task, task)));
    }
    const task = this.current?.task ?? '';
    if (this._list.value !== task && (task !== this._shown || renewed)) {
      this._list.value = task; // but not under the eyes of who goes through it
    }
    this._shown = task;
    const tabs = this.node.querySelectorAll('button');
    mine.forEach((log, at) => {
      tabs[at].setAttribute('aria-pressed', String(key(log) === key(this.current)));
      tabs[at].textContent = title(log);
    });
  }

  private _tab(at: number): HTMLButtonElement {
    const tab = document.createElement('button');
    tab.type = 'button';
    tab.className = 'smc-lane';
    tab.addEventListener('click', () => this._choose(this._of(this.current?.task)[at]));
    return tab;
  }

  private readonly _list = document.createElement('select');
  private _logs: LogView[] = [];
  private _picked = false;
  private _shown = '';
}

function key(log: LogView | null): string {
  return log ? `${log.task}/${log.stream}` : '';
}

function title(log: LogView): string {
  return log.stream === 'all' ? 'All output' : `${log.stream} · ${size(log.size)}`;
}
