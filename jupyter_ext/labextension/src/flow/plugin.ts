/** The card of a flow as a renderer of its MIME type. */

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { IRenderMimeRegistry } from '@jupyterlab/rendermime';

import { ISubmarine } from '../plugin';
import { FLOW_TYPE, FlowRenderer } from './renderer';

export const flowPlugin: JupyterFrontEndPlugin<void> = {
  id: '@submarine-notebook/labextension:flow',
  description: 'Draws the card of a flow, fed by the server.',
  autoStart: true,
  requires: [IRenderMimeRegistry, ISubmarine],
  activate: (app: JupyterFrontEnd, rendermime: IRenderMimeRegistry, { api }: ISubmarine) => {
    const createRenderer = () => new FlowRenderer(api, app.commands);
    rendermime.addFactory({ safe: true, mimeTypes: [FLOW_TYPE], createRenderer }, -20);
  }
};
