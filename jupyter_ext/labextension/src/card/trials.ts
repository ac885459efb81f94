/** What a reader looks at among the trials of a sweep: asked of the server, kept over updates. */

import type { Tree } from '../../../../magics/submarine_magics/card/tree.js';
import type { Looking, TrialsShown } from '../types';
import { problem } from '../words';

const AGAIN = 2000; // ms: the log of a trial grows without any news of its sweep
const NOTHING: Looking = { every: false, column: 0, down: true, start: 0, pins: [], open: 0 };

export interface Asked {
  /** Asks the server. */
  ask: (at: Looking) => Promise<TrialsShown>;
  /** Called with what to draw, null for the card's own tables, and with what went wrong. */
  show: (inside: Tree[] | null, problem: string) => void;
}

export class Trials {
  constructor(private readonly _asked: Asked) {}

  /** What the reader looks at now. */
  get looking(): Looking {
    return this._at;
  }

  /** Do what a button of the tables asks for; return whether it is one of theirs. */
  act(action: string, data: DOMStringMap): boolean {
    const next = this._next(action, data);
    if (!next) {
      return false;
    }
    this._at = next;
    if (!this._looks) {
      this._asked.show(null, '');
    }
    void this.refresh();
    return true;
  }

  /** Ask anew, as the card has changed; one question at a time, and one more for what came since. */
  async refresh(): Promise<void> {
    if (!this._looks || this._stopped) {
      return;
    }
    if (this._busy) {
      this._again = true;
      return;
    }
    this._busy = true;
    do {
      this._again = false;
      const at = this._at;
      try {
        const { inside } = await this._asked.ask(at);
        // Of what the reader has left meanwhile nothing is shown.
        if (at === this._at && !this._stopped) {
          this._asked.show(inside, '');
        }
      } catch (error) {
        if (at === this._at && !this._stopped) {
          this._asked.show(null, problem(error));
        }
      }
    } while (this._again && this._looks && !this._stopped);
    this._busy = false;
  }

  /** Follow the log of an open trial while the sweep goes on. */
  follow(goesOn: boolean): void {
    clearInterval(this._timer);
    if (goesOn && this._at.open && !this._stopped) {
      this._timer = setInterval(() => void this.refresh(), AGAIN);
    }
  }

  stop(): void {
    this._stopped = true;
    clearInterval(this._timer);
  }

  private get _looks(): boolean {
    const { every, pins, open } = this._at;
    return every || pins.length > 0 || open > 0;
  }

  private _next(action: string, data: DOMStringMap): Looking | null {
    const at = this._at;
    const trial = Number(data.trial);
    switch (action) {
      case 'sort':
        return {
          ...at,
          every: true,
          start: 0,
          column: Number(data.column),
          down: data.down === '1'
        };
      case 'every':
        return { ...at, every: !at.every, start: 0 };
      case 'page':
        return { ...at, start: Number(data.start) };
      case 'pin':
        return { ...at, pins: pinned(at.pins, trial) };
      case 'unpin':
        return { ...at, pins: [] };
      case 'trial':
        return { ...at, open: at.open === trial + 1 ? 0 : trial + 1 };
      default:
        return null;
    }
  }

  private _at: Looking = NOTHING;
  private _busy = false;
  private _again = false;
  private _stopped = false;
  private _timer: ReturnType<typeof setInterval> | undefined;
}

/** A trial is pinned, or not any more; of three the first one goes. */
function pinned(pins: number[], trial: number): number[] {
  return pins.includes(trial) ? pins.filter(one => one !== trial) : [...pins, trial].slice(-2);
}
