"""A task's artifacts, brought home from where `submarine_runtime.artifacts` has put them.

What comes is noted by the sizes of the files it lies in, so whoever takes the job over, or another
source of the same container's files, goes on there. The files are a stranger's: a name leads
nowhere but into the task's own folder.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from submarine_runtime.artifacts import LONGEST, MOST_FILES, PACK, PART, LeftOut

from submarine_engine.amounts import count
from submarine_engine.amounts import size as in_words
from submarine_engine.clusters.tasks import NO_ROOM
from submarine_engine.errors import ClusterError
from submarine_engine.history import SPOILT, TaskPaths, make_private, read_json, write_json

if TYPE_CHECKING:
    from submarine_engine.clusters.log_mirror import LogSource

PAST_LIMIT = "past artifacts_limit"
_FULL = "no room on the disk here"
_DAMAGED = "damaged on its way"
_REFUSED = "a name that cannot be here"
_HEAD = re.compile(rb"([0-9]{1,4}) ([0-9]{1,6}) ([0-9]{1,15})\n")
_LONGEST_HEAD = 32
_LARGEST_TOLD = 1 << 16
_ROOM_FOR_NAMES = 64 << 20
"""Bytes of a pack that may be names and numbers."""

_DEEPEST = 100
_PIECE = 1 << 20


class _Entry(NamedTuple):
    name: bytes
    part: int
    size: int


class ArtifactMirror:
    """Brings the artifacts of one task.

    Parameters
    ----------
    local
        The task's files.
    limit
        Bytes that come at most: a file that would pass it stays where it is.
    """

    def __init__(self, local: TaskPaths, limit: int) -> None:
        self._local = local
        self._limit = limit
        self._aside = local.root / ".artifacts"
        self._files = self._aside / "files"
        self._told = self._aside / "told.json"
        self._left = LeftOut()

    def bring(self, source: LogSource, sizes: Mapping[str, int]) -> str:
        """Bring what is not here yet; return what did not come, in words, if anything.

        Parameters
        ----------
        source
            The logs of the task's container.
        sizes
            Bytes by the name of each file that the source has.

        Raises
        ------
        ClusterError
            The source does not answer, or has not all of it: it goes on at the next call.
        """
        if PACK not in sizes or self._local.artifacts_note.exists():
            return ""
        try:
            if not self._told.exists():
                self._begin(source.container)
                self._bring(source, sizes)
            self._finish()
        except OSError as error:
            return f"{self._local.root.name}: its artifacts did not come home: {error.strerror}"
        return self._words()

    def _begin(self, container: str) -> None:
        """Have an aside folder of this container's."""
        note = self._aside / "container.json"
        if (read_json(note) or {}).get("container") != container:
            shutil.rmtree(self._aside, ignore_errors=True)
            make_private(self._files)
            write_json(note, {"container": container})

    def _bring(self, source: LogSource, sizes: Mapping[str, int]) -> None:
        pack = self._aside / "pack"
        most = min(sizes[PACK], self._limit + _ROOM_FOR_NAMES)
        try:
            _fetch(source, PACK, most, pack)
            with pack.open("rb") as file:
                self._unpack(file, source, sizes)
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            self._left.add(b"", _FULL)
        pack.unlink(missing_ok=True)  # first, since the disk may be full
        write_json(self._told, {"version": 1, "left": self._left.counts, "names": self._left.names})

    def _finish(self) -> None:
        if self._files.exists():
            with suppress(OSError):
                self._local.artifacts.rmdir()  # empty, of an attempt that is over
            self._files.replace(self._local.artifacts)
        self._told.replace(self._local.artifacts_note)
        shutil.rmtree(self._aside, ignore_errors=True)

    def _words(self) -> str:
        told = dict(self._left.counts)
        home = sum(told.pop(why, 0) for why in (PAST_LIMIT,))
        task = self._local.root.name
        words = []
        if home:
            words.append(
                f"{count(home, 'artifact')} of {task} stayed among its container's logs, as long as"
                f" the cluster keeps these: artifacts_limit is {in_words(self._limit)}. Set it"
                " higher, or write to the checkpoint path"
            )
        if told:
            why = "; ".join(f"{number:,}: {why}" for why, number in told.items())
            words.append(f"artifacts of {task} that did not come home: {why}")
        return ". ".join(words)

    def _unpack(self, file: BinaryIO, source: LogSource, sizes: Mapping[str, int]) -> None:
        total, made = 0, set[Path]()
        for entry in self._entries(file):
            if total + entry.size > self._limit:
                self._left.add(entry.name, PAST_LIMIT)
                continue
            path = self._place(entry.name)
            if path is None:
                self._left.add(entry.name, _REFUSED)
                continue
            try:
                if path.parent not in made:
                    made.add(make_private(path.parent))
                if entry.part:
                    name = PART % entry.part
                    if name not in sizes:
                        raise ClusterError(f"{name} of {source.container} is not there")
                    _fetch(source, name, min(entry.size, sizes[name]), path)
                else:
                    _copy(file, entry.size, path)
            except OSError as error:
                if error.errno in NO_ROOM:
                    with suppress(OSError):
                        path.unlink(missing_ok=True)
                    raise
                self._left.add(entry.name, _REFUSED)
            total += entry.size

    def _entries(self, file: BinaryIO) -> Iterator[_Entry]:
        """Yield what a pack holds; the file stands at its data meanwhile."""
        size = os.fstat(file.fileno()).st_size
        at = 0
        for _ in range(MOST_FILES + 1):
            file.seek(at)
            head = _HEAD.match(file.read(_LONGEST_HEAD))
            if head is None:
                self._left.add(b"", PAST_LIMIT if size > self._limit else _DAMAGED)
                return
            length, part, data = map(int, head.groups())
            begin = at + head.end()
            at = begin + length + (0 if part else data)
            if at > size:
                self._left.add(b"", PAST_LIMIT if size > self._limit else _DAMAGED)
                return
            file.seek(begin)
            if not length:
                self._hear(file.read(min(data, _LARGEST_TOLD)))
                return
            yield _Entry(file.read(length), part, data)

    def _hear(self, told: bytes) -> None:
        """Take what was left out where the task ran."""
        with suppress(*SPOILT):
            found = json.loads(told)
            for told_why, number in list(found["left"].items())[:10]:
                why = str(told_why)[:100]
                self._left.counts[why] = self._left.counts.get(why, 0) + int(number)
            names = [(str(name)[:200], str(why)[:100]) for name, why in found["names"]]
            self._left.names += names[: LeftOut.MOST]

    def _place(self, name: bytes) -> Path | None:
        parts = name.split(b"/")
        if len(parts) > _DEEPEST or any(one in (b"", b".", b"..") for one in parts):
            return None
        if len(name) > LONGEST or b"\0" in name:
            return None
        return self._files / os.fsdecode(name)


def _fetch(source: LogSource, name: str, size: int, path: Path) -> None:
    """Copy a file up to a size, from where its copy ends."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(path, flags, 0o600)
    try:
        at = os.fstat(descriptor).st_size
        while at < size:
            data = source.read(name, at, min(_PIECE, size - at))
            if not data:
                raise ClusterError(f"{name} has {size:,} bytes, and only {at:,} come")
            _write(descriptor, data)
            at += len(data)
    finally:
        os.close(descriptor)


def _copy(file: BinaryIO, size: int, path: Path) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(path, flags, 0o600)
    try:
        while size and (data := file.read(min(_PIECE, size))):
            _write(descriptor, data)
            size -= len(data)
    finally:
        os.close(descriptor)


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
