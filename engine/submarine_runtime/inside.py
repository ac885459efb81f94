"""A server beside a running task: for the owner it runs programs and shells, and forwards ports.

It serves ``submarine job exec``, ``shell`` and ``forward`` (`submarine_engine.inside`). It begins
when somebody first asks for it, and ends when nobody has for a while, or the task ends. What it
runs has the environment, the folder and the GPUs of the task, and is ended with it: on the local
cluster the supervisor ends all of the task's processes, elsewhere this server ends its own.

On the same machine it listens at a socket in the task's folder, which only the owner may enter. For
another machine it listens by TLS: both ends show the application's certificate, which nobody else
has.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import select
import signal
import socket
import struct
import sys
import termios
import time
from contextlib import suppress

if __name__ == "__main__":  # it is run by its path: nothing of the user's is imported for it
    sys.path.insert(0, __file__.rsplit("/", 2)[0])

from submarine_runtime.channel import (
    BEGIN,
    BEGUN,
    ERRORS,
    EXIT,
    INPUT,
    INPUT_END,
    INTERRUPT,
    KEEP_ALIVE,
    MUCH,
    NO_PROGRAM,
    OUTPUT,
    PIECE,
    REFUSED,
    SIZE,
    VERSION,
    Channel,
    wait,
)
from submarine_runtime.exchange import INSIDE, own_host
from submarine_runtime.lean import dumps, loads

TYPE_CHECKING = False  # as type checkers have it; the module takes long to import
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, NoReturn

SOCKET = "inside.sock"

IDLE = 60.0
"""Seconds that a server of this machine lives on without anybody; the next one is there at once."""

IDLE_ELSEWHERE = 1800.0
"""The same on another machine, where the question for the next one takes seconds."""

_LOOK = 0.5  # seconds between two looks at the task, where no kernel tells of its end
_PATIENCE = 10.0  # seconds that who connects has to say what for
_GRACE = 2.0  # seconds that what a client has left has to end in
_LINGER = 5.0  # seconds for a client to read the last words: closing sooner may lose them
_PAUSE = 0.05  # seconds: accept() fails again at once while too many files are open
_LONGEST = 200  # characters of what was asked for, in what is answered
_CONNECT = 5.0  # seconds: the port is on this machine, and answers at once or hangs
_BACKLOG = 256
_STRANGERS = 256
"""Connections that nobody has proven to be the owner's; more wait until one of these is through."""
_PROVEN_AFTER = 2 * _PATIENCE
"""Seconds after which a connection that is still there is the owner's: a handshake, and a frame."""

_CANNOT_RUN, _NOT_THERE = 126, 127  # as a shell has it
_PR_SET_CHILD_SUBREAPER = 36
_SHELLS = ("/bin/bash", "/bin/sh")


class Task:
    """The task that a server stands beside.

    Parameters
    ----------
    folder
        Its own, with its ``task.json``.
    pid
        Its process.
    environment
        As the task was given it.
    """

    def __init__(self, folder: str, pid: int, environment: Mapping[str, str]) -> None:
        self.folder = folder
        self.environment = dict(environment)
        self.watch = -1
        """What can be read from when its process has ended; -1 where no kernel tells."""
        with suppress(OSError, AttributeError):
            self.watch = os.pidfd_open(pid)
        self._pid, self._began = pid, _began(pid)
        with open(f"{folder}/task.json", "rb") as file:  # noqa: PTH123 - pathlib is slow
            plan: dict[str, Any] = loads(file.read().decode())
        self.name = str(plan["task"])
        self.job_id = str(plan["job_id"])
        self.workdir = str(plan["workdir"] if plan["command"] is None else plan["bundle"])

    @property
    def lives(self) -> bool:
        """Whether its process does; another one of the same number is not it."""
        return self._began is not None and _began(self._pid) == self._began

    @property
    def shell(self) -> list[str]:
        """What a user means by a shell."""
        for path in (self.environment.get("SHELL", ""), *_SHELLS):
            if path.startswith("/") and os.access(path, os.X_OK):
                return [path]
        return ["sh"]


def _began(pid: int) -> bytes | None:
    """Return when a process began; None where it is gone, or waited for no more, see proc(5)."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - as above
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if fields[0] in (b"Z", b"X") else fields[19]


# Where it listens.


class LocalListener:
    """A socket in the task's folder, which only its owner can enter.

    Parameters
    ----------
    folder
        The task's. Its path may be longer than one of a socket (108 bytes), so it is not used.
    """

    idle = IDLE

    def __init__(self, folder: str) -> None:
        self._folder = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self.socket = socket.socket(socket.AF_UNIX)
        aside = f".{SOCKET}.{os.getpid()}"
        mask = os.umask(0o177)
        try:
            self.socket.bind(f"/proc/self/fd/{self._folder}/{aside}")
        finally:
            os.umask(mask)
        self.socket.listen(_BACKLOG)
        self._number = self._inode(aside)
        # Renamed into place: who connects finds the newest server, and never half a one.
        os.rename(aside, SOCKET, src_dir_fd=self._folder, dst_dir_fd=self._folder)

    def _inode(self, name: str) -> int:
        return os.stat(name, dir_fd=self._folder, follow_symlinks=False).st_ino

    def address(self) -> dict[str, Any]:
        """Return where it listens."""
        path = os.readlink(f"/proc/self/fd/{self._folder}") + f"/{SOCKET}"  # noqa: PTH115
        return {"path": path, "host": os.uname().nodename, "pid": os.getpid()}

    def welcome(self, connection: socket.socket) -> socket.socket:
        """Return the connection of the task's owner.

        Raises
        ------
        OSError
            It is somebody else's.
        """
        told = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        if struct.unpack("3i", told)[1] not in (os.getuid(), 0):
            raise PermissionError("it is another user's")
        return connection

    def may(self, asked: Mapping[str, Any]) -> bool:  # noqa: ARG002 - as of one on the network
        """Return whether the request `asked` is the owner's: no other has come so far."""
        return True

    def close(self) -> None:
        """Listen no more."""
        with suppress(OSError):
            if self._inode(SOCKET) == self._number:  # else it is the next server's
                os.unlink(SOCKET, dir_fd=self._folder)
        self.socket.close()


class NetworkListener:
    """A port of this machine, for who shows the application's certificate and the question's id.

    Parameters
    ----------
    credentials
        The folder with the application's certificate and key, as skein puts them there.
    question
        The id of the question that it is begun for.
    """

    idle = IDLE_ELSEWHERE

    def __init__(self, credentials: str, question: str) -> None:
        import ssl  # noqa: PLC0415 - 30 ms, which no server of this machine needs

        self._question = question
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(f"{credentials}/.skein.crt", f"{credentials}/.skein.pem")
        self._context.load_verify_locations(f"{credentials}/.skein.crt")
        self._context.verify_mode = ssl.CERT_REQUIRED
        self.socket = socket.create_server(("", 0), backlog=_BACKLOG)

    def address(self) -> dict[str, Any]:
        """Return where it listens."""
        port = self.socket.getsockname()[1]
        return {"host": own_host(), "port": port, "id": self._question}

    def welcome(self, connection: socket.socket) -> socket.socket:
        """Return the connection of who has the application's key; OSError for others."""
        for option, value in KEEP_ALIVE:
            connection.setsockopt(socket.IPPROTO_TCP, option, value)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self._context.wrap_socket(connection, server_side=True)

    def may(self, asked: Mapping[str, Any]) -> bool:
        """Return whether the request `asked` is of who can read what was told: its job's owner."""
        import hmac  # noqa: PLC0415 - loads all of OpenSSL, as TLS does

        return hmac.compare_digest(str(asked.get("id")).encode(), self._question.encode())

    def close(self) -> None:
        """Listen no more."""
        self.socket.close()


Listener = LocalListener | NetworkListener


def serve(task: Task, listener: Listener) -> None:
    """Serve until the task is over, or nobody has come for a while; then end what is left.

    Parameters
    ----------
    task
        Whose.
    listener
        Where.
    """
    # What loses its parent becomes this process's child, so that nothing outlives the task.
    _adopt_orphans()
    wakes = _wake_at_ends()
    handlers: dict[int, float] = {}  # by process, since when
    idle_since = time.monotonic()
    try:
        while task.lives and (handlers or time.monotonic() - idle_since < listener.idle):
            poll = select.poll()
            young = time.monotonic() - _PROVEN_AFTER
            if sum(since > young for since in handlers.values()) < _STRANGERS:
                poll.register(listener.socket, select.POLLIN)
            poll.register(wakes, select.POLLIN)
            if task.watch >= 0:
                poll.register(task.watch, select.POLLIN)
            ready = {descriptor for descriptor, _ in poll.poll(int(_LOOK * 1000))}
            if wakes in ready:
                os.read(wakes, 4096)
                for pid in _reap():
                    handlers.pop(pid, None)
                idle_since = time.monotonic()
            if listener.socket.fileno() in ready:
                try:
                    if pid := _begin_handler(task, listener):
                        handlers[pid] = time.monotonic()
                except OSError:  # the caller left, or the machine has no room for one more now
                    time.sleep(_PAUSE)
    finally:
        listener.close()
        _end_descendants(0.0)


def _begin_handler(task: Task, listener: Listener) -> int:
    """Serve the next connection in a process of its own, which is returned."""
    connection, _ = listener.socket.accept()
    with connection:
        pid = os.fork()
        if pid == 0:
            _handle(task, listener, connection)
        return pid


def _handle(task: Task, listener: Listener, connection: socket.socket) -> NoReturn:
    """Serve one connection, in a process of its own: one that hangs costs nobody else."""
    code = 1
    try:
        _adopt_orphans()
        listener.socket.close()
        connection.settimeout(_PATIENCE)
        channel = Channel(listener.welcome(connection))
        _Session(task, listener, channel).run()
        code = 0
    except OSError:  # a stranger, or somebody who went
        pass
    except Exception:  # noqa: BLE001 - into the log of whoever has started the server
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(code)


class _RefusedError(Exception):
    """The request is refused; the client gets the message."""


class _Session:
    """What one connection asks for: a program, a shell or a port.

    Parameters
    ----------
    task, listener, channel
        As of `serve`.
    """

    def __init__(self, task: Task, listener: Listener, channel: Channel) -> None:
        self._task, self._listener, self._channel = task, listener, channel
        self._outs: dict[int, bytes] = {}  # descriptors that are read, and as what it is said
        self._into = -1  # the descriptor that input goes to
        self._input = bytearray()
        self._input_over = False
        self._child = 0
        self._terminal = -1
        self._port: socket.socket | None = None
        self._exit: dict[str, int] | None = None
        self._wakes = _wake_at_ends()

    def run(self) -> None:
        """Serve it to its end."""
        channel = self._channel
        first = self._first()
        if first is None:
            return
        try:
            self._begin(first)
        except _RefusedError as refused:
            channel.send(REFUSED, str(refused).encode("utf-8", "replace"))
        else:
            channel.send(BEGUN)
            self._serve()
        until = time.monotonic() + _LINGER
        while channel.waiting and not channel.over:  # a client that is stopped is waited for
            wait(channel, _LOOK)
            channel.flush()
            channel.read()
            until = time.monotonic() + _LINGER
        # A connection that is closed before all of its input was read may lose what was said last.
        while not channel.over and time.monotonic() < until:
            wait(channel, _LOOK)
            channel.read()
        channel.close()
        if channel.over and self._exit is None:
            _end_descendants(_GRACE)

    def _first(self) -> Mapping[str, Any] | None:
        until = time.monotonic() + _PATIENCE
        while not self._channel.over and time.monotonic() < until:
            wait(self._channel, until - time.monotonic())
            for kind, data in self._channel.read():
                with suppress(ValueError, RecursionError):
                    asked = loads(data.decode())
                    if kind == BEGIN and isinstance(asked, dict) and self._listener.may(asked):
                        return asked
                return None
        return None

    def _begin(self, asked: Mapping[str, Any]) -> None:
        if asked.get("version") != VERSION:
            raise _RefusedError("this client is of another release of Submarine than the job")
        if (port := asked.get("port")) is not None:
            self._connect(port)
            return
        argv = asked.get("argv") or self._task.shell
        if not isinstance(argv, list) or not all(isinstance(word, str) for word in argv):
            raise _RefusedError("the command is no list of words")
        self._start(argv, asked.get("terminal"))

    def _connect(self, port: object) -> None:
        if not isinstance(port, int) or not 0 < port < 1 << 16:
            raise _RefusedError(f"{repr(port)[:_LONGEST]} is no port")
        try:
            self._port = socket.create_connection(("localhost", port), _CONNECT)
        except OSError as error:
            why = "nobody listens" if isinstance(error, ConnectionRefusedError) else error
            raise _RefusedError(f"port {port} of {self._task.name}: {why}") from error
        self._port.setblocking(False)
        self._into = self._port.fileno()
        self._outs = {self._into: OUTPUT}

    def _start(self, argv: list[str], terminal: object) -> None:
        environment = dict(self._task.environment)
        kept: list[int] = []
        try:
            if isinstance(terminal, dict):
                environment["TERM"] = str(terminal.get("term") or "xterm")[:100]
                self._terminal, slave = os.openpty()
                kept = [slave, slave, slave]
                self._resize(terminal)
                self._into, self._outs = self._terminal, {self._terminal: OUTPUT}
            else:
                for kind in (b"", OUTPUT, ERRORS):
                    reads, writes = os.pipe()
                    if kind:
                        self._outs[reads] = kind
                    else:
                        self._into = writes
                    kept.append(writes if kind else reads)
            self._child = _spawn(argv, environment, self._task.workdir, kept)
        except OSError as error:
            word = repr(argv[0])[:_LONGEST]
            raise _RefusedError(f"{word} cannot be run: {_why(error)}") from error
        finally:
            for descriptor in set(kept):
                os.close(descriptor)
        for descriptor in (self._into, *self._outs):
            os.set_blocking(descriptor, False)

    def _serve(self) -> None:
        while not self._channel.over and self._exit is None:
            if not self._child or not self._ended():
                self._wait()
            self._hear()
            self._feed()
            self._read()
            if self._port is not None and not self._outs:
                self._exit = {"code": 0}
        if not self._channel.over:
            self._channel.send(EXIT, dumps(self._exit).encode())

    def _wait(self) -> None:
        """Wait until there is something to bring to either side."""
        poll, channel = select.poll(), self._channel
        listens = select.POLLIN if len(self._input) < MUCH else 0
        poll.register(channel, (channel.events & ~select.POLLIN) | listens)
        if channel.waiting < MUCH:
            for descriptor in self._outs:
                poll.register(descriptor, select.POLLIN)
        if self._input and self._into >= 0:
            reads = select.POLLIN if self._into in self._outs and channel.waiting < MUCH else 0
            poll.register(self._into, select.POLLOUT | reads)
        poll.register(self._wakes, select.POLLIN)
        ready = dict(poll.poll())
        if self._wakes in ready:
            os.read(self._wakes, 4096)
        if not listens and ready.get(channel.fileno(), 0) & (select.POLLHUP | select.POLLERR):
            channel.over = True
        channel.flush()

    def _ended(self) -> bool:
        """See whether the program has ended, and all that it has written is read."""
        ended = os.waitid(os.P_PID, self._child, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if ended is None:
            _reap(self._child)
            return False
        most = MUCH
        while self._outs and most > 0 and not self._channel.over:
            if self._channel.waiting >= MUCH:
                wait(self._channel, _LOOK)
                self._channel.flush()
                continue
            if not (size := self._read()):
                break
            most -= size
        _, status = os.waitpid(self._child, 0)
        code = os.waitstatus_to_exitcode(status)
        self._exit = {"code": code if code >= 0 else 128 - code}
        return True

    def _hear(self) -> None:
        if len(self._input) >= MUCH:
            return
        for kind, data in self._channel.read():
            if kind == INPUT:
                self._input += data
            elif kind == INPUT_END:
                self._input_over = True
                if self._terminal >= 0:
                    self._input += b"\x04"  # as a key of a terminal says it
            elif kind == SIZE and self._terminal >= 0:
                with suppress(ValueError, RecursionError, OSError):
                    self._resize(loads(data.decode()))
            elif kind == INTERRUPT and self._child:
                with suppress(ProcessLookupError):
                    os.killpg(self._child, signal.SIGINT)

    def _resize(self, told: object) -> None:
        if isinstance(told, dict):
            with suppress(TypeError, ValueError, OverflowError, struct.error):
                size = struct.pack("4H", int(told["rows"]), int(told["columns"]), 0, 0)
                fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, size)

    def _feed(self) -> None:
        """Bring input on, as far as it is taken."""
        if self._into < 0:
            self._input.clear()
            return
        try:
            while self._input:
                del self._input[: os.write(self._into, self._input[:PIECE])]
        except BlockingIOError:
            return
        except OSError:  # it takes no more
            self._input.clear()
            self._input_over = True
        if self._input_over:
            if self._port is not None:
                with suppress(OSError):
                    self._port.shutdown(socket.SHUT_WR)
            elif self._terminal < 0:
                os.close(self._into)
            self._into = -1

    def _read(self) -> int:
        """Bring output on; return how much."""
        size = 0
        for descriptor, kind in list(self._outs.items()):
            if self._channel.waiting >= MUCH:
                break
            try:
                data = os.read(descriptor, PIECE)
            except BlockingIOError:
                continue
            except OSError:  # a terminal that nobody has open any more says it so
                data = b""
            if data:
                self._channel.send(kind, data)
                size += len(data)
            else:
                del self._outs[descriptor]
        return size


def _spawn(
    argv: Sequence[str], environment: Mapping[str, str], folder: str, stdio: Sequence[int]
) -> int:
    """Start a program in a session of its own; return its process.

    Parameters
    ----------
    stdio
        Its stdin, stdout and stderr: all the same where that is a terminal.

    Raises
    ------
    OSError
        There is none of that name, it may not be run, or the folder is gone.
    """
    said, says = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            if len(set(stdio)) == 1:
                fcntl.ioctl(stdio[0], termios.TIOCSCTTY, 0)
            for number, descriptor in enumerate(stdio):
                os.dup2(descriptor, number)
            signal.set_wakeup_fd(-1)
            for name in ("SIGPIPE", "SIGXFSZ", "SIGINT", "SIGQUIT", "SIGHUP", "SIGTERM"):
                signal.signal(getattr(signal, name), signal.SIG_DFL)
            os.chdir(folder)
            os.execvpe(argv[0], list(argv), dict(environment))  # noqa: S606 - words, and no shell
        except OSError as error:
            os.write(says, str(error.errno).encode())
        except ValueError:  # a NUL among the words, or half a character
            os.write(says, str(errno.EINVAL).encode())
        finally:
            os._exit(_NOT_THERE)
    os.close(says)
    with open(said, "rb") as file:  # noqa: PTH123 - a descriptor
        failed = file.read()
    if failed:
        os.waitpid(pid, 0)
        raise OSError(int(failed), os.strerror(int(failed)))
    return pid


def _why(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return f"{NO_PROGRAM}, or the task's folder is gone"
    return error.strerror or str(error)


# Processes.


def _wake_at_ends() -> int:
    """Return a pipe that can be read from whenever a child of this process has ended."""
    wakes, wake = os.pipe()
    for end in (wakes, wake):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return wakes


def _adopt_orphans() -> None:
    """Become the parent of what loses its own below this process, see prctl(2)."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _reap(but: int = 0) -> set[int]:
    """Wait for children that have ended, one of them aside; return them."""
    found: set[int] = set()
    with suppress(ChildProcessError):
        while ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            if ended.si_pid == but:
                break
            os.waitpid(ended.si_pid, 0)
            found.add(ended.si_pid)
    return found


def _children() -> list[int]:
    me = os.getpid()
    found = []
    for name in filter(str.isdecimal, os.listdir("/proc")):  # noqa: PTH208 - names only
        with suppress(OSError, ValueError, IndexError), open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
            if int(file.read().rpartition(b")")[2].split()[1]) == me:
                found.append(int(name))
    return found


def _end_descendants(grace: float) -> None:
    """End all that this process has started, and what that has: asked first where there is time."""
    _reap()
    asked = _children() if grace else []
    for pid in asked:
        for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGCONT):
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, number)  # each leads a session of its own, or is ended below
    until = time.monotonic() + grace
    while asked and time.monotonic() < until and _children():
        time.sleep(0.02)  # a small part of the grace: who obeys is not waited for longer
        _reap()
    # The children of those killed come next.
    while found := _children():
        for pid in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)  # the kernel ends them, and gives us their children, in a moment
        _reap()


def _put(folder: str, name: str, told: bytes) -> None:
    aside = f"{folder}/.{name}.{os.getpid()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(aside, flags, 0o600), "wb") as file:  # noqa: PTH123 - a descriptor
        file.write(told)
    os.replace(aside, f"{folder}/{name}")  # noqa: PTH105 - pathlib is slow


def announcement(listener: Listener) -> bytes:
    """Return the message that says where `listener` listens."""
    return dumps({"version": VERSION, **listener.address()}).encode()


def with_gpus(environment: Mapping[str, str], logs: str) -> dict[str, str]:
    """Return the environment of a container's task with the GPUs that the node has given it.

    Parameters
    ----------
    environment
        Variables by name; it stays as it is.
    logs
        The task's folder, in which it says what the node has given it.

    Raises
    ------
    OSError, ValueError, KeyError
        The node has not told them yet.
    """
    # `container` names both; it is not imported here, since it begins a container.
    with open(f"{logs}/started.json", "rb") as file:  # noqa: PTH123 - pathlib is slow
        gpus = loads(file.read().decode())["gpus"]
    found = {name: environment[name] for name in environment if name != "SUBMARINE_SHIP"}
    if gpus is not None:
        found["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, gpus))
    return found


def begin_beside(
    task: Task, credentials: str, question: bytes, let_go: Callable[[], object] = lambda: None
) -> bytes:
    """Begin to serve another machine in a process of its own; return where it listens.

    Parameters
    ----------
    task
        Whose.
    credentials
        As of `NetworkListener`.
    question
        As it came.
    let_go
        Closes, in the new process, what is this one's alone.

    Raises
    ------
    OSError, ValueError, KeyError, TypeError
        It is no question, or the machine has no room.
    """
    listener = NetworkListener(credentials, str(loads(question.decode())["id"]))
    told = announcement(listener)
    if pid := os.fork():
        listener.close()
        os.waitpid(pid, 0)
        return told
    try:
        os.setsid()
        if not os.fork():  # what begins it is not its parent: that may be over before
            let_go()
            serve(task, listener)
    finally:
        os._exit(0)


def main(words: Sequence[str]) -> None:
    """Serve beside a task of this machine.

    Parameters
    ----------
    words
        The task's folder, and its process.
    """
    folder, pid = words
    task, listener = Task(folder, int(pid), os.environ), LocalListener(folder)
    _put(folder, INSIDE, announcement(listener))
    serve(task, listener)


if __name__ == "__main__":
    main(sys.argv[1:])
