"""Encrypts and authenticates with the standard library alone: variables and results on YARN.

Variables of a YARN container stand in files that more people can read than may read the job's, so
what is secret in them is encrypted with a key that YARN brings as a file for the user alone.
Results come from pages that anybody could pretend to be, so they are authenticated by a key that
only their container has.

The standard library has no cipher: the stream is SHAKE-256 of key and nonce, and the ciphertext is
authenticated by BLAKE2b, each with a key of its own.
"""

from __future__ import annotations

import os

# The C halves: `hashlib` loads all of OpenSSL before the first line.
try:
    from _blake2 import blake2b
    from _sha3 import shake_256  # type: ignore[import-not-found]
except ImportError:  # another interpreter has them elsewhere
    from hashlib import blake2b, shake_256

TYPE_CHECKING = False  # as type checkers have it; the module takes long to import

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

KEY_FILE = "submarine.key"
"""Lies in a container's working directory, for the user alone: what opens the seal."""

KEY_SIZE = 32
_NONCE = 16
_MARK = 32


class NotGenuineError(ValueError):
    """It was not made with this key, or was changed since."""


def seal(content: bytes, key: bytes) -> bytes:
    """Return `content` as only who has `key` can read it; other bytes each time."""
    nonce = os.urandom(_NONCE)
    hidden = nonce + _hide(content, key, nonce)
    return _mark(hidden, key) + hidden


def unseal(sealed: bytes, key: bytes) -> bytes:
    """Return what `seal` was given.

    Raises
    ------
    NotGenuineError
        It was sealed with another key, or changed since.
    """
    given, hidden = sealed[:_MARK], sealed[_MARK:]
    if len(hidden) < _NONCE or given != _mark(hidden, key):
        raise NotGenuineError("it was sealed with another key, or changed since")
    return _hide(hidden[_NONCE:], key, hidden[:_NONCE])


def attempt_key(key: bytes, job_id: str, task: str, container: str) -> bytes:
    """Return the key that one container marks its files with, made of its job's `key`.

    So what another task of the job has left, or an earlier attempt of this one, is as foreign here
    as what another job has.

    Parameters
    ----------
    job_id, task, container
        What the container runs, and its id on the cluster.
    """
    parts = [part.encode() for part in (job_id, task, container)]
    told = b"".join(b"%d\n%b" % (len(part), part) for part in parts)
    return bytes(blake2b(told, digest_size=KEY_SIZE, key=_purpose(key, b"attempt")).digest())


def mark(name: str, pieces: Iterable[bytes], key: bytes) -> str:
    """Return what proves that who has `key` has written all `pieces` to the file `name`."""
    made = marker(name, key)
    for piece in pieces:
        made.update(piece)
    return str(made.hexdigest())


def marker(name: str, key: bytes) -> Any:  # noqa: ANN401 - as `hashlib` has them
    """Return the hash that `mark` makes of the content that it is updated with.

    Parameters
    ----------
    name, key
        As of `mark`.
    """
    made = blake2b(digest_size=_MARK, key=_purpose(key, b"result"))
    made.update(b"%d\n%b" % (len(name.encode()), name.encode()))
    return made


def _hide(content: bytes, key: bytes, nonce: bytes) -> bytes:
    stream = shake_256(_purpose(key, b"stream") + nonce).digest(len(content))
    both = int.from_bytes(content, "little") ^ int.from_bytes(stream, "little")
    return both.to_bytes(len(content), "little")


def _mark(hidden: bytes, key: bytes) -> bytes:
    return bytes(blake2b(hidden, digest_size=_MARK, key=_purpose(key, b"sealed")).digest())


def _purpose(key: bytes, purpose: bytes) -> bytes:
    return bytes(blake2b(purpose, digest_size=KEY_SIZE, key=key).digest())
