/** Whether an output is being written by an execution of this very page. */

import { OutputArea } from '@jupyterlab/outputarea';
import type { Widget } from '@lumino/widgets';

const over = new WeakSet<object>();
const asked = new WeakSet<object>();

/**
 * Return whether the cell around `widget` still runs and writes here.
 *
 * It does not after a reload, after a kernel's restart or death (which dispose of the execution's
 * future), and once the cell has ended; `ended` is called at that end, if `widget` is still there.
 */
export function isWritten(widget: Widget, ended: () => void): boolean {
  let area: Widget | null = widget.parent;
  while (area && !(area instanceof OutputArea)) {
    area = area.parent;
  }
  const future = (area as OutputArea | null)?.future;
  if (!future || future.isDisposed || over.has(future)) {
    return false;
  }
  if (!asked.has(future)) {
    asked.add(future);
    void future.done
      .catch(() => undefined)
      .then(() => {
        over.add(future);
        if (!widget.isDisposed) {
          ended();
        }
      });
  }
  return true;
}
