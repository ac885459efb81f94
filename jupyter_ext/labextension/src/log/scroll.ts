/**
 * Where in a log the reader is, in pixels of text, and what the scroll bar says.
 *
 * No element may be as high as millions of lines (browsers end at 16 to 33 million pixels): beyond
 * `HIGHEST` the scrolled element stays that high, and one pixel of the bar stands for more of text.
 */

export const HIGHEST = 8_000_000;

export class Scroll {
  /** Pixels of text above the upper edge. */
  position = 0;
  total = 0;

  constructor(readonly lineHeight: number) {}

  height = 0;
  /** The `scrollTop` that is known: what was drawn, or what the reader made, last. */
  shown = 0;

  get textHeight(): number {
    return this.total * this.lineHeight;
  }

  /** Height of the scrolled element. */
  get barHeight(): number {
    return Math.min(this.textHeight, HIGHEST);
  }

  get scaled(): boolean {
    return this.textHeight > HIGHEST;
  }

  get end(): number {
    return Math.max(0, this.textHeight - this.height);
  }

  get atEnd(): boolean {
    return this.position >= this.end - this.lineHeight / 2;
  }

  /** Pixels of text for one of the bar. */
  private get _factor(): number {
    const bar = Math.max(1, this.barHeight - this.height);
    return this.scaled ? this.end / bar : 1;
  }

  /** What the scrolled element's `scrollTop` should be. */
  get top(): number {
    return this.position / this._factor;
  }

  /**
   * Take a `scrollTop` that the reader made; one that is ours changes nothing, nor does one that we
   * set before the last move: the page tells of it late, and would undo that move.
   */
  takeTop(top: number): boolean {
    if (Math.abs(top - this.top) < 1 || Math.abs(top - this.shown) < 1) {
      return false;
    }
    this.shown = top;
    this.move(top * this._factor);
    return true;
  }

  move(position: number): void {
    this.position = Math.min(Math.max(0, position), this.end);
  }

  /** Lines to draw, the first and the one after the last, with `spare` beyond each edge. */
  range(spare = 0): [number, number] {
    const first = Math.floor(this.position / this.lineHeight) - spare;
    const last = Math.ceil((this.position + this.height) / this.lineHeight) + spare;
    return [Math.max(0, first), Math.min(this.total, last)];
  }

  /** Bring a line into the middle, where it is out of sight. */
  reveal(line: number): void {
    const top = line * this.lineHeight;
    if (top < this.position || top + this.lineHeight > this.position + this.height) {
      this.move(top - (this.height - this.lineHeight) / 2);
    }
  }
}
