"""Keeps and serves the files of a pod's task, for a driver that shares no disk with it.

The pod's second container runs it: ``python -I pod.py keep ROOT TASK SECONDS LEASE GRACE`` stays
until the driver has what the task has left, so that a task that was killed for its memory still has
a log and a last word. ``serve ROOT TASK`` is begun there by the driver, over the API server's
``exec``: it answers questions on its input, each a line of JSON and so many bytes as that says, one
after the other. ``reach ROOT TASK`` joins its input and output to the server beside the task, see
`submarine_runtime.inside`.
"""

# ruff: noqa: PTH103, PTH108, PTH110, PTH112, PTH116, PTH123, PTH211

from __future__ import annotations

import fcntl
import hashlib
import json
import math
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tarfile
import threading
import time
import zlib
from contextlib import suppress

TYPE_CHECKING = False  # as type checkers have it

if TYPE_CHECKING:
    from typing import Any, BinaryIO

ROOT = "/submarine"
"""The volume that the pod's two containers share; all of it is the pod's alone."""

READY = "ready"
"""Is there once all files of the job are: the task begins."""

TAKEN = "taken"
"""Is there once the driver has all that the task has left: the pod ends."""

BEGUN = "begun"
"""In the task's folder, locked by whoever runs it as long as that lives."""

ENVIRONMENT = "environment"
"""Holds the layers of a packed environment, or links to them, each by its name."""

HEARD = "heard"
"""Its time is when the driver was last heard."""

VERSION = 1
MOST = 1 << 20
"""Bytes that are read or written at a time."""

_STAGED = ".staged"
_ARCHIVE = ".archive"
_LOOKS_EVERY = 0.02  # seconds: the pod's end waits for this look, which is at two files
_HEARD_EVERY = 5.0  # seconds between two notes that the driver is there
_EXIT = "exit"  # the last file that `submarine_runtime.launcher` writes
_EVENTS_EVERY = 1.0  # seconds between two looks for new events of a task that runs
_USED_EVERY = 3600.0  # seconds between two notes that an environment on a volume is in use
_UNUSED = 30 * 86400.0  # seconds after which one that nobody has used is removed
_UNFINISHED = 86400.0  # seconds after which nobody unpacks it any more
_CHECKED_WITHIN = 15.0  # seconds: less than the driver waits for an answer
_PIECE = 1 << 16
_PARTS = ("lib", "work", "user", "job")
_FAILURES = (OSError, tarfile.TarError, EOFError, zlib.error)  # a disk's, and a damaged archive's


def keep(root: str, task: str, patience: float, lease: float = math.inf, grace: float = 0.0) -> int:
    """Stay until the driver has what the task has left, or has not been heard of for too long.

    Parameters
    ----------
    root
        As `ROOT`.
    task
        Whose files.
    patience
        Seconds that a task which is over is kept for a driver that says nothing.
    lease
        Seconds that a task may run on without a driver's word; then it is asked to end.
    grace
        Seconds after which it is killed then.
    """
    # Whoever ends the pod asks both containers: the task may write its last checkpoint yet, and its
    # last words are brought home after that. The pod's grace is the limit.
    signal.signal(signal.SIGTERM, lambda *_: None)
    used_due = time.monotonic() + _USED_EVERY
    owner = _Lease(root, task, lease, grace)
    while not os.path.exists(f"{root}/{TAKEN}"):
        if time.monotonic() > used_due:
            used_due = time.monotonic() + _USED_EVERY
            note_use(root)
        with suppress(OSError):
            silent = time.time() - os.stat(f"{root}/{HEARD}").st_mtime
            if silent > patience and not runs(f"{root}/job/{task}"):
                sys.stderr.write(owner.words or "nobody has come for what the task has left\n")
                return 1
        with suppress(OSError):
            owner.check()
        time.sleep(_LOOKS_EVERY)
    return 0


class _Lease:
    """How long a task may run whose driver is gone for good: it would hold its GPUs for ever.

    The times are this machine's own: no clock that is set ends a task.
    """

    def __init__(self, root: str, task: str, lease: float, grace: float) -> None:
        self._root, self._folder = root, f"{root}/job/{task}"
        self._lease, self._grace = lease, grace
        self._heard: int | None = None
        self._since = time.monotonic()
        self._said: list[bytes] = []
        self.words = ""

    def check(self) -> None:
        """Ask the task to end, and kill it, where the driver has been silent for so long."""
        heard = os.stat(f"{self._root}/{HEARD}").st_mtime_ns
        if heard != self._heard:
            self._heard, self._since = heard, time.monotonic()
        silent = time.monotonic() - self._since
        if silent > self._lease:
            self._say(b"TERM\n")
        if silent > self._lease + self._grace:
            self._say(b"KILL\n")

    def _say(self, word: bytes) -> None:
        if word in self._said or not runs(self._folder):
            return
        if not self._said:
            days = f"{self._lease / 86400:.3g}"
            self.words = f"nobody has looked after this job for {days} days: its lease is over\n"
            with open(f"{self._folder}/stderr", "ab") as log:
                log.write(self.words.encode())
        with open(f"{self._folder}/asked-to-end", "ab") as file:
            file.write(word)
        self._said.append(word)


def runs(folder: str) -> bool:
    """Return whether the task of `folder` has not ended, as its lock says; True until it begins."""
    try:
        descriptor = os.open(f"{folder}/{BEGUN}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def note_use(root: str) -> None:
    """Note that the layers of this pod's environment are used, so that nobody removes them.

    Parameters
    ----------
    root
        As `ROOT`.
    """
    with suppress(OSError), os.scandir(f"{root}/{ENVIRONMENT}") as layers:
        for layer in layers:
            with suppress(OSError):
                os.utime(layer.path)


class Environment:
    """The layers of a packed environment: on a volume that keeps them by their keys, else here.

    A layer that has its name is whole. On a volume it is this user's alone, and what nobody has
    used for a month is removed.

    Parameters
    ----------
    root
        As `ROOT`.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        self._kept = ""
        self._working: threading.Thread | None = None
        self._failed = ""

    def choose(self, volumes: list[str]) -> dict[str, Any]:
        """Keep layers on the first of some volumes that takes them; tell which, and why not others.

        Parameters
        ----------
        volumes
            Where the pod has them.
        """
        why = ""
        for volume in volumes:
            folder = f"{volume}/.submarine-{os.getuid()}"
            try:
                os.makedirs(folder, mode=0o700, exist_ok=True)
                found = os.lstat(folder)
                # Jobs run what lies there: nobody else may have written it.
                if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
                    why = why or f"{folder} belongs to another user"
                elif found.st_mode & 0o077:
                    why = why or f"{folder} is open to other users"
                else:
                    os.makedirs(f"{folder}/layers", mode=0o700, exist_ok=True)
                    self._kept = f"{folder}/layers"
                    threading.Thread(target=self._sweep, daemon=True).start()
                    return {"kept": volume, "why": ""}
            except OSError as error:
                why = why or f"{volume}: {error.strerror}"
        return {"kept": "", "why": why}

    def look(self, folder: str, key: str, sha256: str) -> dict[str, Any]:
        """Tell whether a layer is there, and in its place now; else how much of it has come.

        Parameters
        ----------
        folder
            Its name in the environment.
        key, sha256
            Of what it was made, and of its archive.
        """
        place = self._place(folder, key)
        if os.path.isdir(place):
            if self._kept:
                os.utime(place)
                self._link(folder, place)
            with suppress(FileNotFoundError):
                os.unlink(self._archive(sha256))
            return {"there": True}
        failed, self._failed = self._failed, ""
        works = self._working is not None and self._working.is_alive()
        size = 0
        with suppress(OSError):
            size = os.stat(self._archive(sha256)).st_size
        return {"there": False, "have": size, "works": works, "failed": failed}

    def take(self, body: bytes, sha256: str, at: int) -> dict[str, Any]:
        """Write a piece of a layer's archive.

        Parameters
        ----------
        body
            The piece.
        sha256
            Of the whole archive.
        at
            Where in the archive the piece begins; what is there from that byte on is cut off.
        """
        descriptor = os.open(self._archive(sha256), os.O_WRONLY | os.O_CREAT, 0o600)
        with open(descriptor, "wb") as file:
            file.truncate(at)
            file.seek(at)
            file.write(body)
        return {}

    def unpack(self, folder: str, key: str, sha256: str) -> dict[str, Any]:
        """Begin to unpack a layer whose archive is here; `look` tells how that goes.

        Parameters
        ----------
        folder, key, sha256
            As of `look`.
        """
        if self._working is None or not self._working.is_alive():
            self._working = threading.Thread(
                target=self._unpack, args=(folder, key, sha256), daemon=True
            )
            self._working.start()
        return {}

    def check(self, python: str) -> dict[str, Any]:
        """Tell which Python `python`, a program of the environment, is, or why it is none here."""
        words = [python, "-c", "import sys; print('.'.join(map(str, sys.version_info[:3])))"]
        try:
            done = subprocess.run(  # noqa: S603 - our driver's own
                words, capture_output=True, text=True, check=False, timeout=_CHECKED_WITHIN
            )
        except subprocess.TimeoutExpired:
            return {"python": "", "said": ""}  # its disk is slow: it is asked once more
        except OSError as error:
            return {"python": "", "said": str(error.strerror)}
        return {"python": done.stdout.strip(), "said": done.stderr.strip()[-400:]}

    def _place(self, folder: str, key: str) -> str:
        return f"{self._kept}/{key}" if self._kept else f"{self._root}/{ENVIRONMENT}/{folder}"

    def _archive(self, sha256: str) -> str:
        return f"{self._root}/.layer-{sha256}"

    def _link(self, folder: str, place: str) -> None:
        os.makedirs(f"{self._root}/{ENVIRONMENT}", mode=0o700, exist_ok=True)
        link = f"{self._root}/{ENVIRONMENT}/{folder}"
        with suppress(FileNotFoundError):
            os.unlink(link)
        os.symlink(place, link)

    def _unpack(self, folder: str, key: str, sha256: str) -> None:
        place, archive = self._place(folder, key), self._archive(sha256)
        above, name = os.path.split(place)
        staged = f"{above}/.{name}.{os.urandom(4).hex()}"
        try:
            digest = hashlib.sha256()
            with open(archive, "rb") as file:
                while piece := file.read(MOST):
                    digest.update(piece)
            if digest.hexdigest() != sha256:
                os.unlink(archive)  # it is sent anew
                return
            os.makedirs(staged, mode=0o700)
            with tarfile.open(archive) as packed:
                more = {"filter": "tar"} if hasattr(tarfile, "tar_filter") else {}
                packed.extractall(staged, **more)  # type: ignore[arg-type] # noqa: S202 - our driver's own
            os.rename(staged, place)  # noqa: PTH104 - no pathlib
        except _FAILURES as error:
            if not os.path.isdir(place):  # else another pod was first: its layer is the same
                self._failed = f"{above}: {_why(error)}"
        finally:
            shutil.rmtree(staged, ignore_errors=True)

    def _sweep(self) -> None:
        """Remove from the volume what is long unused, or was left half unpacked."""
        with suppress(OSError), os.scandir(self._kept) as layers:
            for layer in layers:
                limit = _UNFINISHED if layer.name.startswith(".") else _UNUSED
                with suppress(OSError):
                    if time.time() - layer.stat(follow_symlinks=False).st_mtime > limit:
                        aside = f"{self._kept}/.gone.{os.urandom(4).hex()}"
                        os.rename(layer.path, aside)  # noqa: PTH104 - no pathlib
                        shutil.rmtree(aside, ignore_errors=True)


def _why(error: Exception) -> str:
    """Return a line of words for one of `_FAILURES`; those of `tarfile` go on for several."""
    words = str(getattr(error, "strerror", None) or error).partition("\n")[0].rstrip(":")
    return words or type(error).__name__


class Server:
    """Answers the driver's questions, for one task.

    Parameters
    ----------
    root
        As `ROOT`.
    task
        Whose files.
    """

    def __init__(self, root: str, task: str) -> None:
        self._root = root
        self._archive = f"{root}/{_ARCHIVE}.{os.getpid()}"
        self._folder = f"{root}/job/{task}"
        self._environment = Environment(root)
        self._heard_at = 0.0
        self._events_due = 0.0

    def serve(self, source: BinaryIO, target: BinaryIO) -> None:
        """Answer questions until the driver is gone.

        Parameters
        ----------
        source
            Where the questions come from.
        target
            Where the answers go: a line of JSON each, and so many bytes as that says.
        """
        while line := source.readline():
            asked = json.loads(line)
            body = source.read(asked.pop("size"))
            self._note_heard()
            try:
                answer = getattr(self, "do_" + asked.pop("do"))(body, **asked)
                told, data = answer if isinstance(answer, tuple) else (answer, b"")
            except _FAILURES as error:
                told, data = {"error": type(error).__name__, "why": _why(error)}, b""
            target.write(json.dumps({**told, "size": len(data)}).encode() + b"\n" + data)
            target.flush()

    def _note_heard(self) -> None:
        if time.monotonic() - self._heard_at > _HEARD_EVERY:
            self._heard_at = time.monotonic()
            with suppress(OSError), open(f"{self._root}/{HEARD}", "w"):
                pass

    def do_hello(self, _body: bytes) -> dict[str, Any]:
        """Tell which Python this is, and whether the job's files are here."""
        python = ".".join(map(str, sys.version_info[:3]))
        ready = os.path.exists(f"{self._root}/{READY}")
        machine = os.uname().machine
        return {"version": VERSION, "python": python, "ready": ready, "machine": machine}

    def do_choose(self, _body: bytes, volumes: list[str]) -> dict[str, Any]:
        """Choose which of `volumes` keeps the layers of an environment."""
        return self._environment.choose(volumes)

    def do_look(self, _body: bytes, **layer: str) -> dict[str, Any]:
        """Tell how a layer is."""
        return self._environment.look(**layer)

    def do_piece(self, body: bytes, sha256: str, at: int) -> dict[str, Any]:
        """Write a piece of a layer's archive.

        Parameters
        ----------
        body, sha256, at
            As of `Environment.take`.
        """
        return self._environment.take(body, sha256, at)

    def do_unpack(self, _body: bytes, **layer: str) -> dict[str, Any]:
        """Begin to unpack a layer."""
        return self._environment.unpack(**layer)

    def do_check(self, _body: bytes, python: str) -> dict[str, Any]:
        """Tell which Python `python`, a program of the environment, is."""
        return self._environment.check(python)

    def do_bring(self, body: bytes, at: int) -> dict[str, Any]:
        """Write `body`, a piece of the archive of the job's files, at byte `at` of it."""
        flags = os.O_WRONLY | os.O_CREAT | (0 if at else os.O_TRUNC)
        descriptor = os.open(self._archive, flags, 0o600)
        with open(descriptor, "wb") as file:
            file.seek(at)
            file.write(body)
        return {}

    def do_begin(self, _body: bytes) -> dict[str, Any]:
        """Unpack the archive, and let the task begin."""
        # Another of these may be at it, whose driver got no answer: the task begins once.
        with open(f"{self._root}/.begins", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not os.path.exists(f"{self._root}/{READY}"):
                self._begin()
        # This one's, and those of others, who have nothing to begin any more.
        for name in os.listdir(self._root):  # noqa: PTH208 - no pathlib
            if name.startswith(_ARCHIVE):
                with suppress(OSError):
                    os.unlink(f"{self._root}/{name}")
        return {}

    def _begin(self) -> None:
        staged = f"{self._root}/{_STAGED}"
        shutil.rmtree(staged, ignore_errors=True)
        with tarfile.open(self._archive) as archive:
            more = {"filter": "tar"} if hasattr(tarfile, "tar_filter") else {}
            archive.extractall(staged, **more)  # type: ignore[arg-type] # noqa: S202 - our driver's own
        for part in _PARTS:
            place = f"{self._root}/{part}"
            shutil.rmtree(place, ignore_errors=True)
            os.makedirs(f"{staged}/{part}", mode=0o700, exist_ok=True)
            os.rename(f"{staged}/{part}", place)  # noqa: PTH104 - no pathlib
        with open(f"{self._root}/{READY}", "w"):
            pass

    def do_sizes(self, _body: bytes) -> dict[str, Any]:
        """Tell the size of each file of the task's folder, and whether the task is alive."""
        alive = runs(self._folder)  # first: what a task writes last is there when it is not
        found = self._sizes()
        # Its end is told by a file, for a moment before its lock is free: whoever sees that file
        # comes for no more events.
        if self._pack_events(hurry=not alive or _EXIT in found):
            found = self._sizes()
        return {"sizes": found, "alive": alive}

    def _sizes(self) -> dict[str, int]:
        found = {}
        with suppress(FileNotFoundError), os.scandir(self._folder) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):  # it was renamed, or is gone
                    if entry.is_file(follow_symlinks=False):
                        found[entry.name] = entry.stat(follow_symlinks=False).st_size
        return found

    def _pack_events(self, *, hurry: bool) -> bool:
        """Pack what is new below the task's log directory; whether it was looked at."""
        if not hurry and time.monotonic() < self._events_due:
            return False
        self._events_due = time.monotonic() + _EVENTS_EVERY
        # There is no such folder before the job's files have come, nor is there our runtime.
        if os.path.isdir(f"{self._folder}/logdir"):
            self._see_runtime()
            from submarine_runtime import eventpack  # noqa: PLC0415 - as above

            with suppress(OSError):  # the disk is full: the next look goes on
                eventpack.pack(f"{self._folder}/logdir", f"{self._folder}/{eventpack.LOG}")
        return True

    def _see_runtime(self) -> None:
        """Let the rest of our runtime be imported: it came later than this very program."""
        if (place := f"{self._root}/lib") not in sys.path:
            sys.path.append(place)

    def do_gather(
        self, _body: bytes, pieces: list[tuple[str, int, int]]
    ) -> tuple[dict[str, Any], bytes]:
        """Return pieces of several files, and how large each piece is."""
        found = [self.do_read(b"", name, at, most)[1] for name, at, most in pieces]
        return {"sizes": [len(piece) for piece in found]}, b"".join(found)

    def do_read(self, _body: bytes, name: str, at: int, most: int) -> tuple[dict[str, Any], bytes]:
        """Return a piece of a file, and how large that is.

        Parameters
        ----------
        name
            The file's, in the task's folder.
        at
            The byte from which on.
        most
            How many bytes at most; never more than `MOST`.
        """
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        descriptor = os.open(f"{self._folder}/{name}", flags)
        try:
            size = os.fstat(descriptor).st_size
            return {"whole": size}, os.pread(descriptor, min(most, MOST), at)
        finally:
            os.close(descriptor)

    def do_say(self, body: bytes, sizes: dict[str, int]) -> tuple[dict[str, Any], bytes]:
        """Bring the task messages, and return its own.

        Parameters
        ----------
        body
            The messages, one after the other.
        sizes
            How many bytes each has, by its name, in the same order.
        """
        self._see_runtime()
        from submarine_runtime.messages import exchange  # noqa: PLC0415 - it came later

        at, messages = 0, {}
        for name, size in sizes.items():
            messages[name] = body[at : at + size]
            at += size
        # The launcher tells what the task uses, too.
        said = exchange(self._folder, messages, lambda one: self.do_signal(f"{one}\n".encode()))
        return {"sizes": {name: len(data) for name, data in said.items()}}, b"".join(said.values())

    def do_signal(self, body: bytes) -> dict[str, Any]:
        """Ask the task to end, or kill it: `submarine_runtime.launcher` has the words.

        Parameters
        ----------
        body
            ``TERM`` or ``KILL``, as a line.
        """
        with open(f"{self._folder}/asked-to-end", "ab") as file:
            file.write(body)
        return {}

    def do_end(self, _body: bytes) -> dict[str, Any]:
        """Let the pod end: the driver has everything."""
        try:
            self._note_taken()
        except OSError:
            # The disk is full, of what is no longer needed here.
            shutil.rmtree(f"{self._root}/work", ignore_errors=True)
            shutil.rmtree(f"{self._root}/job", ignore_errors=True)
            self._note_taken()
        return {}

    def _note_taken(self) -> None:
        with open(f"{self._root}/{TAKEN}", "w"):
            pass


def reach(path: str) -> int:
    """Join this program's input and output to a socket, until either end is gone.

    Parameters
    ----------
    path
        The socket's.
    """
    server = socket.socket(socket.AF_UNIX)
    try:
        server.connect(path)
    except OSError as error:
        sys.stderr.write(f"{error.strerror}\n")
        return 1
    # Two threads: neither way waits for the other.
    threading.Thread(target=_bring_input, args=(server,), daemon=True).start()
    with suppress(OSError):
        while data := server.recv(_PIECE):
            while data:
                data = data[os.write(1, data) :]
    os._exit(0)  # the other thread may wait for input for ever


def _bring_input(server: socket.socket) -> None:
    with suppress(OSError):
        while data := os.read(0, _PIECE):
            server.sendall(data)
    os._exit(0)  # who asked is gone: its program ends with this connection


def main(words: list[str]) -> int:
    """Keep a task's files, serve them, or lead to the server beside the task.

    Parameters
    ----------
    words
        ``keep``, ``serve`` or ``reach``; the root and the task; for ``keep`` its three times, in
        seconds.
    """
    os.umask(0o077)
    what, root, task = words[:3]
    if what == "keep":
        return keep(root, task, *map(float, words[3:6]))
    if what == "reach":
        return reach(f"{root}/job/{task}/inside.sock")
    Server(root, task).serve(sys.stdin.buffer, sys.stdout.buffer)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
