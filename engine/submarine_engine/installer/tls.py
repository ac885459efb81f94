"""The certificates of a cluster's ``https`` pages, of a certificate authority of its own.

Everything is in ``<cluster>/tls``, for its owner alone. The authority signs one certificate, for
this machine's loopback alone, and nobody keeps its key: whoever trusts it trusts that one.
"""

from __future__ import annotations

import ipaddress
import secrets
import ssl
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from submarine_engine.errors import ClusterError
from submarine_engine.extras import install_extra
from submarine_engine.history import write_aside
from submarine_engine.trust import CA_PROPERTY

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

    from submarine_engine.installer.plan import Layout

_NAME, _ADDRESS = "localhost", "127.0.0.1"
_LIFE = timedelta(days=3650)
_BEFORE = timedelta(days=1)  # clocks that were set back
_STORE = "PKCS12"


def ca(layout: Layout) -> Path:
    """Return the authority's certificate (PEM); it is written last, and there when all is.

    Parameters
    ----------
    layout
        The cluster's files.
    """
    return layout.tls / "ca.pem"


def check_installed() -> None:
    """Refuse to go on without the package that makes certificates, in words.

    Raises
    ------
    ClusterError
        It is not installed, or too old.
    """
    try:
        from cryptography.hazmat.primitives.serialization.pkcs12 import (  # noqa: PLC0415 - an extra
            serialize_java_truststore,  # noqa: F401 - the newest thing that is used of it
        )
    except ImportError as error:
        raise ClusterError(
            "the pages of a secure cluster are https, and the package that makes certificates is "
            f"missing or too old: {error.name or 'cryptography'}",
            fix=install_extra("kerberos"),
        ) from error


def make(layout: Layout) -> None:
    """Make the authority, the certificate and Java's stores of both, unless they are there.

    Those that are there stay: jobs that run trust them.

    Parameters
    ----------
    layout
        The cluster's files.

    Raises
    ------
    OSError
        The folder cannot be written.
    """
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - an extra
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization import pkcs12  # noqa: PLC0415

    if ca(layout).exists():
        return
    signing, serving = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    root = _authority(signing)
    leaf = _certificate(serving, root, signing)
    password = secrets.token_urlsafe(24).encode()
    kept = pkcs12.serialize_key_and_certificates(
        _NAME.encode(), serving, leaf, [root], serialization.BestAvailableEncryption(password)
    )
    # Without a password: nothing in it is secret, and Java asks for none to read it.
    trusted = pkcs12.serialize_java_truststore(
        [pkcs12.PKCS12Certificate(root, b"ca")], serialization.NoEncryption()
    )
    write_aside(_password(layout), password)
    write_aside(_keystore(layout), kept)
    write_aside(_truststore(layout), trusted)
    write_aside(ca(layout), root.public_bytes(serialization.Encoding.PEM))


def server_site(layout: Layout) -> dict[str, str]:
    """Return ``ssl-server.xml``, which daemons alone read: there is a password in it.

    Parameters
    ----------
    layout
        The cluster's files.

    Raises
    ------
    OSError
        `make` has not made the stores.
    """
    password = _password(layout).read_text()
    return {
        "ssl.server.keystore.location": str(_keystore(layout)),
        "ssl.server.keystore.type": _STORE,
        "ssl.server.keystore.password": password,
        "ssl.server.keystore.keypassword": password,
    }


def sites(layout: Layout) -> dict[str, dict[str, str]]:
    """Return what daemons and Hadoop's clients have to know of ``https``, by file.

    Parameters
    ----------
    layout
        The cluster's files.
    """
    return {
        "core-site.xml": {CA_PROPERTY: str(ca(layout))},
        "hdfs-site.xml": {"dfs.http.policy": "HTTPS_ONLY"},
        "yarn-site.xml": {"yarn.http.policy": "HTTPS_ONLY"},
        "ssl-client.xml": {
            "ssl.client.truststore.location": str(_truststore(layout)),
            "ssl.client.truststore.type": _STORE,
        },
    }


def context(layout: Layout) -> ssl.SSLContext:
    """Return what the cluster's pages are checked with.

    Parameters
    ----------
    layout
        The cluster's files.

    Raises
    ------
    ClusterError
        There is no such certificate.
    """
    try:
        return ssl.create_default_context(cafile=str(ca(layout)))
    except OSError as error:  # of a cluster that was begun by http, for one
        raise ClusterError(
            f"the cluster has no certificates for its pages: {error.strerror or error}",
            where=str(ca(layout)),
            fix="`submarine cluster down`, then up",
        ) from error


def _password(layout: Layout) -> Path:
    return layout.tls / "keystore.password"


def _keystore(layout: Layout) -> Path:
    return layout.tls / "keystore.p12"


def _truststore(layout: Layout) -> Path:
    return layout.tls / "truststore.p12"


def _authority(key: EllipticCurvePrivateKey) -> x509.Certificate:
    """Return an authority that may certify this machine's loopback alone."""
    from cryptography import x509  # noqa: PLC0415 - an extra
    from cryptography.hazmat.primitives import hashes  # noqa: PLC0415

    own = ipaddress.ip_network(_ADDRESS)
    constraints = x509.NameConstraints([x509.DNSName(_NAME), x509.IPAddress(own)], None)
    return (
        _begun("A cluster of one's own", key)
        .issuer_name(_named("A cluster of one's own"))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .add_extension(constraints, critical=True)
        .sign(key, hashes.SHA256())
    )


def _certificate(
    key: EllipticCurvePrivateKey, root: x509.Certificate, signing: EllipticCurvePrivateKey
) -> x509.Certificate:
    """Return the certificate of all of the cluster's pages."""
    from cryptography import x509  # noqa: PLC0415 - an extra
    from cryptography.hazmat.primitives import hashes  # noqa: PLC0415
    from cryptography.x509.oid import ExtendedKeyUsageOID  # noqa: PLC0415

    names = [x509.DNSName(_NAME), x509.IPAddress(ipaddress.ip_address(_ADDRESS))]
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(signing.public_key())
    served = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    return (
        _begun(_NAME, key)
        .issuer_name(root.subject)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(served, critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(issuer, critical=False)
        .sign(signing, hashes.SHA256())
    )


def _begun(name: str, key: EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    from cryptography import x509  # noqa: PLC0415 - an extra

    now = datetime.now(timezone.utc)
    own = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    return (
        x509.CertificateBuilder()
        .subject_name(_named(name))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BEFORE)
        .not_valid_after(now + _LIFE)
        .add_extension(own, critical=False)
    )


def _named(name: str) -> x509.Name:
    from cryptography import x509  # noqa: PLC0415 - an extra

    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])


def _usage(*, signs: bool) -> x509.KeyUsage:
    from cryptography import x509  # noqa: PLC0415 - an extra

    return x509.KeyUsage(
        digital_signature=not signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )
