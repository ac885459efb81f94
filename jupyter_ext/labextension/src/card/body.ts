/** The card itself in the page: drawn from its tree, with times that go on. */

import { Widget } from '@lumino/widgets';

import {
  build,
  change,
  patch,
  tick,
  type Tree
} from '../../../../magics/submarine_magics/card/tree.js';
import type { Card } from '../types';
import { changes, type Ui } from './ui';

const BEAT = 1000; // ms

export class CardBody extends Widget {
  /** @param act - called with what was clicked: its `data-action`, or `submit-save`, `submit-try`. */
  constructor(private readonly _act: (action: string, element: HTMLElement) => void) {
    super();
    this.addClass('submarine-CardBody');
    this.node.addEventListener('click', event => {
      const found = (event.target as HTMLElement).closest<HTMLElement>('[data-action]');
      if (found && !found.hasAttribute('disabled')) {
        this._act(found.dataset.action!, found);
      }
    });
    this.node.addEventListener('keydown', event => {
      const field = event.target as HTMLInputElement;
      const { form } = field;
      // A text of several lines has Enter for itself, and is sent as cells are run: with Ctrl.
      const sends = field.localName !== 'textarea' || event.ctrlKey || event.metaKey;
      const isEnter = event.key === 'Enter' && !event.isComposing;
      if (isEnter && sends && form instanceof HTMLFormElement) {
        event.preventDefault();
        form.requestSubmit();
      }
    });
    this.node.addEventListener('submit', event => {
      event.preventDefault();
      const form = event.target as HTMLElement;
      this._act(form.dataset.slot === 'try' ? 'submit-try' : 'submit-save', form);
    });
  }

  /** Draw a card; `made` is when it was so, null where nobody knows. */
  draw(card: Card, ui: Ui, made: number | null): void {
    const next = change(card.tree, changes(card, ui));
    if (this._shown) {
      patch(this.node.firstChild!, this._shown, next);
    } else {
      this.node.replaceChildren(build(next));
    }
    this._shown = next;
    this._drawn = made ?? this._drawn;
    this._tick(card.ticking);
  }

  protected override onAfterAttach(): void {
    this._timer = setInterval(() => this._tick(this._ticking), BEAT);
  }

  protected override onBeforeDetach(): void {
    clearInterval(this._timer);
  }

  private _tick(ticking: boolean): void {
    this._ticking = ticking;
    if (!ticking) {
      return;
    }
    tick(this.node, Math.max(0, (Date.now() - this._drawn) / 1000));
  }

  private _shown: Tree | null = null;
  private _drawn = Date.now();
  private _ticking = false;
  private _timer: ReturnType<typeof setInterval> | undefined;
}
