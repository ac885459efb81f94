"""TensorBoards by REST: open one over jobs, list them, end one; and scalars for a job's card."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from submarine_engine.errors import CommandError
from submarine_engine.history import default_home, read_json
from submarine_engine.tensorboard import Board, boards, scalars, start, stop, wanted

from submarine_jupyter import jobs
from submarine_jupyter.access import may
from submarine_jupyter.handlers import Call
from submarine_jupyter.parts import CardPart, Extra, Server
from submarine_jupyter.routes import PATTERNS, Route
from submarine_jupyter.tensorboard_proxy import proxy_handlers

if TYPE_CHECKING:
    from submarine_engine.future import Job
    from submarine_engine.lifecycle import JobStatus

PATTERNS["board_id"] = "[0-9a-f]{16}"

_LANE = "tensorboards"
_MOST = 200
_LONGEST = 4096
_TEXT = {"type": "string", "maxLength": _LONGEST}
_TEXTS = {"type": "array", "maxItems": _MOST, "items": _TEXT}
_FIELDS = {"jobs": _TEXTS, "all": {"type": "boolean"}, "logdir": {"anyOf": [_TEXT, _TEXTS]}}
_SHOWN = {
    "type": "object",
    "required": ["id", "url", "shows", "jobs", "all", "logdirs", "running"],
    "properties": {
        **{key: {"type": "string"} for key in ("id", "url", "shows")},
        **{key: {"type": "array", "items": {"type": "string"}} for key in ("jobs", "logdirs")},
        **{key: {"type": "boolean"} for key in ("all", "running")},
    },
}


def shown(board: Board) -> dict[str, Any]:
    """Return a TensorBoard as the API shows it; its port and key stay here."""
    return {
        "id": board.id,
        "url": board.path.lstrip("/"),
        "shows": board.wanted.words,
        "jobs": list(board.wanted.jobs),
        "all": board.wanted.everything,
        "logdirs": list(board.wanted.folders),
        "running": bool(board.port),
    }


def listed() -> dict[str, Any]:
    """Return the user's TensorBoards that run."""
    return {"tensorboards": [shown(board) for board in boards(default_home())]}


def opened(asked: dict[str, Any], begin: Path) -> dict[str, Any]:
    """Return a TensorBoard over what a request asks for; it starts where it does not run.

    Raises
    ------
    CommandError
        The request cannot be understood, or a folder is not there.
    SubmarineError
        A job is not the user's, or no TensorBoard can be started.
    """
    found, everything, folders = _read(asked)
    home = default_home()
    ids = [jobs.paths_of(job).job_id for job in found]
    return shown(
        start(home, wanted(home, ids, everything=everything, folders=folders, begin=begin))
    )


def stopped(board_id: str) -> dict[str, Any]:
    """End a TensorBoard of the user's."""
    return {"id": board_id, "stopped": stop(default_home(), board_id)}


_LIST = Route("get", "/tensorboards", "The TensorBoards that run", listed)
_OPEN = Route(
    "post",
    "/tensorboards",
    "Open TensorBoard over jobs, all jobs or a folder; url is below the server's base URL",
    body={"type": "object", "additionalProperties": False, "properties": _FIELDS},
    reply=_SHOWN,
)
_STOP = Route("delete", "/tensorboards/{board_id}", "End a TensorBoard", stopped)


class TensorBoards(Call):
    """``/submarine/api/tensorboards`` and what is below it."""

    @may("execute")
    async def post(self, **names: str) -> None:
        """Start a process; jupyter_server has checked the XSRF token."""
        await self._answered("post", names)

    async def respond(self, **names: str) -> None:
        """Answer in a lane of its own."""
        if self.request.method != "POST":
            await super().respond(**names)
            return
        begin = str(self.settings.get("server_root_dir") or "~")
        self.tell(await self.work.call(_LANE, _opened_below, self._body(), begin))

    @may("write")
    async def delete(self, **names: str) -> None:
        """End it; jupyter_server has checked the XSRF token."""
        await self._answered("delete", names)

    async def _lane(self, names: dict[str, str]) -> str:  # noqa: ARG002 - one for all of them
        return _LANE


def _opened_below(asked: dict[str, Any], begin: str) -> dict[str, Any]:
    return opened(asked, Path(begin).expanduser())


def _read(asked: dict[str, Any]) -> tuple[list[str], bool, list[str]]:
    found, everything, folders = (asked.get(name) for name in ("jobs", "all", "logdir"))
    folders = [folders] if isinstance(folders, str) else folders
    lists = [[] if texts is None else texts for texts in (found, folders)]
    well = all(
        isinstance(texts, list) and all(isinstance(text, str) for text in texts) for texts in lists
    )
    if not well or not isinstance(everything, (bool, type(None))) or asked.keys() - _FIELDS:
        raise CommandError(
            "the request cannot be understood",
            where="body",
            fix='send {"jobs": ["ID"]}, {"all": true} or {"logdir": "FOLDER"}',
        )
    for name, texts in zip(("jobs", "logdir"), lists, strict=True):
        _check_size(name, texts)
    return lists[0], bool(everything), lists[1]


def _check_size(name: str, texts: list[str]) -> None:
    longest = max(map(len, texts), default=0)
    if len(texts) > _MOST or longest > _LONGEST:
        raise CommandError(
            f"{name!r} has {len(texts)} texts of up to {longest} characters",
            where="body",
            fix=f"send {_MOST} texts at most, of {_LONGEST} characters at most each",
        )


def _card(job: Job) -> CardPart:
    paths = jobs.paths_of(job.id)
    record = read_json(paths.record) or {}
    beside = bool(dict(record.get("spec") or {}).get("tensorboard"))

    def part(status: JobStatus) -> dict[str, Any]:
        found = scalars(paths, at_once=status.state.final)
        return {"tensorboard": beside or bool(found), **({"scalars": found} if found else {})}

    return part


def _handlers(app: Server) -> Sequence[tuple[Any, ...]]:
    given = {"work": app.work}
    return [
        (_LIST.pattern, TensorBoards, {**given, "routes": {"get": _LIST, "post": _OPEN}}),
        (_STOP.pattern, TensorBoards, {**given, "routes": {"delete": _STOP}}),
        *proxy_handlers(app.work),
    ]


EXTRA = Extra(routes=(_LIST, _OPEN, _STOP), handlers=_handlers, card=_card)
