"""Every route once: what it does, what it takes, and the OpenAPI document that says so."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from submarine_engine.errors import CommandError

from submarine_jupyter import jobs

BASE = "/submarine/api"
MOST_BYTES = 1 << 20
"""Bytes of a log or script in one answer."""
MOST_JOBS = 1000

_PATTERNS = {
    "job_id": r"[^/]{1,64}",  # whether it is a job id is the engine's to say
    "task": r"[a-z]{1,16}-[0-9]{1,6}",
    "stream": "stdout|stderr",
}
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
        Called with path parameters and numbers by name, in a thread; None for the stream and the
        document, which have handlers of their own.
    """

    method: str
    path: str
    summary: str
    answer: Callable[..., Answer] | None = None
    numbers: Mapping[str, Number] | None = None
    kind: str = "application/json"

    @property
    def pattern(self) -> str:
        """The path as a regular expression with named groups."""
        found = re.sub(r"\{(\w+)\}", lambda m: f"(?P<{m[1]}>{_PATTERNS[m[1]]})", self.path)
        return f"{BASE}{found}"


def _cluster_gpus(cluster: str) -> dict[str, Any]:
    return jobs.gpus(cluster)


def _cancel(job_id: str) -> dict[str, Any]:
    return jobs.ended(job_id, kill=False)


def _kill(job_id: str) -> dict[str, Any]:
    return jobs.ended(job_id, kill=True)


_PATTERNS["cluster"] = r"[A-Za-z0-9_.-]{1,64}"
_TEXT = "text/plain"
ROUTES = (
    Route("get", "/openapi.json", "This document"),
    Route("get", "/clusters", "The clusters there are", jobs.clusters),
    Route("get", "/clusters/{cluster}/gpus", "GPUs, holders, and shares of nodes and queues",
          _cluster_gpus),
    Route("get", "/jobs", "The newest jobs", jobs.listed, {"limit": Number(50, 1, MOST_JOBS)}),
    Route("get", "/jobs/{job_id}", "A job: state, tasks, ledger, progress, links", jobs.shown),
    Route("get", "/jobs/{job_id}/manifest", "What is in the job's bundle", jobs.manifest),
    Route("get", "/jobs/{job_id}/script", "Bytes of the script", jobs.script, _PART, _TEXT),
    Route("get", "/jobs/{job_id}/logs/{task}/{stream}", "Bytes of a log; X-Log-Size: all of them",
          jobs.log, _PART, _TEXT),
    Route("get", "/jobs/{job_id}/events", "Events and log bytes (base64) from a cursor on",
          kind="text/event-stream"),
    Route("post", "/jobs/{job_id}/cancel", "Ask the job to end: SIGTERM, grace, SIGKILL", _cancel),
    Route("post", "/jobs/{job_id}/kill", "End the job's processes at once", _kill),
)  # fmt: skip


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


def openapi() -> dict[str, Any]:
    """Return the OpenAPI document."""
    paths: dict[str, Any] = {}
    for route in ROUTES:
        paths.setdefault(BASE + route.path, {})[route.method] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Submarine notebooks", "version": "1"},
        "paths": paths,
        "components": {
            "schemas": {
                "Error": {
                    "type": "object",
                    "required": ["what", "where", "fix"],
                    "properties": {key: {"type": "string"} for key in ("what", "where", "fix")},
                }
            },
            "securitySchemes": {
                "token": {"type": "apiKey", "in": "header", "name": "Authorization"}
            },
        },
        "security": [{"token": []}],
    }


def _operation(route: Route) -> dict[str, Any]:
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True,
         "schema": {"type": "string", "pattern": f"^(?:{_PATTERNS[name]})$"}}
        for name in re.findall(r"\{(\w+)\}", route.path)
    ]  # fmt: skip
    for name, number in (route.numbers or {}).items():
        schema = {"type": "integer", "minimum": number.least, "maximum": number.most}
        parameters.append(
            {"name": name, "in": "query", "schema": {**schema, "default": number.default}}
        )
    if route.kind == "text/event-stream":
        text = {"type": "string"}
        parameters.append({"name": "cursor", "in": "query", "schema": text})
        parameters.append({"name": "Last-Event-ID", "in": "header", "schema": text})
    error = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    return {
        "summary": route.summary,
        "parameters": parameters,
        "responses": {
            "200": {"description": "as said", "content": {route.kind: {}}},
            "default": {"description": "what, where and the fix", "content": error},
        },
    }
