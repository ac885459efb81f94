/** What the status bar says of the GPUs. */

import type { ClusterView, Overview } from '../types';
import { count, visible } from '../words';

export interface StatusWords {
  /** Empty where there is nothing to show. */
  text: string;
  title: string;
}

/** The free GPUs of the first cluster that has any; all clusters in the title. */
export function statusWords(overview: Overview | null): StatusWords {
  const having = (overview?.clusters ?? []).filter(each => each.total > 0 && !each.error);
  if (!overview || !having.length) {
    return { text: '', title: '' };
  }
  const [{ free, total, name }] = having;
  const where = having.length > 1 ? ` on ${visible(name, 20)}` : '';
  const text = `${free}/${total} ${total === 1 ? 'GPU' : 'GPUs'} free${where}`;
  return { text, title: [...overview.clusters.map(line), 'Click for jobs'].join('\n') };
}

function line(view: ClusterView): string {
  const name = visible(view.name, 40);
  if (view.error) {
    return `${name}: ${visible(view.error, 200)}`;
  }
  return view.total
    ? `${name}: ${view.free} of ${count(view.total, 'GPU')} free`
    : `${name}: no GPU`;
}
