/** The renderer of a flow's MIME type: what the notebook has kept, and then what the server says. */

import type { IRenderMime } from '@jupyterlab/rendermime-interfaces';
import type { CommandRegistry } from '@lumino/commands';
import { Panel } from '@lumino/widgets';

import { isTree, type Tree } from '../../../../magics/submarine_magics/card/tree.js';
import type { Api } from '../api';
import { FlowView } from './view';

export const FLOW_TYPE = 'application/vnd.submarine.flow+json';

interface Saved {
  folder: string;
  run: string;
  tree: Tree;
}

export class FlowRenderer extends Panel implements IRenderMime.IRenderer {
  constructor(
    private readonly _api: Api,
    private readonly _commands: CommandRegistry
  ) {
    super();
    this.addClass('submarine-FlowOutput');
  }

  async renderModel(model: IRenderMime.IMimeModel): Promise<void> {
    const saved = read(model.data[FLOW_TYPE]);
    const key = `${saved.folder}\n${saved.run}`;
    if (key === this._key) {
      return; // the server tells how it goes on
    }
    this._key = key;
    this._view?.dispose();
    const shown = { tree: saved.tree, ...(saved.run ? { run: saved.run } : {}) };
    this._view = new FlowView(this._api, this._commands, saved.folder, shown);
    this.addWidget(this._view);
    void this._view.ask();
  }

  private _key = '';
  private _view: FlowView | null = null;
}

/** What a notebook has kept, whoever wrote it. */
export function read(data: unknown): Saved {
  const found = (typeof data === 'object' && data ? data : {}) as Record<string, unknown>;
  const text = (value: unknown) => (typeof value === 'string' ? value : '');
  let tree: unknown;
  try {
    tree = JSON.parse(text(found.tree));
  } catch {
    tree = null;
  }
  const none: Tree = ['div', {}, ['This card of a flow cannot be read.']];
  return { folder: text(found.folder), run: text(found.run), tree: isTree(tree) ? tree : none };
}
