/** The lines of a log that are in sight, as elements: each is made once and kept while it is there. */

import { count } from '../words';
import { pieces } from './ansi';
import type { Slot } from './displays';
import type { Line } from './pages';

const SHOWN = 1000; // characters of a line in its row

/** What the rows ask of what surrounds them. */
export interface Around {
  line(at: number): Line | null;
  /** Where a line is, in pixels from the first one that is drawn. */
  top(at: number): number;
  /** When a line was written, in words; the empty text where nobody wants to know. */
  time(line: Line): { text: string; whole: string };
  /** What is shown above and below a line. */
  shown(at: number): { above: Slot[]; below: Slot[] };
}

export class Rows {
  /**
   * @param whole - called with the number of a long line that the reader wants to see whole.
   * @param measured - called with a line and its height, where that may be another than the others'.
   */
  constructor(
    readonly node: HTMLElement,
    private readonly _lineHeight: number,
    private readonly _whole: (line: number) => void,
    private readonly _measured: (line: number, height: number) => void
  ) {}

  /** Text to mark wherever it is; the line to point out; whether long lines go on below. */
  marked = '';
  current = -1;
  wrap = false;

  /** Draw the lines from `first` to before `last`. */
  draw(first: number, last: number, around: Around): void {
    for (const [at, row] of this._rows) {
      if (at < first || at >= last) {
        this._drop(at, row);
      }
    }
    for (let at = first; at < last; at++) {
      this._row(at, around);
    }
    this.node.style.width = this.wrap ? '' : `${this._width + 2}ch`;
  }

  /** Put the rows where they belong, so that `position` is at the upper edge. */
  place(position: number, around: Around): void {
    this.node.style.transform = `translateY(${-position}px)`;
    for (const [at, row] of this._rows) {
      row.style.top = `${around.top(at)}px`;
    }
  }

  /** Tell the heights of the rows that may have another than the others. */
  measure(): void {
    for (const [at, row] of this._rows) {
      if (row.classList.contains('smc-tall') && row.offsetHeight) {
        this._measured(at, row.offsetHeight);
      }
    }
  }

  dispose(): void {
    this._sizes?.disconnect();
    for (const [at, row] of this._rows) {
      this._drop(at, row);
    }
  }

  private _drop(at: number, row: HTMLElement): void {
    this._slots.get(at)?.forEach(slot => slot.leave());
    this._slots.delete(at);
    this._sizes?.unobserve(row);
    row.remove();
    this._rows.delete(at);
  }

  private _row(at: number, around: Around): void {
    const line = around.line(at);
    const { above, below } = around.shown(at);
    const text = line?.text ?? null;
    const time = line ? around.time(line) : { text: '', whole: '' };
    const slots = [...above, ...below];
    const look = [
      text,
      this.marked,
      at === this.current,
      this.wrap,
      line?.err,
      time.text,
      slots.map(slot => slot.number)
    ].join('|');
    const row = this._rows.get(at) ?? this._make(at);
    if (this._looks.get(row) !== look) {
      this._looks.set(row, look);
      row.classList.toggle('smc-current', at === this.current);
      this._setTall(row, this.wrap || slots.length > 0);
      const gone = this._slots.get(at)?.filter(slot => !slots.includes(slot)) ?? [];
      gone.forEach(slot => slot.leave());
      this._slots.set(at, slots);
      row.replaceChildren(
        ...above.map(slot => slot.node),
        ...(time.text ? [timeNode(time)] : []),
        ...(line ? this._content(at, line) : []),
        ...below.map(slot => slot.node)
      );
      this._width = Math.max(
        this._width,
        Math.min(text?.length ?? 0, SHOWN + 40) + time.text.length
      );
    }
    slots.forEach(slot => slot.draw());
  }

  private _setTall(row: HTMLElement, tall: boolean): void {
    row.classList.toggle('smc-tall', tall);
    row.style.height = tall ? '' : `${this._lineHeight}px`;
    if (tall) {
      this._sizes?.observe(row);
    } else {
      this._sizes?.unobserve(row);
      this._measured(Number(row.dataset.line), this._lineHeight);
    }
  }

  private _make(at: number): HTMLElement {
    const row = document.createElement('div');
    row.className = 'smc-row';
    row.dataset.line = String(at);
    row.style.height = `${this._lineHeight}px`;
    this._rows.set(at, row);
    this.node.append(row);
    return row;
  }

  private _content(at: number, { text, err }: Line): Node[] {
    const long = text.length > SHOWN;
    const found = draw(long ? text.slice(0, SHOWN) : text, this.marked);
    if (long) {
      const more = document.createElement('button');
      more.type = 'button';
      more.className = 'smc-more';
      more.textContent = `… ${count(text.length - SHOWN, 'character')} more`;
      more.addEventListener('click', () => this._whole(at));
      found.push(more);
    }
    if (!err) {
      return found;
    }
    const marked = document.createElement('span');
    marked.className = 'smc-err';
    marked.title = 'stderr';
    marked.append(...found);
    return [marked];
  }

  private readonly _rows = new Map<number, HTMLElement>();
  /** What each row was made of. */
  private readonly _looks = new WeakMap<HTMLElement, string>();
  private readonly _slots = new Map<number, Slot[]>();
  private readonly _sizes =
    typeof ResizeObserver === 'undefined' ? null : new ResizeObserver(() => this.measure());
  private _width = 0;
}

function timeNode(time: { text: string; whole: string }): HTMLElement {
  const node = document.createElement('span');
  node.className = 'smc-time';
  node.textContent = time.text;
  node.title = time.whole;
  return node;
}

/** Draw a line, with `marked` pointed out; text nodes alone. */
export function draw(line: string, marked: string): Node[] {
  return pieces(line).flatMap(({ text, style }) => {
    const parts = split(text, marked).map(([part, found]) => {
      if (!found) {
        return document.createTextNode(part);
      }
      const mark = document.createElement('mark');
      mark.textContent = part;
      return mark;
    });
    if (!style) {
      return parts;
    }
    const span = document.createElement('span');
    span.className = style
      .split(' ')
      .map(name => `smc-${name}`)
      .join(' ');
    span.append(...parts);
    return [span];
  });
}

/** Cut a text where `wanted` is, whatever its case. */
export function split(text: string, wanted: string): [string, boolean][] {
  const low = text.toLowerCase();
  if (!wanted || low.length !== text.length) {
    return [[text, false]];
  }
  const found: [string, boolean][] = [];
  let from = 0;
  for (let at = 0; (at = low.indexOf(wanted.toLowerCase(), from)) >= 0;) {
    found.push([text.slice(from, at), false], [text.slice(at, at + wanted.length), true]);
    from = at + wanted.length;
  }
  found.push([text.slice(from), false]);
  return found.filter(([part]) => part);
}
