import { describe, expect, it } from 'vitest';

import { isTagged, optionsOf, toggled } from './tag';

describe('the tag', () => {
  it('is found as the kernel finds it', () => {
    expect(isTagged(['x', 'submarine'])).toBe(true);
    expect(isTagged(['submarine: --gpus 2'])).toBe(true);
    expect(isTagged(['submarines', 'x:submarine'])).toBe(false);
    expect([undefined, null, 'submarine', [1, {}]].map(isTagged)).toEqual(Array(4).fill(false));
  });

  it('gives options', () => {
    expect(optionsOf(['submarine', 'submarine:--gpus=2', 'submarine: --name a:b', 'c'])).toBe(
      '--gpus=2 --name a:b'
    );
  });

  it('comes and goes, and leaves the others', () => {
    expect(toggled(undefined)).toEqual(['submarine']);
    expect(toggled(['a', 'submarine:--gpus=2', 'b'])).toEqual(['a', 'b']);
    expect(toggled(['a'], ['submarine:--gpus=2'])).toEqual(['a', 'submarine:--gpus=2']);
  });
});
