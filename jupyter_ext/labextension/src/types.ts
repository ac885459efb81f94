/** What the server sends: the same words as in Python's `submarine_magics.card.model`. */

export interface TaskView {
  role: string;
  task: string;
  host: string;
  state: string;
  detail: string;
  gpus: string;
  started: string;
  finished: string;
  progress: number | null;
  log_url: string | null;
}

export interface Stage {
  name: string;
  seconds: number;
  text: string;
  meaning: string;
  ticking: boolean;
}

export interface LedgerView {
  gpus: string;
  stages: Stage[];
  released: string;
}

export interface ScriptView {
  name: string;
  hash: string;
  text: string;
  lines: string;
  left_out: string;
}

export interface LogView {
  task: string;
  /** `all` is both, in the order of writing. */
  stream: 'all' | 'stdout' | 'stderr';
  size: number;
}

/** What a task shows besides its logs. */
export interface OutputView {
  task: string;
  /** Bytes of all that it has shown: another number tells that there is something new. */
  shown: number;
  /** When its code began, in seconds since the epoch. */
  began: number | null;
}

export interface Frame {
  cell: string;
  cell_id: string;
  line: number;
  function: string;
  text: string;
}

export interface Failure {
  type: string;
  message: string;
  frames: Frame[];
}

export interface Card {
  job_id: string;
  cluster: string;
  title: string;
  state: string;
  /** The state as it is shown; notebooks of older releases do not have it. */
  word?: string;
  glyph: string;
  final: boolean;
  elapsed: number;
  elapsed_text: string;
  ticking: boolean;
  as_of: string;
  facts: string[];
  sentence: string;
  error: boolean;
  progress: number | null;
  message: string;
  tasks: TaskView[];
  tasks_left_out: number;
  ledger: LedgerView;
  log_url: string | null;
  /** What its link is called; notebooks of older releases do not have it. */
  log_label?: string;
  log_path: string;
  log_command: string;
  script: ScriptView | null;
  links: [string, string][];
  quicklinks: [string, string][];
  now: number;
  running: boolean;
  logs: LogView[];
  /** Notebooks do not keep them. */
  outputs?: OutputView[];
  failure?: Failure | null;
  scalars?: Record<string, [number, number][]>;
  /** Whether there is something for TensorBoard to show, or there was asked for one. */
  tensorboard?: boolean;
  can_save?: boolean;
}

export interface Share {
  kind: string;
  name: string;
  free: number;
  total: number;
}

export interface ClusterView {
  name: string;
  total: number;
  free: number;
  error: string;
  shares: Share[];
  gpus: Record<string, unknown>[];
}

export interface JobSummary {
  id: string;
  cluster: string;
  name: string;
  state: string;
  reason: string;
  gpus: number;
  created: number | null;
  finished: number | null;
  notebook: string;
  cell: string;
  cell_id?: string;
  progress: number | null;
}

export interface Overview {
  now: number;
  clusters: ClusterView[];
  jobs: JobSummary[];
}

export interface Lines {
  total: number;
  size: number;
  start: number;
  lines: string[];
  /** Of both logs: 0 for a line of stdout, 1 for one of stderr. */
  streams?: number[];
  /** When each was written, in seconds since the epoch. */
  times?: (number | null)[];
}

/** What a task shows now: each thing with its place in the displays, and the lines before it. */
export interface Shown {
  displays: { offset: number; line: number }[];
  left_out: number;
}

export interface Found {
  lines: number[];
  next: number | null;
}
