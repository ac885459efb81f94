/** The dialog's fields: options of `submarine notebook start`, as the server declares them. */

import { Widget } from '@lumino/widgets';

import { element } from '../dom';
import type { FormField, Overview } from '../types';
import { visible } from '../words';

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

export class StartForm extends Widget {
  /**
   * @param fields - What may be said.
   * @param overview - The clusters with their queues, where it is known.
   * @param values - What was said before, by key.
   * @param error - Why that was not possible; empty for none.
   */
  constructor(
    fields: FormField[],
    overview: Overview | null,
    values: Record<string, string>,
    error: string
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
    const trouble = element('div', 'submarine-Trouble', { role: 'alert' }, visible(error, 1000));
    trouble.hidden = !error;
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
    const label =
      LABELS[field.key] ?? field.key.replace('_', ' ').replace(/^./, c => c.toUpperCase());
    const help = element('div', 'submarine-Start-help', { id: `${id}-help` }, field.help);
    const about = { id, name: field.key, 'aria-describedby': help.id };
    let input: HTMLInputElement | HTMLSelectElement;
    if (field.choices.length) {
      input = element('select', 'jp-mod-styled', about);
      input.append(element('option', '', { value: '' }, 'as configured'));
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
    row.append(element('label', '', { for: id }, label), input, help);
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
  private readonly _inputs = new Map<string, HTMLInputElement | HTMLSelectElement>();
  private readonly _queues: HTMLDataListElement;
}
