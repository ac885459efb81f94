"""A container's messages in the store of its application's master, on gRPC's own server."""

from __future__ import annotations

import ssl
from concurrent import futures

import grpc
import pytest
import skein
from skein.proto import skein_pb2, skein_pb2_grpc
from submarine_runtime.skein_store import MASTER, Store, key

JOB, CONTAINER = "20250101-000000-abcde", "container_1_2_3"


class MasterDouble(skein_pb2_grpc.AppMasterServicer):
    """A double of the application's master: its store, by skein's own protocol."""

    def __init__(self):
        self.kept = {}
        self.calls = 0

    def PutKey(self, request, context):  # noqa: ARG002, N802 - as gRPC calls it
        self.kept[request.key] = request.value
        return skein_pb2.PutKeyResponse()

    def GetRange(self, request, context):  # noqa: N802 - likewise
        self.calls += 1
        if request.start.endswith("refused"):
            context.abort(grpc.StatusCode.PERMISSION_DENIED, "no")
        found = [
            skein_pb2.KeyValue(key=name, value=value)
            for name, value in sorted(self.kept.items())
            if request.start <= name < request.end
        ]
        return skein_pb2.GetRangeResponse(count=len(found), result=found)


@pytest.fixture
def master(tmp_path, monkeypatch):
    """Give a master on this machine, and its credentials in a folder as skein puts them there."""
    security = skein.Security.new_credentials()
    cert, secret = security._get_bytes("cert"), security._get_bytes("key")
    (tmp_path / ".skein.crt").write_bytes(cert)
    (tmp_path / ".skein.pem").write_bytes(secret)
    server = grpc.server(futures.ThreadPoolExecutor(2))
    double = MasterDouble()
    skein_pb2_grpc.add_AppMasterServicer_to_server(double, server)
    trusted = grpc.ssl_server_credentials([(secret, cert)], cert, require_client_auth=True)
    port = server.add_secure_port("127.0.0.1:0", trusted)
    server.start()
    monkeypatch.setenv(MASTER, f"127.0.0.1:{port}")
    monkeypatch.setenv("CONTAINER_ID", CONTAINER)
    yield double
    server.stop(None).wait()


def test_messages_go_there_and_back(master, tmp_path):
    store = Store(JOB, str(tmp_path))
    assert store.hear("answer.json") is None
    store.say("hello.json", b"{}")
    assert master.kept == {key(JOB, CONTAINER, "hello.json"): b"{}"}
    for data in (b"", b"here", b"\0\xff" * 100, b"x" * 3_000_000):
        master.kept[key(JOB, CONTAINER, "answer.json")] = data
        assert store.hear("answer.json") == data
    master.kept[key(JOB, "another", "other.json")] = b"not mine"
    assert store.hear("other.json") is None
    store.close()


def test_one_connection_takes_as_many_calls_as_it_is_asked(master, tmp_path):
    store = Store(JOB, str(tmp_path))
    master.kept[key(JOB, CONTAINER, "answer.json")] = b"x" * 50_000
    for _ in range(600):  # 30 MB: more than was allowed at once
        assert len(store.hear("answer.json")) == 50_000
    assert master.calls == 600
    store.close()


def test_a_call_that_is_refused_is_an_error_and_the_next_one_is_made(master, tmp_path):
    store = Store(JOB, str(tmp_path))
    with pytest.raises(OSError, match="refuses the call"):
        store.hear("refused")
    store.say("hello.json", b"1")
    assert store.hear("hello.json") == b"1"
    store.close()


def test_a_master_of_another_certificate_is_not_spoken_to(master, tmp_path):
    other = skein.Security.new_credentials()
    (tmp_path / ".skein.crt").write_bytes(other._get_bytes("cert"))
    (tmp_path / ".skein.pem").write_bytes(other._get_bytes("key"))
    with pytest.raises(ssl.SSLError):
        Store(JOB, str(tmp_path)).say("hello.json", b"secret")
    assert master.kept == {}


def test_a_master_that_is_gone_is_an_error(master, tmp_path, monkeypatch):
    monkeypatch.setenv(MASTER, "127.0.0.1:1")
    with pytest.raises(OSError, match="refused"):
        Store(JOB, str(tmp_path)).hear("answer.json")
    assert master.calls == 0
