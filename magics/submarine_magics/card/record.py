"""What a card shows of a job besides its status: read once, from the files of the job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from submarine_engine.artifacts import Listing
from submarine_engine.errors import SubmarineError
from submarine_engine.history import JobPaths, default_home, read_json
from submarine_engine.job import JobSpec
from submarine_engine.map_summary import FILE as CALLS
from submarine_engine.map_summary import Calls, read_calls
from submarine_engine.metrics import Curve, curves, read_job, stamp_of
from submarine_engine.sweeps.summary import FILE as SWEEP
from submarine_engine.sweeps.summary import Summary, read_summary
from submarine_engine.waterfall import Startup

from submarine_magics.card.throttled_reads import ThrottledReads

if TYPE_CHECKING:
    from submarine_engine.future import Job

SCRIPT_LIMIT = 64 << 10
"""Bytes of a script that a card reads; the whole one is in the job's folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """The unchanging part of a job.

    Parameters
    ----------
    origin
        Where it was submitted, in words (``In [3]``); empty where nobody knows.
    machine_gpus
        GPUs of the whole cluster, asked only for a job without any; None where nobody knows.
    not_known
        Whose jobs may use the same GPUs without being known, in words; empty where none may.
    folder
        The job's folder on this machine, ``~`` for the user's own; empty where it is not here.
    log_url
        The page of the job's log.
    log_label
        What its link is called, in the cluster's words.
    links
        The cluster's other pages of the job, ``(label, url)``.
    task_links
        Pages of tasks' logs, by task.
    remembered
        Where the job's result was not computed anew: when it was, as `Job.remembered` says it.
    rerun_of
        The job that it runs once more; empty for all others.
    sweep
        What a job that runs a sweep has found by now; None for all others.
    calls
        How far the calls of a job that runs a map are; None for all others.
    curves
        What its tasks have used and reported by now.
    startup
        Where the time of its start went; None while none of its code runs.
    artifacts
        The files that it has left by now; None where there are none.
    script, script_name, script_size
        The entry script's beginning, at most `SCRIPT_LIMIT` bytes; its name; all its bytes.
    """

    job_id: str
    cluster: str
    spec: JobSpec
    origin: str = ""
    host: str = ""
    machine_gpus: int | None = None
    not_known: str = ""
    folder: str = ""
    log_url: str | None = None
    log_label: str = "Log"
    links: tuple[tuple[str, str], ...] = ()
    task_links: Mapping[str, str] = field(default_factory=dict)
    bundle_hash: str = ""
    remembered: str = ""
    rerun_of: str = ""
    sweep: Summary | None = None
    calls: Calls | None = None
    curves: tuple[Curve, ...] = ()
    startup: Startup | None = None
    artifacts: Listing | None = None
    script: str = ""
    script_name: str = ""
    script_size: int = 0


def read_record(job: Job, *, origin: str = "", machine: bool = True) -> Record:
    """Read what a card shows of `job`; what cannot be read is left out, a card never fails a job.

    Parameters
    ----------
    origin
        As in `Record`.
    machine
        Whether the cluster may be asked for `Record.machine_gpus`, which may take long.
    """
    paths = job_paths(job)
    data = _json(paths.record) if paths else {}
    spec = _spec(data)
    name, script, size = _read_script(paths.bundle) if paths else ("", "", 0)
    return Record(
        job_id=job.id,
        cluster=job.cluster.name,
        spec=spec,
        origin=origin,
        host=str(data.get("host", "")),
        machine_gpus=_machine_gpus(job) if machine and spec.gpus == 0 else None,
        not_known=job.cluster.not_known() if spec.gpus else "",
        folder=_folder(paths.root) if paths else "",
        log_label=job.cluster.log_label,
        bundle_hash=str(data.get("bundle_hash", "")),
        remembered=job.remembered,
        rerun_of=str(data.get("rerun_of", "")),
        script=script,
        script_name=name,
        script_size=size,
    )


def job_paths(job: Job) -> JobPaths | None:
    """Return the files of `job`; None where its record is not on this machine."""
    try:
        paths = JobPaths(getattr(job.cluster, "home", None) or default_home(), job.id)
    except SubmarineError:
        return None
    return paths if paths.root.is_dir() else None


def stored_spec(paths: JobPaths) -> JobSpec:
    """Return what the job of `paths` was asked to run, as its record says; else an empty one."""
    return _spec(_json(paths.record))


def read_sweep(job: Job, spec: JobSpec) -> Summary | None:
    """Return what `job`, where it runs a sweep, has found by now; None for all others.

    Parameters
    ----------
    spec
        What it was asked to run: its first task is the sweep's.
    """
    paths = job_paths(job)
    return read_summary(paths.task(spec.tasks[0]).root) if paths else None


def read_map(job: Job, spec: JobSpec) -> Calls | None:
    """Return how far the calls of `job` are, where it runs a map; None for all others.

    Parameters
    ----------
    spec
        What it was asked to run: its first task is the map's.
    """
    paths = job_paths(job)
    return read_calls(paths.task(spec.tasks[0]).root) if paths else None


def sweep_stamp(job: Job, spec: JobSpec) -> tuple[int, int] | None:
    """Return what differs once a sweep or a map has found more; None for jobs that run none.

    Parameters
    ----------
    job
        Any job.
    spec
        What it was asked to run: the first task would be the sweep's or the map's.
    """
    paths = job_paths(job)
    if paths is None:
        return None
    for name in (SWEEP, CALLS):
        try:
            found = (paths.task(spec.tasks[0]).root / name).stat()
        except OSError:
            continue
        return found.st_mtime_ns, found.st_ino
    return None


_CURVE_TASKS = 16
"""Tasks whose files are read for a card; those of more look alike."""
_curves: ThrottledReads[tuple[object, tuple[Curve, ...]]] = ThrottledReads(2.0, 200)


def read_curves(job: Job, spec: JobSpec, *, final: bool = False) -> tuple[Curve, ...]:
    """Return what a job's tasks have used and reported, as it was some seconds ago at most.

    Parameters
    ----------
    spec
        What the job was asked to run.
    final
        Whether the job is over: then nothing comes any more, and the last of it is wanted.
    """
    paths = job_paths(job)
    if paths is None:
        return ()
    tasks = spec.tasks[:_CURVE_TASKS]

    def read(before: tuple[object, tuple[Curve, ...]] | None) -> tuple[object, tuple[Curve, ...]]:
        stamp = stamp_of(paths, tasks)
        if before is not None and before[0] == stamp:
            return before
        return stamp, curves(read_job(paths, tasks))

    return _curves.find(str(paths.root), read, anew=final)[1]


def _folder(path: Path) -> str:
    try:
        return f"~/{path.relative_to(Path.home())}"
    except (ValueError, RuntimeError):  # elsewhere, or nobody's home is known
        return str(path)


def _json(path: Path) -> dict[str, object]:
    try:
        data: object = read_json(path)
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


def _spec(data: dict[str, object]) -> JobSpec:
    try:
        return JobSpec.from_json(data["spec"])  # type: ignore[arg-type]  # whatever is there
    except (SubmarineError, AttributeError, KeyError, TypeError, ValueError):
        return JobSpec()


def _read_script(bundle: Path) -> tuple[str, str, int]:
    """Return the entry script's name, its first part, and its size in bytes."""
    name = str(_json(bundle / "manifest.json").get("entry", "script.py"))
    path = bundle / name
    try:
        if not path.resolve().is_relative_to(bundle.resolve()):
            return "", "", 0
        with path.open("rb") as file:
            return name, file.read(SCRIPT_LIMIT).decode("utf-8", "replace"), path.stat().st_size
    except (OSError, ValueError):
        return "", "", 0


def _machine_gpus(job: Job) -> int | None:
    try:
        return len(job.cluster.gpus())
    except (SubmarineError, OSError):
        return None
