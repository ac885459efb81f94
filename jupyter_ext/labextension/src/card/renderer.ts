/** The renderer of a job's MIME type: the card, and its log below. */

import type { IOutputAreaModel } from '@jupyterlab/outputarea';
import type { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import type { IRenderMime } from '@jupyterlab/rendermime-interfaces';
import type { IDisposable } from '@lumino/disposable';
import { Signal } from '@lumino/signaling';
import { Panel } from '@lumino/widgets';

import type { Feed } from '../feed';
import { LogView } from '../log/view';
import { StacksView } from '../stacks/view';
import type { Card } from '../types';
import { sentence } from '../words';
import { Actions, type Place } from './actions';
import { CardBody } from './body';
import { type Bundle, merged, readBundle, WIDGET_TYPE } from './bundle';
import { areaOf, isWritten } from './live';
import { Trials } from './trials';
import { QUIET, type Ui } from './ui';

const HTML = 'text/html';
/** What only shows something. */
const LOOKS = new Set(
  'artifact every jump log open-log page pin save sort stacks trial unpin'.split(' ')
);
const UNTRUSTED =
  'The notebook is not trusted: choose “Trust Notebook” in the command palette first';
const LOOK = 1000; // ms between two looks at whether the cell is still written

export class CardRenderer extends Panel implements IRenderMime.IRenderer {
  constructor(
    private readonly _place: Place,
    private readonly _rendermime: IRenderMimeRegistry
  ) {
    super();
    this.addClass('submarine-Card');
    this._body = new CardBody((action, element) => this._act(action, element));
    this._actions = new Actions(_place, change => this._change(change));
    this.addWidget(this._body);
  }

  async renderModel(model: IRenderMime.IMimeModel): Promise<void> {
    const before = this._bundle;
    this._model = model;
    this._bundle = readBundle(model);
    if (model.trusted && this._ui.problem === UNTRUSTED) {
      this._ui = { ...this._ui, problem: '' }; // it was done what that asks for
    }
    this.node.dataset.submarineJob = this._bundle.job;
    if (before && before.job !== this._bundle.job) {
      this._unwatch();
      this._served = null;
      this._gone = false;
      this._log?.dispose();
      this._log = null;
      this._closeStacks();
      this._leaveTrials();
    }
    this._draw();
    if (this.isAttached) {
      this._watch();
    }
  }

  override dispose(): void {
    this._unwatch();
    this._trials?.stop();
    super.dispose();
  }

  protected override onAfterAttach(): void {
    this._watch();
    this._timer = setInterval(() => this._openByItself(), LOOK);
    this._openByItself();
    this._outputs = areaOf(this)?.model ?? null;
    this._outputs?.changed.connect(this._onOutputs, this);
    this._onOutputs();
  }

  protected override onBeforeDetach(): void {
    clearInterval(this._timer);
    this._outputs?.changed.disconnect(this._onOutputs, this);
    this._outputs = null;
    this._unwatch();
  }

  /** The cell's own traceback has the failing lines: the card need not say them again. */
  private _onOutputs(): void {
    const outputs = this._outputs;
    const types = Array.from({ length: outputs?.length ?? 0 }, (_, at) => outputs!.get(at).type);
    this.toggleClass('submarine-mod-told', types.includes('error'));
  }

  private _watch(): void {
    const job = this._bundle?.job;
    if (!job || this._watched || this._served?.final) {
      return;
    }
    const { feed } = this._place.submarine;
    this._watched = feed.watch(job);
    feed.cardChanged.connect(this._onCard, this);
    feed.gone.connect(this._onGone, this);
    feed.troubled.connect(this._onTrouble, this);
    const known = feed.cards.get(job);
    if (known) {
      this._onCard(feed, known);
    }
    this._gone = feed.isGone(job);
    this._onTrouble(feed);
  }

  private _unwatch(): void {
    this._watched?.dispose();
    this._watched = null;
    Signal.clearData(this);
  }

  private _onCard(_: unknown, card: Card): void {
    if (card.job_id === this._bundle?.job) {
      [this._served, this._gone] = [card, false];
      this._draw();
      this._log?.setLogs(card.logs, card.outputs);
      this._openByItself();
      void this._trials?.refresh();
      this._trials?.follow(!card.final);
    }
  }

  private _onGone(_: unknown, job: string): void {
    if (job === this._bundle?.job) {
      this._gone = true;
      this._draw();
    }
  }

  private _onTrouble(feed: Feed): void {
    this._trouble = feed.trouble(this._bundle!.job);
    this._draw();
  }

  /** The card to show: the server's, unless the notebook heard earlier how the job ended. */
  private get _card(): Card {
    const [saved, served] = [this._bundle!.card, this._served];
    if (!served || served.final || !saved.final) {
      return served ?? saved;
    }
    return merged(saved, served);
  }

  private _draw(): void {
    if (!this._bundle || (this._gone && this._drawWidget())) {
      return;
    }
    this._widget?.dispose();
    this._widget = null;
    if (!this._bundle.whole && !this._served && this._drawHtml()) {
      return;
    }
    this._html?.dispose();
    this._html = null;
    this._body.show();
    const ticking = this._card.ticking && !this._trouble;
    const card = { ...this._card, ticking };
    const served = this._served !== null && !this._gone;
    const page = served ? this._place.submarine.api.url(`jobs/${card.job_id}`) : '';
    const made = this._served ? this._place.submarine.feed.made(this._served) : null;
    const { remembered } = this._bundle;
    const ui = { ...this._ui, note: this._note(), served, page, remembered };
    this._body.draw(card, { ...ui, logOpen: this._log?.isHidden === false }, made);
  }

  private _note(): string {
    const asOf = this._card.as_of ? ` · ${this._card.as_of}` : '';
    if (this._gone) {
      return `This server does not know the job; shown as saved${asOf}`;
    }
    return this._trouble && !this._card.final ? `${sentence(this._trouble)}${asOf}` : '';
  }

  /** Where the kernel alone knows the job (it is on another machine), its widget is live. */
  private _drawWidget(): boolean {
    const known = this._rendermime.mimeTypes.includes(WIDGET_TYPE);
    if (!known || !this._model?.data[WIDGET_TYPE] || !isWritten(this, () => this._draw())) {
      return false;
    }
    if (!this._widget) {
      this._widget = this._rendermime.createRenderer(WIDGET_TYPE);
      this.addWidget(this._widget);
      void this._widget.renderModel(this._model);
      this._html?.dispose();
      this._html = null;
      this._body.hide();
    }
    return true;
  }

  /** What an older release has saved is whole in the HTML alone. */
  private _drawHtml(): boolean {
    const { data } = this._model!;
    if (!data[HTML] || !this._rendermime.mimeTypes.includes(HTML)) {
      return false;
    }
    if (!this._html) {
      this._html = this._rendermime.createRenderer(HTML);
      this.addWidget(this._html);
      this._body.hide();
    }
    void this._html.renderModel(this._model!);
    return true;
  }

  /** Show the log where the cell's own text does not come, or comes no more. */
  private _openByItself(): void {
    if (!this._bundle || !this._served || this._gone || this._log || this._bundle.card.final) {
      return;
    }
    const written = isWritten(this, () => this._openByItself());
    if (!written || !this._bundle.text) {
      this._toggleLog();
      this.parent?.toggleClass('submarine-mod-replayed', this._bundle.text);
    }
  }

  private _toggleLog(): void {
    if (this._log) {
      this._log.setHidden(!this._log.isHidden);
    } else {
      const { job } = this._bundle!;
      this._log = new LogView(this._place.submarine.api, job, {
        open: () => this._place.openLog(job, this._card.title),
        rendermime: this._rendermime
      });
      this._log.setLogs(this._card.logs, this._card.outputs);
      this.addWidget(this._log);
    }
    this.parent?.toggleClass('submarine-mod-open', !this._log.isHidden);
    this._draw();
  }

  /** Ask where the tasks stand, and show it between the card and its log. */
  private _askStacks(): void {
    if (!this._stacks) {
      this._stacks = new StacksView(this._place.submarine.api, this._bundle!.job, {
        asking: busy => this._change({ stacks: { open: this._stacks !== null, busy } }),
        close: () => this._closeStacks()
      });
      this.insertWidget(1, this._stacks);
    }
    void this._stacks.ask();
  }

  private _closeStacks(): void {
    this._stacks?.dispose();
    this._stacks = null;
    this._change({ stacks: QUIET.stacks });
  }

  /** Look at other trials of a sweep: all, sorted, beside each other, or one with its log. */
  private _lookAt(action: string, data: DOMStringMap): void {
    const { api } = this._place.submarine;
    const { job } = this._bundle!;
    this._trials ??= new Trials({
      ask: at => api.trials(job, at),
      show: (trials, wrong) =>
        this._change({ trials, noTrials: wrong ? `No trials: ${wrong}` : '' })
    });
    if (this._trials.act(action, data)) {
      this._trials.follow(!this._card.final);
    }
  }

  private _leaveTrials(): void {
    this._trials?.stop();
    this._trials = null;
    this._change({ trials: null, noTrials: '' });
  }

  private _change(change: Partial<Ui>): void {
    this._ui = { ...this._ui, ...change };
    if (!this.isDisposed) {
      this._draw();
    }
  }

  private _act(action: string, element: HTMLElement): void {
    const card = this._card;
    if (!this._mayDo(action)) {
      return this._change({ problem: UNTRUSTED });
    }
    const does: Record<string, () => unknown> = {
      log: () => this._toggleLog(),
      stacks: () => this._askStacks(),
      again: () => this._actions.again(card.job_id, this.node),
      cancel: () => this._actions.cancel(card),
      kill: () => this._actions.kill(card),
      tensorboard: () => this._actions.tensorboard(card),
      artifact: () => this._actions.artifact(card.job_id, element.dataset),
      notebook: () => this._actions.notebook(card),
      terminal: () => this._actions.terminal(card),
      jump: () => this._actions.jump(this.node, element.dataset),
      board: () => this._actions.board(element.dataset.logdir ?? ''),
      'open-log': () => {
        const worker = element.dataset.job ?? '';
        this._place.openLog(worker, `worker of ${card.title}`);
      },
      'submit-try': () => {
        const { value } = element.querySelector<HTMLTextAreaElement>('[name=body]')!;
        return this._actions.try(card, element.dataset.to ?? '', value);
      },
      'page-of-port': () => this._actions.portPage(card.job_id, element.dataset.to ?? ''),
      save: () => this._askForPath(),
      'submit-save': () =>
        this._actions.save(card, element.querySelector<HTMLInputElement>('[name=path]')!.value)
    };
    if (action in does) {
      void does[action]();
    } else {
      this._lookAt(action, element.dataset);
    }
  }

  /** Whether a button does what it says: a notebook's own may say one thing and do another. */
  private _mayDo(action: string): boolean {
    if (this._model?.trusted) {
      return action !== 'again' || this._bundle!.remembered !== '';
    }
    const isServers = this._card === this._served;
    return action !== 'again' && (isServers || LOOKS.has(action));
  }

  private _askForPath(): void {
    this._change({ save: this._ui.save ? null : { busy: false, error: '', done: '' } });
    this._body.node.querySelector<HTMLInputElement>('[name=path]')?.focus();
  }

  private readonly _body: CardBody;
  private readonly _actions: Actions;
  private _model: IRenderMime.IMimeModel | null = null;
  private _bundle: Bundle | null = null;
  private _served: Card | null = null;
  private _gone = false;
  private _trouble = '';
  private _ui: Ui = QUIET;
  private _log: LogView | null = null;
  private _stacks: StacksView | null = null;
  private _trials: Trials | null = null;
  private _html: IRenderMime.IRenderer | null = null;
  private _widget: IRenderMime.IRenderer | null = null;
  private _outputs: IOutputAreaModel | null = null;
  private _watched: IDisposable | null = null;
  private _timer: ReturnType<typeof setInterval> | undefined;
}
