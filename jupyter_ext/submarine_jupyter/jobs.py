"""The user's jobs, clusters and GPUs as JSON: every function here may block."""

from __future__ import annotations

import errno
import os
import stat
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from submarine_engine.cli.listing import status_json
from submarine_engine.clusters import cluster_names, open_cluster
from submarine_engine.errors import JobNotFoundError, SubmarineError
from submarine_engine.future import Job
from submarine_engine.history import JobPaths, default_home, job_user, read_json, shown_user
from submarine_engine.masking import masked_pread, masker_of
from submarine_engine.records import list_jobs, open_job

if TYPE_CHECKING:
    from pathlib import Path

    from submarine_engine.clusters.base import Cluster


# Where a job was submitted: its notebook and cell, read once from its record.


_MOST = 2000
_LONGEST = 400


@dataclass(frozen=True, slots=True)
class Origin:
    """Notebook, the cell as people call it (``In [3]``), and its id; empty where nobody knows.

    `serves` is as `JobSpec` has it: what kind of page the job serves.
    """

    notebook: str = ""
    cell: str = ""
    cell_id: str = ""
    serves: str = ""


_found: OrderedDict[str, Origin] = OrderedDict()


def origin_of(paths: JobPaths) -> Origin:
    """Return where the job at `paths` comes from; the last ones that were read are remembered.

    Several threads ask. One whose record cannot be read is read again the next time.
    """
    key = str(paths.root)
    if (known := _found.get(key)) is not None:
        return known
    record = _json(paths, "record.json")
    read = _read(paths, record)
    if record:
        _found[key] = read
        while len(_found) > _MOST:
            with suppress(KeyError):  # another thread has taken the last one
                _found.popitem(last=False)
    return read


def _read(paths: JobPaths, record: Mapping[str, Any]) -> Origin:
    manifest = _json(paths, "bundle/manifest.json")
    spec = record.get("spec")
    spec = spec if isinstance(spec, dict) else {}
    entry, spans = manifest.get("entry"), manifest.get("lines")
    ours = [
        span
        for span in (spans if isinstance(spans, list) else [])
        if isinstance(span, dict) and span.get("file") == entry
    ]
    last = ours[-1] if ours else {}  # the main cell ends the script
    cell, cell_id = _text(last.get("cell")), _text(last.get("cell_id"))
    return Origin(_text(spec.get("notebook")), cell, cell_id, _text(spec.get("serves")))


def _text(value: object) -> str:
    return value[:_LONGEST] if isinstance(value, str) else ""


def _json(paths: JobPaths, name: str) -> dict[str, Any]:
    try:
        found: object = read_json(paths.root / name)
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


class NoClusterError(SubmarineError, LookupError):
    """There is no cluster of that name."""


def paths_of(job_id: str) -> JobPaths:
    """Return the files of one of the user's jobs; `job_id` is the whole id.

    Raises
    ------
    JobNotFoundError
        There is no such job, or it is somebody else's.
    """
    paths = JobPaths(default_home(), job_id)
    user = shown_user()
    if not paths.record.is_file() or (user and job_user(default_home(), job_id) != user):
        raise JobNotFoundError(
            "there is no such job on record", job_id=job_id, fix="see `submarine job list`"
        )
    return paths


def opened(job_id: str) -> Job:
    """Open the user's job `job_id`; raises as `paths_of` does."""
    return open_job(paths_of(job_id).job_id)


def cluster_of(job_id: str) -> str:
    """Return the name of the cluster of `job_id`, by its record; raises as `paths_of` does."""
    record = read_json(paths_of(job_id).record) or {}
    return str(record.get("cluster", "local"))


def listed(limit: int) -> dict[str, Any]:
    """Return the newest jobs, at most `limit`."""
    return {"jobs": [job.to_json() for job in list_jobs(limit=limit)]}


def shown(job_id: str) -> dict[str, Any]:
    """Return the job `job_id`: what was asked for, how it stands, its GPU ledger and its pages."""
    job = opened(job_id)
    record = read_json(paths_of(job_id).record) or {}
    return {
        "id": job_id,
        "name": record.get("spec", {}).get("name", ""),
        "cluster": job.cluster.name,
        "spec": record.get("spec"),
        "created": record.get("created"),
        **status_json(job.status()),
        "links": job.cluster.links(job_id),
        "warnings": job.cluster.warnings(job_id),
    }


def manifest(job_id: str) -> dict[str, Any]:
    """Return the manifest of the bundle of `job_id`; empty where it is gone."""
    return read_json(paths_of(job_id).bundle / "manifest.json") or {}


def script(job_id: str, offset: int, limit: int) -> bytes:
    """Return bytes of the entry script.

    Parameters
    ----------
    job_id
        The job.
    offset
        From which byte on.
    limit
        How many bytes at most.
    """
    paths = paths_of(job_id)
    entry = str(manifest(job_id).get("entry", "script.py"))
    found = paths.bundle / entry
    if not found.resolve().is_relative_to(paths.bundle.resolve()):
        raise FileNotFoundError(entry)
    return part_of(found, offset, limit)[0]


def log(job_id: str, task: str, stream: str, offset: int, limit: int) -> tuple[bytes, int]:
    """Return bytes of one log, and how many it has by now.

    Parameters
    ----------
    job_id
        The job.
    task
        Which of its tasks.
    stream
        ``stdout`` or ``stderr``.
    offset
        From which byte on.
    limit
        How many bytes at most.
    """
    path = log_path(job_id, task, stream)
    try:
        with opened_log(path) as log:
            data = masked_pread(masker_of(paths_of(job_id).root), log, limit, offset)
            return data, os.fstat(log).st_size
    except FileNotFoundError:
        check_task(job_id, task)
        return b"", 0


def log_path(job_id: str, task: str, stream: str) -> Path:
    """Return where the log `stream` of `task` of `job_id` is; raises as `paths_of` does."""
    return paths_of(job_id).task(task).log(stream)


def check_task(job_id: str, task: str) -> None:
    """Raise `FileNotFoundError` where the job `job_id` has no `task` of that name."""
    if task not in opened(job_id).status().logged:
        raise FileNotFoundError(task)


def part_of(path: Path, offset: int, limit: int) -> tuple[bytes, int]:
    """Return at most `limit` bytes at `offset` of the file `path`, and the file's size."""
    descriptor = open_plain(path)
    try:
        return os.pread(descriptor, limit, offset), os.fstat(descriptor).st_size
    finally:
        os.close(descriptor)


def open_plain(path: Path) -> int:
    """Open the plain file `path` for reading: no link leads elsewhere, no pipe makes one wait."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise FileNotFoundError(str(path)) from error
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise FileNotFoundError(str(path))
    return descriptor


@contextmanager
def opened_log(path: Path) -> Iterator[int]:
    """Open the log `path` for reading; no link leads elsewhere."""
    descriptor = open_plain(path)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def ended(job_id: str, *, kill: bool) -> dict[str, Any]:
    """Ask the job `job_id` to end; ``asked`` is false where it was over already.

    Parameters
    ----------
    kill
        Whether its processes are ended at once, without time to save.
    """
    job = opened(job_id)
    if job.done():
        return {"id": job_id, "asked": False}
    if kill:
        job.kill()
    else:
        job.cancel("cancelled in Jupyter")
    return {"id": job_id, "asked": True}


def clusters() -> dict[str, Any]:
    """Return the names of the clusters."""
    return {"clusters": [{"name": name} for name in cluster_names()]}


def figures(cluster: str) -> dict[str, Any]:
    """Return a cluster's GPUs, who holds each, and what each node and queue has of them.

    Raises
    ------
    NoClusterError
        There is none of that name.
    ConfigError, ClusterError
        It is not set up as it should be, or does not answer.
    """
    found = _cluster(cluster)
    cards = found.gpus()
    return {
        "total": len(cards),
        "free": sum(card.held_by is None for card in cards),
        "shares": [asdict(share) for share in found.gpu_shares()],
        "gpus": [asdict(card) for card in cards],
    }


def gpus(cluster: str) -> dict[str, Any]:
    """Return what `figures` does, with the cluster's name; raises as that does."""
    return {"cluster": cluster, **figures(cluster)}


def queues(cluster: str) -> dict[str, Any]:
    """Return what each queue may have of the GPUs and has free; raises as `figures` does.

    Parameters
    ----------
    cluster
        Its name.
    """
    shares = [asdict(share) for share in _cluster(cluster).gpu_shares() if share.kind == "queue"]
    return {"cluster": cluster, "queues": shares}


def _cluster(name: str) -> Cluster:
    if name not in cluster_names():
        fix = f"choose one of {', '.join(cluster_names())}"
        raise NoClusterError(f"there is no cluster {name!r}", fix=fix)
    return open_cluster(name)
