/** Where the first notebook goes. */

import { PathExt } from '@jupyterlab/coreutils';
import type { INotebookContent } from '@jupyterlab/nbformat';
import type { Contents, ServerConnection } from '@jupyterlab/services';

export const FILE = 'first-job.ipynb';

/**
 * Put the notebook into `folder`, and return its path. One that is there is left as it is: its reader
 * has come back to it.
 */
export async function placed(
  contents: Pick<Contents.IManager, 'get' | 'save'>,
  folder: string,
  fetch: () => Promise<INotebookContent>
): Promise<string> {
  const path = PathExt.join(folder, FILE);
  const there = await contents.get(path, { content: false }).catch((error: unknown) => {
    // Any other failure may pass, and what is there would be overwritten.
    if ((error as Partial<ServerConnection.ResponseError>).response?.status !== 404) {
      throw error;
    }
    return null;
  });
  if (!there) {
    const content = await fetch();
    await contents.save(path, { type: 'notebook', format: 'json', content });
  }
  return path;
}
