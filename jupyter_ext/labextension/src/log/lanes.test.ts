// @vitest-environment jsdom
import { beforeEach, describe, expect, it } from 'vitest';

import type { LogView } from '../types';
import { Lanes } from './lanes';

function logs(tasks: number, written = 1): LogView[] {
  return [...Array(tasks).keys()].flatMap(at =>
    (['stdout', 'stderr'] as const).map(stream => ({
      task: `worker-${at}`,
      stream,
      size: stream === 'stdout' && at < written ? 10 : 0
    }))
  );
}

describe('Lanes', () => {
  let chosen: string[];
  let lanes: Lanes;
  const tabs = () => [...lanes.node.querySelectorAll('button')];
  const list = () => lanes.node.querySelector('select');

  beforeEach(() => {
    chosen = [];
    lanes = new Lanes(log => chosen.push(`${log.task}/${log.stream}`));
    document.body.replaceChildren(lanes.node);
  });

  it('has tabs alone where there is one task', () => {
    lanes.set(logs(1));
    expect(list()).toBeNull();
    expect(tabs().map(tab => tab.textContent)).toEqual(['stdout · 10 bytes', 'stderr · 0 bytes']);
    tabs()[1].click();
    expect(chosen).toEqual(['worker-0/stdout', 'worker-0/stderr']);
  });

  it('has a list of the tasks where there are several, and the tabs of one', () => {
    lanes.set(logs(32));
    expect([...list()!.options].map(each => each.value)).toHaveLength(32);
    expect(tabs()).toHaveLength(2);
    expect(lanes.current!.task).toBe('worker-0');
  });

  it('does not offer the logs of all tasks where it means all of one', () => {
    const all = { task: 'worker-0', stream: 'all', size: 10 } as const;
    lanes.set([all, ...logs(2)]);
    expect(tabs()[0].textContent).toBe('All output');
  });

  it('keeps the stream when another task is chosen, and the choice when logs grow', () => {
    lanes.set(logs(4));
    tabs()[1].click();
    list()!.value = 'worker-2';
    list()!.dispatchEvent(new Event('change'));
    expect(chosen.at(-1)).toBe('worker-2/stderr');
    lanes.set(logs(4, 4));
    expect(lanes.current).toMatchObject({ task: 'worker-2', stream: 'stderr' });
    expect(list()!.value).toBe('worker-2');
    tabs()[0].click();
    expect(chosen.at(-1)).toBe('worker-2/stdout');
  });

  it('leaves the list to who goes through it while the logs grow', () => {
    lanes.set(logs(4));
    list()!.value = 'worker-3'; // with the list open, and not chosen yet
    lanes.set(logs(4, 4));
    expect(list()!.value).toBe('worker-3');
    lanes.set(logs(1));
    expect([lanes.current!.task, list()]).toEqual(['worker-0', null]);
  });

  it('shows names as text', () => {
    const odd = { task: '<img src=x>', stream: 'stdout', size: 1 } as const;
    lanes.set([...logs(1), odd]);
    expect(lanes.node.querySelector('img')).toBeNull();
    expect([...list()!.options].at(-1)!.textContent).toBe('<img src=x>');
  });
});
