/** The list of jobs: one is selected, or several, by mouse or keys; rows are changed in place. */

import { Signal } from '@lumino/signaling';

import { element, setAttribute, setText } from '../dom';
import type { Row } from './rows';

const PAGE = 8;
let lists = 0;

export class JobList {
  constructor() {
    this.node.addEventListener('keydown', this._onKey);
    this.node.addEventListener('mousedown', this._onMouse);
    this.node.addEventListener('contextmenu', this._onMenu);
    this.node.addEventListener('dblclick', event => {
      if (this._at(event)) {
        this.opened.emit(this._selected);
      }
    });
  }

  readonly node = element('div', 'submarine-JobList', {
    role: 'listbox',
    tabindex: '0',
    'aria-multiselectable': 'true',
    'aria-label': 'Jobs'
  });

  /** Emitted with the id of the selected job, empty for none. */
  readonly selected = new Signal<this, string>(this);
  /** A job's row was double-clicked. */
  readonly opened = new Signal<this, string>(this);
  readonly menuAsked = new Signal<this, { x: number; y: number }>(this);

  /** The job that is selected last. */
  get selection(): string {
    return this._selected;
  }

  /** All that are selected, in the list's order. */
  get selections(): string[] {
    const all = [...this.node.children].map(each => (each as HTMLElement).dataset.job!);
    return all.filter(id => id === this._selected || this._others.has(id));
  }

  /** The rows by their jobs. */
  get rows(): ReadonlyMap<string, HTMLElement> {
    return this._rows;
  }

  /** Show `rows`, in their order. */
  update(rows: Row[]): void {
    const gone = new Set(this._rows.keys());
    let before: Element | null = this.node.firstElementChild;
    for (const row of rows) {
      const node = this._rows.get(row.id) ?? this._make(row.id);
      gone.delete(row.id);
      fill(node, row);
      if (node === before) {
        before = before.nextElementSibling;
      } else {
        this.node.insertBefore(node, before);
      }
    }
    for (const id of gone) {
      this._rows.get(id)!.remove();
      this._rows.delete(id);
    }
    const known = [...this._others].filter(id => this._rows.has(id));
    if (this._selected && !this._rows.has(this._selected)) {
      this.select(known.pop() ?? '', known);
    } else if (known.length < this._others.size) {
      this.select(this._selected, known);
    }
  }

  /** Change the times alone. */
  tick(rows: Row[]): void {
    for (const row of rows) {
      const node = this._rows.get(row.id);
      if (node && row.ticking) {
        setText(node.querySelector('.submarine-Job-elapsed')!, row.elapsed);
      }
    }
  }

  /** Select a job, and `others` with it. */
  select(id: string, others: string[] = []): void {
    const node = this._rows.get(id);
    const before = new Set([this._selected, ...this._others]);
    this._selected = node ? id : '';
    this._others = new Set(others.filter(each => each !== id));
    const now = new Set([this._selected, ...this._others]);
    for (const each of new Set([...before, ...now])) {
      const selected = now.has(each);
      this._rows.get(each)?.setAttribute('aria-selected', String(selected));
    }
    node?.scrollIntoView({ block: 'nearest' });
    if (node) {
      this.node.setAttribute('aria-activedescendant', node.id);
    } else {
      this.node.removeAttribute('aria-activedescendant');
    }
    // The commands' shortcuts find the job by this attribute; of several they would take one.
    if (node && !this._others.size) {
      this.node.dataset.submarineJob = id;
    } else {
      delete this.node.dataset.submarineJob;
    }
    this.selected.emit(this._selected);
  }

  /** Select a job with those that are, or not any more. */
  private _toggle(id: string): void {
    const now = new Set(this.selections);
    if (!now.delete(id)) {
      this.select(id, [...now]);
    } else if (now.size) {
      this.select([...now].pop()!, [...now]);
    }
  }

  /** Select all rows from the first that was selected to this one. */
  private _reach(id: string): void {
    const ids = [...this.node.children].map(each => (each as HTMLElement).dataset.job!);
    if (!this._rows.has(this._from)) {
      this._from = this._selected || id;
    }
    const [from, to] = [ids.indexOf(this._from), ids.indexOf(id)];
    this.select(id, ids.slice(Math.min(from, to), Math.max(from, to) + 1));
  }

  private _make(id: string): HTMLElement {
    const node = element('div', 'submarine-Job', {
      role: 'option',
      id: `submarine-job-${this._number}-${id}`,
      'aria-selected': 'false'
    });
    node.dataset.job = id;
    const head = element('div', 'submarine-Job-head');
    head.append(
      element('span', 'submarine-Glyph', { 'aria-hidden': 'true' }),
      element('span', 'submarine-Job-name'),
      element('span', 'submarine-Job-elapsed')
    );
    const track = element('div', 'submarine-Bar submarine-Job-progress');
    track.append(element('div', 'submarine-Bar-fill'));
    node.append(
      head,
      element('div', 'submarine-Job-facts'),
      element('div', 'submarine-Job-facts submarine-Job-reason'),
      track
    );
    this._rows.set(id, node);
    return node;
  }

  private readonly _onKey = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.altKey || event.metaKey) {
      return;
    }
    const ids = [...this.node.children].map(each => (each as HTMLElement).dataset.job!);
    const now = ids.indexOf(this._selected);
    const steps: Record<string, number> = {
      ArrowDown: now + 1,
      ArrowUp: now < 0 ? ids.length - 1 : now - 1,
      Home: 0,
      End: ids.length - 1,
      PageDown: now + PAGE,
      PageUp: now - PAGE
    };
    const menu = event.key === 'ContextMenu' || (event.shiftKey && event.key === 'F10');
    if (menu && this._selected) {
      const place = this._rows.get(this._selected)!.getBoundingClientRect();
      this.menuAsked.emit({ x: place.left + 24, y: place.top + 16 });
    } else if (event.key in steps && ids.length) {
      const next = ids[Math.min(ids.length - 1, Math.max(0, steps[event.key]))];
      if (event.shiftKey) {
        this._reach(next);
      } else {
        this._from = next;
        this.select(next);
      }
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  };

  private readonly _onMouse = (event: MouseEvent) => {
    const id = this._at(event);
    const several = event.ctrlKey || event.metaKey;
    if (id && event.button === 2 && this.selections.includes(id)) {
      return; // the menu is about all that are selected
    }
    if (id && several) {
      this._toggle(id);
      this._from = id;
    } else if (id && event.shiftKey) {
      event.preventDefault(); // selects no text
      this.node.focus();
      this._reach(id);
    } else if (id) {
      this._from = id;
      this.select(id);
    }
  };

  private readonly _onMenu = (event: MouseEvent) => {
    event.preventDefault();
    event.stopPropagation();
    if (this._at(event)) {
      this.menuAsked.emit({ x: event.clientX, y: event.clientY });
    }
  };

  private _at(event: Event): string {
    const node = (event.target as Element).closest<HTMLElement>('.submarine-Job');
    return node?.dataset.job ?? '';
  }

  private readonly _number = lists++;
  private readonly _rows = new Map<string, HTMLElement>();
  private _selected = '';
  private _others = new Set<string>();
  /** Where a range begins. */
  private _from = '';
}

function fill(node: HTMLElement, row: Row): void {
  setAttribute(node, 'data-state', row.state);
  setAttribute(node, 'aria-label', row.label);
  setAttribute(node, 'title', row.title);
  setText(node.querySelector('.submarine-Glyph')!, row.glyph);
  setText(node.querySelector('.submarine-Job-name')!, row.name);
  setText(node.querySelector('.submarine-Job-elapsed')!, row.elapsed);
  setText(node.querySelector('.submarine-Job-facts')!, row.facts.join(' · '));
  setText(node.querySelector('.submarine-Job-reason')!, row.reason);
  const track = node.querySelector<HTMLElement>('.submarine-Job-progress')!;
  track.hidden = row.progress === null;
  const width = `${100 * (row.progress ?? 0)}%`;
  (track.firstElementChild as HTMLElement).style.width = width;
}
