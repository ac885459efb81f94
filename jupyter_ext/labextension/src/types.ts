/** What the server sends, as far as pages go by it. */

import type { Tree } from '../../../magics/submarine_magics/card/tree.js';

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

/** A job's card: what pages go by, and the tree that they draw. */
export interface Card {
  job_id: string;
  cluster: string;
  title: string;
  state: string;
  /** The state as it is shown; notebooks do not keep it. */
  word?: string;
  final: boolean;
  running: boolean;
  ticking: boolean;
  elapsed: number;
  as_of: string;
  sentence: string;
  now: number;
  logs: LogView[];
  /** Notebooks do not keep them. */
  outputs?: OutputView[];
  /** Whether it serves a notebook that can be opened now; notebooks do not keep it. */
  notebook?: boolean;
  /** That nobody uses what it serves, and when it ends; empty where that is not so. */
  notice?: string;
  tree: Tree;
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
  /** What it serves: `notebook`, `kernel`, …; empty for most jobs. */
  serves?: string;
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

/** Where the tasks of a job stood, in seconds since the epoch, and the elements that show it. */
export interface StacksTold {
  at: number;
  tree: Tree;
}

/** What a reader looks at among the trials of a sweep: `open` is a trial's number and 1, or 0. */
export interface Looking {
  every: boolean;
  column: number;
  down: boolean;
  start: number;
  pins: number[];
  open: number;
}

/** What the card draws in place of its own tables of trials. */
export interface TrialsShown {
  total: number;
  inside: Tree[];
}

/** A number over time: of each time the mean, and where they differ the least and the greatest. */
export interface ChartLine {
  task: string;
  label: string;
  /** Seconds since the epoch. */
  at: number[];
  mean: (number | null)[];
  /** Empty where all three are the same. */
  low: (number | null)[];
  high: (number | null)[];
}

/** What a job used and reported, as charts. */
export interface JobMetrics {
  id: string;
  name: string;
  state: string;
  final: boolean;
  /** When its code began, in seconds since the epoch. */
  began: number;
  now: number;
  /** How many tasks it has, and of how many these are. */
  tasks: number;
  shown: number;
  charts: { name: string; unit: string; reported: boolean; lines: ChartLine[] }[];
}

/** A small curve: what it is of, its last number in words, and how far it reaches. */
export interface Spark {
  name: string;
  last: string;
  points: [number, number][];
  least: number | null;
  most: number | null;
}

/** A row of a comparison: what each job has, null where it has none. */
export interface ComparedRow {
  name: string;
  values: (string | null)[];
  same: boolean;
}

/** Jobs beside each other; the code of each is compared with that of the first. */
export interface Compared {
  jobs: { id: string; name: string; state: string }[];
  same: boolean;
  code: { id: string; lines: [string, string][]; left_out: number }[];
  sections: { title: string; rows: ComparedRow[]; alike: number; left_out: number }[];
  unknown: string[];
}

/** The last line at a moment, and those around it. */
export interface LineAt extends Lines {
  line: number | null;
}

export interface Found {
  lines: number[];
  next: number | null;
}

/** The card of a flow and its newest run: what pages go by, and the tree that they draw. */
export interface FlowCard {
  name: string;
  /** Absolute; empty where it is not there any more. */
  notebook: string;
  folder: string;
  /** Empty where it has not run. */
  run: string;
  state: string;
  /** Whether it changes by itself. */
  going: boolean;
  now: number;
  tree: Tree;
}

/** A field of the dialog that asks for a notebook on the cluster: an option of the command. */
export interface FormField {
  key: string;
  /** What stands for its value: `N`, `TIME`. */
  value: string;
  help: string;
  /** What holds where nothing is chosen; empty where nobody can say. */
  standard: string;
  choices: string[];
  /** Whether it is folded in. */
  more: boolean;
}

/** How far a notebook on the cluster is: `url` is below the base URL, empty until it can be used. */
export interface NotebookStand {
  state: string;
  waits: string;
  url: string;
}
