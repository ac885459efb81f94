"""The Jupyter server that started this kernel, where our extension runs in it.

A server writes ``jpserver-<pid>.json`` into Jupyter's runtime folder (jupyter_server's
``serverapp.write_server_info_file``), and starts kernels with ``JPY_PARENT_PID`` and
``JPY_SESSION_NAME`` in their environment.
"""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from typing import NamedTuple
from urllib.parse import urlsplit

_PATIENCE = 2.0
_OK = 200


class Server(NamedTuple):
    """A server of ours; `base_url` begins and ends with a slash."""

    base_url: str


def server_of_kernel() -> Server | None:
    """Return the server of this kernel; None where there is none, or our extension is not in it."""
    parent = os.environ.get("JPY_PARENT_PID", "")
    if not re.fullmatch(r"[0-9]{1,10}", parent):
        return None
    from jupyter_core.paths import jupyter_runtime_dir  # noqa: PLC0415 - of kernels alone

    for pid in {parent, str(os.getppid())}:
        with suppress(OSError, ValueError, KeyError, TypeError, HTTPException):
            with open(f"{jupyter_runtime_dir()}/jpserver-{pid}.json", encoding="utf-8") as file:  # noqa: PTH123 - short
                info = json.load(file)
            if _has_extension(info):
                return Server(str(info["base_url"]))
    return None


def _has_extension(info: dict[str, object]) -> bool:
    """Ask the server, by its own address on this machine."""
    where = urlsplit(str(info["url"]))
    if where.scheme != "http" or not where.hostname:
        # By a certificate that only browsers know, or a socket: taken for one that has it.
        return where.scheme == "https"
    connection = HTTPConnection(where.hostname, where.port, timeout=_PATIENCE)
    try:
        path = f"{str(info['base_url']).rstrip('/')}/submarine/api/tensorboards"
        headers = {"Authorization": f"token {info['token']}"} if info.get("token") else {}
        connection.request("GET", path, headers=headers)
        return connection.getresponse().status == _OK
    finally:
        connection.close()
