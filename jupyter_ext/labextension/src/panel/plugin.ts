/** The panel in the side bar. */

import {
  ILayoutRestorer,
  type JupyterFrontEnd,
  type JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { ICommandPalette } from '@jupyterlab/apputils';
import { INotebookTracker } from '@jupyterlab/notebook';
import { ISettingRegistry } from '@jupyterlab/settingregistry';

import { SHOW_PANEL } from '../commands/ids';
import { IJobCommands } from '../commands/token';
import { FlowSection } from '../flow/section';
import { jobsIcon } from '../icons';
import { ISubmarine } from '../plugin';
import { JobsPanel, PANEL_ID } from './panel';

const PLUGIN_ID = '@submarine-notebook/labextension:panel';

export const panelPlugin: JupyterFrontEndPlugin<void> = {
  id: PLUGIN_ID,
  description: 'Shows GPUs and jobs in the side bar.',
  autoStart: true,
  requires: [ISubmarine, IJobCommands],
  optional: [ISettingRegistry, ICommandPalette, ILayoutRestorer, INotebookTracker],
  activate: async (
    app: JupyterFrontEnd,
    submarine: ISubmarine,
    { groups }: IJobCommands,
    registry: ISettingRegistry | null,
    palette: ICommandPalette | null,
    restorer: ILayoutRestorer | null,
    tracker: INotebookTracker | null
  ) => {
    let panel: JobsPanel | null = null;
    const add = () => {
      const flow = tracker && new FlowSection(submarine.api, app, tracker);
      panel = new JobsPanel(submarine, app.commands, groups, flow?.node);
      panel.disposed.connect(() => flow?.dispose());
      panel.title.icon = jobsIcon;
      app.shell.add(panel, 'left', { rank: 600, type: 'Submarine' });
      restorer?.add(panel, PANEL_ID);
    };
    app.commands.addCommand(SHOW_PANEL, {
      label: 'Jobs and GPUs',
      caption: 'Show the jobs and GPUs of all clusters in the side bar',
      icon: jobsIcon,
      execute: () => {
        if (!panel) {
          add();
        }
        app.shell.activateById(PANEL_ID);
      }
    });
    palette?.addItem({ command: SHOW_PANEL, category: 'Submarine' });
    const settings = await registry?.load(PLUGIN_ID).catch(() => null);
    const update = () => {
      const enabled = settings?.composite.enabled !== false;
      if (enabled && !panel) {
        add();
      } else if (!enabled) {
        panel?.dispose();
        panel = null;
      }
    };
    settings?.changed.connect(update);
    update();
  }
};
