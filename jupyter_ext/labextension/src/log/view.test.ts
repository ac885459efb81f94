// @vitest-environment jsdom
import { Widget } from '@lumino/widgets';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';

import { type Api, ApiError } from '../api';
import type { LogView as Log } from '../types';
import { LogView } from './view';

const copyToSystem = vi.hoisted(() => vi.fn());
vi.hoisted(() => vi.stubGlobal('DragEvent', Event)); // jsdom has none, and Lumino derives from it
vi.mock('@jupyterlab/apputils', () => ({ Clipboard: { copyToSystem } }));

const logs = (size: number): Log[] => [{ task: 'worker-0', stream: 'stdout', size }];
let visibility: DocumentVisibilityState;

/** A log in the page; `told` is what the server has of it. */
function opened() {
  const told = { size: 0, text: 'loss 1' };
  const lines = vi.fn(async () => {
    return { lines: [told.text], start: 0, total: 1, size: told.size };
  });
  const api = { lines, fileUrl: () => '' };
  const view = new LogView(api as unknown as Api, 'j');
  const grow = (size: number) => {
    told.size = size;
    view.setLogs(logs(size));
  };
  const status = () => view.node.querySelector('.smc-status')!.textContent;
  return { view, lines, grow, status };
}

beforeEach(() => {
  vi.useFakeTimers();
  const observer = { observe: () => undefined, disconnect: () => undefined };
  vi.stubGlobal(
    'ResizeObserver',
    class {
      observe = observer.observe;
      unobserve = observer.observe;
      disconnect = observer.disconnect;
    }
  );
  visibility = 'visible';
  vi.spyOn(document, 'visibilityState', 'get').mockImplementation(() => visibility);
});
afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
  document.body.replaceChildren();
});

it('asks for its lines while it is seen alone, and then for all that came meanwhile', async () => {
  const { view, lines, grow, status } = opened();
  grow(10);
  expect(lines).not.toHaveBeenCalled();
  Widget.attach(view, document.body);
  await vi.advanceTimersByTimeAsync(1);
  expect(lines).toHaveBeenCalledTimes(1);
  view.hide();
  grow(20);
  grow(30);
  await vi.advanceTimersByTimeAsync(1);
  expect(lines).toHaveBeenCalledTimes(1);
  view.show();
  await vi.advanceTimersByTimeAsync(1);
  expect([lines.mock.calls.length, status()]).toEqual([2, '1 line · 30 bytes']);
  visibility = 'hidden';
  grow(40);
  expect(lines).toHaveBeenCalledTimes(2);
  visibility = 'visible';
  document.dispatchEvent(new Event('visibilitychange'));
  await vi.advanceTimersByTimeAsync(1);
  expect(lines).toHaveBeenCalledTimes(3);
  view.dispose();
  document.dispatchEvent(new Event('visibilitychange'));
  expect(lines).toHaveBeenCalledTimes(3);
});

it('asks again for the end of a log that could not be had', async () => {
  const { view, lines, grow, status } = opened();
  Widget.attach(view, document.body);
  lines.mockRejectedValueOnce(new ApiError('Server unreachable'));
  grow(10); // the last time: the job is over
  await vi.advanceTimersByTimeAsync(1);
  expect(status()).toBe('Server unreachable');
  await vi.advanceTimersByTimeAsync(60_000);
  expect([lines.mock.calls.length, status()]).toEqual([2, '1 line · 10 bytes']);
  lines.mockRejectedValue(new ApiError('no such log', '', '', 404));
  grow(20);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(lines).toHaveBeenCalledTimes(3); // it will not come back
  view.dispose();
});

it('copies where the page has no clipboard, as over plain HTTP', async () => {
  const { view, grow, status } = opened();
  Widget.attach(view, document.body);
  grow(10);
  await vi.advanceTimersByTimeAsync(1);
  expect('clipboard' in navigator).toBe(false); // nor has jsdom
  const buttons = [...view.node.querySelectorAll('button')];
  buttons.find(each => each.textContent === 'Copy')!.click();
  await vi.advanceTimersByTimeAsync(1);
  expect([copyToSystem.mock.calls, status()]).toEqual([[['loss 1']], '1 line copied']);
  view.dispose();
});
