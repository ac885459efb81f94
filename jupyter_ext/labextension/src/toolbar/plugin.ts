/** *Run cell as job* in a cell's toolbar, and the state of its job beside it. */

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette, Notification } from '@jupyterlab/apputils';
import type { Cell, ICellModel } from '@jupyterlab/cells';
import { INotebookTracker, NotebookActions, type NotebookPanel } from '@jupyterlab/notebook';
import { ISettingRegistry } from '@jupyterlab/settingregistry';

import { Refusal } from '../commands/actions';
import { RUN_AS_JOB, TOGGLE_RUN } from '../commands/ids';
import { jobOf, LOAD, magicsIn, runCell } from '../commands/notebooks';
import { told } from '../commands/plugin';
import { clusterIcon, runIcon } from '../icons';
import { ISubmarine } from '../plugin';
import { Badges } from './badges';
import { isOurs, isTagged, tagsOf, toggled } from './tag';

const PLUGIN_ID = '@submarine-notebook/labextension:toolbar';
const CAPTION =
  'A cell with the tag “submarine” runs as a job. ' +
  'Options follow a colon in a tag: submarine:--gpus=2';

export const toolbarPlugin: JupyterFrontEndPlugin<void> = {
  id: PLUGIN_ID,
  description: 'Makes cells run as jobs, and shows how they stand.',
  autoStart: true,
  requires: [ISubmarine, INotebookTracker],
  optional: [ICommandPalette, ISettingRegistry],
  activate: async (
    app: JupyterFrontEnd,
    submarine: ISubmarine,
    tracker: INotebookTracker,
    palette: ICommandPalette | null,
    registry: ISettingRegistry | null
  ) => {
    addToggle(app, tracker);
    addRun(app, tracker);
    for (const command of [RUN_AS_JOB, TOGGLE_RUN]) {
      palette?.addItem({ command, category: 'Submarine' });
    }
    warnWhereTagsDoNothing(tracker);
    const settings = await registry?.load(PLUGIN_ID).catch(() => null);
    const shown = new Map<NotebookPanel, Badges>();
    const update = () => {
      const enabled = settings?.composite.cellState !== false;
      tracker.forEach(panel => {
        if (enabled && !shown.has(panel)) {
          shown.set(panel, new Badges(panel, submarine));
          panel.disposed.connect(() => shown.delete(panel));
        } else if (!enabled) {
          shown.get(panel)?.dispose();
          shown.delete(panel);
        }
      });
    };
    tracker.widgetAdded.connect(update);
    settings?.changed.connect(update);
    update();
  }
};

function addToggle(app: JupyterFrontEnd, tracker: INotebookTracker): void {
  const taken = new WeakMap<ICellModel, string[]>();
  const cell = (): Cell | null => {
    const active = tracker.activeCell;
    return active?.model.type === 'code' ? active : null;
  };
  app.commands.addCommand(TOGGLE_RUN, {
    label: 'Cell Is a Job',
    caption: CAPTION,
    icon: clusterIcon,
    isEnabled: () => cell() !== null,
    isVisible: () => tracker.activeCell?.model.type !== 'markdown',
    isToggled: () => isTagged(cell()?.model.getMetadata('tags')),
    isToggleable: true,
    describedBy: { args: { type: 'object', properties: {} } },
    execute: () =>
      told(async () => {
        const model = cell()?.model;
        const panel = tracker.currentWidget;
        if (!model || !panel) {
          return;
        }
        const before = tagsOf(model.getMetadata('tags'));
        const after = toggled(before, taken.get(model));
        taken.set(model, before.filter(isOurs));
        if (after.length) {
          model.setMetadata('tags', after);
        } else {
          model.deleteMetadata('tags');
        }
        app.commands.notifyCommandChanged(TOGGLE_RUN);
        if (isTagged(after)) {
          await explain(panel, 'Cells with the tag “submarine” run as jobs only');
        }
      })
  });
  const changed = () => app.commands.notifyCommandChanged(TOGGLE_RUN);
  tracker.activeCellChanged.connect((_, active) => {
    changed();
    active?.model.metadataChanged.connect(changed);
  });
}

/** *Run cell as job*: it runs now, and from now on, as a job. */
function addRun(app: JupyterFrontEnd, tracker: INotebookTracker): void {
  app.commands.addCommand(RUN_AS_JOB, {
    label: 'Run Cell as Job',
    caption: 'Run this cell as a job: now, and whenever it runs (tag “submarine”)',
    icon: runIcon,
    isEnabled: () => tracker.activeCell?.model.type === 'code',
    isVisible: () => tracker.activeCell?.model.type !== 'markdown',
    describedBy: { args: { type: 'object', properties: {} } },
    execute: () =>
      told(async () => {
        const [panel, active] = [tracker.currentWidget, tracker.activeCell];
        if (!panel || active?.model.type !== 'code') {
          return;
        }
        const { model } = active;
        const tags = model.getMetadata('tags');
        const magic = model.sharedModel.getSource().trimStart().startsWith('%%submarine');
        if (!magic && !isTagged(tags)) {
          model.setMetadata('tags', toggled(tags));
        }
        await load(panel);
        await runCell(panel, active);
      })
  });
  tracker.activeCellChanged.connect(() => app.commands.notifyCommandChanged(RUN_AS_JOB));
}

/** Load the magics where the kernel has not: a busy one does so before the cell, in any case. */
async function load({ sessionContext }: NotebookPanel): Promise<void> {
  await sessionContext.ready;
  const kernel = sessionContext.session?.kernel;
  if (!kernel) {
    throw new Refusal('This notebook has no kernel. Choose one first.');
  }
  const state = kernel.status === 'busy' ? 'python' : await magicsIn(kernel);
  if (state === 'other') {
    throw new Refusal('Jobs need a Python kernel. Choose “Submarine (Python)”.');
  }
  if (state === 'python') {
    void kernel.requestExecute({ code: LOAD, store_history: false }).done.then(reply => {
      if (reply.content.status === 'error') {
        Notification.error(`${LOAD}: ${reply.content.evalue}`, { autoClose: 15_000 });
      }
    });
  }
}

/** Say once a kernel that a tagged cell has run where it is. */
function warnWhereTagsDoNothing(tracker: INotebookTracker): void {
  const told = new Set<string>();
  NotebookActions.executed.connect((_, { notebook, cell }) => {
    const { model } = cell;
    const panel = tracker.find(each => each.content === notebook);
    const kernel = panel?.sessionContext.session?.kernel?.id;
    const own = model.sharedModel.getSource().startsWith('%%');
    if (!panel || !kernel || told.has(kernel) || own || jobOf(model)) {
      return;
    }
    if (isTagged(model.getMetadata('tags'))) {
      void explain(
        panel,
        'That cell ran in the notebook, not as a job. The tag “submarine” works only'
      ).then(said => said && told.add(kernel));
    }
  });
}

/** Say what is missing where the notebook's kernel does not know the tag. */
async function explain(panel: NotebookPanel, begin: string): Promise<boolean> {
  const kernel = panel.sessionContext.session?.kernel;
  const state = await magicsIn(kernel);
  if (state === 'loaded' || state === 'none' || !kernel) {
    return false;
  }
  if (state === 'other') {
    Notification.warning(`${begin} in a Python kernel: choose “Submarine (Python)”.`, {
      autoClose: 15_000
    });
    return true;
  }
  const load = {
    label: 'Load the magics',
    caption: LOAD,
    callback: () =>
      void kernel.requestExecute({ code: LOAD, store_history: false }).done.then(reply => {
        if (reply.content.status === 'error') {
          Notification.error(`${LOAD}: ${reply.content.evalue}`, { autoClose: 15_000 });
        }
      })
  };
  Notification.warning(`${begin} where the magics are loaded: ${LOAD}`, {
    actions: [load],
    autoClose: 30_000
  });
  return true;
}
