/** The plugins of the extension; each part has its own folder. */

import type { JupyterFrontEndPlugin } from '@jupyterlab/application';

import { cardPlugin } from './card/plugin';
import { feedPlugin } from './plugin';

const plugins: JupyterFrontEndPlugin<unknown>[] = [feedPlugin, cardPlugin];

export default plugins;
