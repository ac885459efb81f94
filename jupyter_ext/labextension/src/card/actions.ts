/** What the reader can do with a job; all of it goes to the server, however busy the kernel is. */

import type { Cell } from '@jupyterlab/cells';
import type { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';

import { mayCancel } from '../commands/dialogs';
import { KILL, OPEN_NOTEBOOK, TENSORBOARD, TERMINAL } from '../commands/ids';
import type { ISubmarine } from '../plugin';
import type { Card } from '../types';
import { problem } from '../words';
import { again } from './again';
import { jump } from './jump';
import type { Ui } from './ui';

const LONGEST = 20_000; // characters of an answer that a card shows

/**
 * What an answer says of a failure, whoever gave it (the model's server, the front, Jupyter's), and
 * the rest of it, the traceback as such where there is one.
 */
function failure(text: string): [string, string] {
  try {
    const { message, error, detail, what, stack_trace: trace } = JSON.parse(text);
    const found = message ?? error ?? detail ?? what ?? '';
    const words = typeof found === 'string' ? found : JSON.stringify(found);
    const last = typeof trace === 'string' ? trace.trim().split('\n').pop() : '';
    return [[words, last].filter(Boolean).join(' ').slice(0, 600), last ? trace : text];
  } catch {
    return ['', text];
  }
}

/** What the card's surroundings can do. */
export interface Place {
  submarine: ISubmarine;
  tracker: INotebookTracker | null;
  /** Do what can be done to a job from anywhere, by the command's name. */
  execute: (command: string, job: string) => Promise<unknown>;
  /** Run one cell of a notebook; refuses where it is no longer there. */
  runCell: (panel: NotebookPanel, cell: Cell) => Promise<unknown>;
  /** Show what a folder has for TensorBoard. */
  board: (logdir: string) => Promise<unknown>;
  /** Show a log in a place of its own. */
  openLog: (job: string, title: string) => void;
}

export type Change = (change: Partial<Ui>) => void;

export class Actions {
  constructor(
    private readonly _place: Place,
    private readonly _change: Change
  ) {}

  async cancel(card: Card): Promise<void> {
    // The card tells how old the job was when it was drawn, which may be hours ago.
    const age = card.elapsed + this._place.submarine.feed.now - card.now;
    if (!(await mayCancel(card.title, age))) {
      return;
    }
    this._change({ cancelling: true, problem: '' });
    await this._try('Not cancelled', { cancelling: false }, () => this._api.cancel(card.job_id));
  }

  async kill(card: Card): Promise<void> {
    this._change({ problem: '' });
    await this._try('Not killed', {}, () => this._place.execute(KILL, card.job_id));
  }

  async tensorboard(card: Card): Promise<void> {
    this._change({ problem: '' });
    await this._try('No TensorBoard', {}, () => this._place.execute(TENSORBOARD, card.job_id));
  }

  async notebook(card: Card): Promise<void> {
    this._change({ problem: '' });
    await this._try('Not opened', {}, () => this._place.execute(OPEN_NOTEBOOK, card.job_id));
  }

  async terminal(card: Card): Promise<void> {
    this._change({ problem: '' });
    await this._try('No terminal', {}, () => this._place.execute(TERMINAL, card.job_id));
  }

  async board(logdir: string): Promise<void> {
    this._change({ problem: '' });
    await this._try('No TensorBoard', {}, () => this._place.board(logdir));
  }

  async save(card: Card, path: string): Promise<void> {
    this._change({ save: { busy: true, error: '', done: '' } });
    try {
      const saved = await this._api.save(card.job_id, path);
      this._change({ save: { busy: false, error: '', done: `Saved to ${saved.path}` } });
    } catch (error) {
      this._change({ save: { busy: false, error: problem(error), done: '' } });
    }
  }

  /** Open what listens at a port inside a job in a tab of its own. */
  portPage(job: string, to: string): void {
    window.open(this._api.url(`proxy/${encodeURIComponent(job)}/${to}`), '_blank', 'noopener');
  }

  /** Send a request to the model that the job serves; what it answers is only ever text. */
  async try(card: Card, to: string, body: string): Promise<void> {
    const begin = { busy: false, told: '', error: '', answer: '' };
    try {
      JSON.parse(body);
    } catch (error) {
      this._change({ tried: { ...begin, error: `Not sent: it is no JSON. ${problem(error)}` } });
      return;
    }
    this._change({ tried: { ...begin, busy: true } });
    try {
      const { status, ok, text, ms } = await this._api.port(card.job_id, to, body);
      const told = `${status}, ${ms} ms`;
      const [words, all] = ok ? ['', text] : failure(text);
      const error = ok ? '' : `The model has not answered: ${words || told}`;
      const left = all.length - LONGEST;
      const answer = left > 0 ? `${all.slice(0, LONGEST)}\n… ${left} characters more` : all;
      this._change({ tried: { busy: false, told, error, answer } });
    } catch (error) {
      this._change({ tried: { ...begin, error: `Not sent: ${problem(error)}` } });
    }
  }

  /** Have the browser keep a file that the job has left. */
  artifact(job: string, data: DOMStringMap): void {
    const link = document.createElement('a');
    link.href = this._api.artifactUrl(job, data.task ?? '', data.path ?? '');
    link.download = '';
    document.body.append(link);
    link.click();
    link.remove();
  }

  async again(job: string, inside: HTMLElement): Promise<void> {
    this._change({ problem: '', runningAgain: true });
    const { tracker, runCell } = this._place;
    const run = (panel: NotebookPanel, cell: Cell) => {
      this._change({ runningAgain: false }); // no more is waited for: the cell says how it runs
      return runCell(panel, cell);
    };
    await this._try('Not run again', { runningAgain: false }, () =>
      again(tracker, inside, job, run)
    );
  }

  async jump(inside: HTMLElement, frame: DOMStringMap): Promise<void> {
    this._change({ jump: await jump(this._place.tracker, inside, frame) });
  }

  private get _api() {
    return this._place.submarine.api;
  }

  private async _try(what: string, undo: Partial<Ui>, ask: () => Promise<unknown>): Promise<void> {
    try {
      await ask();
    } catch (error) {
      this._change({ ...undo, problem: `${what}: ${problem(error)}` });
    }
  }
}
