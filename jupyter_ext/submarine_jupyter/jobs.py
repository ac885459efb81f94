"""The user's jobs, clusters and GPUs as JSON: every function here may block."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Any

from submarine_engine.cli.listing import status_json
from submarine_engine.clusters import cluster_names, open_cluster
from submarine_engine.errors import JobNotFoundError
from submarine_engine.future import Job
from submarine_engine.history import JobPaths, default_home, job_user, read_json, shown_user
from submarine_engine.records import list_jobs

if TYPE_CHECKING:
    from pathlib import Path


def paths_of(job_id: str) -> JobPaths:
    """Return the files of one of the user's jobs; the id is the whole one.

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
    """Open one of the user's jobs; raises as `paths_of` does."""
    record = read_json(paths_of(job_id).record) or {}
    return Job(open_cluster(str(record.get("cluster", "local"))), job_id)


def listed(limit: int) -> dict[str, Any]:
    """Return the newest jobs, at most `limit`."""
    return {"jobs": [job.to_json() for job in list_jobs(limit=limit)]}


def shown(job_id: str) -> dict[str, Any]:
    """Return one job: what was asked for, how it stands, its GPU ledger and its pages."""
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
    """Return the manifest of a job's bundle."""
    return read_json(paths_of(job_id).bundle / "manifest.json") or {}


def script(job_id: str, offset: int, limit: int) -> bytes:
    """Return bytes of the entry script."""
    paths = paths_of(job_id)
    entry = str(manifest(job_id).get("entry", "script.py"))
    found = paths.bundle / entry
    if not found.resolve().is_relative_to(paths.bundle.resolve()):
        raise FileNotFoundError(entry)
    return part_of(found, offset, limit)[0]


def log(job_id: str, task: str, stream: str, offset: int, limit: int) -> tuple[bytes, int]:
    """Return bytes of one log, and how many it has by now."""
    path = paths_of(job_id).task(task).log(stream)
    try:
        return part_of(path, offset, limit)
    except FileNotFoundError:
        if any(found.task == task for found in opened(job_id).status().tasks):
            return b"", 0
        raise


def part_of(path: Path, offset: int, limit: int) -> tuple[bytes, int]:
    """Return at most `limit` bytes at `offset`, and the file's size; no link leads elsewhere."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise FileNotFoundError(str(path))
        return os.pread(descriptor, limit, offset), found.st_size
    finally:
        os.close(descriptor)


def ended(job_id: str, *, kill: bool) -> dict[str, Any]:
    """Ask a job to end; ``asked`` is false where it was over already."""
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


def gpus(cluster: str) -> dict[str, Any]:
    """Return a cluster's GPUs, who holds each, and what each node and queue has of them."""
    found = open_cluster(cluster)
    cards = found.gpus()
    fields = ("id", "name", "host", "memory", "job_id", "holder", "queue")
    return {
        "cluster": cluster,
        "total": len(cards),
        "free": sum(card.held_by is None for card in cards),
        "gpus": [{name: getattr(card, name) for name in fields} for card in cards],
        "shares": [
            {"kind": share.kind, "name": share.name, "free": share.free, "total": share.total}
            for share in found.gpu_shares()
        ],
    }
