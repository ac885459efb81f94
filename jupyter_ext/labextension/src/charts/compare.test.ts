// @vitest-environment jsdom
import { expect, it, vi } from 'vitest';

import type { Api } from '../api';
import type { Compared, JobMetrics } from '../types';
import { CompareView } from './compare';

vi.hoisted(() => vi.stubGlobal('DragEvent', Event)); // jsdom has none, and Lumino derives from it
vi.mock('uplot', () => ({ default: class {} })); // nor a canvas: there is no chart here

vi.stubGlobal(
  'ResizeObserver',
  class {
    observe = () => undefined;
    disconnect = () => undefined;
  }
);

const JOBS = [
  { id: '20260314-150926-aaaaa', name: 'same', state: 'succeeded' },
  { id: '20260314-150926-bbbbb', name: 'same', state: 'running' }
];
const SAME: Compared = { jobs: JOBS, same: true, code: [], sections: [], unknown: [] };

async function shown(compared: Compared): Promise<HTMLElement> {
  const metrics = { name: 'same', final: true, began: 0, now: 1, charts: [] };
  const api = {
    compare: async () => compared,
    metrics: async () => metrics as unknown as JobMetrics
  };
  const view = new CompareView(
    api as unknown as Api,
    JOBS.map(each => each.id)
  );
  document.body.replaceChildren(view.node);
  await view.ask();
  await vi.waitFor(() => expect(view.node.querySelector('table')).not.toBeNull());
  return view.node;
}

it('tells what differs, what is alike and what is not known, all of it as text', async () => {
  const node = await shown({
    ...SAME,
    same: false,
    code: [
      {
        id: JOBS[1].id,
        lines: [
          ['@', 'a.py'],
          ['-', '<b>'],
          ['~', 'long']
        ],
        left_out: 2
      }
    ],
    sections: [
      {
        title: 'options',
        rows: [
          { name: '--env <i>', values: ['<b>1', null], same: false },
          { name: 'data', values: ['dict, 9 bytes', 'dict, 9 bytes'], same: false },
          { name: 'step', values: ['2', '2'], same: true }
        ],
        alike: 7,
        left_out: 1
      },
      { title: 'versions', rows: [], alike: 206, left_out: 0 }
    ],
    unknown: [`the data of job ${JOBS[1].id}`]
  });
  const rows = [...node.querySelectorAll('tr')].map(row =>
    [...row.children].map(cell => cell.textContent).join('|')
  );
  expect(rows).toEqual([
    '|same aaaaa ✓|same bbbbb ●',
    'Options',
    '--env <i>|<b>1|—',
    'data|dict, 9 bytes|dict, 9 bytes, with another content',
    'step|2|2',
    '1 more that differ, 7 alike',
    'Versions',
    'all 206 alike'
  ]);
  expect(node.querySelector('b, i')).toBeNull();
  expect(node.querySelectorAll('.submarine-mod-differs')).toHaveLength(2);
  const lines = [...node.querySelectorAll('.submarine-Diff-line')].map(each => each.textContent);
  expect(lines).toEqual(['a.py', '-<b>', ' long']);
  expect(node.textContent).toContain('2 more lines');
  expect(node.textContent).toContain('Not known: the data of same bbbbb.');
  expect(node.textContent).not.toContain('Nothing differs');
});

it('says that nothing differs', async () => {
  expect((await shown(SAME)).textContent).toContain('Nothing differs.');
  const less = await shown({ ...SAME, unknown: ['the packages'] });
  expect(less.textContent).toContain('Nothing differs, as far as it is known.');
});
