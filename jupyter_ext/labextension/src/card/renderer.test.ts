// @vitest-environment jsdom
import type { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import type { IRenderMime } from '@jupyterlab/rendermime-interfaces';
import { Widget } from '@lumino/widgets';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { build, change, type Tree } from '../../../../magics/submarine_magics/card/tree.js';
import type { Api } from '../api';
import { inFocus } from '../commands/choose';
import { KILL, TENSORBOARD, TERMINAL } from '../commands/ids';
import { Feed } from '../feed';
import { LogView } from '../log/view';
import type { Place } from './actions';
import { JOB_TYPE, merged, readBundle, WIDGET_TYPE } from './bundle';
import { CardRenderer } from './renderer';
import { changes, QUIET } from './ui';

vi.hoisted(() => vi.stubGlobal('DragEvent', Event)); // jsdom has none, and Lumino derives from it
vi.mock('@jupyterlab/apputils', () => ({})); // its dialogs need a whole page
vi.mock('./live', () => ({ areaOf: () => null, isWritten: () => true }));

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
  const rendermime = { mimeTypes: ['text/html', WIDGET_TYPE], createRenderer: html };
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
  return { card, say, note, execute, api, place };
}

const tree: Tree = [
  'div',
  { class: 'submarine-card' },
  [
    ...['log', 'stacks', 'terminal', 'tensorboard', 'cancel', 'kill'].map((action): Tree => [
      'button',
      { 'data-action': action },
      [action]
    ]),
    ['a', { 'data-slot': 'page', hidden: '' }, ['Job page']],
    ['div', { class: 'smc-note', 'data-slot': 'note', hidden: '' }, ['']]
  ]
];
const saved = { ...readBundle(model).card, tree };

beforeEach(() => void vi.useFakeTimers());
afterEach(() => {
  vi.useRealTimers();
  document.body.replaceChildren();
});

describe('CardRenderer', () => {
  it('goes on saying whose result the cell was given, beside what runs it again', async () => {
    const data = {
      ...model.data[JOB_TYPE]!,
      state: 'succeeded',
      remembered: 'from 14:02, job net'
    };
    const { card, say, execute } = await drawn({ data: { [JOB_TYPE]: data } } as never);
    const slots: Tree = [
      'div',
      {},
      [
        ['button', { 'data-action': 'again', hidden: '' }, ['Run again']],
        ['div', { 'data-slot': 'remembered', hidden: '' }, ['']]
      ]
    ];
    await say('card', { ...saved, tree: slots, final: true });
    const told = card.node.querySelector<HTMLElement>('[data-slot=remembered]')!;
    expect([told.hidden, told.textContent]).toEqual([false, 'Result from 14:02, job net']);
    const button = card.node.querySelector<HTMLButtonElement>('[data-action=again]')!;
    expect(button.hidden).toBe(false);
    button.click();
    await vi.advanceTimersByTimeAsync(1);
    expect(execute).not.toHaveBeenCalled(); // it is in no notebook
  });

  it('waits for the kernel with a button that says so, and has the very cell run', async () => {
    const data = { ...model.data[JOB_TYPE]!, remembered: 'from 14:02' };
    const job = '20260101-000000-abcde';
    const bundle = { data: { [JOB_TYPE]: { ...data, job_id: job } }, trusted: true };
    const { card, say, place } = await drawn(bundle as never);
    const kernel = { free: () => undefined as unknown };
    const done = new Promise(free => {
      kernel.free = () => free({ content: { status: 'ok' } });
    });
    const cell = { node: card.node };
    const session = { kernel: { requestExecute: () => ({ done }) } };
    const panel = { node: card.node, content: { widgets: [cell] }, sessionContext: { session } };
    const runCell = vi.fn(async () => undefined);
    Object.assign(place, { tracker: { find: () => panel }, runCell });
    const again: Tree = ['button', { 'data-action': 'again', hidden: '' }, ['Run again']];
    await say('card', { ...saved, job_id: job, tree: ['div', {}, [again]], final: true });
    const button = card.node.querySelector<HTMLButtonElement>('[data-action=again]')!;
    button.click();
    expect([button.textContent, button.disabled]).toEqual(['Waiting for the kernel…', true]);
    expect(runCell).not.toHaveBeenCalled();
    kernel.free();
    await vi.advanceTimersByTimeAsync(1);
    expect(runCell.mock.calls).toEqual([[panel, cell]]);
    expect([button.textContent, button.disabled]).toEqual(['Run again', false]);
  });

  it('does for a notebook that is not trusted nothing but show', async () => {
    const buttons: Tree[] = ['again', 'board', 'terminal', 'log'].map(action => [
      'button',
      { 'data-action': action, 'data-slot': 'own', 'data-logdir': '/x' },
      [action]
    ]);
    const sends: Tree = ['form', { 'data-slot': 'try', 'data-to': '../../api/terminals' }, []];
    const foreign: Tree = ['div', {}, [...buttons, sends, ['b', { 'data-slot': 'problem' }, ['']]]];
    const data = { ...model.data[JOB_TYPE]!, tree: JSON.stringify(foreign), remembered: 'x' };
    for (const trusted of [false, true]) {
      const { card, execute, place } = await drawn({
        data: { [JOB_TYPE]: data },
        trusted
      } as never);
      const [board, find] = [vi.fn(), vi.fn()];
      Object.assign(place, { board, tracker: { find } });
      const press = (action: string) =>
        card.node.querySelector<HTMLElement>(`[data-action=${action}]`)!.click();
      ['again', 'board', 'terminal'].forEach(press);
      const words = card.node.querySelector('[data-slot=problem]')!;
      expect(words.textContent!.includes('is not trusted')).toBe(!trusted);
      const times = Number(trusted);
      expect([board, find, execute].map(each => each.mock.calls.length)).toEqual([
        times,
        times,
        times
      ]);
      press('log');
      expect(card.node.querySelector('.submarine-Log')).not.toBe(null);
      card.dispose();
    }
  });

  it('says no more that a notebook is not trusted once it is', async () => {
    const button: Tree = ['button', { 'data-action': 'terminal' }, ['Terminal']];
    const foreign: Tree = ['div', {}, [button, ['b', { 'data-slot': 'problem' }, ['']]]];
    const data = { ...model.data[JOB_TYPE]!, tree: JSON.stringify(foreign) };
    const { card } = await drawn({ data: { [JOB_TYPE]: data }, trusted: false } as never);
    const words = () => card.node.querySelector('[data-slot=problem]')!.textContent!;
    card.node.querySelector<HTMLElement>('[data-action=terminal]')!.click();
    expect(words()).toContain('is not trusted');
    await card.renderModel({ data: { [JOB_TYPE]: data }, trusted: true } as never);
    expect(words()).toBe('');
    card.dispose();
  });

  it('has what the server draws act, whatever the notebook is', async () => {
    const { card, say, place } = await drawn();
    const board = vi.fn();
    Object.assign(place, { board });
    const button: Tree = [
      'button',
      { 'data-action': 'board', 'data-logdir': '/x' },
      ['TensorBoard']
    ];
    await say('card', { ...saved, tree: ['div', {}, [button]] });
    card.node.querySelector<HTMLElement>('[data-action=board]')!.click();
    expect(board.mock.calls).toEqual([['/x']]);
  });

  it('shows one card of a job that the kernel alone knows, also once that is over', async () => {
    const data = { ...model.data, [WIDGET_TYPE]: { model_id: 'm' } };
    const { card, say } = await drawn({ data } as unknown as IRenderMime.IMimeModel);
    const shown = () =>
      [...card.node.children].filter(each => !each.classList.contains('lm-mod-hidden'));
    await say('gone', { id: 'j', what: 'there is no such job on record' });
    expect(shown()).toHaveLength(1);
    expect(shown()[0].classList.contains('submarine-CardBody')).toBe(false);
    const over = { ...model.data[JOB_TYPE]!, state: 'succeeded' };
    await card.renderModel({ data: { [JOB_TYPE]: over } } as never);
    expect(shown().map(each => each.classList.contains('submarine-CardBody'))).toEqual([true]);
  });

  it('goes on saying why an action failed while trials are asked for again', async () => {
    const { card, say, api, execute } = await drawn();
    Object.assign(api, { trials: vi.fn(async () => ({ inside: [] })) });
    const parts: Tree[] = [
      ['button', { 'data-action': 'every' }, ['All']],
      ['button', { 'data-action': 'kill' }, ['Kill']],
      ['div', { 'data-slot': 'problem', hidden: '' }, ['']]
    ];
    await say('card', { ...saved, tree: ['div', {}, parts] });
    const press = async (action: string) => {
      card.node.querySelector<HTMLElement>(`[data-action=${action}]`)!.click();
      await vi.advanceTimersByTimeAsync(1);
    };
    await press('every');
    execute.mockRejectedValue(new Error('no'));
    await press('kill');
    await say('card', { ...saved, tree: ['div', {}, parts] });
    const words = card.node.querySelector('[data-slot=problem]')!;
    expect(words.textContent).toBe('Not killed: no');
  });

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

  it('reads a tree that is one line of JSON, and nothing that is none', () => {
    const { data } = model as { data: Record<string, object> };
    const read = (found: unknown) =>
      readBundle({ data: { [JOB_TYPE]: { ...data[JOB_TYPE], tree: found } } } as never);
    expect(read(JSON.stringify(tree)).card.tree).toEqual(tree);
    const poor = ['{', 'null', '["div", {}]', '["a", {"href": 1}, []]', '["a", {}, [["b"]]]', {}];
    expect(poor.map(each => read(each).whole)).toEqual(poor.map(() => false));
    const deep = '["b",{},['.repeat(100) + ']]'.repeat(100);
    expect(read(deep).whole).toBe(false);
  });

  it('changes a tree by the names in it alone', () => {
    const ui = { ...QUIET, served: true, page: 'http://x/', cancelling: true, note: 'old' };
    const shown = build(change(tree, changes(saved, ui))) as HTMLElement;
    expect(shown.querySelector('[data-action=cancel]')!.textContent).toBe('Cancelling…');
    expect(shown.querySelector('[data-slot=page]')!.getAttribute('href')).toBe('http://x/');
    expect(shown.querySelector('[data-slot=note]')!.outerHTML).not.toContain('hidden');
    const away = build(change(tree, changes(saved, QUIET))) as HTMLElement;
    expect(away.querySelectorAll('[data-action]:not([hidden])').length).toBe(0);
    expect(away.querySelector('[data-slot=note]')!.hasAttribute('hidden')).toBe(true);
  });

  it('keeps what the server has and the notebook has not', () => {
    const served = ['div', {}, ['running', ['b', { 'data-kept': '' }, ['script']], 'x']] as Tree;
    const own = { ...saved, state: 'failed', tree: ['div', {}, ['failed', '', '']] as Tree };
    const card = merged(own, { ...saved, logs: [], tree: served });
    expect(card.state).toBe('failed');
    expect(card.tree).toEqual(['div', {}, ['failed', ['b', { 'data-kept': '' }, ['script']], '']]);
  });

  it('has a job killed and looked at in one way with all others', async () => {
    const { card, say, execute } = await drawn();
    await say('card', saved);
    card.node.querySelector<HTMLElement>('[data-action=kill]')!.click();
    card.node.querySelector<HTMLElement>('[data-action=tensorboard]')!.click();
    card.node.querySelector<HTMLElement>('[data-action=terminal]')!.click();
    expect(execute.mock.calls).toEqual([
      [KILL, 'j'],
      [TENSORBOARD, 'j'],
      [TERMINAL, 'j']
    ]);
  });

  it('has the browser keep a file that the job has left, where a server has it', async () => {
    const { card, say, api } = await drawn();
    const artifactUrl = vi.fn(() => 'http://x/file');
    Object.assign(api, { artifactUrl });
    const kept: string[] = [];
    const click = vi.spyOn(HTMLAnchorElement.prototype, 'click').mockImplementation(function (
      this: HTMLAnchorElement
    ) {
      kept.push(this.href);
    });
    const data = { 'data-action': 'artifact', 'data-task': 'worker-0', 'data-path': 'a%20b' };
    const files: Tree = ['div', {}, [['button', data, ['a b']]]];
    await say('card', { ...saved, tree: files });
    const button = card.node.querySelector<HTMLButtonElement>('[data-action=artifact]')!;
    button.click();
    click.mockRestore();
    expect(artifactUrl.mock.calls).toEqual([['j', 'worker-0', 'a%20b']]);
    expect(kept).toEqual(['http://x/file']);
    const away = build(change(files, changes(saved, QUIET))) as HTMLElement;
    expect(away.querySelector('button')!.disabled).toBe(true);
  });

  it('shows where the tasks stand below the card, and takes that away again', async () => {
    const { card, say, api } = await drawn();
    const stacks = vi.fn(async () => ({ at: 1, tree: ['div', {}, ['rank 1: In [2]']] }));
    Object.assign(api, { stacks });
    await say('card', saved);
    const button = card.node.querySelector<HTMLButtonElement>('[data-action=stacks]')!;
    button.click();
    expect([button.textContent, button.disabled]).toEqual(['Stacks…', true]);
    await vi.advanceTimersByTimeAsync(1);
    expect([button.textContent, button.disabled]).toEqual(['stacks', false]);
    expect(button.getAttribute('aria-expanded')).toBe('true');
    expect(card.node.querySelector('.submarine-Stacks')!.textContent).toContain('rank 1: In [2]');
    button.click();
    await vi.advanceTimersByTimeAsync(1);
    expect(stacks.mock.calls).toEqual([['j'], ['j']]);
    card.node.querySelector<HTMLElement>('.submarine-Stacks button:last-child')!.click();
    expect(card.node.querySelector('.submarine-Stacks')).toBe(null);
    expect(button.getAttribute('aria-expanded')).toBe('false');
  });

  it('sends what is typed to a served model, and shows the answer as text alone', async () => {
    const { card, say, api } = await drawn();
    const slots = ['sends', 'tried', 'untried', 'answer'].map((name): Tree => [
      name === 'sends' ? 'button' : 'pre',
      { 'data-slot': name, ...(name === 'sends' ? { type: 'submit' } : { hidden: '' }) },
      [name === 'sends' ? 'Send' : '']
    ]);
    const body: Tree = ['textarea', { name: 'body' }, ['{"inputs": [[1]]}']];
    const form: Tree = [
      'form',
      { 'data-slot': 'try', 'data-to': '1/invocations' },
      [body, ...slots]
    ];
    await say('card', { ...saved, tree: ['div', {}, [form]] as Tree });
    const found = (name: string) => card.node.querySelector<HTMLElement>(`[data-slot=${name}]`)!;
    const send = async (key?: string) => {
      const area = card.node.querySelector('textarea')!;
      if (key) {
        area.value = key;
      }
      area.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', bubbles: true }));
      const pressed = { key: 'Enter', ctrlKey: true, bubbles: true };
      area.dispatchEvent(new KeyboardEvent('keydown', pressed)); // alone it is a new line
      await vi.advanceTimersByTimeAsync(1);
    };
    const port = vi.fn(async () => ({ ok: true, status: 200, text: '<b>4</b>', ms: 7 }));
    Object.assign(api, { port });
    await send();
    expect(port.mock.calls).toEqual([['j', '1/invocations', '{"inputs": [[1]]}']]);
    expect(found('answer').textContent).toBe('<b>4</b>');
    expect(found('answer').querySelector('b')).toBe(null);
    expect([found('tried').textContent, found('untried').hidden]).toEqual(['200, 7 ms', true]);
    const text = JSON.stringify({ error_code: 'BAD', message: 'no <i>rows</i>' });
    port.mockImplementation(async () => ({ ok: false, status: 400, text, ms: 1 }));
    await send();
    expect(found('untried').textContent).toBe('The model has not answered: no <i>rows</i>');
    await send('{');
    expect(found('untried').textContent).toMatch(/^Not sent: it is no JSON/);
    expect(found('answer').hidden).toBe(true);
    port.mockImplementation(async () => Promise.reject(new Error('Server unreachable')));
    await send('[]');
    expect(found('untried').textContent).toMatch(/^Not sent: Server unreachable/);
    expect(port.mock.calls.length).toBe(3);
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
