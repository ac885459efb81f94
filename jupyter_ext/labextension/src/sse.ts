/** Server-sent events out of a response's body, so that they travel with Jupyter's own headers. */

export interface ServerEvent {
  kind: string;
  data: string;
  id: string;
}

/** Cuts a stream of text into events; what is not whole yet waits for the rest. */
export class EventParser {
  private _rest = '';

  feed(text: string): ServerEvent[] {
    const blocks = (this._rest + text).replace(/\r\n?/g, '\n').split('\n\n');
    this._rest = blocks.pop() ?? '';
    return blocks.map(parse).filter(event => event.data !== '' || event.kind !== 'message');
  }
}

// The server says every 15 s that there is nothing new: what is silent for longer is dead.
export const SILENCE = 40_000; // ms

/** Read events until the stream ends; rejects where the connection breaks, or falls silent. */
export async function* readEvents(response: Response): AsyncGenerator<ServerEvent> {
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  const parser = new EventParser();
  let silent = false;
  const give = () => {
    silent = true;
    reader.cancel().catch(() => undefined); // ends the reading
  };
  let timer: ReturnType<typeof setTimeout> | undefined;
  try {
    while (true) {
      timer = setTimeout(give, SILENCE);
      const { done, value } = await reader.read();
      clearTimeout(timer);
      if (silent) {
        throw new Error('The stream fell silent');
      }
      if (done) {
        return;
      }
      yield* parser.feed(value);
    }
  } finally {
    clearTimeout(timer);
    await reader.cancel().catch(() => undefined);
  }
}

function parse(block: string): ServerEvent {
  const event: ServerEvent = { kind: 'message', data: '', id: '' };
  const data: string[] = [];
  for (const line of block.split('\n')) {
    const [, field, value] = /^([^:]*):? ?(.*)$/.exec(line)!;
    if (field === 'event') {
      event.kind = value;
    } else if (field === 'data') {
      data.push(value);
    } else if (field === 'id') {
      event.id = value;
    }
  }
  event.data = data.join('\n');
  return event;
}
