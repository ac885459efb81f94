"""Where the tasks of a running job stand, by REST: as the card's button and the panel show it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from submarine_jupyter import jobs
from submarine_jupyter.access import may
from submarine_jupyter.handlers import Call
from submarine_jupyter.routes import Plugin, Route, Server
from submarine_jupyter.work import Work

_LIMIT = 60.0
"""Seconds: more than whoever asks a job's driver waits for its answer."""

_GROUP = {
    "type": "object",
    "required": ["tasks", "names", "place"],
    "properties": {
        "tasks": {"type": "array", "items": {"type": "string"}},
        "names": {"type": "string"},
        "place": {"type": "string"},
    },
}
_ROUTE = Route(
    "post",
    "/jobs/{job_id}/stacks",
    "Ask each task of a running job where it stands; the odd one first",
    reply={
        "type": "object",
        "required": ["at", "groups", "tree"],
        "properties": {
            "at": {"type": "number"},
            "groups": {"type": "array", "items": _GROUP},
            "tree": {"type": "array", "items": {}, "minItems": 3, "maxItems": 3},
        },
    },
)


class Stacks(Call):
    """``POST /submarine/api/jobs/<id>/stacks``: answers when the tasks have."""

    @may("read")  # nothing of the job is changed
    async def post(self, **names: str) -> None:
        """Ask the tasks; jupyter_server has checked the XSRF token."""
        await self._answered("post", names)

    async def respond(self, **names: str) -> None:
        """Ask, in a pool of its own: a task on YARN takes seconds to answer, or never does."""
        cluster = await self.work.call("records", jobs.cluster_of, names["job_id"])
        self.tell(await self.work.call(f"{cluster} stacks", stacks, names["job_id"]))


def stacks(job_id: str) -> dict[str, Any]:
    """Return where the tasks of `job_id` stand, and the elements that show it.

    Raises
    ------
    SubmarineError
        As `Job.stacks` does.
    """
    from submarine_magics.card.served import stacks_tree  # noqa: PLC0415 - brings IPython

    found = jobs.opened(job_id).stacks()
    told = found.to_json()
    # Every step of every thread is much, and the elements have those that are shown.
    return {"at": told["at"], "groups": told["groups"], "tree": stacks_tree(found).to_json()}


def _handlers(app: Server) -> Sequence[tuple[Any, ...]]:
    _WORK[app] = Work(_LIMIT)
    return [(_ROUTE.pattern, Stacks, {"work": _WORK[app], "routes": {"post": _ROUTE}})]


def _stop(app: Server) -> None:
    _WORK.pop(app).stop()


_WORK: dict[Server, Work] = {}
PLUGIN = Plugin(routes=(_ROUTE,), handlers=_handlers, stop=_stop)
