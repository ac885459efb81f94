/** Jobs beside each other: what differs, their charts over each other, their code. */

import { Widget } from '@lumino/widgets';

import type { Api } from '../api';
import { element, setText } from '../dom';
import type { Compared, ComparedRow, JobMetrics } from '../types';
import { count, glyph, problem, sentence, visible } from '../words';
import { colour } from './chart';
import { Charts } from './charts';
import { drawings } from './model';
import { Poll } from './poll';

/** Jobs that the server compares at most. */
export const MOST_COMPARED = 8;

export class CompareView extends Widget {
  constructor(
    private readonly _api: Api,
    private readonly _jobs: string[]
  ) {
    super();
    this.addClass('submarine-Compare');
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', 'Compared jobs');
    this._error.hidden = true;
    this._all.hidden = true;
    this._all.addEventListener('click', () => this._charts.zoom(null));
    this._charts.zoomed.connect((_, window) => {
      this._all.hidden = window === null;
      void this._poll.now();
    });
    const head = element('div', 'submarine-Metrics-head');
    head.append(element('h2', '', {}, 'Over time, from the start of each'), this._all);
    this._over.hidden = true;
    this._over.append(head, this._charts.node);
    this.node.append(this._error, this._tables, this._over, this._code);
  }

  /** Ask for what there is; goes on while one of them runs and somebody looks. */
  ask(): Promise<void> {
    return this._poll.now();
  }

  override dispose(): void {
    this._poll.dispose();
    this._charts.dispose();
    super.dispose();
  }

  private async _ask(): Promise<boolean> {
    try {
      const [compared, ...told] = await Promise.all([
        this._api.compare(this._jobs),
        ...this._jobs.map(job => this._metrics(job))
      ]);
      if (!this.isDisposed) {
        this._show(compared, told);
      }
      return told.some(each => !each.final);
    } catch (error) {
      setText(this._error, `Not compared: ${problem(error)}`);
      this._error.hidden = false;
      return true;
    }
  }

  private async _metrics(job: string): Promise<JobMetrics> {
    const [window, began] = [this._charts.window, this._began.get(job)];
    const told =
      window && began !== undefined
        ? await this._api.metrics(job, began + window[0], began + window[1])
        : await this._api.metrics(job, null, null);
    this._began.set(job, told.began);
    return told;
  }

  private _show(compared: Compared, told: JobMetrics[]): void {
    this._error.hidden = true;
    const names = namesOf(compared.jobs);
    const shown = drawings(
      told.map((each, number) => ({ name: names[number], told: each })),
      true
    );
    this._charts.update(shown);
    this._over.hidden = !shown.length;
    // What the reader has selected or scrolled in stays while nothing is new.
    const text = JSON.stringify(compared);
    if (text !== this._shown) {
      this._shown = text;
      this._tables.replaceChildren(...notesOf(compared, names), tableOf(compared, names));
      this._code.replaceChildren(...codeOf(compared, names));
    }
  }

  private readonly _charts = new Charts(true);
  private readonly _began = new Map<string, number>();
  private readonly _poll = new Poll(
    () => this._ask(),
    () => this.isVisible && document.visibilityState === 'visible'
  );
  private readonly _error = element('div', 'submarine-Trouble', { role: 'alert' });
  private readonly _all = element('button', 'jp-mod-styled', { type: 'button' }, 'Show all');
  private readonly _tables = element('div', 'submarine-Compare-tables');
  private readonly _over = element('div');
  private readonly _code = element('div', 'submarine-Compare-code');
  private _shown = '';
}

/** What the jobs are called: by name, and where two have one by the end of their ids, too. */
export function namesOf(jobs: { id: string; name: string }[]): string[] {
  const names = jobs.map(each => visible(each.name, 40));
  return jobs.map((each, number) =>
    names.indexOf(names[number]) === names.lastIndexOf(names[number])
      ? names[number]
      : `${names[number]} ${each.id.slice(-5)}`
  );
}

function tableOf(compared: Compared, names: string[]): HTMLElement {
  const table = element('table', 'submarine-Compare-table');
  const head = element('tr');
  head.append(element('td'));
  compared.jobs.forEach((job, number) => {
    const cell = element('th', '', { scope: 'col', title: job.id });
    const key = element('span', 'submarine-Chart-key', { 'aria-hidden': 'true' });
    key.style.background = colour(number);
    cell.append(key, `${names[number]} ${glyph(job.state)}`);
    head.append(cell);
  });
  const top = element('thead');
  top.append(head);
  table.append(top);
  for (const { title, rows, alike, left_out } of compared.sections) {
    const body = element('tbody');
    const line = element('tr', 'submarine-Compare-section');
    const across = String(names.length + 1);
    line.append(element('th', '', { scope: 'rowgroup', colspan: across }, sentence(title)));
    body.append(line, ...rows.map(rowOf));
    const others = [
      left_out && `${left_out.toLocaleString('en')} more that differ`,
      alike && `${rows.length ? '' : 'all '}${alike.toLocaleString('en')} alike`
    ].filter(Boolean);
    if (others.length) {
      const quiet = element('tr', 'submarine-Compare-quiet');
      quiet.append(element('td', '', { colspan: across }, others.join(', ')));
      body.append(quiet);
    }
    table.append(body);
  }
  return table;
}

function rowOf({ name, values, same }: ComparedRow): HTMLElement {
  const line = element('tr', same ? '' : 'submarine-mod-differs');
  line.append(element('th', '', { scope: 'row' }, visible(name, 60)));
  // Values may be others though they read the same: a dict of as many bytes.
  const hidden = !same && new Set(values).size === 1 ? ', with another content' : '';
  const shown = values.map((each, number) =>
    each === null ? NOTHING : visible(each, 300) + (number ? hidden : '')
  );
  line.append(...shown.map(each => element('td', '', {}, each)));
  return line;
}

/** What nobody can tell, and that there is no difference, in words. */
function notesOf({ jobs, same, unknown }: Compared, names: string[]): HTMLElement[] {
  const called = (text: string) =>
    jobs.reduce((words, each, at) => words.replaceAll(`job ${each.id}`, names[at]), text);
  const known = unknown.length ? ', as far as it is known' : '';
  return [
    ...(same ? [`Nothing differs${known}.`] : []),
    ...unknown.map(each => `Not known: ${visible(called(each), 300)}.`)
  ].map(words => element('p', 'submarine-Quiet', {}, words));
}

function codeOf(compared: Compared, names: string[]): HTMLElement[] {
  return compared.code.map(({ id, lines, left_out }) => {
    const name = names[compared.jobs.findIndex(each => each.id === id)] ?? id;
    const section = element('section');
    section.append(element('h2', '', {}, `Code of ${names[0]} → ${name}`));
    if (!lines.length) {
      section.append(element('p', 'submarine-Quiet', {}, 'The same.'));
      return section;
    }
    const pre = element('pre', 'submarine-Diff', { tabindex: '0' });
    for (const [sign, text] of lines) {
      const shown = 'place' === KINDS[sign] ? text : `${sign === '~' ? ' ' : sign}${text}`;
      const kind = KINDS[sign] ? `submarine-mod-${KINDS[sign]}` : '';
      pre.append(element('span', `submarine-Diff-line ${kind}`, {}, seenLine(shown) || ' '));
    }
    section.append(pre);
    if (left_out) {
      section.append(element('p', 'submarine-Quiet', {}, `${count(left_out, 'more line')}`));
    }
    return section;
  });
}

const NOTHING = '—';
const KINDS: Record<string, string> = { '+': 'added', '-': 'removed', '@': 'place' };

/** A line of code as it is, but for what would reorder or hide what stands around it. */
function seenLine(line: string): string {
  const indent = /^.?\s*/.exec(line)![0];
  return indent.replaceAll('\t', '    ') + visible(line.slice(indent.length), 500);
}
