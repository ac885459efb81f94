"""Every verb, once: the whole surface of the terminal and of ``%submarine``."""

from __future__ import annotations

from submarine_engine.command import options, values, zeppelin
from submarine_engine.command.hadoop import REFUSED
from submarine_engine.command.model import NOTEBOOK, TERMINAL, Argument, Verb

_TERMINAL = frozenset({TERMINAL})
_NOTEBOOK = frozenset({NOTEBOOK})

_JOB = Argument(
    name="job",
    kind=values.JOB,
    help="The job: its id, the end of its id, or its name (the newest of that name).",
)
_JOBS = Argument(name="jobs", kind=values.JOB, help=_JOB.help, repeat=True)

RUN = Verb(
    path=("job", "run"),
    summary="Run code as a job with GPUs; follow it to its end.",
    details=(
        "In a terminal, SCRIPT is a Python file, or a folder whose Python files travel together "
        "(its main.py runs, unless --worker_launch_cmd says what does). Local modules that the "
        "code imports travel along. Without SCRIPT, the Python files that --worker_launch_cmd "
        "names do. In a notebook, the parts given by %%submarine.python are merged and run.\n\n"
        "Ctrl-C asks the job to end; a second one leaves at once."
    ),
    arguments=(
        Argument(
            name="script",
            kind=values.SCRIPT,
            help="A Python file, or a folder of Python files.",
            required=False,
            surfaces=_TERMINAL,
        ),
    ),
    rest="Arguments of the script, as it would get them from the shell.",
    options=(*options.RUN, *REFUSED),
    examples=(
        "job run train.py --gpus 2 --name mnist",
        "job run train.py --gpus 1 -- --epochs 10",
        'job run --worker_resources memory=8G,gpu=2 --worker_launch_cmd "python train.py"',
    ),
)

CLUSTER_VERBS = (
    Verb(
        path=("cluster", "up"),
        summary="Start a YARN cluster of your own on this machine; return when a job could run.",
        details=(
            "Real Hadoop daemons on loopback, from jars that Maven fetches once. What is up stays "
            "as it is, and what was interrupted is finished. The daemons stay until `cluster down`."
        ),
        options=options.CLUSTER_UP,
        surfaces=_TERMINAL,
        examples=("cluster up", "cluster up --gpus 2 --nodes 3 --name three"),
    ),
    Verb(
        path=("cluster", "env"),
        summary="Write what to set so that programs find the cluster, for `eval`.",
        options=options.CLUSTER_NAMED,
        surfaces=_TERMINAL,
        examples=("cluster env",),
    ),
    Verb(
        path=("cluster", "status"),
        summary="Show the cluster's daemons, and whether a job could run.",
        options=options.CLUSTER_NAMED,
        surfaces=_TERMINAL,
        examples=("cluster status",),
    ),
    Verb(
        path=("cluster", "logs"),
        summary="Write the log of a daemon, or list the logs.",
        arguments=(
            Argument(
                name="daemon",
                kind=values.DAEMON,
                help="resourcemanager, namenode, datanode or nodemanager-N.",
                required=False,
            ),
        ),
        options=options.CLUSTER_LOGS,
        surfaces=_TERMINAL,
        examples=("cluster logs", "cluster logs nodemanager-0 --follow"),
    ),
    Verb(
        path=("cluster", "down"),
        summary="End the cluster's daemons and jobs, and remove all of it.",
        options=options.CLUSTER_NAMED,
        surfaces=_TERMINAL,
        examples=("cluster down",),
    ),
)

VERBS = (
    RUN,
    Verb(
        path=("job", "list"),
        summary="List the jobs on record, newest first.",
        options=options.LIST,
        examples=("job list", "job list --all --json"),
    ),
    Verb(
        path=("job", "show"),
        summary="Show all about a job: state, tasks, GPU ledger, files.",
        arguments=(_JOB,),
        examples=("job show mnist",),
    ),
    Verb(
        path=("job", "logs"),
        summary="Write what a job has printed, byte for byte.",
        details="stdout and stderr go to this command's own stdout and stderr.",
        arguments=(_JOB,),
        options=options.LOGS,
        examples=("job logs mnist --follow", "job logs mnist --stderr --offset 1000"),
    ),
    Verb(
        path=("job", "attach"),
        summary="Follow a job from its first byte, as the command that started it does.",
        details="Ctrl-C leaves; the job goes on.",
        arguments=(_JOB,),
        options=options.ATTACH,
        examples=("job attach mnist",),
    ),
    Verb(
        path=("job", "wait"),
        summary="Wait for the end of a job, in silence.",
        arguments=(_JOB,),
        options=options.WAIT,
        examples=("job wait mnist --timeout 2h",),
    ),
    Verb(
        path=("job", "fetch"),
        summary="Bring variables of a cell's job into this notebook.",
        details=(
            "A cell's variables come home by themselves as far as they are small (the setting "
            "return_limit); this brings the others, or those of a cell that ran elsewhere."
        ),
        arguments=(
            _JOB,
            Argument(name="variables", kind=values.VARIABLE, help="Their names.", repeat=True),
        ),
        surfaces=_NOTEBOOK,
        examples=("job fetch mnist model history",),
    ),
    Verb(
        path=("job", "cancel"),
        summary="Ask jobs to end: SIGTERM, then, after a grace, SIGKILL.",
        arguments=(_JOBS,),
        examples=("job cancel mnist",),
    ),
    Verb(
        path=("job", "kill"),
        summary="End jobs at once: SIGKILL to all of their processes.",
        arguments=(_JOBS,),
        examples=("job kill mnist",),
    ),
    Verb(
        path=("job", "save"),
        summary="Save the model of a running job now, while its training goes on.",
        details=(
            "The function that the training code gave to submarine_runtime.on_save writes it; "
            "where there is none, the last complete checkpoint of --checkpoint_path is copied. "
            "PATH is a new folder of this machine, or hdfs://… where the cluster has HDFS; "
            "without it, one is made here, named after the job and the time."
        ),
        arguments=(
            _JOB,
            Argument(
                name="path",
                kind=values.PATH,
                help="A new folder for the model's files.",
                required=False,
            ),
        ),
        options=options.WAIT,
        examples=("job save mnist", "job save mnist models/epoch-3 --timeout 10m"),
    ),
    *CLUSTER_VERBS,
    *zeppelin.VERBS,
    Verb(
        path=("gpus",),
        summary="List the GPUs and the jobs that hold them.",
        options=(options.CLUSTER,),
        examples=("gpus",),
    ),
    Verb(
        path=("tensorboard",),
        summary="Open TensorBoard over one, some or all jobs.",
        details=(
            "It reads what jobs write to the folder $SUBMARINE_LOGDIR, and below their checkpoint "
            "path. Its process holds no GPU, outlives the jobs, and ends some time after its last "
            "reader (the setting tensorboard_idle)."
        ),
        arguments=(
            Argument(name="jobs", kind=values.JOB, help=_JOB.help, required=False, repeat=True),
        ),
        options=options.TENSORBOARD,
        examples=("tensorboard mnist", "tensorboard --all", "tensorboard --stop mnist"),
    ),
    Verb(
        path=("script",),
        summary="Show the script of the last job, or of the parts given so far.",
        surfaces=_NOTEBOOK,
        examples=("script",),
    ),
    Verb(
        path=("use",),
        summary="Choose the cluster that this notebook's jobs go to.",
        arguments=(Argument(name="cluster", kind=values.CLUSTER, help="The cluster's name."),),
        surfaces=_NOTEBOOK,
        examples=("use local",),
    ),
    Verb(
        path=("config", "show"),
        summary="Show every setting, its value, and where that came from.",
        surfaces=_TERMINAL,
        examples=("config show",),
    ),
    Verb(
        path=("doctor",),
        summary="Check what a job needs on this machine, with the way out where it is missing.",
        options=(options.CLUSTER,),
        examples=("doctor",),
    ),
    Verb(
        path=("version",),
        summary="Say which release this is.",
        surfaces=_TERMINAL,
        examples=("version",),
    ),
    Verb(
        path=("help",),
        summary="Show the help of all verbs, or of one.",
        arguments=(
            Argument(
                name="about",
                kind=values.VERB,
                help="The verb: job run.",
                required=False,
                repeat=True,
            ),
        ),
        examples=("help job run",),
    ),
)

GROUPS = {
    "job": "Run jobs, and look after them.",
    "cluster": "Have a YARN cluster of your own on this machine.",
    "zeppelin": "Have %submarine in Apache Zeppelin.",
    "config": "See the configuration.",
}


def verbs(surface: str | None = None) -> tuple[Verb, ...]:
    """Return the verbs of a surface (``terminal``, ``notebook``), or all."""
    return tuple(verb for verb in VERBS if surface is None or surface in verb.surfaces)
