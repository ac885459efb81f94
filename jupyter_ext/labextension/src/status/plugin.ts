/** "3/8 GPUs free" in the status bar. */

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { IStatusBar } from '@jupyterlab/statusbar';
import type { IDisposable } from '@lumino/disposable';
import { Signal } from '@lumino/signaling';
import { Widget } from '@lumino/widgets';

import { SHOW_PANEL } from '../commands/ids';
import { element, setAttribute, setText } from '../dom';
import { Looker } from '../looker';
import { ISubmarine } from '../plugin';
import { statusWords } from './words';

const PLUGIN_ID = '@submarine-notebook/labextension:status';

class StatusItem extends Widget {
  constructor(
    private readonly _submarine: ISubmarine,
    open: () => void
  ) {
    super();
    this.addClass('submarine-Status');
    this._button.addEventListener('click', open);
    this.node.append(this._button);
    this._looker = new Looker(_submarine.feed);
    this._looker.looking = true;
    _submarine.feed.overviewChanged.connect(this._update, this);
    _submarine.feed.troubled.connect(this._update, this);
    this._update();
  }

  /** Whether there is anything to show. */
  active = false;
  readonly activeChanged = new Signal<this, void>(this);

  override dispose(): void {
    this._looker.dispose();
    Signal.disconnectReceiver(this);
    super.dispose();
  }

  private _update(): void {
    const { feed } = this._submarine;
    const [overview, trouble] = [feed.overview, feed.trouble()];
    const { text, title } = statusWords(overview);
    setText(this._button, text);
    setAttribute(this._button, 'title', [trouble, title].filter(Boolean).join('\n'));
    this._button.classList.toggle('submarine-mod-old', Boolean(trouble));
    if (this.active !== Boolean(text)) {
      this.active = Boolean(text);
      this.activeChanged.emit();
    }
  }

  private readonly _looker: Looker;
  private readonly _button = element('button', 'submarine-Status-button', { type: 'button' });
}

export const statusPlugin: JupyterFrontEndPlugin<void> = {
  id: PLUGIN_ID,
  description: 'Shows in the status bar how many GPUs are free.',
  autoStart: true,
  requires: [ISubmarine],
  optional: [IStatusBar, ISettingRegistry],
  activate: async (
    app: JupyterFrontEnd,
    submarine: ISubmarine,
    bar: IStatusBar | null,
    registry: ISettingRegistry | null
  ) => {
    if (!bar) {
      return;
    }
    let shown: IDisposable | null = null;
    let item: StatusItem | null = null;
    const settings = await registry?.load(PLUGIN_ID).catch(() => null);
    const update = () => {
      const enabled = settings?.composite.enabled !== false;
      if (enabled && !item) {
        const made = new StatusItem(submarine, () => void app.commands.execute(SHOW_PANEL));
        item = made;
        shown = bar.registerStatusItem(PLUGIN_ID, {
          item,
          align: 'left',
          rank: 20,
          isActive: () => made.active,
          activeStateChanged: made.activeChanged
        });
      } else if (!enabled) {
        shown?.dispose();
        item?.dispose();
        item = shown = null;
      }
    };
    settings?.changed.connect(update);
    update();
  }
};
