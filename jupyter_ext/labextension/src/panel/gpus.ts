/** Free and total GPUs by cluster, queue and node: a bar and the numbers for each. */

import type { ClusterView, Overview, Share } from '../types';
import { count, sentence, visible } from '../words';
import { element } from '../dom';

const KINDS: [string, string][] = [
  ['queue', 'Queues'],
  ['node', 'Nodes']
];
const SHOWN = 200;

/** The GPUs of all clusters; what the reader opened stays open when it is updated. */
export class Gpus {
  readonly node = element('section', 'submarine-Gpus', { 'aria-label': 'GPUs' });

  update(overview: Overview): void {
    const text = JSON.stringify(overview.clusters);
    if (text === this._shown) {
      return;
    }
    this._shown = text;
    const open = new Set(
      [...this.node.querySelectorAll<HTMLElement>('details[open]')].map(each => each.dataset.key!)
    );
    const focused = (document.activeElement as HTMLElement | null)?.parentElement?.dataset.key;
    this.node.replaceChildren(...overview.clusters.map(each => cluster(each, open)));
    if (focused) {
      const same = [...this.node.querySelectorAll<HTMLElement>('details')];
      same
        .find(each => each.dataset.key === focused)
        ?.querySelector('summary')
        ?.focus();
    }
  }

  private _shown = '';
}

function cluster(view: ClusterView, open: Set<string>): HTMLElement {
  const node = element('div', 'submarine-Cluster');
  node.dataset.cluster = view.name;
  if (view.error) {
    const name = element('span', 'submarine-Share-name', {}, visible(view.name, 40));
    node.append(name, element('div', 'submarine-Trouble', {}, sentence(visible(view.error, 400))));
    return node;
  }
  if (!view.total) {
    const words = `${visible(view.name, 40)}: no GPU`;
    node.append(element('div', 'submarine-Quiet', {}, words));
    return node;
  }
  node.append(bar(view.name, view.free, view.total, true));
  for (const [kind, title] of KINDS) {
    const shares = view.shares.filter(each => each.kind === kind);
    // One node or queue that has all of them says nothing new.
    if (shares.length > 1 || (shares.length && shares[0].total !== view.total)) {
      node.append(details(`${view.name}/${kind}`, title, shares, open));
    }
  }
  return node;
}

function details(key: string, title: string, shares: Share[], open: Set<string>): HTMLElement {
  const node = element('details', 'submarine-Shares') as HTMLDetailsElement;
  node.dataset.key = key;
  node.open = open.has(key);
  node.append(element('summary', '', {}, `${title} (${shares.length})`));
  node.append(...shares.slice(0, SHOWN).map(each => bar(each.name, each.free, each.total)));
  if (shares.length > SHOWN) {
    node.append(element('div', 'submarine-Quiet', {}, `… ${shares.length - SHOWN} more`));
  }
  return node;
}

function bar(name: string, free: number, total: number, whole = false): HTMLElement {
  const used = Math.max(0, total - free);
  const unit = whole ? (total === 1 ? ' GPU' : ' GPUs') : '';
  const words = `${free} of ${count(total, 'GPU')} free`;
  const node = element('div', `submarine-Share ${whole ? 'submarine-mod-whole' : ''}`, {
    title: `${visible(name)}: ${words}`
  });
  const track = element('div', 'submarine-Bar', {
    role: 'meter',
    'aria-label': `GPUs in use, ${visible(name, 60)}`,
    'aria-valuemin': '0',
    'aria-valuemax': String(total),
    'aria-valuenow': String(used),
    'aria-valuetext': words
  });
  const fill = element('div', 'submarine-Bar-fill');
  fill.style.width = `${total ? (100 * used) / total : 0}%`;
  track.append(fill);
  node.append(
    element('span', 'submarine-Share-name', {}, visible(name, 60)),
    element('span', 'submarine-Share-count', {}, `${free}/${total}${unit} free`),
    track
  );
  return node;
}
