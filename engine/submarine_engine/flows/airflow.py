"""A flow as a DAG of Airflow: one file of plain tasks, each of which runs a node of the flow.

The file is for people too, so it says all in words of Airflow's own. It imports nothing of ours:
Airflow's workers have an environment of their own, and call the ``submarine`` command by its path.
Whatever is the notebook's author's, a name or a value, is a Python literal in it, and becomes one
argument of a process: neither Jinja nor a shell ever reads it.
"""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from submarine_engine.errors import FlowError
from submarine_engine.flows.folder import Place
from submarine_engine.flows.model import ALL_SUCCESS, Flow, Node, Parameter
from submarine_engine.history import write_aside

OLDEST = (2, 9)
"""The oldest Airflow that reads the file; an older one refuses it with words."""

_MARK = "Written by `submarine flow build --to airflow`"
_LINE = 96

_HEAD = '''\
"""Flow {name}: each task runs one node of it by `submarine flow node`.

{mark}, which writes it anew:
change the notebook rather than this file.

A task that is tried again after its worker was lost attaches to the job that is there already.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from datetime import datetime, timedelta

from airflow import __version__ as airflow_version

if tuple(map(int, airflow_version.split(".")[:2])) < {oldest}:
    raise ImportError(
        f"flow {name} needs Airflow {least} or newer, and this is {{airflow_version}}: upgrade"
        " Airflow, or run the flow without a scheduler by `submarine flow run`"
    )

if airflow_version.startswith("2."):
    from airflow import DAG
    from airflow.hooks.subprocess import SubprocessHook
    from airflow.models.baseoperator import BaseOperator
    from airflow.models.param import Param
    from airflow.utils.edgemodifier import Label
else:
    from airflow.providers.standard.hooks.subprocess import SubprocessHook
    from airflow.sdk import DAG, BaseOperator, Label, Param

# As workers see them: the flow's folder on a path that they share, or at an address (hdfs://…),
# and their submarine command.
FOLDER = {folder}
SUBMARINE = {submarine}


class NodeOperator(BaseOperator):
    """Run a node of the flow; a kill or the time limit cancels its job."""

    hook = None

    def execute(self, context):
        if "://" not in FOLDER and not os.path.isdir(FOLDER):
            raise FileNotFoundError(f"this worker has no flow's folder {{FOLDER}}: mount it here")
        if not shutil.which(SUBMARINE):
            raise FileNotFoundError(f"this worker has no command {{SUBMARINE}}: install it here")
        # Of all tries of a task, the run stays the same, and the attempt is another one.
        run, attempt = context["dag_run"].run_id, context["ti"].try_number
        words = [SUBMARINE, "flow", "node", FOLDER, self.task_id]
        words += [f"--run={{run}}", f"--attempt={{attempt}}"]
        for name, value in context["params"].items():
            words.append(f"--param={{name}}={{value if isinstance(value, str) else repr(value)}}")
        # Airflow's own settings are not the job's business: connections, keys, tokens.
        passed = {{k: v for k, v in os.environ.items() if not k.lstrip("_").startswith("AIRFLOW")}}
        self.hook = SubprocessHook()
        # A list of words goes to the process as it is: no shell reads it.
        cwd = None if "://" in FOLDER else FOLDER
        code = self.hook.run_command(words, env=passed, cwd=cwd).exit_code
        self.hook = None
        if code:
            raise RuntimeError(f"node {{self.task_id}} failed, see above (exit code {{code}})")

    def on_kill(self):
        if self.hook is not None:
            with contextlib.suppress(ProcessLookupError):
                self.hook.send_sigterm()


'''


def write(flow: Flow, folder: Place, into: Path) -> Path:
    """Write the flow's DAG, for Airflow's folder of DAGs.

    Parameters
    ----------
    flow
        What to write; its schedule is in the time zone that Airflow has as its default.
    folder
        The flow's, on a path that all workers share, or at an address.
    into
        Where the file goes: the flow's own folder, where it is on this machine.

    Returns
    -------
    Path
        The file, ``<name>.py``.

    Raises
    ------
    FlowError
        A value cannot be an argument of a process, or another program's file is in the way.
    """
    path = into / f"{flow.name}.py"
    text = dag_text(flow, folder)
    try:
        former = path.read_text(errors="replace")
    except FileNotFoundError:
        former = _MARK
    if _MARK not in former:
        raise FlowError(
            "there is a file already that `submarine flow build` has not written",
            where=str(path),
            fix="move it away, or give the flow another name: --name",
        )
    write_aside(path, text.encode())
    # Airflow takes each Python file below its folder of DAGs for one, those of jobs too. It
    # reads this as globs or, before 3.0, as regular expressions: as either it means the same.
    if isinstance(folder, Path):
        write_aside(folder / ".airflowignore", b"bundles/\nmodules/\nruns/\n")
    return path


def dag_text(flow: Flow, folder: Place, *, submarine: str = "", owner: str = "") -> str:
    """Return the DAG's file.

    Parameters
    ----------
    flow
        What to write.
    folder
        The flow's, as workers see it.
    submarine
        The command that workers call; by default that of the Python that runs this.
    owner
        Who is responsible, as Airflow's page shows it; by default the user.

    Raises
    ------
    FlowError
        The default of a parameter cannot be an argument of a process.
    """
    for parameter in flow.parameters:
        if isinstance(parameter.default, str) and "\0" in parameter.default:
            raise FlowError(
                f"the default of parameter {parameter.name} has a NUL, which no command can pass",
                where="parameters",
                fix="give it another default in the notebook",
            )
    head = _HEAD.format(
        name=flow.name,
        mark=_MARK,
        oldest=OLDEST,
        least=".".join(map(str, OLDEST)),
        folder=_literal(str(folder.absolute() if isinstance(folder, Path) else folder)),
        submarine=_literal(submarine or _command()),
    )
    return head + "\n".join(_dag(flow, owner or getpass.getuser())) + "\n"


def _command() -> str:
    beside = Path(sys.executable).with_name("submarine")
    return str(beside) if os.access(beside, os.X_OK) else "submarine"


def _dag(flow: Flow, owner: str) -> Iterator[str]:
    yield "with DAG("
    yield f"    dag_id={_literal(flow.name)},"
    yield f"    description={_literal(flow.notebook)},"
    yield f"    schedule={_literal(flow.schedule or None)},"
    # Without a time zone it is in Airflow's own, and so is the schedule.
    yield "    start_date=datetime(2024, 1, 1),"
    yield "    catchup=False,"
    if flow.parameters:
        yield "    params={"
        for parameter in flow.parameters:
            yield f"        {_literal(parameter.name)}: {_param(parameter)},"
        yield "    },"
    yield from _default_args(flow, owner)
    yield '    tags=["submarine"],'
    yield "):"
    yield "    nodes = {"
    for node in flow.order:
        yield from _task(node)
    yield "    }"
    for node in flow.order:
        yield from _edges(node)


def _default_args(flow: Flow, owner: str) -> Iterator[str]:
    if not flow.mail:
        yield f'    default_args={{"owner": {_literal(owner)}}},'
        return
    yield "    default_args={"
    yield f'        "owner": {_literal(owner)},'
    yield "        # By Airflow's own mail settings, when no try is left."
    yield f'        "email": {_literal(flow.mail.split(","))},'
    yield '        "email_on_failure": True,'
    yield '        "email_on_retry": False,'
    yield "    },"


def _task(node: Node) -> Iterator[str]:
    words = [f"task_id={_literal(node.name)}"]
    if node.condition != ALL_SUCCESS:
        words.append(f"trigger_rule={_literal(node.condition)}")
    # Said always: a site's default would run again what its author wants to run once.
    words.append(f"retries={node.retries}")
    if node.retry_delay is not None:
        words.append(f"retry_delay=timedelta(seconds={node.retry_delay!r})")
    if node.time_limit is not None:
        words.append(f"execution_timeout=timedelta(seconds={node.time_limit!r})")
    listed = ", ".join(map(str, node.cells))
    yield f"        # cell{'s' if len(node.cells) > 1 else ''} {listed}"
    line = f"        {_literal(node.name)}: NodeOperator({', '.join(words)}),"
    if len(line) <= _LINE:
        yield line
        return
    yield f"        {_literal(node.name)}: NodeOperator("
    for word in words:
        yield f"            {word},"
    yield "        ),"


def _edges(node: Node) -> Iterator[str]:
    for name in node.follows:
        values = ", ".join(read.name for read in node.reads if read.node == name)
        label = f" >> Label({_literal(values)})" if values else ""
        yield f"    nodes[{_literal(name)}]{label} >> nodes[{_literal(node.name)}]"


_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number"}
"""What JSON calls the types of defaults that Airflow's form for a run can check."""


def _param(parameter: Parameter) -> str:
    default = parameter.default
    if type(default) in _TYPES:
        return f"Param({_literal(default)}, type={_literal(_TYPES[type(default)])})"
    if default is None:
        return "Param(None)"
    # JSON has no tuples, sets and bytes: lists and their like are text, as for `--param`.
    return f"Param({_literal(repr(default))})"


def _literal(value: object) -> str:
    """Return a value as Python's source, text in double quotes as formatters have it."""
    text = repr(value)
    if isinstance(value, str) and text.startswith("'") and '"' not in text:
        return f'"{text[1:-1]}"'
    return text
