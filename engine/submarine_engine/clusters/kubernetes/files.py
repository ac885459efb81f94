"""The files of a pod's task, by a program in the pod that answers questions over ``exec``."""

from __future__ import annotations

import gzip
import io
import json
import math
import os
import re
import shutil
import sys
import tarfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import submarine_runtime
from submarine_runtime import pod as runtime
from submarine_runtime.messages import LARGEST_OF

from submarine_engine.clusters.kubernetes.client import WIRE_ERRORS
from submarine_engine.clusters.kubernetes.manifest import FILES_CONTAINER
from submarine_engine.clusters.log_mirror import (
    EXIT,
    SERIES,
    FolderSource,
    LogsGoneError,
    LogTruncatedError,
)
from submarine_engine.errors import ClusterError, SubmissionError
from submarine_engine.history import make_private, write_aside

if TYPE_CHECKING:
    from submarine_engine.clusters.exchange import Messages
    from submarine_engine.clusters.kubernetes.client import Kubernetes

_ANSWERS_WITHIN = 20.0  # seconds
AGAIN_AFTER = 1.0
"""Seconds until a pod that could not be reached is tried again."""

_PIECE = 1 << 18
_ON_THEIR_WAY = 32  # pieces: a line of 200 ms carries 40 MB a second
_LARGEST_HEAD = 1 << 22
_MOST_NAMES = 100_000
_MOST_PIECES = 1000  # that are asked for at a time

FULL_FIX = (
    "see that nodes have room for it (ephemeral storage, `kubectl describe nodes`), or keep its"
    " environment on a volume by --volumes"
)
"""What to do where a job's files or its environment find no room."""

_STAYS = re.compile(
    r"(task|launch|hello|answer|ask)\.json|node|begun|asked-to-end|logdir\.sent|save\.\d{4,}"
)
"""What of a task's folder is not wanted at home: what came from here, secrets among it, and models
that were saved while it ran. Each would be a question more while its GPUs wait.
"""

# The program itself comes first, on its own input: the pod's image has nothing of ours.
_BEGIN = (
    "import sys; sys.stdout.flush();"
    " exec(compile(sys.stdin.buffer.read(int(sys.stdin.buffer.readline())), 'pod.py', 'exec'))"
)


class PodFiles:
    """The files of a task, and its messages.

    Parameters
    ----------
    api
        The cluster.
    name, task
        The pod's, and whose files.
    python
        The interpreter in its image.

    Attributes
    ----------
    again_after
        Seconds until it is tried again where it could not be reached.
    """

    def __init__(self, api: Kubernetes, name: str, task: str, python: str) -> None:
        self.again_after = AGAIN_AFTER
        self._api = api
        self._name = name
        self._task = task
        self._python = python
        self._wire: Any = None
        self._heard = bytearray()
        self._tried_at = -math.inf
        self._why = self._unreachable("it hung up")

    def close(self) -> None:
        """Hang up; the task runs on."""
        wire, self._wire = self._wire, None
        self._heard.clear()
        if wire is not None:
            # Its own `close` waits three seconds for an answer, while GPUs may wait for us, and
            # leaves the connection open where the server has hung up before.
            with suppress(*WIRE_ERRORS):
                wire.sock.shutdown()

    def hello(self) -> Mapping[str, Any]:
        """Return which Python the pod has, and whether its job's files are there.

        Raises
        ------
        ClusterError
            It cannot be reached now, as for all others.
        """
        return self._ask("hello")[0]

    def bring(self, archive: bytes) -> None:
        """Bring the job's files, and let the task begin.

        Parameters
        ----------
        archive
            The files, as `pack` makes it.

        Raises
        ------
        SubmissionError
            There is no room for them.
        """
        for at in range(0, len(archive), runtime.MOST):
            piece = archive[at : at + runtime.MOST]
            self._refuse_unwritten("its files", self._ask("bring", piece, at=at)[0])
        self._refuse_unwritten("its files", self._ask("begin")[0])

    def sizes(self) -> tuple[dict[str, int], bool]:
        """Return the size of each file of the task's, and whether the task is alive."""
        told = self._ask("sizes")[0]
        sizes = told.get("sizes")
        if not isinstance(sizes, dict) or len(sizes) > _MOST_NAMES:
            raise ClusterError("what it says of its files is no list", where=f"pod {self._name}")
        found = {
            name: size
            for name, size in sizes.items()
            if "/" not in name and name not in (".", "..") and type(size) is int and size >= 0
        }
        return found, told.get("alive") is not False

    def read(self, name: str, offset: int, limit: int) -> bytes:
        """Return a piece of a file, as `LogSource.read`.

        Parameters
        ----------
        name
            The file's, in the task's folder.
        offset
            The byte to begin at.
        limit
            How many bytes at most.
        """
        told, data = self._ask("read", name=name, at=offset, most=limit)
        if "error" in told:
            raise LogsGoneError(f"{name} of {self._name}: {str(told.get('why'))[:100]}")
        whole = told.get("whole")
        if not isinstance(whole, int) or whole < offset:
            raise LogTruncatedError(f"{name} of {self._name} was cut")
        return data

    def gather(self, pieces: Mapping[str, tuple[int, int]]) -> dict[str, bytes]:
        """Return pieces of several files by one question: each way to the pod may be long.

        Parameters
        ----------
        pieces
            From which byte on, and how many, by name; `runtime.MOST` bytes in all at most.
        """
        asked = [(name, at, most) for name, (at, most) in pieces.items()]
        told, data = self._ask("gather", pieces=asked)
        sizes = told.get("sizes")
        if not isinstance(sizes, list) or len(sizes) != len(asked):
            raise ClusterError(
                f"its files cannot be read: {str(told.get('why'))[:100]}", where=f"pod {self._name}"
            )
        at, found = 0, {}
        for (name, _, most), size in zip(asked, sizes, strict=True):
            if type(size) is not int or not 0 <= size <= most:
                raise ClusterError("what it says of its files is none", where=f"pod {self._name}")
            found[name] = data[at : at + size]
            at += size
        return found

    def exchange(self, messages: Messages) -> dict[str, bytes]:
        """Bring messages, and return the task's."""
        sizes = {name: len(data) for name, data in messages.items()}
        told, data = self._ask("say", b"".join(messages.values()), sizes=sizes)
        if "error" in told:
            why = str(told.get("why"))[:100]
            raise ClusterError(f"its folder cannot be written: {why}", where=f"pod {self._name}")
        at, found = 0, {}
        for name, size in dict(told.get("sizes") or {}).items():
            if type(size) is not int or size < 0:
                break
            if name in LARGEST_OF or name == "calls-taken":
                found[name] = data[at : at + size]
            at += size
        return found

    def signal(self, word: str) -> None:
        """Ask the task to end (`word` is ``TERM``), or kill it (``KILL``)."""
        self._ask("signal", f"{word}\n".encode())

    def end(self) -> None:
        """Let the pod end: everything is home."""
        told = self._ask("end")[0]
        if "error" in told:
            why = str(told.get("why"))[:100]
            raise ClusterError(f"its pod cannot be ended: {why}", where=f"pod {self._name}")
        self.close()

    # A packed environment, layer by layer.

    def choose(self, volumes: Sequence[str]) -> Mapping[str, Any]:
        """Have layers kept on one of the pod's volumes; return ``kept``, which, and ``why`` none.

        Asked anew on each connection, before anything else of this part.
        """
        return self._ask("choose", volumes=list(volumes))[0]

    def look(self, layer: Mapping[str, str]) -> Mapping[str, Any]:
        """Return whether a layer is ``there``, how much they ``have``, or why it ``failed``."""
        return self._ask("look", b"", **layer)[0]

    def send(self, file: BinaryIO, sha256: str, at: int, went: Callable[[int], object]) -> None:
        """Send a layer's archive from a byte on, several pieces on their way at a time.

        Parameters
        ----------
        file
            The archive.
        sha256
            Its own.
        at
            Where to go on.
        went
            Called with the bytes of each piece that is there.
        """
        on_their_way: deque[int] = deque()
        file.seek(at)
        while True:
            while len(on_their_way) < _ON_THEIR_WAY and (piece := file.read(_PIECE)):
                with self._talk():
                    self._say("piece", piece, sha256=sha256, at=at)
                at += len(piece)
                on_their_way.append(len(piece))
            if not on_their_way:
                return
            with self._talk():
                told, _ = self._hear_answer()
            self._refuse_unwritten("its environment", told)
            went(on_their_way.popleft())

    def _refuse_unwritten(self, what: str, told: Mapping[str, Any]) -> None:
        if "error" in told:
            self.close()  # other answers may be on their way
            raise SubmissionError(
                f"{what} cannot be written in the pod: {str(told.get('why'))[:200]}",
                where=f"pod {self._name}",
                fix=FULL_FIX,
            )

    def unpack(self, layer: Mapping[str, str]) -> None:
        """Have a layer unpacked whose archive is there."""
        self._ask("unpack", b"", **layer)

    def check(self, python: str) -> Mapping[str, Any]:
        """Return which ``python`` a program of the environment is there, and what it ``said``."""
        return self._ask("check", python=python)[0]

    # Questions and answers.

    def _ask(self, what: str, body: bytes = b"", **more: object) -> tuple[dict[str, Any], bytes]:
        """Ask one question; ClusterError where there is no answer now."""
        with self._talk():
            self._say(what, body, **more)
            answer = self._hear_answer()
            self._wire.read_all()  # the client keeps a copy of all that came
        return answer

    @contextmanager
    def _talk(self) -> Iterator[None]:
        if self._wire is None:
            self._open()
        try:
            yield
        except (*WIRE_ERRORS, ValueError, KeyError, TypeError) as error:
            self.close()
            self._why = self._unreachable(str(error)[:200] or type(error).__name__)
            raise self._why from error

    def _say(self, what: str, body: bytes, **more: object) -> None:
        question = json.dumps({"do": what, "size": len(body), **more}).encode() + b"\n"
        self._send(question + body)

    def _hear_answer(self) -> tuple[dict[str, Any], bytes]:
        until = time.monotonic() + _ANSWERS_WITHIN
        while (end := self._heard.find(b"\n")) < 0:
            self._hear(until, _LARGEST_HEAD)
        told = json.loads(bytes(self._heard[:end]))
        size = int(told["size"])
        while len(self._heard) < end + 1 + size:
            self._hear(until, end + 1 + 2 * runtime.MOST)
        data = bytes(self._heard[end + 1 : end + 1 + size])
        del self._heard[: end + 1 + size]
        return told, data

    def _open(self) -> None:
        if time.monotonic() - self._tried_at < self.again_after:
            raise self._why
        self._tried_at = time.monotonic()
        source = Path(runtime.__file__).read_bytes()
        command = [self._python, "-I", "-c", _BEGIN, "serve", runtime.ROOT, self._task]
        try:
            self._wire = self._api.open(self._name, FILES_CONTAINER, command)
            self._heard.clear()
            self._send(f"{len(source)}\n".encode() + source)
        except ClusterError as error:
            self.close()
            self._why = error
            raise
        except WIRE_ERRORS as error:
            self.close()
            self._why = self._unreachable(str(error)[:200])
            raise self._why from error

    def _unreachable(self, why: str) -> ClusterError:
        return ClusterError(
            f"the pod's files cannot be reached: {why}",
            where=f"pod {self._name}",
            fix="it is tried again; your role needs `create` of pods/exec: docs/kubernetes.md",
        )

    def _send(self, data: bytes) -> None:
        for at in range(0, len(data), _PIECE):
            self._wire.write_stdin(data[at : at + _PIECE])

    def _hear(self, until: float, most: int) -> None:
        if len(self._heard) > most:
            raise ValueError("its answer has no end")
        left = until - time.monotonic()
        if left <= 0:
            raise TimeoutError(f"no answer within {_ANSWERS_WITHIN:g} s")
        self._heard += self._wire.read_channel(1, timeout=left) or b""
        if not self._wire.is_open() and not self._wire.peek_channel(1):
            said = self._wire.read_channel(2) or self._wire.read_channel(3) or b""
            raise ConnectionError(said.decode("utf-8", "replace").strip()[-200:] or "it hung up")


class PodSource:
    """A container's files for the driver: in the pod, and from the task's end on at home.

    As soon as the task has ended, all that the driver does not have yet is brought into a folder of
    the job's, and the pod is let go with its GPUs. From there it is read like any other folder.

    Parameters
    ----------
    files
        The pod's.
    container
        What the cluster calls the container.
    spool
        That folder.
    last_words
        Returns the content of `EXIT` for a task that was killed with all that could tell how it
        ended, as the cluster says it; None while it does not.
    see
        Looks at the pod before it is let go: of one that is gone nobody can tell who has ended it.
    let_go
        Has the cluster forget the pod, whose task is over and whose files are here; returns whether
        it holds nothing any more.
    """

    live = True
    complete = True

    def __init__(  # noqa: PLR0913 - what is done about its pod, each by its name
        self,
        files: PodFiles,
        container: str,
        spool: Path,
        last_words: Callable[[], str | None],
        *,
        see: Callable[[], object] = lambda: None,
        let_go: Callable[[], bool] = lambda: False,
    ) -> None:
        self.container = container
        self._files = files
        self._spool = spool
        self._home = FolderSource(container, spool)
        self._copied: dict[str, int] = {}
        self._last_words = last_words
        self._see, self._let_go = see, let_go
        self._is_let_go = False

    @property
    def is_home(self) -> bool:
        """Whether all is here."""
        return self._spool.exists()

    def sizes(self) -> Mapping[str, int]:
        """Return the size of each file; brings everything home where the task has ended."""
        if self.is_home:
            self._let_pod_go()
            return self._home.sizes()
        sizes, alive = self._files.sizes()
        said = None
        if EXIT not in sizes:
            said = None if alive else self._last_words()
            if said is None:
                return sizes
        self._bring_home(sizes, said)
        self._let_pod_go()
        return self._home.sizes()

    def _let_pod_go(self) -> None:
        """Let the pod end, whose files are here; at the next look once more where that fails.

        Whoever has brought them home may have been killed before this: the pod would hold its GPUs,
        and its job go on, for as long as it waits for somebody.
        """
        if self._is_let_go:
            return
        ended = gone = False
        with suppress(ClusterError):
            self._see()
        with suppress(ClusterError):
            self._files.end()
            ended = True
        with suppress(ClusterError):
            gone = self._let_go()
        self._is_let_go = ended or gone

    def read(self, name: str, offset: int, limit: int) -> bytes:
        """Return at most `limit` bytes of a file from `offset` on, see `FolderSource.read`.

        Parameters
        ----------
        name
            One of `sizes`.
        offset
            In bytes; what comes before it has been read.
        limit
            In bytes.
        """
        if self.is_home:
            return self._home.read(name, offset, limit)
        self._copied[name] = offset  # what comes before is in the driver's own copy
        return self._files.read(name, offset, limit)

    def _bring_home(self, sizes: Mapping[str, int], said: str | None) -> None:
        """Bring all files home, with what the cluster says of the end where the task did not."""
        staged = self._spool.with_name(f".{self._spool.name}")
        shutil.rmtree(staged, ignore_errors=True)
        make_private(staged)
        missing = {}
        for name, size in sizes.items():
            if _STAYS.fullmatch(name):
                continue
            at = 0 if name in SERIES else min(self._copied.get(name, 0), size)
            missing[name] = at, size
            descriptor = os.open(staged / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor
                file.truncate(size)  # with a hole for what the driver has
        for pieces in _pieces(missing):
            for name, data in self._files.gather(pieces).items():
                at, most = pieces[name]
                if len(data) < most:
                    raise ClusterError(f"{name} has become shorter", where=self.container)
                with (staged / name).open("r+b") as file:
                    file.seek(at)
                    file.write(data)
        if said is not None:
            write_aside(staged / EXIT, said.encode())
        staged.rename(self._spool)

    def close(self) -> None:
        """Hang up."""
        self._files.close()


class EndedSource:
    """What is left of a container whose files the job has: how it ended.

    Parameters
    ----------
    container
        What the cluster calls it.
    said
        The content of `EXIT`.
    """

    live = True
    complete = True
    is_home = True

    def __init__(self, container: str, said: bytes) -> None:
        self.container = container
        self._said = said

    def sizes(self) -> Mapping[str, int]:
        """Return the size of the one file."""
        return {EXIT: len(self._said)}

    def read(self, name: str, offset: int, limit: int) -> bytes:
        """Return at most `limit` bytes of it from `offset` on, see `FolderSource.read`.

        Parameters
        ----------
        name
            `EXIT`: there is no other.
        offset, limit
            In bytes.
        """
        if name != EXIT:
            raise LogsGoneError(f"{name} of {self.container} is with the job")
        return self._said[offset : offset + limit]

    def close(self) -> None:
        """Close nothing."""


def _pieces(missing: Mapping[str, tuple[int, int]]) -> Iterator[dict[str, tuple[int, int]]]:
    """Yield what is asked for at a time, as `PodFiles.gather` has it; told from and up to where."""
    pieces: dict[str, tuple[int, int]] = {}
    room = runtime.MOST
    for name, (begin, end) in missing.items():
        at = begin
        while at < end:
            most = min(end - at, room)
            pieces[name] = at, most
            at, room = at + most, room - most
            if not room or len(pieces) == _MOST_PIECES:
                yield pieces
                pieces, room = {}, runtime.MOST
    if pieces:
        yield pieces


def pack(folders: Mapping[str, Path], texts: Mapping[str, bytes]) -> bytes:
    """Return an archive of what a pod is brought: our runtime, and the job's files.

    Parameters
    ----------
    folders
        By where they go.
    texts
        Files by where they go; a folder where the name ends by ``/``.
    """
    packed = io.BytesIO()
    own = {"lib/submarine_runtime": Path(submarine_runtime.__file__).parent}
    # Compressed fast: most of it is text, and some clusters are far.
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=1, mtime=0) as squeezed,
        tarfile.open(fileobj=squeezed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for place, folder in {**own, **folders}.items():
            archive.add(folder, place, filter=_of_the_job)
        for name, data in texts.items():
            info = tarfile.TarInfo(name.rstrip("/"))
            info.type = tarfile.DIRTYPE if name.endswith("/") else tarfile.REGTYPE
            info.mode = 0o700 if name.endswith("/") else 0o600
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return packed.getvalue()


def _of_the_job(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
    # What is compiled here need not be there: it is the same release of Python.
    compiled = info.name.endswith(f".{sys.implementation.cache_tag}.pyc")
    if "__pycache__/" in info.name and not compiled:
        return None
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    info.mode = 0o700 if info.isdir() else 0o600
    return info
