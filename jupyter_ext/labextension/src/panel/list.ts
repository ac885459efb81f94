/** The list of jobs: one is selected, by mouse or keys; rows are changed in place. */

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
    'aria-label': 'Jobs'
  });

  /** Emitted with the id of the selected job, empty for none. */
  readonly selected = new Signal<this, string>(this);
  /** A job's row was double-clicked. */
  readonly opened = new Signal<this, string>(this);
  readonly menuAsked = new Signal<this, { x: number; y: number }>(this);

  get selection(): string {
    return this._selected;
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
    if (this._selected && !this._rows.has(this._selected)) {
      this.select('');
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

  select(id: string): void {
    const node = this._rows.get(id);
    const last = this._rows.get(this._selected);
    last?.setAttribute('aria-selected', 'false');
    this._selected = node ? id : '';
    node?.setAttribute('aria-selected', 'true');
    node?.scrollIntoView({ block: 'nearest' });
    // The commands' shortcuts find the job by this attribute.
    if (node) {
      this.node.dataset.submarineJob = id;
      this.node.setAttribute('aria-activedescendant', node.id);
    } else {
      delete this.node.dataset.submarineJob;
      this.node.removeAttribute('aria-activedescendant');
    }
    this.selected.emit(this._selected);
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
    } else if (event.key in steps && ids.length && !event.shiftKey) {
      this.select(ids[Math.min(ids.length - 1, Math.max(0, steps[event.key]))]);
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  };

  private readonly _onMouse = (event: MouseEvent) => {
    const id = this._at(event);
    if (id) {
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
