/** The dialog's fields: options of `submarine notebook start`, as the server declares them. */

import { Widget } from '@lumino/widgets';

import { ApiError } from '../api';
import { element } from '../dom';
import type { FormField, Overview } from '../types';
import { problem, sentence, visible } from '../words';

let forms = 0;

/** What people call an option; the others are called as they are. */
const LABELS: Record<string, string> = {
  gpus: 'GPUs',
  idle: 'End when idle for',
  dir: 'Folder',
  cpus: 'CPUs',
  within: 'Wait at most'
};
const LIKE: Record<string, string> = {
  gpus: '1',
  idle: '1h',
  memory: '8G',
  cpus: '4',
  time_limit: '8h',
  within: '10m',
  name: 'notebook'
};

/** An error in the words of the dialog, and the field that it is about; empty for none. */
export function blame(error: unknown, fields: FormField[]): { key: string; words: string } {
  const words = problem(error);
  if (!(error instanceof ApiError)) {
    return { key: '', words };
  }
  // The command's words: its options are fields here, and which verb it was goes without saying.
  const named = /^--(\w+): /.exec(error.what) ?? /^--(\w+)$/.exec(error.where);
  const key = fields.some(field => field.key === named?.[1]) ? named![1] : '';
  if (!key) {
    return { key, words };
  }
  const labelled = (text: string) =>
    text.replace(/--(\w+)/g, (whole, each) =>
      fields.some(field => field.key === each) ? label(each) : whole
    );
  const what = labelled(error.what.startsWith('--') ? error.what : `--${key}: ${error.what}`);
  return { key, words: error.fix ? `${what}. ${sentence(labelled(error.fix))}.` : what };
}

/** What people call an option. */
function label(key: string): string {
  return LABELS[key] ?? sentence(key.replace('_', ' '));
}

export class StartForm extends Widget {
  /**
   * @param fields - What may be said.
   * @param overview - The clusters with their queues, where it is known.
   * @param values - What was said before, by key.
   * @param refused - Why that was not possible, and the field that it is about.
   */
  constructor(
    fields: FormField[],
    overview: Overview | null,
    values: Record<string, string>,
    private readonly _refused = { key: '', words: '' }
  ) {
    super();
    this.addClass('submarine-Start');
    this._queues = element('datalist', '', { id: `${this._id}-queues` });
    const more = element('details', '') as HTMLDetailsElement;
    more.append(element('summary', '', {}, 'More options'));
    more.open = fields.some(field => field.more && values[field.key]);
    for (const field of fields) {
      const row = this._row(field, values[field.key] ?? '');
      (field.more ? more : this.node).append(row);
    }
    const { words } = _refused;
    const about = { id: this._troubleId, role: 'alert' };
    const trouble = element('div', 'submarine-Trouble', about, visible(words, 1000));
    trouble.hidden = !words;
    this.node.prepend(trouble);
    this.node.append(more, this._queues);
    const cluster = this._inputs.get('cluster');
    const follow = () => this._followCluster(overview, cluster?.value ?? '');
    cluster?.addEventListener('change', follow);
    follow();
  }

  getValue(): Record<string, string> {
    return Object.fromEntries([...this._inputs].map(([key, input]) => [key, input.value.trim()]));
  }

  private _row(field: FormField, value: string): HTMLElement {
    const id = `${this._id}-${field.key}`;
    const row = element('div', 'submarine-Start-row');
    row.dataset.key = field.key;
    const words = field.help.replaceAll('`', '');
    const help = element('div', 'submarine-Start-help', { id: `${id}-help` }, words);
    const wrong = field.key === this._refused.key;
    const about = {
      id,
      name: field.key,
      'aria-describedby': wrong ? `${help.id} ${this._troubleId}` : help.id,
      ...(wrong ? { 'aria-invalid': 'true' } : {})
    };
    let input: HTMLInputElement | HTMLSelectElement;
    if (field.choices.length) {
      const unset = field.standard ? `as configured (${field.standard})` : 'as configured';
      input = element('select', 'jp-mod-styled', about);
      input.append(element('option', '', { value: '' }, visible(unset, 80)));
      input.append(...field.choices.map(each => element('option', '', { value: each }, each)));
    } else {
      const placeholder = LIKE[field.key] ?? '';
      input = element('input', 'jp-mod-styled', { ...about, type: 'text', placeholder });
      input.spellcheck = false;
    }
    if (field.key === 'queue') {
      input.setAttribute('list', this._queues.id);
    }
    input.value = value;
    this._inputs.set(field.key, input);
    row.append(element('label', '', { for: id }, label(field.key)), input, help);
    return row;
  }

  /** Offer the queues of the cluster that is chosen; where it has none, do not ask. */
  private _followCluster(overview: Overview | null, name: string): void {
    const clusters = (overview?.clusters ?? []).filter(each => !name || each.name === name);
    const queues = clusters.flatMap(each => each.shares.filter(share => share.kind === 'queue'));
    this._queues.replaceChildren(
      ...queues.map(each =>
        element('option', '', { value: each.name }, `${each.free}/${each.total} GPUs free`)
      )
    );
    const row = this._inputs.get('queue')?.parentElement;
    if (row) {
      // Of a cluster that is not known here, nobody can say.
      row.hidden = clusters.length > 0 && !queues.length;
    }
  }

  private readonly _id = `submarine-start-${forms++}`;
  private readonly _troubleId = `${this._id}-trouble`;
  private readonly _inputs = new Map<string, HTMLInputElement | HTMLSelectElement>();
  private readonly _queues: HTMLDataListElement;
}
