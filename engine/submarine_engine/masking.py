"""Secrets of a job in what is shown of it: each reads as its name, wherever it stands.

It stands there verbatim, or as a repr, JSON, HTML or an address writes it; in no other code.

Logs are files that the job's processes write by themselves, so a secret that they print is in
there. Whoever shows a log has to find it, in another process and perhaps months later, and no value
may be kept for that in clear. So ``secrets.json`` in the job's folder has of each the name, the
length, a keyed hash, and four bits for each of its first two to four bytes. These find the places
that are worth a hash, by `bytes.find`. A mask is as long as what it stands for: every byte of a log
keeps its place, for cursors, line numbers and displays.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

FILE = "secrets.json"
SHORTEST = 6
"""Bytes: what is shorter is in too much else."""

_LONGEST = 1024  # longer ones are masked piece by piece
_MOST = 1000
_LARGEST = 1 << 20
_NO_CLASS = 16
_LEAST_HELD = 4
_DIGEST = 16
_PROSE = frozenset({"message", "notes", "text", "warning", "why"})
"""What is written for people in an outcome, and may quote a secret."""


def write_marks(
    folder: Path, values: Iterable[tuple[str, str]], former: Path | None = None
) -> None:
    """Note how to find secrets again; nothing where there is none.

    Parameters
    ----------
    folder
        The job's.
    values
        Names and values. One of several lines is found line by line.
    former
        The folder of a job whose secrets are found again here, too.

    Raises
    ------
    OSError
        The disk is full, or the folder is gone.
    """
    given = [(name, line) for name, value in values for line in _lines(value)]
    pieces = {piece: name for name, line in given for piece in _pieces(line)}
    for name, line in given:
        for form in _forms(line.decode("utf-8", "surrogateescape")):
            for piece in _pieces(form.encode("utf-8", "surrogateescape")):
                pieces.setdefault(piece, name)
    from submarine_engine.history import write_json  # noqa: PLC0415 - readers need none

    before = _read(former) if former else None
    told = before[0] if before else {}
    if not pieces and not told:
        return
    key = bytes.fromhex(told["key"]) if told else os.urandom(32)
    table = _table(key)
    marks = [
        {
            "name": name,
            "size": len(piece),
            "begin": piece[: min(4, max(2, len(piece) // 8))].translate(table).hex(),
            "digest": _digest(key, piece).hex(),
        }
        for piece, name in list(pieces.items())[:_MOST]
    ]
    known = {mark["digest"] for mark in marks}
    marks += [mark for mark in told.get("secrets", ()) if mark["digest"] not in known]
    write_json(folder / FILE, {"version": 1, "key": key.hex(), "secrets": marks})


def _lines(value: str) -> list[bytes]:
    try:
        return value.encode("utf-8", "surrogateescape").splitlines()
    except UnicodeEncodeError:  # half a character, which no environment has, and a variable may
        return value.encode("utf-8", "surrogatepass").splitlines()


def _forms(line: str) -> Iterator[str]:
    """Yield how a line reads where it is shown within something: a repr, JSON, HTML, an address."""
    from html import escape  # noqa: PLC0415 - few jobs have secrets
    from urllib.parse import quote, quote_plus  # noqa: PLC0415 - likewise

    if len(line) < SHORTEST:
        return
    yield from (repr(line)[1:-1], ascii(line)[1:-1])
    yield from (json.dumps(line)[1:-1], json.dumps(line, ensure_ascii=False)[1:-1])
    yield from (escape(line, quote=False), escape(line))
    yield from (make(line, safe="", errors="surrogateescape") for make in (quote, quote_plus))


def _pieces(line: bytes) -> Iterator[bytes]:
    for start in range(0, len(line), _LONGEST):
        # The last piece is a whole one, too: what is left over may be short.
        piece = line[max(0, min(start, len(line) - _LONGEST)) :][:_LONGEST]
        if len(piece.strip()) >= SHORTEST:
            yield piece


@lru_cache(maxsize=512)
def masker_of(folder: Path) -> Masker | None:
    """Return what masks the secrets of a job; None where it has none.

    Parameters
    ----------
    folder
        The job's. What it says of secrets was written before the job was on record.

    Raises
    ------
    OSError
        The machine cannot open it now: nothing is shown unmasked for that.
    """
    found = _read(folder)
    return found[1] if found else None


def _read(folder: Path) -> tuple[dict[str, Any], Masker] | None:
    """Return what a job says of its secrets, and what masks them."""
    try:
        # The job's own code can write there: a pipe is not waited for.
        descriptor = os.open(folder / FILE, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor, not a path
            told = json.loads(file.read(_LARGEST))
            return told, Masker(told, folder)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, PermissionError):
        return None
    except (ValueError, KeyError, TypeError, RecursionError):  # somebody has spoilt it
        return None


class _Mark(NamedTuple):
    size: int
    begin: bytes
    digest: bytes
    label: bytes


class Masker:
    """Masks the secrets of one job.

    Parameters
    ----------
    told
        The content of its ``secrets.json``.
    folder
        The job's.
    """

    def __init__(self, told: dict[str, Any], folder: Path | None = None) -> None:
        self._folder = folder
        self._key = bytes.fromhex(told["key"])
        self._table = _table(self._key)
        marks = [_mark(**mark) for mark in told["secrets"][:_MOST]]
        self._marks = sorted(marks, key=lambda mark: -mark.size)  # one may be part of another
        self.reach = max(mark.size for mark in marks) - 1
        """How many bytes before and after a piece may belong to a secret in it."""

    def data(self, data: bytes) -> bytes:
        """Return `data` with the secrets in it masked; as many bytes."""
        folded = data.translate(self._table)
        covered: bytearray | None = None
        shown = bytearray()
        for mark in self._marks:
            at = folded.find(mark.begin)
            while at >= 0:
                end = at + mark.size
                if end <= len(data) and _digest(self._key, data[at:end]) == mark.digest:
                    if covered is None:
                        covered, shown = bytearray(len(data)), bytearray(data)
                    for place in range(at, end):
                        if not covered[place]:
                            shown[place] = mark.label[place - at]
                    covered[at:end] = b"\1" * mark.size
                at = folded.find(mark.begin, at + 1)
        return data if covered is None else bytes(shown)

    def text(self, text: str) -> str:
        """Return a text with the secrets in it masked."""
        data = text.encode("utf-8", "surrogatepass")
        masked = self.data(data)
        if masked is data:
            return text
        try:
            return masked.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:  # a piece of a long one ends within a character
            return masked.decode("utf-8", "replace")

    def within(self, value: Any) -> Any:  # noqa: ANN401 - what JSON can hold
        """Return `value`, whatever JSON can hold, with the secrets in its texts masked."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.text(key): self.within(item) for key, item in value.items()}
        return [self.within(item) for item in value] if isinstance(value, list) else value

    def outcome(self, value: Any) -> Any:  # noqa: ANN401 - as above
        """Return `value`, what a task tells of its end, with the secrets in its prose masked.

        Its names, kinds and files stay: a weak secret may well be called as a variable is.
        """
        if isinstance(value, dict):
            return {
                key: self.within(item) if key in _PROSE and _is_prose(item) else self.outcome(item)
                for key, item in value.items()
            }
        return [self.outcome(item) for item in value] if isinstance(value, list) else value

    def unfinished(self, data: bytes) -> int:
        """Return where at the end of `data` what may become a secret begins; its length if nowhere.

        Less than four bytes of one are not enough to hold a line back for.
        """
        line = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        first = max(line, len(data) - self.reach)
        folded = data[first:].translate(self._table)
        for at in range(len(folded) - _LEAST_HELD + 1):
            rest = folded[at:]
            for mark in self._marks:
                known = min(len(rest), len(mark.begin))
                if len(rest) < mark.size and rest[:known] == mark.begin[:known]:
                    return first + at
        return len(data)

    def covered(self, data: bytes) -> bytes:
        """Return `data`, the end of a log, with asterisks for what may become a secret.

        Where the job is over nothing becomes one any more.
        """
        at = self.unfinished(data)
        if at == len(data) or self._is_over():
            return data
        return data[:at].ljust(len(data), b"*")

    def _is_over(self) -> bool:
        from submarine_engine.history import read_json  # noqa: PLC0415 - seldom
        from submarine_engine.job import JobState  # noqa: PLC0415 - likewise

        try:
            told = read_json(self._folder / "status.json") if self._folder else None
            return bool(told) and JobState(told["state"]).final  # type: ignore[index]
        except (OSError, ValueError, KeyError, TypeError):
            return False

    def read(
        self,
        read: Callable[[int, int], bytes],
        begin: int,
        end: int,
        *,
        hold: bool = False,
        cover: bool = False,
    ) -> bytes:
        """Return bytes of a log, masked as though all of it had been.

        Parameters
        ----------
        read
            Gives so many bytes, from an offset on: ``read(size, offset)``.
        begin, end
            Which bytes of the log: from one offset up to the other; fewer where it is shorter.
        hold
            Whether the log is still written: then what may become a secret is left out at its end.
        cover
            Whether it reads as asterisks there while the job runs, so that all bytes are there.
        """
        first = max(0, begin - self.reach)
        wanted = end + self.reach - first
        data = read(wanted, first)
        masked = self.data(data)
        if hold and len(data) < wanted:
            end = min(end, first + self.unfinished(masked))
        if cover and len(data) < wanted:
            masked = self.covered(masked)
        return masked[begin - first : max(begin, end) - first]


class Masks:
    """Masks the secrets of several jobs in what is shown of any.

    Parameters
    ----------
    folders
        The jobs'.

    Raises
    ------
    OSError
        The machine cannot open one's secrets now.
    """

    def __init__(self, folders: Iterable[Path]) -> None:
        self._maskers = [masker for folder in folders if (masker := masker_of(folder))]

    def text(self, text: str) -> str:
        """Return a text with the secrets in it masked."""
        for masker in self._maskers:
            text = masker.text(text)
        return text

    def data(self, data: bytes) -> bytes:
        """Return `data` with the secrets in it masked; as many bytes."""
        for masker in self._maskers:
            data = masker.data(data)
        return data


def _is_prose(value: object) -> bool:
    return isinstance(value, str) or (
        isinstance(value, list) and all(isinstance(one, str) for one in value)
    )


def masked_pread(masker: Masker | None, log: int, size: int, offset: int) -> bytes:
    """Read as `os.pread` does, with secrets masked, and what may become one at the log's end.

    Parameters
    ----------
    masker
        Of the job; None where it has no secrets.
    log
        The log's descriptor.
    size
        In bytes, at most.
    offset
        In bytes.
    """
    if masker is None:
        return os.pread(log, size, offset)
    return masker.read(
        lambda count, at: os.pread(log, count, at), offset, offset + size, cover=True
    )


def _mark(name: str, size: int, begin: str, digest: str) -> _Mark:
    if not SHORTEST <= size <= _LONGEST or not begin:
        raise ValueError(size)
    return _Mark(size, bytes.fromhex(begin), bytes.fromhex(digest), _label(name, size))


def _table(key: bytes) -> bytes:
    """Return what puts bytes into 16 classes, by the job's key; no secret has a line's end."""
    from hashlib import shake_256  # noqa: PLC0415 - few jobs have secrets

    classes = bytearray(byte % _NO_CLASS for byte in shake_256(key).digest(256))
    for end in b"\r\n":
        classes[end] = _NO_CLASS
    return bytes(classes)


def _digest(key: bytes, piece: bytes) -> bytes:
    from hashlib import blake2b  # noqa: PLC0415 - as above

    return blake2b(piece, key=key, digest_size=_DIGEST).digest()


def _label(name: str, size: int) -> bytes:
    label = f"<secret {name}>".encode("ascii", "replace")
    if len(label) > size:
        label = b"<secret>" if size >= len(b"<secret>") else b""
    return label.ljust(size, b"*")
