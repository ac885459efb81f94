"""Zygotes: processes without a GPU that have imported what a notebook's jobs import.

A job that ends leaves the names of the modules it had loaded
(`submarine_runtime.imported_modules`); its supervisor then starts a process that imports them
(`submarine_runtime.zygote`). The next job like it is forked from there. Like it is what has the
same interpreter, notebook, folder, limits and environment, but for the variables that are a job's
own: the name of the zygote's folder is made of all these, so a job that differs in any finds no
zygote and gets a fresh process.
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
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from submarine_runtime.imported_modules import FILE
from submarine_runtime.zygote import LATE, LOCK, OPTION, ROOM, SOCKET, UNFIT, WANTED, available

from submarine_engine.clusters import locks, machine
from submarine_engine.clusters.machine import DRIVER_MARK, spawn_detached
from submarine_engine.history import JobPaths, make_private, read_foreign, read_json, write_json

_RUNTIME = Path(__file__).resolve().parents[3] / "submarine_runtime" / "__main__.py"
_PATIENCE = 2.0
_LONG_PATIENCE = 30.0
_MOST_ALIVE = 2
_MOST_KEPT = 20
_MOST_NAMES = 20_000
_LARGEST = 1 << 22
_FEW = 10
_UNFIT_FOR = 3600.0
_LEASES = 200
_LEAST_ROOM = 256 << 20
_PLACE_OF_ARGUMENTS = " " * 256  # the forks show their own there

# What a task inherits from whoever starts its supervisor, as the kernel tells it.
_INHERITED = ("limits", "cgroup", "oom_score_adj")
_OF_STATUS = (
    "Umask", "Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs",
    "Seccomp", "Cpus_allowed", "Mems_allowed",
)  # fmt: skip
_SPACES = ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts")


def place(paths: JobPaths, launch: Mapping[str, Any], record: Mapping[str, Any]) -> Path:
    """Return the folder of the zygote for jobs like this one, started from here.

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
) -> bool:
    """Have a zygote start a job's task and supervisor; whether it has done so.

    Parameters
    ----------
    folder
        The zygote's; there may be none.
    program
        The supervisor's command line up to its descriptors.
    descriptors
        The supervisor's lock, the task's stdout and stderr, and the GPU leases.
    """
    if len(descriptors) > _LEASES or not (folder / SOCKET).exists():
        return False
    asked = {
        "task": str(paths.task(task).root),
        "bundle": str(paths.bundle),
        "launch": str(paths.root / "launch.json"),
        "gpus": bool(environment["CUDA_VISIBLE_DEVICES"]),
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
            if connection.recv(64) != b"ready":
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
    known = _wanted(folder)
    alive = _is_alive(folder)
    if alive and len(set(names) - known) < _FEW:  # not worth the time without one
        return
    free, total = available()
    room = max(_LEAST_ROOM, total // 20)
    if free < 2 * room or (known.issuperset(names) and _is_unfit(folder)):
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
    environment = {k: v for k, v in os.environ.items() if k not in LATE and k != DRIVER_MARK}
    environment |= {"CUDA_VISIBLE_DEVICES": "", ROOM: " " * 64}
    command = [sys.executable, "-u", str(_RUNTIME), OPTION, str(folder), _PLACE_OF_ARGUMENTS]
    spawn_detached(command, environment, log=folder / "log", keep=[])


def end(folder: Path) -> bool:
    """End a zygote and wait for it; whether it has gone. The jobs that it forked go on."""
    with suppress(OSError):
        with _connect(folder) as connection:
            _send(connection, {"end": True}, [])
            connection.recv(1)
        lock = locks.take(folder / LOCK, wait=_PATIENCE)
        if lock is not None:
            locks.drop(lock)
            return True
    return not _is_alive(folder)


def _wanted(folder: Path) -> set[str]:
    try:
        wanted = read_json(folder / WANTED) or {"names": []}
    except ValueError:
        return set()
    return set(wanted["names"])


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
