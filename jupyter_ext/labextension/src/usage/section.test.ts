// @vitest-environment jsdom
import { expect, it, vi } from 'vitest';

import type { Api } from '../api';
import { ApiError } from '../api';
import { Usage, type UsageTold } from './section';

const ROW = { jobs: 2, queued: 36, held: 7200, busy: 5400, idle: 1800, wasted: 3600 };
const TOLD = { rows: [] as UsageTold['rows'], left_out: 0, words: 'GPU-hours: words', others: [] };

function opened(get: (path: string) => unknown) {
  const asked: string[] = [];
  const api = { get: async (path: string) => (asked.push(path), get(path)) };
  const usage = new Usage(api as unknown as Pick<Api, 'get'>);
  document.body.replaceChildren(usage.node);
  const change = async (change: () => void, event: Event, on: Element) => {
    change();
    on.dispatchEvent(event);
    await vi.waitFor(() => expect(usage.node.querySelector('[aria-busy]')).toBeNull());
  };
  return { usage, asked, change };
}

it('asks for nothing until it is opened, and shows text from jobs as text', async () => {
  const rows = [
    { ...ROW, of: '<b>a.ipynb' },
    { ...ROW, of: 'b.ipynb', held: 3600, wasted: 0, idle: null }
  ];
  const { usage, asked, change } = opened(() => ({ ...TOLD, rows, others: ['yarn: <i>3'] }));
  expect(asked).toEqual([]);
  await change(() => (usage.node.open = true), new Event('toggle'), usage.node);
  expect(asked.at(-1)).toBe('api/usage?by=notebook&days=30');
  await vi.waitFor(() => expect(usage.node.querySelectorAll('tr')).toHaveLength(3));
  expect(usage.node.querySelector('b, i')).toBeNull();
  const [, first, second] = usage.node.querySelectorAll('tr');
  expect([...first.querySelectorAll('td')].map(each => each.textContent)).toEqual(['2.00', '1.00']);
  const widths = (node: Element) =>
    [...node.querySelectorAll<HTMLElement>('.submarine-Usage-bar span')].map(e => e.style.width);
  expect([widths(first), widths(second)]).toEqual([
    ['50%', '50%'],
    ['50%', '0%']
  ]);
  expect(second.title).toContain('idle not measured');
  expect(usage.node.textContent).toContain('Yarn: <i>3.');
  const [by] = usage.node.querySelectorAll('select');
  await change(() => (by.value = 'week'), new Event('change'), by);
  expect(asked.at(-1)).toBe('api/usage?by=week&days=30');
});

it('calls notebooks by as much of their paths as tells them apart', async () => {
  const rows = ['/srv/a/train.ipynb', '/srv/b/train.ipynb', '/srv/b/x.ipynb', 'x'].map(of => ({
    ...ROW,
    of
  }));
  const { usage, change } = opened(() => ({ ...TOLD, rows }));
  await change(() => (usage.node.open = true), new Event('toggle'), usage.node);
  await vi.waitFor(() => expect(usage.node.querySelectorAll('tr')).toHaveLength(5));
  const names = [...usage.node.querySelectorAll('.submarine-Usage-name')];
  expect(names.map(each => each.textContent)).toEqual([
    'a/train.ipynb',
    'b/train.ipynb',
    'x.ipynb',
    'x'
  ]);
  expect(usage.node.querySelectorAll('tr')[1].title).toContain('/srv/a/train.ipynb: ');
});

it('says what is wrong, and that there is nothing', async () => {
  let answer: unknown = TOLD;
  const { usage, change } = opened(() => {
    if (answer instanceof Error) {
      throw answer;
    }
    return answer;
  });
  await change(() => (usage.node.open = true), new Event('toggle'), usage.node);
  await vi.waitFor(() => expect(usage.node.textContent).toContain('No job has had a GPU'));
  answer = new ApiError('the disk says: no', '', 'look at it');
  const [by] = usage.node.querySelectorAll('select');
  await change(() => (by.value = 'user'), new Event('change'), by);
  await vi.waitFor(() => expect(usage.node.textContent).toContain('The disk says: no. Look at it'));
});
