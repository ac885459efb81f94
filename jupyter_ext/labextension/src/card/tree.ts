/** The whole card as a tree: the structure of `submarine_magics.card.tree`, and what a server adds. */

import type { Card, Failure, Frame } from '../types';
import { type Element, node } from './dom';
import { ledger, link, script, tasks, ticks } from './parts';
import { scalars } from './sparkline';
import { percent } from '../words';

/** What the reader has done, and how the server stands: all that is not in the card itself. */
export interface Ui {
  /** Whether the server can be asked to do something with the job. */
  served: boolean;
  /** The server's page of the job, for a cluster that has none. */
  page: string;
  /** What to know of the card itself: that it is not live, or old. */
  note: string;
  /** Why the last action failed. */
  problem: string;
  cancelling: boolean;
  logOpen: boolean;
  /** Null while nobody asks for a path. */
  save: { busy: boolean; error: string; done: string } | null;
  /** Why a frame could not be shown. */
  jump: string;
}

export const QUIET: Ui = {
  served: false,
  page: '',
  note: '',
  problem: '',
  cancelling: false,
  logOpen: false,
  save: null,
  jump: ''
};

export function cardTree(card: Card, ui: Ui): Element {
  const attributes = {
    class: 'submarine-card tex2jax_ignore',
    'data-state': card.state,
    role: 'group',
    'aria-label': `Submarine job ${card.title}`,
    // Keys are the card's while it has the focus, which a click gives it: Enter presses its button,
    // and a slip of `d d` does not delete the cell of a job that runs.
    tabindex: '-1',
    'data-lm-suppress-shortcuts': 'true'
  };
  return node(
    'div',
    '',
    attributes,
    head(card, ui),
    facts(card),
    saving(card, ui),
    ui.problem ? node('div', 'error', { role: 'alert' }, ui.problem) : null,
    sentence(card),
    card.failure ? failure(card.failure, ui) : null,
    progress(card),
    scalars(card.scalars),
    ledger(card),
    tasks(card),
    card.script ? script(card.script, card.log_path || "the job's folder") : null,
    foot(card),
    ui.note ? node('div', 'note', { role: 'status' }, ui.note) : null
  );
}

function button(style: string, action: string, text: string, more = {}): Element {
  return node('button', style, { type: 'button', 'data-action': action, ...more }, text);
}

function head(card: Card, ui: Ui): Element {
  const word = ` ${card.word ?? card.state}${card.state === 'cancelling' ? '…' : ''}`;
  const glyph = node('span', 'glyph', { 'aria-hidden': 'true' }, card.glyph);
  const time = { title: 'since submission', ...ticks(card.ticking, card.elapsed) };
  const page = card.log_url ?? ui.page;
  const links = [
    ...(page
      ? [link('log', card.log_url ? (card.log_label ?? 'Log') : 'Job page', page, card.log_command)]
      : []),
    ...card.quicklinks.map(([label, url]) => link('link', label, url, url))
  ];
  const spaced = links.flatMap(each => [each, ' ']);
  return node(
    'div',
    'head',
    {},
    node('strong', 'state', { role: 'status' }, glyph, word),
    ' ',
    node('strong', 'title', {}, card.title),
    ' ',
    node('span', 'elapsed', time, card.elapsed_text),
    ' ',
    node('span', 'actions', {}, ...(ui.served ? actions(card, ui) : []), ...spaced)
  );
}

function actions(card: Card, ui: Ui): (Element | null)[] {
  const log = button('button', 'log', 'Log', { 'aria-expanded': String(ui.logOpen) });
  const board = card.tensorboard
    ? button('button', 'tensorboard', 'TensorBoard', {
        title: 'Look at the scalars in TensorBoard'
      })
    : null;
  const named = { 'aria-expanded': String(ui.save !== null) };
  const save = card.can_save ? button('button', 'save', 'Save model…', named) : null;
  return [log, board, save, ...(card.final ? [null, null] : ends(card, ui))];
}

function ends(card: Card, ui: Ui): Element[] {
  const going = ui.cancelling || card.state === 'cancelling';
  const word = going ? (card.word === 'killing' ? 'Killing' : 'Cancelling') : 'Cancel';
  return [
    button('cancel', 'cancel', going ? `${word}…` : word, {
      'aria-label': `${word} job ${card.title}`,
      ...(going ? { disabled: '' } : {})
    }),
    button('cancel', 'kill', 'Kill…', {
      'aria-label': `Kill job ${card.title}`,
      title: 'Stop it gently or kill it now; asks first'
    })
  ];
}

function facts(card: Card): Element {
  const links = card.links.flatMap(([label, url]) => [' · ', link('link', label, url, url)]);
  return node('div', 'facts', {}, card.facts.join(' · '), ...links);
}

function saving(card: Card, ui: Ui): Element | null {
  if (!ui.save || !card.can_save) {
    return null;
  }
  const told = ui.save.error || ui.save.done;
  const style = ui.save.error ? 'error' : 'sentence';
  return node(
    'form',
    'save',
    { 'aria-label': 'Save the model' },
    node('input', 'path', {
      type: 'text',
      name: 'path',
      required: '',
      placeholder: 'models/digits',
      'aria-label': 'Path to save the model to',
      spellcheck: 'false'
    }),
    ' ',
    node(
      'button',
      'button',
      { type: 'submit', ...(ui.save.busy ? { disabled: '' } : {}) },
      ui.save.busy ? 'Saving…' : 'Save'
    ),
    ' ',
    told ? node('span', style, { role: ui.save.error ? 'alert' : 'status' }, told) : null
  );
}

function sentence(card: Card): Element | null {
  const style = card.error ? 'error' : 'sentence';
  return card.sentence ? node('div', style, {}, card.sentence) : null;
}

function failure(found: Failure, ui: Ui): Element | null {
  if (!found.frames.length) {
    return null;
  }
  const why = ui.jump ? node('div', 'quiet', { role: 'status' }, ui.jump) : null;
  return node('div', 'failure', {}, node('ol', 'frames', {}, ...found.frames.map(frame)), why);
}

function frame(found: Frame, at: number): Element {
  const place = `${found.cell}, line ${found.line}`;
  const inside = found.function && found.function !== '<module>' ? `, in ${found.function}` : '';
  const named = { 'data-frame': String(at), title: 'Go to this line' };
  const where = found.cell_id
    ? button('frame', 'jump', place, named)
    : node('span', 'frame', {}, place);
  return node('li', '', {}, where, node('span', 'in', {}, inside), node('code', '', {}, found.text));
}

function progress(card: Card): Element | null {
  if (card.progress === null || card.final) {
    return null;
  }
  const words = `${percent(card.progress)} ${card.message}`.trim();
  const fill = node('span', 'fill', { width: `${(card.progress * 100).toFixed(1)}%` });
  const bar = {
    role: 'progressbar',
    'aria-label': 'progress',
    'aria-valuemin': '0',
    'aria-valuemax': '100',
    'aria-valuenow': (card.progress * 100).toFixed(0),
    'aria-valuetext': words
  };
  const track = node('span', 'track', bar, fill);
  return node('div', 'progress', {}, track, ' ', node('span', 'words', {}, words));
}

function foot(card: Card): Element {
  const path = card.log_path ? node('span', 'path', {}, ` · ${card.log_path}`) : null;
  return node('div', 'foot', {}, 'log: ', node('code', '', {}, card.log_command), path);
}
