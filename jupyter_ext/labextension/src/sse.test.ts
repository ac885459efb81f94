import { afterEach, describe, expect, it, vi } from 'vitest';

import { EventParser, readEvents, SILENCE } from './sse';

afterEach(() => vi.useRealTimers());

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

it('gives up a stream that says nothing any more, and tells the other side', async () => {
  vi.useFakeTimers();
  const told: { stream?: ReadableStreamDefaultController<Uint8Array> } = {};
  const cancel = vi.fn();
  const body = new ReadableStream<Uint8Array>({ start: each => void (told.stream = each), cancel });
  const read = (async () => {
    const found = [];
    for await (const event of readEvents(new Response(body))) {
      found.push(event.kind);
    }
    return found;
  })();
  const ended = expect(read).rejects.toThrow('silent');
  for (let beat = 0; beat < 5; beat++) {
    told.stream!.enqueue(new TextEncoder().encode(': nothing new\n\n'));
    await vi.advanceTimersByTimeAsync(SILENCE - 1);
  }
  expect(cancel).not.toHaveBeenCalled();
  await vi.advanceTimersByTimeAsync(1);
  await ended;
  expect(cancel).toHaveBeenCalledOnce();
});
