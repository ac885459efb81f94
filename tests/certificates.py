"""Certificates for servers of tests that speak TLS."""

from __future__ import annotations

import ipaddress
from datetime import datetime, timedelta, timezone

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def certificate(folder, address="127.0.0.1"):
    """Write a certificate that is its own CA's, and its key; return the file of both."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a cluster's own")])
    now = datetime.now(timezone.utc)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))]),
            critical=False,
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    plain = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    both = key.private_bytes(*plain, serialization.NoEncryption())
    (folder / "both.pem").write_bytes(both + made.public_bytes(serialization.Encoding.PEM))
    (folder / "ca.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    return folder / "ca.pem"
