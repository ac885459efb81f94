"""Who may do what: Jupyter's login, then Jupyter's authorizer; and keys of pages for their own."""

from __future__ import annotations

import hmac
import json
import re
import secrets
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


_KEY = re.compile(r"/(~[0-9a-f]{64})(?=/|$)")


class Keys:
    """Keys that a page has in its address, and so in whatever it asks for by relative addresses.

    Such a page knows nothing of Jupyter's XSRF token, and a key stands for it: no other page can
    know one. Below a Hub each page of each user is of one origin, where neither a header nor the
    address that a request comes from tells whose page it is.
    """

    def __init__(self) -> None:
        self._secret = secrets.token_bytes(32)

    def of(self, *what: str) -> str:
        """Return the key of what a page shows, as long as this server lives."""
        return "~" + hmac.digest(self._secret, json.dumps(what).encode(), "sha256").hex()

    def split(self, path: str, *what: str) -> tuple[bool, str]:
        """Tell whether a path begins with the key of `what`; return it without any key.

        A key of another server's life is left out, too: who has that address is led to a new one.
        """
        found = _KEY.match(path)
        if found is None:
            return False, path
        return hmac.compare_digest(found[1], self.of(*what)), path[found.end() :]
