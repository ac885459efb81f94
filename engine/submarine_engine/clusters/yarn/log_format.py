"""A log as Hadoop prints it: a header, the log's own bytes, a trailer."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.client import HTTPResponse
from pathlib import Path
from typing import BinaryIO

from submarine_engine.errors import ClusterError

# The form is that of ``LogToolUtils`` and ``NMWebServices`` (Hadoop 2.9 to 3.4), the same from a
# NodeManager and from the ``yarn logs`` command::
#
#     Container: container_… on node_…
#     LogAggregationType: LOCAL
#     ================================
#     LogType:stdout
#     LogLastModifiedTime:…
#     LogLength:45
#     LogContents:
#     <bytes>End of LogType:stdout.…
#
# Nothing in it is escaped: only the length tells where the bytes end, whatever they hold.


LONGEST_LINE = 1 << 12
MOST_LINES = 24
LARGEST = 1 << 62
_CONTENTS = b"LogContents:\n"
_TRAILER = b"End of LogType:"


_CONTAINER = re.compile(r"container_(?:e\d{1,12}_)?(\d{1,20}_\d{1,12})_\d{1,12}_\d{1,20}", re.ASCII)


def application_of(container: str) -> str:
    """Return the id of the application that a container is of.

    Raises
    ------
    ClusterError
        `container` is not a container's id.
    """
    match = _CONTAINER.fullmatch(container)
    if match is None:
        raise ClusterError(f"{container!r} is not a container's id")
    return f"application_{match[1]}"


@dataclass(frozen=True, slots=True)
class Header:
    """What stands before a log's bytes.

    Parameters
    ----------
    container
        Whose log it is; empty where the header does not say.
    name
        Of the file.
    length
        Bytes of the whole log, of which the answer may hold a part.
    kind
        ``LOCAL``, from the node's own disk, or ``AGGREGATED``; empty from Hadoop 2.
    """

    container: str
    name: str
    length: int
    kind: str


def trailer(name: str) -> bytes:
    """Return what comes right after the bytes of the log `name`."""
    return _TRAILER + name.encode()


def read_header(readline: Callable[[int], bytes]) -> Header | None:
    """Read to the first byte of a log.

    Parameters
    ----------
    readline
        Returns the next line, of at most so many bytes; empty at the end.

    Returns
    -------
    Header or None
        None where there is no log: an older NodeManager prints no header for an empty one.

    Raises
    ------
    ClusterError
        It is no such header.
    """
    fields: dict[bytes, bytes] = {}
    for _ in range(MOST_LINES):
        line = readline(LONGEST_LINE)
        if line == _CONTENTS:
            return _header(fields)
        if not fields and (not line or line.startswith(_TRAILER)):
            return None
        if not line.endswith(b"\n"):
            break
        key, _, value = line.partition(b":")
        fields.setdefault(key, value.strip())
    raise _nonsense("it has no header of a log")


def _header(fields: dict[bytes, bytes]) -> Header:
    length = fields.get(b"LogLength", b"")
    name = fields.get(b"LogType", b"")
    if not length.isdigit() or not 0 <= int(length) <= LARGEST or not name:
        raise _nonsense("its header has no name or no length")
    return Header(
        container=fields.get(b"Container", b"").partition(b" ")[0].decode("ascii", "replace"),
        name=name.decode("utf-8", "replace"),
        length=int(length),
        kind=fields.get(b"LogAggregationType", b"").decode("ascii", "replace"),
    )


def _nonsense(why: str) -> ClusterError:
    return ClusterError(
        f"an answer is no log of YARN's: {why}",
        fix="is something else than a NodeManager listening at that address?",
    )


# The bytes of a log out of one answer, told apart from what Hadoop puts around them.


_GUARD = 1 << 12


class Tail:
    """The rest of a log, read piece by piece.

    Bytes are given out only when it is certain that they are the log's. Where a file is cut while
    the node sends it, an older NodeManager sends less than it has announced, and the trailer
    would be taken for log: so a trailer's length is always held back until the end is seen.

    Parameters
    ----------
    response
        The answer, read up to the log's first byte.
    key
        Container and file.
    begins, length
        The answer holds the log's bytes from `begins` to `length`.
    offset
        Bytes from here on are wanted.
    """

    def __init__(
        self, response: HTTPResponse, key: tuple[str, str], begins: int, length: int, offset: int
    ) -> None:
        self.key = key
        self.offset = offset
        self.remaining = length - offset
        self._response = response
        self._trailer = trailer(key[1])
        self._buffer = bytearray()
        self._skip = offset - begins

    def read(self, limit: int) -> bytes:
        """Return the next bytes, at most `limit`.

        Raises
        ------
        OSError, HTTPException
            The answer breaks off; nothing of it that was not given out may be used.
        ClusterError
            The log was cut while it was sent.
        """
        size = min(limit, self.remaining)
        whole = self.remaining + len(self._trailer)
        needed = self._skip + min(size + _GUARD, whole)
        while len(self._buffer) < needed:
            piece = self._response.read1(max(1 << 16, needed - len(self._buffer)))
            if not piece:
                raise ClusterError(f"{self.key[1]} of {self.key[0]} was cut while it was read")
            self._buffer += piece
        end = self._skip + self.remaining
        if needed == self._skip + whole and not self._buffer.startswith(self._trailer, end):
            raise ClusterError(f"{self.key[1]} of {self.key[0]} was cut while it was read")
        data = bytes(memoryview(self._buffer)[self._skip : self._skip + size])
        del self._buffer[: self._skip + size]
        self._skip = 0
        self.offset += size
        self.remaining -= size
        return data


# Where in a file of logs, as ``yarn logs -out`` writes them, each log lies.


@dataclass(frozen=True, slots=True)
class Stored:
    """One log inside a file of several.

    Parameters
    ----------
    path
        The file.
    begins
        Where in it the log's first byte is.
    length
        Bytes of the log.
    """

    path: Path
    begins: int
    length: int

    def read(self, offset: int, limit: int) -> bytes:
        """Return at most `limit` bytes of the log from `offset` on."""
        size = max(0, min(limit, self.length - offset))
        with self.path.open("rb") as file:
            return os.pread(file.fileno(), size, self.begins + offset)


def stored_logs(folder: Path, container: str) -> dict[str, Stored]:
    """Find the aggregated logs of a container in all files below `folder`, by name.

    Where YARN has gathered a log several times while it grew, the longest counts.

    Raises
    ------
    ClusterError
        A file is not of the form of logs, or ends inside one.
    """
    found: dict[str, Stored] = {}
    for whose, name, log in all_logs(folder):
        if whose == container and (name not in found or found[name].length < log.length):
            found[name] = log
    return found


def all_logs(folder: Path) -> Iterator[tuple[str, str, Stored]]:
    """Yield the aggregated logs in all files below `folder`: container, name, and where it is.

    Raises
    ------
    ClusterError
        As `stored_logs`.
    """
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        yield from _logs_in(path)


def _logs_in(path: Path) -> Iterator[tuple[str, str, Stored]]:
    with path.open("rb") as file:
        at = 0
        while (header := read_header(file.readline)) is not None:
            begins = file.tell()
            file.seek(header.length, os.SEEK_CUR)
            _pass_trailer(file, header.name)
            at = file.tell()
            if header.kind != "LOCAL":
                yield header.container, header.name, Stored(path, begins, header.length)
        if at != os.fstat(file.fileno()).st_size:
            raise ClusterError(f"byte {at} of {path} is not the beginning of a log")


def _pass_trailer(file: BinaryIO, name: str) -> None:
    """Pass ``End of LogType:NAME``, a line of stars, and the empty lines around them."""
    at = file.tell()
    lines = [file.readline(LONGEST_LINE)]
    if lines == [b"\n"]:
        lines = [file.readline(LONGEST_LINE)]
    lines += [file.readline(LONGEST_LINE), file.readline(LONGEST_LINE)]
    if not lines[0].startswith(trailer(name)) or set(lines[1].strip()) != {ord("*")}:
        raise ClusterError(
            f"byte {at} of {file.name} is not the end of {name}: the logs cannot be told apart"
        )
