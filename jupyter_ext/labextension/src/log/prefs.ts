/** How the reader wants logs, for all of them, also after a reload. */

import type { Times } from './times';

const KEY = 'submarine:log';

export interface Prefs {
  wrap: boolean;
  times: Times;
}

export const prefs: Prefs = read();

export function keepPrefs(change: Partial<Prefs>): void {
  Object.assign(prefs, change);
  try {
    localStorage.setItem(KEY, JSON.stringify(prefs));
  } catch {
    // A page that may keep nothing has its defaults.
  }
}

function read(): Prefs {
  try {
    const { wrap, times } = JSON.parse(localStorage.getItem(KEY) ?? '{}');
    const known = times === 'since' || times === 'clock';
    return { wrap: wrap === true, times: known ? times : '' };
  } catch {
    return { wrap: false, times: '' };
  }
}
