// @vitest-environment jsdom
import { ServerConnection } from '@jupyterlab/services';
import { describe, expect, it, vi } from 'vitest';

import { Api } from './api';

vi.hoisted(() => vi.stubGlobal('DragEvent', Event)); // jsdom has none, and Lumino derives from it

/** An API whose server gives one answer to all that is asked. */
function answered(body: string, init: ResponseInit): Api {
  const fetch = async () => new Response(body, init);
  return new Api(ServerConnection.makeSettings({ baseUrl: 'http://x/', fetch }));
}

describe('Api', () => {
  it('says what went wrong where the answer has no words of its own', async () => {
    const bare = answered('<html>', { status: 502, statusText: '' }); // as HTTP/2 has it
    await expect(bare.overview()).rejects.toThrow('The server answered 502');
    for (const empty of ['null', '{"message": ""}']) {
      const api = answered(empty, { status: 503, statusText: 'Service Unavailable' });
      await expect(api.overview()).rejects.toThrow('Service Unavailable');
    }
    const said = answered('{"what": "no YARN"}', { status: 503 });
    await expect(said.overview()).rejects.toThrow('No YARN');
  });

  it('asks a port inside a job below the address that a hub gives the server', async () => {
    const asked: Request[] = [];
    const fetch = async (request: RequestInfo | URL) => {
      asked.push(request as Request);
      return new Response('no', { status: 503 });
    };
    const baseUrl = 'http://hub.example/user/me/';
    const api = new Api(ServerConnection.makeSettings({ baseUrl, fetch }));
    const told = await api.port('j', '4711/v2/models/m/infer', '{}');
    expect([told.ok, told.status, told.text]).toEqual([false, 503, 'no']);
    const [address] = asked[0].url.split('?'); // Jupyter's own way past caches
    expect(address).toBe(`${baseUrl}submarine/proxy/j/4711/v2/models/m/infer`);
    expect(asked[0].method).toBe('POST');
    expect(await asked[0].text()).toBe('{}');
  });
});
