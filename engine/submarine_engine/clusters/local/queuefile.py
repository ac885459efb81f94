"""The file that is the queue: a line a ticket, in order.

A new ticket is one line more; anything else is written aside and renamed. Whoever changes the file
holds the queue's lock; whoever reads it sees whole tickets only.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from submarine_engine.history import write_aside

_LINE = re.compile(r"\S+ \S+ [0-9]+ \S+\n")


class Ticket(NamedTuple):
    """A job's place in the queue: it waits for `gpus` of the GPUs in `pool`."""

    job_id: str
    name: str
    gpus: int
    pool: tuple[str, ...]

    @property
    def line(self) -> str:
        """The ticket as it is written; neither ids nor names hold a space."""
        return f"{self.job_id} {self.name} {self.gpus} {','.join(self.pool)}\n"

    @classmethod
    def from_line(cls, line: str) -> Ticket:
        """Build from what `line` gave."""
        job_id, name, gpus, pool = line.split()
        return cls(job_id, name, int(gpus), tuple(pool.split(",")))


class QueueFile:
    """Reads and writes the queue's file.

    Parameters
    ----------
    path
        The file; made with the first ticket.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._version: tuple[int, int, int] | None = None
        self._lines: dict[str, str] = {}
        self._torn = False

    def lines(self) -> Mapping[str, str]:
        """Return the tickets' lines by job id, in order; read again only where they changed."""
        try:
            status = self._path.stat()
            version = (status.st_ino, status.st_mtime_ns, status.st_size)
            if version != self._version:
                text = self._path.read_text()
                whole = text[: text.rfind("\n") + 1]
                self._torn = len(whole) < len(text)
                lines = (line for line in whole.splitlines(True) if _LINE.fullmatch(line))
                self._lines = {line.partition(" ")[0]: line for line in lines}
                self._version = version
        except FileNotFoundError:
            return {}
        return self._lines

    def forget(self) -> None:
        """Read the file again at the next look, changed or not."""
        self._version = None

    def append(self, ticket: Ticket) -> None:
        """Put a ticket at the end.

        Raises
        ------
        OSError
            The disk is full; the queue is as before.
        """
        lines = self.lines()
        if not lines or self._torn:  # half a line, of a submitter that was killed, must go
            self.replace([*lines.values(), ticket.line])
            return
        line = ticket.line.encode()
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            size = os.fstat(descriptor).st_size
            try:
                written = os.pwrite(descriptor, line, size)
                if written < len(line):
                    os.pwrite(descriptor, line[written:], size + written)  # tells why by raising
            except OSError:
                os.ftruncate(descriptor, size)
                raise
        finally:
            os.close(descriptor)

    def replace(self, lines: Iterable[str]) -> None:
        """Write all lines anew; raises as `append` does."""
        write_aside(self._path, "".join(lines).encode())
