/** A page of the server in a tab of JupyterLab. */

import { MainAreaWidget } from '@jupyterlab/apputils';
import { Widget } from '@lumino/widgets';

let number = 0;

export function pageTab(address: string, title: string): MainAreaWidget {
  const content = new Widget();
  const frame = document.createElement('iframe');
  frame.src = address;
  frame.title = title;
  content.node.append(frame);
  content.addClass('submarine-Page');
  const tab = new MainAreaWidget({ content });
  tab.id = `submarine-page-${++number}`;
  tab.title.label = title;
  tab.title.closable = true;
  return tab;
}
