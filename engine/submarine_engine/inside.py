"""Into a running job, from here: a program, a shell or a port of one of its tasks.

`Cluster.begin_inside` finds the task and connects; what goes over the connection is
`submarine_runtime.channel`'s. What ends the connection ends what runs behind it.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import struct
import sys
import termios
import threading
import time
import tty
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from subprocess import CompletedProcess
from typing import TYPE_CHECKING, Any

from submarine_runtime.channel import (
    ERRORS,
    EXIT,
    INPUT,
    INPUT_END,
    INTERRUPT,
    MUCH,
    OUTPUT,
    PIECE,
    SIZE,
    Channel,
)

from submarine_engine.errors import CommandError, JobError, SubmarineError

if TYPE_CHECKING:
    from submarine_engine.clusters.base import Cluster

Write = Callable[[str, bytes], object]
"""Takes bytes of ``stdout`` or ``stderr``."""

_STREAMS = {OUTPUT: "stdout", ERRORS: "stderr"}
_ENDS_WITHIN = 2.0  # seconds in which a job whose connection has ended says that it is over
_LOOK = 0.02  # seconds: a person waits for the reason; it is looked for two seconds at most
_STEP = 1000  # milliseconds: bytes end the wait at once; so often it is seen that nobody reads


def command_words(command: Sequence[str]) -> list[str]:
    """Return the words of a command, checked before anything is asked of a job.

    Raises
    ------
    CommandError
        There are none, or one is no text.
    """
    if isinstance(command, (str, bytes)) or not all(isinstance(word, str) for word in command):
        raise CommandError(
            "the command is no list of words", fix='write ["nvidia-smi", "-L"]: no shell reads it'
        )
    if not command or not command[0]:
        raise CommandError(
            "the command is missing", where="--", fix="write it after --: -- nvidia-smi"
        )
    if any("\0" in word for word in command):
        raise CommandError("the command holds a NUL character", fix="leave it out")
    return list(command)


class Session:
    """A program inside a task, as long as this side listens.

    Parameters
    ----------
    cluster, job_id
        The job.
    asked
        What is to run: see `submarine_runtime.inside`.
    task
        Inside which task; that of rank 0 for None.

    Raises
    ------
    CommandError, JobError, UnsupportedError
        As `Job.exec`.
    """

    def __init__(
        self, cluster: Cluster, job_id: str, asked: Mapping[str, Any], task: str | None = None
    ) -> None:
        self._cluster, self._job_id = cluster, job_id
        self._source: int | None = None
        self._keys: int | None = None
        self.task, self._channel = cluster.begin_inside(job_id, asked, task)

    def follow(self, write: Write, source: int | None = None, *, keys: int | None = None) -> int:
        """Bring input there and output here until the program ends; return its exit code.

        Parameters
        ----------
        write
            Takes the output.
        source
            The descriptor that input comes from; none for None.
        keys
            A descriptor that can be read from when the terminal's size may have changed.

        Raises
        ------
        KeyboardInterrupt
            The second interrupt; the first is the program's.
        JobError
            The job ends meanwhile, or the connection.
        """
        self._source, self._keys = source, keys
        if source is None:
            self._channel.send(INPUT_END)
        interrupted = False
        while True:
            code = None
            with suppress(KeyboardInterrupt):
                code = self._turn(write)
                if code is None:
                    continue
            if code is not None:
                return code
            if interrupted:
                raise KeyboardInterrupt
            interrupted = True
            self._channel.send(INTERRUPT)

    def _turn(self, write: Write) -> int | None:
        """Bring what is there to either side, or wait for it; return how the program has ended."""
        channel, source, keys = self._channel, self._source, self._keys
        while frame := channel.read_one():
            kind, data = frame
            if kind == EXIT:
                return _exit_code(data)
            if kind in _STREAMS:
                write(_STREAMS[kind], data)
        if channel.over:
            raise self._lost()
        poll = select.poll()
        poll.register(channel, channel.events)
        if source is not None and channel.waiting < MUCH:
            poll.register(source, select.POLLIN)
        if keys is not None:
            poll.register(keys, select.POLLIN)
        ready = {descriptor for descriptor, _ in poll.poll()}
        channel.flush()
        if keys is not None and keys in ready:
            os.read(keys, PIECE)
            channel.send(SIZE, json.dumps(_size()).encode())
        if source is not None and source in ready and not self._bring(source):
            self._source = None
        return None

    def _bring(self, source: int) -> bool:
        try:
            data = os.read(source, PIECE)
        except OSError:  # a terminal that is gone
            data = b""
        self._channel.send(INPUT if data else INPUT_END, data)
        return bool(data)

    def give(self, data: bytes) -> None:
        """Give the program `data`, its whole input."""
        for at in range(0, len(data), PIECE):
            self._channel.send(INPUT, data[at : at + PIECE])

    def _lost(self) -> JobError:
        until = time.monotonic() + _ENDS_WITHIN
        with suppress(SubmarineError):
            late = False
            while not late:
                late = time.monotonic() >= until  # it is looked once at least, and once after that
                status = self._cluster.status(self._job_id)
                known = next((one for one in status.tasks if one.task == self.task), None)
                if status.state.final or known is None or known.exited:
                    return JobError(
                        f"{self.task} is over: what ran inside was ended with it",
                        job_id=self._job_id,
                        fix=f"its log says more: submarine job logs {self._job_id}",
                    )
                time.sleep(_LOOK)
        return JobError(
            f"the connection to {self.task} has ended",
            job_id=self._job_id,
            fix="ask once more; what ran inside was ended, the job goes on",
        )

    def close(self) -> None:
        """End the connection, and what runs behind it."""
        self._channel.close()


def _exit_code(data: bytes) -> int:
    with suppress(ValueError, KeyError, TypeError, RecursionError):
        return int(json.loads(data)["code"]) & 0xFF
    return 1


def run(
    cluster: Cluster,
    job_id: str,
    command: Sequence[str],
    *,
    task: str | None = None,
    stdin: bytes = b"",
) -> CompletedProcess[bytes]:
    """Do what `Job.exec` does.

    Parameters
    ----------
    cluster
        The job's.
    job_id
        The job's id.
    command
        The program and its arguments.
    task
        Which task; as `Job.exec` has it.
    stdin
        What the program reads.
    """
    words = command_words(command)
    session = Session(cluster, job_id, {"argv": words}, task)
    out: dict[str, bytearray] = {"stdout": bytearray(), "stderr": bytearray()}
    try:
        session.give(stdin)
        code = session.follow(lambda stream, data: out[stream].extend(data))
    finally:
        session.close()
    return CompletedProcess(words, code, bytes(out["stdout"]), bytes(out["stderr"]))


# A terminal of this side, as the program's own.


def _size() -> dict[str, int]:
    columns, rows = os.get_terminal_size(sys.stdin.fileno())
    return {"rows": rows, "columns": columns}


def terminal() -> dict[str, Any]:
    """Return what a program's terminal has to be like.

    Raises
    ------
    CommandError
        This side has none.
    """
    try:
        found: dict[str, Any] = {**_size(), "term": os.environ.get("TERM", "xterm")}
    except (OSError, ValueError) as error:
        raise CommandError(
            "a shell needs a terminal, and its input is none",
            where="job shell",
            fix="run a program instead: submarine job exec NAME -- PROGRAM",
        ) from error
    return found


@contextmanager
def raw_terminal() -> Iterator[int]:
    """Let every key through, Ctrl-C too; give what can be read from when the size may be another.

    The terminal is as before afterwards, however the program behind it has left it.
    """
    descriptor = sys.stdin.fileno()
    former = termios.tcgetattr(descriptor)
    resized, resizes = os.pipe()
    for end in (resized, resizes):
        os.set_blocking(end, False)
    waker = signal.set_wakeup_fd(resizes, warn_on_full_buffer=False)
    handler = signal.signal(signal.SIGWINCH, lambda *_: None)
    try:
        tty.setraw(descriptor, termios.TCSADRAIN)  # what was typed ahead is kept
        yield resized
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, former)
        signal.signal(signal.SIGWINCH, handler)
        signal.set_wakeup_fd(waker)
        os.close(resized)
        os.close(resizes)


# A port of a task, on loopback here.


class Forward:
    """A port of this machine's loopback that leads to one of a task, for this user alone.

    Parameters
    ----------
    cluster, job_id
        The job.
    port
        The task's.
    local
        This machine's: any that is free for 0; for None the same, or any where that is taken.
    task
        Which; that of rank 0 for None.
    failed
        Is told, in words, of a connection that did not come to the task.
    check
        Whether to see first that somebody listens there.

    Raises
    ------
    CommandError
        The port here is taken.
    JobError
        The job does not run, or nobody listens there.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - what leads where
        self,
        cluster: Cluster,
        job_id: str,
        port: int,
        local: int | None = None,
        task: str | None = None,
        failed: Callable[[str], object] = lambda _: None,
        *,
        check: bool = True,
    ) -> None:
        self._cluster, self._job_id = cluster, job_id
        self._port, self._task, self._failed = port, task, failed
        self.task = task
        if check:
            first = Session(cluster, job_id, {"port": port}, task)
            self.task = first.task
            first.close()
        try:
            self._listener = _listen(port if local is None else local)
        except OSError as error:
            if local is not None:
                raise CommandError(
                    f"port {local} of this machine cannot be had: {error.strerror}",
                    fix=f"name another one, or {port}:0 for any that is free",
                ) from error
            self._listener = _listen(0)
        self.port: int = self._listener.getsockname()[1]

    def serve(self) -> None:
        """Serve connections until the job is over.

        Raises
        ------
        JobError
            It is.
        """
        self._listener.settimeout(_ENDS_WITHIN / 2)
        while True:
            try:
                connection, address = self._listener.accept()
            except TimeoutError:
                status = self._cluster.status(self._job_id)
                if status.state.final:
                    raise JobError(
                        f"the job is over ({status.state.value}): its ports are gone",
                        job_id=self._job_id,
                        fix=f"its log says more: submarine job logs {self._job_id}",
                    ) from None
                continue
            threading.Thread(target=self._lead, args=(connection, address), daemon=True).start()

    def _lead(self, connection: socket.socket, address: tuple[str, int]) -> None:
        with connection:
            if not is_own(address[1], self.port):
                try:
                    connection.getpeername()
                except OSError:  # it was cut off before it could be asked whose it is
                    return
                self._failed("a connection of another user was refused")
                return
            try:
                _, channel = self._cluster.begin_inside(
                    self._job_id, {"port": self._port}, self._task
                )
            except (SubmarineError, OSError) as error:
                self._failed(error.what if isinstance(error, SubmarineError) else str(error))
                return
            _join(connection, channel)

    def close(self) -> None:
        """Listen no more."""
        self._listener.close()


def _listen(port: int) -> socket.socket:
    listener = socket.socket()
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen()
    except BaseException:
        listener.close()
        raise
    return listener


def connect(cluster: Cluster, job_id: str, port: int, task: str | None = None) -> socket.socket:
    """Return a connection to a port of a task; this machine listens nowhere for it.

    Parameters
    ----------
    cluster, job_id
        The job.
    port
        The task's.
    task
        Which; that of rank 0 for None.

    Raises
    ------
    CommandError
        The job has no such task.
    JobError
        The job does not run, or nobody listens there.
    """
    _, channel = cluster.begin_inside(job_id, {"port": port}, task)
    ours, theirs = socket.socketpair()
    threading.Thread(target=_join, args=(theirs, channel), daemon=True).start()
    return ours


def _join(connection: socket.socket, channel: Channel) -> None:
    """Be the connection between both until either ends."""
    try:
        with connection, suppress(OSError):  # whoever has connected here is gone
            _Joined(connection, channel).run()
    finally:
        channel.close()


class _Joined:
    """A connection here and the one to the port of the task, as one."""

    def __init__(self, connection: socket.socket, channel: Channel) -> None:
        connection.setblocking(False)
        self._connection, self._channel = connection, channel
        self._goes = bytearray()
        self._sends, self._comes = True, True  # whether either side may have more

    def run(self) -> None:
        """Bring bytes to either side until one of them ends; OSError where this one does badly."""
        channel = self._channel
        while not channel.over and (self._comes or self._goes):
            self._bring()
            self._wait()
            channel.flush()
            self._send()

    def _bring(self) -> None:
        if len(self._goes) < MUCH:
            for kind, data in self._channel.read():
                self._comes = self._comes and kind != EXIT
                self._goes += data if kind == OUTPUT else b""
        with suppress(BlockingIOError):
            while self._goes:
                del self._goes[: self._connection.send(self._goes[:PIECE])]

    def _wait(self) -> None:
        poll, channel = select.poll(), self._channel
        reads = select.POLLIN if self._comes and len(self._goes) < MUCH else 0
        poll.register(channel, (channel.events & ~select.POLLIN) | reads)
        waits = select.POLLOUT if self._goes else 0
        if self._sends and channel.waiting < MUCH:
            waits |= select.POLLIN
        poll.register(self._connection, waits)
        ready = dict(poll.poll(_STEP if self._comes or self._goes else 0))
        # Nobody reads what comes any more: a port that says nothing would be waited for for ever.
        if ready.get(self._connection.fileno(), 0) & (select.POLLHUP | select.POLLERR):
            raise BrokenPipeError

    def _send(self) -> None:
        if not self._sends or self._channel.waiting >= MUCH:
            return
        with suppress(BlockingIOError):
            data = self._connection.recv(PIECE)
            self._channel.send(INPUT if data else INPUT_END, data)
            self._sends = bool(data)


def is_own(theirs: int, ours: int) -> bool:
    """Return whether a connection of this machine's loopback is this user's, or root's.

    A port of loopback is open to all users of a machine; the kernel knows whose each end is, see
    proc_net_tcp.

    Parameters
    ----------
    theirs, ours
        The ports of its ends.
    """
    loopback = struct.unpack("=I", socket.inet_aton("127.0.0.1"))[0]
    ends = f"{loopback:08X}:{theirs:04X}", f"{loopback:08X}:{ours:04X}"
    with suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
            fields = line.split()
            if (fields[1], fields[2]) == ends:
                return int(fields[7]) in (os.getuid(), 0)
    return False
