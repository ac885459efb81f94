"""Every verb, once: the whole surface of the terminal and of ``%submarine``.

Verbs of one cluster are declared by that cluster: see `submarine_engine.declared`.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import partial
from importlib import import_module

from submarine_engine.command import options
from submarine_engine.command.grammar import Group, Verb, verbs_of
from submarine_engine.command.options import (
    IN_NOTEBOOK,
    IN_TERMINAL,
    Argument,
    Front,
    Kind,
    Option,
    starting,
)
from submarine_engine.declared import declared


def _verbs(_: Front, text: str) -> list[str]:
    return starting((verb.path[0] for verb in VERBS), text)


VERB = Kind("VERB", candidates=_verbs)

_in_terminal = partial(Verb, surfaces=IN_TERMINAL)

_JOB_HELP = "The job: its id, the end of its id, or its name (the newest of that name)."
_JOB = Argument("job", options.JOB, _JOB_HELP)
_JOBS = Argument("jobs", options.JOB, _JOB_HELP, repeat=True)
_OFFSET = Option("offset", options.BYTES, "Begin at that byte of each log; 0 unless given.")
_TIMEOUT = Option(
    "timeout", options.SECONDS, "Give up after that long (90, 10m, 2h); the job goes on."
)
_INSIDE = Option(
    "task", options.TASK, "Inside that task: worker-1. The one of rank 0 unless given.",
    meant_by=("rank",),
)  # fmt: skip
_SWEEP = Argument(
    "sweep",
    options.NAME,
    "The sweep: its name (the newest of that name), its id, or the id of a job that ran it.",
)
_OF_TASK = Option(
    "task",
    options.TASK,
    "Of several tasks that one: worker-2. The first that failed unless given.",
    meant_by=("logs", "rank"),
)
_MODEL = Argument("model", options.PATH, "The model: a folder in MLflow's format, or job:NAME.")
_SERVED = Argument(
    "serving", options.NAME, "What is served: its name, or the id of its front's job."
)
_PARAM = Option(
    "param", options.KINDS["setting"], "A parameter's value: day=2026-11-22. Repeat it for more.",
    repeat=True,
)  # fmt: skip
_PROJECT = Argument("project", options.NAME, "The project at Azkaban.")
_EXECUTION = Argument("execution", options.COUNT, "The execution's number.")
_MAIL = Option(
    "mail",
    options.NAME,
    "Whom Azkaban writes to of a failure; several by commas. As "
    "`flow build --mail` said unless given.",
)
_RUN_ID = Option("run", options.COMMAND, "Which run; the newest unless given.")
_ZEPPELIN_HOME = Option("zeppelin-home", options.PATH,
    "The folder that Zeppelin was unpacked to; ZEPPELIN_HOME unless given.")  # fmt: skip

RUN = Verb("job run", "Run code as a job with GPUs; follow it to its end.",
    Argument("script", options.PATH, "A Python file, or a folder of Python files.", required=False,
        surfaces=IN_TERMINAL),
    *options.RUN, *options.REFUSED, of_clusters=options.of_clusters,
    details="In a terminal, SCRIPT is a Python file, or a folder whose Python files travel "
        "together (its main.py runs, unless --worker_launch_cmd says what does). Local modules "
        "that the code imports travel along. Without SCRIPT, the Python files that "
        "--worker_launch_cmd names do. In a notebook, the parts given by %%submarine.python are "
        "merged and run.\n\n"
        "Ctrl-C asks the job to end; a second one leaves at once.",
    rest="Arguments of the script, as it would get them from the shell.",
    examples=("job run train.py --gpus 2 --name mnist", "job run train.py --gpus 1 -- --epochs 10",
        'job run --worker_resources memory=8G,gpu=2 --worker_launch_cmd "python train.py"'),
    run=".run:run")  # fmt: skip


def _group(where: str) -> Group:
    module, _, name = where.partition(":")
    found: Group = getattr(import_module(module), name)
    return found


_of_ours = [_group(said.verbs) for said in declared().values() if said.verbs]


def _of_others() -> dict[str, Group]:
    """Return the groups of verbs of clusters that do not come with Submarine, by their word."""
    found = {}
    ours = declared()
    for name, said in declared(search=True).items():
        if said.verbs and name not in ours:
            try:
                group = _group(said.verbs)
                found[group.text] = group
            except (ImportError, AttributeError) as error:
                warnings.warn(f"the verbs of {name!r} are left out: {error}", stacklevel=2)
    return found


# By hand, a paragraph a verb: one argument a line would be five pages.
VERBS = (
    RUN,
    Verb("job list", "List the jobs on record, newest first.",
        Option("all", None, "List every job on record; the newest 20 otherwise."),
        Option("limit", options.COUNT, "List that many of the newest jobs.", against="all"),
        examples=("job list", "job list --all --json"), run=".listing:list_"),
    Verb("job show", "Show all about a job: state, tasks, GPU ledger, folder.", _JOB,
        examples=("job show mnist",), run=".listing:show"),
    Verb("job logs", "Write what a job has printed, byte for byte.", _JOB,
        Option("follow", None, "Go on until the job is over.", short="f"),
        Option("stdout", None, "Only what the job wrote to stdout."),
        Option("stderr", None, "Only what the job wrote to stderr."),
        Option("task", options.TASK, "Only that task's log: worker-0. All unless given.",
            meant_by=("logs", "rank")),
        _OFFSET,
        details="stdout and stderr go to this command's own stdout and stderr. Of several tasks "
            "whole lines are written, each after its task, unless --task names one.",
        examples=("job logs mnist --follow", "job logs mnist --stderr --offset 1000"),
        run=".terminal_view:logs"),
    Verb("job attach", "Follow a job from its first byte, as the command that started it does.",
        _JOB, _OFFSET, options.LOGS,
        details="Ctrl-C leaves; the job goes on.",
        examples=("job attach mnist",), run=".terminal_view:attach"),
    Verb("job wait", "Wait for the end of a job, in silence.", _JOB, _TIMEOUT,
        examples=("job wait mnist --timeout 2h",), run=".terminal_view:wait"),
    Verb("job fetch", "Bring variables of a cell's job into this notebook.", _JOB,
        Argument("variables", options.NAME, "Their names.", repeat=True),
        details="A cell's variables come home by themselves as far as they are small (the setting "
            "return_limit); this brings the others, or those of a cell that ran elsewhere.",
        surfaces=IN_NOTEBOOK, examples=("job fetch mnist model history",)),
    Verb("job cancel", "Ask jobs to end: SIGTERM, then, after a grace, SIGKILL.", _JOBS,
        examples=("job cancel mnist",), run=".listing:cancel"),
    Verb("job kill", "End jobs at once: SIGKILL to all of their processes.", _JOBS,
        examples=("job kill mnist",), run=".listing:kill"),
    Verb("job save", "Save the model of a running job now, while its training goes on.", _JOB,
        Argument("path", options.PATH, "A new folder for the model's files.", required=False),
        _TIMEOUT,
        details="The function that the training code gave to submarine_runtime.on_save writes it; "
            "where there is none, the last complete checkpoint of --checkpoint_path is copied. "
            "PATH is a new folder of this machine, or hdfs://… where the cluster has HDFS; "
            "without it, one is made here, named after the job and the time.",
        examples=("job save mnist", "job save mnist models/epoch-3 --timeout 10m"),
        run=".listing:save"),
    Verb("job retry", "Run a job that did not succeed again, from its last checkpoint.", _JOB,
        Option("detach", None, "Return at once; print the new job's id."),
        details="A new job of the same name, with the same script and values, that asks for the "
            "same and has the same checkpoint folder. Values of --secret are looked up anew. "
            "Ctrl-C leaves; the job goes on.",
        examples=("job retry mnist", "job retry mnist --detach"),
        run=".terminal_view:retry"),
    Verb("job rerun", "Run a job once more from the start: the same script, values and options.",
        _JOB, *options.RERUN, of_clusters=options.of_clusters,
        details="A new job of the very same script and values, whatever was changed in the "
            "notebook and in files since; options say what is to be otherwise. Says which "
            "packages and data are others now. Values of --secret are looked up anew. Ctrl-C "
            "leaves; the job goes on.",
        examples=("job rerun mnist", "job rerun mnist --gpus 2 --detach"),
        run=".again:rerun"),
    Verb("job diff", "Show how two jobs differ: code, values, options, versions, git, results.",
        Argument("before", options.JOB, _JOB_HELP), Argument("after", options.JOB, _JOB_HELP),
        details="It is told by what is on record, also of jobs of different clusters. What is not "
            "on record is said to be not known.",
        examples=("job diff 7xqfa mnist",), run=".again:diff"),
    Verb("job stacks", "Show where the tasks of a running job stand, at cell and line.", _JOB,
        Option("task", options.TASK, "All threads of that task: worker-0.",
            meant_by=("logs", "rank")),
        details="Tasks that stand at the same place are shown together, the odd one first. The job "
            "goes on meanwhile; nothing is installed in it, and one that is stuck in native code "
            "answers, too.",
        examples=("job stacks mnist", "job stacks mnist --task worker-2"),
        run=".listing:stacks"),
    Verb("job exec", "Run a program inside a running job: nvidia-smi, ps, py-spy.", _JOB, _INSIDE,
        rest="The program and its arguments, as they are: no shell reads them.",
        after="the program and its arguments",
        details="It has the environment, the folder and the GPUs of the task, this command's input "
            "and output, and its exit code is this command's. It counts as the job's and is ended "
            "with it; so it is when this command is. Ctrl-C is the program's, a second one leaves.",
        examples=("job exec mnist -- nvidia-smi", "job exec mnist --task worker-1 -- ps aux",
            "job exec mnist -- sh -c 'env | sort'"),
        run=".inside:exec_"),
    _in_terminal("job shell", "Open a shell inside a running job.", _JOB, _INSIDE,
        rest="A program in its place, with a terminal: htop.",
        after="the program and its arguments",
        details="It has the environment, the folder and the GPUs of the task. It is ended with the "
            "job, and when this terminal is closed.",
        examples=("job shell mnist", "job shell mnist --task worker-1", "job shell mnist -- htop"),
        run=".inside:shell"),
    _in_terminal("job forward", "Have a port of a running job on this machine.", _JOB,
        Argument("port", options.PORTS, "The job's port; after a colon the one of this machine, "
            "the same where it is free unless given."),
        _INSIDE,
        details="It is on 127.0.0.1, for connections of this user alone. Ctrl-C ends it.",
        examples=("job forward mnist 8888", "job forward mnist 8888:9000 --task worker-1"),
        run=".inside:forward"),
    Verb("job top", "Show what the tasks of a job use now, and what its code reports.", _JOB,
        details="GPUs, processors, memory, disks, network, and the last numbers given to "
            "submarine_runtime.report. In a terminal it goes on until the job is over; Ctrl-C "
            "leaves. Elsewhere, and with --json, it is said once.",
        examples=("job top mnist", "job top mnist --json"),
        run=".top:top"),
    Verb("job artifacts", "List the files that a job has left, or copy them into a folder.", _JOB,
        Option("to", options.PATH, "Copy all of them there; the folder is made. Nothing that is "
            "there is replaced."),
        details="What the job's code writes to the folder $SUBMARINE_OUTPUT_PATH. Of several tasks "
            "each has a folder of its own: worker-1/model.pt.",
        examples=("job artifacts mnist", "job artifacts mnist --to models/mnist"),
        run=".left:artifacts"),
    Verb("job export", "Bring a job into another system's records: parameters, metrics, files.",
        _JOB,
        Option("to", options.NAME, "Which system: mlflow.", choices=("mlflow",)),
        Option("uri", options.NAME, "Where MLflow keeps its records: a server, a data base. "
            "MLFLOW_TRACKING_URI, else MLflow's own default, unless given."),
        Option("experiment", options.NAME, "The experiment; named after the notebook unless "
            "given."),
        details="What the job asked for, what its code has given to submarine_runtime.report, its "
            "artifacts and script, and its model: by its on_save while it runs, its last "
            "checkpoint afterwards. Once more, the same run has what is new.",
        examples=("job export mnist --to mlflow",
            "job export mnist --to mlflow --uri sqlite:///mlflow.db --experiment digits"),
        run=".left:export"),
    Verb("job debug", "Look at what the frames of a failed job held, where it failed.", _JOB,
        _OF_TASK,
        details="A debugger as pdb and %debug are, over the frames as they were: u and d move, p "
            "shows a value, w says where you are, ll the code, q leaves. The GPU was given back "
            "when the job failed. Values of code are loaded as results are, when they are asked "
            "for.",
        examples=("job debug mnist", "job debug mnist --task worker-2"),
        run=".debugging:debug"),
    Verb("debug", "Look at what the frames of this notebook's last failed job held.",
        Argument("job", options.JOB, _JOB_HELP, required=False),
        _OF_TASK, surfaces=IN_NOTEBOOK, examples=("debug", "debug mnist --task worker-2")),
    Verb("cache list", "List the results that are remembered, that which was used last first.",
        details="Jobs that were submitted with --cache, and what their results are of. A result "
            "is in its job's folder; what counts for it is told by --cache --dry-run.",
        examples=("cache list",), run=".remembered:list_"),
    Verb("cache clear", "Forget the results of some jobs, or all; the jobs stay on record.",
        Argument("jobs", options.JOB, _JOB_HELP, required=False, repeat=True),
        examples=("cache clear", "cache clear mnist"), run=".remembered:clear"),
    Verb("usage", "Tell what jobs have cost: GPU-hours queued, held, busy and wasted.",
        Option("by", options.BY, "Put jobs together by user (unless given), notebook, name, "
            "cluster, day or week."),
        Option("since", options.SECONDS, "Jobs submitted that long ago at most: 30d. All unless "
            "given."),
        details="Wasted is what was held while the job's code did not run. With the setting "
            "gpu_hour_price it tells costs, too.",
        examples=("usage", "usage --by notebook --since 7d"), run=".spent:usage"),
    Verb("sweep list", "List the sweeps on record, newest first.",
        examples=("sweep list",), run=".sweeps:list_"),
    Verb("sweep show", "Show the trials of a sweep: parameters, values, errors.", _SWEEP,
        Option("sort", options.NAME, "Sort by a column: of what is searched for the best first."),
        Option("trial", options.NAME,
            "This trial with its log; given twice, both side by side.", repeat=True),
        examples=("sweep show train", "sweep show train --sort loss", "sweep show train --trial 3"),
        run=".sweeps:show"),
    Verb("sweep attach", "Follow a sweep: a line a trial, the best so far in each.",
        _SWEEP, _OFFSET, options.LOGS,
        details="Ctrl-C leaves; the sweep goes on.",
        examples=("sweep attach train",), run=".sweeps:attach"),
    Verb("sweep pause", "Let each trial of a sweep end at its next report, to go on later.",
        _SWEEP, examples=("sweep pause train",), run=".sweeps:pause"),
    Verb("sweep resume", "Go on with a sweep that was paused, cancelled or lost.", _SWEEP,
        examples=("sweep resume train",), run=".sweeps:resume"),
    Verb("sweep extend", "Add trials to a sweep that runs, or is over.", _SWEEP,
        Option("trials", options.COUNT, "How many more."),
        examples=("sweep extend train --trials 20",), run=".sweeps:extend"),
    Verb("sweep retry", "Try the failed trials of a sweep once more, with the same parameters.",
        _SWEEP, examples=("sweep retry train",), run=".sweeps:retry"),
    Verb("sweep cancel", "End a sweep with its trials; what it has found stays.", _SWEEP,
        examples=("sweep cancel train",), run=".sweeps:cancel"),
    Verb("notebook start", "Start a Jupyter server on the cluster, with GPUs, as a job.",
        *options.NOTEBOOK_SERVER, of_clusters=options.of_clusters,
        details="It listens on loopback of its host, and is reached through the job alone: by "
            "`notebook open`, or in Jupyter by its proxy. Once nobody has used it for an hour "
            "(--idle) it ends, and its GPUs are given back. It is a job as any other: job show, "
            "job logs, job cancel.",
        examples=("notebook start --gpus 2", "notebook start --gpus 1 --idle 30m --dir work",
            "notebook start --name explore --queue research --within 10m"),
        run=".notebooks:start"),
    Verb("notebook list", "List the Jupyter servers that run on clusters, newest first.",
        examples=("notebook list",), run=".notebooks:list_"),
    Verb("notebook open", "Open a Jupyter server that runs as a job.", _JOB,
        Option("no-browser", None, "Start no browser; say where it is.", surfaces=IN_TERMINAL),
        details="In a terminal it is on 127.0.0.1, for connections of this user alone, until "
            "Ctrl-C. In a notebook it is a link that leads there through Jupyter's server.",
        examples=("notebook open explore",), run=".notebooks:open_"),
    Verb("notebook keep", "Keep Jupyter servers that nobody uses: they go on as if just used.",
        _JOBS, examples=("notebook keep explore",), run=".notebooks:keep"),
    Verb("notebook stop", "End Jupyter servers; their GPUs are given back, their files stay.",
        _JOBS, examples=("notebook stop explore",), run=".notebooks:stop"),
    Verb("serve start", "Serve a model as jobs, at one address of this machine.",
        _MODEL,
        Option("name", options.NAME, "What it is called: in lists, and in its addresses."),
        Option("port", options.COUNT, "Of this machine; any that is free unless given."),
        *options.SERVE,
        details="MODEL is a folder in MLflow's format, or job:NAME for the one among a job's "
            "artifacts; in a notebook a variable, too. `serve MODEL` means the same. Replicas "
            "are jobs; a job on this machine passes requests on to them, for this user alone. "
            "It outlives this command; `serve stop` ends it.",
        examples=("serve start models/digits --name digits",
            "serve start job:train --name digits --replicas 2 --gpus 1"),
        run=".serving:start"),
    Verb("serve list", "List the models that are served.",
        examples=("serve list", "serve list --json"), run=".serving:list_"),
    Verb("serve update", "Serve another model under a name, without a lost request.", _SERVED,
        Argument("model", options.PATH, _MODEL.help or "", required=False),
        *(one for one in options.SERVE if one.key != "cluster"),
        details="The new replicas are ready before any request goes to them, and the old ones "
            "answer what they were asked; so there are twice as many for a while. What does not "
            "load leaves all as it was. Without MODEL it is the same one: --replicas says how "
            "many there are to be, any other option has new ones take their places.",
        examples=("serve update digits models/digits-2", "serve update digits --replicas 3",
            "serve update digits --gpus 1"),
        run=".serving:update"),
    Verb("serve stop", "End what is served under a name, with its replicas.", _SERVED,
        examples=("serve stop digits",), run=".serving:stop"),
    _in_terminal("flow build", "Make a flow of a notebook: its cells, to be run by a scheduler.",
        Argument("notebook", options.PATH, "The notebook: train.ipynb. Or a note of Zeppelin's: "
            "note.zpln."),
        Option("name", options.NAME, "What the flow is called; as the notebook unless given."),
        Option("schedule", options.COMMAND, 'When it runs, as cron has it: "0 2 * * *".'),
        _PARAM,
        Option("to", options.NAME, "Write it for a scheduler, too; none unless given."),
        Option("output", options.PATH, "The flow's folder; NOTEBOOK.flow unless given. On a path "
            "that all workers share, or at an address (hdfs:///user/ana/train.flow, or any that "
            "fsspec knows), any worker can run any node."),
        Option("retries", options.COUNT, "How often a node that fails is run once more."),
        Option("retry_delay", options.SECONDS, "How long after a failure that is: 5m. Unless "
            "given, at once; in Airflow as it is set up, in Azkaban after 10 s."),
        Option("time_limit", options.SECONDS, "How long one try of a node may take: 90m, 2h."),
        Option("notify", options.NAME, "The name of a secret that holds a webhook's address: it is "
            "told how each node's job has ended."),
        Option("cache", None, "Run no node whose code, values, parameters and files are those of "
            "an earlier run: its result is remembered, as by a cell's own --cache."),
        Option("mail", options.NAME, "Whom Airflow or Azkaban write to, by their own settings, "
            "when a node has failed for good; several by commas."),
        Option("run", None, "Run it here and now, too."),
        details="Cells with %%submarine, or tagged so, become nodes; plain cells that do more than "
            "define become nodes without a GPU, those joined that work on one another's values. "
            "What a node follows is told by the values that it reads. Nothing of the notebook runs "
            "now. A cell tagged `parameters` says what --param may change.",
        examples=("flow build train.ipynb",
            'flow build train.ipynb --schedule "0 2 * * *" --param day=2026-11-22'),
        run=".flow:build"),
    Verb("flow show", "Draw a flow: its nodes, and what travels between them.",
        Argument("flow", options.PATH, "A flow's folder, or its address, or a notebook."),
        examples=("flow show train.ipynb", "flow show train.flow"), run=".flow:show"),
    Verb("flow run", "Run a flow here and now, by its own clusters, without a scheduler.",
        Argument("folder", options.PATH, "The flow's folder, or its address."),
        Option("run", options.COMMAND, "What the run is called; a new id unless given."), _PARAM,
        details="Nodes that do not need each other run side by side. With the --run of one that "
            "was begun, it goes on where that stands, also after a kill. Ctrl-C cancels it.",
        examples=("flow run train.flow", "flow run train.flow --param day=2026-11-22"),
        run=".flow:run"),
    Verb("flow status", "Show how far a run of a flow is: nodes, times, jobs, errors.",
        Argument("folder", options.PATH, "The flow's folder, or its address."), _RUN_ID,
        examples=("flow status train.flow",), run=".flow:status"),
    Verb("flow cancel", "Ask a run of a flow to end, with the jobs of its nodes.",
        Argument("folder", options.PATH, "The flow's folder, or its address."), _RUN_ID,
        examples=("flow cancel train.flow",), run=".flow:cancel"),
    Verb("flow retry", "Run again what has failed in a run of a flow, and what follows it.",
        Argument("folder", options.PATH, "The flow's folder, or its address."), _RUN_ID,
        examples=("flow retry train.flow",), run=".flow:retry"),
    _in_terminal("flow node", "Run one node of one run of a flow: what every scheduler calls.",
        Argument("folder", options.PATH, "The flow's folder, or its address."),
        Argument("node", options.NAME, "The node's name."),
        Option("run", options.COMMAND, "The run, by whatever id the scheduler gives it."),
        _PARAM,
        Option("attempt", options.COUNT, "Which try it is, from 1: a failure of this try is not "
            "tried again. Unless given, what has failed is."),
        details="It is begun once: a node that has succeeded returns at once, one that runs is "
            "followed, by its job, also after a kill. Writes the job's log; the exit code is 0 "
            "where it has succeeded. Ctrl-C and SIGTERM cancel it.",
        examples=("flow node train.flow fit --run nightly-7",), run=".flow:node"),
    _in_terminal("notebook kernel",
        "Give Jupyter a kernel whose code runs on the cluster, as a job.",
        Argument("what", Kind("install", candidates=lambda _, text: starting(("install",), text)),
            "install."),
        *options.KERNEL, of_clusters=options.of_clusters,
        details="Writes a kernelspec for this user, which notebooks of this machine can choose. "
            "Each kernel of it is a job with these options: begun with the kernel, ended with it, "
            "and once it was not busy for an hour (--idle). `jupyter kernelspec remove` takes it "
            "away.",
        examples=("notebook kernel install --gpus 1",
            "notebook kernel install --gpus 2 --queue research --name two-gpus"),
        run=".notebooks:install_kernel"),
    *(verb for group in _of_ours for verb in verbs_of(group)),
    _in_terminal("zeppelin install",
        "Put the interpreter %submarine into a Zeppelin, or renew it there.", _ZEPPELIN_HOME,
        Option("python", options.PATH,
            "The Python that notes run on; that of this command unless given."),
        details="Writes interpreter/submarine: the setting and a launch script. A Submarine "
            "interpreter that came with Zeppelin is put aside. Restart Zeppelin afterwards.",
        examples=("zeppelin install --zeppelin-home /opt/zeppelin",),
        run=".machine:zeppelin_install"),
    _in_terminal("zeppelin uninstall",
        "Take the interpreter out again, and put back what was put aside.", _ZEPPELIN_HOME,
        examples=("zeppelin uninstall --zeppelin-home /opt/zeppelin",),
        run=".machine:zeppelin_uninstall"),
    _in_terminal("zeppelin doctor",
        "Check a Zeppelin's interpreter, with the way out where something is missing.",
        _ZEPPELIN_HOME, examples=("zeppelin doctor --zeppelin-home /opt/zeppelin",),
        run=".machine:zeppelin_doctor"),
    _in_terminal("flow open", "Make a notebook of a flow again: the same cells.",
        Argument("flow", options.PATH, "A flow's folder or address, its zip for Azkaban, or "
            "the name of a project at Azkaban."),
        Option("output", options.PATH, "The notebook to write; NAME.ipynb here unless given, "
            "NAME.zpln where it was a note of Zeppelin's. Nothing that is there is replaced."),
        examples=("flow open train.flow", "flow open nightly --output train.ipynb"),
        run=".azkaban:open_"),
    _in_terminal("azkaban login", "Open a session at an Azkaban, and keep it for other commands.",
        Argument("url", options.NAME, "Its address; that of the last login unless given, or of "
            "AZKABAN_URL.", required=False),
        Option("user", options.NAME, "As whom; as at the last login unless given, or as "
            "AZKABAN_USER says."),
        details="The password is asked for. Without a terminal it comes from AZKABAN_PASSWORD, "
            "the keyring, or the file that AZKABAN_PASSWORD_FILE names, which nobody else may "
            "read. It is never kept; the session is, in the home of the jobs.",
        examples=("azkaban login https://azkaban.example.com:8443 --user ana",),
        run=".azkaban:login"),
    _in_terminal("azkaban upload", "Put a flow into a project of Azkaban's, and on its schedule.",
        Argument("flow", options.PATH, "The flow's folder or address, or its zip."),
        Option("project", options.NAME, "The project, which is made where there is none; called "
            "as the flow unless given."),
        Option("replace", None, "Also where that removes other flows of the project."),
        _PARAM, _MAIL,
        details="A project that is there gets a new version. A flow that names a schedule is put "
            "on it, with the values of --param.",
        examples=("azkaban upload train.flow", "azkaban upload train-azkaban.zip --project night"),
        run=".azkaban:upload"),
    _in_terminal("azkaban run", "Run a project's flow at Azkaban now, and follow it.", _PROJECT,
        _PARAM,
        Option("submarine", options.NAME, "How Azkaban's executors call this program: "
            "/opt/venv/bin/submarine. The word `submarine` unless given."),
        Option("detach", None, "Return at once; print the execution's number."),
        _MAIL,
        details="Ctrl-C leaves; the execution goes on.",
        examples=("azkaban run train --param day=2026-11-22", "azkaban run train --detach"),
        run=".azkaban:run"),
    _in_terminal("azkaban attach", "Follow an execution at Azkaban from its first line.",
        _EXECUTION, details="Ctrl-C leaves; the execution goes on.",
        examples=("azkaban attach 1204",), run=".azkaban:attach"),
    _in_terminal("azkaban status", "Show an execution at Azkaban with its nodes.", _EXECUTION,
        examples=("azkaban status 1204",), run=".azkaban:status"),
    _in_terminal("azkaban cancel", "Ask an execution at Azkaban to end.", _EXECUTION,
        examples=("azkaban cancel 1204",), run=".azkaban:cancel"),
    _in_terminal("azkaban unschedule", "Take a project's flow off Azkaban's schedule.", _PROJECT,
        examples=("azkaban unschedule train",), run=".azkaban:unschedule"),
    Verb("gpus", "List the GPUs and the jobs that hold them.", options.CLUSTER, examples=("gpus",),
        run=".machine:gpus"),
    Verb("tensorboard", "Open TensorBoard over one, some or all jobs.",
        Argument("jobs", options.JOB, _JOB_HELP, required=False, repeat=True),
        Option("all", None, "Over all jobs, those to come too; so without jobs and folders."),
        Option("logdir", options.PATH,
            "Over a folder of events, or an address in HDFS; repeat it for more.", repeat=True),
        Option("list", None, "List the TensorBoards that run."),
        Option("stop", None, "End the one that is named so; without jobs and folders, all."),
        details="It reads what jobs write to the folder $SUBMARINE_LOGDIR, and below their "
            "checkpoint path. Its process holds no GPU, outlives the jobs, and ends some time "
            "after its last reader (the setting tensorboard_idle).",
        examples=("tensorboard mnist", "tensorboard --all", "tensorboard --stop mnist"),
        run=".machine:tensorboard"),
    Verb("script", "Show the script of the last job, or of the parts given so far.",
        surfaces=IN_NOTEBOOK, examples=("script",)),
    Verb("use", "Choose the cluster that this notebook's jobs go to.",
        Argument("cluster", options.CLUSTER_NAME, "The cluster's name."),
        surfaces=IN_NOTEBOOK, examples=("use local",)),
    _in_terminal("config show", "Show every setting, its value, and where that came from.",
        examples=("config show",), run=".machine:config"),
    Verb("doctor", "Check what a job needs on this machine, with the way out where it is missing.",
        options.CLUSTER, examples=("doctor",), run=".machine:doctor"),
    _in_terminal("version", "Say which release this is.", examples=("version",),
        run=".machine:version"),
    Verb("help", "Show the help of all verbs, or of one.",
        Argument("about", VERB, "The verb: job run.", required=False, repeat=True),
        examples=("help job run",), run=".machine:help_"),
)  # fmt: skip

GROUPS = {
    "job": "Run jobs, and look after them.",
    "cache": "See or forget remembered results.",
    "sweep": "Look after sweeps.",
    "notebook": "Have notebooks run on the cluster.",
    "serve": "Serve models.",
    "flow": "Make a flow of a notebook, and run it.",
    **{group.text: group.summary for group in _of_ours},
    "azkaban": "Have Azkaban run flows.",
    "zeppelin": "Have %submarine in Apache Zeppelin.",
    "config": "See the configuration.",
}

_USUAL = {"serve": "start"}


def _grouped() -> Group:
    root = Group(
        "",
        "Train on GPUs: run code as a job, follow it, get its result.",
        of_clusters=_of_others,
    )
    for verb in VERBS:
        *group, name = verb.path
        if group and group[0] not in root.commands:
            usual = _USUAL.get(group[0], "")
            root.add_command(Group(group[0], GROUPS[group[0]], usual=usual))
        parent = root.commands[group[0]] if group else root
        assert isinstance(parent, Group)  # noqa: S101 - for the type checker
        parent.add_command(verb, name)
    return root


ROOT = _grouped()


def verbs(surface: str | None = None) -> tuple[Verb, ...]:
    """Return the verbs of a `surface` (``terminal``, ``notebook``), or all where it is None."""
    return tuple(filter(Front(surface).sees, VERBS))


def find_verb(path: Sequence[str]) -> Verb | Group | None:
    """Return the verb or group that the words of `path` name, of any cluster; None for none."""
    command: Verb | Group | None = ROOT if path else None
    for word in path:
        command = command.find(word) if isinstance(command, Group) else None
    return command
