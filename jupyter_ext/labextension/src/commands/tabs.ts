/** Tabs that commands open in the main area; they are there again after a reload of the page. */

import type { ILayoutRestorer, JupyterFrontEnd } from '@jupyterlab/application';
import { MainAreaWidget, WidgetTracker } from '@jupyterlab/apputils';
import type { ReadonlyPartialJSONObject } from '@lumino/coreutils';
import type { Widget } from '@lumino/widgets';

import { COMPARE, METRICS, SHOW_FLOW, SHOW_SCRIPT, STACKS } from './ids';

/** What opens a tab again. */
export interface Again {
  command: string;
  args: ReadonlyPartialJSONObject;
}

class Tab extends MainAreaWidget {
  constructor(
    content: Widget,
    id: string,
    readonly args: ReadonlyPartialJSONObject
  ) {
    super({ content });
    this.id = id;
    this.title.closable = true;
  }
}

export class Tabs {
  /** Without a restorer, as in a notebook's own page, nothing is opened again. */
  constructor(
    private readonly _app: Pick<JupyterFrontEnd, 'commands' | 'shell'>,
    restorer: ILayoutRestorer | null
  ) {
    for (const command of restorer ? [METRICS, COMPARE, STACKS, SHOW_SCRIPT, SHOW_FLOW] : []) {
      const tracker = new WidgetTracker<Tab>({ namespace: command.replace(':', '-') });
      this._trackers.set(command, tracker);
      void restorer!.restore(tracker, { command, args: tab => tab.args, name: tab => tab.id });
    }
  }

  /** Show a widget in a tab; the one with this id, where it is there already. */
  show(content: Widget, id: string, again?: Again): Widget {
    let there = [...this._app.shell.widgets('main')].find(widget => widget.id === id);
    if (there) {
      content.dispose();
    } else {
      const tab = new Tab(content, id, again?.args ?? {});
      if (again) {
        tab.title.icon = this._app.commands.icon(again.command);
      }
      void (again && this._trackers.get(again.command)?.add(tab));
      this._app.shell.add(tab, 'main');
      there = tab;
    }
    this._app.shell.activateById(id);
    return there;
  }

  private readonly _trackers = new Map<string, WidgetTracker<Tab>>();
}
