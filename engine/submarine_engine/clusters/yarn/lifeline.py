"""Warm masters end by themselves where the machine of their notebook is gone, and its keeper too.

YARN ends an application whose lifetime is over (``/apps/<id>/timeout`` of "ResourceManager REST
APIs", Hadoop 2.9 and later). A master that is idle has a lifetime that ends soon after its keeper
would end it; one that jobs use has a long one, since its end would be theirs.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from submarine_engine.errors import ClusterError

if TYPE_CHECKING:
    from submarine_engine.clusters.yarn.masters import Life, Masters
    from submarine_engine.clusters.yarn.rest import ResourceManager

_TURN = 1.0
_MARGIN = 15.0
_SETTLE = 10.0
_LONG = 7 * 24 * 3600.0
_AGAIN = 60.0


def keep_lifelines(
    masters: Masters, rm: ResourceManager, idle: float, stop: threading.Event
) -> None:
    """Tell the ResourceManager until when each master may live, whenever that changes.

    Parameters
    ----------
    idle
        Seconds after which the keeper ends a master without jobs.
    stop
        Ends it.
    """
    told: dict[str, float] = {}
    not_before: dict[str, float] = {}
    while not stop.wait(_TURN):
        lives = masters.lives()
        for gone in set(told) - {life.app_id for life in lives}:
            del told[gone]
        for life in lives:
            until = due(life, told.get(life.app_id), idle, time.time())
            if until is None or not_before.get(life.app_id, 0.0) > time.time():
                continue
            try:
                rm.set_lifetime(life.app_id, until)
                told[life.app_id] = until
            except ClusterError:  # it is away, or knows no lifetimes
                not_before[life.app_id] = time.time() + _AGAIN


def due(life: Life, told: float | None, idle: float, now: float) -> float | None:
    """Return until when a master is to live, where that is to be told; None where it is not.

    Parameters
    ----------
    told
        What the ResourceManager was told last.
    idle
        As `keep_lifelines` has it.
    now
        The time, in seconds since the epoch, as all of these are.
    """
    if life.idle_since is None:
        until = now + _LONG
        return until if told is None or told < now + _LONG / 2 else None
    # A notebook's jobs follow one another: what would change at once again is not told.
    if now - life.idle_since < min(_SETTLE, idle / 4):
        return None
    until = max(life.idle_since + idle, now) + _MARGIN
    return None if told is not None and abs(told - until) < _MARGIN / 2 else until
