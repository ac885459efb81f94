/** The log view: what a job writes and shows, with lanes to choose, search, wrap, times, copy. */

import { Clipboard } from '@jupyterlab/apputils';
import type { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import { PanelLayout, Widget } from '@lumino/widgets';

import { type Api, ApiError, type LogName } from '../api';
import { count, problem, size } from '../words';
import type { LogView as Log, OutputView } from '../types';
import { plain } from './ansi';
import { button, choice, SearchBar, signButton } from './bar';
import { Displays } from './displays';
import { Finder } from './find';
import { Lanes } from './lanes';
import { Pane } from './pane';
import { keepPrefs, prefs } from './prefs';
import { draw } from './rows';
import { type Times, timeText, wholeTime } from './times';

const COPIED = 2000; // lines at most
const AGAIN = 5000; // ms after which a log is asked for again, where that failed
const MOST_COPIED = 1 << 20; // bytes of a log that is copied whole

const TIMES: [Times, string][] = [
  ['', 'No times'],
  ['since', 'Since start'],
  ['clock', 'Clock time']
];

export class LogView extends Widget {
  /** @param _place - what the surroundings can do; `open` shows the log in a tab. */
  constructor(
    private readonly _api: Api,
    private readonly _job: string,
    private readonly _place: { open?: () => void; rendermime?: IRenderMimeRegistry } = {}
  ) {
    super();
    this.addClass('submarine-Log');
    this.node.tabIndex = -1; // a click gives it the focus, so that keys are not the notebook's
    this.node.setAttribute('data-lm-suppress-shortcuts', 'true');
    this.node.dataset.submarineJob = _job;
    this._search = new SearchBar(
      text => this._find(text),
      by => this._step(by),
      () => this._closeSearch()
    );
    this._follow = button('Follow', 'Stay at the end as the log grows', () =>
      this._pane?.follow(!this._pane.following)
    );
    this._wrap = button('Wrap', 'Break long lines', () => this._setWrap(!prefs.wrap));
    this._times = choice('Times', TIMES, prefs.times, times => this._setTimes(times));
    this._download.className = 'smc-tool';
    this._download.textContent = 'Download';
    const tools = document.createElement('div');
    tools.className = 'smc-tools';
    tools.append(
      this._lanes.node,
      button('Find', 'Find in the whole log (Ctrl+F)', () => this._search.open()),
      this._follow,
      this._wrap,
      this._times,
      button('Copy', 'Copy the log', () => this._copy()),
      this._download,
      ...(_place.open ? [button('Open in a tab', 'Show the log in a tab', _place.open)] : [])
    );
    this._status.className = 'smc-status';
    this._status.setAttribute('role', 'status');
    this._whole.className = 'smc-whole';
    this._whole.hidden = true;
    const layout = (this.layout = new PanelLayout());
    const above = new Widget();
    above.node.append(tools, this._search.node);
    const below = new Widget();
    below.node.append(this._whole, this._status);
    layout.addWidget(above);
    layout.addWidget(below);
    this.node.addEventListener('keydown', event => this._key(event));
    document.addEventListener('visibilitychange', this._look);
  }

  override dispose(): void {
    document.removeEventListener('visibilitychange', this._look);
    clearTimeout(this._retry);
    super.dispose();
  }

  protected override onAfterAttach(): void {
    this._look();
  }

  protected override onAfterShow(): void {
    this._look();
  }

  /** Take the job's logs as they are now, and what it shows between them. */
  setLogs(logs: Log[], outputs: OutputView[] = []): void {
    this._outputs = outputs;
    this._lanes.set(withBoth(logs, outputs));
    if (!this._lanes.current) {
      this._tell('Nothing written yet');
    }
    this._look();
  }

  /** Fetch what is new, while somebody sees it. */
  private readonly _look = () => {
    const log = this._lanes.current;
    if (!this.isVisible || document.visibilityState !== 'visible') {
      return;
    }
    if (log && this._pane && log.size !== this._pane.pages.size) {
      void this._refresh();
    } else {
      void this._refreshDisplays();
    }
  };

  /** Say why what is shown may be old, or why nothing is; the empty text where all is well. */
  setTrouble(words: string): void {
    this._trouble = words;
    this._tell(this._told);
  }

  private _show(log: Log): void {
    const name: LogName = { job: this._job, task: log.task, stream: log.stream };
    const layout = this.layout as PanelLayout;
    this._pane?.dispose();
    this._whole.hidden = true;
    this._finder = new Finder((text, start, signal) => this._api.search(name, text, start, signal));
    const pane = new Pane(
      (lines, start, signal) => this._api.lines(name, lines, start, signal),
      () => this._changed(),
      line => this._showWhole(line),
      line => ({
        text: timeText(
          line.at,
          log.stream === 'all' ? prefs.times : '',
          this._output?.began ?? null
        ),
        whole: wholeTime(line.at)
      })
    );
    this._pane = pane;
    this._times.hidden = log.stream !== 'all';
    const { rendermime } = this._place;
    if (log.stream === 'all' && rendermime) {
      pane.displays = new Displays(
        () => this._api.shown(this._job, log.task),
        offset => this._api.display(this._job, log.task, offset),
        rendermime,
        () => pane.isDisposed || pane.shownChanged()
      );
    }
    this._setWrap(prefs.wrap);
    layout.insertWidget(1, pane);
    this._download.href = this._api.fileUrl(name);
    this._download.download = `${log.task}${log.stream === 'all' ? '' : `-${log.stream}`}.txt`;
    this._look();
  }

  private async _refresh(): Promise<void> {
    clearTimeout(this._retry);
    try {
      await this._pane?.refresh();
    } catch (error) {
      this._tell(problem(error));
      // The log of a job that is over does not change any more, and so nothing else asks again.
      if (!(error instanceof ApiError) || error.passes) {
        clearTimeout(this._retry);
        this._retry = this.isDisposed ? undefined : setTimeout(this._look, AGAIN);
      }
    }
    // After the lines, so that each thing has its line.
    await this._refreshDisplays();
  }

  private async _refreshDisplays(): Promise<void> {
    try {
      await this._pane?.displays?.refresh(this._output?.shown ?? 0);
    } catch (error) {
      this._tell(problem(error));
    }
  }

  private get _output(): OutputView | undefined {
    return this._outputs.find(each => each.task === this._lanes.current?.task);
  }

  private _setWrap(on: boolean): void {
    keepPrefs({ wrap: on });
    this._wrap.setAttribute('aria-pressed', String(on));
    this._pane?.wrap(on);
  }

  private _setTimes(times: Times): void {
    keepPrefs({ times });
    this._pane?.layoutChanged();
  }

  private _changed(): void {
    const { pages, following } = this._pane!;
    const log = this._lanes.current!;
    const empty = this._pane!.displays?.empty === false ? 'No text yet' : 'Nothing written yet';
    this._tell(pages.total ? `${count(pages.total, 'line')} · ${size(pages.size)}` : empty);
    const which = log.stream === 'all' ? 'all output' : log.stream;
    const name = `Log of ${log.task}, ${which}, ${count(pages.total, 'line')}`;
    this._pane!.node.setAttribute('aria-label', name);
    this._follow.setAttribute('aria-pressed', String(following));
  }

  private _tell(text: string): void {
    this._told = text;
    this._status.textContent = [this._trouble, text].filter(Boolean).join(' · ');
  }

  private async _find(text: string): Promise<void> {
    const near = this._pane?.scroll.range()[0] ?? 0;
    await this._go(() => this._finder!.find(text, near));
  }

  private async _step(by: 1 | -1): Promise<void> {
    if (this._search.input.value !== this._finder?.text) {
      await this._find(this._search.input.value);
    } else {
      await this._go(() => this._finder!.step(by));
    }
  }

  private async _go(search: () => Promise<number | null | undefined>): Promise<void> {
    if (!this._pane || !this._finder) {
      return;
    }
    const pane = this._pane;
    try {
      const line = await search();
      if (line === undefined) {
        return; // another search has begun
      }
      pane.rows.marked = this._finder.text;
      if (line === null) {
        pane.rows.current = -1;
        pane.draw();
      } else {
        pane.reveal(line);
      }
      this._search.told = this._finder.words;
    } catch (error) {
      this._search.told = problem(error);
    }
  }

  private _closeSearch(): void {
    this._search.node.hidden = true;
    this._search.input.value = '';
    void this._find('').then(() => this._pane?.node.focus());
  }

  private async _copy(): Promise<void> {
    const log = this._lanes.current;
    if (!log || !this._pane) {
      return;
    }
    const selected = String(document.getSelection() ?? '');
    const name: LogName = { job: this._job, task: log.task, stream: log.stream };
    try {
      if (selected && this._pane.node.contains(document.getSelection()!.anchorNode)) {
        await copied(selected);
        this._tell('Selection copied');
        return;
      }
      const whole = this._pane.pages.size <= MOST_COPIED && this._pane.pages.total <= COPIED;
      const told = await this._api.lines(name, COPIED);
      await copied(told.lines.map(plain).join('\n'));
      const much = count(told.lines.length, 'line');
      this._tell(whole ? `${much} copied` : `Last ${much} copied. Download has all.`);
    } catch (error) {
      this._tell(`Not copied: ${problem(error)}`);
    }
  }

  private _showWhole(line: number): void {
    const text = this._pane?.pages.line(line)?.text ?? '';
    const pre = document.createElement('pre');
    pre.tabIndex = 0;
    pre.setAttribute('aria-label', `Line ${line + 1}`);
    pre.append(...draw(text, this._finder?.text ?? ''));
    const close = signButton('✕', 'Close', 'Esc', () => {
      this._whole.hidden = true;
    });
    const title = document.createElement('span');
    title.className = 'smc-quiet';
    title.textContent = `line ${(line + 1).toLocaleString('en')}, whole `;
    this._whole.replaceChildren(title, close, pre);
    this._whole.hidden = false;
    pre.focus();
  }

  private _key(event: KeyboardEvent): void {
    if (event.key.toLowerCase() === 'f' && (event.ctrlKey || event.metaKey) && !event.altKey) {
      event.preventDefault();
      this._search.open();
    } else if (event.key === 'Escape' && !this._whole.hidden) {
      this._whole.hidden = true;
      this._pane?.node.focus();
    } else if (event.key === 'Escape' && !this._search.node.hidden) {
      this._closeSearch();
    } else {
      return;
    }
    event.stopPropagation();
  }

  private readonly _lanes = new Lanes(log => this._show(log));
  private readonly _search: SearchBar;
  private readonly _follow: HTMLButtonElement;
  private readonly _wrap: HTMLButtonElement;
  private readonly _times: HTMLSelectElement;
  private readonly _download = document.createElement('a');
  private readonly _status = document.createElement('div');
  private readonly _whole = document.createElement('div');
  private _outputs: OutputView[] = [];
  private _told = '';
  private _trouble = '';
  private _pane: Pane | null = null;
  private _finder: Finder | null = null;
  private _retry: ReturnType<typeof setTimeout> | undefined;
}

/** Copy a text; a page of plain HTTP has no clipboard but that of the old days. */
async function copied(text: string): Promise<void> {
  const { clipboard } = navigator as Partial<Navigator>;
  if (clipboard) {
    await clipboard.writeText(text);
  } else {
    Clipboard.copyToSystem(text);
  }
}

/** The logs, and before those of each task both together. */
function withBoth(logs: Log[], outputs: OutputView[]): Log[] {
  return logs.flatMap(log => {
    if (log.stream !== 'stdout' || !outputs.some(each => each.task === log.task)) {
      return [log];
    }
    const mine = logs.filter(each => each.task === log.task);
    const all = mine.reduce((sum, each) => sum + each.size, 0);
    return [{ task: log.task, stream: 'all', size: all }, log];
  });
}
