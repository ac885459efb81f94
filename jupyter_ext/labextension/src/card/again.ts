/** Run the cell of a remembered result as a job. */

import type { Cell } from '@jupyterlab/cells';
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';

// A notebook may come from anywhere, and what follows a magic's name is code.
const JOB_ID = /^[0-9]{8}-[0-9]{6}-[a-z2-7]{5}$/;

/**
 * Have the kernel forget the result of `job`, then run the cell around `inside`.
 *
 * @param run - runs that very cell, whatever the reader has gone to while the kernel was busy.
 */
export async function again(
  tracker: INotebookTracker | null,
  inside: HTMLElement,
  job: string,
  run: (panel: NotebookPanel, cell: Cell) => Promise<unknown>
): Promise<void> {
  const panel = tracker?.find(each => each.node.contains(inside));
  const cell = panel?.content.widgets.find(each => each.node.contains(inside));
  const kernel = panel?.sessionContext.session?.kernel;
  if (!panel || !cell || !kernel) {
    throw new Error('its cell is in no notebook with a kernel');
  }
  if (!JOB_ID.test(job)) {
    throw new Error('this is the id of no job');
  }
  const code = `%submarine cache clear ${job}`;
  const { content } = await kernel.requestExecute({ code, silent: true, store_history: false })
    .done;
  if (content.status !== 'ok') {
    throw new Error('the kernel could not forget the result; run the cell with --refresh');
  }
  await run(panel, cell);
}
