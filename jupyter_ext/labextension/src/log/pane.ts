/** One log on the screen, however long: only the lines in sight are in the page. */

import { Widget } from '@lumino/widgets';

import type { Displays } from './displays';
import { type FetchLines, type Line, Pages } from './pages';
import { Rows } from './rows';
import { Scroll } from './scroll';

export const LINE = 18; // px, as in log.css
const SPARE = 20; // lines beyond each edge
const NOTHING = { above: [], below: [] };

export class Pane extends Widget {
  /**
   * @param changed - called when position, length or following changed.
   * @param whole - called with the number of a line to be shown whole.
   * @param _time - when a line was written, in words.
   */
  constructor(
    fetch: FetchLines,
    private readonly _changed: () => void,
    whole: (line: number) => void,
    private readonly _time: (line: Line) => { text: string; whole: string }
  ) {
    super();
    this.addClass('smc-pane');
    this.pages = new Pages(fetch);
    this.node.tabIndex = 0;
    this.node.setAttribute('role', 'region');
    const lines = document.createElement('div');
    lines.className = 'smc-lines';
    const held = document.createElement('div');
    held.className = 'smc-held';
    held.append(lines);
    this._filler.className = 'smc-filler';
    this.node.append(held, this._filler);
    this.rows = new Rows(lines, LINE, whole, (line, height) => this._measured(line, height));
    this.node.addEventListener('scroll', () => this._scrolled(), { passive: true });
    this.node.addEventListener('wheel', event => this._wheel(event), { passive: false });
    this.node.addEventListener('keydown', event => this._key(event));
    this._sizes = new ResizeObserver(() => this._resized());
  }

  readonly pages: Pages;
  readonly rows: Rows;
  readonly scroll = new Scroll(LINE);
  following = true;
  /** What is shown between the lines. */
  displays: Displays | null = null;

  override dispose(): void {
    this._sizes.disconnect();
    this.rows.dispose();
    this.displays?.dispose();
    super.dispose();
  }

  /** Look how long the log is by now; at most one question at a time, and none is lost. */
  async refresh(): Promise<void> {
    if (this._asking) {
      this._again = true;
      return;
    }
    this._asking = true;
    try {
      do {
        this._again = false;
        await this.pages.refresh();
        this._grown();
      } while (this._again && !this.isDisposed);
    } finally {
      this._asking = false;
    }
  }

  follow(on: boolean): void {
    this.following = on;
    if (on) {
      this.scroll.move(this.scroll.end);
    }
    this.draw();
    this._changed();
  }

  /** Point out a line, and bring it into sight. */
  reveal(line: number): void {
    this.following = false;
    this.rows.current = line;
    this.scroll.reveal(line);
    this.draw();
    this._changed();
  }

  /** Draw what is in sight, and fetch what of it is not here. */
  draw(): void {
    const { scroll, pages } = this;
    this._filler.style.height = `${scroll.barHeight}px`;
    if (Math.abs(this.node.scrollTop - scroll.top) >= 1) {
      this.node.scrollTop = scroll.top;
      scroll.shown = this.node.scrollTop;
    }
    const [first, last] = scroll.range(SPARE);
    const around = {
      line: (at: number) => pages.line(at),
      top: (at: number) => scroll.offset(at) - scroll.offset(first),
      time: this._time,
      shown: (at: number) => this.displays?.of(at) ?? NOTHING
    };
    this.rows.draw(first, last, around);
    this.rows.measure();
    this.rows.place(scroll.position - scroll.offset(first), around);
    void this._fill(first, last);
  }

  /** Let long lines go on below, or reach beyond the edge. */
  wrap(on: boolean): void {
    this.node.classList.toggle('smc-wrapped', on);
    this.rows.wrap = on;
    this.layoutChanged();
  }

  /** Other things are shown between the lines, or elsewhere. */
  shownChanged(): void {
    this.node.classList.toggle('smc-with-displays', this.displays?.empty === false);
    this._grown();
  }

  /** All heights may be others now. */
  layoutChanged(): void {
    this.scroll.heights.clear();
    this._resized();
  }

  private _measured(line: number, height: number): void {
    if (this.scroll.measure(line, height)) {
      if (this.following) {
        this.scroll.move(this.scroll.end);
      }
      this._setHeight();
      this._soon();
    }
  }

  private _setHeight(): void {
    this.node.style.setProperty('--smc-text', `${Math.max(LINE, this.scroll.textHeight)}px`);
  }

  protected override onAfterAttach(): void {
    this._sizes.observe(this.node);
    this._resized();
  }

  protected override onBeforeDetach(): void {
    this._sizes.disconnect();
  }

  protected override onAfterShow(): void {
    this._resized();
  }

  private async _fill(first: number, last: number): Promise<void> {
    try {
      if ((await this.pages.load(first, last)) && !this.isDisposed) {
        this._soon();
      }
    } catch {
      // The card says that the server is gone; the next look at the log fetches what is missing.
    }
  }

  private _soon(): void {
    this._frame ||= requestAnimationFrame(() => {
      this._frame = 0;
      this.draw();
    });
  }

  private _grown(): void {
    // What is shown before any text has a line to stand at.
    this.scroll.total = this.pages.total || Number(this.displays?.empty === false);
    this._setHeight();
    this._resized();
    this._changed();
  }

  private _resized(): void {
    this.scroll.height = this.node.clientHeight;
    const width = this.node.clientWidth;
    if (width !== this._width) {
      this._width = width;
      this.node.style.setProperty('--smc-width', `${width}px`);
      if (this.rows.wrap) {
        this.scroll.heights.clear();
      }
    }
    const selection = document.getSelection();
    const reading = selection && !selection.isCollapsed && this.node.contains(selection.anchorNode);
    this.scroll.move(this.following && !reading ? this.scroll.end : this.scroll.position);
    this.draw();
  }

  private _scrolled(): void {
    if (this.scroll.takeTop(this.node.scrollTop)) {
      this._moved();
    }
  }

  private _moved(): void {
    const before = this.following;
    this.following = this.scroll.atEnd;
    this._soon();
    if (before !== this.following) {
      this._changed();
    }
  }

  private _wheel(event: WheelEvent): void {
    if (this.scroll.scaled && !event.ctrlKey && event.deltaY) {
      event.preventDefault(); // a pixel of the bar is more than one of text
      this._by(event.deltaY * [1, LINE, this.scroll.height][event.deltaMode]);
    }
  }

  private _by(pixels: number): void {
    this.scroll.move(this.scroll.position + pixels);
    this._moved();
  }

  private _key(event: KeyboardEvent): void {
    const page = Math.max(LINE, this.scroll.height - LINE);
    const steps: Record<string, number> = {
      ArrowUp: -LINE,
      ArrowDown: LINE,
      PageUp: -page,
      PageDown: page,
      Home: -Infinity,
      End: Infinity
    };
    const step = steps[event.key];
    if (step && event.target === this.node && !event.altKey && !event.metaKey) {
      event.preventDefault();
      this._by(step);
    }
  }

  private readonly _filler = document.createElement('div');
  private readonly _sizes: ResizeObserver;
  private _asking = false;
  private _again = false;
  private _frame = 0;
  private _width = 0;
}
