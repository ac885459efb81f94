// @vitest-environment jsdom
import type { INotebookTracker } from '@jupyterlab/notebook';
import { expect, it, vi } from 'vitest';

import { jump } from './jump';

/** A notebook of one cell, to which another request to scroll comes between so often. */
function notebook(superseded: number) {
  let asked = 0;
  const editor = {
    lineCount: 9,
    setCursorPosition: vi.fn(),
    revealPosition: vi.fn(),
    focus: vi.fn()
  };
  const cell = { model: { id: 'a' }, editor, ready: Promise.resolve(), inputHidden: true };
  const content = {
    widgets: [cell],
    activeCellIndex: -1,
    mode: 'command',
    deselectAll: vi.fn(),
    scrollToItem: () => {
      asked += 1;
      return asked > superseded ? Promise.resolve() : Promise.reject(new Error('another'));
    }
  };
  const panel = { node: document.body, content };
  const tracker = { find: (fits: (one: unknown) => boolean) => (fits(panel) ? panel : undefined) };
  return { tracker: tracker as unknown as INotebookTracker, content, editor };
}

it.each([0, 1, 9])('puts the cursor there, whoever else scrolls (%i)', async superseded => {
  const { tracker, content, editor } = notebook(superseded);
  const inside = document.body.appendChild(document.createElement('p'));
  expect(await jump(tracker, inside, { cell: 'a', line: '4' } as unknown as DOMStringMap)).toBe('');
  expect(content.mode).toBe('edit');
  expect(content.activeCellIndex).toBe(0);
  expect(editor.setCursorPosition).toHaveBeenCalledWith({ line: 3, column: 0 });
});
