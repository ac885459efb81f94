"""What stands before TensorBoard: the key of its owner, and the count of its readers.

A loopback port is open to everybody on the machine, so each request has to show the key that lies
in the TensorBoard's record: in a header (Jupyter's proxy), or in the address once, which makes it
a cookie (a link that a terminal prints).
"""

from __future__ import annotations

import hmac
import time
from collections.abc import Callable, Iterable, Iterator
from http.cookies import CookieError, SimpleCookie
from threading import Lock
from typing import Any
from urllib.parse import parse_qs

KEY_HEADER = "X-Submarine-Key"
COOKIE = "submarine-tensorboard"

Start = Callable[..., Any]
App = Callable[[dict[str, Any], Start], Iterable[bytes]]


class Gate:
    """WSGI middleware.

    Parameters
    ----------
    app
        TensorBoard's own.
    key
        What a request has to show.
    prefix
        The path that TensorBoard lies under, without a closing slash.
    """

    def __init__(self, app: App, key: str, prefix: str) -> None:
        self._app = app
        self._key = key
        self._prefix = prefix
        self._lock = Lock()
        self._inside = 0
        self._last = time.monotonic()

    @property
    def idle(self) -> float:
        """Seconds since the last request ended; 0 while there is one."""
        with self._lock:
            return 0.0 if self._inside else time.monotonic() - self._last

    def __call__(self, environ: dict[str, Any], start: Start) -> Iterable[bytes]:
        """Serve a request that shows the key, refuse another."""
        given = parse_qs(environ.get("QUERY_STRING", "")).get("key", [""])[0]
        if given and self._fits(given):
            # SameSite: another site's page cannot use it. The address loses the key.
            cookie = f"{COOKIE}-{self._key[:8]}={self._key}; Path={self._prefix}; HttpOnly"
            headers = [
                ("Location", f"{self._prefix}/"),
                ("Set-Cookie", f"{cookie}; SameSite=Strict"),
                ("Cache-Control", "no-store"),
                ("Referrer-Policy", "no-referrer"),
                ("Content-Length", "0"),
            ]
            start("303 See Other", headers)
            return [b""]
        if not self._fits(environ.get("HTTP_X_SUBMARINE_KEY", "") or self._cookie(environ)):
            text = b"This TensorBoard needs the key of its owner: see `submarine tensorboard`.\n"
            headers = [("Content-Type", "text/plain"), ("Content-Length", str(len(text)))]
            start("403 Forbidden", headers)
            return [text]
        return self._serve(environ, start)

    def _serve(self, environ: dict[str, Any], start: Start) -> Iterator[bytes]:
        with self._lock:
            self._inside += 1
        try:
            yield from self._app(environ, start)
        finally:
            with self._lock:
                self._inside -= 1
                self._last = time.monotonic()

    def _fits(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self._key.encode())

    def _cookie(self, environ: dict[str, Any]) -> str:
        try:
            cookies = SimpleCookie(environ.get("HTTP_COOKIE", ""))
        except CookieError:
            return ""
        found = cookies.get(f"{COOKIE}-{self._key[:8]}")
        return found.value if found else ""
