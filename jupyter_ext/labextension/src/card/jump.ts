/** From a frame of a traceback to its cell and line. */

import type { INotebookTracker } from '@jupyterlab/notebook';

import type { Frame } from '../types';

/** Put the cursor there; return why not, in words, or an empty text. */
export async function jump(
  tracker: INotebookTracker | null,
  inside: HTMLElement,
  frame: Frame
): Promise<string> {
  const notebook = tracker?.find(panel => panel.node.contains(inside))?.content;
  const at = notebook?.widgets.findIndex(cell => cell.model.id === frame.cell_id) ?? -1;
  if (!notebook || at < 0) {
    return `${frame.cell} is not in this notebook any more`;
  }
  const cell = notebook.widgets[at];
  notebook.deselectAll();
  notebook.activeCellIndex = at;
  cell.inputHidden = false;
  await notebook.scrollToItem(at, 'smart');
  await cell.ready;
  notebook.mode = 'edit';
  const line = Math.min(frame.line, cell.editor?.lineCount ?? 1) - 1;
  const position = { line: Math.max(0, line), column: 0 };
  cell.editor?.setCursorPosition(position);
  cell.editor?.revealPosition(position);
  cell.editor?.focus();
  return '';
}
