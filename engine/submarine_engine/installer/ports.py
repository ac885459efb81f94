"""Ports that stay a cluster's own.

A cluster takes a block of consecutive ports below those that the kernel gives to outgoing
connections, so that a daemon finds its port again after it was killed. While a cluster starts it
holds the name of its block (an abstract Unix socket: one owner in the ports' own network namespace,
gone with its process), so no two clusters of any user take the same one. Later its listening
daemons show that the block is taken.
"""

from __future__ import annotations

import hashlib
import random
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from submarine_engine.errors import ClusterError

BLOCK = 128
FIRST, LAST = 20_480, 32_768

_LISTENING = "0A"
_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")


@contextmanager
def hold_block(folder: Path, known: int | None = None) -> Iterator[int]:
    """Hold a block of free ports for the time of a ``with``; gives its first port.

    Parameters
    ----------
    folder
        The cluster's; it decides where the search begins, so that a cluster mostly keeps its ports.
    known
        The block that the cluster has had; taken where it is free still.

    Raises
    ------
    ClusterError
        Every block is taken.
    """
    blocks = list(range(FIRST, LAST, BLOCK))
    seed = hashlib.sha256(bytes(folder)).digest()
    random.Random(seed).shuffle(blocks)  # noqa: S311 - nothing secret
    for first in [known, *blocks] if known is not None else blocks:
        with socket.socket(socket.AF_UNIX) as name:
            try:
                name.bind(f"\0submarine-ports-{first}")
            except OSError:
                continue
            if listening_ports().isdisjoint(range(first, first + BLOCK)):
                yield first
                return
    raise ClusterError(
        f"no {BLOCK} ports in a row are free between {FIRST} and {LAST}",
        fix="end clusters that nobody needs any more: `submarine cluster down`",
    )


def listening_ports() -> set[int]:
    """Return the ports that somebody listens on (``/proc/net/tcp``, see proc(5)).

    What is left of closed connections keeps no daemon from its port.
    """
    found: set[int] = set()
    for table in _TABLES:
        try:
            lines = Path(table).read_text().splitlines()[1:]
        except FileNotFoundError:  # a kernel without IPv6
            continue
        for line in lines:
            _, local, _, state = line.split()[:4]
            if state == _LISTENING:
                found.add(int(local.rpartition(":")[2], 16))
    return found
