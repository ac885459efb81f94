"""``%submarine VERB …``: what a notebook can ask for, in the one grammar of all front ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from IPython.display import Code, display
from submarine_engine.clusters.base import Gpu
from submarine_engine.clusters.saving import absolute, default_name
from submarine_engine.command import NOTEBOOK, Command, parse
from submarine_engine.doctor import Check, doctor
from submarine_engine.errors import JobError
from submarine_engine.events import Moment
from submarine_engine.future import Job
from submarine_engine.records import JobSummary, job_name, list_jobs, open_job

from submarine_magics.card import mimebundle
from submarine_magics.card.words import visible
from submarine_magics.homecoming import bring_home, fetch
from submarine_magics.running import parts_bundle, run_parts
from submarine_magics.show import Listing, say, show_help, table
from submarine_magics.tensorboard import show_tensorboard
from submarine_magics.watch import attach, show_log
from submarine_magics.workbench import Workbench

_NEWEST = 20


def run_line(bench: Workbench, line: str) -> object:
    """Do what ``%submarine LINE`` asks for; the shell displays what it returns.

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
        (job.id, job.name, job.state.value, str(job.gpus), _seconds(job.elapsed(now)))
        for job in jobs
    ]
    return Listing(jobs, ("JOB", "NAME", "STATE", "GPUS", "TIME"), rows)


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


def _attach(bench: Workbench, command: Command) -> object:
    job = _job(command)
    if attach(job, command.values.get("offset", 0)):
        return bring_home(bench, job)
    return None


def _wait(_: Workbench, command: Command) -> None:
    job = _job(command)
    timeout = command.values.get("timeout")
    try:
        job.wait(timeout)
    except TimeoutError:
        raise JobError(
            f"it is not over after {timeout:g} s; it goes on",
            job_id=job.id,
            fix=f"wait longer, or end it by %submarine job cancel {job.id}",
        ) from None
    except KeyboardInterrupt:
        raise JobError(
            "no longer waited for; it goes on",
            job_id=job.id,
            fix=f"%submarine job attach {job.id} follows it",
        ) from None
    _show(_, command)


def _fetch(bench: Workbench, command: Command) -> None:
    fetch(bench, _job(command), command.values["variables"])


def _cancel(_: Workbench, command: Command) -> None:
    for job in map(open_job, command.values["jobs"]):
        asked = job.cancel("asked for by %submarine job cancel")
        say(f"job {job.id} {'is being cancelled' if asked else 'was over already'}")


def _kill(_: Workbench, command: Command) -> None:
    for job in map(open_job, command.values["jobs"]):
        over = job.done()
        if not over:
            job.kill()
        say(f"job {job.id} {'was over already' if over else 'is being killed'}")


def _save(_: Workbench, command: Command) -> None:
    job = _job(command)
    path = command.values.get("path") or default_name(job_name(job.id))
    saved = job.save(absolute(path, Path.cwd()), patience=command.values.get("timeout"))
    say(f"the model of job {job.id} is in {visible(saved.path)}, {visible(saved.words)}")


def _gpus(bench: Workbench, command: Command) -> Listing[Gpu]:
    cluster = bench.cluster(command.values.get("cluster"))
    gpus = cluster.gpus()
    rows = [
        (gpu.id, gpu.name, gpu.host, f"{gpu.memory} MiB" if gpu.memory else "-",
         visible(gpu.held_words))
        for gpu in gpus
    ]  # fmt: skip
    shares = [(one.kind, one.name, str(one.free), str(one.total)) for one in cluster.gpu_shares()]
    below = ("", table(("PART", "NAME", "FREE", "TOTAL"), shares)) if shares else ()
    return Listing(gpus, ("GPU", "NAME", "HOST", "MEMORY", "JOB"), rows, below)


def _script(bench: Workbench, _: Command) -> Code:
    bundle = bench.bundle or parts_bundle(bench)
    return Code(bundle.script, language="python")


def _use(bench: Workbench, command: Command) -> None:
    bench.cluster(command.values["cluster"])
    bench.cluster_in_use = command.values["cluster"]
    bench.get_ready()
    say(f"this notebook's jobs go to {bench.cluster_in_use}")


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
