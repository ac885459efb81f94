"""Every route once: what it does, takes and answers, and the OpenAPI document of it.

A `Plugin` is what another module adds: routes, handlers, and fields of a job's card.
"""

from __future__ import annotations

import json
import re
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from http import HTTPStatus
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Protocol, Union, get_args, get_origin, get_type_hints

from submarine_engine.errors import ClusterError, CommandError, ConfigError, SubmarineError

from submarine_jupyter import jobs
from submarine_jupyter.work import Watchers, Work

if TYPE_CHECKING:
    from submarine_engine.future import Job
    from submarine_engine.lifecycle import JobStatus


# What other modules add to the server: routes, handlers, and parts of a job's card.
#
# Such a module names its `Plugin` in `extension.PLUGINS`; nothing else is needed.


CardPart = Callable[["JobStatus"], dict[str, Any]]
"""Fields of a job's card as they are now. Called several times a second, in a thread: it remembers
what it has read, and returns equal fields where nothing has changed."""


class Server(Protocol):
    """What the extension gives to its plugins: worker pools, and watchers."""

    work: Work
    watchers: Watchers
    proxy_headers: list[str]
    proxy_connections: int


@dataclass(frozen=True, slots=True)
class Plugin:
    """One module's additions.

    Parameters
    ----------
    routes
        For the API and its document; see `routes.Route`.
    handlers
        Given the extension, returns more handlers as tornado takes them (patterns begin with
        ``/submarine/``, below the server's base URL); for what is no `Route`.
    card
        Given a job, returns its `CardPart`; called once for each time that a job is watched.
    stop
        Called as the server ends, in its event loop.
    """

    routes: tuple[Route, ...] = ()
    handlers: Callable[[Server], Sequence[tuple[Any, ...]]] | None = None
    card: Callable[[Job], CardPart] | None = None
    stop: Callable[[Server], None] | None = None


# Which status of HTTP an error is, and its words.


_STATUS = {
    LookupError: HTTPStatus.NOT_FOUND,
    FileNotFoundError: HTTPStatus.NOT_FOUND,
    CommandError: HTTPStatus.BAD_REQUEST,
    ConfigError: HTTPStatus.CONFLICT,
    ClusterError: HTTPStatus.SERVICE_UNAVAILABLE,
    OSError: HTTPStatus.INTERNAL_SERVER_ERROR,
}


def status_of(error: Exception) -> HTTPStatus:
    """Return the status of an answer that tells of `error`; 409 for what a job's state forbids."""
    found = (code for kind, code in _STATUS.items() if isinstance(error, kind))
    return next(found, HTTPStatus.CONFLICT)


def error_body(error: Exception, where: str = "") -> dict[str, str]:
    """Return an error as the API tells it: ``what``, ``where`` and ``fix``.

    Parameters
    ----------
    error
        Whatever was raised; an error that nobody foresaw is told with its type.
    where
        What was asked for, for an error that does not know.
    """
    if isinstance(error, SubmarineError):
        return {"what": error.what, "where": error.where, "fix": error.fix}
    if isinstance(error, FileNotFoundError):
        what = "the job has no such file"
    elif isinstance(error, OSError):
        what, where = f"the disk says: {error.strerror or error}", ""
    else:
        what = f"{type(error).__name__}: {error}"
    return {"what": what, "where": where, "fix": ""}


# Every route once: what it does, what it takes, and the OpenAPI document that says so.


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


_TEXT_REPLY = "text/plain"
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
    Route("get", "/jobs/{job_id}/script", "Bytes of the script", jobs.script, _PART, _TEXT_REPLY),
    Route("get", _LOG, "Bytes of a log; X-Log-Size: all of them", jobs.log, _PART, _TEXT_REPLY),
    Route("get", f"{_LOG}/lines", "Lines by number; without start the last ones",
          numbers=_LINES, reply=_ref("Lines")),
    Route("get", f"{_LOG}/search", "Numbers of the lines that hold a text; next: go on from there",
          numbers=_FOUND, texts={"text": _ONE_LINE},
          reply=_ref("Found")),
    Route("get", f"{_LOG}/file", "The whole log as a file", kind=_TEXT_REPLY),
    Route("get", f"{_OUTPUT}/lines", "Lines of both logs in their order, as those of one log",
          numbers=_LINES, reply=_ref("OutputLines")),
    Route("get", f"{_OUTPUT}/at",
          "The last line of both logs at a time (milliseconds since the epoch), and its kin",
          numbers={"time": Number(0, 0, 1 << 53), "around": Number(2, 0, 100)},
          reply=_ref("LineAt")),
    Route("get", f"{_OUTPUT}/search", "Numbers of the lines of both logs that hold a text",
          numbers=_FOUND, texts={"text": _ONE_LINE}, reply=_ref("Found")),
    Route("get", f"{_OUTPUT}/file", "Both logs in their order, as a file", kind=_TEXT_REPLY),
    Route("get", f"{_OUTPUT}/displays", "What the task shows now, and behind which line",
          reply=_ref("Shown")),
    Route("get", f"{_OUTPUT}/display", "The MIME bundle of one thing that is shown",
          numbers={"offset": Number(0, 0, 1 << 62)}, reply=_ref("Display")),
    Route("get", "/jobs/{job_id}/events", "Events and log bytes (base64) from a cursor on",
          kind=_STREAM, texts={"cursor": _STRING}),
    Route("post", "/jobs/{job_id}/cancel", "Ask the job to end: SIGTERM, grace, SIGKILL", _cancel),
    Route("post", "/jobs/{job_id}/kill", "End the job's processes at once", _kill),
)  # fmt: skip


def all_routes(plugins: tuple[Plugin, ...]) -> tuple[Route, ...]:
    """Return our routes and those that `plugins`, other modules, add."""
    return (*ROUTES, *(route for plugin in plugins for route in plugin.routes))


def read_numbers(wanted: Mapping[str, Number], query: Mapping[str, str]) -> dict[str, int]:
    """Return the numbers of a query.

    Parameters
    ----------
    wanted
        By name: bounds, and what stands where the query does not say.
    query
        What came with the request; other names in it are passed over.

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


# Schemas of the answers, made of the dataclasses that they are.


_PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
_STRING_SCHEMA = {"type": "string"}
_COUNT = {"type": "integer", "minimum": 0}
_NUMBER = {"type": "number"}


def schemas() -> dict[str, Any]:
    """Return the schemas of all answers, by name."""
    from submarine_engine.clusters.base import Gpu, GpuShare  # noqa: PLC0415 - asked for once
    from submarine_magics.card.model import CardView  # noqa: PLC0415 - brings IPython

    output: dict[str, Any] = {
        **dict.fromkeys(("total", "size", "start"), _COUNT),
        "lines": _list(_STRING_SCHEMA),
        "streams": _list({"enum": [0, 1]}),
        "times": _list(_or_null(_NUMBER)),
    }
    return {
        "Error": _object(dict.fromkeys(("what", "where", "fix"), _STRING_SCHEMA)),
        "Card": _card(of_type(CardView)),
        "Overview": _overview(of_type(Gpu), of_type(GpuShare)),
        "Lines": _object(
            {"total": _COUNT, "size": _COUNT, "start": _COUNT, "lines": _list(_STRING_SCHEMA)}
        ),
        "OutputLines": _object(output),
        "LineAt": _object({**output, "line": _or_null(_COUNT)}),
        "Shown": _object(
            {
                "displays": _list(_object({"offset": _COUNT, "line": _COUNT})),
                "left_out": _COUNT,
            }
        ),
        "Display": _object({"data": {"type": "object"}, "metadata": {"type": "object"}}),
        "Found": _object({"lines": _list(_COUNT), "next": _or_null(_COUNT)}),
    }


def of_type(kind: Any) -> dict[str, Any]:  # noqa: ANN401 - a type as annotations have it
    """Return the schema of `kind`, a dataclass or what its fields may be.

    Raises
    ------
    TypeError
        There is no schema for it.
    """
    origin = get_origin(kind)
    if kind in _PLAIN:
        return {"type": _PLAIN[kind]}
    if origin in (Union, types.UnionType):
        return {"anyOf": [of_type(one) for one in get_args(kind)]}
    if origin is tuple:
        first, *rest = get_args(kind)
        if rest == [...]:
            return _list(of_type(first))
        size = 1 + len(rest)
        if len({first, *rest}) == 1:
            return {**_list(of_type(first)), "minItems": size, "maxItems": size}
        each = [of_type(one) for one in (first, *rest)]
        return {**_list({"anyOf": each}), "minItems": size, "maxItems": size}
    if isinstance(kind, type) and is_dataclass(kind):
        hints = get_type_hints(kind)
        return _object({field.name: of_type(hints[field.name]) for field in fields(kind)})
    raise TypeError(kind)


def _card(view: dict[str, Any]) -> dict[str, Any]:
    frame = _object(
        {**dict.fromkeys(("cell", "cell_id", "function", "text"), _STRING_SCHEMA), "line": _COUNT}
    )
    failure = _object({"type": _STRING_SCHEMA, "message": _STRING_SCHEMA, "frames": _list(frame)})
    log = _object(
        {"task": _STRING_SCHEMA, "stream": {"enum": ["stdout", "stderr"]}, "size": _COUNT}
    )
    output = _object({"task": _STRING_SCHEMA, "shown": _COUNT, "began": _or_null(_NUMBER)})
    more = {
        # An element: its tag, its attributes, and what is in it (elements of this kind, or text).
        "tree": {**_list({}), "minItems": 3, "maxItems": 3},
        "now": _NUMBER,
        "running": {"type": "boolean"},
        "failure": _or_null(failure),
        "logs": _list(log),
        "outputs": _list(output),
    }
    return _object({**view["properties"], **more})


def _overview(gpu: dict[str, Any], share: dict[str, Any]) -> dict[str, Any]:
    cluster = _object(
        {
            "name": _STRING_SCHEMA,
            "error": _STRING_SCHEMA,
            "total": _COUNT,
            "free": _COUNT,
            "shares": _list(share),
            "gpus": _list(gpu),
        }
    )
    texts = ("id", "cluster", "name", "state", "reason", "notebook", "cell", "cell_id", "serves")
    numbers = ("created", "finished", "progress")
    job = _object(
        {
            **dict.fromkeys(texts, _STRING_SCHEMA),
            **{key: _or_null(_NUMBER) for key in numbers},
            "gpus": _COUNT,
        }
    )
    return _object({"now": _NUMBER, "clusters": _list(cluster), "jobs": _list(job)})


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "required": list(properties), "properties": properties}


def _list(item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": item}


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "null"}]}


# The OpenAPI document: made of the routes, and of the views that the answers are.


def openapi(plugins: tuple[Plugin, ...], base: str = "/") -> dict[str, Any]:
    """Return the OpenAPI document.

    Parameters
    ----------
    plugins
        The modules that add routes.
    base
        What the server's own paths begin with: below a Hub each user's have a prefix.
    """
    paths: dict[str, Any] = {}
    for route in all_routes(plugins):
        paths.setdefault(BASE + route.path, {})[route.method] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Submarine notebooks", "version": "1"},
        "servers": [{"url": base.rstrip("/") or "/"}],
        "paths": paths,
        "components": {
            "schemas": schemas(),
            "securitySchemes": {
                "token": {"type": "apiKey", "in": "header", "name": "Authorization"}
            },
        },
        "security": [{"token": []}],
    }


def _operation(route: Route) -> dict[str, Any]:
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True,
         "schema": {"type": "string", "pattern": f"^(?:{PATTERNS[name]}){END}"}}
        for name in re.findall(r"\{(\w+)\}", route.path)
    ]  # fmt: skip
    for name, number in (route.numbers or {}).items():
        schema = {"type": "integer", "minimum": number.least, "maximum": number.most}
        parameters.append(
            {"name": name, "in": "query", "schema": {**schema, "default": number.default}}
        )
    for name, text in (route.texts or {}).items():
        required = bool(text.get("minLength"))
        parameters.append({"name": name, "in": "query", "required": required, "schema": text})
    if route.path.endswith("/events"):
        text = {"type": "string"}
        parameters.append({"name": "Last-Event-ID", "in": "header", "schema": text})
    error = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    reply = {"schema": route.reply} if route.reply else {}
    found: dict[str, Any] = {
        "summary": route.summary,
        "parameters": parameters,
        "responses": {
            "200": {"description": "as said", "content": {route.kind: reply}},
            "default": {"description": "what, where and the fix", "content": error},
        },
    }
    if route.body is not None:
        found["requestBody"] = {"content": {"application/json": {"schema": route.body}}}
    return found
