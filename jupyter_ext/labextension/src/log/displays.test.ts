// @vitest-environment jsdom
import type { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import { Widget } from '@lumino/widgets';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';

import { ApiError } from '../api';
import type { Shown } from '../types';
import { Displays, Slot } from './displays';

vi.hoisted(() => vi.stubGlobal('DragEvent', Event)); // jsdom has none, and Lumino derives from it

const models: { trusted?: boolean }[] = [];
const rendermime = {
  preferredMimeType: (data: object, safe: string) =>
    safe === 'ensure' && 'text/html' in data ? 'text/html' : undefined,
  createModel: (options: { trusted?: boolean }) => (models.push(options), options),
  createRenderer: (kind: string) => {
    const made = new Widget();
    const renderModel = async (model: { data: Record<string, string> }) =>
      void (made.node.textContent = `${kind}: ${model.data[kind]}`);
    return Object.assign(made, { renderModel });
  }
} as unknown as IRenderMimeRegistry;

let shown: Shown['displays'];
const bundles: Record<number, object> = {};
const changed = vi.fn();

function opened(): Displays {
  const list = async () => ({ displays: shown, left_out: 0 });
  const fetch = async (offset: number) => ({ data: bundles[offset] ?? {}, metadata: {} }) as never;
  return new Displays(list, fetch, rendermime, changed);
}

async function drawn(slots: Slot[]): Promise<string[]> {
  slots.forEach(slot => {
    document.body.append(slot.node);
    slot.draw();
  });
  await new Promise(done => setTimeout(done));
  return slots.map(slot => slot.node.textContent!);
}

beforeEach(() => document.body.replaceChildren());
afterEach(() => vi.useRealTimers());

it('puts each thing behind its line, untrusted, and changes it in its place', async () => {
  bundles[0] = { 'text/html': '<b>one</b>' };
  bundles[90] = { 'application/x-foreign\u202e': '?' };
  shown = [
    { offset: 0, line: 0 },
    { offset: 90, line: 3 }
  ];
  const displays = opened();
  await displays.refresh(100);
  expect(changed).toHaveBeenCalledTimes(1);
  const { above } = displays.of(0);
  const { below } = displays.of(2);
  expect([displays.of(0).below, displays.of(1), displays.of(2).above]).toEqual([
    [],
    { above: [], below: [] },
    []
  ]);
  expect(await drawn([...above, ...below])).toEqual([
    'text/html: <b>one</b>',
    'text/plain: <application/x-foreign[U+202E]>'
  ]);
  expect(models.every(model => model.trusted === false)).toBe(true);

  bundles[120] = { 'text/html': '<b>two</b>' };
  shown = [{ offset: 120, line: 4 }];
  await displays.refresh(100); // as many bytes: nothing new
  expect(displays.of(0).above).toEqual(above);
  await displays.refresh(140);
  expect(displays.of(3).below).toEqual(above);
  expect(await drawn(displays.of(3).below)).toEqual(['text/html: <b>two</b>']);
  expect(below[0].node.isConnected).toBe(false);
  shown = [];
  await Promise.all([displays.refresh(150), displays.refresh(160)]); // the second asks, too
  expect(changed).toHaveBeenCalledTimes(4);
  displays.dispose();
  expect(displays.empty).toBe(true);
});

/** A slot in the page, whose questions the test answers. */
function slot(fetch: (offset: number) => Promise<object>, draws = async () => undefined) {
  const made: Widget[] = [];
  const createRenderer = () => {
    made.push(new Widget());
    return Object.assign(made.at(-1)!, { renderModel: draws });
  };
  const found = new Slot(0, fetch as never, { ...rendermime, createRenderer } as never);
  found.offset = 0;
  document.body.append(found.node);
  return { slot: found, made };
}

it('says what cannot be drawn, and asks for it no more', async () => {
  vi.useFakeTimers();
  const fetch = vi.fn(async () => ({ data: { 'text/html': '<b>' }, metadata: {} }));
  const draws = vi.fn(async () => Promise.reject(new Error('no plot')));
  const { slot: shown, made } = slot(fetch, draws);
  shown.draw();
  await vi.advanceTimersByTimeAsync(60_000);
  expect(fetch).toHaveBeenCalledOnce();
  expect(shown.node.textContent).toBe('This cannot be shown: no plot');
  expect(made.map(each => each.isDisposed)).toEqual([true]);
  draws.mockImplementation(async () => undefined as never);
  shown.offset = 90;
  shown.draw();
  await vi.advanceTimersByTimeAsync(1);
  expect([shown.node.textContent, made[1].isAttached]).toEqual(['', true]);
});

it('asks no more for what is not there, and ever more seldom where the server is gone', async () => {
  vi.useFakeTimers();
  const gone = vi.fn(async () => Promise.reject(new ApiError('no such file', '', '', 404)));
  const { slot: shown } = slot(gone);
  shown.draw();
  await vi.advanceTimersByTimeAsync(60_000);
  expect(gone).toHaveBeenCalledOnce();
  expect(shown.node.textContent).toBe('This cannot be shown: No such file');
  const silent = vi.fn(async () => Promise.reject(new ApiError('Server unreachable')));
  slot(silent).slot.draw();
  await vi.advanceTimersByTimeAsync(60_000);
  expect(silent.mock.calls.length).toBeLessThan(10);
  expect(silent.mock.calls.length).toBeGreaterThan(2);
});

it('keeps nothing of what came after its place was gone', async () => {
  const told: { answer?: (bundle: object) => void } = {};
  const { slot: shown, made } = slot(() => new Promise(resolve => (told.answer = resolve)));
  shown.draw();
  shown.dispose();
  told.answer!({ data: { 'text/html': '<b>' }, metadata: {} });
  await vi.waitFor(() => expect(made.map(each => each.isDisposed)).toEqual([true]));
});
