import type { NotebookPanel } from '@jupyterlab/notebook';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { insertAttach, LOAD, runCell } from './notebooks';

const runCells = vi.hoisted(() => vi.fn(async () => true));

// The real one needs a whole page: here a cell is an object with a source.
vi.mock('@jupyterlab/notebook', () => ({
  NotebookActions: {
    runCells,
    insertBelow: (content: Content) => {
      content.widgets.splice(content.activeCellIndex + 1, 0, cell(''));
      content.activeCellIndex += 1;
    }
  }
}));

const ATTACH = '%submarine job attach j';

function cell(source: string) {
  const made = { source, model: { sharedModel: { setSource: (text: string) => set(text) } } };
  const set = (text: string) => void (made.source = text);
  return made;
}

class Content {
  widgets = [cell('first'), cell('last')];
  activeCellIndex = 0;

  get activeCell() {
    return this.widgets[this.activeCellIndex];
  }
}

/** A notebook whose kernel has this status, and answers with `reply`. */
function notebook(status: string, reply: Promise<unknown>) {
  const info = Promise.resolve({ language_info: { name: 'python' } });
  const requestExecute = vi.fn(() => ({ done: reply }));
  const kernel = { name: 'python3', status, info, requestExecute };
  const content = new Content();
  const panel = { content, sessionContext: { session: { kernel } } } as unknown as NotebookPanel;
  const sources = () => content.widgets.map(each => each.source);
  return { panel, content, sources, requestExecute };
}

const says = (loaded: string) =>
  Promise.resolve({
    content: { user_expressions: { loaded: { data: { 'text/plain': loaded } } } }
  });
const never = new Promise(() => undefined);

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

describe('runCell', () => {
  it('runs the cell that it is given, if that is still there', async () => {
    const { panel, content } = notebook('idle', never);
    const last = panel.content.widgets[1];
    await runCell(panel, last);
    expect(runCells.mock.calls).toEqual([[content, [last], panel.sessionContext]]);
    content.widgets.pop();
    await expect(runCell(panel, last)).rejects.toThrow('no longer in its notebook');
    expect(runCells).toHaveBeenCalledOnce();
  });
});

describe('insertAttach', () => {
  it('does not ask a kernel that is busy', async () => {
    const { panel, sources, requestExecute } = notebook('busy', never);
    await insertAttach(panel, 'j');
    expect(sources()).toEqual(['first', `${LOAD}\n${ATTACH}`, 'last']);
    expect(requestExecute).not.toHaveBeenCalled();
  });

  it('waits for no answer for long, and forgets neither notebook nor cell', async () => {
    const { panel, content, sources } = notebook('idle', never);
    const inserted = insertAttach(panel, 'j');
    await vi.advanceTimersByTimeAsync(10);
    content.widgets.unshift(cell('new'));
    content.activeCellIndex = 2;
    await vi.advanceTimersByTimeAsync(2000);
    await inserted;
    expect(sources()).toEqual(['new', 'first', `${LOAD}\n${ATTACH}`, 'last']);
    expect(content.activeCellIndex).toBe(2);
  });

  it('loads the magics where they are not loaded', async () => {
    for (const [loaded, source] of [
      ['True', ATTACH],
      ['False', `${LOAD}\n${ATTACH}`]
    ]) {
      const { panel, sources } = notebook('idle', says(loaded));
      await insertAttach(panel, 'j');
      expect(sources()).toEqual(['first', source, 'last']);
    }
  });
});
