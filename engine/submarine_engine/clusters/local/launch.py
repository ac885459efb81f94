"""From a job on record to a supervisor that runs it.

``launch.json`` holds what the supervisor needs, the user's environment with it. The supervisor
removes it just before it starts the task. So it also tells whether the job's code may have begun:
as long as it is there, whoever finds the job without a supervisor may grant it once more.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from submarine_engine.clusters import locks, machine, store
from submarine_engine.clusters.environment import gpu_environment
from submarine_engine.clusters.machine import spawn_detached
from submarine_engine.clusters.store import Journal, read_events
from submarine_engine.events import CancelRequested, Event, Finished, Granted, Released, Resized
from submarine_engine.history import JobPaths, TaskPaths, read_json
from submarine_engine.job import JobState

_SUPERVISOR = Path(__file__).with_name("supervisor.py")

_PATIENCE = 1.0  # seconds: readers hold it for a moment; who holds it longer runs the job already


def launch_file(paths: JobPaths) -> Path:
    """Return the path of ``launch.json`` of the job at `paths`."""
    return paths.root / "launch.json"


def start(paths: JobPaths, leases: Mapping[str, int], lock: int | None = None) -> bool:
    """Grant a job its GPUs and start its supervisor; nothing where it has begun or is gone.

    Whatever stands in the way becomes the job's end, said in words.

    Parameters
    ----------
    paths
        The job's files.
    leases
        Locked descriptors by GPU id.
    lock
        The supervisor's lock of the job, where the caller holds it; closed here.

    Returns
    -------
    bool
        False where it must be tried again: somebody holds the lock of a job that has not begun.
    """
    if lock is None:
        try:
            lock = locks.take(paths.lock, wait=_PATIENCE)
        except OSError:  # the folder is gone
            return True
    if lock is None:  # its supervisor lives, or a reader is at it
        return not launch_file(paths).exists()
    try:
        launch = read_json(launch_file(paths))
        record = read_json(paths.record)
        if launch and record:
            _start(paths, record, launch, leases, lock)
    except (OSError, ValueError, KeyError, TypeError) as error:
        _give_up(paths, f"the job could not be started: {error}")
    finally:
        locks.drop(lock)
    return True


def _start(
    paths: JobPaths,
    record: Mapping[str, Any],
    launch: Mapping[str, Any],
    leases: Mapping[str, int],
    lock: int,
) -> None:
    if (wanted := store.cancel_request(paths)) is not None:
        end_unstarted(paths, wanted.reason)
        return
    tasks: dict[str, dict[str, Any]] = launch["tasks"]
    resized: list[Event] = []
    if launch.get("elastic"):
        granted = sized(tasks, len(leases))
        resized = [Resized(tasks=tuple(granted), gpus=len(leases))]
        tasks = granted
    journal = Journal(paths, record)
    try:
        journal.append(*resized, *_grants(paths, tasks, tuple(leases)))
    finally:
        journal.close()
    # The first half of a supervisor starts a job's only task; of several, the second starts each.
    alone = next(iter(tasks)) if len(launch["tasks"]) == 1 else ""
    logs = open_logs(paths.task(alone)) if alone else ()
    try:
        held = list(leases.values())
        program = [launch["python"], "-I", "-S", str(_SUPERVISOR)]
        program += [str(paths.root.parents[1]), paths.job_id, alone, str(launch["grace"])]
        environment = {**launch["environment"], **gpu_environment(tuple(leases))}
        command = list(launch["command"])
        if alone:
            environment |= tasks[alone]["environment"]
            command.append(str(paths.task(alone).root))
        ahead = None
        if launch.get("ahead"):
            from submarine_engine.clusters.local import zygotes  # noqa: PLC0415 - others need none

            ahead = zygotes.place(paths, launch, record)
            keep = [lock, *logs, *held]
            again = record["spec"].get("retries") is not None or bool(launch.get("elastic"))
            own = again or not alone
            if zygotes.fork(ahead, paths, alone, program, environment, keep, own=own):
                return
        # The order of `supervisor.main`.
        arguments = [
            str(lock),
            ",".join(map(str, logs)),
            ",".join(map(str, held)),
            str(ahead or ""),
            *command,
        ]
        spawn_detached(
            [*program, *arguments],
            environment,
            log=paths.supervisor_log,
            keep=[lock, *logs, *held],
        )
    finally:
        for descriptor in logs:
            os.close(descriptor)


def sized(tasks: Mapping[str, dict[str, Any]], gpus: int) -> dict[str, dict[str, Any]]:
    """Return those of the tasks of an elastic job for which so many GPUs are enough.

    Parameters
    ----------
    tasks
        All that it may have, as ``launch.json`` has them, in the order of the spec.
    gpus
        Enough for the fewest.
    """
    others = sum(told["gpus"] for task, told in tasks.items() if not task.startswith("worker-"))
    found = {}
    left = gpus - others
    for task, told in tasks.items():
        if task.startswith("worker-"):
            left -= told["gpus"]
            if left < 0:
                continue
        found[task] = told
    return found


def open_logs(files: TaskPaths) -> tuple[int, int]:
    """Open stdout and stderr of the task of `files`, to be appended to.

    Raises
    ------
    OSError
        The disk is full, or the folder is gone.
    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
    stdout = os.open(files.stdout, flags, 0o600)
    try:
        return stdout, os.open(files.stderr, flags, 0o600)
    except BaseException:
        os.close(stdout)
        raise


def _grants(
    paths: JobPaths, tasks: Mapping[str, Mapping[str, Any]], gpus: Sequence[str]
) -> Iterator[Granted]:
    """Yield that each task has its GPUs, in the order of the tasks."""
    told = [event for event, _ in read_events(paths.events)[0] if isinstance(event, Granted)]
    for number, (task, asked) in enumerate(tasks.items()):
        # Its code has not begun: granted once more, it is still the first attempt.
        count = 1 + sum(event.task == task for event in told)
        yield Granted(
            task=task,
            host=machine.host(),
            container=f"{paths.job_id[-5:]}{f'-{number}' if number else ''}-{count}",
            gpus=tuple(gpus[: asked["gpus"]]),
        )
        gpus = gpus[asked["gpus"] :]


def _give_up(paths: JobPaths, reason: str) -> None:
    # Where even this fails, a reader finds the job without a supervisor and says that it is lost.
    with suppress(OSError, ValueError, KeyError, TypeError):
        _finish(paths, Finished(state=JobState.FAILED, reason=reason))


def end_unstarted(paths: JobPaths, reason: str) -> None:
    """Write that a job was cancelled before it began; the caller holds the supervisor's lock.

    Parameters
    ----------
    paths
        The job's files.
    reason
        Why; empty for the usual words.

    Raises
    ------
    OSError
        The disk is full or the folder is gone.
    """
    finished = Finished(state=JobState.CANCELLED, reason=reason or "cancelled in the queue")
    _finish(paths, CancelRequested(reason=reason), finished)


def _finish(paths: JobPaths, *events: Event) -> None:
    record = read_json(paths.record)
    if record is None:
        return
    told = (event for event, _ in read_events(paths.events)[0])
    granted = dict.fromkeys(event.task for event in told if isinstance(event, Granted))
    released = [Released(task=task) for task in granted]
    journal = Journal(paths, record)
    try:
        journal.append_last(*released, *events)
    finally:
        journal.close()
    launch_file(paths).unlink(missing_ok=True)
