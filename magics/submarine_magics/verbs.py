"""``%submarine VERB …``: what a notebook can ask for, in the one grammar of all front ends.

With completion by Tab, and TensorBoard in the cell where our server extension runs.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from html import escape
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from IPython.core.error import TryNext
from IPython.core.interactiveshell import InteractiveShell
from IPython.display import Code, display
from submarine_engine.amounts import clock, count
from submarine_engine.cache import Cache, Entry, forget
from submarine_engine.clusters import ANY
from submarine_engine.clusters.base import Gpu
from submarine_engine.clusters.choice import as_ours, clusters_of
from submarine_engine.clusters.saving import absolute, default_name
from submarine_engine.command import NOTEBOOK, Command, complete, parse
from submarine_engine.config import load_config
from submarine_engine.doctor import doctor
from submarine_engine.errors import JobError, SubmarineError
from submarine_engine.events import Moment
from submarine_engine.findings import Check
from submarine_engine.future import Job
from submarine_engine.history import default_home
from submarine_engine.logs import FIRST, check_task
from submarine_engine.records import JobSummary, job_name, job_words, list_jobs, open_job
from submarine_engine.tensorboard import Board, list_boards, wait_for_board
from submarine_engine.tensorboard.board import open_selected, stop_selected

from submarine_magics.card import mimebundle
from submarine_magics.card.pages import board_page
from submarine_magics.card.words import visible
from submarine_magics.cell_view import attach, show_log
from submarine_magics.flows import cancel_flow, flow_status, retry_flow, run_flow, show_flow
from submarine_magics.homecoming import bring_home, fetch
from submarine_magics.running import parts_bundle, run_parts
from submarine_magics.serving import list_servings, start_serving, stop_serving, update_serving
from submarine_magics.show import Listing, answer, say, show_help, table
from submarine_magics.workbench import Workbench

if TYPE_CHECKING:
    from submarine_engine.artifacts import Artifact
    from submarine_engine.notebooks import NotebookServer
    from submarine_engine.sweeps.found import Found
    from submarine_engine.sweeps.study import TrialResult
    from submarine_engine.usage import Usage

# The Jupyter server that started this kernel, where our extension runs in it.
#
# A server writes ``jpserver-<pid>.json`` into Jupyter's runtime folder (jupyter_server's
# ``serverapp.write_server_info_file``), and starts kernels with ``JPY_PARENT_PID`` and
# ``JPY_SESSION_NAME`` in their environment.


_PATIENCE = 2.0  # seconds: a server of this machine answers at once; one that hangs is passed over
_OK = 200


class Server(NamedTuple):
    """A server of ours; `base_url` begins and ends with a slash."""

    base_url: str


def server_of_kernel() -> Server | None:
    """Return the server of this kernel; None where there is none, or our extension is not in it."""
    parent = os.environ.get("JPY_PARENT_PID", "")
    if not re.fullmatch(r"[0-9]{1,10}", parent):
        return None
    from jupyter_core.paths import jupyter_runtime_dir  # noqa: PLC0415 - of kernels alone

    for pid in {parent, str(os.getppid())}:
        with suppress(OSError, ValueError, KeyError, TypeError, HTTPException):
            with open(f"{jupyter_runtime_dir()}/jpserver-{pid}.json", encoding="utf-8") as file:  # noqa: PTH123 - short
                info = json.load(file)
            if _has_extension(info):
                return Server(str(info["base_url"]))
    return None


def _has_extension(info: dict[str, object]) -> bool:
    """Ask the server, by its own address on this machine."""
    where = urlsplit(str(info["url"]))
    if where.scheme != "http" or not where.hostname:
        # By a certificate that only browsers know, or a socket: taken for one that has it.
        return where.scheme == "https"
    connection = HTTPConnection(where.hostname, where.port, timeout=_PATIENCE)
    try:
        path = f"{str(info['base_url']).rstrip('/')}/submarine/api/tensorboards"
        headers = {"Authorization": f"token {info['token']}"} if info.get("token") else {}
        connection.request("GET", path, headers=headers)
        return connection.getresponse().status == _OK
    finally:
        connection.close()


# ``%submarine tensorboard``: in the cell, through the Jupyter server where our extension runs.


_HEIGHT = 700


def show_tensorboard(_: Workbench, command: Command) -> object:
    """Show the TensorBoard of `command` in the cell; or list those that run, or end them."""
    home = default_home()
    if "stop" in command.values:
        stopped = stop_selected(home, command.values)
        for board in stopped:
            answer(f"TensorBoard over {board.wanted.words} ended")
        if not stopped:
            answer("no TensorBoard runs")
        return None
    if "list" in command.values:
        found = list_boards(home)
        rows = [(board.id, board.wanted.words, board.address) for board in found]
        return Listing(found, ("ID", "SHOWS", "ADDRESS"), rows)
    board = wait_for_board(home, open_selected(home, command.values))
    display(board_bundle(board), raw=True)
    return None


def board_bundle(board: Board) -> dict[str, str]:
    """Return a TensorBoard for a cell: a frame where Jupyter's server brings it, else a link.

    Parameters
    ----------
    board
        The one, which runs.
    """
    title = f"TensorBoard over {board.wanted.words}"
    server = server_of_kernel()
    if server is None:
        return _board_link(board, title)
    path = f"{server.base_url.rstrip('/')}{board.path}"
    html = (
        f'<iframe src="{escape(path)}" title="{escape(title)}" width="100%" height="{_HEIGHT}" '
        f'style="border:0" loading="lazy"></iframe><p><a href="{escape(path)}" target="_blank" '
        'rel="noopener">TensorBoard in a page of its own</a></p>'
    )
    return {"text/html": html, "text/plain": f"{title}: {path}"}


def _board_link(board: Board, title: str) -> dict[str, str]:
    address = board_page(board.address)
    if address is None:
        where = (
            f"{title} runs on the notebook's own machine, where port {board.port} is open to its "
            f"own browsers alone: {board.address}\n→ set submarine.links.listen in the "
            "interpreter's settings, and it has a link that leads there"
        )
        return {"text/plain": where}
    link = f'<a href="{escape(address)}" target="_blank" rel="noopener">TensorBoard</a>'
    here = ", on the notebook's own machine" if address == board.address else ""
    html = f"<p>{link} over {escape(board.wanted.words)}{here}</p>"
    return {"text/html": html, "text/plain": f"{title}: {address}"}


# Tab completion of the magics: verbs, options, and the ids and names of jobs.


_LINE = re.compile(r"\s*(?P<magic>%%?)submarine\s(?P<rest>.*)", re.DOTALL)


def register_completion(shell: InteractiveShell) -> None:
    """Have `shell` ask `candidates` wherever a line begins with one of the magics."""
    for name in ("%submarine", "%%submarine"):
        shell.set_hook("complete_command", candidates, str_key=name)


def unregister_completion(shell: InteractiveShell) -> None:
    """Take back what `register_completion` did in `shell`."""
    hooks: Any = shell.strdispatchers["complete_command"]
    for name in ("%submarine", "%%submarine"):
        hooks.strs.pop(name, None)


def candidates(shell: InteractiveShell, event: SimpleNamespace) -> list[str]:  # noqa: ARG001
    """Return what may stand at the cursor, as IPython's ``complete_command`` hook wants it.

    IPython takes a word to begin after ``=``, as the grammar does not, so that only the part from
    there is given.

    Parameters
    ----------
    shell
        The hook's; it is not looked at.
    event
        The hook's: ``text_until_cursor``, and in ``symbol`` the word there as IPython sees it.

    Raises
    ------
    TryNext
        The line is not one of ours.
    """
    found = _LINE.fullmatch(event.text_until_cursor)
    if found is None:
        raise TryNext
    cell = found["magic"] == "%%"
    try:
        words = complete(found["rest"], jobs=job_words, cell=cell, surface=NOTEBOOK)
    except (SubmarineError, OSError):  # a key was pressed: no place for errors
        return []
    typed = found["rest"].split()[-1] if found["rest"][-1:].strip() else ""
    known = len(typed) - len(event.symbol) if typed.endswith(event.symbol) else 0
    return [word[known:] for word in words]


_NEWEST = 20


def run_line(bench: Workbench, line: str) -> object:
    """Do what ``%submarine LINE`` asks for; the shell displays what it returns.

    Parameters
    ----------
    bench
        The notebook's: its cells, its variables and the cluster in use.
    line
        What follows the magic.

    Raises
    ------
    SubmarineError
        As the verb does.
    """
    command = parse(line, surface=NOTEBOOK)
    return VERBS[command.path](bench, command)


def _list(_: Workbench, command: Command) -> Listing[JobSummary]:
    limit = None if "all" in command.values else command.values.get("limit", _NEWEST)
    return job_table(list_jobs(limit=limit))


def job_table(jobs: Sequence[JobSummary]) -> Listing[JobSummary]:
    """Return jobs as `job list` shows them."""
    now = Moment.now()
    rows = [
        (job.id, job.name, job.state.value, str(job.gpus), _seconds(job.elapsed(now)), job.runs_on)
        for job in jobs
    ]
    return Listing(jobs, ("JOB", "NAME", "STATE", "GPUS", "TIME", "CLUSTER"), rows)


def _show(_: Workbench, command: Command) -> None:
    display(mimebundle(_job(command)), raw=True)


def _logs(_: Workbench, command: Command) -> None:
    values = command.values
    streams = [stream for stream in ("stdout", "stderr") if stream in values]
    show_log(
        _job(command),
        task=values.get("task"),
        streams=streams or ["stdout", "stderr"],
        offset=values.get("offset", 0),
        wait="follow" in values,
    )


def _retry(bench: Workbench, command: Command) -> object:
    former = _job(command)
    job = former.retry(notebook=True)
    say(f"job {job.id} runs again what job {former.id} ran")
    return None if command.values.get("detach") else _follow(bench, job, command)


def _rerun(bench: Workbench, command: Command) -> object:
    # imported late: few jobs are run again
    from submarine_engine.command.parser import overridden  # noqa: PLC0415
    from submarine_engine.rerun import rerun  # noqa: PLC0415

    former = _job(command)
    former.cluster.tell = say
    where, again = rerun(
        former.id,
        lambda spec: overridden(spec, command.values),
        cluster=command.values.get("cluster") or former.cluster,
        notebook=True,
        tell=lambda text: say(visible(text)),
        say_choice=say,
    )
    job = Job(where, again)
    say(f"job {job.id} runs once more what job {former.id} ran")
    return None if command.values.get("detach") else _follow(bench, job, command)


def _diff(_: Workbench, command: Command) -> object:
    return open_job(command.values["before"]).diff(open_job(command.values["after"]))


def _attach(bench: Workbench, command: Command) -> object:
    return _follow(bench, _job(command), command)


def _follow(bench: Workbench, job: Job, command: Command) -> object:
    which = command.values.get("logs")
    check_task(which, job.status().logged)
    if attach(job, command.values.get("offset", 0), which or FIRST):
        return bring_home(bench, job)
    return None


def _wait(_: Workbench, command: Command) -> None:
    job = _job(command)
    timeout = command.values.get("timeout")
    try:
        job.wait(timeout)
    except TimeoutError:
        raise JobError(
            f"it is still running after {timeout:g} s",
            job_id=job.id,
            fix=f"wait longer, or end it by %submarine job cancel {job.id}",
        ) from None
    except KeyboardInterrupt:
        raise JobError(
            "no longer waiting; the job goes on",
            job_id=job.id,
            fix=f"%submarine job attach {job.id} follows it",
        ) from None
    _show(_, command)


def _fetch(bench: Workbench, command: Command) -> None:
    fetch(bench, _job(command), command.values["variables"])


def _cancel(_: Workbench, command: Command) -> None:
    for job in map(open_job, command.values["jobs"]):
        asked = job.cancel("asked for by %submarine job cancel")
        answer(f"job {job.id} {'is being cancelled' if asked else 'was over already'}")


def _kill(_: Workbench, command: Command) -> None:
    for job in map(open_job, command.values["jobs"]):
        over = job.done()
        if not over:
            job.kill()
        answer(f"job {job.id} {'was over already' if over else 'is being killed'}")


def _save(_: Workbench, command: Command) -> None:
    job = _job(command)
    path = command.values.get("path") or default_name(job_name(job.id))
    saved = job.save(absolute(path, Path.cwd()), patience=command.values.get("timeout"))
    answer(f"the model of job {job.id} is in {visible(saved.path)}, {visible(saved.words)}")


def _stacks(_: Workbench, command: Command) -> None:
    job = _job(command)
    for line in job.stacks().lines(command.values.get("task")):
        answer(visible(line))


def _exec(_bench: Workbench, command: Command) -> None:
    from submarine_magics.inside import run_inside  # noqa: PLC0415 - no kernel starts with it

    run_inside(command)


def _debug(bench: Workbench, command: Command) -> None:
    from submarine_magics.debugging import run_debug  # noqa: PLC0415 - as above

    run_debug(bench, command)


def _artifacts(_: Workbench, command: Command) -> Listing[Artifact] | None:
    from submarine_magics.artifacts import list_artifacts  # noqa: PLC0415 - seldom asked

    return list_artifacts(command)


def _export(_: Workbench, command: Command) -> None:
    from submarine_engine.export import export_as_asked  # noqa: PLC0415 - as above

    answer(visible(export_as_asked(command).words, 1000))


def _top(_: Workbench, command: Command) -> None:
    # imported late: few jobs are asked
    from submarine_engine.metrics import HEADINGS, reported_lines, usage_rows  # noqa: PLC0415

    job = _job(command)
    found = job.cluster.metrics(job.id)
    rows = [HEADINGS, *usage_rows(found.used)]
    widths = [max(len(row[place]) for row in rows) for place in range(len(HEADINGS))]
    for row in rows:
        answer("  ".join(cell.ljust(wide) for cell, wide in zip(row, widths, strict=True)).rstrip())
    for line in reported_lines(found.reported):
        answer(visible(line))


def _remembered(_: Workbench, __: Command) -> Listing[Entry]:
    entries = Cache().entries()
    rows = [
        (entry.job, entry.name, clock(max(0.0, time.time() - entry.used)), visible(entry.origin))
        for entry in entries
    ]
    return Listing(entries, ("JOB", "NAME", "LAST USED", "OF"), rows)


def _forget(_: Workbench, command: Command) -> None:
    gone = forget(command.values.get("jobs", ()))
    answer(f"{count(gone, 'result')} forgotten; the jobs stay on record")


_SWEEPS = 20


def _sweep_of(command: Command) -> Found:
    from submarine_engine.sweeps.found import open_sweep  # noqa: PLC0415 - no kernel starts with it

    return open_sweep(command.values["sweep"])


def _sweeps(_: Workbench, __: Command) -> Listing[Found]:
    from submarine_engine.sweeps.found import sweeps  # noqa: PLC0415 - as above

    found = sweeps(_SWEEPS)
    rows = [tuple(map(visible, one.row())) for one in found]
    return Listing(found, ("SWEEP", "NAME", "JOB", "TRIALS", "BEST"), rows)


def _show_sweep(_: Workbench, command: Command) -> Listing[TrialResult]:
    found = _sweep_of(command)
    heads, rows = found.table(command.values.get("sort", ""))
    trials = {str(trial.number): trial for trial in found.trials}
    if wanted := command.values.get("trial"):
        rows = [row for row in rows if row[0] in wanted]
        for row in rows if len(rows) == 1 else ():
            answer(found.log(int(row[0])))
    shown = [tuple(map(visible, row)) for row in rows]
    return Listing([trials[row[0]] for row in rows], tuple(map(visible, heads)), shown)


def _attach_sweep(bench: Workbench, command: Command) -> object:
    return _follow(bench, _sweep_of(command).job, command)


def _cancel_sweep(_: Workbench, command: Command) -> None:
    found = _sweep_of(command)
    asked = found.cancel()
    answer(f"sweep {visible(found.name)} {'asked to end' if asked else 'was over already'}")


def _change_sweep(
    change: Callable[[Found, Command], object], word: str
) -> Callable[[Workbench, Command], None]:
    def run(_: Workbench, command: Command) -> None:
        found = _sweep_of(command)
        change(found, command)
        answer(f"sweep {visible(found.name)} {word}: job {found.job_id}")

    return run


# Notebook servers on the cluster. What is imported late here is asked for seldom.


def _start_notebook(bench: Workbench, command: Command) -> None:
    from submarine_engine.notebooks import await_server, submit  # noqa: PLC0415 - as above

    def tell(text: str) -> None:
        say(visible(text))

    job = submit(command.values, tell, bench.cluster_in_use)
    display(mimebundle(job), raw=True)
    if command.values.get("detach"):
        return
    try:
        _show_notebook(await_server(job, command.values.get("within"), tell))
    except KeyboardInterrupt:
        say(f"left; it goes on: %submarine notebook open {job.id}")


def _open_notebook(_: Workbench, command: Command) -> None:
    from submarine_engine.notebooks import open_notebook, server_of  # noqa: PLC0415 - as above

    _show_notebook(server_of(open_notebook(command.values["job"])))


def _show_notebook(found: NotebookServer) -> None:
    """Show the link that leads to it, where Jupyter's server brings it here."""
    server = server_of_kernel()
    if server is None:
        answer(f"open it in a terminal of this machine: submarine notebook open {found.job}")
        return
    path = f"{server.base_url.rstrip('/')}{found.proxy_path}"
    link = f'<a href="{escape(path)}" target="_blank" rel="noopener">Open the notebook</a>'
    display({"text/html": f"<p>{link}</p>", "text/plain": f"the notebook: {path}"}, raw=True)


def _list_notebooks(_: Workbench, __: Command) -> Listing[JobSummary]:
    from submarine_engine.notebooks import running  # noqa: PLC0415 - as above

    found = running()
    if not found:
        answer("no notebook runs; %submarine notebook start begins one")
    return job_table(found)


def _keep_notebooks(_: Workbench, command: Command) -> None:
    from submarine_engine.notebooks import keep  # noqa: PLC0415 - as above

    for job_id in keep(command.values["jobs"]):
        answer(f"notebook {job_id} goes on")


def _stop_notebooks(_: Workbench, command: Command) -> None:
    from submarine_engine.notebooks import stop  # noqa: PLC0415 - as above

    for job_id, asked in stop(command.values["jobs"]):
        answer(f"notebook {job_id} {'is being stopped' if asked else 'was over already'}")


def _usage(_: Workbench, command: Command) -> Listing[Usage]:
    from submarine_engine.usage import WORDS, heads, others, usage  # noqa: PLC0415 - seldom asked

    by, price = command.values.get("by", "user"), load_config().value("gpu_hour_price")
    found = usage(by, command.values.get("since"))
    rows = [tuple(map(visible, one.row(price))) for one in found]
    words = ("", WORDS, *map(visible, others()))
    return Listing(found, tuple(head.upper() for head in heads(by, price)), rows, words)


def _gpus(bench: Workbench, command: Command) -> Listing[Gpu]:
    names = clusters_of(bench.cluster_name(command.values.get("cluster")))
    gpus: list[Gpu] = []
    rows: list[tuple[str, ...]] = []
    shares: list[tuple[str, ...]] = []
    away = []
    for name in names:
        of = (name,) if len(names) > 1 else ()
        try:
            cluster = bench.cluster(name)
            found, parts = cluster.gpus(), cluster.gpu_shares()
        except Exception as error:
            if not of:
                raise
            away += [f"{name}: {visible(as_ours(name, error).what)}"]  # the others are shown
            continue
        gpus += found
        rows += [
            (*of, gpu.id, gpu.name, gpu.host, f"{gpu.memory} MiB" if gpu.memory else "-",
             visible(gpu.held_words))
            for gpu in found
        ]  # fmt: skip
        shares += [(*of, one.kind, one.name, str(one.free), str(one.total)) for one in parts]
    of = ("CLUSTER",) if len(names) > 1 else ()
    below = ("", table((*of, "PART", "NAME", "FREE", "TOTAL"), shares)) if shares else ()
    head = (*of, "GPU", "NAME", "HOST", "MEMORY", "JOB")
    return Listing(gpus, head, rows, (*below, *away))


def _script(bench: Workbench, _: Command) -> Code:
    bundle = bench.bundle or parts_bundle(bench)
    return Code(bundle.script, language="python")


def _use(bench: Workbench, command: Command) -> None:
    wanted = command.values["cluster"]
    if wanted == ANY:
        named = ", ".join(clusters_of(ANY))
        told = f"each job of this notebook goes to the first of {named} whose GPUs are free"
    else:
        bench.cluster(wanted)
        told = f"this notebook's jobs go to {wanted}"
    bench.cluster_in_use = wanted
    bench.get_ready()
    answer(told)


def _doctor(bench: Workbench, command: Command) -> Listing[Check]:
    wanted = command.values.get("cluster") or bench.cluster_in_use
    checks = doctor({"cluster": wanted})
    rows = [
        (check.verdict, check.title, f"{check.what}{check.fix and ' → ' + check.fix}")
        for check in checks
    ]
    return Listing(checks, ("", "CHECK", "FOUND"), rows)


def _help(_: Workbench, command: Command) -> None:
    show_help(command)


VERBS: Mapping[tuple[str, ...], Callable[[Workbench, Command], object]] = {
    ("job", "run"): run_parts,
    ("job", "list"): _list,
    ("job", "show"): _show,
    ("job", "logs"): _logs,
    ("job", "attach"): _attach,
    ("job", "wait"): _wait,
    ("job", "fetch"): _fetch,
    ("job", "cancel"): _cancel,
    ("job", "kill"): _kill,
    ("job", "save"): _save,
    ("job", "retry"): _retry,
    ("job", "rerun"): _rerun,
    ("job", "diff"): _diff,
    ("job", "stacks"): _stacks,
    ("job", "exec"): _exec,
    ("job", "top"): _top,
    ("job", "artifacts"): _artifacts,
    ("job", "export"): _export,
    ("job", "debug"): _debug,
    ("debug",): _debug,
    ("cache", "list"): _remembered,
    ("cache", "clear"): _forget,
    ("sweep", "list"): _sweeps,
    ("sweep", "show"): _show_sweep,
    ("sweep", "attach"): _attach_sweep,
    ("sweep", "pause"): _change_sweep(lambda found, _: found.pause(), "pauses"),
    ("sweep", "resume"): _change_sweep(lambda found, _: found.resume(), "goes on"),
    ("sweep", "extend"): _change_sweep(
        lambda found, command: found.extend(command.values.get("trials", 0)), "has more trials"
    ),
    ("sweep", "retry"): _change_sweep(lambda found, _: found.retry_failed(), "tries them again"),
    ("sweep", "cancel"): _cancel_sweep,
    ("notebook", "start"): _start_notebook,
    ("notebook", "list"): _list_notebooks,
    ("notebook", "open"): _open_notebook,
    ("notebook", "keep"): _keep_notebooks,
    ("notebook", "stop"): _stop_notebooks,
    ("flow", "show"): show_flow,
    ("flow", "run"): run_flow,
    ("flow", "status"): flow_status,
    ("flow", "cancel"): cancel_flow,
    ("flow", "retry"): retry_flow,
    ("serve", "start"): start_serving,
    ("serve", "update"): update_serving,
    ("serve", "list"): list_servings,
    ("serve", "stop"): stop_serving,
    ("usage",): _usage,
    ("gpus",): _gpus,
    ("tensorboard",): show_tensorboard,
    ("script",): _script,
    ("use",): _use,
    ("doctor",): _doctor,
    ("help",): _help,
}


def _job(command: Command) -> Job:
    return open_job(command.values["job"])


def _seconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:.1f} s"
