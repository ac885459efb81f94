"""Brings a task's logs and events to HDFS while it runs, where the nodes' pages cannot be reached.

`container` and `eventpack` start it. It writes by WebHDFS with the standard library alone. For each
file there are pieces named by their offset; `Shipper` says how.
"""

from __future__ import annotations

import os
import re
import threading
import time
from http.client import HTTPException
from urllib.parse import quote, urljoin, urlsplit

from submarine_runtime import delegation
from submarine_runtime.lean import suppress
from submarine_runtime.webhdfs import connect, trusted

TYPE_CHECKING = False  # as type checkers have it; the module takes long to import

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from io import BufferedReader


# Writing to HDFS by WebHDFS with the standard library alone.


_TIMEOUT = 20  # seconds without a byte: one that hangs leaves time for a try within `PATIENCE`
_FOUND = range(300, 400)
_DONE = (200, 201)
_LONGEST = 400
_BLOCK = 1 << 20


class WebFolder:
    """A folder in HDFS that files are written to.

    Parameters
    ----------
    urls
        Addresses of a folder by WebHDFS, with ``op`` and who asks in their queries, separated by
        spaces (those of an HA pair): the first that does it is kept to.
    below
        Name of the folder in that one that is meant; it is made with the first file.
    """

    def __init__(self, urls: str, below: str = "") -> None:
        self._folders = []
        for url in urls.split():
            address, _, query = url.partition("?")
            who = [pair for pair in query.split("&") if pair and not pair.startswith("op=")]
            folder = f"{address.rstrip('/')}/{quote(below)}".rstrip("/")
            self._folders.append((folder, "&".join(who)))
        if urls.startswith("https:"):
            trusted()  # while the file is there: with the application its node removes the folder

    def create(self, name: str, data: bytes | BufferedReader) -> None:
        """Write a file; what was there of that name is replaced.

        Parameters
        ----------
        data
            Its content; or an open file that does not change, which is not read into memory.

        Raises
        ------
        OSError
            It is not certain that it was written.
        """
        self._write("PUT", name, "op=CREATE&overwrite=true&permission=600", data)

    def append(self, name: str, data: bytes) -> None:
        """Add `data` to the end of the file `name`.

        Raises
        ------
        OSError
            It is not certain that it was written, nor that it was not.
        """
        self._write("POST", name, "op=APPEND", data)

    def replace(self, name: str, data: bytes | BufferedReader) -> None:
        """Write a file as `create`, so that readers see all of it, or what was there before.

        Parameters
        ----------
        name, data
            As of `create`.

        Raises
        ------
        OSError
            It is not certain that it was written.
        """
        aside = f"{name}@part"
        self.create(aside, data)
        folder = urlsplit(self._folders[0][0]).path.partition("/webhdfs/v1")[2]  # quoted already
        there = f"{folder}/{quote(name)}"
        self._ask("PUT", aside, f"op=RENAME&destination={there}&renameoptions=OVERWRITE")

    def _write(self, method: str, name: str, query: str, data: bytes | BufferedReader) -> None:
        there = self._ask(method, name, query, expected=_FOUND)
        # The NameNode says which DataNode takes the bytes.
        _exchange(method, there, data, _DONE)

    def _ask(self, method: str, name: str, query: str, expected: object = _DONE) -> str:
        for _ in self._folders[1:]:
            with suppress(OSError):
                return self._ask_first(method, name, query, expected)
            self._folders.append(self._folders.pop(0))  # of an HA pair the other is active
        return self._ask_first(method, name, query, expected)

    def _ask_first(self, method: str, name: str, query: str, expected: object) -> str:
        folder, who = self._folders[0]
        who = delegation.renewed(who)
        return _exchange(method, f"{folder}/{quote(name)}?{query}&{who}", b"", expected)


def _exchange(method: str, url: str, data: bytes | BufferedReader, expected: object) -> str:
    """Send `data`; return where the answer leads to, empty where it leads nowhere."""
    where = urlsplit(url)
    connection = connect(where, timeout=_TIMEOUT, blocksize=_BLOCK)
    size = len(data) if isinstance(data, bytes) else os.fstat(data.fileno()).st_size
    try:
        headers = {"Content-Type": "application/octet-stream", "Content-Length": str(size)}
        connection.request(method, f"{where.path}?{where.query}", data, headers)
        answer = connection.getresponse()
        words = answer.read(_LONGEST).decode("utf-8", "replace")
        if answer.status not in expected:  # type: ignore[operator]
            raise OSError(f"{where.netloc}{where.path}: {answer.status} {words}")
        return urljoin(url, answer.getheader("Location") or "")
    except HTTPException as error:
        raise OSError(f"{where.netloc}{where.path}: {error or type(error).__name__}") from error
    finally:
        connection.close()


# Brings a task's files to HDFS while it runs, where the nodes' own pages cannot be reached.
#
# A process of its own does it: it holds no GPU, and what the task wrote last is brought after the
# task is gone. With the last container of an application its node removes these files, so they are
# opened as soon as the last one is written, and the container's shell waits for that: `MARK`.
#
# A log lies in HDFS as segments, ``stdout@<offset of its first byte>``. A segment grows by
# appending. Where it is not certain whether an append was done, the segment is left as it is and
# another begins at the last byte that is certain: segments may overlap, and say the same where they
# do. Any other file of the folder is written again whenever it has changed. ``@over`` says that all
# is there.


STREAMS = ("stdout", "stderr", "events", "displays", "returns")
EVERY = 0.5
"""Seconds between two looks; HDFS sees two requests a log that has grown."""

PATIENCE = 30.0
"""Seconds that are tried for in vain, once the task is gone."""

MARK = ".shipping"
"""Holds the id of the process, as long as the container's shell is to wait for it."""

_LOOK = 0.05  # seconds: the container's shell ends only once this look has seen the task's end
_SHIP_PIECE = 8 << 20
_LARGEST = 256 << 20
_DESCRIPTORS = 1024
_LAST = ("outcome.json", "exit")
_SELDOM = ("metrics", "reported")
_SELDOM_EVERY = 10.0
"""Seconds: they change all the time, are brought whole, and nobody waits for them."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,200}")
_RESULT = re.compile(
    r"(return|home|var-\w{1,200})\.(pkl|txt)|post-mortem\.values|artifact-\d+|artifacts\.pack"
)
"""What comes whatever its size: it was limited where it was written, and lies there by a rename."""


def start(folder: str, urls: str, below: str, task: int) -> None:
    """Start the process, and return at once.

    Parameters
    ----------
    folder
        The task's folder.
    urls, below
        Where to, as of `WebFolder`.
    task
        The process with whose end the task is over.
    """
    if os.fork():
        os.wait()
        return
    os.setsid()  # no part of the task's process group, which is killed at its end
    if child := os.fork():
        # Before the task goes on: its shell would not wait for a mark that comes late.
        with suppress(OSError), open(f"{folder}/{MARK}", "w") as file:  # noqa: PTH123 - pathlib is slow
            file.write(f"{child}\n")
        os._exit(0)  # and no descendant of the task either
    try:
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nothing, descriptor)
        os.closerange(3, _DESCRIPTORS)
        Shipper(folder, WebFolder(urls, below)).run(task)
    finally:
        os._exit(0)


class Shipper:
    """Brings what is new of a folder's files.

    Parameters
    ----------
    folder
        The task's folder.
    there
        Where to.
    """

    def __init__(self, folder: str, there: WebFolder) -> None:
        self._folder = folder
        self._there = there
        self._sent = dict.fromkeys(STREAMS, 0)
        self._segment: dict[str, str] = {}
        self._brought: dict[str, tuple[int, int]] = {}
        self._seldom_due = 0.0
        self._over = threading.Event()
        self._held: dict[str, int] = {}

    def run(self, task: int) -> None:
        """Bring what is new until the process `task` is gone and all is there."""
        # Beside the requests to HDFS, each of which may take its time.
        threading.Thread(target=self._hold, args=(task,), daemon=True).start()
        last = time.monotonic()
        while True:
            over = self._over.is_set()
            try:
                complete = self.step()
                if over and complete:
                    self._there.create(_OVER, b"")
                    return
            except OSError:
                if over and time.monotonic() > last + PATIENCE:
                    return
            else:
                last = time.monotonic()
                if over or not complete:
                    continue
            if over:
                time.sleep(EVERY)
            else:
                self._over.wait(EVERY)

    def _hold(self, task: int) -> None:
        """Open all files once the last one is there, or the task is gone; let its shell go then."""
        while _lives(task) and not self._has_ended():
            time.sleep(_LOOK)
        held = {}
        with suppress(OSError):
            for name in (*STREAMS, *self._others()):
                with suppress(OSError):  # a log that never began
                    held[name] = os.open(f"{self._folder}/{name}", os.O_RDONLY | os.O_CLOEXEC)
        self._held = held
        self._over.set()
        with suppress(OSError):
            os.unlink(f"{self._folder}/{MARK}")  # noqa: PTH108 - pathlib is slow

    def _has_ended(self) -> bool:
        """Return whether the last file is written: its shell makes it first, and empty."""
        with suppress(OSError):
            return os.stat(f"{self._folder}/{_LAST[-1]}").st_size > 0  # noqa: PTH116 - pathlib is slow
        return False

    def _path(self, name: str) -> str:
        """Return by which path a file is opened, also where its name is gone by now."""
        held = self._held.get(name)
        return f"{self._folder}/{name}" if held is None else f"/proc/self/fd/{held}"

    def step(self) -> bool:
        """Bring what is new; return whether that was all of it.

        Raises
        ------
        OSError
            HDFS does not take it; the next step goes on.
        """
        # Who sees the outcome may believe that the logs and results are complete.
        others = self._others()
        others.sort(key=lambda name: _LAST.index(name) if name in _LAST else -1)
        more = [self._grow(stream) for stream in STREAMS]
        if "exit" not in others and time.monotonic() < self._seldom_due:
            others = [name for name in others if name not in _SELDOM]
        else:
            self._seldom_due = time.monotonic() + _SELDOM_EVERY
        for name in others:
            if name not in _LAST or not any(more):
                self._bring(name)
        return not any(more)

    def _grow(self, stream: str) -> bool:
        """Bring the next bytes of a log; return whether there may be more of them."""
        sent = self._sent[stream]
        try:
            with open(self._path(stream), "rb") as file:  # noqa: PTH123 - pathlib is slow
                file.seek(sent)
                data = file.read(_SHIP_PIECE)
        except FileNotFoundError:
            return False
        if not data:
            return False
        segment = self._segment.pop(stream, None)
        if segment is None:
            segment = f"{stream}@{sent:020d}"
            self._there.create(segment, data)
        else:
            self._there.append(segment, data)
        self._segment[stream] = segment
        self._sent[stream] = sent + len(data)
        return len(data) == _SHIP_PIECE

    def _others(self) -> list[str]:
        if self._held:
            return [name for name in self._held if name not in STREAMS]
        with os.scandir(self._folder) as entries:
            return [
                entry.name
                for entry in entries
                if entry.name not in STREAMS
                and _NAME.fullmatch(entry.name)
                and entry.is_file(follow_symlinks=False)
            ]

    def _bring(self, name: str) -> None:
        """Bring a file if it has changed."""
        with suppress(FileNotFoundError):
            with open(self._path(name), "rb") as file:  # noqa: PTH123 - as above
                status = os.fstat(file.fileno())
                version = status.st_mtime_ns, status.st_size
                large = status.st_size > _LARGEST
                if self._brought.get(name) == version or (large and not _RESULT.fullmatch(name)):
                    return
                self._there.replace(name, file if large else file.read())
            self._brought[name] = version


def _lives(pid: int) -> bool:
    """Tell whether a process runs: neither gone nor waited for, see ``/proc/PID/stat``, proc(5)."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - as above
            return file.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except OSError:
        return False


# Brings a task's events to HDFS while they grow, for a TensorBoard that reads them there.


_EVENTSHIP_PIECE = 8 << 20
_BETWEEN = 0.5  # seconds between two tries: an HDFS that is away is not asked without a pause
_OVER = "@over"


class EventShip:
    """Brings what is new of the files below a folder.

    Parameters
    ----------
    folder
        The task's log directory.
    urls, below
        Where to, as of `WebFolder`.
    files
        Gives the names of the files below a folder.
    """

    def __init__(
        self, folder: str, urls: str, below: str, files: Callable[[str], Iterable[str]]
    ) -> None:
        self._files = files
        self._folder = folder
        self._there = WebFolder(urls, below)
        self._sent: dict[str, int] = {}
        self._has_unread = False

    def step(self) -> bool:
        """Bring what is new; return whether that was all of it.

        Raises
        ------
        OSError
            HDFS does not take it; the next step goes on.
        """
        self._has_unread = False
        more = [self._bring(name) for name in self._files(self._folder)]
        return not any(more)

    def finish(self, seconds: float) -> None:
        """Bring the rest of a task that is over, and say so; give up after `seconds`."""
        until = time.monotonic() + seconds
        is_late = False
        while not is_late:
            is_late = time.monotonic() + _BETWEEN >= until
            with suppress(OSError):
                if self.step() and (is_late or not self._has_unread):
                    self._there.create(_OVER, b"")
                    return
            time.sleep(_BETWEEN)

    def _bring(self, name: str) -> bool:
        """Bring the next bytes of a file; return whether there are more of them."""
        sent = self._sent.get(name, 0)
        try:
            with open(f"{self._folder}/{name}", "rb") as file:  # noqa: PTH123 - pathlib is slow
                size = os.fstat(file.fileno()).st_size
                if size == sent:
                    return False
                sent = sent if size > sent else 0
                file.seek(sent)
                data = file.read(_EVENTSHIP_PIECE)
        except OSError:  # that file's own: the next step tries it again
            self._has_unread = True
            return False
        # Where it is not certain whether bytes were appended, the file is brought anew.
        self._sent.pop(name, None)
        if sent:
            self._there.append(name, data)
        else:
            self._there.create(name, data)
        self._sent[name] = sent + len(data)
        return sent + len(data) < size
