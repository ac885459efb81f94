"""Which job a paragraph has begun: on disk, so that none is submitted twice.

``<home>/zeppelin/<note>/<paragraph>.json``, for its owner alone, holds the job's id and the hash of
the text that began it.
"""

from __future__ import annotations

import hashlib
import re
from contextlib import suppress
from pathlib import Path

from submarine_engine.errors import SubmarineError
from submarine_engine.history import default_home, make_private, read_json, write_json
from submarine_engine.records import open_job

_PLAIN = re.compile(r"[\w-]{1,100}")


def note_job(note_id: str, paragraph_id: str, text: str, job_id: str) -> None:
    """Note that a paragraph has begun a job."""
    path = _path(note_id, paragraph_id)
    with suppress(OSError):
        make_private(path.parent)
        write_json(path, {"version": 1, "job": job_id, "text": _hash(text)})


def begun_job(note_id: str, paragraph_id: str, text: str, *, over: bool = False) -> str | None:
    """Return the job that a paragraph has begun with that text; None where it is over.

    Parameters
    ----------
    over
        Whether one that is over counts as well.
    """
    noted = read_json(_path(note_id, paragraph_id)) or {}
    if noted.get("text") != _hash(text):
        return None
    with suppress(SubmarineError, TypeError):
        job = open_job(str(noted.get("job")))
        if over or not job.done():
            return job.id
    return None


def _path(note_id: str, paragraph_id: str) -> Path:
    return default_home() / "zeppelin" / _name(note_id) / f"{_name(paragraph_id)}.json"


def _name(foreign: str) -> str:
    return foreign if _PLAIN.fullmatch(foreign) else _hash(foreign)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
