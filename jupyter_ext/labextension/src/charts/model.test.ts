import { describe, expect, it } from 'vitest';

import type { ChartLine, JobMetrics } from '../types';
import { amount, drawings, isAlike, last, mark, places, reach, tick } from './model';

function line(at: number[], mean: (number | null)[], more: Partial<ChartLine> = {}): ChartLine {
  return { task: 'worker-0', label: 'worker-0', at, mean, low: [], high: [], ...more };
}

function told(charts: JobMetrics['charts'], began = 100): JobMetrics {
  const times = { began, now: 200 };
  return {
    id: 'j',
    name: 'j',
    state: 'running',
    final: false,
    tasks: 1,
    shown: 1,
    ...times,
    charts
  };
}

const loss = (...lines: ChartLine[]) => ({ name: 'loss', unit: '', reported: true, lines });

describe('drawings', () => {
  it('joins lines of other times; what is no number stays a gap', () => {
    const chart = loss(line([1, 2, 3], [5, null, 6]), line([2, 4], [7, 8], { label: 'worker-1' }));
    const [drawing] = drawings([{ name: 'a', told: told([chart]) }], false);
    expect(drawing.data[0]).toEqual([1, 2, 3, 4]);
    expect(drawing.data[1]).toEqual([5, null, 6, undefined]);
    expect(drawing.data[2]).toEqual([undefined, 7, undefined, 8]);
    expect(drawing.curves.map(each => each.label)).toEqual(['worker-0', 'worker-1']);
    expect(drawing.curves.map(each => each.colour)).toEqual([0, 1]);
  });

  it('has least and greatest behind the mean where they differ', () => {
    const ranged = line([1, 2], [5, 6], { low: [4, 6], high: [9, 6] });
    const [drawing] = drawings([{ name: 'a', told: told([loss(ranged, line([1], [1]))]) }], false);
    expect(drawing.data.length).toBe(5);
    expect(places(drawing.curves)).toEqual([1, 4]);
    expect(drawing.data[4]).toEqual([1, undefined]);
  });

  it('puts jobs over each other from the start of each, what is reported first', () => {
    const cpu = { name: 'CPU', unit: 'cores', reported: false, lines: [line([110], [1])] };
    const disk = {
      ...cpu,
      name: 'Disk',
      lines: [line([110], [1], { label: 'read' }), line([110], [2], { label: 'written' })]
    };
    const found = drawings(
      [
        { name: 'slow', told: told([cpu, disk]) },
        {
          name: 'fast',
          told: told([loss(line([505], [3])), { ...cpu, lines: [line([510], [2])] }], 500)
        }
      ],
      true
    );
    expect(found.map(each => each.name)).toEqual(['loss', 'CPU', 'Disk']);
    expect(found[1].data).toEqual([[10], [1], [2]]);
    expect(found[1].curves.map(each => each.label)).toEqual(['slow', 'fast']);
    expect(found[0].curves[0].colour).toBe(1); // of one job, one colour in all charts
    expect(found[2].curves.map(each => [each.label, each.dashed])).toEqual([
      ['slow read', false],
      ['slow written', true]
    ]);
  });

  it('makes foreign names safe, and leaves out what has no numbers', () => {
    const odd = { ...loss(line([1], [1])), name: 'a\u202eb' };
    const [drawing, ...others] = drawings(
      [{ name: 'a', told: told([odd, loss(line([], []))]) }],
      false
    );
    expect(drawing.name).toBe('a[U+202E]b');
    expect(others).toEqual([]);
    expect(isAlike(drawing, { ...drawing, data: [[]] })).toBe(true);
    expect(isAlike(drawing, { ...drawing, curves: [] })).toBe(false);
  });
});

it('says numbers as people read them', () => {
  const words = [
    ['B', 2e10],
    ['B/s', 1500],
    ['%', 93.4],
    ['cores', 1.23456],
    ['', 0.0312549]
  ] as const;
  expect(words.map(([unit, value]) => amount(value, unit))).toEqual([
    '20 GB', '1.5 kB/s', '93 %', '1.23', '0.03125'
  ]); // prettier-ignore
  expect([null, undefined, NaN].map(each => amount(each, ''))).toEqual(['—', '—', '—']);
  expect([0, 150, 2e6].map(each => mark(each, 'B/s'))).toEqual(['0', '150 B/s', '2.0 MB/s']);
  expect(last([1, 2, undefined])).toBe(2);
  expect(last([1, null, undefined])).toBe(null); // the last one was no number
  expect(last([])).toBe(null);
});

it('reaches from zero on, but for what code reports', () => {
  expect(reach(3, 90, '%')).toEqual([0, 100]);
  expect(reach(3, 10, 'B')).toEqual([0, 11]);
  expect(reach(null, 0, 'B')).toEqual([0, 1]);
  expect(reach(2, 2, '')).toEqual([1.84, 2.16]);
  expect(reach(0, 0, '')).toEqual([-0.08, 0.08]);
});

it('marks times by the length that is shown', () => {
  const at = new Date(2026, 1, 3, 15, 4, 5).getTime() / 1000;
  expect([60, 7200, 7 * 86_400].map(span => tick(at, span, false))).toEqual([
    '15:04:05', '15:04', '3 Feb'
  ]); // prettier-ignore
  expect([5, 720, 5400, -65, 3 * 86_400].map(each => tick(each, 0, true))).toEqual([
    '0:05', '12:00', '1:30:00', '−1:05', '3 d 0 h'
  ]); // prettier-ignore
});
