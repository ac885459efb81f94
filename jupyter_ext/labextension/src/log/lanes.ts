/** Which log is shown: each task has two, and both together. Few of them are tabs, many a list. */

import { size } from '../words';
import type { LogView } from '../types';

const MOST_TABS = 6;

export class Lanes {
  constructor(private readonly _chosen: (log: LogView) => void) {
    this.node.className = 'smc-lanes';
    this._list.setAttribute('aria-label', 'Log');
    this._list.addEventListener('change', () => this._choose(this._list.selectedIndex));
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

  private _choose(at: number): void {
    this._picked = true;
    this.current = this._logs[at];
    this._draw();
    this._chosen(this.current);
  }

  private _draw(): void {
    const many = this._logs.length > MOST_TABS;
    const wanted = many ? 1 : this._logs.length;
    if (this.node.childNodes.length !== wanted || many !== this._list.isConnected) {
      const tabs = this._logs.map((_, at) => this._tab(at));
      this.node.replaceChildren(...(many ? [this._list] : tabs));
    }
    if (many) {
      this._fillList();
      return;
    }
    this._logs.forEach((log, at) => {
      const tab = this.node.children[at] as HTMLButtonElement;
      tab.setAttribute('aria-pressed', String(key(log) === key(this.current)));
      tab.textContent = title(log, this._logs);
    });
  }

  private _tab(at: number): HTMLButtonElement {
    const tab = document.createElement('button');
    tab.type = 'button';
    tab.className = 'smc-lane';
    tab.addEventListener('click', () => this._choose(at));
    return tab;
  }

  private _fillList(): void {
    while (this._list.options.length > this._logs.length) {
      this._list.remove(this._logs.length);
    }
    this._logs.forEach((log, at) => {
      const option =
        this._list.options[at] ?? this._list.appendChild(document.createElement('option'));
      option.textContent = title(log, this._logs);
      option.selected = key(log) === key(this.current);
    });
  }

  private readonly _list = document.createElement('select');
  private _logs: LogView[] = [];
  private _picked = false;
}

function key(log: LogView | null): string {
  return log ? `${log.task}/${log.stream}` : '';
}

function title(log: LogView, all: LogView[]): string {
  const several = new Set(all.map(each => each.task)).size > 1;
  const task = several ? `${log.task} ` : '';
  return log.stream === 'all' ? `${task}All` : `${task}${log.stream} · ${size(log.size)}`;
}
