/** The cell around an output: its other outputs, and whether this very page's execution writes it. */

import { OutputArea } from '@jupyterlab/outputarea';
import type { Widget } from '@lumino/widgets';

const over = new WeakSet<object>();
const asked = new WeakSet<object>();

/** The outputs that a widget is one of. */
export function areaOf(widget: Widget): OutputArea | null {
  let area: Widget | null = widget.parent;
  while (area && !(area instanceof OutputArea)) {
    area = area.parent;
  }
  return area as OutputArea | null;
}

/**
 * Return whether the cell around `widget` still runs and writes here.
 *
 * It does not after a reload, after a kernel's restart or death (which dispose of the execution's
 * future), and once the cell has ended; `ended` is called at that end, if `widget` is still there.
 */
export function isWritten(widget: Widget, ended: () => void): boolean {
  const future = areaOf(widget)?.future;
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
