"""The environment that a job gets: the user's own, without the notebook's machinery."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from submarine_runtime import displays

from submarine_engine.errors import UnsupportedError
from submarine_engine.history import TaskPaths

FIGURES = displays.FIGURES
"""Variable that tells a job how its notebook has figures drawn."""

TABLES = displays.TABLES
"""Variable that tells a job that its notebook shows data frames as tables of its own."""

_OF_A_JOB = (
    "SUBMARINE_JOB_ID",
    "SUBMARINE_TASK",
    "SUBMARINE_TASK_DIR",
    "SUBMARINE_INPUT_PATH",
    "SUBMARINE_CHECKPOINT_PATH",
    "SUBMARINE_LOGDIR",
    "SUBMARINE_DRIVER",
)
_OF_NOTEBOOKS = ("JPY_", "PYDEVD", "IPYKERNEL_", "JUPYTERHUB_API_TOKEN")
_THREAD_COUNTS = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)


def job_environment(  # noqa: PLR0913 - each is one thing that the job can ask for
    outer: Mapping[str, str],
    wanted: Mapping[str, str],
    *,
    job_id: str,
    task: TaskPaths,
    vcores: int | None = None,
    input_path: Path | None = None,
    checkpoint_path: Path | None = None,
) -> dict[str, str]:
    """Return a task's environment, all but the GPUs, which are not granted yet.

    Parameters
    ----------
    outer
        The submitter's environment.
    wanted
        What the job's spec asks for; it wins over `outer`.
    vcores
        Limits the threads of numerical libraries, where neither of the two says otherwise.
    """
    environment = {
        key: value
        for key, value in outer.items()
        if key not in _OF_A_JOB and not key.startswith(_OF_NOTEBOOKS)
    }
    if "MPLBACKEND" in environment:
        environment["MPLBACKEND"] = drawing_backend(environment["MPLBACKEND"])
    environment.update(wanted)
    if vcores is not None:
        environment = {**thread_limits(vcores), **environment}
    environment["SUBMARINE_JOB_ID"] = job_id
    environment["SUBMARINE_TASK"] = task.root.name
    environment["SUBMARINE_TASK_DIR"] = str(task.root)
    environment["SUBMARINE_LOGDIR"] = str(task.logdir)
    environment["PYTHONUNBUFFERED"] = "1"
    if input_path is not None:
        environment["SUBMARINE_INPUT_PATH"] = str(input_path)
    if checkpoint_path is not None:
        environment["SUBMARINE_CHECKPOINT_PATH"] = str(checkpoint_path)
    return environment


def drawing_backend(outer: str) -> str:
    """Return the backend of matplotlib in a job for `outer`, the submitter's.

    A notebook's draws into the notebook, by the job's displays; other modules are of programs that
    are not there.
    """
    if not outer.startswith("module://"):
        return outer
    notebook = any(name in outer for name in ("inline", "ipympl", "nbagg"))
    return displays.INLINE if notebook else "Agg"


def thread_limits(vcores: int) -> dict[str, str]:
    """Return what keeps numerical libraries to so many threads."""
    return dict.fromkeys(_THREAD_COUNTS, str(vcores))


def gpu_environment(gpus: Sequence[str]) -> dict[str, str]:
    """Return what shows a task exactly the GPUs granted, none for none."""
    return {"CUDA_VISIBLE_DEVICES": ",".join(gpus)}


def refuse_reserved(wanted: Mapping[str, str]) -> None:
    """Refuse variables that the cluster itself sets.

    Raises
    ------
    UnsupportedError
        `wanted` holds one.
    """
    for key, value in wanted.items():
        if "\0" in value:
            raise UnsupportedError(
                f"the value of {key} holds a NUL character, which no environment can",
                where="--env",
                fix="leave it out",
            )
        if key == "CUDA_VISIBLE_DEVICES":
            raise UnsupportedError(
                "CUDA_VISIBLE_DEVICES is set by the cluster, to the GPUs that it grants",
                where="--env",
                fix="leave it out and ask for GPUs: --gpus N",
            )
        if key in _OF_A_JOB:
            raise UnsupportedError(
                f"{key} is set by the cluster", where="--env", fix="choose another name"
            )
