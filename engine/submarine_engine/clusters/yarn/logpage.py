"""A log as Hadoop prints it: a header, the log's own bytes, a trailer.

The form is that of ``LogToolUtils`` and ``NMWebServices`` (Hadoop 2.9 to 3.4), the same from a
NodeManager and from the ``yarn logs`` command::

    Container: container_… on node_…
    LogAggregationType: LOCAL
    ================================
    LogType:stdout
    LogLastModifiedTime:…
    LogLength:45
    LogContents:
    <bytes>End of LogType:stdout.…

Nothing in it is escaped: only the length tells where the bytes end, whatever they hold.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from submarine_engine.errors import ClusterError

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


class LogsGoneError(ClusterError):
    """The node no longer has the log, or not yet."""


class LogTruncatedError(ClusterError):
    """The log is shorter than what was read of it: it was cut, and began anew."""


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
