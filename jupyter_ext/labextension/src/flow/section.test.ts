// @vitest-environment jsdom
import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { INotebookTracker } from '@jupyterlab/notebook';
import { Signal } from '@lumino/signaling';
import { expect, it, vi } from 'vitest';

import type { Api } from '../api';
import { FlowSection } from './section';

vi.hoisted(() => vi.stubGlobal('DragEvent', Event)); // jsdom has none, and Lumino derives from it
vi.mock('@jupyterlab/apputils', () => ({})); // its dialogs need a whole page

class Context {
  pathChanged = new Signal<this, string>(this);
  constructor(public path: string) {}
  rename(path: string): void {
    this.path = path;
    this.pathChanged.emit(path);
  }
}

it('follows the current notebook, and its name', () => {
  const [first, second] = [new Context('a.ipynb'), new Context('b.ipynb')];
  const tracker = {
    currentWidget: { context: first },
    currentChanged: new Signal<object, null>({})
  };
  const contents = { localPath: (path: string) => path };
  const app = { commands: {}, serviceManager: { contents } } as unknown as JupyterFrontEnd;
  const section = new FlowSection({} as Api, app, tracker as unknown as INotebookTracker);
  const name = () => section.node.querySelector('.submarine-Quiet')!.textContent;
  expect(name()).toBe('a.ipynb');
  first.rename('train.ipynb');
  expect(name()).toBe('train.ipynb');
  tracker.currentWidget = { context: second };
  tracker.currentChanged.emit(null);
  first.rename('gone.ipynb');
  expect(name()).toBe('b.ipynb');
  section.dispose();
  second.rename('c.ipynb');
  expect(name()).toBe('b.ipynb');
});
