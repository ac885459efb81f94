/** What a notebook keeps of a job: enough to draw the card before, or without, the server. */

import type { IRenderMime } from '@jupyterlab/rendermime-interfaces';

import { isTree, type Tree } from '../../../../magics/submarine_magics/card/tree.js';
import type { Card } from '../types';
import { isFinal } from '../words';

export const JOB_TYPE = 'application/vnd.submarine.job+json';
export const WIDGET_TYPE = 'application/vnd.jupyter.widget-view+json';

export interface Bundle {
  job: string;
  card: Card;
  /** Whether the notebook has the card's tree; those of older releases have it in their HTML alone. */
  whole: boolean;
  /** Whether the cell writes the job's text below the card as it comes. */
  text: boolean;
  /** Whose result it is, and from when, where the cell ran no job of its own. */
  remembered: string;
}

/** Read a mimebundle, whoever wrote it: what is not as it should be is left out. */
export function readBundle(model: IRenderMime.IMimeModel): Bundle {
  const data = (model.data[JOB_TYPE] ?? {}) as Record<string, unknown>;
  const job = String(data.job_id ?? '');
  const state = String(data.state ?? 'unknown');
  const title = String(data.name ?? job);
  const tree = readTree(data.tree);
  const card: Card = {
    job_id: job,
    cluster: String(data.cluster ?? ''),
    title,
    state,
    final: isFinal(state),
    running: !isFinal(state),
    ticking: false, // until the server says what the time is
    elapsed: 0,
    as_of: String(data.as_of ?? ''),
    sentence: '',
    now: 0,
    logs: [],
    tree: tree ?? ['div', { class: 'submarine-card', 'data-state': state }, [`${title}: ${state}`]]
  };
  const remembered = typeof data.remembered === 'string' ? data.remembered : '';
  return { job, card, whole: tree !== null, text: data.text === true, remembered };
}

/** The tree as it is saved: one line of JSON. */
function readTree(saved: unknown): Tree | null {
  try {
    const found: unknown = JSON.parse(String(saved));
    return isTree(found) ? found : null;
  } catch {
    return null; // none is there, or somebody edited the notebook
  }
}

/**
 * The card that the notebook keeps, which heard earlier than the server how the job ended, with
 * what a notebook does not keep.
 */
export function merged(saved: Card, served: Card): Card {
  return {
    ...served,
    ...saved,
    logs: served.logs,
    outputs: served.outputs,
    tree: graft(saved, served)
  };
}

function graft({ tree: ours }: Card, { tree: theirs }: Card): Tree {
  if (typeof ours === 'string' || typeof theirs === 'string') {
    return ours;
  }
  const kept = (at: number): Tree => {
    const other = theirs[2][at];
    return Array.isArray(other) && 'data-kept' in other[1] ? other : '';
  };
  return [ours[0], ours[1], ours[2].map((child, at) => child || kept(at))];
}
