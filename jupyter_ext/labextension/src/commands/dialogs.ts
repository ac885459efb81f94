/** What is asked before a job ends. */

import { Dialog, type Notification, showDialog } from '@jupyterlab/apputils';

import { clock } from '../words';

/** Seconds after which a job has something to lose. */
export const OLD = 300;

/** Characters of a notification that JupyterLab shows. */
const SHOWN = 140;

const KEEP = 'Keep running';
const STOP = 'Stop gently';
const KILL = 'Kill now';
const GENTLY = 'Stopped gently, it may still save what it has.';

/** The button that shows all of a message, where its notification cuts the end off. */
export function details(words: string): Notification.IAction[] {
  const show = (event: MouseEvent) => {
    event.preventDefault(); // the notification, with its other buttons, stays
    void showDialog({ title: 'Details', body: words, buttons: [Dialog.okButton()] });
  };
  return words.length > SHOWN ? [{ label: 'Details', callback: show }] : [];
}

/** Ask whether a job shall be cancelled, where it is old; `age` in seconds. */
export async function mayCancel(name: string, age: number): Promise<boolean> {
  if (age < OLD) {
    return true;
  }
  const answer = await showDialog({
    title: `Stop ${name}?`,
    body: `Submitted ${clock(age)} ago. ${GENTLY}`,
    buttons: [Dialog.cancelButton({ label: KEEP }), Dialog.warnButton({ label: STOP })],
    defaultButton: 0
  });
  return answer.button.accept;
}

/** Ask how a job shall end, if at all. */
export async function askForEnd(name: string): Promise<'keep' | 'cancel' | 'kill'> {
  const answer = await showDialog({
    title: `Stop ${name}?`,
    body: `${GENTLY} Killed, it ends at once, and what is not saved is lost.`,
    buttons: [
      Dialog.cancelButton({ label: KEEP }),
      Dialog.okButton({ label: STOP }),
      Dialog.warnButton({ label: KILL })
    ],
    defaultButton: 0
  });
  return answer.button.label === STOP ? 'cancel' : answer.button.label === KILL ? 'kill' : 'keep';
}

/** Ask whether the run of a flow shall end. */
export async function mayCancelRun(name: string): Promise<boolean> {
  const answer = await showDialog({
    title: `Cancel the run of ${name}?`,
    body: 'The jobs of its nodes are stopped gently. What has succeeded stays, and Retry goes on from there.',
    buttons: [Dialog.cancelButton({ label: KEEP }), Dialog.warnButton({ label: 'Cancel the run' })],
    defaultButton: 0
  });
  return answer.button.accept;
}
