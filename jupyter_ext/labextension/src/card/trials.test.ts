import { describe, expect, it, vi } from 'vitest';

import type { Tree } from '../../../../magics/submarine_magics/card/tree.js';
import type { Looking, TrialsShown } from '../types';
import { Trials } from './trials';

/** A server that answers when it is told to, and what was drawn. */
function opened() {
  const waiting: { at: Looking; answer: (shown: TrialsShown) => void; fail: () => void }[] = [];
  const drawn: (Tree[] | string | null)[] = [];
  const trials = new Trials({
    ask: at =>
      new Promise((answer, reject) =>
        waiting.push({ at, answer, fail: () => reject(new Error('no')) })
      ),
    show: (inside, problem) => void drawn.push(problem || inside)
  });
  const answer = async (inside: Tree[]) => {
    waiting.shift()!.answer({ total: 1, inside });
    await vi.waitFor(() => Promise.resolve());
  };
  return { trials, waiting, drawn, answer };
}

describe('Trials', () => {
  it('keeps what the reader looks at over updates of the card', async () => {
    const { trials, waiting, drawn, answer } = opened();
    expect(trials.act('sort', { column: '2', down: '0' })).toBe(true);
    await answer(['first']);
    void trials.refresh();
    await vi.waitFor(() => expect(waiting).toHaveLength(1));
    expect(waiting[0].at).toMatchObject({ every: true, column: 2, down: false, start: 0 });
    await answer(['second']);
    expect(drawn).toEqual([['first'], ['second']]);
  });

  it('asks one question at a time, and draws no answer that the reader has left', async () => {
    const { trials, waiting, drawn, answer } = opened();
    trials.act('every', {});
    trials.act('page', { start: '50' });
    trials.act('page', { start: '100' });
    expect(waiting).toHaveLength(1);
    await answer(['old']);
    await vi.waitFor(() => expect(waiting).toHaveLength(1));
    expect(waiting[0].at.start).toBe(100);
    await answer(['new']);
    expect(drawn).toEqual([['new']]);
  });

  it('pins two: of three the first goes, and none is the card as it was', async () => {
    const { trials, drawn } = opened();
    for (const trial of ['3', '5', '8']) {
      trials.act('pin', { trial });
    }
    expect(trials.looking.pins).toEqual([5, 8]);
    trials.act('unpin', {});
    expect(drawn).toEqual([null]);
  });

  it('opens a trial, the first one too, and closes it', () => {
    const { trials } = opened();
    trials.act('trial', { trial: '0' });
    expect(trials.looking.open).toBe(1);
    trials.act('trial', { trial: '0' });
    expect(trials.looking.open).toBe(0);
  });

  it('says why there is no answer, and leaves what is no button of its own', async () => {
    const { trials, waiting, drawn } = opened();
    expect(trials.act('cancel', {})).toBe(false);
    trials.act('every', {});
    waiting.shift()!.fail();
    await vi.waitFor(() => expect(drawn).toEqual(['no']));
  });
});
