"""The way into a running task: who asks, and how the server beside the task is found.

`submarine_runtime.inside` is that server. Where it runs already, `inside.json` in the task's folder
says where. Else who asks writes ``inside-asked.json`` (``{"id"}``) there, from whichever process;
the job's driver brings that by the exchange to where the task runs, which has a server begin. What
a server says is the word of a stranger: anybody's code in the job can write it.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from submarine_runtime.channel import (
    BEGIN,
    BEGUN,
    KEEP_ALIVE,
    NO_PROGRAM,
    REFUSED,
    VERSION,
    Channel,
    wait,
)

from submarine_engine.clusters import machine
from submarine_engine.errors import ClusterError, CommandError, JobError, ProgramError
from submarine_engine.history import JobPaths, read_foreign, write_json
from submarine_engine.job import JobState
from submarine_engine.lifecycle import JobStatus, TaskStatus
from submarine_engine.outcome import clean

PATIENCE = 20.0
"""Seconds until a server has to be there. A container on YARN looks for questions twice in one."""

_LOOK = 0.004  # seconds: who asks waits for it, and a look reads one small file
_CONNECT = 4.0  # seconds: a packet that is lost once comes again after one, twice after three
_ANSWER = 10.0  # seconds: what is asked for has to begin first, on a machine that may be full
_LARGEST = 1 << 16


class Credentials(NamedTuple):
    """What each end of a connection to another machine shows, and expects of the other.

    Parameters
    ----------
    certificate, key
        PEM files of the user's alone.
    """

    certificate: Path
    key: Path


class _NobodyError(Exception):
    """There is no server any more where one has listened."""


def begin(  # noqa: PLR0913, PLR0917 - who asks, for what, and how they are reached
    paths: JobPaths,
    task: str | None,
    asked: Mapping[str, Any],
    status: Callable[[], JobStatus],
    wake: Callable[[], object],
    credentials: Credentials | None = None,
    reach: Callable[[str], socket.socket | None] = lambda _task: None,
) -> tuple[str, Channel]:
    """Begin something inside a task; return the task and the connection to what has begun.

    Parameters
    ----------
    paths
        The job's files.
    task
        Which; that of rank 0 for None.
    asked
        For what: see `submarine_runtime.inside`.
    status
        Tells how the job stands.
    wake
        Has the job's driver look for questions.
    credentials
        For tasks on other machines.
    reach
        Connects to a task's server by the cluster's own means; returns None where it has none.

    Raises
    ------
    CommandError
        The job has no such task.
    JobError
        The job does not run, or ends meanwhile; the task cannot be reached, or refuses.
    OSError
        The job's folder cannot be written.
    """
    name = _expect_running(paths.job_id, status(), task).task
    files = paths.task(name)
    question = {"id": secrets.token_hex(16)}
    is_asked = False
    nobody: Mapping[str, Any] | None = None
    why: JobError | None = None
    until = time.monotonic() + PATIENCE
    try:
        while True:
            said = _read_object(files.inside)
            if said is not None and said != nobody:
                try:
                    connection = _reached(paths.job_id, name, reach)
                    if connection is None:
                        connection = _connect(paths.job_id, name, said, credentials)
                    return name, _begun(paths.job_id, Channel(connection), said, asked)
                except _NobodyError:
                    nobody = said
                except JobError as error:
                    # What was said there may be of a server that is gone, on another machine.
                    if is_asked:
                        raise
                    nobody, why = said, error
            now = status()
            _expect_running(paths.job_id, now, task)
            if not is_asked and now.state is JobState.RUNNING:
                write_json(files.inside_asked, question)
                is_asked = True
                wake()
            if time.monotonic() > until:
                raise why or JobError(
                    f"nobody has opened a way into {name} within {PATIENCE:g} s",
                    job_id=paths.job_id,
                    fix=f"see whether {paths.supervisor_log} says why, and ask again",
                )
            time.sleep(_LOOK)
    finally:
        with suppress(OSError):
            if _read_object(files.inside_asked) == question:
                files.inside_asked.unlink()


def _read_object(path: Path) -> dict[str, Any] | None:
    with suppress(OSError, ValueError, RecursionError):
        told = json.loads(read_foreign(path, _LARGEST))
        return told if isinstance(told, dict) else None
    return None


def _expect_running(job_id: str, status: JobStatus, task: str | None) -> TaskStatus:
    """Return the task that is meant, where its job runs or starts."""
    if status.state.final:
        raise JobError(
            f"the job is over ({status.state.value}): nothing runs inside it any more",
            job_id=job_id,
            fix=f"its log says what it did: submarine job logs {job_id}",
        )
    if status.state not in (JobState.STARTING, JobState.RUNNING):
        raise JobError(
            f"the job does not run yet ({status.state.value})",
            job_id=job_id,
            fix="ask when it does",
        )
    found = {one.task: one for one in status.tasks}
    if not task:
        return status.ranked[0]
    if task not in found:
        raise CommandError(
            f"the job has no task {task!r}", where="--task", fix=f"one of {', '.join(found)}"
        )
    if found[task].exited:
        raise JobError(f"{task} is over, the job's others are not", job_id=job_id, fix="ask them")
    return found[task]


def _reached(
    job_id: str, task: str, reach: Callable[[str], socket.socket | None]
) -> socket.socket | None:
    """Connect by the cluster's own means; JobError where these fail."""
    try:
        return reach(task)
    except ClusterError as error:
        raise JobError(
            f"{task} cannot be reached: {error.what}", job_id=job_id, fix=error.fix
        ) from error


def _connect(
    job_id: str, task: str, said: Mapping[str, Any], credentials: Credentials | None
) -> socket.socket:
    """Connect to a server.

    Raises
    ------
    _NobodyError
        It is gone.
    JobError
        It cannot be reached from here.
    """
    host, port, path = said.get("host"), said.get("port"), said.get("path")
    if isinstance(path, str) and host == machine.host():
        return _connect_here(path)
    place = f"{task} on {clean(str(host))[:100]}"
    if credentials is None or not isinstance(host, str) or not isinstance(port, int):
        raise JobError(
            f"{place} is on another machine", job_id=job_id, fix="run the same command there"
        )
    try:
        plain = socket.create_connection((host, port), _CONNECT)
        try:
            for option, value in KEEP_ALIVE:
                plain.setsockopt(socket.IPPROTO_TCP, option, value)
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return _context(credentials).wrap_socket(plain)
        except BaseException:
            plain.close()
            raise
    except ConnectionRefusedError as error:
        raise _NobodyError from error
    except (OSError, ValueError) as error:
        raise JobError(
            f"{place} cannot be reached from this machine (port {port}): {error}",
            job_id=job_id,
            fix="use a machine that reaches the cluster's nodes; the job's log and stacks come here"
            " all the same",
        ) from error


def _context(credentials: Credentials) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # It trusts the application's own certificate, which is nobody else's; nodes have many names.
    context.check_hostname = False
    context.load_verify_locations(credentials.certificate)
    context.load_cert_chain(credentials.certificate, credentials.key)
    return context


def _connect_here(path: str) -> socket.socket:
    """Connect to a socket of this machine, by its folder: the path may be too long for one."""
    folder, _, name = path.rpartition("/")
    connection = socket.socket(socket.AF_UNIX)
    try:
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            if os.fstat(opened).st_uid != os.getuid():
                raise PermissionError(f"{folder} is another user's")
            connection.settimeout(_CONNECT)
            _enter(connection, f"/proc/self/fd/{opened}/{name}")
        finally:
            os.close(opened)
    except OSError as error:
        connection.close()
        raise _NobodyError from error
    return connection


def _enter(connection: socket.socket, path: str) -> None:
    """Connect to a socket; wait where many do at once, which unix(7) says so by EAGAIN."""
    until = time.monotonic() + _CONNECT
    while True:
        try:
            connection.connect(path)
            break
        except BlockingIOError:
            if time.monotonic() > until:
                raise
            time.sleep(_LOOK)


def _begun(
    job_id: str, channel: Channel, said: Mapping[str, Any], asked: Mapping[str, Any]
) -> Channel:
    """Say what is asked for; return the channel when it has begun."""
    told = {"version": VERSION, "id": said.get("id"), **asked}
    try:
        channel.send(BEGIN, json.dumps(told).encode())
    except OSError as unsaid:
        channel.close()
        if unsaid.errno != errno.E2BIG:
            raise
        raise CommandError(
            f"the command is too long: {unsaid.strerror}",
            where=f"job {job_id}",
            fix="give what is long as input, or as a file of the job's working folder",
        ) from unsaid
    until = time.monotonic() + _ANSWER
    while not channel.over and time.monotonic() < until:
        wait(channel, until - time.monotonic())
        channel.flush()
        if frame := channel.read_one():
            kind, data = frame
            if kind == BEGUN:
                return channel
            channel.close()
            if kind == REFUSED:
                words = clean(data.decode(errors="replace"))[:1000]
                if "port" in asked:
                    fix = "begin what shall listen there, or name another port"
                    raise JobError(words, job_id=job_id, fix=fix)
                error = ProgramError(
                    words,
                    where=f"job {job_id}",
                    fix="name a program that is on the task's PATH, or the program's whole path",
                )
                error.exit_code = 127 if NO_PROGRAM in words else 126
                raise error
            break
    channel.close()
    raise _NobodyError
