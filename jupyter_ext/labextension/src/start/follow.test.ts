import { describe, expect, it } from 'vitest';

import { ApiError } from '../api';
import type { NotebookStand } from '../types';
import { follow } from './follow';

const stand = (state: string, waits = '', url = ''): NotebookStand => ({ state, waits, url });

function asked(answers: (NotebookStand | Error)[]) {
  const said: string[] = [];
  const ask = async () => {
    const next = answers.shift()!;
    if (next instanceof Error) {
      throw next;
    }
    return next;
  };
  return {
    said,
    url: follow(
      ask,
      words => said.push(words),
      async () => undefined
    )
  };
}

describe('follow', () => {
  it('says each reason once, and returns the address', async () => {
    const waits = stand('queued', '1 ahead in the queue');
    const { said, url } = asked([
      waits,
      waits,
      stand('running'),
      stand('running'),
      stand('running', '', 'proxy/x')
    ]);
    expect(await url).toBe('proxy/x');
    expect(said).toEqual([
      'The notebook on the cluster waits: 1 ahead in the queue',
      'The notebook on the cluster starts.'
    ]);
  });

  it('goes on past a server that does not answer, and ends with a job that has', async () => {
    const { url } = asked([
      new ApiError('Server unreachable'),
      new ApiError('it does not answer', '', '', 503),
      new ApiError('it ended', '', '', 409)
    ]);
    await expect(url).rejects.toThrow('It ended');
  });
});
