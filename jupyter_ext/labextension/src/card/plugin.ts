/** The job card as a renderer of its MIME type. */

import type { JupyterFrontEndPlugin } from '@jupyterlab/application';
import { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import type { IRenderMime } from '@jupyterlab/rendermime-interfaces';
import { Widget } from '@lumino/widgets';

import { ISubmarine } from '../plugin';

export const JOB_TYPE = 'application/vnd.submarine.job+json';

class CardRenderer extends Widget implements IRenderMime.IRenderer {
  constructor(private readonly _submarine: ISubmarine) {
    super();
    this.addClass('submarine-Card');
  }

  async renderModel(model: IRenderMime.IMimeModel): Promise<void> {
    const { job_id: job } = model.data[JOB_TYPE] as { job_id: string };
    const card = await this._submarine.api.card(job);
    this.node.textContent = `${card.title} ${card.state}`;
  }
}

export const cardPlugin: JupyterFrontEndPlugin<void> = {
  id: '@submarine-notebook/labextension:card',
  description: 'Draws the job card, fed by the server.',
  autoStart: true,
  requires: [IRenderMimeRegistry, ISubmarine],
  activate: (_app, rendermime: IRenderMimeRegistry, submarine: ISubmarine) => {
    const createRenderer = () => new CardRenderer(submarine);
    const factory = { safe: true, mimeTypes: [JOB_TYPE], createRenderer };
    rendermime.addFactory(factory, 0);
  }
};
