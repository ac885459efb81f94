/** The parts of the card that are the same in `submarine_magics.card.tree`: ledger, tasks, script. */

import type { Card, ScriptView, TaskView } from '../types';
import { type Attributes, type Element, node } from './dom';
import { percent } from '../words';

const FEW_TASKS = 4;
const UNKNOWN = '—';
const COLUMNS = ['Role', 'Id', 'Host', 'GPUs', 'State', 'Start', 'Finish', 'Progress'];

export function link(style: string, label: string, url: string, title: string): Element {
  const attributes = { href: url, title, target: '_blank', rel: 'noopener noreferrer' };
  return node('a', style, attributes, label);
}

/** What makes a time go on by itself. */
export function ticks(ticking: boolean, seconds: number): Attributes {
  return ticking ? { 'data-ticks': seconds.toFixed(3) } : {};
}

function label(text: string): Element {
  return node('strong', 'label', {}, text);
}

function quiet(text: string): Element {
  return node('span', 'quiet', {}, text);
}

export function ledger(card: Card): Element {
  const { gpus, stages, released } = card.ledger;
  const line = node('div', 'line', {}, label('GPU ledger'), ' ', quiet(gpus));
  if (!stages.length) {
    return node('div', 'ledger', {}, line);
  }
  const segments = stages.map(stage =>
    node('span', `segment smc-${stage.name}`, {
      grow: stage.seconds.toFixed(3),
      ...ticks(stage.ticking, stage.seconds)
    })
  );
  const freed = released.startsWith('released');
  const end = freed ? node('span', 'segment smc-released', {}) : null;
  const words = [gpus, ...stages.map(stage => `${stage.name} ${stage.text}`), released];
  const alike = { role: 'img', 'aria-label': words.filter(Boolean).join(', ') };
  const stack = node('div', 'stack', alike, ...segments, end);
  const times = stages.map(stage => {
    const time = node('span', 'time', ticks(stage.ticking, stage.seconds), stage.text);
    return node('li', stage.name, { title: stage.meaning }, `${stage.name} `, time);
  });
  const last = released ? node('li', freed ? 'released' : 'note', {}, released) : null;
  return node('div', 'ledger', {}, line, stack, node('ul', 'stages', {}, ...times, last));
}

export function tasks(card: Card): Element | null {
  if (!card.tasks.length) {
    return null;
  }
  const counts = new Map<string, number>();
  card.tasks.forEach(task => counts.set(task.state, (counts.get(task.state) ?? 0) + 1));
  const words = [...counts].map(([state, number]) => `${number} ${state}`).join(', ');
  const several = card.tasks.length > 1;
  const head = COLUMNS.filter(column => column !== 'GPUs' || several).map(column =>
    node('th', '', { scope: 'col' }, column)
  );
  const table = node(
    'table',
    'table',
    {},
    node('thead', '', {}, node('tr', '', {}, ...head)),
    node('tbody', '', {}, ...card.tasks.map(task => row(task, several)))
  );
  const more = card.tasks_left_out
    ? node('div', 'quiet', {}, `… ${card.tasks_left_out.toLocaleString('en')} more`)
    : null;
  const opened: Attributes = card.tasks.length <= FEW_TASKS ? { open: '' } : {};
  const summary = node('summary', '', {}, label('Tasks'), ' ', quiet(words));
  return node('details', 'tasks', opened, summary, node('div', 'scroll', {}, table), more);
}

function row(task: TaskView, several: boolean): Element {
  const state = task.detail ? `${task.state} (${task.detail})` : task.state;
  const progress = task.progress === null ? UNKNOWN : percent(task.progress);
  const named = task.log_url ? link('link', task.task, task.log_url, 'its log') : task.task;
  const gpus = several ? [task.gpus] : [];
  const cells = [task.role, named, task.host, ...gpus, state, task.started, task.finished];
  const all = [...cells, progress].map(cell => node('td', '', {}, cell));
  return node('tr', '', { 'data-state': task.state }, ...all);
}

/** The script, folded in; `where` says how to see the whole of it. */
export function script(view: ScriptView, where: string): Element {
  const hash = { title: `sha256 of the bundle: ${view.hash}` };
  const summary = node(
    'summary',
    '',
    {},
    label('Script'),
    ' ',
    quiet(`${view.name} · ${view.lines} · `),
    node('code', 'quiet', hash, view.hash.slice(0, 12))
  );
  const code = node('pre', 'code', { tabindex: '0' }, node('code', '', {}, view.text));
  const more = view.left_out ? node('div', 'quiet', {}, `${view.left_out}: ${where}`) : null;
  return node('details', 'script', {}, summary, code, more);
}
