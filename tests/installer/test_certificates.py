"""The certificates of a cluster's https pages: whom they are for, who may read what."""

from __future__ import annotations

import socket
import ssl
import stat
import threading

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509 import load_pem_x509_certificate
from submarine_engine.errors import ClusterError
from submarine_engine.installer import tls
from submarine_engine.installer.java import Java
from submarine_engine.installer.plan import FIRST, ClusterPlan, Layout, Wanted
from submarine_engine.installer.sites import shared_sites, site_xml, write_files


@pytest.fixture
def made(tmp_path):
    """Return the layout of a secure cluster whose files are there, and its plan."""
    layout = Layout(tmp_path, "made")
    java = Java(tmp_path / "gone", 17)
    wanted = Wanted(gpus=1, secure=True)
    plan = ClusterPlan.make(wanted, port=FIRST, java=java, jars=tmp_path / "jars")
    write_files(plan, layout)
    return layout, plan


def greet(layout, folder, name, context):
    """Serve one greeting by the cluster's certificate; return what is read by `context`."""
    kept = tls.server_site(layout)
    key, leaf, more = pkcs12.load_key_and_certificates(
        (layout.tls / "keystore.p12").read_bytes(), kept["ssl.server.keystore.password"].encode()
    )
    plain = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    pem = [key.private_bytes(*plain, serialization.NoEncryption())]
    pem += [one.public_bytes(serialization.Encoding.PEM) for one in (leaf, *more)]
    (folder / "served.pem").write_bytes(b"".join(pem))
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(folder / "served.pem")
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            way, _ = server.accept()
            try:
                with serving.wrap_socket(way, server_side=True) as there:
                    there.sendall(b"welcome")
            except OSError:  # who does not trust it hangs up
                way.close()

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            with (
                socket.create_connection(server.getsockname(), 60) as way,
                context.wrap_socket(way, server_hostname=name) as here,
            ):
                return here.recv(100)
        finally:
            thread.join()


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1"])
def test_who_trusts_the_cluster_is_served_by_its_names(made, tmp_path, name):
    layout, _ = made
    assert greet(layout, tmp_path, name, tls.context(layout)) == b"welcome"


@pytest.mark.parametrize(
    ("name", "own", "words"),
    [("elsewhere.invalid", True, "Hostname mismatch"), ("localhost", False, "unable to get")],
)
def test_no_other_name_and_no_other_authority_holds(made, tmp_path, name, own, words):
    layout, _ = made
    context = tls.context(layout) if own else ssl.create_default_context()
    with pytest.raises(ssl.SSLCertVerificationError) as refused:
        greet(layout, tmp_path, name, context)
    assert words in refused.value.verify_message or "self" in refused.value.verify_message


def test_the_folder_is_the_owners_and_holds_no_key_of_the_authority(made):
    layout, plan = made
    assert stat.S_IMODE(layout.tls.stat().st_mode) == 0o700
    for path in layout.tls.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
        assert b"PRIVATE KEY" not in path.read_bytes()
    root = load_pem_x509_certificate(tls.ca(layout).read_bytes())
    password = tls.server_site(layout)["ssl.server.keystore.password"]
    key = pkcs12.load_pkcs12((layout.tls / "keystore.p12").read_bytes(), password.encode()).key
    assert key.public_key() != root.public_key()
    for name, properties in shared_sites(plan, layout).items():  # what clients and jobs read
        assert password not in site_xml(properties), name


def test_certificates_that_jobs_trust_stay_and_what_was_half_made_is_made_anew(made):
    layout, plan = made
    first = tls.ca(layout).read_bytes()
    write_files(plan, layout)
    assert tls.ca(layout).read_bytes() == first
    tls.ca(layout).unlink()
    write_files(plan, layout)
    second = tls.ca(layout).read_bytes()
    assert second != first


def test_a_cluster_without_certificates_is_told(made):
    layout, _ = made
    tls.ca(layout).unlink()
    with pytest.raises(ClusterError, match="no certificates for its pages") as told:
        tls.context(layout)
    assert told.value.where == str(tls.ca(layout))
    assert "cluster down" in told.value.fix
