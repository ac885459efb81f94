"""A terminal inside a running job, by REST: one of Jupyter's own, which runs `submarine job shell`.

Jupyter's terminals (`jupyter_server_terminals`) show and end it as any other of theirs.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from submarine_engine.errors import JobError, UnsupportedError
from submarine_engine.job import JobState

from submarine_jupyter import jobs
from submarine_jupyter.access import may
from submarine_jupyter.handlers import Call
from submarine_jupyter.routes import Plugin, Route, Server

_ROUTE = Route(
    "post",
    "/jobs/{job_id}/terminal",
    "Open one of Jupyter's terminals with a shell inside a running job",
    reply={"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}},
)


class Terminal(Call):
    """``POST /submarine/api/jobs/<id>/terminal``: answers with the terminal's name."""

    @may("execute")
    @may("execute", "terminals")
    async def post(self, **names: str) -> None:
        """Open it; jupyter_server has checked the XSRF token."""
        await self._answered("post", names)

    async def respond(self, **names: str) -> None:
        """Open it in the server's own loop, which reads from its terminals."""
        job_id = await self.work.call("records", running, names["job_id"])
        manager = self.settings.get("terminal_manager")
        if manager is None:
            raise UnsupportedError(
                "this server has no terminals",
                fix=f"type in one of your own: submarine job shell {job_id}",
            )
        words = [sys.executable, "-m", "submarine_engine.cli", "job", "shell", job_id]
        self.tell({"name": manager.create(shell_command=words)["name"]})


def running(job_id: str) -> str:
    """Return `job_id` where that job runs.

    Raises
    ------
    SubmarineError
        There is none, or it does not.
    """
    state = jobs.opened(job_id).status().state
    if state is not JobState.RUNNING:
        word = "is over" if state.final else "does not run yet"
        raise JobError(
            f"the job {word} ({state.value}): no shell can be opened in it", job_id=job_id
        )
    return job_id


def _handlers(app: Server) -> Sequence[tuple[Any, ...]]:
    return [(_ROUTE.pattern, Terminal, {"work": app.work, "routes": {"post": _ROUTE}})]


PLUGIN = Plugin(routes=(_ROUTE,), handlers=_handlers)
