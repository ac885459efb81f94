// @vitest-environment jsdom
import type { Cell } from '@jupyterlab/cells';
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import { describe, expect, it, vi } from 'vitest';

import { again } from './again';

const JOB = '20260101-000000-abcde';

/** A notebook of two cells, with a card in the second one. */
function opened(status = 'ok') {
  const cells = ['first', 'second'].map(() => ({ node: document.createElement('div') }));
  const card = cells[1].node.appendChild(document.createElement('div'));
  const node = document.createElement('div');
  node.append(...cells.map(cell => cell.node));
  const requestExecute = vi.fn(() => ({ done: Promise.resolve({ content: { status } }) }));
  const content = { widgets: cells, activeCellIndex: 0, deselectAll: vi.fn() };
  const panel = { node, content, sessionContext: { session: { kernel: { requestExecute } } } };
  const tracker = {
    find: (fits: (each: typeof panel) => boolean) => (fits(panel) ? panel : undefined)
  } as unknown as INotebookTracker;
  return { card, content, requestExecute, tracker };
}

describe('again', () => {
  it('has the result forgotten, then runs the very cell', async () => {
    const { card, content, requestExecute, tracker } = opened();
    const [panel, cell] = [tracker.find(() => true), content.widgets[1]];
    const ran: (NotebookPanel | Cell)[] = [];
    const asked = again(tracker, card, JOB, async (...given) => void ran.push(...given));
    content.widgets.shift(); // the reader goes on while the kernel is busy
    await asked;
    const code = `%submarine cache clear ${JOB}`;
    expect(requestExecute).toHaveBeenCalledWith({ code, silent: true, store_history: false });
    expect(ran).toEqual([panel, cell]);
    expect(content.activeCellIndex).toBe(0);
  });

  it('runs no code that a notebook calls the id of a job', async () => {
    const { card, requestExecute, tracker } = opened();
    const run = vi.fn();
    for (const job of ['', 'x\nimport os', `${JOB}\n1`, `${JOB}; 1`]) {
      await expect(again(tracker, card, job, run)).rejects.toThrow('no job');
    }
    expect(requestExecute).not.toHaveBeenCalled();
    expect(run).not.toHaveBeenCalled();
  });

  it('runs nothing where the result was not forgotten, or there is no kernel', async () => {
    const { card, tracker } = opened('error');
    const run = vi.fn();
    await expect(again(tracker, card, JOB, run)).rejects.toThrow('--refresh');
    await expect(again(null, card, JOB, run)).rejects.toThrow('no notebook');
    const elsewhere = document.createElement('div');
    await expect(again(tracker, elsewhere, JOB, run)).rejects.toThrow('no notebook');
    expect(run).not.toHaveBeenCalled();
  });
});
