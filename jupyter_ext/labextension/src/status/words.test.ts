import { describe, expect, it } from 'vitest';

import type { ClusterView } from '../types';
import { statusWords } from './words';

const LOCAL: ClusterView = { name: 'local', total: 8, free: 3, error: '', shares: [], gpus: [] };

describe('statusWords', () => {
  const words = (...clusters: ClusterView[]) => statusWords({ now: 0, clusters, jobs: [] });

  it('counts', () => {
    expect(words(LOCAL).text).toBe('3/8 GPUs free');
    expect(words({ ...LOCAL, free: 0, total: 1 }).text).toBe('0/1 GPU free');
  });

  it('says nothing where there is nothing', () => {
    expect(statusWords(null).text).toBe('');
    expect(words().text).toBe('');
    expect(words({ ...LOCAL, total: 0, free: 0 }).text).toBe('');
    expect(words({ ...LOCAL, error: 'it does not answer' }).text).toBe('');
  });

  it('names the cluster where there are several, and tells of all', () => {
    const yarn = { ...LOCAL, name: 'yarn', error: 'no ResourceManager answers' };
    const bare = { ...LOCAL, name: 'bare', total: 0, free: 0 };
    expect(words(yarn, bare, LOCAL).text).toBe('3/8 GPUs free');
    const two = words(LOCAL, { ...LOCAL, name: 'big', total: 64, free: 1 }, yarn);
    expect(two.text).toBe('3/8 GPUs free on local');
    expect(two.title.split('\n')).toEqual([
      'local: 3 of 8 GPUs free',
      'big: 1 of 64 GPUs free',
      'yarn: no ResourceManager answers',
      'Click for jobs'
    ]);
  });
});
