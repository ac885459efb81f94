/** The job card as a renderer of its MIME type, and logs in tabs of their own. */

import {
  ILabShell,
  ILayoutRestorer,
  type JupyterFrontEnd,
  type JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { INotebookTracker } from '@jupyterlab/notebook';
import { IRenderMimeRegistry } from '@jupyterlab/rendermime';

import { TENSORBOARD_FOLDER } from '../commands/ids';
import { runCell } from '../commands/notebooks';
import { logTabs } from '../log/tab';
import { ISubmarine } from '../plugin';
import { JOB_TYPE } from './bundle';
import { CardRenderer } from './renderer';

// The widget's own renderer has -10: where the server knows a job, its card is ours to draw.
const RANK = -20;

export const cardPlugin: JupyterFrontEndPlugin<void> = {
  id: '@submarine-notebook/labextension:card',
  description: 'Draws the job card and its log, fed by the server.',
  autoStart: true,
  requires: [IRenderMimeRegistry, ISubmarine],
  optional: [INotebookTracker, ILabShell, ILayoutRestorer],
  activate: (
    app: JupyterFrontEnd,
    rendermime: IRenderMimeRegistry,
    submarine: ISubmarine,
    tracker: INotebookTracker | null,
    lab: ILabShell | null,
    restorer: ILayoutRestorer | null
  ) => {
    // Notebook 7 has room for one document alone: there, pages open as tabs of the browser.
    const openLog = logTabs(app, submarine, rendermime, lab !== null, restorer);
    const execute = (command: string, job: string) => app.commands.execute(command, { job });
    const board = (logdir: string) => app.commands.execute(TENSORBOARD_FOLDER, { logdir });
    const place = { submarine, tracker, openLog, execute, runCell, board };
    const createRenderer = () => new CardRenderer(place, rendermime);
    rendermime.addFactory({ safe: true, mimeTypes: [JOB_TYPE], createRenderer }, RANK);
  }
};
