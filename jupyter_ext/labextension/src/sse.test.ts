import { describe, expect, it } from 'vitest';

import { EventParser } from './sse';

describe('EventParser', () => {
  it('gives whole events, however the text is cut', () => {
    const text = ': hello\n\nevent: card\ndata: {"a":\ndata: 1}\nid: 7\n\nevent: end\ndata: {}\n\n';
    for (let cut = 0; cut <= text.length; cut++) {
      const parser = new EventParser();
      const found = [...parser.feed(text.slice(0, cut)), ...parser.feed(text.slice(cut))];
      expect(found).toEqual([
        { kind: 'card', data: '{"a":\n1}', id: '7' },
        { kind: 'end', data: '{}', id: '' }
      ]);
    }
  });
});
