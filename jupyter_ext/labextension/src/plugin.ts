/** What all parts share: the way to the server, and the page's one stream. */

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { Token } from '@lumino/coreutils';

import { Api } from './api';
import { Feed } from './feed';

export interface ISubmarine {
  api: Api;
  feed: Feed;
}

export const ISubmarine = new Token<ISubmarine>(
  '@submarine-notebook/labextension:ISubmarine',
  'The jobs of Submarine notebooks: requests, and one stream for the page.'
);

export const feedPlugin: JupyterFrontEndPlugin<ISubmarine> = {
  id: '@submarine-notebook/labextension:feed',
  description: 'Follows jobs and GPUs over one stream.',
  autoStart: true,
  provides: ISubmarine,
  activate: (app: JupyterFrontEnd): ISubmarine => {
    const api = new Api(app.serviceManager.serverSettings);
    return { api, feed: new Feed(api) };
  }
};
