"""Submarine's compute engine: jobs with GPUs from plain Python. Knows no notebook.

>>> from submarine_engine import launch
>>> accuracy = launch(train, epochs=10, gpus=2)  # doctest: +SKIP

Names are loaded when they are first used: ``import submarine_engine`` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from submarine_engine.api import launch, submit
    from submarine_engine.bundle import Bundle, Cell, Manifest
    from submarine_engine.clusters.base import Batch, Cluster, Cursor, Gpu, Saved
    from submarine_engine.errors import (
        ArgumentsError,
        BundleError,
        CannotTravelError,
        CaptureTooLargeError,
        CellSyntaxError,
        ClusterError,
        CommandError,
        ConfigError,
        FlowError,
        JobCancelledError,
        JobError,
        JobFailedError,
        JobLostError,
        JobNotFoundError,
        ResourcesError,
        ResultError,
        SaveError,
        SubmarineError,
        SubmissionError,
        UndefinedNameError,
        UnsupportedError,
    )
    from submarine_engine.events import Display, Event, LogChunk, Moment
    from submarine_engine.future import Job
    from submarine_engine.job import JobSpec, JobState, Resources, Role, TaskState
    from submarine_engine.lifecycle import JobStatus, Ledger, TaskStatus
    from submarine_engine.pool.executor import Executor
    from submarine_engine.pool.mapping import (
        map,  # noqa: A004 - what it is called everywhere
        open_map,
    )
    from submarine_engine.records import JobSummary, list_jobs, open_job
    from submarine_engine.sweeps.found import Found, open_sweep
    from submarine_engine.sweeps.space import choice, integer, loguniform, uniform
    from submarine_engine.sweeps.sweeping import sweep

__version__ = "0.1.0"

_MEMBERS = {
    "api": "launch submit",
    "bundle": "Bundle Cell Manifest",
    "clusters.base": "Batch Cluster Cursor Gpu Saved",
    "errors": (
        "ArgumentsError BundleError CannotTravelError CaptureTooLargeError CellSyntaxError "
        "ClusterError CommandError ConfigError FlowError JobCancelledError JobError "
        "JobFailedError JobLostError JobNotFoundError ResourcesError ResultError SaveError "
        "SubmarineError SubmissionError UndefinedNameError UnsupportedError"
    ),
    "events": "Display Event LogChunk Moment",
    "future": "Job",
    "job": "JobSpec JobState Resources Role TaskState",
    "lifecycle": "JobStatus Ledger TaskStatus",
    "pool.executor": "Executor",
    "pool.mapping": "map open_map",
    "records": "JobSummary list_jobs open_job",
    "sweeps.found": "Found open_sweep",
    "sweeps.space": "choice integer loguniform uniform",
    "sweeps.sweeping": "sweep",
}
_HOMES = {name: module for module, names in _MEMBERS.items() for name in names.split()}

__all__ = [
    "ArgumentsError",
    "Batch",
    "Bundle",
    "BundleError",
    "CannotTravelError",
    "CaptureTooLargeError",
    "Cell",
    "CellSyntaxError",
    "Cluster",
    "ClusterError",
    "CommandError",
    "ConfigError",
    "Cursor",
    "Display",
    "Event",
    "Executor",
    "FlowError",
    "Found",
    "Gpu",
    "Job",
    "JobCancelledError",
    "JobError",
    "JobFailedError",
    "JobLostError",
    "JobNotFoundError",
    "JobSpec",
    "JobState",
    "JobStatus",
    "JobSummary",
    "Ledger",
    "LogChunk",
    "Manifest",
    "Moment",
    "Resources",
    "ResourcesError",
    "ResultError",
    "Role",
    "SaveError",
    "Saved",
    "SubmarineError",
    "SubmissionError",
    "TaskState",
    "TaskStatus",
    "UndefinedNameError",
    "UnsupportedError",
    "choice",
    "integer",
    "launch",
    "list_jobs",
    "loguniform",
    "map",
    "open_job",
    "open_map",
    "open_sweep",
    "submit",
    "sweep",
    "uniform",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
