// @vitest-environment jsdom
import { Widget } from '@lumino/widgets';
import { afterEach, expect, it, vi } from 'vitest';

import type { Api } from '../api';
import { StacksView } from './view';

vi.hoisted(() => vi.stubGlobal('DragEvent', Event)); // jsdom has none, and Lumino derives from it
afterEach(() => document.body.replaceChildren());

/** A view whose question the test answers. */
function asked(options = {}) {
  const told: { answer?: (at: number) => void; fail?: (why: string) => void } = {};
  const stacks = vi.fn(
    () =>
      new Promise((resolve, reject) => {
        told.answer = at => resolve({ at, groups: [], tree: ['div', {}, [`<b>${at}</b>`]] });
        told.fail = why => reject(new Error(why));
      })
  );
  const view = new StacksView({ stacks } as unknown as Api, 'j', options);
  Widget.attach(view, document.body);
  const refresh = view.node.querySelector('button')!;
  return { view, stacks, told, refresh };
}

it('is busy while it waits, and asks anew at each click', async () => {
  const asking = vi.fn();
  const { view, stacks, told, refresh } = asked({ asking });
  const first = view.ask();
  expect(view.node.getAttribute('aria-busy')).toBe('true');
  expect(refresh.disabled).toBe(true);
  await view.ask(); // one question at a time
  expect(stacks.mock.calls).toEqual([['j']]);
  told.answer!(1);
  await first;
  expect(view.node.textContent).toContain('<b>1</b>');
  expect(view.node.querySelector('b')).toBe(null);
  expect(view.node.getAttribute('aria-busy')).toBe('false');
  refresh.click();
  told.answer!(2);
  await vi.waitFor(() => expect(view.node.textContent).toContain('<b>2</b>'));
  expect(view.node.textContent).not.toContain('<b>1</b>');
  expect(asking.mock.calls).toEqual([[true], [false], [true], [false]]);
});

it('says why there are none, and keeps what it has', async () => {
  const { view, told } = asked();
  const first = view.ask();
  told.answer!(1);
  await first;
  const second = view.ask();
  told.fail!('the job is over');
  await second;
  const error = view.node.querySelector<HTMLElement>('[role=alert]')!;
  expect([error.hidden, error.textContent]).toEqual([false, 'No stacks: the job is over']);
  expect(view.node.textContent).toContain('<b>1</b>');
});

it('can be closed where somebody says how', () => {
  const close = vi.fn();
  const { view } = asked({ close });
  view.node.querySelectorAll('button')[1].click();
  expect(close).toHaveBeenCalledOnce();
  expect(asked().view.node.querySelectorAll('button').length).toBe(1);
});
