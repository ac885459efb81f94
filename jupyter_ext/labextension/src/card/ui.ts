/** What the reader has done, and how the server stands, as changes of the card's tree. */

import type { Changes, Tree } from '../../../../magics/submarine_magics/card/tree.js';
import type { Card } from '../types';

export interface Ui {
  /** Whether the server can be asked to do something with the job. */
  served: boolean;
  /** The server's page of the job, for a cluster that has none. */
  page: string;
  /** What to know of the card itself: that it is not live, or old. */
  note: string;
  /** Why the last action failed. */
  problem: string;
  /** Why trials cannot be shown: looked at again and again, unlike what an action has said. */
  noTrials: string;
  /** Whose result the cell was given, and when that was; empty for the cell's own job. */
  remembered: string;
  cancelling: boolean;
  /** Whether the kernel is waited for, to run the cell again. */
  runningAgain: boolean;
  logOpen: boolean;
  /** Whether stacks are shown, and whether the tasks are being asked for them. */
  stacks: { open: boolean; busy: boolean };
  /** Null while nobody asks for a path. */
  save: { busy: boolean; error: string; done: string } | null;
  /** What became of a request to the model that the job serves; null before the first. */
  tried: { busy: boolean; told: string; error: string; answer: string } | null;
  /** Why a frame could not be shown. */
  jump: string;
  /** What the reader looks at among a sweep's trials; null for the card's own tables. */
  trials: Tree[] | null;
}

export const QUIET: Ui = {
  served: false,
  page: '',
  note: '',
  problem: '',
  noTrials: '',
  remembered: '',
  cancelling: false,
  runningAgain: false,
  logOpen: false,
  stacks: { open: false, busy: false },
  save: null,
  tried: null,
  jump: '',
  trials: null
};

const ACTIONS = [
  'notebook',
  'log',
  'stacks',
  'terminal',
  'tensorboard',
  'save',
  'cancel',
  'kill',
  'page-of-port'
];

/** What tables and lists have: the words of these buttons are their own. */
const OF_LISTS = ['artifact', 'every', 'page', 'pin', 'sort', 'trial', 'unpin'];

/** The changes, by the names that `submarine_magics.card.served` gives to elements. */
export function changes(card: Card, ui: Ui): Changes {
  const { save, tried } = ui;
  const hidden = Object.fromEntries(ACTIONS.map(action => [action, { hidden: '' }]));
  const going = { text: 'Cancelling…', disabled: '', 'aria-label': `Cancelling job ${card.title}` };
  const waits = { text: 'Waiting for the kernel…', disabled: '' };
  const live = {
    log: { 'aria-expanded': String(ui.logOpen) },
    stacks: {
      'aria-expanded': String(ui.stacks.open),
      ...(ui.stacks.busy ? { text: 'Stacks…', disabled: '' } : {})
    },
    save: { 'aria-expanded': String(save !== null) },
    page: { href: ui.page, hidden: null },
    ...(ui.cancelling ? { cancel: going } : {})
  };
  return {
    ...(ui.served ? live : hidden),
    ...(ui.served ? {} : { sends: { disabled: '' } }),
    ...(tried?.busy ? { sends: { text: 'Sending…', disabled: '' } } : {}),
    tried: said(tried?.told),
    untried: said(tried?.error),
    answer: said(tried?.answer),
    ...(ui.served ? {} : Object.fromEntries(OF_LISTS.map(one => [one, { disabled: '' }]))),
    ...(ui.served && ui.trials ? { trials: { inside: ui.trials } } : {}),
    ...(ui.remembered ? { again: { hidden: null, ...(ui.runningAgain ? waits : {}) } } : {}),
    remembered: said(ui.remembered && `Result ${ui.remembered}`),
    ...(save ? { form: { hidden: null } } : {}),
    ...(save?.busy ? { saves: { text: 'Saving…', disabled: '' } } : {}),
    saved: said(save?.done),
    unsaved: said(save?.error),
    problem: said(ui.problem || ui.noTrials),
    jump: said(ui.jump),
    note: said(ui.note)
  };
}

function said(text = ''): Record<string, string | null> {
  return text ? { text, hidden: null } : {};
}
