/** From a frame of a traceback to its cell and line. */

import type { INotebookTracker, Notebook } from '@jupyterlab/notebook';

const TRIES = 3;

/** Put the cursor there, by the frame's `data-`; return why not, in words, or an empty text. */
export async function jump(
  tracker: INotebookTracker | null,
  inside: HTMLElement,
  frame: DOMStringMap
): Promise<string> {
  const notebook = tracker?.find(panel => panel.node.contains(inside))?.content;
  const at = notebook?.widgets.findIndex(cell => cell.model.id === frame.cell) ?? -1;
  if (!notebook || at < 0) {
    return `${frame.named} is not in this notebook any more`;
  }
  const cell = notebook.widgets[at];
  notebook.deselectAll();
  notebook.activeCellIndex = at;
  cell.inputHidden = false;
  await scrollTo(notebook, at, 'smart');
  await cell.ready;
  notebook.mode = 'edit';
  const line = Math.min(Number(frame.line), cell.editor?.lineCount ?? 1) - 1;
  const position = { line: Math.max(0, line), column: 0 };
  cell.editor?.setCursorPosition(position);
  cell.editor?.revealPosition(position);
  cell.editor?.focus();
  return '';
}

/** Scroll to a cell; once more where another request, as Jupyter's own after a run, came between. */
export async function scrollTo(
  notebook: Notebook,
  at: number,
  align: 'smart' | 'center',
  tries = TRIES
): Promise<void> {
  try {
    await notebook.scrollToItem(at, align);
  } catch {
    if (tries > 1) {
      await scrollTo(notebook, at, align, tries - 1);
    }
  }
}
