/** Who tells of an end, where a user has several tabs open: one of them, once. */

const KEY = 'submarine:told';
const MOST = 200;
const LATER = 1500; // ms that a tab which nobody sees leaves to one that somebody does

/** Return whether this tab is the one to tell of a job's end; no other is then. */
export async function claim(id: string, seen: boolean): Promise<boolean> {
  if (!seen) {
    await new Promise(done => setTimeout(done, LATER));
  }
  // Locks are there on https and on the user's own machine; without, two tabs may be as quick.
  return navigator.locks ? navigator.locks.request(KEY, () => take(id)) : take(id);
}

function take(id: string): boolean {
  try {
    const found: unknown = JSON.parse(localStorage.getItem(KEY) ?? '[]');
    const told = Array.isArray(found) ? found : [];
    if (told.includes(id)) {
      return false;
    }
    localStorage.setItem(KEY, JSON.stringify([...told.slice(1 - MOST), id]));
  } catch {
    // Storage is off, full, or holds something else: rather told twice than never.
  }
  return true;
}
