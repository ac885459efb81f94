/** What jobs have cost, in the panel: a bar of GPU-hours for each notebook or week. */

import type { Api } from '../api';
import { element, setText } from '../dom';
import { count, problem, sentence, visible } from '../words';

const HOUR = 3600;
const BY: [string, string][] = [
  ['notebook', 'by notebook'],
  ['week', 'by week'],
  ['name', 'by name'],
  ['user', 'by user'],
  ['cluster', 'by cluster']
];
const DAYS: [string, string][] = [
  ['7', 'last 7 days'],
  ['30', 'last 30 days'],
  ['90', 'last 90 days'],
  ['0', 'all time']
];

/** GPU-seconds of some jobs; `idle` is null where nothing was measured. */
export interface Row {
  of: string;
  jobs: number;
  queued: number;
  held: number;
  busy: number;
  idle: number | null;
  wasted: number;
  cost?: number;
}

export interface UsageTold {
  rows: Row[];
  left_out: number;
  words: string;
  others: string[];
}

/** Asks the server when the reader opens it, or asks for something else; never by itself. */
export class Usage {
  readonly node = element('details', 'submarine-Usage') as HTMLDetailsElement;

  constructor(private readonly _api: Pick<Api, 'get'>) {
    const asked = element('div', 'submarine-Usage-asked');
    asked.append(this._by, this._days);
    this.node.append(element('summary', '', {}, 'Usage'), asked, this._table, this._words);
    this.node.addEventListener('toggle', () => void this._ask());
    this._by.addEventListener('change', () => void this._ask());
    this._days.addEventListener('change', () => void this._ask());
  }

  private async _ask(): Promise<void> {
    this._asking?.abort();
    if (!this.node.open) {
      return;
    }
    const asking = (this._asking = new AbortController());
    this._table.setAttribute('aria-busy', 'true');
    try {
      const path = `api/usage?by=${this._by.value}&days=${this._days.value}`;
      const told = await this._api.get<UsageTold>(path, asking.signal);
      if (!asking.signal.aborted) {
        this._show(told);
      }
    } catch (error) {
      if (!asking.signal.aborted) {
        this._table.replaceChildren();
        setText(this._words, problem(error));
      }
    } finally {
      if (this._asking === asking) {
        this._table.removeAttribute('aria-busy');
      }
    }
  }

  private _show({ rows, left_out, words, others }: UsageTold): void {
    const all = rows.map(each => each.of);
    const most = Math.max(...rows.map(each => each.held), 0);
    const cost = rows.some(each => each.cost !== undefined);
    const head = element('tr');
    const titles = ['', 'held', 'wasted', ...(cost ? ['cost'] : [])];
    head.append(...titles.map(each => element('th', '', { scope: 'col' }, each)));
    this._table.replaceChildren(head, ...rows.map(each => row(each, all, most, cost)));
    const said = rows.length ? [`${sentence(words)}.`] : ['No job has had a GPU in this time.'];
    if (left_out) {
      said.push(`${left_out} more are not shown.`);
    }
    said.push(...others.map(each => `${sentence(visible(each, 400))}.`));
    setText(this._words, said.join(' '));
  }

  private readonly _by = select('What usage is told by', BY, 'notebook');
  private readonly _days = select('Of which days', DAYS, '30');
  private readonly _table = element('table', 'submarine-Usage-table', {
    'aria-label': 'GPU-hours'
  });
  private readonly _words = element('div', 'submarine-Quiet', { role: 'status' });
  private _asking: AbortController | null = null;
}

function row(told: Row, all: string[], most: number, cost: boolean): HTMLElement {
  const name = visible(told.of, 200);
  const title = words(told);
  const node = element('tr', '', { title: `${name}: ${title}` });
  const head = element('th', 'submarine-Usage-name', { scope: 'row' });
  const bar = element('div', 'submarine-Usage-bar', { role: 'img', 'aria-label': title });
  const wasted = Math.min(told.wasted, told.held);
  for (const [kind, part] of [
    ['worked', told.held - wasted],
    ['wasted', wasted]
  ] as const) {
    const fill = element('span', `submarine-mod-${kind}`);
    fill.style.width = `${most ? (100 * part) / most : 0}%`;
    bar.append(fill);
  }
  head.append(element('div', '', {}, visible(shortest(told.of, all), 80)), bar);
  node.append(head, element('td', '', {}, hours(told.held)), element('td', '', {}, hours(wasted)));
  if (cost) {
    node.append(element('td', '', {}, (told.cost ?? 0).toFixed(2)));
  }
  return node;
}

/** The end of a path that no other one ends with: there is little room. */
function shortest(path: string, all: string[]): string {
  const parts = path.split('/');
  for (let from = parts.length - 1; from > 0; from--) {
    const end = `/${parts.slice(from).join('/')}`;
    if (all.filter(each => `/${each}`.endsWith(end)).length === 1) {
      return end.slice(1);
    }
  }
  return path;
}

function words({ jobs, queued, held, busy, idle, wasted }: Row): string {
  const parts = [`queued ${hours(queued)}`, `held ${hours(held)}`, `busy ${hours(busy)}`];
  parts.push(idle === null ? 'idle not measured' : `idle ${hours(idle)}`);
  return `${count(jobs, 'job')}; GPU-hours: ${[...parts, `wasted ${hours(wasted)}`].join(', ')}`;
}

function hours(seconds: number): string {
  return (seconds / HOUR).toFixed(2);
}

function select(label: string, options: [string, string][], chosen: string): HTMLSelectElement {
  const node = element('select', 'submarine-Usage-select', { 'aria-label': label });
  for (const [value, text] of options) {
    const option = element('option', '', { value }, text);
    option.selected = value === chosen;
    node.append(option);
  }
  return node;
}
