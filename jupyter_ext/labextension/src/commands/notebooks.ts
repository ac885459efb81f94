/** Notebooks as commands need them: their kernels, their cells, the jobs in their outputs. */

import type { Cell, ICellModel, ICodeCellModel } from '@jupyterlab/cells';
import { PageConfig } from '@jupyterlab/coreutils';
import { type INotebookTracker, NotebookActions, type NotebookPanel } from '@jupyterlab/notebook';
import type { Kernel } from '@jupyterlab/services';

import { JOB_TYPE } from '../card/bundle';
import { scrollTo } from '../card/jump';

export const LOAD = '%load_ext submarine_magics';
const PATIENCE = 1000; // ms that a kernel has to say what it has loaded

/** A job as a cell's output has it. */
export interface JobOutput {
  job_id: string;
  state: string;
  name: string;
}

/** The last job among a cell's outputs. */
export function jobOf(model: ICellModel): JobOutput | null {
  if (model.type !== 'code') {
    return null;
  }
  const { outputs } = model as ICodeCellModel;
  for (let number = outputs.length - 1; number >= 0; number--) {
    const output = outputs.get(number);
    if (output.type === 'display_data' || output.type === 'execute_result') {
      const found = output.data[JOB_TYPE] as Partial<JobOutput> | undefined;
      if (found && typeof found.job_id === 'string') {
        const { job_id, state, name } = found;
        return { job_id, state: String(state ?? ''), name: String(name ?? '') };
      }
    }
  }
  return null;
}

/**
 * Whether tagged cells and `%submarine` work in this kernel: `loaded`, or why not: the magics are
 * not loaded (`python`), it speaks another language (`other`), there is no kernel (`none`).
 */
export async function magicsIn(
  kernel: Kernel.IKernelConnection | null | undefined
): Promise<'loaded' | 'python' | 'other' | 'none'> {
  if (!kernel) {
    return 'none';
  }
  if (kernel.name === 'submarine') {
    return 'loaded';
  }
  const { language_info: language } = await kernel.info;
  if (language.name.toLowerCase() !== 'python') {
    return 'other';
  }
  const ask = "'submarine_magics' in get_ipython().extension_manager.loaded";
  const future = kernel.requestExecute({
    code: '',
    silent: true,
    store_history: false,
    user_expressions: { loaded: ask }
  });
  const reply = (await future.done).content as unknown as {
    user_expressions?: { loaded?: { data?: Record<string, string> } };
  };
  return reply.user_expressions?.loaded?.data?.['text/plain'] === 'True' ? 'loaded' : 'python';
}

/**
 * Put a cell that follows `job` below the one that is active now; it becomes the active one.
 *
 * It loads the magics first, unless the kernel says at once that it needs not: a question to a busy
 * kernel waits for the end of its cell, and loading them twice does no harm.
 */
export async function insertAttach(panel: NotebookPanel, job: string): Promise<void> {
  const { content, sessionContext } = panel;
  const active = content.activeCell;
  const kernel = sessionContext.session?.kernel;
  const late = new Promise<'python'>(done => setTimeout(() => done('python'), PATIENCE));
  const busy = kernel?.status === 'busy';
  const state = busy ? 'python' : await Promise.race([magicsIn(kernel), late]);
  const lines = [`%submarine job attach ${job}`];
  if (state === 'python') {
    lines.unshift(LOAD);
  }
  const at = content.widgets.findIndex(cell => cell === active);
  if (at >= 0) {
    content.activeCellIndex = at; // the reader may have gone elsewhere meanwhile
  }
  NotebookActions.insertBelow(content);
  content.activeCell!.model.sharedModel.setSource(lines.join('\n'));
}

/** Run this very cell, whichever is the active one by now. */
export async function runCell(
  { content, sessionContext }: NotebookPanel,
  cell: Cell
): Promise<void> {
  if (content.isDisposed || !content.widgets.includes(cell)) {
    throw new Error('The cell is no longer in its notebook.');
  }
  await NotebookActions.runCells(content, [cell], sessionContext);
}

/** Below the server's root, where that may hold a notebook's absolute path; best guess first. */
export function contentsPaths(file: string, root = PageConfig.getOption('serverRoot')): string[] {
  const tail = root.replace(/^~/, '').replace(/\/+$/, '');
  if (!root.startsWith('~') && file.startsWith(`${tail}/`)) {
    return [file.slice(tail.length + 1)];
  }
  const found: string[] = [];
  for (let at = file.indexOf(`${tail}/`); at >= 0; at = file.indexOf(`${tail}/`, at + 1)) {
    found.push(file.slice(at + tail.length + 1));
  }
  return found.filter(Boolean);
}

/** The cell whose output shows a job, or which has this id, among open notebooks. */
export function findCell(
  tracker: INotebookTracker,
  job: string,
  cell: string
): { panel: NotebookPanel; index: number } | null {
  const panels: NotebookPanel[] = [];
  tracker.forEach(panel => void panels.push(panel));
  panels.sort(panel => (panel === tracker.currentWidget ? -1 : 0));
  for (const test of [
    (model: ICellModel) => jobOf(model)?.job_id === job,
    (model: ICellModel) => Boolean(cell) && model.id === cell
  ]) {
    for (const panel of panels) {
      const index = [...(panel.content.model?.cells ?? [])].findIndex(test);
      if (index >= 0) {
        return { panel, index };
      }
    }
  }
  return null;
}

/** Where the cell of a flow is: the one with its id, else the code cell of that number from 1. */
export function flowCell(cells: ICellModel[], id: string, number: number): number {
  const found = cells.findIndex(cell => Boolean(id) && cell.id === id);
  const code = cells.filter(
    cell => cell.type === 'code' && cell.sharedModel.getSource().trim() !== ''
  );
  return found >= 0 ? found : cells.indexOf(code[number - 1]);
}

/** Make a cell the active one, and bring it into view. */
export async function showCell(panel: NotebookPanel, index: number): Promise<void> {
  panel.content.activeCellIndex = index;
  panel.content.deselectAll();
  await scrollTo(panel.content, index, 'center');
  panel.content.activate();
}
