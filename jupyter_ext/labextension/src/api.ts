/** The server's REST routes, asked with Jupyter's own authentication. */

import { URLExt } from '@jupyterlab/coreutils';
import type { IRenderMime } from '@jupyterlab/rendermime-interfaces';
import { ServerConnection } from '@jupyterlab/services';

import type {
  Compared,
  FlowCard,
  FormField,
  Found,
  JobMetrics,
  LineAt,
  Lines,
  Looking,
  NotebookStand,
  Overview,
  Shown,
  Spark,
  StacksTold,
  TrialsShown
} from './types';
import { sentence } from './words';

/** Of a line in a chart, which has not more pixels across; its extremes are there all the same. */
const POINTS = 500;
const UNREACHABLE = 'Server unreachable';
/** Too slow, too early, too often; 424 is JupyterHub's for a server that is not up. */
const PASSING = new Set([408, 424, 425, 429]);

/** What happened, where, and what to do next, in the server's words. */
export class ApiError extends Error {
  constructor(
    readonly what: string,
    readonly where = '',
    readonly fix = '',
    readonly status = 0
  ) {
    const told = where && !what.includes(where) ? `${what} (${where})` : what;
    super(sentence(fix ? `${told}. ${sentence(fix)}.` : told));
  }

  /** Whether it may do better later: a server that is begun again, a cluster that is silent. */
  get passes(): boolean {
    return this.status === 0 || this.status >= 500 || PASSING.has(this.status);
  }
}

export class Api {
  constructor(readonly settings: ServerConnection.ISettings = ServerConnection.makeSettings()) {}

  /** The address of a page or route of the extension; `path` begins below `/submarine/`. */
  url(path: string): string {
    return URLExt.join(this.settings.baseUrl, 'submarine', path);
  }

  /** Send a request; the answer is there, but not read. Throws an `ApiError`. */
  async request(path: string, init: RequestInit = {}): Promise<Response> {
    let response: Response;
    try {
      response = await ServerConnection.makeRequest(this.url(path), init, this.settings);
    } catch (error) {
      if (init.signal?.aborted) {
        throw error;
      }
      throw new ApiError(UNREACHABLE);
    }
    if (!response.ok) {
      const { status, statusText } = response;
      const told = (await response.json().catch(() => null)) ?? {};
      // A proxy's answer is HTML, and HTTP/2 has no words for a status.
      const what = told.what || told.message || statusText || `The server answered ${status}`;
      throw new ApiError(String(what), String(told.where ?? ''), String(told.fix ?? ''), status);
    }
    return response;
  }

  async get<T>(path: string, signal?: AbortSignal): Promise<T> {
    return (await this.request(path, { signal })).json();
  }

  async post<T>(path: string, body: unknown = {}): Promise<T> {
    const init = { method: 'POST', body: JSON.stringify(body) };
    return (await this.request(path, init)).json();
  }

  overview(): Promise<Overview> {
    return this.get('api/overview');
  }

  cancel(job: string): Promise<{ asked: boolean }> {
    return this.post(`api/jobs/${encodeURIComponent(job)}/cancel`);
  }

  kill(job: string): Promise<{ asked: boolean }> {
    return this.post(`api/jobs/${encodeURIComponent(job)}/kill`);
  }

  save(job: string, path: string): Promise<{ path: string }> {
    return this.post(`api/jobs/${encodeURIComponent(job)}/save`, { path });
  }

  /** Send JSON to a port inside a job, by the server's proxy: `to` is `PORT/PATH`. */
  async port(
    job: string,
    to: string,
    body: string
  ): Promise<{ ok: boolean; status: number; text: string; ms: number }> {
    const began = performance.now();
    const headers = { 'Content-Type': 'application/json' };
    const url = this.url(`proxy/${encodeURIComponent(job)}/${to}`);
    let response: Response;
    try {
      const init = { method: 'POST', body, headers };
      response = await ServerConnection.makeRequest(url, init, this.settings);
    } catch {
      throw new ApiError(UNREACHABLE);
    }
    const { ok, status } = response;
    return { ok, status, text: await response.text(), ms: Math.round(performance.now() - began) };
  }

  /** Ask each task of a running job where it stands. */
  stacks(job: string): Promise<StacksTold> {
    return this.post(`api/jobs/${encodeURIComponent(job)}/stacks`);
  }

  /** Trials of a sweep, as its card shows them. */
  trials(job: string, at: Looking): Promise<TrialsShown> {
    const flag = (value: boolean) => (value ? '1' : '0');
    const query = new URLSearchParams({
      every: flag(at.every),
      column: String(at.column),
      down: flag(at.down),
      start: String(at.start),
      open: String(at.open),
      pins: at.pins.join(',')
    });
    return this.get(`api/jobs/${encodeURIComponent(job)}/trials?${query}`);
  }

  /** What a job used and reported; of a part of the time in more detail. */
  metrics(job: string, from: number | null, to: number | null): Promise<JobMetrics> {
    const ms = (seconds: number | null) => Math.max(0, Math.round((seconds ?? 0) * 1000));
    const part = from === null || to === null ? '' : `&from=${ms(from)}&to=${ms(to)}`;
    return this.get(`api/jobs/${encodeURIComponent(job)}/metrics?points=${POINTS}${part}`);
  }

  /** A small curve of each job; null where there is nothing to draw. */
  async sparklines(jobs: string[]): Promise<Record<string, Spark | null>> {
    const told = await this.get<{ jobs: Record<string, Spark | null> }>(
      `api/sparklines?jobs=${jobs.map(encodeURIComponent).join(',')}`
    );
    return told.jobs;
  }

  compare(jobs: string[]): Promise<Compared> {
    return this.get(`api/compare?jobs=${jobs.map(encodeURIComponent).join(',')}`);
  }

  /** The last line of a task's log at a moment, in seconds since the epoch, and two around it. */
  lineAt(job: string, task: string, at: number): Promise<LineAt> {
    const time = Math.max(0, Math.floor(at * 1000));
    return this.get(`${logPath({ job, task, stream: 'all' })}/at?time=${time}&around=2`);
  }

  /** The flow of a notebook or folder, and its newest run unless that is named. */
  flow(path: string, run = ''): Promise<FlowCard> {
    const of = run ? `&run=${encodeURIComponent(run)}` : '';
    return this.get(`api/flows?path=${encodeURIComponent(path)}${of}`);
  }

  /** Build, run, cancel or retry a flow; answers with its card then. */
  flowDo(action: FlowAction, path: string, run = ''): Promise<FlowCard> {
    return this.post(`api/flows/${action}`, run ? { path, run } : { path });
  }

  async notebookForm(): Promise<FormField[]> {
    return (await this.get<{ fields: FormField[] }>('api/notebooks/form')).fields;
  }

  /** Start a Jupyter server on a cluster, as a job; its folder from the server's root. */
  startNotebook(folder: string, options: Record<string, string>): Promise<{ job: string }> {
    return this.post('api/notebooks', { folder, options });
  }

  /** Use a notebook on the cluster, so that it goes on. */
  keep(job: string): Promise<unknown> {
    return this.post(`api/jobs/${encodeURIComponent(job)}/notebook/keep`);
  }

  notebook(job: string): Promise<NotebookStand> {
    return this.get(`api/jobs/${encodeURIComponent(job)}/notebook`);
  }

  /** Open one of the server's terminals with a shell inside a running job. */
  terminal(job: string): Promise<{ name: string }> {
    return this.post(`api/jobs/${encodeURIComponent(job)}/terminal`);
  }

  /** Start a TensorBoard, or find the one that runs; `url` is relative to the base URL. */
  tensorboard(wanted: BoardWanted): Promise<{ id: string; url: string }> {
    return this.post('api/tensorboards', wanted);
  }

  /** Lines of a log by number; the last `count` ones where `start` is left out. */
  lines(log: LogName, count: number, start?: number, signal?: AbortSignal): Promise<Lines> {
    const from = start === undefined ? '' : `&start=${start}`;
    return this.get(`${logPath(log)}/lines?count=${count}${from}`, signal);
  }

  search(log: LogName, text: string, start: number, signal?: AbortSignal): Promise<Found> {
    const wanted = `text=${encodeURIComponent(text)}&start=${start}`;
    return this.get(`${logPath(log)}/search?${wanted}`, signal);
  }

  /** What a task shows now. */
  shown(job: string, task: string): Promise<Shown> {
    return this.get(`${logPath({ job, task, stream: 'all' })}/displays`);
  }

  /** One thing that a task shows, as a MIME bundle. */
  display(job: string, task: string, offset: number): Promise<Bundle> {
    return this.get(`${logPath({ job, task, stream: 'all' })}/display?offset=${offset}`);
  }

  /** Where a file that a job has left can be had; `path` as the server tells it. */
  artifactUrl(job: string, task: string, path: string): string {
    const [one, of] = [job, task].map(encodeURIComponent);
    return this.url(`api/jobs/${one}/artifacts/${of}/file?path=${encodeURIComponent(path)}`);
  }

  fileUrl(log: LogName): string {
    return this.url(`${logPath(log)}/file`);
  }
}

/** What a TensorBoard shows: jobs, all of them, or a folder. */
export interface BoardWanted {
  jobs?: string[];
  all?: boolean;
  logdir?: string;
}

export type FlowAction = 'build' | 'run' | 'cancel' | 'retry';

export interface LogName {
  job: string;
  task: string;
  /** `stdout`, `stderr`, or `all` for both in the order of writing. */
  stream: string;
}

export type Bundle = Pick<IRenderMime.IMimeModel, 'data' | 'metadata'>;

function logPath(log: LogName): string {
  const [job, task, stream] = [log.job, log.task, log.stream].map(encodeURIComponent);
  return stream === 'all'
    ? `api/jobs/${job}/output/${task}`
    : `api/jobs/${job}/logs/${task}/${stream}`;
}
