"""Which job a paragraph has begun: on disk, so that none is submitted twice.

``<home>/zeppelin/<note>/<paragraph>-<user>.json``, for its owner alone, holds the job's id and the
hash of the code that began it, with all its options: what asks for something else is another job.
"""

from __future__ import annotations

import hashlib
import re
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from submarine_engine.errors import SubmarineError
from submarine_engine.history import default_home, make_private, read_json, write_json
from submarine_engine.records import open_job

_PLAIN = re.compile(r"[\w-]{1,100}")


class Placed(Protocol):
    """A paragraph, and who runs it."""

    @property
    def id(self) -> str:
        """Its id in the note."""

    @property
    def note_id(self) -> str:
        """The note's id."""

    @property
    def user(self) -> str:
        """Who runs it: nobody follows the job of another."""


def note_job(paragraph: Placed, code: str, job_id: str) -> None:
    """Note that a paragraph has begun a job by that code."""
    path = _path(paragraph)
    with suppress(OSError):
        make_private(path.parent)
        write_json(path, {"version": 1, "job": job_id, "code": _hash(code)})


def begun_job(paragraph: Placed, code: str, *, over: bool = False) -> str | None:
    """Return the job that a paragraph has begun by that code; None where it is over.

    Parameters
    ----------
    over
        Whether one that is over counts as well.
    """
    noted = read_json(_path(paragraph)) or {}
    if noted.get("code") != _hash(code):
        return None
    with suppress(SubmarineError, TypeError):
        job = open_job(str(noted.get("job")))
        if over or not job.done():
            return job.id
    return None


def _path(paragraph: Placed) -> Path:
    name = f"{_name(paragraph.id)}-{_hash(paragraph.user)}.json"
    return default_home() / "zeppelin" / _name(paragraph.note_id) / name


def _name(foreign: str) -> str:
    return foreign if _PLAIN.fullmatch(foreign) else _hash(foreign)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
