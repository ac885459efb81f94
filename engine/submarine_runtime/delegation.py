"""The delegation token by which a container asks HDFS, which is replaced before it expires.

The first one comes in the addresses and variables that a container is sent. Each later one is a
message of the driver's, which `relay` brings; it is a file of the container's folder from then on.
It takes the first one's place in Hadoop's own file of tokens as well, which every Java begins with.

Formats are those of Hadoop's ``Token``, ``Credentials`` and ``WritableUtils``.
"""

from __future__ import annotations

import binascii
import os

from submarine_runtime import lean
from submarine_runtime.saving import PLACE

TYPE_CHECKING = False  # as type checkers have it; the module takes long to import
if TYPE_CHECKING:
    from collections.abc import Collection

TOKEN = "hdfs-token.json"  # noqa: S105 - a name
"""The message, and the file: ``{"version": 1, "token": "…", "services": ["10.0.0.1:8020"]}``, the
last of which are what Java's clients of that HDFS call it.
"""

VERSION = 1
KIND = b"HDFS_DELEGATION_TOKEN"
FILE = "HADOOP_TOKEN_FILE_LOCATION"
"""Variable by which YARN tells where Hadoop's file of tokens is."""

_NAME = "delegation="
_LARGEST = 1 << 16
_HEAD = b"HDTS\0"  # version 0: tokens as `Writable` has them, which is what NodeManagers write
_LONG = -112  # what a number of more than a byte begins with, less the count of its bytes
_NEGATIVE = -120


_last: dict[str, str] = {}
"""The token that this process has read last, by the container's folder."""


class Token:
    """A delegation token of Hadoop's.

    Parameters
    ----------
    identifier
        Whose it is, and until when; HDFS's own words.
    password
        What shows that HDFS has given it.
    kind
        `KIND` of one of HDFS.
    service
        Whom it is for, as Hadoop's clients call that.
    """

    def __init__(self, identifier: bytes, password: bytes, kind: bytes, service: bytes) -> None:
        self.identifier = identifier
        self.password = password
        self.kind = kind
        self.service = service

    def __repr__(self) -> str:
        return f"<Token {self.kind!r} for {self.service!r}>"  # no word of its secret

    def written(self) -> bytes:
        """Return it as Hadoop writes one."""
        parts = self.identifier, self.password, self.kind, self.service
        return b"".join(_number(len(part)) + part for part in parts)


class Reader:
    """Reads what Hadoop has written, one thing after another; ValueError where it is none.

    Parameters
    ----------
    data
        All of it; it is read from its beginning on.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self) -> int:
        """Read a number (``readVLong``)."""
        (first,) = self.take(1)
        first -= (first & 0x80) << 1
        if first >= _LONG:
            return first
        negative = first < _NEGATIVE
        value = int.from_bytes(self.take((_NEGATIVE if negative else _LONG) - first), "big")
        return ~value if negative else value

    def text(self) -> bytes:
        """Read bytes that come after their number."""
        return self.take(self.number())

    def token(self) -> Token:
        """Read a token."""
        return Token(self.text(), self.text(), self.text(), self.text())

    def take(self, size: int) -> bytes:
        """Read `size` bytes."""
        begin, self._at = self._at, self._at + size
        if size < 0 or self._at > len(self._data):
            raise ValueError("it ends too early")
        return self._data[begin : self._at]

    def rest(self) -> bytes:
        """Return all that is left."""
        return self._data[self._at :]


def _number(value: int) -> bytes:
    """Write a number that is not negative (``writeVInt``)."""
    if value < 1 << 7:
        return bytes([value])
    size = (value.bit_length() + 7) // 8
    return bytes([256 + _LONG - size]) + value.to_bytes(size, "big")


def read_token(text: str) -> Token:
    """Return the token that WebHDFS writes as `text`; ValueError where it is none."""
    if not _is_token(text):
        raise ValueError("it is no token")
    return Reader(binascii.a2b_base64(text.translate({45: "+", 95: "/"}) + "==")).token()


def _is_token(text: object) -> bool:
    if not isinstance(text, str):
        return False
    return text.isascii() and text.replace("-", "").replace("_", "").isalnum()


# In a container.


def current(given: str) -> str:
    """Return the token to ask HDFS with now.

    Parameters
    ----------
    given
        The one that the container was sent; returned where no other one has come.
    """
    folder = os.environ.get(PLACE)
    if folder:
        # With the application its node removes the folder, and what is written last is brought yet.
        with (
            lean.suppress(OSError, ValueError, KeyError, TypeError),
            open(f"{folder}/{TOKEN}", "rb") as file,  # noqa: PTH123 - pathlib is slow
        ):
            _last[folder] = _read(file.read(_LARGEST))[0]
    return _last.get(folder or "", given)


def renewed(query: str) -> str:
    """Return the query of an address in HDFS with the token to ask with now."""
    return "&".join(
        f"{_NAME}{current(pair[len(_NAME) :])}" if pair.startswith(_NAME) else pair
        for pair in query.split("&")
    )


def accept(message: bytes, folder: str, tokens: str) -> None:
    """Take a token of the driver's: whoever asks from now on asks with it.

    Parameters
    ----------
    folder
        The container's.
    tokens
        Hadoop's file of tokens; empty where there is none.

    Raises
    ------
    OSError
        It cannot be written.
    ValueError, KeyError, TypeError
        The message is none.
    """
    text, services = _read(message)
    fresh = read_token(text)
    _write(folder, TOKEN, message)
    if tokens:
        _replace(tokens, fresh, services)


def _read(message: bytes) -> tuple[str, list[str]]:
    told = lean.loads(message.decode())
    text, services = told["token"], told["services"]
    if told["version"] != VERSION or not _is_token(text):
        raise ValueError("it is no message of this release")
    return text, [str(service) for service in services]


def _replace(path: str, fresh: Token, services: Collection[str]) -> None:
    """Put a token in the place of the one for the same services; all others stay as they are."""
    with open(path, "rb") as file:  # noqa: PTH123 - pathlib is slow
        data = file.read()
    if not data.startswith(_HEAD):
        return  # of a release that writes them otherwise
    reader = Reader(data[len(_HEAD) :])
    count = reader.number()
    written = _HEAD + _number(count)
    for _ in range(count):
        alias, token = reader.text(), reader.token()
        if token.kind == KIND and token.service.decode("utf-8", "replace") in services:
            token = Token(fresh.identifier, fresh.password, KIND, token.service)
        written += _number(len(alias)) + alias + token.written()
    folder, _, name = path.rpartition("/")
    _write(folder, name, written + reader.rest())


def _write(folder: str, name: str, data: bytes) -> None:
    """Write a file whole or not at all, for the container's user alone."""
    aside = f"{folder}/.{name}.{os.getpid()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    with open(os.open(aside, flags, 0o600), "wb") as file:  # noqa: PTH123 - a descriptor
        file.write(data)
    os.replace(aside, f"{folder}/{name}")  # noqa: PTH105 - as above
