"""Who may do what: Jupyter's login, and then Jupyter's authorizer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from jupyter_server.auth.decorator import authorized
from tornado import web

RESOURCE = "submarine"
"""What the authorizer is asked about, on every route."""

_Method = TypeVar("_Method", bound=Callable[..., Any])


def may(action: str, resource: str = RESOURCE) -> Callable[[_Method], _Method]:
    """Let a handler's method be called by who is logged in and may do that.

    Parameters
    ----------
    action
        ``"read"``; ``"write"`` for what ends or changes something; ``"execute"`` for what starts a
        process.
    resource
        Of what; another one than ours where what is asked for is Jupyter's own, too.
    """

    def decorate(method: _Method) -> _Method:
        asked = cast("Callable[[_Method], _Method]", authorized(action, resource))
        return cast("_Method", web.authenticated(asked(method)))

    return decorate
