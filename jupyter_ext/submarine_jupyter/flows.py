"""Flows by REST: the card of one, with its graph, and to build, run, cancel and retry it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from submarine_engine.errors import CommandError
from submarine_engine.flows.current import CurrentFlow, build_again, current_flow
from submarine_engine.flows.folder import Place, is_address, place_of
from submarine_engine.flows.runner import (
    RunStatus,
    cancel_run,
    newest_run,
    newest_status,
    retry_run,
    start_run,
    status_of,
)

from submarine_jupyter.access import may
from submarine_jupyter.handlers import Call
from submarine_jupyter.routes import Plugin, Route, Server
from submarine_jupyter.work import Work

_LIMIT = 120.0
"""Seconds: a notebook is read and taken apart, and a run's process begins."""
_LONGEST = 4000
_POOL = "flows"
_TEXT = {"type": "string"}
_PATH = {**_TEXT, "minLength": 1, "maxLength": _LONGEST}
_CARD = {
    "type": "object",
    "required": ["name", "notebook", "folder", "run", "state", "going", "now", "tree"],
    "properties": {
        **dict.fromkeys(("name", "notebook", "folder", "run", "state"), _TEXT),
        "going": {"type": "boolean"},
        "now": {"type": "number"},
        "tree": {"type": "array", "items": {}, "minItems": 3, "maxItems": 3},
    },
}
_SHOW = Route(
    "get",
    "/flows",
    "The card of a flow: of a notebook or folder (?path=, from the server's root), and its newest"
    " run, or that of ?run=",
    texts={"path": _PATH, "run": _TEXT},
    reply=_CARD,
)
_BODY = {
    "type": "object",
    "additionalProperties": False,
    "required": ["path"],
    "properties": {"path": _PATH, "run": _TEXT},
}
_DO = {
    "build": "Build a flow of its notebook: for the first time, or again as it was built",
    "run": "Run a flow in a process of its own: a new run, or on with the one of that id",
    "cancel": "Ask a run of a flow to end, with the jobs of its nodes",
    "retry": "Run again what has failed in a run of a flow, and what follows it",
}
_ROUTES = {
    name: Route("post", f"/flows/{name}", summary, body=_BODY, reply=_CARD)
    for name, summary in _DO.items()
}


class Show(Call):
    """``GET /submarine/api/flows``."""

    async def respond(self, **_names: str) -> None:
        """Read the flow, and the records of its run."""
        path = self.get_query_argument("path", "")
        run = self.get_query_argument("run", "")
        where = _path(path, self.settings)
        self.tell(await self.work.call(_POOL, self._card, where, run))

    def _card(self, where: str, run: str) -> dict[str, Any]:
        return card_of(place_of(where), run)


class Do(Call):
    """``POST /submarine/api/flows/<build, run, cancel, retry>``: answers with the card then."""

    def initialize(self, does: str, **shared: Any) -> None:  # type: ignore[override]  # noqa: ANN401 - as `Api` has it
        """Take what it does, by its name."""
        super().initialize(**shared)
        self._does = _ACTIONS[does]

    @may("execute")  # jobs begin, or end, by it
    async def post(self, **names: str) -> None:
        """Do it; jupyter_server has checked the XSRF token."""
        await self._answered("post", names)

    async def respond(self, **_names: str) -> None:
        """Do it, and read the card."""
        asked = self._body()
        known = {"path", "run"}
        if asked.keys() - known or not all(isinstance(one, str) for one in asked.values()):
            raise CommandError(
                "the request cannot be understood",
                where="body",
                fix='send {"path": "train.flow"}, and "run" with its id if need be',
            )
        where = _path(asked.get("path", ""), self.settings)
        self.tell(await self.work.call(_POOL, self._do, where, asked.get("run", "")))

    def _do(self, where: str, run: str) -> dict[str, Any]:
        place = place_of(where)
        found = current_flow(place)
        run = self._does(found, run)
        return card_of(found.folder if found.built else place, run)


def _path(text: str, settings: dict[str, Any]) -> str:
    """Return what a request names: from the server's root, absolute as cards have it, an address.

    Raises
    ------
    CommandError
        It cannot be one.
    """
    if not 0 < len(text) <= _LONGEST or not text.isprintable():
        raise CommandError(
            "the path cannot be used", where="path", fix="name a notebook, or a flow's folder"
        )
    if is_address(text):
        return text
    return str(Path(str(settings.get("server_root_dir", "."))).expanduser() / text)


def card_of(path: Place, run: str = "") -> dict[str, Any]:
    """Return the card of a flow as a page draws it.

    Parameters
    ----------
    path
        A notebook, a flow's folder, or the one that it lies in; or a flow's at an address.
    run
        The run that is shown; the newest where it is empty.

    Raises
    ------
    FlowError
        There is no flow there, or no such run of it.
    SubmarineError
        The notebook cannot become a flow.
    """
    from submarine_engine.events import Moment  # noqa: PLC0415 - brings IPython
    from submarine_magics.card.flows import flow_tree, view_flow  # noqa: PLC0415 - as above

    current = current_flow(path)
    now = Moment.now().wall
    flow = view_flow(current, _status(current, run), now)
    return {
        "name": flow.name,
        "notebook": str(current.notebook or ""),
        "folder": flow.folder,
        "run": flow.run,
        "state": flow.state,
        "going": flow.going,
        "now": now,
        "tree": flow_tree(flow, served=True).to_json(),
    }


def _status(current: CurrentFlow, run: str) -> RunStatus | None:
    if not current.built:
        return None
    if run:
        return status_of(current.folder, newest_run(current.folder, run))
    return newest_status(current.folder)


def _build(found: CurrentFlow, _: str) -> str:
    build_again(found.notebook or found.folder)
    return ""


def _run(found: CurrentFlow, run: str) -> str:
    if not found.built:
        found = build_again(found.notebook or found.folder)
    return start_run(found.folder, run)


def _cancel(found: CurrentFlow, run: str) -> str:
    run = newest_run(found.folder, run or None)
    cancel_run(found.folder, run)
    return run


def _retry(found: CurrentFlow, run: str) -> str:
    run = newest_run(found.folder, run or None)
    retry_run(found.folder, run)
    return run


_ACTIONS: dict[str, Callable[[CurrentFlow, str], str]] = {
    "build": _build,
    "run": _run,
    "cancel": _cancel,
    "retry": _retry,
}


def _handlers(app: Server) -> Sequence[tuple[Any, ...]]:
    work = _WORK[app] = Work(_LIMIT)
    return [
        (_SHOW.pattern, Show, {"work": work, "routes": {"get": _SHOW}}),
        *(
            (route.pattern, Do, {"does": name, "work": work, "routes": {"post": route}})
            for name, route in _ROUTES.items()
        ),
    ]


def _stop(app: Server) -> None:
    _WORK.pop(app).stop()


_WORK: dict[Server, Work] = {}
PLUGIN = Plugin(routes=(_SHOW, *_ROUTES.values()), handlers=_handlers, stop=_stop)
