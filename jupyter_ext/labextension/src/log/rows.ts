/** The lines of a log that are in sight, as elements: each is made once and kept while it is there. */

import { count } from '../words';
import { pieces } from './ansi';

const SHOWN = 1000; // characters of a line in its row

export class Rows {
  /** @param whole - called with the number of a long line that the reader wants to see whole. */
  constructor(
    readonly node: HTMLElement,
    private readonly _lineHeight: number,
    private readonly _whole: (line: number) => void
  ) {}

  /** Text to mark wherever it is; the line to point out. */
  marked = '';
  current = -1;

  /** Draw the lines from `first` to before `last`, so that `position` is at the upper edge. */
  draw(first: number, last: number, position: number, line: (at: number) => string | null): void {
    for (const [at, row] of this._rows) {
      if (at < first || at >= last) {
        row.remove();
        this._rows.delete(at);
      }
    }
    for (let at = first; at < last; at++) {
      this._row(at, line(at));
    }
    this.node.style.transform = `translateY(${-position}px)`;
    this._first = first;
    for (const [at, row] of this._rows) {
      row.style.top = `${(at - this._first) * this._lineHeight}px`;
    }
    this.node.style.width = `${this._widest()}ch`;
  }

  private _row(at: number, text: string | null): void {
    const state = `${text === null ? '' : text.length}:${text === null ? '' : text.slice(-64)}`;
    const look = `${state}|${this.marked}|${at === this.current}`;
    const row = this._rows.get(at) ?? this._make(at);
    if (row.dataset.look !== look) {
      row.dataset.look = look;
      row.classList.toggle('smc-current', at === this.current);
      row.replaceChildren(...(text === null ? [] : this._content(at, text)));
      this._width = Math.max(this._width, Math.min(text?.length ?? 0, SHOWN + 40));
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

  private _content(at: number, text: string): Node[] {
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
    return found;
  }

  private _widest(): number {
    return this._width + 2;
  }

  private readonly _rows = new Map<number, HTMLElement>();
  private _first = 0;
  private _width = 0;
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
