"""The files through which a pool's controller and its workers exchange calls and results.

`worker` and `submarine_engine.pool` use them. A file consists of frames, and is only appended to.

A frame is a line of JSON, whose ``size`` says how many bytes follow it. Who reads takes whole
frames alone, and begins anew at the last one's end: a writer that was killed in the middle leaves
half of one, which whoever writes next cuts off.

``calls``, by the controller:

    {"kind": "call", "index", "try", "of", "ports"}     arguments, pickled: ``(args, keywords)``;
                                                        `ports` by task where several run it
    {"kind": "withdraw", "index", "try", "running", "moved"}    not to be begun; ended, too, if
                                                        `running`; `moved`: another one will run it
    {"kind": "told", "index", "try", "word"}            what a report is answered with
    {"kind": "stay"}                                    there is somebody, though there is no call
    {"kind": "end"}                                     when all that was given is done

``returns``, by the worker:

    {"kind": "ready", "pid", "host", "ports"}           definitions and values are loaded
    {"kind": "offer", "ports"}                          of one of several tasks, for the next call
    {"kind": "began", "index", "try", "stdout", "stderr"}
    {"kind": "report", "index", "try"}                  JSON
    {"kind": "ended", "index", "try", "outcome", "seconds", "stdout", "stderr", …}

The outcome is ``value`` (pickled), ``text`` (it cannot be pickled: what it looks like), ``error``
(the exception, pickled, where it can be), ``withdrawn``, ``moved``, ``died``, or the word that the
call was ended by (`Ended`).

Where a task's folder is not the job's own, `calls` is brought to a copy in parts (`take_in`), and
`returns` comes home as logs do.
"""

from __future__ import annotations

import os

from submarine_runtime import lean

TYPE_CHECKING = False  # as type checkers have it; the module takes long to import
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

CALLS = "calls"
RETURNS = "returns"
TAKEN = "calls-taken"
"""What a task elsewhere tells of its copy of `CALLS`: how many bytes it has."""
PART = 1 << 19
"""Bytes of `CALLS` that are brought at once to a task elsewhere."""
LARGEST = 1 << 40
"""Bytes of a payload: for more nobody waits."""
LONGEST_HEAD = 1 << 20
"""Bytes of a frame's first line: an error is told there with its chain."""

_PIECE = 1 << 20


class SpoiltError(ValueError):
    """The file holds something else than frames."""


def frame(head: dict[str, Any], payload: bytes = b"") -> bytes:
    """Return the bytes of a frame.

    Parameters
    ----------
    head
        What its first line says as JSON; ``size`` is added to it.
    payload
        What follows that line; empty for nothing.
    """
    return f"{lean.dumps({**head, 'size': len(payload)})}\n".encode() + payload


def append(descriptor: int, data: bytes) -> None:
    """Write all of a frame, whatever a single write takes; where there is no room, nothing of it.

    Parameters
    ----------
    descriptor
        Of the file, open to append to, or of a pipe.
    data
        All of the frame's bytes, as of `frame` or `sealed`.

    Raises
    ------
    OSError
        The disk is full.
    """
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(descriptor, view) :]
    except BaseException:
        _take_back(descriptor, len(data) - len(view))
        raise


def _take_back(descriptor: int, written: int) -> None:
    """Cut off what a write has begun: the next frame would be taken for the rest of it."""
    with lean.suppress(OSError):  # a pipe
        end = os.lseek(descriptor, 0, os.SEEK_CUR)
        if written and os.fstat(descriptor).st_size == end:
            os.truncate(descriptor, end - written)


class Reader:
    """Reads whole frames of a file that grows.

    Parameters
    ----------
    path
        The file; it need not be there yet.
    key
        Each frame has to have a mark of it (`sealed`); empty where none has.

    Attributes
    ----------
    offset
        The end of the last frame that was read.
    """

    def __init__(self, path: str, offset: int = 0, key: bytes = b"") -> None:
        self._path = path
        self._key = key
        self._descriptor: int | None = None
        self.offset = offset

    def read(self) -> Iterator[tuple[dict[str, Any], bytes]]:
        """Yield what is whole by now, head and payload.

        Raises
        ------
        SpoiltError
            It is none of a writer of ours.
        OSError
            It cannot be read.
        """
        if self._descriptor is None:
            try:
                # Not waited for where it is a pipe, and not followed: the task's code could put
                # anything there.
                flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
                self._descriptor = os.open(self._path, flags)
            except FileNotFoundError:
                return
        size = os.fstat(self._descriptor).st_size
        while self.offset < size:
            taken = take(self._descriptor, self.offset, size, self._key)
            if taken is None:
                return
            head, payload, self.offset = taken
            yield head, payload

    def close(self) -> None:
        """Close the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def take(
    descriptor: int, offset: int, size: int, key: bytes = b""
) -> tuple[dict[str, Any], bytes, int] | None:
    """Read the frame that begins at `offset`; None where it is not whole in `size` bytes yet.

    Parameters
    ----------
    descriptor
        Of the file, open to be read.
    key
        What the frame has to be marked with (`sealed`); empty where none has a mark.

    Returns
    -------
    head, payload, end
        The last one is where the next frame begins.

    Raises
    ------
    SpoiltError
        It is no frame, or its mark is of no such `key`.
    """
    first = os.pread(descriptor, 4096, offset)
    while b"\n" not in first:
        if len(first) > LONGEST_HEAD:
            raise SpoiltError(f"no frame begins at byte {offset}")
        more = os.pread(descriptor, len(first), offset + len(first))
        if not more:
            return None
        first += more
    line = first[: first.index(b"\n")]
    head = parsed(line)
    begin = offset + len(line) + 1
    end = begin + head["size"]
    if end > size:
        return None
    payload = first[len(line) + 1 :][: head["size"]]
    while len(payload) < head["size"]:
        more = os.pread(descriptor, min(head["size"] - len(payload), 1 << 30), begin + len(payload))
        if not more:
            return None
        payload += more
    if key and not _is_genuine(line, payload, key):
        raise SpoiltError(f"somebody else has written the frame at byte {offset}")
    return head, payload, end


# Results come home from pages that anybody could pretend to be, and a call's are loaded as they
# come: so each frame is marked by its container's key, where it has one.

_MARK = b', "mark": "'


def sealed(data: bytes, key: bytes) -> bytes:
    """Return the frame `data` with a mark, which proves that who has `key` has written it."""
    line, _, payload = data.partition(b"\n")
    return b'%b%b%b"}\n%b' % (line[:-1], _MARK, _mark(line, payload, key), payload)


def _is_genuine(line: bytes, payload: bytes, key: bytes) -> bool:
    told, _, given = line.rpartition(_MARK)
    return given == _mark(told + b"}", payload, key) + b'"}'


def _mark(line: bytes, payload: bytes, key: bytes) -> bytes:
    from submarine_runtime.sealing import mark  # noqa: PLC0415 - few tasks have a key

    return mark(RETURNS, (line, b"\n", payload), key).encode()


def parsed(line: bytes) -> dict[str, Any]:
    """Return the head of the frame whose first line is `line`.

    Raises
    ------
    SpoiltError
        It is none.
    """
    try:
        head = lean.loads(line.decode())
    except (ValueError, RecursionError) as error:
        raise SpoiltError(f"no frame: {error}") from None
    size = head.get("size") if isinstance(head, dict) else None
    if type(size) is not int or not 0 <= size <= LARGEST or not isinstance(head.get("kind"), str):
        raise SpoiltError("no frame")
    return head  # type: ignore[no-any-return] # a dict, as was looked at


def whole(descriptor: int, offset: int, size: int) -> int:
    """Return where the last frame ends that is whole in `size` bytes; one begins at `offset`.

    Parameters
    ----------
    descriptor
        Of the file, open to be read.

    Raises
    ------
    SpoiltError
        What is there is no frame.
    """
    while offset < size:
        first = os.pread(descriptor, min(4096, size - offset), offset)
        while b"\n" not in first:
            if len(first) > LONGEST_HEAD:
                raise SpoiltError(f"no frame begins at byte {offset}")
            at = offset + len(first)
            more = os.pread(descriptor, min(_PIECE, size - at), at)
            if not more:
                return offset
            first += more
        line = first[: first.index(b"\n")]
        end = offset + len(line) + 1 + int(parsed(line)["size"])
        if end > size:
            break
        offset = end
    return offset


# A task elsewhere has a copy of `CALLS`, which is brought in parts.


def part(offset: int, data: bytes) -> bytes:
    """Return the message that brings `data`, bytes of `CALLS` of which the first is at `offset`."""
    return b"%d\n%b" % (offset, data)


def take_in(path: str, message: bytes) -> int:
    """Write what is new in a part into the copy; return how many bytes that has then.

    The same part may come again, and one that begins beyond the copy's end is left.

    Parameters
    ----------
    path
        The copy; it need not be there yet.
    message
        The part, as of `part`.

    Raises
    ------
    OSError
        The copy cannot be written; what came before is.
    ValueError
        It is no part.
    """
    first, _, data = message.partition(b"\n")
    offset = int(first)
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    copy = os.open(path, flags, 0o600)
    try:
        size = os.fstat(copy).st_size
        new = memoryview(data)[size - offset :] if 0 <= offset <= size else memoryview(b"")
        while new:
            written = os.pwrite(copy, new, size)
            new, size = new[written:], size + written
        return size
    finally:
        os.close(copy)


def cut_torn(path: str) -> int:
    """Cut off half a frame at the end of `path`, whose writer was killed; return the size then."""
    reader = Reader(path)
    try:
        for _ in reader.read():
            pass
    finally:
        reader.close()
    if os.path.exists(path):  # noqa: PTH110 - pathlib takes long to import
        os.truncate(path, reader.offset)
    return reader.offset
