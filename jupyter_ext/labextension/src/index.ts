/** The plugins of the extension; each part has its own folder. */

import type { JupyterFrontEndPlugin } from '@jupyterlab/application';

import { cardPlugin } from './card/plugin';
import { commandsPlugin } from './commands/plugin';
import { endedPlugin } from './ended/plugin';
import { firstPlugin } from './first/plugin';
import { flowPlugin } from './flow/plugin';
import { startPlugin } from './start/plugin';
import { panelPlugin } from './panel/plugin';
import { feedPlugin } from './plugin';
import { statusPlugin } from './status/plugin';
import { toolbarPlugin } from './toolbar/plugin';

const plugins: JupyterFrontEndPlugin<unknown>[] = [
  feedPlugin,
  cardPlugin,
  commandsPlugin,
  endedPlugin,
  firstPlugin,
  flowPlugin,
  panelPlugin,
  startPlugin,
  statusPlugin,
  toolbarPlugin
];

export default plugins;
