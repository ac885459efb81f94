/**
 * Where in a log the reader is, in pixels of text, and what the scroll bar says.
 *
 * No element may be as high as millions of lines (browsers end at 16 to 33 million pixels): beyond
 * `HIGHEST` the scrolled element stays that high, and one pixel of the bar stands for more of text.
 */

export const HIGHEST = 8_000_000;

/** How much higher some lines are than all others: those that wrap, and those with pictures. */
export class Heights {
  private readonly _extra = new Map<number, number>();
  private _lines: number[] = [];
  private _sums: number[] = [];
  private _known = true;
  total = 0;

  /** Take how much higher a line is; returns by how much that is more than it was. */
  set(line: number, extra: number): number {
    const more = extra - (this._extra.get(line) ?? 0);
    if (more) {
      this._extra.set(line, extra);
      this.total += more;
      this._known = false;
    }
    return more;
  }

  clear(): void {
    this._extra.clear();
    [this.total, this._known] = [0, false];
  }

  /** What the lines before this one are higher, all together. */
  before(line: number): number {
    if (!this._known) {
      this._lines = [...this._extra.keys()].sort((one, other) => one - other);
      let sum = 0;
      this._sums = this._lines.map(each => (sum += this._extra.get(each)!));
      this._known = true;
    }
    const at = last(this._lines.length, each => this._lines[each] < line);
    return at < 0 ? 0 : this._sums[at];
  }
}

/** The last number below `count` of which `holds`, which none does after it; -1 where none does. */
function last(count: number, holds: (at: number) => boolean): number {
  let [low, high] = [-1, count - 1];
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    [low, high] = holds(middle) ? [middle, high] : [low, middle - 1];
  }
  return low;
}

export class Scroll {
  /** Pixels of text above the upper edge. */
  position = 0;
  total = 0;

  constructor(readonly lineHeight: number) {}

  height = 0;
  /** The `scrollTop` that is known: what was drawn, or what the reader made, last. */
  shown = 0;

  readonly heights = new Heights();

  get textHeight(): number {
    return this.offset(this.total);
  }

  /** Pixels of text above a line. */
  offset(line: number): number {
    return line * this.lineHeight + this.heights.before(line);
  }

  /** The line that is at this pixel of the text. */
  lineAt(pixel: number): number {
    return Math.max(
      0,
      last(this.total, line => this.offset(line) <= pixel)
    );
  }

  /** Take a line's height; what is in sight stays where it is. Returns whether that was new. */
  measure(line: number, height: number): boolean {
    const above = this.offset(line + 1) <= this.position;
    const more = this.heights.set(line, height - this.lineHeight);
    this.position += above ? more : 0;
    return more !== 0;
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
    const first = this.lineAt(this.position) - spare;
    const end = this.lineAt(this.position + this.height - 0.5) + 1 + spare;
    return [Math.max(0, first), Math.min(this.total, end)];
  }

  /** Bring a line into the middle, where it is out of sight. */
  reveal(line: number): void {
    const top = this.offset(line);
    if (top < this.position || top + this.lineHeight > this.position + this.height) {
      this.move(top - (this.height - this.lineHeight) / 2);
    }
  }
}
