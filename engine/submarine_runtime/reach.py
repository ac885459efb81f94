"""Checks that the hosts of a job reach each other, before its code begins; `task` calls it.

What a firewall drops would have a framework wait for minutes, and say no more then than that its
time is over.
"""

from __future__ import annotations

import _socket
import errno
import os
import select
import time

from submarine_runtime import rendezvous
from submarine_runtime.lean import suppress

TYPE_CHECKING = False  # as type checkers have it; the module takes long to import
if TYPE_CHECKING:
    from typing import Any

WITHIN = 5.0
"""Seconds that another host has to answer: a lost packet is sent again after one and after three.
"""

# A refusal comes from there as well: nobody need listen yet, nor any more.
_ANSWERS = (0, errno.ECONNREFUSED, errno.ECONNRESET)
_MOST_NAMED = 4


class UnreachableError(OSError):
    """Other tasks of the job cannot be reached from here."""


def check(tasks: dict[str, Any], me: str) -> None:
    """Connect to one task on each other host of the job, to all at once.

    Parameters
    ----------
    tasks
        As the driver's answer has them.
    me
        The task that runs here.

    Raises
    ------
    UnreachableError
        A host does not answer, or the name of rank 0's means nothing here.
    """
    waits: dict[int, tuple[_socket.socket, str]] = {}
    silent = []
    until = time.monotonic() + WITHIN
    for task in _one_each_host(tasks, tasks[me]["host"]):
        host, port = tasks[task]["host"], tasks[task]["ports"][rendezvous.FOR_XGBOOST]
        where = f"{task} at {host}:{port}"
        try:
            found = _socket.getaddrinfo(host.encode(), port, _socket.AF_INET, _socket.SOCK_STREAM)
        except OSError as error:
            # Frameworks use the names of rank 0 alone. One may have addresses of another kind.
            if tasks[task]["rank"] == 0 and error.args[0] == _socket.EAI_NONAME:
                silent.append(f"{where} (nobody knows that host here)")
            continue
        one = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
        one.setblocking(False)
        code = one.connect_ex(found[0][4])
        if code == errno.EINPROGRESS:
            waits[one.fileno()] = one, where
            continue
        one.close()
        if code not in _ANSWERS:
            silent.append(f"{where} ({os.strerror(code)})")
    silent += _silent(waits, until)
    if silent:
        more = f" and {len(silent) - _MOST_NAMED} more" if len(silent) > _MOST_NAMED else ""
        raise UnreachableError(
            f"{me} on {tasks[me]['host']} cannot reach {', '.join(silent[:_MOST_NAMED])}{more}; is"
            " there a firewall? The tasks of a job meet at ports that the system chooses"
            f" ({_system_ports()}), which have to be open between its hosts: docs/distributed.md"
        )


def _one_each_host(tasks: dict[str, Any], mine: str) -> list[str]:
    """Return a task on each host but this one; rank 0 stands for its own."""
    found: dict[str, str] = {}
    for task, one in tasks.items():
        if one["host"] != mine and (one["host"] not in found or one["rank"] == 0):
            found[one["host"]] = task
    return list(found.values())


def _silent(waits: dict[int, tuple[_socket.socket, str]], until: float) -> list[str]:
    """Wait for connections that have begun; return which came to nothing, and why."""
    poll = select.poll()
    for descriptor in waits:
        poll.register(descriptor, select.POLLOUT)
    silent = []
    while waits and (left := until - time.monotonic()) > 0:
        for descriptor, _ in poll.poll(left * 1000):
            poll.unregister(descriptor)
            one, where = waits.pop(descriptor)
            code = one.getsockopt(_socket.SOL_SOCKET, _socket.SO_ERROR)
            one.close()
            if code not in _ANSWERS:
                silent.append(f"{where} ({os.strerror(code)})")
    for one, where in waits.values():
        one.close()
        silent.append(f"{where} (no answer within {WITHIN:g} s)")
    return silent


def _system_ports() -> str:
    path = "/proc/sys/net/ipv4/ip_local_port_range"
    with suppress(OSError), open(path) as file:  # noqa: PTH123 - pathlib is slow
        return "-".join(file.read().split())
    return "32768-60999"
