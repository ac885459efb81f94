"""Every route once: what it does, what it takes, and the OpenAPI document that says so."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from submarine_engine.errors import CommandError

from submarine_jupyter import jobs

if TYPE_CHECKING:
    from submarine_jupyter.parts import Extra

BASE = "/submarine/api"
MOST_BYTES = 1 << 20
"""Bytes of a log or script in one answer."""
MOST_JOBS = 1000

PATTERNS = {
    "job_id": r"[^/]{1,64}",  # whether it is a job id is the engine's to say
    "task": r"[a-z]{1,16}-[0-9]{1,6}",
    "stream": "stdout|stderr",
    "cluster": r"[A-Za-z0-9_.-]{1,64}",
}
END = r"(?!\n)$"
"""The end of a text in a schema's pattern: many readers take ``$`` for "or before a line break"."""
Answer = dict[str, Any] | bytes | tuple[bytes, int]


@dataclass(frozen=True, slots=True)
class Number:
    """A number in the query: its default and its bounds."""

    default: int
    least: int
    most: int


_PART = {"offset": Number(0, 0, 1 << 62), "limit": Number(MOST_BYTES, 1, MOST_BYTES)}


@dataclass(frozen=True, slots=True)
class Route:
    """One route of the API.

    Parameters
    ----------
    path
        Below `BASE`, with ``{names}``.
    answer
        Called with path parameters and numbers by name, in a thread, and with ``body`` where there
        is one; None for what has a handler of its own.
    numbers, texts
        What the query may hold; of texts the schema.
    body
        Schema of the JSON object that is sent along; the function checks its fields.
    reply
        Schema of the answer.
    """

    method: str
    path: str
    summary: str
    answer: Callable[..., Answer] | None = None
    numbers: Mapping[str, Number] | None = None
    kind: str = "application/json"
    texts: Mapping[str, Mapping[str, Any]] | None = None
    body: Mapping[str, Any] | None = None
    reply: Mapping[str, Any] | None = None

    @property
    def pattern(self) -> str:
        """The path as a regular expression with named groups."""
        found = re.sub(r"\{(\w+)\}", lambda m: f"(?P<{m[1]}>{PATTERNS[m[1]]})", self.path)
        return f"{BASE}{found}"


def _ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def _first_job() -> dict[str, Any]:
    """Return the notebook that *Run your first job* opens."""
    text = files(__package__).joinpath("first-job.ipynb").read_text("utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def _cancel(job_id: str) -> dict[str, Any]:
    return jobs.ended(job_id, kill=False)


def _kill(job_id: str) -> dict[str, Any]:
    return jobs.ended(job_id, kill=True)


_TEXT = "text/plain"
_STREAM = "text/event-stream"
_LOG = "/jobs/{job_id}/logs/{task}/{stream}"
_OUTPUT = "/jobs/{job_id}/output/{task}"
_LINES = {"start": Number(0, 0, 1 << 62), "count": Number(200, 1, 2000)}
_FOUND = {"start": Number(0, 0, 1 << 62), "count": Number(1000, 1, 10_000)}
_STRING = {"type": "string"}
_ONE_LINE = {"type": "string", "minLength": 1, "maxLength": 1000, "pattern": rf"^[^\n]+{END}"}
ROUTES = (
    Route("get", "/openapi.json", "This document"),
    Route("get", "/overview", "Clusters with their GPUs, and the newest jobs",
          reply=_ref("Overview")),
    Route("get", "/first-job", "The notebook that begins with a first job", _first_job),
    Route("get", "/stream", "Cards of jobs (?jobs=ID,ID) and the overview, whenever they change",
          kind=_STREAM, texts={"jobs": _STRING, "overview": {"enum": ["0", "1"]}}),
    Route("get", "/clusters", "The clusters there are", jobs.clusters),
    Route("get", "/clusters/{cluster}/gpus", "GPUs, holders, and shares of nodes and queues",
          jobs.gpus),
    Route("get", "/clusters/{cluster}/queues", "What each queue has of the GPUs", jobs.queues),
    Route("get", "/jobs", "The newest jobs", jobs.listed, {"limit": Number(50, 1, MOST_JOBS)}),
    Route("get", "/jobs/{job_id}", "A job: state, tasks, ledger, progress, links", jobs.shown),
    Route("get", "/jobs/{job_id}/card", "What the job card shows", reply=_ref("Card")),
    Route("get", "/jobs/{job_id}/manifest", "What is in the job's bundle", jobs.manifest),
    Route("get", "/jobs/{job_id}/script", "Bytes of the script", jobs.script, _PART, _TEXT),
    Route("get", _LOG, "Bytes of a log; X-Log-Size: all of them", jobs.log, _PART, _TEXT),
    Route("get", f"{_LOG}/lines", "Lines by number; without start the last ones",
          numbers=_LINES, reply=_ref("Lines")),
    Route("get", f"{_LOG}/search", "Numbers of the lines that hold a text; next: go on from there",
          numbers=_FOUND, texts={"text": _ONE_LINE},
          reply=_ref("Found")),
    Route("get", f"{_LOG}/file", "The whole log as a file", kind=_TEXT),
    Route("get", f"{_OUTPUT}/lines", "Lines of both logs in their order, as those of one log",
          numbers=_LINES, reply=_ref("OutputLines")),
    Route("get", f"{_OUTPUT}/search", "Numbers of the lines of both logs that hold a text",
          numbers=_FOUND, texts={"text": _ONE_LINE}, reply=_ref("Found")),
    Route("get", f"{_OUTPUT}/file", "Both logs in their order, as a file", kind=_TEXT),
    Route("get", f"{_OUTPUT}/displays", "What the task shows now, and behind which line",
          reply=_ref("Shown")),
    Route("get", f"{_OUTPUT}/display", "The MIME bundle of one thing that is shown",
          numbers={"offset": Number(0, 0, 1 << 62)}, reply=_ref("Display")),
    Route("get", "/jobs/{job_id}/events", "Events and log bytes (base64) from a cursor on",
          kind=_STREAM, texts={"cursor": _STRING}),
    Route("post", "/jobs/{job_id}/cancel", "Ask the job to end: SIGTERM, grace, SIGKILL", _cancel),
    Route("post", "/jobs/{job_id}/kill", "End the job's processes at once", _kill),
)  # fmt: skip


def all_routes(extras: tuple[Extra, ...]) -> tuple[Route, ...]:
    """Return our routes and those that other modules add."""
    return (*ROUTES, *(route for extra in extras for route in extra.routes))


def read_numbers(wanted: Mapping[str, Number], query: Mapping[str, str]) -> dict[str, int]:
    """Return the numbers of a query.

    Raises
    ------
    CommandError
        One is no number, or out of its bounds.
    """
    found = {}
    for name, number in wanted.items():
        text = query.get(name, str(number.default))
        value = int(text) if re.fullmatch(r"[0-9]{1,19}", text, re.ASCII) else -1
        if not number.least <= value <= number.most:
            raise CommandError(
                f"{name} is not a number from {number.least} to {number.most}",
                where=f"?{name}=",
                fix=f"leave it out for {number.default}",
            )
        found[name] = value
    return found
