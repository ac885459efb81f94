// @vitest-environment jsdom
import type { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import type { IRenderMime } from '@jupyterlab/rendermime-interfaces';
import { Widget } from '@lumino/widgets';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import type { Api } from '../api';
import { inFocus } from '../commands/choose';
import { KILL, TENSORBOARD } from '../commands/ids';
import { Feed } from '../feed';
import { LogView } from '../log/view';
import type { Place } from './actions';
import { JOB_TYPE, readBundle } from './bundle';
import { CardRenderer } from './renderer';

vi.hoisted(() => vi.stubGlobal('DragEvent', Event)); // jsdom has none, and Lumino derives from it
vi.mock('@jupyterlab/apputils', () => ({})); // its dialogs need a whole page
vi.mock('./live', () => ({ isWritten: () => true }));

const model = {
  data: { [JOB_TYPE]: { job_id: 'j', name: 'net', state: 'running', text: true } }
} as unknown as IRenderMime.IMimeModel;

/** A card in the page, fed by a stream that the test writes to. */
async function drawn(wanted = model) {
  const told: { stream?: ReadableStreamDefaultController<Uint8Array> } = {};
  const body = new ReadableStream<Uint8Array>({ start: each => void (told.stream = each) });
  const api = { request: async () => new Response(body), url: (path: string) => `/${path}` };
  const feed = new Feed(api as unknown as Api);
  const execute = vi.fn(async () => undefined);
  const place = { submarine: { api, feed }, tracker: null, execute } as unknown as Place;
  const html = () => {
    const shown = new Widget() as unknown as IRenderMime.IRenderer;
    shown.renderModel = async each =>
      void (shown.node.textContent = String(each.data['text/html']));
    return shown;
  };
  const rendermime = { mimeTypes: ['text/html'], createRenderer: html };
  const card = new CardRenderer(place, rendermime as unknown as IRenderMimeRegistry);
  await card.renderModel(wanted);
  Widget.attach(card, document.body);
  await vi.advanceTimersByTimeAsync(100);
  const say = async (kind: string, data: unknown) => {
    const text = `event: ${kind}\ndata: ${JSON.stringify(data)}\n\n`;
    told.stream!.enqueue(new TextEncoder().encode(text));
    await vi.advanceTimersByTimeAsync(1);
  };
  const note = () => card.node.querySelector('.smc-note')?.textContent ?? '';
  return { card, say, note, execute };
}

const { card: saved } = readBundle(model);

beforeEach(() => void vi.useFakeTimers());
afterEach(() => {
  vi.useRealTimers();
  document.body.replaceChildren();
});

describe('CardRenderer', () => {
  it('says what the server cannot do now, and calls the job unknown only where it is', async () => {
    const { say, note } = await drawn();
    await say('card', saved);
    expect(note()).toBe('');
    await say('problem', { id: 'j', what: 'no answer for 20 s', where: 'yarn cards', fix: '' });
    expect(note()).toBe('No answer for 20 s (yarn cards)');
    await say('card', saved);
    expect(note()).toBe('');
    await say('gone', { id: 'j', what: 'there is no such job on record' });
    expect(note()).toContain('does not know the job');
  });

  it('shows the HTML of an older release until the server says more', async () => {
    const data = { ...model.data, 'text/html': '✓ net: succeeded' };
    const { card, say } = await drawn({ data } as unknown as IRenderMime.IMimeModel);
    const body = card.node.querySelector('.submarine-CardBody')!;
    expect(card.node.textContent).toContain('✓ net: succeeded');
    expect(body.classList.contains('lm-mod-hidden')).toBe(true);
    await say('card', saved);
    expect(card.node.textContent).not.toContain('✓ net: succeeded');
    expect(body.classList.contains('lm-mod-hidden')).toBe(false);
  });

  it('reads a card that is one line of JSON', () => {
    const { data } = model as { data: Record<string, object> };
    const line = JSON.stringify({ ...saved, facts: ['on local'] });
    const read = (card: unknown) =>
      readBundle({ data: { [JOB_TYPE]: { ...data[JOB_TYPE], card } } } as never);
    expect(read(line).card.facts).toEqual(['on local']);
    expect([read(line).whole, read('{').whole, read('null').whole]).toEqual([true, false, false]);
  });

  it('has a job killed and looked at in one way with all others', async () => {
    const { card, say, execute } = await drawn();
    await say('card', { ...saved, tensorboard: true });
    card.node.querySelector<HTMLElement>('[data-action=kill]')!.click();
    card.node.querySelector<HTMLElement>('[data-action=tensorboard]')!.click();
    expect(execute.mock.calls).toEqual([
      [KILL, 'j'],
      [TENSORBOARD, 'j']
    ]);
  });

  it('is what a command means while it, or a log, has the focus', async () => {
    const { card, say } = await drawn();
    await say('card', saved);
    expect(inFocus()).toBe('');
    card.node.querySelector<HTMLElement>('[data-action=kill]')!.focus();
    expect(inFocus()).toBe('j');
    const log = new LogView({} as Api, 'other');
    Widget.attach(log, document.body);
    log.node.querySelector('button')!.focus();
    expect(inFocus()).toBe('other');
  });
});
