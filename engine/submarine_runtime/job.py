"""What training code may ask of the job that it runs in: its place, checkpoints, progress.

``from submarine_runtime import job`` is how code gets it; outside a job there is none, and nothing
fails. Which of several tasks this is are names of the module: ``job.rank``, ``job.world_size``. In
a job of one task, and outside a job, it is the first of one: the same code runs in a plain cell.
"""

from __future__ import annotations

import os

from submarine_runtime import progress_file
from submarine_runtime.lean import suppress

TYPE_CHECKING = False  # as type checkers have it; the module takes long to import
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from submarine_runtime.notices import Notice

rank: int
"""Which of the workers this is, from 0; a chief comes first. -1 for a task that is no worker."""
world_size: int
"""How many workers the job has, a chief among them."""
local_rank: int
"""Which of the workers on its host this is, from 0: for what is done once a host. -1 likewise. It
is no number of a GPU: a task sees its own GPUs alone, the first of them as number 0.
"""
local_world_size: int
"""How many workers its host has."""
role: str
"""What this task is for: ``chief``, ``worker``, ``ps``, ``evaluator``."""
index: int
"""Which one of its role this is, from 0."""
hosts: tuple[str, ...]
"""Where the workers are, in the order of their ranks: names or addresses that reach them."""
attempt: int
"""How often the job has been begun, this time included."""
is_chief: bool
"""Whether this is the worker of rank 0, which writes what is written once."""

notice: Notice | None
"""That this task is asked to end, with its `reason` in words and the `seconds` that are left; None
as long as it is not. Both are unknown (``""``, None) where a cluster ends a task by itself.
"""


def id() -> str | None:  # noqa: A001 - read as job.id()
    """Return the job's id; None outside a job."""
    return os.environ.get("SUBMARINE_JOB_ID")


def task() -> str | None:
    """Return which task of the job this is, for example ``worker-0``; None outside a job."""
    return os.environ.get("SUBMARINE_TASK")


def input_path() -> str | None:
    """Return what ``--input_path`` named; None where it was not given."""
    return os.environ.get("SUBMARINE_INPUT_PATH")


def checkpoint_path() -> str | None:
    """Return where the job's checkpoints lie: what ``--checkpoint_path`` named, or its own folder.

    All attempts of the job have the same. A folder is made, so that the first has it too; an
    address (``hdfs://…``) is left to whoever reads it. None outside a job, or where there is none.
    """
    path = _checkpoint_path()
    if path and "://" not in path:
        with suppress(OSError):  # whoever writes there says it better
            os.makedirs(path, 0o700, exist_ok=True)  # noqa: PTH103 - pathlib takes long to import
    return path


def _checkpoint_path() -> str | None:
    return os.environ.get("SUBMARINE_CHECKPOINT_PATH")


def latest_checkpoint() -> str | None:
    """Return the folder of the newest complete checkpoint of `steps` or `checkpoint`, if any.

    One that was not written to its end does not count.
    """
    from submarine_runtime import checkpoints  # noqa: PLC0415 - the first line waits for it

    return checkpoints.latest(_checkpoint_path())


def steps(total: int, state: object, *, own: object = None, every: float = 60.0) -> Iterator[int]:
    """Yield the numbers of the steps that are left, and keep checkpoints of `state` meanwhile.

    A job that is tried again goes on where the last checkpoint was written, with the same weights
    and random numbers, as if it had never been ended. A job that is asked to end, by a cancel or by
    the cluster, comes to the end of its step, writes a checkpoint, and ends then. Outside a job it
    counts, and keeps nothing.

    >>> state = {"model": model, "optimizer": optimizer, "history": history}
    >>> for step in job.steps(10_000, state):
    ...     train_one_batch(step)

    Parameters
    ----------
    total
        How many steps there are; the first is 0.
    state
        All that the steps change, usually a dict. It is changed in place: what has a
        ``state_dict``, models of Keras, arrays, dicts, lists and objects stay the same objects.
        The random states of `random`, numpy and torch are kept besides. Of several ranks the first
        writes it; the generators of random numbers in it are kept for each.
    own
        What each rank has for itself, such as its shard of a model: like `state`, written by each.
    every
        Seconds between two checkpoints; more where writing one takes more than a twentieth of it.
        0 for one after each step.

    Raises
    ------
    TypeError
        `state` cannot be changed in place, or cannot be pickled; or the checkpoint is of another
        state.
    ValueError
        `total` is no number of steps, or the checkpoints are to lie where none can be written.
    OSError
        The folder of the checkpoints cannot be read or written, before the first step. Later the
        training goes on, and the log says so.
    """
    from submarine_runtime import checkpoints  # noqa: PLC0415 - as above

    return checkpoints.steps(total, state, own, _checkpoint_path(), every)


def restore(state: object, *, own: object = None) -> int:
    """Put the newest checkpoint of `checkpoint` into `state`; return after how many calls it was.

    For loops that `steps` is not made for. 0 the first time, and outside a job.

    >>> for epoch in range(job.restore(state), 20):
    ...     train_one_epoch()
    ...     job.checkpoint(state)

    Parameters
    ----------
    state, own
        As `steps` has them.

    Raises
    ------
    TypeError, ValueError, OSError
        As `steps` does.
    """
    from submarine_runtime import checkpoints  # noqa: PLC0415 - as above

    return checkpoints.own_loop(_checkpoint_path(), begins=True).restore(state, own)


def checkpoint(
    state: object, *, own: object = None, every: float = 60.0, must: bool = False
) -> bool:
    """Say between two steps that one is done; keep `state` if it is time, and tell whether it was.

    Parameters
    ----------
    state, own
        As `steps` has them.
    every
        Seconds between two checkpoints.
    must
        Write one now, in all ranks, and raise where that fails. Otherwise the training goes on
        without it, and the log says so.

    Raises
    ------
    RuntimeError
        `restore` was not called before.
    TypeError
        As `steps` does.
    OSError
        The checkpoint must be written, and cannot be.
    KeyboardInterrupt
        The job was asked to end; the checkpoint is written.
    """
    from submarine_runtime import checkpoints  # noqa: PLC0415 - as above

    loop = checkpoints.own_loop(_checkpoint_path(), begins=False, every=every)
    return loop.keep(state, own, must=must)


def xgboost() -> dict[str, Any]:
    """Return the arguments of XGBoost's communicator; rank 0 starts its tracker.

    All workers call it, once for each training.
    Where there is one, and outside a job, it is the communicator of one: the same code runs.

    >>> with xgboost.collective.CommunicatorContext(**job.xgboost()):
    ...     booster = xgboost.train(parameters, matrix)

    Raises
    ------
    RuntimeError
        Rank 0 cannot listen at its port, or does not come; or this task is no worker.
    """
    from submarine_runtime.exchange import place  # noqa: PLC0415 - where it is asked for

    here = place(os.environ.get("SUBMARINE_TASK_DIR"))
    if here.rank < 0:
        raise RuntimeError(f"a {here.role} takes no part in XGBoost's training, workers do")
    from submarine_runtime import rendezvous, xgboost_tracker  # noqa: PLC0415 - as above

    if here.world_size == 1:
        return xgboost_tracker.arguments(0, 1, "127.0.0.1", 0)
    host, port = here.first["host"], here.first["ports"][rendezvous.FOR_XGBOOST]
    return xgboost_tracker.arguments(here.rank, here.world_size, host, port)


def __getattr__(name: str) -> object:
    if name == "notice":
        from submarine_runtime import notices  # noqa: PLC0415 - where it is asked for

        return notices.current()
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from submarine_runtime.exchange import place  # noqa: PLC0415 - where it is asked for

    found = place(os.environ.get("SUBMARINE_TASK_DIR"))
    return getattr(found, name)


_PLACES = (
    "rank",
    "world_size",
    "local_rank",
    "local_world_size",
    "role",
    "index",
    "hosts",
    "attempt",
    "is_chief",
)


def progress(fraction: float, message: str = "") -> None:
    """Say how far the job is; does nothing outside a job.

    May be called at every step: it writes at most every 0.1 s, and the last word always arrives.

    Parameters
    ----------
    fraction
        From 0 to 1.
    message
        One line for people, 200 characters at most.

    Raises
    ------
    TypeError, ValueError
        `fraction` is not a number from 0 to 1.
    """
    wrong = TypeError(f"progress({fraction!r:.40}): the fraction is a number from 0 to 1")
    if isinstance(fraction, (str, bytes, bool)):
        raise wrong
    try:
        number = float(fraction)
    except (TypeError, OverflowError):
        raise wrong from None
    if not 0 <= number <= 1:  # NaN too
        hint = f"; for percent write progress({fraction!r} / 100)" if 1 < number <= 100 else ""  # noqa: PLR2004
        raise ValueError(f"progress({fraction!r}): the fraction is a number from 0 to 1{hint}")
    progress_file.say(number, message)
