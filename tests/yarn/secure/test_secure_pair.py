"""A pair of ResourceManagers that ask for Kerberos: who is asked, who hears it, and a fail-over."""

from __future__ import annotations

import shutil
import ssl
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12
from submarine_engine import Job, kerberos
from submarine_engine.clusters.yarn.hadoop import load_hadoop
from submarine_engine.clusters.yarn.rest import ResourceManager, new_session
from submarine_engine.errors import ClusterError, KerberosError
from submarine_engine.installer import tls

from tests.hadoop import use
from tests.jobs import end_processes_of, until
from tests.yarn.kills.ground import Ground
from tests.yarn.kills.pair import Pair

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def pair(home_of_its_own):
    pair = Pair(home_of_its_own, secure=True)
    yield pair
    pair.cluster.down()


@pytest.fixture
def on_pair(pair, monkeypatch):
    """Give the pair with the environment set for it, and the first one active."""
    use(pair.yarn, monkeypatch)
    for name in pair.webs:
        if pair.daemon(name).pid is None:
            pair.start(name)
    yield pair
    kerberos.log_in(None)


@pytest.fixture
def ground(on_pair, tmp_path, monkeypatch):
    home = tmp_path / "jobs-home"
    monkeypatch.setenv("SUBMARINE_HOME", str(home))
    ground = Ground(on_pair.yarn, home, tmp_path)
    yield ground
    ground.end()
    shutil.rmtree(home, ignore_errors=True)
    end_processes_of(home, patience=5)


class RedirectingDouble(ThreadingHTTPServer):
    """A page of `https` that sends everybody on; what it was asked with is in `heard`."""

    daemon_threads = True

    def __init__(self, layout, to="") -> None:
        self.heard: list[str] = []
        self.to = to
        super().__init__(("127.0.0.1", 0), _Redirect)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(_certificate(layout))
        self.socket = context.wrap_socket(self.socket, server_side=True)
        self.url = f"https://localhost:{self.server_port}"


class _Redirect(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.heard.append(self.headers.get("Authorization", ""))
        if self.server.to:
            self.send_response(307)
            self.send_header("Location", f"{self.server.to}{self.path}")
        else:
            self.send_response(401)
            self.send_header("WWW-Authenticate", "Negotiate")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_) -> None:
        """Say nothing."""


def _certificate(layout):
    """Return the file of the cluster's own certificate and key, as Python's servers read it."""
    path = layout.tmp / "double.pem"
    key, leaf, _ = pkcs12.load_key_and_certificates(
        tls._keystore(layout).read_bytes(), tls._password(layout).read_bytes()
    )
    plain = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8)
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(*plain, serialization.NoEncryption())
        + leaf.public_bytes(serialization.Encoding.PEM)
    )
    return path


@contextmanager
def redirecting(layout, to=""):
    double = RedirectingDouble(layout, to)
    threading.Thread(target=double.serve_forever, daemon=True).start()
    try:
        yield double
    finally:
        double.shutdown()
        double.server_close()


def in_order(rm, *urls):
    rm._urls = list(urls)
    return rm


def test_a_standby_is_passed_over_with_a_proof_for_each(on_pair):
    on_pair.activate("rm1")
    active, standby = on_pair.webs["rm1"], on_pair.webs["rm2"]
    rm = in_order(ResourceManager(load_hadoop()), standby, active)
    assert [node["state"] for node in rm.nodes()] == ["RUNNING"]
    assert rm.url == active
    with new_session(load_hadoop()) as session:
        sent = session.get(f"{standby}/ws/v1/cluster/nodes", allow_redirects=False)
    assert sent.status_code == 307
    assert sent.headers["Location"].startswith(active)


def test_a_ticket_goes_to_no_host_beside_the_pair(on_pair):
    on_pair.activate("rm1")
    active, layout = on_pair.webs["rm1"], on_pair.cluster.layout
    conf = load_hadoop()
    with redirecting(layout) as stranger, redirecting(layout, stranger.url) as first:
        # One that sends on, and cannot prove who it is, is not believed: the other is asked.
        rm = in_order(ResourceManager(conf), first.url, active)
        assert len(rm.nodes()) == 1
        assert (len(first.heard), stranger.heard) == (1, [])
        with pytest.raises(KerberosError, match="has not proven by Kerberos"):
            in_order(ResourceManager(conf), first.url).nodes()
        assert stranger.heard == []
        # A session that does follow, as a NameNode's to its DataNodes, says nobody's name there.
        with new_session(conf) as session:
            session.auth = _trusting(session.auth)
            answer = session.get(f"{first.url}/webhdfs/v1/?op=OPEN")
        assert answer.status_code == 401
        assert stranger.heard == [""]


def _trusting(auth):
    """Let an answer pass that is not proven, so that it is followed."""

    def prove(request):
        prepared = auth(request)
        ((checks,),) = (prepared.hooks["response"],)

        def passes(response, **options):
            return response if response.is_redirect else checks(response, **options)

        prepared.hooks["response"] = [passes]
        return prepared

    return prove


def test_a_job_goes_on_while_a_secure_pair_changes_over(on_pair, ground):
    on_pair.activate("rm1")
    job = ground.submit().until_running().until_further()
    [master] = ground.alive()
    on_pair.daemon("rm1").kill()
    with pytest.raises(ClusterError, match=r"is active: https\S+ on standby; https\S+ does not"):
        ground.rm.nodes()
    job.until_further()
    on_pair.activate("rm2")
    until(lambda: ground.alive() == [master] and ground.gpus_in_use() == 1)
    assert ground.rm.url == on_pair.webs["rm2"]
    story = job.until_further().follow_to_end()
    assert Job(ground.seam, job.id).results().value == int(story.out.rpartition("end ")[2])
    ledger = story.status.ledger
    assert ledger.seconds(story.status.finished)["busy"] > 0
    assert ledger.released_after is not None
    ground.until_free()
    # The warm master has found its way to the other one, with its own token for either.
    on_pair.start("rm1")
    ground.submit().until_running().follow_to_end()
    assert ground.alive() == [master]
    ground.submit(mode="cold").until_running().follow_to_end()
    ground.until_free()


def test_nobody_active_and_nobody_there_is_said(on_pair, tmp_path, monkeypatch):
    on_pair.put_by("rm1")
    on_pair.put_by("rm2")
    rm = ResourceManager(load_hadoop())
    with pytest.raises(ClusterError, match="no ResourceManager is active") as waits:
        rm.nodes()
    for url in on_pair.webs.values():
        assert url in waits.value.what
    assert waits.value.what.endswith("on standby")
    assert "getAllServiceState" in waits.value.fix
    for name in on_pair.webs:
        on_pair.daemon(name).kill()
    with pytest.raises(
        ClusterError, match=r"is active: https\S+ and https\S+ do not answer"
    ) as gone:
        rm.nodes()
    assert "submarine doctor" in gone.value.fix
    # Who has no ticket hears that first.
    on_pair.start("rm1")
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path / 'nothing'}")
    with pytest.raises(KerberosError, match="no Kerberos ticket") as barred:
        rm.nodes()
    assert "kinit" in barred.value.fix
