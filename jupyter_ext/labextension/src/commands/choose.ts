/** Which job a command is meant for: the one given, the one in focus, or one that is asked for. */

import { InputDialog } from '@jupyterlab/apputils';

import type { Feed } from '../feed';
import type { Api } from '../api';
import type { JobSummary } from '../types';
import { glyph, visible } from '../words';

/** What is known of a job by its id, without asking. */
export function known(feed: Feed, id: string): JobSummary | undefined {
  const { overview } = feed;
  const card = feed.cards.get(id);
  const row = overview?.jobs.find(job => job.id === id);
  if (row) {
    // Nobody may have looked at the overview for hours.
    return card && card.now > overview!.now ? { ...row, state: card.state } : row;
  }
  return (
    card && {
      ...summary(id),
      cluster: card.cluster,
      name: card.title,
      state: card.state,
      created: card.now - card.elapsed
    }
  );
}

/** A job of which nothing but its id is known. */
export function summary(id: string): JobSummary {
  const times = { created: null, finished: null, progress: null };
  const words = { cluster: '', name: '', state: '', reason: '', notebook: '', cell: '' };
  return { id, gpus: 0, ...words, ...times };
}

/** The id of the job that has the focus: `data-submarine-job` on what it is in. */
export function inFocus(): string {
  const focus = document.activeElement?.closest<HTMLElement>('[data-submarine-job]');
  return focus?.dataset.submarineJob ?? '';
}

/** Ask which of `jobs`; `preferred` is the id that is offered first. Null where nobody wants one. */
export async function ask(
  title: string,
  jobs: JobSummary[],
  preferred: string
): Promise<JobSummary | null> {
  if (jobs.length === 1) {
    return jobs[0];
  }
  const labels = jobs.map(label);
  const current = Math.max(
    0,
    jobs.findIndex(job => job.id === preferred)
  );
  const answer = await InputDialog.getItem({ title, items: labels, current, okLabel: 'Choose' });
  const chosen = answer.button.accept && answer.value ? labels.indexOf(answer.value) : -1;
  return jobs[chosen] ?? null;
}

/** Ask which jobs are to be compared; none where nobody wants to. */
export async function askSeveral(jobs: JobSummary[]): Promise<string[]> {
  const labels = jobs.map(label);
  const title = 'Compare Jobs';
  const answer = await InputDialog.getMultipleItems({ title, items: labels, okLabel: 'Compare' });
  const chosen = answer.button.accept ? (answer.value ?? []) : [];
  return chosen.map(each => jobs[labels.indexOf(each)].id);
}

export function label(job: JobSummary): string {
  return `${glyph(job.state)} ${visible(job.name, 50)} — ${job.id}`;
}

/** The jobs, newest first, as they are now. */
export async function jobs(feed: Feed, api: Api): Promise<JobSummary[]> {
  return (feed.fresh ?? (await api.overview())).jobs;
}
