"""Zygotes: processes without a GPU that have imported what jobs import.

A job that ends leaves the names of the modules it had loaded
(`submarine_runtime.imported_modules`); its supervisor then starts a process that imports them
(`submarine_runtime.zygote`). The next job like it is forked from there. Like it is what has the
same interpreter, notebook, folder, limits and environment, but for the variables that are a job's
own: the name of the zygote's folder is made of all these, so a job that differs in any finds no
zygote and gets a fresh process.

A job of several tasks, and one that may be begun again, has a zygote of its own (`OwnZygote`),
whose forks become its supervisor's children.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import socket
import struct
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from submarine_runtime.imported_modules import FILE, IMPORTS
from submarine_runtime.zygote import (
    LATE,
    LOCK,
    OPTION,
    OPTION_OF_JOB,
    READY,
    ROOM,
    SOCKET,
    UNFIT,
    WANTED,
    available,
)

from submarine_engine.clusters import locks, machine
from submarine_engine.clusters.machine import DRIVER_MARK, spawn_detached
from submarine_engine.history import JobPaths, make_private, read_foreign, read_json, write_json
from submarine_engine.job import JobSpec

_RUNTIME = Path(__file__).resolve().parents[3] / "submarine_runtime" / "__main__.py"
_PATIENCE = 2.0  # seconds for an answer: later, a process of its own would have begun already
_LONG_PATIENCE = 30.0  # seconds: it has been told to start, so a second start might be one too many
_MOST_ALIVE = 2
_MOST_KEPT = 20
_MOST_NAMES = 20_000
_LARGEST = 1 << 22
_FEW = 10
_MANY = 150
_LEAST_WAIT, _LONGEST_WAIT = 2.0, 30.0
"""Seconds that a job waits for imports under way: about as long as they would take in the job
itself, but some on a busy machine, and not for ever where one hangs."""
_LOOK = 1.0  # seconds between two looks at what a job imports; it has come to an end in between
_UNFIT_FOR = 3600.0  # seconds: what cannot be forked now may be after the next change of packages
_LEASES = 200
_LEAST_ROOM = 256 << 20
_PLACE_OF_ARGUMENTS = " " * 256  # the forks show their own there
_PLACE_OF_MARKS = " " * 128  # likewise

# What a task inherits from whoever starts its supervisor, as the kernel tells it.
_INHERITED = ("limits", "cgroup", "oom_score_adj")
_OF_STATUS = (
    "Umask", "Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs",
    "Seccomp", "Cpus_allowed", "Mems_allowed",
)  # fmt: skip
_SPACES = ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts")


def place(paths: JobPaths, launch: Mapping[str, Any], record: Mapping[str, Any]) -> Path:
    """Return the folder of the zygote for jobs like this one, started from here.

    Parameters
    ----------
    paths
        The job's files.
    launch
        The content of ``launch.json``.
    record
        The content of ``record.json``.

    Raises
    ------
    OSError
        The kernel does not tell what a process has inherited.
    """
    environment = {k: v for k, v in launch["environment"].items() if k not in LATE}
    alike = [
        launch["command"],
        record["workdir"],
        record["spec"].get("notebook"),
        sorted(environment.items()),
        _conditions(),
    ]
    digest = hashlib.sha256(json.dumps(alike).encode()).hexdigest()
    return paths.root.parents[1] / "hosts" / machine.host() / "zygotes" / digest[:16]


def _conditions() -> list[str]:
    me = Path("/proc/self")
    told = [f"nice {os.getpriority(os.PRIO_PROCESS, 0)}"]
    lines = (me / "status").read_text(errors="replace").splitlines()
    told += [line for line in lines if line.partition(":")[0] in _OF_STATUS]
    for name in _INHERITED:
        with suppress(OSError):
            told.append((me / name).read_text(errors="replace"))
    for name in _SPACES:
        with suppress(OSError):
            told.append(os.readlink(me / "ns" / name))  # noqa: PTH115 - it is a name, no path
    return told


def fork(  # noqa: PLR0913, PLR0917 - what a supervisor is made of
    folder: Path,
    paths: JobPaths,
    task: str,
    program: Sequence[str],
    environment: Mapping[str, str],
    descriptors: Sequence[int],
    *,
    own: bool,
) -> bool:
    """Have a zygote start a job's task and supervisor; whether it has done so.

    Parameters
    ----------
    folder
        The zygote's; there may be none.
    paths
        The job's files.
    task
        The job's only one; empty where there are several, which the supervisor starts.
    program
        The supervisor's command line up to its descriptors.
    environment
        The variables of the task, or of the supervisor where there are several.
    descriptors
        The supervisor's lock, the only task's stdout and stderr, and the GPU leases.
    own
        Whether the supervisor gets a zygote of its own, see `OwnZygote`.
    """
    if len(descriptors) > _LEASES or not (folder / SOCKET).exists():
        return False
    asked = {
        "task": str(paths.task(task).root) if task else "",
        "own": own,
        "bundle": str(paths.bundle),
        "launch": str(paths.root / "launch.json"),
        "gpus": bool(environment["CUDA_VISIBLE_DEVICES"]),
        "several": not task,
        "ahead": str(folder),
        "supervisor": list(program),
        "environment": {**environment, DRIVER_MARK: "1"},
    }
    log = os.open(
        paths.supervisor_log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600
    )
    try:
        with _connect(folder) as connection:
            _send(connection, asked, [log, *descriptors])
            if connection.recv(64) != READY:
                return False
            # Until it is told so nothing is started: one that answers too late starts nothing.
            connection.sendall(b"go")
            connection.settimeout(_LONG_PATIENCE)
            with suppress(TimeoutError):  # it is stopped, and has been told
                return connection.recv(2) == b"on"
            return True
    except OSError:
        return False
    finally:
        os.close(log)


def prepare(folder: Path, paths: JobPaths, task: str) -> None:
    """After a job, see to it that a zygote has imported what the job had imported.

    Call it from the job's supervisor: the zygote has its environment.

    Parameters
    ----------
    folder
        The zygote's.
    paths
        The job's files.
    task
        Which task's imports count.

    Raises
    ------
    OSError, ValueError, KeyError, TypeError
        The folder cannot be written, or the job's own files are not what they should be.
    """
    try:
        left = json.loads(read_foreign(paths.task(task).root / FILE, _LARGEST))
    except FileNotFoundError:  # nothing heavy
        return
    plan = read_json(paths.task(task).plan)
    record = read_json(paths.record)
    if plan is None or record is None:
        return
    names = [name for name in left["names"] if isinstance(name, str)]
    known = set(_wanted(folder))
    alive = _is_alive(folder)
    if alive and len(set(names) - known) < _FEW:  # not worth the time without one
        return
    room = _room()
    if not room or (known.issuperset(names) and _is_unfit(folder)):
        return
    make_private(folder)
    _make_room(folder)
    if alive and not end(folder):
        return
    (folder / UNFIT).unlink(missing_ok=True)
    wanted = [*known - set(names), *names] if len(known) < _MOST_NAMES else names
    write_json(
        folder / WANTED,
        {
            "names": wanted[:_MOST_NAMES],
            "workdir": record["workdir"],
            "idle": plan["ahead"]["idle"],
            "room": room,
        },
    )
    _spawn([OPTION, str(folder)], folder)


def _spawn(words: Sequence[str], folder: Path, keep: Sequence[int] = ()) -> int:
    """Start a zygote; return its process."""
    environment = {k: v for k, v in os.environ.items() if k not in LATE and k != DRIVER_MARK}
    environment |= {"CUDA_VISIBLE_DEVICES": "", ROOM: _PLACE_OF_MARKS}
    command = [sys.executable, "-u", str(_RUNTIME), *words, _PLACE_OF_ARGUMENTS]
    return spawn_detached(command, environment, log=folder / "log", keep=keep)


def _room() -> int:
    """Return how much memory a zygote has to leave to others; 0 where there is none for it."""
    free, total = available()
    room = max(_LEAST_ROOM, total // 20)
    return 0 if free < 2 * room else room


def end(folder: Path) -> bool:
    """End the zygote of `folder` and wait for it; return whether it has gone.

    The jobs that it forked go on.
    """
    with suppress(OSError):
        with _connect(folder) as connection:
            _send(connection, {"end": True}, [])
            connection.recv(1)
        lock = locks.take(folder / LOCK, wait=_PATIENCE)
        if lock is not None:
            locks.drop(lock)
            return True
    return not _is_alive(folder)


def _wanted(folder: Path) -> list[str]:
    try:
        wanted = read_json(folder / WANTED) or {"names": []}
    except ValueError:
        return []
    return list(wanted["names"])


def _is_alive(folder: Path) -> bool:
    return not locks.is_free(folder / LOCK)


def _is_unfit(folder: Path) -> bool:
    try:
        return time.time() - (folder / UNFIT).stat().st_mtime < _UNFIT_FOR
    except FileNotFoundError:
        return False


def _make_room(folder: Path) -> None:
    """End the zygotes that are too many, and forget those that nobody has used for long."""
    others = [other for other in folder.parent.iterdir() if other != folder]
    others.sort(key=lambda other: other.stat().st_mtime, reverse=True)
    alive = [other for other in others if _is_alive(other)]
    for other in alive[_MOST_ALIVE - 1 :]:
        end(other)
    for other in others[_MOST_KEPT - 1 :]:
        if not _is_alive(other):
            shutil.rmtree(other, ignore_errors=True)


def _connect(folder: Path) -> socket.socket:
    """Connect to the zygote of a folder that is this user's alone.

    Raises
    ------
    OSError
        There is none.
    """
    here = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        status = os.fstat(here)
        if status.st_uid != os.getuid() or status.st_mode & 0o077:
            raise PermissionError(f"{folder} is not this user's alone")
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(_PATIENCE)
        try:
            connection.connect(f"/proc/self/fd/{here}/{SOCKET}")  # an address has 107 bytes
            told = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
            peer: int = struct.unpack("3i", told)[1]
        except BaseException:
            connection.close()
            raise
    finally:
        os.close(here)
    if peer != os.getuid():
        connection.close()
        raise PermissionError("another user listens there")
    return connection


def _send(connection: socket.socket, asked: Mapping[str, Any], descriptors: Sequence[int]) -> None:
    data = json.dumps(asked).encode()
    socket.send_fds(connection, [struct.pack("!I", len(data))], list(descriptors))
    connection.sendall(data)


# A job's own zygote.


class OwnZygote:
    """Forks the tasks of a supervisor's job where what they import is imported already.

    It is the supervisor's child. What it forks becomes the supervisor's child, too, since that is
    the subreaper of all below it: in all else the task is as a fresh one. It is made of the
    notebook's zygote as the job begins; or anew, of what the first attempt imports, while that
    runs.

    Parameters
    ----------
    folder
        That of the notebook's zygote.
    paths, spec
        The job.
    """

    def __init__(self, folder: Path, paths: JobPaths, spec: JobSpec) -> None:
        self._folder = folder
        self._paths = paths
        self._spec = spec
        self._base = _without_late(os.environ)
        self._imports = paths.task(spec.tasks[0]).root / IMPORTS
        self._names = 0  # that it has beyond those of the notebook's
        self._size = 0
        self._looked_at = time.monotonic()
        self._began = time.time()
        self._took = 0.0  # seconds up to the last import
        self._connection: socket.socket | None = None
        self._pid = 0
        self._ready = False

    def adopt(self, descriptor: int, pid: int) -> None:
        """Take the fork of the notebook's zygote that came with this process.

        Parameters
        ----------
        descriptor
            A connected socket to that fork; it is ours from now on.
        pid
            Its process.
        """
        self._connection, self._pid = socket.socket(fileno=descriptor), pid
        self._connection.settimeout(_PATIENCE)
        self._ready = True

    def fork(
        self, task: str, environment: Mapping[str, str], logs: Sequence[int], held: Sequence[int]
    ) -> Callable[[], int] | None:
        """Begin to fork a task.

        Returns what waits for its process and lets it go on: 0 where the task has to be started
        anew. None where it cannot be forked.

        Parameters
        ----------
        environment
            The task's.
        logs
            Descriptors of its stdout and stderr.
        held
            Descriptors of its GPU leases.

        Raises
        ------
        OSError
            There is no room for one more descriptor.
        """
        role = next(role for role in self._spec.roles if task in role.tasks)
        alike = role.command is None and _without_late(environment) == self._base
        if not alike or len(held) > _LEASES:
            return None
        connection = self._ready_connection()
        if connection is None:
            return None
        asked = {
            "task": str(self._paths.task(task).root),
            "bundle": str(self._paths.bundle),
            "gpus": bool(environment["CUDA_VISIBLE_DEVICES"]),
            "several": len(self._spec.tasks) > 1,
            "environment": {name: environment[name] for name in LATE if name in environment},
        }
        ours, its = socket.socketpair()
        with its:
            try:
                _send(connection, asked, [its.fileno(), *logs, *held])
            except OSError:  # it is stopped, or gone
                ours.close()
                self.close()
                return None
        return lambda: self._let_go_on(ours)

    def _let_go_on(self, asked: socket.socket) -> int:
        told = b""
        with asked:
            # Where it does not answer the first, the others need not wait for that.
            asked.settimeout(_PATIENCE if self._pid else 0)
            with suppress(OSError):
                told = asked.recv(64)
                pid = int(told) if told.isdigit() else 0
                if pid and _is_child(pid):
                    asked.sendall(b"go")
                    return pid
        if not told.startswith(b"no"):
            self.close()
        return 0

    def _ready_connection(self) -> socket.socket | None:
        """Return the connection to it; where it still imports, wait: each task would take longer.

        None where there is none.
        """
        connection = self._connection
        if connection is not None and not self._ready:
            # No longer than the imports would take once more.
            connection.settimeout(min(max(_LEAST_WAIT, self._took), _LONGEST_WAIT))
            with suppress(OSError):  # until now jobs came first
                Path(f"/proc/{self._pid}/autogroup").write_text("0")
            with suppress(OSError):
                told = connection.recv(1024)
                self._ready = told == READY
                if told.startswith(b"no"):
                    (self._folder / UNFIT).write_bytes(told.partition(b" ")[2] + b"\n")
            if not self._ready:
                self.close()
                return None
            connection.settimeout(_PATIENCE)
        return connection

    def fork_ahead(self) -> None:
        """Make one of what the attempt has imported, once it imports no more."""
        now = time.monotonic()
        if now - self._looked_at < _LOOK:
            return
        self._looked_at = now
        before, self._size = self._size, _size(self._imports)
        if self._size == before and self._size > self._names * 2:  # a name and the end of its line
            with suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
                self._renew()

    def hurry(self) -> None:
        """Make one of what was imported by now: an attempt is over, and another begins."""
        self._looked_at -= _LOOK
        self._size = _size(self._imports)
        self.fork_ahead()

    def _renew(self) -> None:
        text = read_foreign(self._imports, _LARGEST).decode()
        names = list(dict.fromkeys(text.splitlines()))[:_MOST_NAMES]
        known = _wanted(self._folder) if self._pid else []
        news = set(names) - set(known)
        if len(news) - self._names < _MANY or _is_unfit(self._folder):
            return
        self._names = len(news)
        self._took = self._imports.lstat().st_mtime - self._began
        record = read_json(self._paths.record)
        room = _room()
        if not room or record is None:
            return
        self.close()
        make_private(self._folder)
        ours, its = socket.socketpair()
        try:
            with its:
                words = [OPTION_OF_JOB, str(its.fileno())]
                self._pid = _spawn(words, self._folder, keep=[its.fileno()])
            wanted = {
                "names": [*known, *names],
                "workdir": record["workdir"],
                "room": room,
                "supervisor": os.getpid(),
                "gpus": bool(self._spec.gpus),
                "several": len(self._spec.tasks) > 1,
            }
            ours.settimeout(_PATIENCE)
            _send(ours, wanted, [])
        except BaseException:
            ours.close()
            raise
        self._connection, self._ready = ours, False

    def close(self) -> None:
        """End it; what it has forked goes on."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._pid and _is_child(self._pid):
            machine.end_process(self._pid)
            with suppress(ChildProcessError):
                os.waitpid(self._pid, 0)
        self._pid = 0


def _without_late(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name not in LATE}


def _is_child(pid: int) -> bool:
    """Return whether a process is this one's child, and has not been waited for."""
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0
