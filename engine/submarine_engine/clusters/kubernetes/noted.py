"""What of a job's pods stands in its folder, for whoever is not its keeper."""

from __future__ import annotations

from typing import TYPE_CHECKING

from submarine_engine.errors import ClusterError
from submarine_engine.history import read_json

if TYPE_CHECKING:
    from submarine_engine.history import JobPaths

NOTE = "kubernetes.json"
"""In the job's folder: what was asked of the cluster, written before it is asked."""


def pods_of(paths: JobPaths) -> dict[str, str]:
    """Return the names of the pods of a job's newest attempt, by task.

    Parameters
    ----------
    paths
        The job's files.
    """
    return dict((read_json(paths.root / NOTE) or {}).get("pods") or {})


def python_of(paths: JobPaths) -> str:
    """Return which interpreter a job's pods have, see `KubernetesBackend.prepare`.

    Parameters
    ----------
    paths
        The job's files.

    Raises
    ------
    ClusterError
        It is not on record.
    """
    path = paths.root / "launch.json"
    python = (read_json(path) or {}).get("python")
    if not python:
        raise ClusterError(
            "it is not on record which Python its pods have",
            where=str(path),
            fix="a file of the job's folder is gone or changed: submit the job again",
        )
    return str(python)
