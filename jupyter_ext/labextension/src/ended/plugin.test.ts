// @vitest-environment jsdom
import type { JupyterFrontEnd } from '@jupyterlab/application';
import { Signal } from '@lumino/signaling';
import { expect, it, vi } from 'vitest';

import type { ISubmarine } from '../plugin';
import type { Card } from '../types';
import { endedPlugin } from './plugin';

// What needs a whole page.
type Options = { actions: { label: string }[] };
const shown = vi.hoisted(() => [] as [string, string[]][]);
vi.mock('@jupyterlab/apputils', () => {
  const keep = (text: string, { actions }: Options) =>
    void shown.push([text, actions.map(each => each.label)]);
  return {
    ICommandPalette: {},
    Notification: {
      emit: (text: string, _: string, options: Options) => keep(text, options),
      warning: keep
    }
  };
});
vi.mock('@jupyterlab/settingregistry', () => ({ ISettingRegistry: {} }));
vi.mock('../commands/plugin', () => ({ told: vi.fn() }));
vi.mock('../icons', () => ({ jobsIcon: {} }));
vi.mock('../plugin', () => ({ ISubmarine: {} }));
vi.mock('./claims', () => ({ claim: async () => true }));
vi.mock('./seen', () => ({ isSeen: () => false }));

it('tells all of why a job ended, or is about to, also where that is long', async () => {
  const feed = {
    cardChanged: new Signal<object, Card>({}),
    overviewChanged: new Signal({}),
    gone: new Signal({}),
    watch: () => ({ dispose: () => undefined })
  };
  const app = { commands: { addCommand: vi.fn() } } as unknown as JupyterFrontEnd;
  const submarine = { api: {}, feed: { ...feed, overview: null } } as unknown as ISubmarine;
  await endedPlugin.activate(app, submarine, null, null);
  const say = (more: object) => feed.cardChanged.emit({ title: 'net', ...more } as Card);
  const long = 'It ran out of memory. '.repeat(8);
  for (const [job_id, sentence] of [
    ['a', 'exit code 1'],
    ['b', long]
  ]) {
    say({ job_id, state: 'running', running: true });
    say({ job_id, state: 'failed', sentence });
  }
  say({ job_id: 'c', state: 'running', running: true, notice: long });
  await vi.waitFor(() => expect(shown).toHaveLength(3));
  const buttons = Object.fromEntries(shown.map(([text, labels]) => [text.slice(0, 20), labels]));
  expect(buttons).toEqual({
    'net failed. Exit cod': ['Open log', 'Go to cell'],
    'net failed. It ran o': ['Open log', 'Go to cell', 'Details'],
    'net: It ran out of m': ['Keep', 'Details']
  });
});
