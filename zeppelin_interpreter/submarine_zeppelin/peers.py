"""Who may call the interpreter: its port runs code for whoever connects, and Thrift asks nobody.

On one machine the kernel knows which user a connection's other end belongs to, and tells it in
``/proc/net/tcp``. That of another machine, or of a container with a network of its own, nobody
here can know: there the address alone has to be Zeppelin's.
"""

from __future__ import annotations

import os
import pwd
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import NamedTuple

from submarine_engine.errors import ConfigError

_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
_ESTABLISHED, _LISTENS = "01", "0A"
_GROUP = 8  # digits of a word of 32 bits, whose bytes stand in the machine's order

Address = IPv4Address | IPv6Address
Place = tuple[Address, int]


class _Row(NamedTuple):
    """One socket of this machine."""

    own: Place
    other: Place
    state: str
    uid: int


def plain_address(text: str) -> Address:
    """Return the address `text`; IPv4 as such, also where it came written as IPv6.

    Raises
    ------
    ValueError
        It is none.
    """
    found = ip_address(text.partition("%")[0])
    return (found.ipv4_mapped or found) if isinstance(found, IPv6Address) else found


def is_loopback(host: str) -> bool:
    """Return whether `host`, an address or a name, is one of this machine alone."""
    with suppress(ValueError):
        return ip_address(host).is_loopback
    return host == "localhost"


def _rows() -> Iterator[_Row]:
    for table in _TABLES:
        with suppress(OSError):  # a machine without IPv6
            for line in Path(table).read_text().splitlines()[1:]:
                words = line.split()
                # A socket that its process has closed counts as root's, and has no inode.
                if words[9] != "0":
                    yield _Row(_place(words[1]), _place(words[2]), words[3], int(words[7]))


def _place(text: str) -> Place:
    digits, _, port = text.partition(":")
    raw = b"".join(
        int(digits[at : at + _GROUP], 16).to_bytes(4, "little")
        for at in range(0, len(digits), _GROUP)
    )
    return plain_address(str(ip_address(raw))), int(port, 16)


def uid_of_peer(connection: socket.socket) -> int | None:
    """Return the user at the other end of a connection; None where this machine does not know."""
    own, other = _ends(connection)
    for row in _rows():
        if row.state == _ESTABLISHED and (row.own, row.other) == (other, own):
            return row.uid
    return None


def uid_of_listener(host: str, port: int) -> int | None:
    """Return the user whose process listens at `host` and `port`; None where none here does."""
    wanted = {one for one in _addresses(host, port) if _is_own(one)}
    for row in _rows():
        at, listens = row.own
        here = wanted and (at in wanted or at.is_unspecified)
        if row.state == _LISTENS and listens == port and here:
            return row.uid
    return None


def _addresses(host: str, port: int) -> set[Address]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return {plain_address(str(info[4][0])) for info in found}


def _is_own(address: Address) -> bool:
    """Return whether an address is one of this machine: what goes there would come from there."""
    family = socket.AF_INET if isinstance(address, IPv4Address) else socket.AF_INET6
    with socket.socket(family, socket.SOCK_DGRAM) as probe, suppress(OSError):
        probe.connect((str(address), 9))  # nothing is sent
        return plain_address(probe.getsockname()[0]) == address
    return False


def _ends(connection: socket.socket) -> tuple[Place, Place]:
    own, other = connection.getsockname(), connection.getpeername()
    return (plain_address(own[0]), own[1]), (plain_address(other[0]), other[1])


class Callers:
    """Who may call: root, the user of this process, and the user of Zeppelin's.

    Parameters
    ----------
    user
        The name of the user whom Zeppelin runs as, where it is not found by itself: that of an
        interpreter that was started by hand.

    Raises
    ------
    ConfigError
        There is no such user.
    """

    def __init__(self, user: str = "") -> None:
        self._uids = {0, os.getuid()}
        self._remote: set[Address] = set()
        self._lock = threading.Lock()
        if user:
            try:
                self._uids.add(pwd.getpwnam(user).pw_uid)
            except KeyError:
                raise ConfigError(
                    f"there is no user {user!r}", fix="name the user that Zeppelin runs as"
                ) from None

    def zeppelin_is_at(self, host: str, port: int) -> str:
        """Let the Zeppelin that listens there call; return what there is to know, in words.

        Parameters
        ----------
        host, port
            Where Zeppelin listens for what interpreters tell it.
        """
        uid = uid_of_listener(host, port)
        with self._lock:
            if uid is not None:
                self._uids.add(uid)
                return ""
            remote = {one for one in _addresses(host, port) if not _is_own(one)}
            self._remote |= remote
        if not remote:
            return ""
        return (
            f"Zeppelin ({host}) is on another machine or in a network of its own: calls are "
            "taken from its address, and whose process makes them cannot be known"
        )

    def refusal(self, connection: socket.socket) -> str:
        """Return why a connection is refused, in words; empty where it is not.

        Raises
        ------
        OSError
            It is gone already.
        """
        _, (address, port) = _ends(connection)
        uid = uid_of_peer(connection)
        with self._lock:
            if uid in self._uids or (uid is None and address in self._remote):
                return ""
        whose = "nobody knows whose" if uid is None else f"user {_name(uid)}"
        return f"refused a call from {address}, port {port}: {whose}"


def _name(uid: int) -> str:
    with suppress(KeyError):
        return pwd.getpwuid(uid).pw_name
    return str(uid)
