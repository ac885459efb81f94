import { describe, expect, it } from 'vitest';

import { pieces, plain } from './ansi';

describe('pieces', () => {
  it('keeps colours and bold, within their line', () => {
    expect(pieces('a\x1b[1;31mb\x1b[22mc\x1b[0md')).toEqual([
      { text: 'a', style: '' },
      { text: 'b', style: 'c1 bold' },
      { text: 'c', style: 'c1' },
      { text: 'd', style: '' }
    ]);
    expect(pieces('\x1b[38;5;9mx\x1b[39my')).toEqual([
      { text: 'x', style: 'c1' },
      { text: 'y', style: '' }
    ]);
    expect(pieces('\x1b[38;2;1;31;4mx')[0].style).toBe('');
  });

  it('drops every other sequence', () => {
    expect(plain('\x1b[2J\x1b[10;5Ha\x1b]8;;javascript:alert(1)\x07b\x1b]8;;\x1b\\c')).toBe('abc');
  });

  it('makes visible what is left of broken ones, and what reorders', () => {
    expect(plain('a\x1b[b')).not.toContain('\x1b');
    expect(plain('\x1b]0;never ends')).toBe('␛]0;never ends');
    expect(plain('a\u202eb\tc\x00')).toBe('a[U+202E]b\tc␀');
  });

  it('takes a long line of escapes in time', () => {
    expect(plain('\x1b]'.repeat(100_000))).toHaveLength(200_000);
  });
});
