"""Where in a file of logs, as ``yarn logs -out`` writes them, each log lies."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from submarine_engine.clusters.yarn.logpage import LONGEST_LINE, read_header, trailer
from submarine_engine.errors import ClusterError


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
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        for name, log in _logs_in(path, container):
            if name not in found or found[name].length < log.length:
                found[name] = log
    return found


def _logs_in(path: Path, container: str) -> Iterator[tuple[str, Stored]]:
    with path.open("rb") as file:
        at = 0
        while (header := read_header(file.readline)) is not None:
            begins = file.tell()
            file.seek(header.length, os.SEEK_CUR)
            _pass_trailer(file, header.name)
            at = file.tell()
            if header.container == container and header.kind != "LOCAL":
                yield header.name, Stored(path, begins, header.length)
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
