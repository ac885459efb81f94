"""The machine as its kernel shows it: its name and memory, and its processes.

Processes are started detached, found by marks in their environment, and ended by group.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

# What this machine is and has.


_MIB = 1 << 20


@cache
def host() -> str:
    """Return the machine's name."""
    return os.uname().nodename


@cache
def boot_id() -> str:
    """Return what is new at each start of the machine; empty where the kernel does not tell."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


@cache
def user_name_of(uid: int) -> str:
    """Return a user's name; the number where the machine knows none.

    Parameters
    ----------
    uid
        The user's number.
    """
    import pwd  # noqa: PLC0415 - few need it

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


_FIRST_PERSON = 1000
"""Below that are users of the system's own, as login.defs has it everywhere."""
_NO_LOGIN = ("nologin", "false")
_PEOPLE_FRESH = 60.0  # seconds: people log in seldom, and a look reads all of ``/proc``
_people: tuple[float, bool] | None = None


def has_other_people() -> bool:
    """Return whether processes of other people are on this machine, as of a minute ago at most.

    Users of the system, root among them, are no people, nor are those that nobody can log in as.
    """
    global _people  # noqa: PLW0603 - a look at all processes takes some milliseconds
    if _people is None or time.monotonic() - _people[0] > _PEOPLE_FRESH:
        uids = set()
        with suppress(OSError), os.scandir("/proc") as entries:
            for entry in entries:
                if entry.name.isdecimal():
                    with suppress(OSError):
                        uids.add(entry.stat().st_uid)
        _people = time.monotonic(), any(map(_is_person, uids - {os.geteuid(), os.getuid()}))
    return _people[1]


def _is_person(uid: int) -> bool:
    import pwd  # noqa: PLC0415 - few need it

    with suppress(KeyError):
        return uid >= _FIRST_PERSON and not pwd.getpwuid(uid).pw_shell.endswith(_NO_LOGIN)
    return False


def vcores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0))


def memory() -> int:
    """Return the machine's memory in mebibytes, or that of this container where it is less."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for limit in ("memory.max", "memory/memory.limit_in_bytes"):  # cgroup v2, v1
        with suppress(OSError, ValueError):  # no such controller, or "max": no limit
            total = min(total, int(Path("/sys/fs/cgroup", limit).read_text()))
    return total // _MIB


def oom_kills() -> int:
    """Return how many processes the kernel has ended for lack of memory since the machine began."""
    try:
        counters = Path("/proc/vmstat").read_text()
    except OSError:
        return 0
    for line in counters.splitlines():
        if line.startswith("oom_kill "):
            return int(line.split()[1])
    return 0


# Processes as the kernel shows them: starting one detached, finding and ending what a job left.
#
# Facts from proc(5) and prctl(2). A pid alone proves nothing, since numbers are used again: a
# process is ours where it is our own child that we have not yet waited for, or where its
# environment names the job.


DRIVER_MARK = "SUBMARINE_DRIVER"
"""Environment variable of supervisors and keepers: a job that submits jobs does not end them."""

_PAGE = os.sysconf("SC_PAGE_SIZE")
_spawned: set[int] = set()


def spawn_detached(
    arguments: Sequence[str], environment: Mapping[str, str], *, log: Path, keep: Sequence[int]
) -> int:
    """Start a process in a session of its own that outlives this one; return its id.

    Parameters
    ----------
    arguments
        The program and what it is called with.
    environment
        All of its environment.
    log
        Takes the process's stdout and stderr, appended.
    keep
        Descriptors that it inherits.

    Raises
    ------
    OSError
        The program is not there, or the machine can start no more.
    """
    import subprocess  # noqa: PLC0415 - most supervisors never start another, and it is slow

    reap()
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        process = subprocess.Popen(  # noqa: S603 - our own program
            arguments,
            env={**environment, DRIVER_MARK: "1"},
            stdin=subprocess.DEVNULL,
            stdout=descriptor,
            stderr=descriptor,
            start_new_session=True,
            pass_fds=keep,
            cwd="/",
        )
    finally:
        os.close(descriptor)
    process.returncode = 0  # `reap` waits for it: it may well outlive the Popen
    _spawned.add(process.pid)
    return process.pid


def reap() -> None:
    """Wait for what `spawn_detached` started and what has ended since, so that no zombie stays."""
    for pid in list(_spawned):
        try:
            ended, _ = os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            ended = pid
        if ended:
            _spawned.discard(pid)


class Stat(NamedTuple):
    """A part of ``/proc/PID/stat``: `start` in clock ticks since the machine's, `rss` in bytes."""

    state: str
    parent: int
    session: int
    start: int
    rss: int


def process_stat(pid: int) -> Stat | None:
    """Return what the kernel says of a process; None where it is gone.

    Parameters
    ----------
    pid
        The process's number.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()  # the name before it may hold anything
    return Stat(
        state=fields[0],
        parent=int(fields[1]),
        session=int(fields[3]),
        start=int(fields[19]),
        rss=int(fields[21]) * _PAGE,
    )


def pid_namespace() -> str:
    """Return which table of processes this one is in, since a container has one of its own.

    Empty where the kernel does not tell.
    """
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


class Session(NamedTuple):
    """A notebook's kernel.

    Parameters
    ----------
    pid
        Its process id.
    start
        When it began, in clock ticks: a number alone is reused.
    host, namespace
        Whose number that is, as of `host` and `pid_namespace`; empty where an older release has
        noted it.
    """

    pid: int
    start: int
    host: str = ""
    namespace: str = ""

    @property
    def is_seen(self) -> bool:
        """Whether its process would show among those of this very machine and container."""
        return self.host in ("", host()) and self.namespace in ("", pid_namespace())


def this_session() -> Session | None:
    """Return this process as a session; None where the kernel does not show it."""
    me = process_stat(os.getpid())
    return Session(os.getpid(), me.start, host(), pid_namespace()) if me else None


def session_of(noted: Mapping[str, Any]) -> Session | None:
    """Return whose job it is; None where it depends on no process.

    Parameters
    ----------
    noted
        The content of ``launch.json``, or what else has a session noted likewise.
    """
    session = noted.get("session")
    if not session:
        return None
    return Session(int(session[0]), int(session[1]), *map(str, session[2:4]))


def lives(session: Session | None) -> bool:
    """Return whether the process of a session is there; one that is None always is.

    So is one elsewhere: a home may be shared by several machines or containers, and nobody in one
    of them can tell what runs in the other.

    Parameters
    ----------
    session
        As `session_of` returned it.
    """
    if session is None or not session.is_seen:
        return True
    seen = process_stat(session.pid)
    return seen is not None and seen.start == session.start and seen.state != "Z"


def process_ids() -> Iterator[int]:
    """Yield the ids of all processes."""
    for name in os.listdir("/proc"):  # noqa: PTH208 - names are all that is needed
        if name.isdecimal():
            yield int(name)


def child_ids(pid: int) -> list[int]:
    """Return the children of a process of one thread.

    Parameters
    ----------
    pid
        The process's number.
    """
    try:
        return [
            int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        ]
    except FileNotFoundError:  # a kernel without CONFIG_PROC_CHILDREN
        return [
            child for child in process_ids() if (seen := process_stat(child)) and seen.parent == pid
        ]


def has_mark(pid: int, variable: str, value: str) -> bool:
    """Return whether a process was started with that environment variable.

    Parameters
    ----------
    pid
        The process's number.
    variable, value
        The name and what it has to be.
    """
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False
    return f"{variable}={value}".encode() in environment.split(b"\0")


def is_driver(pid: int) -> bool:
    """Return whether a process is a supervisor or a keeper.

    Parameters
    ----------
    pid
        The process's number.
    """
    return has_mark(pid, DRIVER_MARK, "1")


def end_process(pid: int, number: int = signal.SIGKILL) -> bool:
    """Send a signal to a process that may be gone; whether it was there and is ours to signal.

    Parameters
    ----------
    pid
        The process's number.
    number
        The signal's.
    """
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)
        return True
    return False


def end_group(group: int, number: int = signal.SIGKILL) -> None:
    """Send a signal to a process group that may be gone; its leader is not yet waited for.

    Parameters
    ----------
    group
        The number of its leader.
    number
        The signal's.
    """
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def end_children() -> bool:
    """Kill this process's children but for supervisors of other jobs; whether there were any.

    Call it again until there are none: in a subreaper, the children of those killed come next.
    """
    found = [pid for pid in child_ids(os.getpid()) if not is_driver(pid)]
    for pid in found:
        end_process(pid)
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    return bool(found)


def end_leftovers(job_id: str, session: int | None, session_start: int | None) -> bool:
    """Kill what is left of a job whose supervisor is gone; whether anything was there.

    That is what was started with the job's id in its environment, and what belongs to the task's
    session. A session whose leader began at another time is a stranger's with the same number.

    Parameters
    ----------
    job_id
        The job's id.
    session
        The number of the session's leader; None where none is known.
    session_start
        When that began, as `process_stat` has it.
    """
    leader = process_stat(session) if session else None
    if leader and leader.start != session_start:
        session = None
    found = False
    for pid in process_ids():
        seen = process_stat(pid)
        if seen is None or seen.state in "ZX" or is_driver(pid):
            continue
        if seen.session == session or has_mark(pid, "SUBMARINE_JOB_ID", job_id):
            found |= end_process(pid)
    return found
