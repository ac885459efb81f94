"""A pool's record: which call was given to whom, and what came of it. The truth on each call.

``calls.jsonl`` has a line for each step, only appended to by the one controller that holds the
pool's lock:

    {"kind": "call", "index", "label", "batch", "at", "size", "sum"}    its arguments, in
                                                                ``arguments``
    {"kind": "worker", "job"}                                   a worker was asked for
    {"kind": "given", "index", "try", "worker"}                 before the worker is told
    {"kind": "began", "index", "try", "worker"}
    {"kind": "tried", "index", "try", "outcome", …}             it will be tried again
    {"kind": "ended", "index", "try", "outcome", "at", "size", "sum", …}    for good; its payload
                                                                is in ``values``
    {"kind": "over", "why", "job"}                              there will be no more

What is larger lies in the two files beside it, written before the line that says where; ``sum`` is
its CRC-32: of a file that was cut off, later bytes may stand where earlier ones were.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from submarine_runtime.call_frames import append

from submarine_engine.errors import ResultError
from submarine_engine.pool.calls import Call, End

if TYPE_CHECKING:
    from pathlib import Path

    from submarine_engine.pool.folder import PoolFolder

_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
"""Read where a controller takes over; else only added to, so that what is there stays."""


@dataclass
class Noted:
    """A call on record that has not ended.

    Parameters
    ----------
    tries
        How often it was given.
    failures
        How often it failed by itself.
    losses
        How often its worker was lost while it ran.
    given
        The worker that has it now; empty where none has.
    began
        Whether that one has begun it.
    cut
        Whether its arguments are gone, or others by now.
    """

    call: Call
    tries: int = 0
    failures: int = 0
    losses: int = 0
    given: str = ""
    began: bool = False
    cut: bool = False

    def take_back(self) -> None:
        """Note that no worker has it any more."""
        self.given, self.began = "", False


@dataclass
class Record:
    """What a journal holds.

    Parameters
    ----------
    open
        The calls that have not ended, by index.
    ended
        The lines that say what became of the others, in the order of their ends.
    calls
        All of them.
    workers
        The jobs that were asked for.
    over
        Why there will be no more; None where there may be.
    over_by
        The job that said so.
    """

    open: dict[int, Noted] = field(default_factory=dict)
    ended: dict[int, dict[str, Any]] = field(default_factory=dict)
    calls: dict[int, Call] = field(default_factory=dict)
    workers: list[str] = field(default_factory=list)
    over: str | None = None
    over_by: str | None = None


class Journal:
    """Writes a pool's record. The caller holds the pool's lock.

    Parameters
    ----------
    folder
        The pool's.

    Raises
    ------
    OSError
        It cannot be written.
    ResultError
        It is damaged.
    """

    def __init__(self, folder: PoolFolder) -> None:
        self._folder = folder
        self._lines = os.open(folder.calls, _FLAGS, 0o600)
        _cut_torn_line(self._lines)
        self._arguments = os.open(folder.arguments, _FLAGS, 0o600)
        self._values = os.open(folder.values, _FLAGS, 0o600)
        try:
            self.record = _read(self._lines, self._arguments)
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            raise _damaged(folder, error) from error

    def call(self, call: Call) -> Noted:
        """Note a call that a source gave."""
        at = _append(self._arguments, call.arguments)
        told = {"index": call.index, "label": call.label, "batch": call.batch}
        sizes = {"size": len(call.arguments), "sum": zlib.crc32(call.arguments)}
        self._line("call", **told, at=at, **sizes)
        noted = self.record.open[call.index] = Noted(call)
        return noted

    def worker(self, job_id: str) -> None:
        """Note that a worker was asked for: the job `job_id`."""
        self._line("worker", job=job_id)

    def given(self, *noted: Noted, worker: str) -> None:
        """Note that `worker`, a job's id, will be told of the calls `noted`: a try more of each."""
        lines = []
        for one in noted:
            one.tries += 1
            one.given, one.began = worker, False
            told = {"index": one.call.index, "try": one.tries, "worker": worker}
            lines.append(_as_line("given", told))
        _append(self._lines, b"".join(lines))

    def began(self, noted: Noted, host: str) -> None:
        """Note that the call `noted` has begun on its worker, which says that it runs on `host`."""
        noted.began = True
        told = {"index": noted.call.index, "try": noted.tries, "worker": noted.given, "host": host}
        _append(self._lines, _as_line("began", told))

    def tried(self, noted: Noted, end: End) -> None:
        """Note that a try of `noted` came to nothing, as `end` says, and there will be another."""
        _tried(noted, end.outcome)
        told = {"index": noted.call.index, "try": noted.tries, "outcome": end.outcome}
        _append(self._lines, _as_line("tried", {**told, **_end_fields(end)}))

    def end(self, line: dict[str, Any]) -> End:
        """Return what became of a call by its line ``ended``, with its payload."""
        return _end_with_payload(self._folder, line)

    def ended(self, noted: Noted, end: End) -> None:
        """Note by `end` what became of the call `noted`, for good.

        Raises
        ------
        ValueError
            That is on record already.
        """
        index = noted.call.index
        if index not in self.record.open:
            raise ValueError(f"call {index} has ended already")
        at = _append(self._values, end.payload)
        told = {"index": index, "try": noted.tries, "outcome": end.outcome, **_end_fields(end)}
        sizes = {"at": at, "size": len(end.payload), "sum": zlib.crc32(end.payload)}
        _append(self._lines, _as_line("ended", {**told, **sizes}))
        del self.record.open[index]

    def over(self, why: str = "", *, job: str | None = None) -> None:
        """Note that there will be no more calls.

        Parameters
        ----------
        why
            In words, where that is no good end; empty where it is one.
        job
            The job that gives the pool up: run again as another one it may go on; None where it has
            ended well.
        """
        self._line("over", why=why, job=job)

    def close(self) -> None:
        """Close the files."""
        for descriptor in (self._lines, self._arguments, self._values):
            os.close(descriptor)

    def _line(self, kind: str, **told: Any) -> None:  # noqa: ANN401 - what JSON can hold
        _append(self._lines, _as_line(kind, told))


class Follower:
    """Reads a pool's record as it grows, from any process.

    Parameters
    ----------
    folder
        The pool's.
    """

    def __init__(self, folder: PoolFolder) -> None:
        self._folder = folder
        self._offset = 0

    def read(self) -> list[dict[str, Any]]:
        """Return the lines that are new since the last look.

        Raises
        ------
        ResultError
            The record is damaged.
        """
        try:
            with self._folder.calls.open("rb") as file:
                file.seek(self._offset)
                data = file.read()
        except FileNotFoundError:
            return []
        whole = data[: data.rfind(b"\n") + 1]
        try:
            lines = [_checked(json.loads(line)) for line in whole.splitlines()]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise _damaged(self._folder, error) from error
        self._offset += len(whole)
        return lines

    def end(self, line: dict[str, Any]) -> End:
        """Return what became of a call by its line ``ended``, with its payload."""
        return _end_with_payload(self._folder, line)


def _end_with_payload(folder: PoolFolder, line: dict[str, Any]) -> End:
    try:
        return end_of(line, piece(folder.values, line["at"], line["size"], line.get("sum")))
    except OSError as error:  # cut off: no other call's business
        told = {"reason": f"what it returned is gone: {error}"}
        return replace(end_of(line, b""), outcome="lost", told=told)


def _damaged(folder: PoolFolder, error: Exception) -> ResultError:
    why = f"{error}" if isinstance(error, ValueError) else f"a line of it is invalid: {error!r:.60}"
    return ResultError(
        f"the record of the calls is damaged: {why}",
        where=str(folder.calls),
        fix="restore that file, or run the calls again",
    )


_FIELDS: dict[str, dict[str, type | tuple[type, ...]]] = {
    "call": {"index": int, "label": str, "batch": int, "at": int, "size": int},
    "worker": {"job": str},
    "given": {"index": int, "try": int, "worker": str},
    "began": {"index": int, "try": int, "worker": str},
    "tried": {"index": int, "try": int, "outcome": str},
    "ended": {"index": int, "try": int, "outcome": str, "seconds": (int, float), "told": dict,
              "worker": str, "host": str, "at": int, "size": int},
    "over": {"why": str},
}  # fmt: skip
"""What is read of each kind of line."""


def _checked(line: Any) -> dict[str, Any]:  # noqa: ANN401 - of a file
    """Return a line that has what is read of it.

    Raises
    ------
    ValueError, KeyError, TypeError
        It has not.
    """
    for name, kind in _FIELDS[line["kind"]].items():
        if not isinstance(line[name], kind) or (kind is int and line[name] < 0):
            raise ValueError(f"{line['kind']} {line.get('index', '')}: {name} is invalid")
    return line  # type: ignore[no-any-return] # a dict, as was looked at


def end_of(line: dict[str, Any], payload: bytes) -> End:
    """Return what a line tells of how a try went, with `payload`: its value or error, pickled."""
    return End(
        outcome=line["outcome"],
        payload=payload,
        seconds=line["seconds"],
        told=line["told"],
        worker=line["worker"],
        host=line["host"],
        attempts=line["try"],
    )


def piece(path: Path, at: int, size: int, total: int | None = None) -> bytes:
    """Return some bytes of a file, whose CRC-32 is `total` where that is known.

    Parameters
    ----------
    path
        The file.
    at
        Where the bytes begin.
    size
        How many.
    total
        Their CRC-32; None where it is not known.

    Raises
    ------
    OSError
        They are not there.
    """
    with path.open("rb") as file:
        file.seek(at)
        data = file.read(size)
    if len(data) < size:
        raise OSError(f"{path} ends before byte {at + size}")
    if total is not None and zlib.crc32(data) != total:
        raise OSError(f"{path} has other bytes there")
    return data


def _end_fields(end: End) -> dict[str, Any]:
    return {
        "seconds": end.seconds,
        "worker": end.worker,
        "host": end.host,
        "told": dict(end.told),
    }


def _tried(noted: Noted, outcome: str) -> None:
    noted.take_back()
    if outcome == "lost":
        noted.losses += 1
    elif outcome not in ("withdrawn", "moved"):
        noted.failures += 1


def _as_line(kind: str, told: dict[str, Any]) -> bytes:
    return json.dumps({"kind": kind, **told}, ensure_ascii=True).encode() + b"\n"


def _append(descriptor: int, data: bytes) -> int:
    """Write all of `data` to a file's end; return where it begins."""
    at = os.lseek(descriptor, 0, os.SEEK_END)
    append(descriptor, data)
    return at


def _cut_torn_line(descriptor: int) -> None:
    size = os.fstat(descriptor).st_size
    at = size
    while at > 0:
        begin = max(0, at - 65536)
        found = os.pread(descriptor, at - begin, begin).rfind(b"\n")
        if found >= 0:
            at = begin + found + 1
            break
        at = begin
    if at < size:
        os.truncate(descriptor, at)


def _lines(descriptor: int) -> Iterator[dict[str, Any]]:
    with open(descriptor, "rb", closefd=False) as file:
        file.seek(0)
        for line in file:
            yield _checked(json.loads(line))


def _read(lines: int, arguments: int) -> Record:
    record = Record()
    for line in _lines(lines):
        kind = line["kind"]
        if kind == "worker":
            record.workers.append(line["job"])
            continue
        if kind == "over":
            record.over, record.over_by = line["why"], line.get("job")
            continue
        index = line["index"]
        if kind == "call":
            data = os.pread(arguments, line["size"], line["at"])
            call = record.calls[index] = Call(index, data, line["label"], line["batch"])
            cut = len(data) < line["size"] or line.get("sum") not in (None, zlib.crc32(data))
            record.open[index] = Noted(call, cut=cut)
            continue
        noted = record.open[index]
        if kind == "given":
            noted.tries, noted.given, noted.began = line["try"], line["worker"], False
        elif kind == "began":
            noted.began = True
        elif kind == "tried":
            _tried(noted, line["outcome"])
        elif kind == "ended":
            record.ended[index] = line
            del record.open[index]
    return record
