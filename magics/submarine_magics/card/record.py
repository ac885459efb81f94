"""What a card shows of a job besides its status: read once, from the job's record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from submarine_engine.errors import SubmarineError
from submarine_engine.history import JobPaths, default_home, read_json
from submarine_engine.job import JobSpec

if TYPE_CHECKING:
    from submarine_engine.future import Job

SCRIPT_LIMIT = 64 << 10
"""Bytes of a script that a card reads; the whole one is in the job's folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """The unchanging part of a job.

    Parameters
    ----------
    title
        What the job is called.
    origin
        Where it was submitted, in words (``In [3]``); empty where nobody knows.
    machine_gpus
        GPUs of the whole cluster, asked only for a job without any; None where nobody knows.
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
    script, script_name, script_size
        The entry script's beginning, at most `SCRIPT_LIMIT` bytes; its name; all its bytes.
    """

    job_id: str
    cluster: str
    spec: JobSpec
    title: str = ""
    origin: str = ""
    host: str = ""
    machine_gpus: int | None = None
    folder: str = ""
    log_url: str | None = None
    log_label: str = "Log"
    links: tuple[tuple[str, str], ...] = ()
    task_links: Mapping[str, str] = field(default_factory=dict)
    bundle_hash: str = ""
    script: str = ""
    script_name: str = ""
    script_size: int = 0


def read_record(
    job: Job, *, title: str | None = None, origin: str = "", machine: bool = True
) -> Record:
    """Read what a card shows of `job`; what cannot be read is left out, a card never fails a job.

    Parameters
    ----------
    title, origin
        As in `Record`; the title is the job's name where None.
    machine
        Whether the cluster may be asked for `Record.machine_gpus`, which may take long.
    """
    paths = job_paths(job)
    data = _json(paths.record) if paths else {}
    spec = _spec(data)
    name, script, size = _script(paths.bundle) if paths else ("", "", 0)
    return Record(
        job_id=job.id,
        cluster=job.cluster.name,
        spec=spec,
        title=title or spec.name,
        origin=origin,
        host=str(data.get("host", "")),
        machine_gpus=_machine_gpus(job) if machine and spec.gpus == 0 else None,
        folder=_folder(paths.root) if paths else "",
        log_label=job.cluster.log_label,
        bundle_hash=str(data.get("bundle_hash", "")),
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
    """Return what a job was asked to run, as its record says; an empty one where it does not."""
    return _spec(_json(paths.record))


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


def _script(bundle: Path) -> tuple[str, str, int]:
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
