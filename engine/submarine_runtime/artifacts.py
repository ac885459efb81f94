"""Packs the files below ``SUBMARINE_OUTPUT_PATH`` into files that the driver can fetch.

Some clusters show the files of a task's folder, and none of the folders in it. There the task's
shell runs ``python artifacts.py FOLDER LOGS`` (`finish`) when the task is over, before its end is
told. Small files go into one file, `PACK`: a line of three numbers (bytes of the name, number of
the part, bytes of the data), the name, and the data. A large file is a part of its own, which costs
no second copy where both folders are on one disk. The last line has no name; behind it stands, as
JSON, what was left out.
"""

# ruff: noqa: PTH105, PTH108, PTH123 - pathlib is slow to import, and a GPU may wait

from __future__ import annotations

import errno
import json
import os
import stat
import sys
from contextlib import suppress
from itertools import chain

TYPE_CHECKING = False  # as type checkers have it; the module takes long to import
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

FOLDER = "artifacts"
"""The folder's name, where a cluster makes it."""

PACK = "artifacts.pack"
PART = "artifact-%d"
"""A large file's name beside the pack, by its number."""

LARGE = 1 << 20
"""Bytes from which on a file is a part of its own."""

MOST_PARTS = 1000
"""A node lists its logs in one answer: further files go into the pack, however large."""

MOST_FILES = 200_000
LONGEST = 4000
"""Bytes of a name, with its folders: Linux's own limit of a path, about."""

_PIECE = 1 << 20
_ROOM = 1 << 15
_READABLE = 0o640
"""As the folder of logs has it: the node reads them, in some clusters as another user."""

LINK = "a link"
SPECIAL = "no file (a pipe, a socket, a device)"
UNREADABLE = "cannot be read"
NO_ROOM = "no room on the node's disk"
TOO_MANY = f"more than {MOST_FILES:,} files"
LONG = "a path that is too long"


class LeftOut:
    """What is left out: how many for which reason, and the first few by name."""

    MOST = 20

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.names: list[tuple[str, str]] = []

    def add(self, name: bytes, why: str) -> None:
        """Note that the file or folder `name` is left out, and `why`, in words."""
        self.counts[why] = self.counts.get(why, 0) + 1
        if len(self.names) < self.MOST:
            self.names.append((name[:200].decode("utf-8", "replace"), why))


def finish(folder: str, logs: str) -> None:
    """Put what a task has left where it is seen; say it in the task's log where that fails.

    Parameters
    ----------
    folder
        Where the task has left it; nothing happens where it is empty, or is not there.
    logs
        The task's folder.
    """
    try:
        _finish(os.fsencode(folder), os.fsencode(logs))
    except OSError as error:
        sys.stderr.write(f"submarine: the artifacts are lost: {error}\n")


def _finish(folder: bytes, logs: bytes) -> None:
    left = LeftOut()
    found = files(folder, left)
    first = next(found, None)
    if first is None and not left.counts:
        return
    aside, reserve = b"%b/.%b" % (logs, PACK.encode()), b"%b/.artifacts.room" % logs
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC
    try:
        with open(reserve, "wb") as file:  # on a full disk it is told what is lost
            file.write(bytes(_ROOM))
        out = os.open(aside, flags, _READABLE)
        try:
            _pack(folder, found if first is None else chain([first], found), logs, out, left)
            os.unlink(reserve)
            told = json.dumps({"left": left.counts, "names": left.names}).encode()
            _append(out, b"0 0 %d\n%b" % (len(told), told))
        finally:
            os.close(out)
        os.replace(aside, b"%b/%b" % (logs, PACK.encode()))
    finally:
        for name in aside, reserve:
            with suppress(FileNotFoundError):
                os.unlink(name)
    if NO_ROOM in left.counts:
        sys.stderr.write(f"submarine: {left.counts[NO_ROOM]:,} artifacts are lost: {NO_ROOM}\n")


def _pack(folder: bytes, names: Iterable[bytes], logs: bytes, out: int, left: LeftOut) -> None:
    parts = 0
    for name in names:
        try:
            parts += _put(folder, name, logs, parts + 1, out)
        except OSError as error:  # noqa: PERF203 - the others come all the same
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            left.add(name, NO_ROOM if full else UNREADABLE)


def files(folder: bytes, left: LeftOut) -> Iterator[bytes]:
    """Yield the names of the plain files below a folder, in their order; no link is followed.

    Parameters
    ----------
    folder
        What is looked through; nothing comes of one that is not there, or is a link.
    left
        Takes the rest, each with its reason: links, special files, what is beyond `MOST_FILES`.
    """
    count = 0
    if not _is_folder(folder):
        return
    waiting = [b""]
    while waiting:
        below = waiting.pop()
        try:
            with os.scandir(b"%b/%b" % (folder, below)) as entries:
                found = sorted(entries, key=lambda entry: entry.name)
        except OSError:
            left.add(below, UNREADABLE)
            continue
        folders = []
        for entry in found:
            name = below + entry.name
            if entry.is_symlink():
                left.add(name, LINK)
            elif len(name) > LONGEST:
                left.add(name, LONG)
            elif entry.is_dir(follow_symlinks=False):
                folders.append(name + b"/")
            elif not entry.is_file(follow_symlinks=False):
                left.add(name, SPECIAL)
            elif count >= MOST_FILES:
                left.add(name, TOO_MANY)
            else:
                count += 1
                yield name
        waiting += reversed(folders)


def _is_folder(path: bytes) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def _put(folder: bytes, name: bytes, logs: bytes, part: int, out: int) -> int:
    """Put a file into the pack, or beside it; return how many parts that made."""
    path = b"%b/%b" % (folder, name)
    source = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        status = os.fstat(source)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is no file")
        if status.st_size < LARGE or part > MOST_PARTS:
            _append_file(out, name, source, status.st_size)
            return 0
        there = b"%b/%b" % (logs, os.fsencode(PART % part))
        size = _put_beside(path, source, there)
        try:
            _append(out, b"%d %d %d\n%b" % (len(name), part, size, name))
        except OSError:
            os.unlink(there)
            raise
        return 1
    finally:
        os.close(source)


def _append(out: int, data: bytes) -> None:
    before = os.fstat(out).st_size
    try:
        while data:
            data = data[os.write(out, data) :]
    except OSError:
        os.ftruncate(out, before)  # half an entry would spoil what comes after it
        raise


def _append_file(out: int, name: bytes, source: int, size: int) -> None:
    """Append a file as long as it is now: it may be written while it is read."""
    before = os.fstat(out).st_size
    try:
        _append(out, b"%d 0 %d\n%b" % (len(name), size, name))
        at = 0
        while at < size:
            data = os.pread(source, min(_PIECE, size - at), at)
            if not data:  # it has become shorter
                break
            _append(out, data)
            at += len(data)
    except OSError:
        os.ftruncate(out, before)
        raise
    if at < size:
        os.ftruncate(out, before)
        raise OSError(errno.EIO, "it has become shorter")


def _put_beside(path: bytes, source: int, there: bytes) -> int:
    """Have a large file beside the logs; return its size as it is there."""
    try:
        os.link(path, there, follow_symlinks=False)
    except OSError:  # another disk, or one that knows no links
        return _copy(source, there)
    mode = stat.S_IMODE(os.fstat(source).st_mode)
    if mode | _READABLE != mode:
        with suppress(OSError):
            os.fchmod(source, mode | _READABLE)
    return os.lstat(there).st_size


def _copy(source: int, there: bytes) -> int:
    folder, _, name = there.rpartition(b"/")
    aside = b"%b/.%b" % (folder, name)  # who brings files elsewhere takes no half of one
    out = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, _READABLE)
    try:
        at, size = 0, os.fstat(source).st_size
        while at < size and (data := os.pread(source, min(_PIECE, size - at), at)):
            _append(out, data)
            at += len(data)
        os.replace(aside, there)
    except OSError:
        os.unlink(aside)
        raise
    finally:
        os.close(out)
    return at


if __name__ == "__main__":
    finish(sys.argv[1], sys.argv[2])
