"""Whose certificates Hadoop's ``https`` pages may have, and the words where they have others.

Both `clusters.yarn` and `installer` need it, and neither loads the other. Its words name YARN's
setting ``yarn_ca``: no other cluster is reached by pages whose CA somebody has to name here.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator
from pathlib import Path

from submarine_engine.errors import ClusterError, ConfigError

CA_PROPERTY = "submarine.yarn.ca"
"""Property of Hadoop's configuration by which a cluster's owner names its CA to our own clients."""

_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


def tls_context(ca: str) -> ssl.SSLContext:
    """Return what a page's certificate and name are checked with.

    Parameters
    ----------
    ca
        A file of certificates (PEM), or a folder of them as OpenSSL has it; empty for those that
        this machine trusts.

    Raises
    ------
    ConfigError
        There is none in it, or it cannot be read.
    """
    try:
        if ca and Path(ca).is_dir():
            return ssl.create_default_context(capath=ca)
        return ssl.create_default_context(cafile=ca or None)
    except OSError as error:  # SSLError is one
        raise _unusable(ca, str(error.strerror or error)) from error


def certificates(ca: str) -> bytes:
    """Return the certificates in `ca`, a file or folder, as one file (PEM), and nothing else of it.

    Raises
    ------
    ConfigError
        There is none in it, or it cannot be read.
    """
    place = Path(ca)
    try:
        files = sorted(place.iterdir()) if place.is_dir() else [place]
        found = [one for file in files if file.is_file() for one in _within(file)]
    except OSError as error:
        raise _unusable(ca, str(error.strerror or error)) from error
    if not found:
        raise _unusable(ca, "none is in it")
    return b"".join(one + b"\n" for one in dict.fromkeys(found))


def _within(file: Path) -> list[bytes]:
    return _CERTIFICATE.findall(file.read_bytes())


def _unusable(ca: str, why: str) -> ConfigError:
    return ConfigError(
        f"there are no certificates that can be used: {why}",
        where=ca,
        fix="let yarn_ca name a file with the CA's certificates, as PEM (-----BEGIN "
        "CERTIFICATE-----); the cluster's owner has it",
    )


def untrusted(error: BaseException, where: str) -> ClusterError | None:
    """Return the error of a page whose certificate does not hold; None where it is another one."""
    for found in _causes(error):
        if isinstance(found, ssl.SSLCertVerificationError):
            return ClusterError(
                f"its certificate does not hold here: {found.verify_message or found.reason}",
                where=where,
                fix="let yarn_ca name the file of the CA that the cluster's certificates are of "
                "(PEM; its owner has it); nothing is sent to who cannot show one",
            )
    return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and its causes: `requests` and `urllib3` wrap theirs in arguments."""
    seen: set[int] = set()
    left: list[object] = [error]
    while left:
        one = left.pop()
        if not isinstance(one, BaseException) or id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        left += [one.__cause__, one.__context__, getattr(one, "reason", None), *one.args]
