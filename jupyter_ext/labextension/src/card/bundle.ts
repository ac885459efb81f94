/** What a notebook keeps of a job: enough to draw the card before, or without, the server. */

import type { IRenderMime } from '@jupyterlab/rendermime-interfaces';

import type { Card } from '../types';
import { isFinal } from '../words';

export const JOB_TYPE = 'application/vnd.submarine.job+json';
export const WIDGET_TYPE = 'application/vnd.jupyter.widget-view+json';

export interface Bundle {
  job: string;
  card: Card;
  /** Whether the notebook has all of the card; those of older releases have little. */
  whole: boolean;
  /** Whether the cell writes the job's text below the card as it comes. */
  text: boolean;
}

const STRINGS = ['job_id', 'cluster', 'title', 'state', 'elapsed_text', 'log_command'] as const;

/** Read a mimebundle, whoever wrote it: what is not as it should be is left out. */
export function readBundle(model: IRenderMime.IMimeModel): Bundle {
  const data = (model.data[JOB_TYPE] ?? {}) as Record<string, unknown>;
  const job = String(data.job_id ?? '');
  const inside = readCard(data.card);
  const whole = sound(inside);
  const state = String(data.state ?? 'unknown');
  const drawn: Card = {
    ...EMPTY,
    title: String(data.name ?? job),
    log_command: `submarine job logs ${job}`,
    ...(whole ? inside : {}),
    job_id: job,
    state,
    final: isFinal(state),
    running: !isFinal(state),
    ticking: false // until the server says what the time is
  };
  return { job, card: drawn, whole, text: data.text === true };
}

/** The card as it is saved: one line of JSON, or an object. */
function readCard(saved: unknown): Partial<Card> {
  let found = saved;
  if (typeof saved === 'string') {
    try {
      found = JSON.parse(saved);
    } catch {
      found = null; // somebody edited the notebook
    }
  }
  return found !== null && typeof found === 'object' ? (found as Partial<Card>) : {};
}

function sound(card: Partial<Card>): boolean {
  return (
    STRINGS.every(name => typeof card[name] === 'string') &&
    [card.facts, card.tasks, card.links, card.quicklinks].every(Array.isArray) &&
    Array.isArray(card.ledger?.stages)
  );
}

const EMPTY: Card = {
  job_id: '',
  cluster: '',
  title: '',
  state: '',
  glyph: '',
  final: false,
  elapsed: 0,
  elapsed_text: '',
  ticking: false,
  as_of: '',
  facts: [],
  sentence: '',
  error: false,
  progress: null,
  message: '',
  tasks: [],
  tasks_left_out: 0,
  ledger: { gpus: '', stages: [], released: '' },
  log_url: null,
  log_path: '',
  log_command: '',
  script: null,
  links: [],
  quicklinks: [],
  now: 0,
  running: true,
  logs: []
};
