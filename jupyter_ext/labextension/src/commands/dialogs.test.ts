import { beforeEach, describe, expect, it, vi } from 'vitest';

const shown = vi.hoisted(() => ({ asked: [] as { title: string; body: string }[], press: '' }));
vi.mock('@jupyterlab/apputils', () => {
  const button = (accept: boolean) => (each: { label: string }) => ({ ...each, accept });
  type Options = { title: string; body: string; buttons: { label: string }[] };
  return {
    Dialog: { cancelButton: button(false), okButton: button(true), warnButton: button(true) },
    showDialog: async ({ title, body, buttons }: Options) => {
      shown.asked.push({ title, body });
      return { button: buttons.find(each => each.label === shown.press) };
    }
  };
});

import { askForEnd, details, mayCancel } from './dialogs';

beforeEach(() => void (shown.asked = []));

describe('a job is asked about', () => {
  it('before it is cancelled, once it is older than five minutes', async () => {
    shown.press = 'Keep running';
    expect(await mayCancel('net', 299)).toBe(true);
    expect(shown.asked).toEqual([]);
    expect(await mayCancel('net', 7620)).toBe(false);
    expect(shown.asked[0].title).toBe('Stop net?');
    expect(shown.asked[0].body).toContain('2 h 07 min');
    shown.press = 'Stop gently';
    expect(await mayCancel('net', 300)).toBe(true);
  });

  it('before it is killed, and may go on, stop or end', async () => {
    const ends = [];
    for (shown.press of ['Keep running', 'Stop gently', 'Kill now']) {
      ends.push(await askForEnd('net'));
    }
    expect(ends).toEqual(['keep', 'cancel', 'kill']);
  });
});

it('shows all of a message that its notification cuts, beside the notification', () => {
  expect(details('x'.repeat(140))).toEqual([]);
  const words = `${'no HDFS '.repeat(30)}. Run kinit.`;
  const [button] = details(words);
  const click = { preventDefault: vi.fn() };
  button.callback(click as unknown as MouseEvent);
  expect(click.preventDefault).toHaveBeenCalled();
  expect([button.label, shown.asked]).toEqual(['Details', [{ title: 'Details', body: words }]]);
});
