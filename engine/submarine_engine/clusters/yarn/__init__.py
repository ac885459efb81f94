"""Hadoop YARN: jobs as GPU containers, through skein.

The class is loaded when it is first used: `submarine_engine` itself needs no cluster client.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING

from submarine_engine.errors import ConfigError
from submarine_engine.extras import install_extra

if TYPE_CHECKING:
    from submarine_engine.clusters.yarn.cluster import YarnBackend

__all__ = ["YarnBackend"]

_NEEDED = ("skein", "requests", "fsspec")


def __getattr__(name: str) -> object:
    if name == "YarnBackend":
        missing = [package for package in _NEEDED if find_spec(package) is None]
        if missing:
            raise ConfigError(
                f"the YARN cluster needs packages that are not installed: {', '.join(missing)}",
                where=sys.executable,
                fix=install_extra("yarn"),
            )
        from submarine_engine.clusters.yarn.cluster import YarnBackend  # noqa: PLC0415 - late

        return YarnBackend
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
