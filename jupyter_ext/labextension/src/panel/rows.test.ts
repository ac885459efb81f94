import { describe, expect, it } from 'vitest';

import type { JobSummary } from '../types';
import { when } from '../words';
import { counted, matches, row, rows } from './rows';

const JOB: JobSummary = {
  id: 'job-1',
  cluster: 'local',
  name: 'mnist',
  state: 'running',
  reason: '',
  gpus: 2,
  created: 1000,
  finished: null,
  notebook: 'work/train.ipynb',
  cell: 'In [3]',
  progress: 0.5
};

describe('row', () => {
  it('says what a job is', () => {
    const { facts, elapsed, label, ticking } = row(JOB, 1065);
    const begun = when(1000, 1065);
    expect(facts).toEqual([begun, '2 GPUs on local', 'train.ipynb', 'In [3]']);
    expect(elapsed).toBe('1 min 05 s');
    expect(label).toBe(`mnist, running, 50 %, ${begun}, 2 GPUs on local, train.ipynb, In [3]`);
    expect(ticking).toBe(true);
  });

  it('ends with the job', () => {
    const over = row({ ...JOB, state: 'failed', finished: 1003, reason: 'exit code 1' }, 9999);
    expect([over.elapsed, over.ticking, over.progress]).toEqual(['3.0 s', false, null]);
    expect(over.reason).toBe('Exit code 1');
    const killed = row({ ...JOB, state: 'cancelled', finished: 1003, reason: 'killed' }, 9999);
    expect([killed.reason, killed.label.split(', ')[1]]).toEqual(['', 'killed']);
  });

  it('makes hostile names visible and short', () => {
    const name = '<img src=x onerror=alert(1)>\u202e' + 'a'.repeat(10_000);
    const hostile = row({ ...JOB, name, notebook: '', cell: '\u0007' }, 1000);
    expect(hostile.name.length).toBeLessThan(100);
    expect(hostile.name).toContain('[U+202E]');
    expect(hostile.facts).toEqual([when(1000, 1000), '2 GPUs on local', '␇']);
  });

  it('takes what is missing', () => {
    const broken = { ...JOB, created: null, progress: 7, cell: undefined, notebook: undefined };
    const found = row(broken as unknown as JobSummary, 1000);
    expect([found.elapsed, found.progress, found.facts]).toEqual(['', 1, ['2 GPUs on local']]);
  });
});

describe('counted', () => {
  it('says what jobs do', () => {
    const of = (...states: string[]) => counted(states.map(state => ({ ...JOB, state })));
    expect(of()).toBe('0 running · 0 jobs');
    expect(of('succeeded')).toBe('0 running · 1 job');
    expect(of('running', 'cancelling', 'queued', 'lost')).toBe('2 running · 1 queued · 4 jobs');
  });
});

describe('filter', () => {
  it('wants every word, anywhere', () => {
    expect(matches(JOB, ['train', 'local'])).toBe(true);
    expect(matches(JOB, ['train', 'yarn'])).toBe(false);
  });

  it('leaves out what is over', () => {
    const jobs = [JOB, { ...JOB, id: 'job-2', state: 'succeeded', finished: 1001 }];
    const overview = { now: 1010, clusters: [], jobs };
    const ids = (text: string, running: boolean) =>
      rows(overview, { text, running }, 0).map(each => each.id);
    expect(ids('', false)).toEqual(['job-1', 'job-2']);
    expect(ids('', true)).toEqual(['job-1']);
    expect(ids(' SUCCEEDED ', false)).toEqual(['job-2']);
    expect(ids('nothing', false)).toEqual([]);
  });

  it('counts on from when the overview came', () => {
    const overview = { now: 1010, clusters: [], jobs: [JOB] };
    expect(rows(overview, { text: '', running: false }, 5)[0].elapsed).toBe('15 s');
  });
});
