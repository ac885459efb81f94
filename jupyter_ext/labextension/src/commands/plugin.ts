/** The commands: for the palette, menus, shortcuts and buttons alike. */

import {
  ILabShell,
  ILayoutRestorer,
  type JupyterFrontEnd,
  type JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { ICommandPalette, Notification } from '@jupyterlab/apputils';
import { IDefaultFileBrowser } from '@jupyterlab/filebrowser';
import { INotebookTracker } from '@jupyterlab/notebook';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import {
  addBelowIcon,
  closeIcon,
  codeIcon,
  copyIcon,
  fileIcon,
  type LabIcon,
  linkIcon,
  notebookIcon,
  stopIcon,
  terminalIcon
} from '@jupyterlab/ui-components';

import type { ReadonlyPartialJSONObject } from '@lumino/coreutils';

import { chartIcon, compareIcon, flowIcon, metricsIcon, openIcon, stacksIcon } from '../icons';
import { MOST_COMPARED } from '../charts/compare';
import { ISubmarine } from '../plugin';
import type { JobSummary } from '../types';
import { isFinal, problem } from '../words';
import { Actions, Refusal } from './actions';
import { ask, askSeveral, inFocus, jobs, known, summary } from './choose';
import { details } from './dialogs';
import * as ids from './ids';
import { jobOf } from './notebooks';
import { Tabs } from './tabs';
import { IJobCommands } from './token';

const CATEGORY = 'Submarine';
export const COMMANDS_ID = '@submarine-notebook/labextension:commands';

interface JobCommand {
  id: string;
  label: string;
  caption: string;
  icon: LabIcon;
  run: (job: JobSummary) => unknown;
  /** Whether it means anything for this job; for all where left out. */
  applies?: (job: JobSummary) => boolean;
}

export const commandsPlugin: JupyterFrontEndPlugin<IJobCommands> = {
  id: COMMANDS_ID,
  description: 'Commands that look after jobs.',
  autoStart: true,
  provides: IJobCommands,
  requires: [ISubmarine],
  optional: [
    INotebookTracker,
    ICommandPalette,
    ILabShell,
    ISettingRegistry,
    ILayoutRestorer,
    IDefaultFileBrowser
  ],
  activate: (
    app: JupyterFrontEnd,
    submarine: ISubmarine,
    tracker: INotebookTracker | null,
    palette: ICommandPalette | null,
    lab: ILabShell | null,
    registry: ISettingRegistry | null,
    restorer: ILayoutRestorer | null,
    browser: IDefaultFileBrowser | null
  ) => {
    const settings = { runAttached: true };
    void registry?.load(COMMANDS_ID).then(loaded => {
      const read = () => {
        settings.runAttached = loaded.composite.runAttached !== false;
      };
      loaded.changed.connect(read);
      read();
    });
    const actions = new Actions(app, submarine, tracker, lab, new Tabs(app, restorer));
    for (const command of jobCommands(actions, settings)) {
      register(app, submarine, tracker, command);
      palette?.addItem({ command: command.id, category: CATEGORY });
    }
    app.commands.addCommand(ids.COMPARE, {
      label: 'Compare Jobs',
      caption: 'Compare the selected jobs (Ctrl+click selects several)',
      icon: compareIcon,
      describedBy: {
        args: {
          type: 'object',
          properties: { jobs: { type: 'array', items: { type: 'string' } } }
        }
      },
      isEnabled: args => !args.jobs || isSeveral(args.jobs),
      execute: args =>
        told(async () => {
          const given = isSeveral(args.jobs) ? args.jobs.map(String) : null;
          const all = given ?? (await askSeveral(await jobs(submarine.feed, submarine.api)));
          if (all.length > 1) {
            actions.compare(all);
          }
        })
    });
    palette?.addItem({ command: ids.COMPARE, category: CATEGORY });
    app.commands.addCommand(ids.TENSORBOARD_ALL, {
      label: 'Open TensorBoard for All Jobs',
      icon: chartIcon,
      execute: () => told(() => actions.tensorboard({ all: true }))
    });
    palette?.addItem({ command: ids.TENSORBOARD_ALL, category: CATEGORY });
    app.commands.addCommand(ids.TENSORBOARD_FOLDER, {
      label: 'Open TensorBoard for a Folder',
      execute: args => actions.tensorboard({ logdir: String(args.logdir ?? '') })
    });
    addFlow(app, actions, tracker, browser);
    palette?.addItem({ command: ids.SHOW_FLOW, category: CATEGORY });
    return { groups: ids.JOB_GROUPS };
  }
};

function jobCommands(actions: Actions, settings: { runAttached: boolean }): JobCommand[] {
  const runs = (job: JobSummary) => !isFinal(job.state);
  return [
    {
      id: ids.SHOW_LOG,
      label: 'Open Job Log',
      caption: 'Open the log (Enter)',
      icon: fileIcon,
      run: job => actions.showLog(job)
    },
    {
      id: ids.METRICS,
      label: 'Show Job Metrics',
      caption: 'Show charts of what the job uses and reports, over time',
      icon: metricsIcon,
      run: job => actions.metrics(job)
    },
    {
      id: ids.GO_TO_CELL,
      label: 'Go to Job Cell',
      caption: 'Open the notebook and go to the cell that the job came from',
      icon: notebookIcon,
      run: job => actions.goToCell(job)
    },
    {
      id: ids.STACKS,
      label: 'Show Job Stacks',
      caption: 'Show where each task of the job stands now: cell and line',
      icon: stacksIcon,
      run: job => actions.stacks(job),
      applies: job => job.state === 'running' || job.state === 'cancelling'
    },
    {
      id: ids.TERMINAL,
      label: 'Open Terminal in Job',
      caption: 'Open a shell inside the job: its environment, folder and GPUs',
      icon: terminalIcon,
      run: job => actions.terminal(job),
      applies: job => job.state === 'running' || job.state === 'cancelling'
    },
    {
      id: ids.OPEN_NOTEBOOK,
      label: 'Open Notebook on Cluster',
      caption: 'Open the page of the notebook that runs as this job',
      icon: openIcon,
      run: job => actions.openNotebook(job),
      // Of a job that is known by its card alone nobody can say; the server does.
      applies: job => runs(job) && (job.serves ?? 'notebook') === 'notebook'
    },
    {
      id: ids.PORT,
      label: 'Open Port of Job…',
      caption: 'Open a page that the job serves: asks for its port',
      icon: linkIcon,
      run: job => actions.port(job),
      applies: job => job.state === 'running' || job.state === 'cancelling'
    },
    {
      id: ids.TENSORBOARD,
      label: 'Open TensorBoard for Job',
      caption: 'Open TensorBoard for this job',
      icon: chartIcon,
      run: job => actions.tensorboard({ jobs: [job.id] })
    },
    {
      id: ids.SHOW_SCRIPT,
      label: 'Show Job Script',
      caption: 'Show the script that the job runs',
      icon: codeIcon,
      run: job => actions.showScript(job)
    },
    {
      id: ids.ATTACH,
      label: 'Attach to Job',
      caption: 'Put a cell that follows the job into the current notebook, and run it',
      icon: addBelowIcon,
      run: job => actions.attach(job, settings.runAttached)
    },
    {
      id: ids.INSERT_ATTACH,
      label: 'Insert Cell That Attaches to Job',
      caption: 'Put a cell that follows the job into the current notebook',
      icon: addBelowIcon,
      run: job => actions.attach(job, false)
    },
    {
      id: ids.COPY_ID,
      label: 'Copy Job ID',
      caption: 'Copy the ID of the job',
      icon: copyIcon,
      run: job => actions.copyId(job)
    },
    {
      id: ids.CANCEL,
      label: 'Cancel Job',
      caption: 'Cancel: the job can still save what it has',
      icon: stopIcon,
      run: job => actions.cancel(job),
      applies: job => runs(job) && job.state !== 'cancelling'
    },
    {
      id: ids.KILL,
      label: 'Kill Job…',
      caption: 'End the job: gently, or at once; asks first',
      icon: closeIcon,
      run: job => actions.kill(job),
      applies: runs
    }
  ];
}

function register(
  app: JupyterFrontEnd,
  submarine: ISubmarine,
  tracker: INotebookTracker | null,
  command: JobCommand
): void {
  const { id, label, caption, icon, run, applies = () => true } = command;
  const { feed, api } = submarine;
  const find = async (wanted: string): Promise<JobSummary | null> => {
    const there = wanted ? known(feed, wanted) : undefined;
    if (there) {
      return there;
    }
    const all = await jobs(feed, api);
    if (wanted) {
      return all.find(job => job.id === wanted) ?? summary(wanted);
    }
    const possible = all.filter(applies);
    if (!possible.length) {
      const words = all.length ? 'No job is running' : 'No jobs yet';
      Notification.info(words, { autoClose: 4000 });
      return null;
    }
    const cell = tracker?.activeCell;
    return ask(label.replace('…', ''), possible, (cell && jobOf(cell.model)?.job_id) ?? '');
  };
  app.commands.addCommand(id, {
    label,
    caption,
    icon,
    describedBy: { args: { type: 'object', properties: { job: { type: 'string' } } } },
    isEnabled: args => {
      const job = typeof args.job === 'string' ? known(feed, args.job) : undefined;
      return !job || applies(job);
    },
    execute: args =>
      told(async () => {
        const job = await find(typeof args.job === 'string' ? args.job : inFocus());
        if (job && applies(job)) {
          await run(job);
        }
      })
  });
}

/** The graph of a flow: of a notebook, or of a flow's folder, as the file browser has them. */
function addFlow(
  app: JupyterFrontEnd,
  actions: Actions,
  tracker: INotebookTracker | null,
  browser: IDefaultFileBrowser | null
): void {
  const { contents } = app.serviceManager;
  const selected = () => browser?.selectedItems().next().value?.path ?? '';
  const wanted = (args: ReadonlyPartialJSONObject): string => {
    const given = typeof args.path === 'string' ? args.path : args.browser ? selected() : '';
    return contents.localPath(given || (tracker?.currentWidget?.context.path ?? ''));
  };
  app.commands.addCommand(ids.SHOW_FLOW, {
    label: 'Show Flow',
    caption:
      "Show the notebook's jobs and cells as a flow: what follows what, and how its run goes",
    icon: flowIcon,
    isVisible: args => !args.browser || /\.(ipynb|flow)$/.test(selected()),
    describedBy: {
      args: {
        type: 'object',
        properties: { path: { type: 'string' }, browser: { type: 'boolean' } }
      }
    },
    execute: args =>
      told(() => {
        const path = wanted(args);
        if (!path) {
          throw new Refusal('No notebook is open. Open one first.');
        }
        actions.flow(path);
      })
  });
  app.commands.addCommand(ids.GO_TO_FLOW_CELL, {
    label: 'Go to a Cell of a Flow',
    execute: args =>
      told(() =>
        actions.goToFlowCell(
          String(args.notebook ?? ''),
          String(args.cell ?? ''),
          Number(args.number)
        )
      )
  });
}

function isSeveral(jobs: unknown): jobs is unknown[] {
  return Array.isArray(jobs) && jobs.length > 1 && jobs.length <= MOST_COMPARED;
}

/** Do something; say in words why it did not work. */
export async function told(action: () => unknown): Promise<void> {
  try {
    await action();
  } catch (error) {
    const words = problem(error);
    Notification.error(words, { autoClose: 15_000, actions: details(words) });
  }
}
