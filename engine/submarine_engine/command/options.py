"""Every option, once: its name, what its value is, and its help.

``job run`` is Hadoop Submarine's own (the names with underscores are from the Quick Start Guide of
``hadoop-yarn-submarine`` 3.2), with short forms for people.
"""

from __future__ import annotations

from submarine_engine.command import values
from submarine_engine.command.model import NOTEBOOK, TERMINAL, Option

_TERMINAL = frozenset({TERMINAL})
_NOTEBOOK = frozenset({NOTEBOOK})

_JOB = "The job"
_RESOURCES = "Resources of each worker"
_ROLES = "Roles"
_HOW = "How to run it"
_COMMON = "Everywhere"

HELP = Option(name="help", short="h", help="Show the help of the verb.", group=_COMMON)
JSON = Option(
    name="json",
    help="Write JSON for programs: one object a line.",
    group=_COMMON,
    surfaces=_TERMINAL,
)
VERBOSE = Option(
    name="verbose",
    help="Show the traceback of an error too.",
    group=_COMMON,
    surfaces=_TERMINAL,
)
COMMON = (HELP, JSON, VERBOSE)

CLUSTER = Option(
    name="cluster",
    kind=values.CLUSTER,
    help="The cluster to ask; the configuration's `cluster` unless given.",
    group=_JOB,
)

RUN = (
    Option(
        name="name",
        kind=values.NAME,
        help="What people call the job; from the script, cell or notebook unless given.",
        group=_JOB,
    ),
    CLUSTER,
    Option(name="queue", kind=values.NAME, help="The cluster's queue.", group=_JOB),
    Option(
        name="docker_image",
        kind=values.NAME,
        help="The image that containers start from, on clusters that have containers.",
        group=_JOB,
    ),
    Option(
        name="node_label",
        kind=values.NAME,
        help="Nodes to run on, by the cluster's label.",
        group=_JOB,
    ),
    Option(
        name="priority",
        kind=values.COUNT,
        help="Its priority in the queue; higher comes first.",
        group=_JOB,
    ),
    Option(
        name="input_path",
        kind=values.PATH,
        help="Where the data is; the code finds it in SUBMARINE_INPUT_PATH.",
        group=_JOB,
    ),
    Option(
        name="checkpoint_path",
        kind=values.PATH,
        help="Where checkpoints are kept; the code finds it in SUBMARINE_CHECKPOINT_PATH.",
        group=_JOB,
    ),
    Option(
        name="env",
        kind=values.SETTING,
        repeat=True,
        help="An environment variable of every task; repeat it for more.",
        group=_JOB,
    ),
    Option(
        name="tensorboard",
        switch=True,
        help="Run TensorBoard beside the job.",
        group=_JOB,
    ),
    Option(
        name="quicklink",
        kind=values.LINK,
        repeat=True,
        help="A link that the job card shows; repeat it for more.",
        group=_JOB,
    ),
    Option(
        name="gpus",
        kind=values.COUNT,
        help="GPUs; one where the cluster has any, unless given. 0 for none.",
        group=_RESOURCES,
    ),
    Option(
        name="memory",
        kind=values.MEMORY,
        help="Memory: 8G, 512M, or a number of mebibytes.",
        group=_RESOURCES,
    ),
    Option(name="cpus", kind=values.COUNT, help="Virtual cores.", group=_RESOURCES),
    Option(
        name="worker_resources",
        kind=values.RESOURCES,
        help="All three in one: memory=8G,vcores=2,gpu=2.",
        group=_RESOURCES,
    ),
    Option(
        name="num_workers",
        kind=values.COUNT,
        help="Number of workers; 1 unless given.",
        group=_ROLES,
    ),
    Option(
        name="worker_launch_cmd",
        kind=values.COMMAND,
        help="A shell command to run in each worker in place of the script.",
        group=_ROLES,
    ),
    Option(
        name="num_ps",
        kind=values.COUNT,
        help="Number of parameter servers; 0 unless given.",
        group=_ROLES,
    ),
    Option(
        name="ps_resources",
        kind=values.RESOURCES,
        help="Resources of each parameter server: memory=4G,vcores=1.",
        group=_ROLES,
    ),
    Option(
        name="ps_launch_cmd",
        kind=values.COMMAND,
        help="A shell command to run in each parameter server in place of the script.",
        group=_ROLES,
    ),
    Option(
        name="mode",
        kind=values.NAME,
        help="On YARN: warm (an application kept for the notebook), cold (one of its own) or auto.",
        group=_HOW,
    ),
    Option(
        name="environment",
        kind=values.PATH,
        help="Where its Python comes from on a cluster: same, pack, or an archive's path.",
        group=_HOW,
    ),
    Option(
        name="isolation",
        kind=values.NAME,
        help="Locally: fresh (a process of its own) or shared (forked where imports are done).",
        group=_HOW,
    ),
    Option(
        name="detach",
        help="Return at once; the job goes on by itself.",
        group=_HOW,
    ),
    Option(
        name="wait_job_finish",
        help="Wait for the job to end. It is what happens without --detach anyway.",
        group=_HOW,
    ),
    Option(
        name="output",
        short="o",
        kind=values.VARIABLE,
        repeat=True,
        names=True,
        help="Variables of the script to bring back: history, or model,history; or none.",
        group=_HOW,
    ),
    Option(
        name="dry-run",
        help="Show the script and what would be asked for; ask for nothing.",
        group=_HOW,
    ),
    Option(
        name="capture-limit",
        kind=values.SIZE,
        help="The most that values captured from the notebook may take; 64M unless configured.",
        group=_HOW,
        surfaces=_NOTEBOOK,
    ),
)

_NAMED = Option(
    name="name", kind=values.NAME, help="What the cluster is called; yarn unless given."
)

CLUSTER_UP = (
    Option(
        name="gpus",
        kind=values.COUNT,
        help="GPUs of each node; this machine's own, or four declared ones, unless given.",
    ),
    Option(name="nodes", kind=values.COUNT, help="NodeManagers; one unless given."),
    Option(name="hdfs", switch=True, help="Whether there is an HDFS; there is unless false."),
    Option(name="no-hdfs", help="No HDFS: the cluster's files are this machine's."),
    _NAMED,
)

CLUSTER_NAMED = (_NAMED,)

CLUSTER_LOGS = (
    _NAMED,
    Option(name="follow", short="f", help="Go on until Ctrl-C."),
)

LIST = (
    Option(name="all", help="List every job on record; the newest 20 otherwise."),
    Option(name="limit", kind=values.COUNT, help="List that many of the newest jobs."),
)

LOGS = (
    Option(name="follow", short="f", help="Go on until the job is over."),
    Option(name="stdout", help="Only what the job wrote to stdout."),
    Option(name="stderr", help="Only what the job wrote to stderr."),
    Option(name="task", kind=values.TASK, help="Only that task's log: worker-0."),
    Option(
        name="offset",
        kind=values.BYTES,
        help="Begin at that byte of each log; 0 unless given.",
    ),
)

ATTACH = (
    Option(
        name="offset",
        kind=values.BYTES,
        help="Begin at that byte of each log; 0 unless given.",
    ),
)

WAIT = (
    Option(
        name="timeout",
        kind=values.SECONDS,
        help="Give up after that long (90, 10m, 2h); the job goes on.",
    ),
)

TENSORBOARD = (
    Option(name="all", help="Over all jobs, those to come too; so without jobs and folders."),
    Option(
        name="logdir",
        kind=values.PATH,
        repeat=True,
        help="Over a folder of events, or an address in HDFS; repeat it for more.",
    ),
    Option(name="list", help="List the TensorBoards that run."),
    Option(name="stop", help="End the one that is named so; without jobs and folders, all."),
)
