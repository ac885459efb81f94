"""Saving the model of a running job by REST; errors come back to the button that asked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from submarine_engine.clusters.saving import absolute, can_save, default_name
from submarine_engine.errors import CommandError
from submarine_engine.history import read_json

from submarine_jupyter import jobs
from submarine_jupyter.handlers import Call
from submarine_jupyter.routes import CardPart, Plugin, Route, Server
from submarine_jupyter.work import Work

if TYPE_CHECKING:
    from submarine_engine.future import Job

_LONGEST_PATH = 2000
_MOST_SECONDS = 24 * 3600.0  # a request that waits holds a thread of its pool
_TEXT, _NUMBER = {"type": "string"}, {"type": "integer"}
_ROUTE = Route(
    "post",
    "/jobs/{job_id}/save",
    "Bring the running job's model to a new folder; relative paths begin at the notebook's",
    body={
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "path": {**_TEXT, "maxLength": _LONGEST_PATH},
            "timeout": {"type": "number", "exclusiveMinimum": 0, "maximum": _MOST_SECONDS},
        },
    },
    reply={
        "type": "object",
        "required": ["path", "by", "source", "files", "size", "words"],
        "properties": {
            **dict.fromkeys(("path", "source", "words"), _TEXT),
            **dict.fromkeys(("files", "size"), _NUMBER),
            "by": {"enum": ["hook", "checkpoint"]},
        },
    },
)


class Save(Call):
    """``POST /submarine/api/jobs/<id>/save``: answers when the model is there."""

    async def respond(self, **names: str) -> None:
        """Save it, in a pool of its own: a function of a job's may take long."""
        asked = self._body()
        cluster = await self.work.call("records", jobs.cluster_of, names["job_id"])
        self.tell(await self.work.call(f"{cluster} saves", saved, names["job_id"], asked))


def saved(job_id: str, asked: dict[str, Any]) -> dict[str, Any]:
    """Save a job's model as a request asks for it; return what `Saved` tells.

    Parameters
    ----------
    job_id
        The job.
    asked
        The request's body: ``path``, and ``timeout`` in seconds; both may be left out.

    Raises
    ------
    CommandError
        The request cannot be understood.
    SubmarineError
        As `Job.save` does.
    """
    path, patience = _read(asked)
    job = jobs.opened(job_id)
    record = read_json(jobs.paths_of(job_id).record) or {}
    path = path or default_name(str(record["spec"]["name"]))
    found = job.save(absolute(path, Path(record["workdir"])), patience=patience)
    return {**found.to_json(), "words": found.words}


def _read(asked: dict[str, Any]) -> tuple[str, float | None]:
    path, patience = asked.get("path", ""), asked.get("timeout")
    fix = 'send {"path": "FOLDER"}, and "timeout" in seconds if need be'
    if asked.keys() - {"path", "timeout"}:
        raise CommandError("the request has unknown fields", where="body", fix=fix)
    if not isinstance(path, str) or len(path) > _LONGEST_PATH or not path.isprintable():
        raise CommandError("the path cannot be used", where="body", fix=fix)
    if patience is None:
        return path.strip(), None
    number = isinstance(patience, (int, float)) and not isinstance(patience, bool)
    if not number or not math.isfinite(patience) or not 0 < patience <= _MOST_SECONDS:
        raise CommandError("the timeout is not a number of seconds", where="body", fix=fix)
    return path.strip(), float(patience)


def _card(job: Job) -> CardPart:
    paths = jobs.paths_of(job.id)
    return lambda status: {"can_save": can_save(paths, status)}


def _handlers(app: Server) -> Sequence[tuple[Any, ...]]:
    _WORK[app] = Work(_MOST_SECONDS)
    return [(_ROUTE.pattern, Save, {"work": _WORK[app], "routes": {"post": _ROUTE}})]


def _stop(app: Server) -> None:
    _WORK.pop(app).stop()


_WORK: dict[Server, Work] = {}
PLUGIN = Plugin(routes=(_ROUTE,), handlers=_handlers, card=_card, stop=_stop)
