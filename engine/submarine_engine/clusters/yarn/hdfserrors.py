"""What HDFS says when it refuses, in its own words, with the way out."""

from __future__ import annotations

import re

from submarine_engine.clusters.yarn.foreign import told
from submarine_engine.errors import ClusterError, SubmarineError

_WAYS_OUT = (
    ("safe mode", "HDFS is read-only for now: wait, or ask its administrator to end safe mode"),
    ("quota", "remove what you no longer need (hdfs dfs -du -h), or have the quota raised"),
    ("could only be written to", "HDFS is full, or none of its DataNodes is up: ask its operator"),
    ("No space", "HDFS is full: remove what you no longer need, or ask its operator"),
    ("Permission denied", "ask HDFS's administrator for this folder, or run as who it belongs to"),
)
_QUERY = re.compile(r"\?op=\S*")  # it may hold a token
_SILENT = "is HDFS up, and can its NameNode and DataNodes be reached from here over HTTP?"


def said(
    error: Exception, where: str, path: str, kind: type[SubmarineError] | None
) -> SubmarineError:
    """Return our error for one of fsspec's or requests'.

    Parameters
    ----------
    kind
        For what HDFS refuses; None for `ClusterError`.
    """
    response = getattr(error, "response", None)
    if response is None and type(error).__module__.startswith(("requests", "urllib3")):
        return ClusterError(f"no answer: {_line(str(error))}", where=where, fix=_SILENT)
    words = _line(_remote(response) or str(error) or type(error).__name__)
    fix = next((way_out for sign, way_out in _WAYS_OUT if sign.lower() in words.lower()), "")
    if isinstance(error, FileNotFoundError):
        fix = "check the path"
    return (kind or ClusterError)(f"{path}: {words}", where=where, fix=fix or _SILENT)


def _remote(response: object) -> str:
    """Return the message of a WebHDFS error (``RemoteException``), empty where it is none."""
    try:
        return str(response.json()["RemoteException"]["message"])  # type: ignore[attr-defined]
    except (AttributeError, KeyError, TypeError, ValueError):
        return ""


def _line(text: str) -> str:
    line = (text.strip().splitlines() or [""])[0]
    return told(_QUERY.sub("", line))
