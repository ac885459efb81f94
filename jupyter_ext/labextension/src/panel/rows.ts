/** What the list of jobs shows, as plain data. */

import type { JobSummary, Overview } from '../types';
import {
  clock,
  count,
  duration,
  glyph,
  isFinal,
  percent,
  sentence,
  stateWord,
  visible,
  when
} from '../words';

export interface Row {
  id: string;
  glyph: string;
  state: string;
  name: string;
  /** Since when, what it has, and where it comes from: `15:09 · 2 GPUs · train.ipynb · In [3] · local`. */
  facts: string[];
  /** What it waits for, or why it ended; empty where there is nothing to say. */
  reason: string;
  elapsed: string;
  /** From 0 to 1, null where unknown or over. */
  progress: number | null;
  ticking: boolean;
  final: boolean;
  /** All of it, for those who hear it. */
  label: string;
  title: string;
}

export interface Filter {
  text: string;
  running: boolean;
}

/** The rows of the jobs that the filter lets through, newest first. `age` is that of the overview in seconds. */
export function rows(overview: Overview, filter: Filter, age: number): Row[] {
  const words = filter.text.toLowerCase().split(/\s+/).filter(Boolean);
  return overview.jobs
    .filter(job => !(filter.running && isFinal(job.state)))
    .filter(job => matches(job, words))
    .map(job => row(job, overview.now + age));
}

/** How many jobs there are, and what they do: `1 running · 2 queued · 26 jobs`. */
export function counted(jobs: JobSummary[]): string {
  const queued = jobs.filter(job => job.state === 'queued').length;
  const running = jobs.filter(job => !isFinal(job.state)).length - queued;
  const waiting = queued ? `${queued} queued · ` : '';
  return `${running} running · ${waiting}${count(jobs.length, 'job')}`;
}

/** Whether all words are somewhere in what a job is known by. */
export function matches(job: JobSummary, words: string[]): boolean {
  const text = [job.id, job.name, job.state, job.cluster, job.notebook, job.cell]
    .join('\n')
    .toLowerCase();
  return words.every(word => text.includes(word));
}

export function row(job: JobSummary, now: number): Row {
  const name = visible(job.name, 80) || job.id;
  const facts = [
    `${job.gpus ? count(job.gpus, 'GPU') : 'no GPU'} on ${visible(job.cluster, 40)}`,
    visible(fileName(job.notebook), 60),
    shownCell(job.cell)
  ].filter(Boolean);
  const over = isFinal(job.state);
  const begun = seconds(job.created);
  if (begun !== null) {
    facts.unshift(when(begun, now)); // first, since what comes last is cut where there is no room
  }
  const ended = seconds(job.finished);
  const elapsed =
    begun === null ? '' : ended === null ? clock(now - begun) : duration(ended - begun);
  const progress = over || typeof job.progress !== 'number' ? null : clamp(job.progress);
  const done = progress === null ? '' : percent(progress);
  const word = stateWord(job.state, job.reason);
  const told = job.state !== 'succeeded' && word === job.state;
  const reason = told ? sentence(visible(job.reason, 200)) : '';
  return {
    id: job.id,
    glyph: glyph(job.state),
    state: job.state,
    name,
    facts,
    reason,
    elapsed,
    progress,
    ticking: !over && begun !== null,
    final: over,
    label: [name, word, done, ...facts, reason].filter(Boolean).join(', '),
    title: [
      `${name} (${word})`,
      job.id,
      begun === null ? '' : new Date(begun * 1000).toLocaleString(),
      visible(job.notebook, 300),
      reason
    ]
      .filter(Boolean)
      .join('\n')
  };
}

/** What people know a cell by; an id is nothing that they know. */
function shownCell(cell: string): string {
  return /^[0-9a-f-]{8,}$/.test(cell ?? '') ? '' : visible(cell, 40);
}

function fileName(path: string): string {
  const name = (path ?? '').split('/').pop()!;
  return name === 'notebook' ? '' : name;
}

function seconds(time: unknown): number | null {
  return typeof time === 'number' && Number.isFinite(time) ? time : null;
}

function clamp(fraction: number): number {
  return Math.min(1, Math.max(0, fraction));
}
