/** How a notebook on the cluster gets on, asked again and again until it can be used. */

import { ApiError } from '../api';
import type { NotebookStand } from '../types';

const EVERY = 1000; // ms between two questions

/** Ask until there is an address, and return it; throws what has ended it. */
export async function follow(
  ask: () => Promise<NotebookStand>,
  say: (words: string) => void,
  wait: () => Promise<unknown> = () => new Promise(done => setTimeout(done, EVERY))
): Promise<string> {
  let said = '';
  for (;;) {
    const stand = await ask().catch((error: unknown) => {
      // A server that is begun again, or a cluster that is silent for a while, ends nothing.
      if (!(error instanceof ApiError && error.passes)) {
        throw error;
      }
      return null;
    });
    if (stand?.url) {
      return stand.url;
    }
    const words = stand && (stand.waits ? `The notebook on the cluster waits: ${stand.waits}` : '');
    if (words && words !== said) {
      say((said = words));
    } else if (stand && !words && said) {
      said = '';
      say('The notebook on the cluster starts.');
    }
    await wait();
  }
}
