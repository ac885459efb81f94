"""The API of a Kubernetes of one's own, as its installer asks it: with no package for that."""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import HTTPSHandler, ProxyHandler, Request, build_opener

from submarine_engine.errors import ClusterError

_PATIENCE = 10.0  # seconds: a server on loopback that begins is slow; who asks tries again


class Api:
    """The API server that a kubeconfig of ours names.

    Parameters
    ----------
    kubeconfig
        As `files.kubeconfig` writes it.
    """

    def __init__(self, kubeconfig: Path) -> None:
        told = json.loads(kubeconfig.read_text())
        cluster = told["clusters"][0]["cluster"]
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        self._server = cluster["server"]
        self._token = told["users"][0]["user"]["token"]
        context = ssl.create_default_context(cadata=authority)
        # On loopback, whatever proxy everybody else goes by.
        self._opener = build_opener(ProxyHandler({}), HTTPSHandler(context=context))

    def get(self, path: str) -> Any:  # noqa: ANN401 - JSON
        """Return what is at `path`; None where nobody answers, or nothing is there."""
        with suppress(OSError, ValueError):
            return self._ask("GET", path)
        return None

    def ready(self) -> bool:
        """Whether it answers, and has begun."""
        with suppress(OSError, ValueError):
            return bool(self._ask("GET", "/readyz", parsed=False) == "ok")
        return False

    def apply(self, path: str, content: Mapping[str, Any]) -> None:
        """Have an object be there as it is given: made, or changed.

        Parameters
        ----------
        path
            Where it is, or will be, on the server.
        content
            The object, with all fields that are ours to say.

        Raises
        ------
        ClusterError
            It is refused; the error has the server's own words.
        """
        self._write(f"{path}?fieldManager=submarine&force=true", content, "apply-patch+yaml")

    def merge(self, path: str, content: Mapping[str, Any]) -> None:
        """Change the object at `path` by the fields in `content`, or refuse as `apply` does."""
        self._write(path, content, "merge-patch+json")

    def _write(self, path: str, content: Mapping[str, Any], kind: str) -> None:
        try:
            self._ask("PATCH", path, json.dumps(content).encode(), f"application/{kind}")
        except HTTPError as error:
            raise ClusterError(
                f"the API server refuses: {_words(error)}",
                where=f"{self._server}{path}",
                fix="see its log, then say `submarine cluster up kubernetes` again",
            ) from error
        except OSError as error:
            raise ClusterError(
                f"the API server does not answer: {error}",
                where=self._server,
                fix="see its log, then say `submarine cluster up kubernetes` again",
            ) from error

    def _ask(
        self, method: str, path: str, data: bytes | None = None, kind: str = "", *,
        parsed: bool = True,
    ) -> Any:  # noqa: ANN401 - JSON  # fmt: skip
        headers = {"Authorization": f"Bearer {self._token}", "Accept": "application/json"}
        if kind:
            headers["Content-Type"] = kind
        request = Request(f"{self._server}{path}", data, headers, method=method)  # noqa: S310 - https
        with self._opener.open(request, timeout=_PATIENCE) as answer:
            text = answer.read().decode()
        return json.loads(text) if parsed else text


def _words(error: HTTPError) -> str:
    with suppress(OSError, ValueError):
        return str(json.loads(error.read())["message"])
    return str(error)


__all__ = ["Api"]
