import { describe, expect, it, vi } from 'vitest';

import { placed } from './place';

const NOTEBOOK = { cells: [], metadata: {}, nbformat: 4, nbformat_minor: 5 };

describe('the first notebook', () => {
  it('is put where its reader is', async () => {
    const save = vi.fn().mockResolvedValue({});
    const get = vi.fn().mockRejectedValue({ response: { status: 404 } });
    const path = await placed({ get, save }, 'work', async () => NOTEBOOK);
    expect(path).toBe('work/first-job.ipynb');
    expect(save).toHaveBeenCalledWith(path, {
      type: 'notebook',
      format: 'json',
      content: NOTEBOOK
    });
  });

  it('is not written where nobody knows whether it is there', async () => {
    const save = vi.fn();
    const failures = [{ response: { status: 504 } }, new TypeError('Failed to fetch')];
    for (const failure of failures) {
      const get = vi.fn().mockRejectedValue(failure);
      await expect(placed({ get, save }, '', async () => NOTEBOOK)).rejects.toBe(failure);
    }
    expect(save).not.toHaveBeenCalled();
  });

  it('is left as it is where it is there', async () => {
    const save = vi.fn();
    const fetch = vi.fn();
    const path = await placed({ get: vi.fn().mockResolvedValue({}), save }, '', fetch);
    expect(path).toBe('first-job.ipynb');
    expect([save, fetch].map(each => each.mock.calls.length)).toEqual([0, 0]);
  });
});
