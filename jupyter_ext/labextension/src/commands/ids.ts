/** The commands' names: shortcuts, menus and toolbars in `schema/` use the same. */

export const SHOW_PANEL = 'submarine:show-panel';
export const FIRST_JOB = 'submarine:first-job';
export const NOTIFY = 'submarine:allow-notifications';
export const RUN_AS_JOB = 'submarine:run-as-job';
export const TOGGLE_RUN = 'submarine:toggle-run';
export const SHOW_LOG = 'submarine:show-log';
export const CANCEL = 'submarine:cancel';
export const KILL = 'submarine:kill';
export const ATTACH = 'submarine:attach';
export const INSERT_ATTACH = 'submarine:insert-attach';
export const TENSORBOARD = 'submarine:tensorboard';
export const TENSORBOARD_ALL = 'submarine:tensorboard-all';
/** `{logdir}`; the card's own, in no menu. */
export const TENSORBOARD_FOLDER = 'submarine:tensorboard-folder';
export const METRICS = 'submarine:show-metrics';
/** `{jobs}`. */
export const COMPARE = 'submarine:compare-jobs';
export const STACKS = 'submarine:show-stacks';
export const TERMINAL = 'submarine:open-terminal';
export const OPEN_NOTEBOOK = 'submarine:open-notebook';
/** `{cwd}`: the folder that the launcher is in. */
export const NEW_NOTEBOOK = 'submarine:new-notebook';
export const PORT = 'submarine:open-port';
export const SHOW_SCRIPT = 'submarine:show-script';
export const COPY_ID = 'submarine:copy-id';
export const GO_TO_CELL = 'submarine:go-to-cell';

/** `{path}`: of a notebook, or of a flow's folder; that of the current notebook where left out. */
export const SHOW_FLOW = 'submarine:show-flow';
/** `{notebook, cell, number}`; the flow's own, in no menu. */
export const GO_TO_FLOW_CELL = 'submarine:go-to-flow-cell';

/** The log view's own command, `{job}`. */
export const OPEN_LOG = 'submarine:open-log';

/** What is done to one job, in the order of buttons and menus; groups are set apart. */
export const JOB_GROUPS = [
  [SHOW_LOG, METRICS, GO_TO_CELL, OPEN_NOTEBOOK, STACKS, TERMINAL, PORT, TENSORBOARD, SHOW_SCRIPT],
  [COMPARE],
  [ATTACH, INSERT_ATTACH, COPY_ID],
  [CANCEL, KILL]
];
