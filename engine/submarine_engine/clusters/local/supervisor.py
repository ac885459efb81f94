"""A supervisor's start: it starts the task before anything heavy is imported.

A job's first line waits for nothing but this, so it runs by its path, outside the package, without
site packages (``python -I -S supervisor.py …``). Its driver, in `backend`, is imported while the
task's Python comes up.
"""

from __future__ import annotations

# The C half of `signal`: the other half imports enum, and the job's first line would wait for it.
import _signal  # type: ignore[import-not-found]
import ctypes
import os
import sys
import time

TYPE_CHECKING = False  # `typing` is not worth its time here
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import NoReturn

GUARD = "--guard"
_NAP = 0.02  # seconds: killed processes are gone within some; they hold the GPU until then
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_SIGKILL = 9
_CANNOT_RUN = 127


def main(arguments: list[str]) -> None:
    """Run a supervisor; `launch` says the order of the arguments.

    One whose task a zygote has forked is told so in place of a command, see `zygotes`; so is the
    guard of such a one.
    """
    # A thread of a notebook may have blocked signals; neither we nor the task should inherit that.
    _signal.pthread_sigmask(_signal.SIG_SETMASK, ())
    if arguments[0] == GUARD:
        guard(int(arguments[1]))
    home, job_id, task, grace, lock, opened, leases, ahead, *command = arguments
    logs = tuple(int(descriptor) for descriptor in opened.split(",") if descriptor)
    held = [int(descriptor) for descriptor in leases.split(",") if descriptor]
    for descriptor in (int(lock), *logs, *held):
        os.set_inheritable(descriptor, False)  # the task alone gets what is its own
    own: tuple[int, int] | None = None
    if command[0] == "--forked":  # this process has been the subreaper since before the fork
        pid, started = int(command[1]), (float(command[2]), float(command[3]))
        if command[4]:
            own = (int(command[4]), int(command[5]))
            os.set_inheritable(own[0], False)
    else:
        _leave_guard((int(lock), *logs))
        # Whatever loses its parent becomes this process's child, so that nothing outlives the job.
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        pid, started = 0, (0.0, 0.0)
        if task:  # of several, the driver starts each
            pid, started = _start(f"{home}/jobs/{job_id}/launch.json", command, logs, held)
    sys.path.insert(0, __file__.rsplit("/", 4)[0])
    from submarine_engine.clusters.local.backend import supervise  # noqa: PLC0415 - late, see above

    supervise(
        home,
        job_id,
        pid,
        started,
        leases=held,
        grace=float(grace),
        fork_task=fork_task,
        ahead=ahead,
        own=own,
    )


def guard(supervisor: int) -> NoReturn:
    """Wait for a supervisor, this process's child; end what is left of its job where it was killed.

    This process is the subreaper above the supervisor, so whatever the supervisor leaves behind
    becomes its child, even what closed every descriptor and cleared its environment. It holds the
    leases as well: the GPUs fall free when all of that is gone, and no earlier.
    """
    for number in (_signal.SIGTERM, _signal.SIGINT, _signal.SIGHUP):  # the supervisor answers them
        _signal.signal(number, _signal.SIG_IGN)
    ended, status = 0, 0
    while ended != supervisor:
        ended, status = os.waitpid(-1, 0)
    if status == 0:  # it has ended them all by itself
        os._exit(0)
    sys.path.insert(0, __file__.rsplit("/", 4)[0])
    from submarine_engine.clusters.machine import end_children  # noqa: PLC0415 - rarely needed

    while end_children():
        time.sleep(_NAP)
    os._exit(1)


def _leave_guard(closed: tuple[int, ...]) -> None:
    """Go on as a child of this process, which becomes the guard."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    supervisor = os.fork()
    if supervisor:
        for descriptor in closed:
            os.close(descriptor)
        guard(supervisor)


def _start(
    launch: str, command: list[str], logs: tuple[int, ...], held: list[int]
) -> tuple[int, tuple[float, float]]:
    started = (time.time(), time.monotonic())
    try:
        # Whoever takes the job over sees by this whether its code may have begun. It may not begin
        # twice, so this comes first, and is done by one alone.
        os.unlink(launch)  # noqa: PTH108 - pathlib takes long to import
    except FileNotFoundError:
        sys.exit(0)
    return fork_task(command, os.environ, logs, held), started


def fork_task(
    command: list[str], environment: Mapping[str, str], logs: tuple[int, ...], held: list[int]
) -> int:
    """Start a task as this process's child, in a session of its own; return its process.

    Parameters
    ----------
    command
        Its command line; the first word is the program.
    environment
        All its variables; ``SUBMARINE_DRIVER`` is left out.
    logs
        Descriptors of its stdout and stderr, which are closed here.
    held
        Descriptors of its GPU leases, which it inherits.

    Raises
    ------
    OSError
        The machine can start no more processes.
    """
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    supervisor = os.getpid()
    pid = os.fork()
    if pid:
        for descriptor in logs:
            os.close(descriptor)
        return pid
    try:
        os.setsid()
        prctl(_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0)
        if os.getppid() != supervisor:  # it went before the line above
            os._exit(_CANNOT_RUN)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(logs[0], 1)
        os.dup2(logs[1], 2)
        for descriptor in held:
            os.set_inheritable(descriptor, True)
        environment = {key: environment[key] for key in environment if key != "SUBMARINE_DRIVER"}
        os.execve(command[0], command, environment)  # noqa: S606 - no shell on purpose
    except OSError as error:
        os.write(2, f"cannot run {command[0]}: {error.strerror}\n".encode())
    finally:
        os._exit(_CANNOT_RUN)


if __name__ == "__main__":
    main(sys.argv[1:])
