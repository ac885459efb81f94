"""What other modules add to the server: routes, handlers, and parts of a job's card.

Such a module names its `Extra` in `extras.EXTRAS`; nothing else is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from submarine_jupyter.watching import Watchers
from submarine_jupyter.work import Work

if TYPE_CHECKING:
    from submarine_engine.future import Job
    from submarine_engine.lifecycle import JobStatus

    from submarine_jupyter.routes import Route

CardPart = Callable[["JobStatus"], dict[str, Any]]
"""Fields of a job's card as they are now. Called several times a second, in a thread: it remembers
what it has read, and returns equal fields where nothing has changed."""


class Server(Protocol):
    """What the extension gives to its parts: threads, and what is watched."""

    work: Work
    watchers: Watchers


@dataclass(frozen=True, slots=True)
class Extra:
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
