"""A file comes from HDFS with the standard library alone, whole or not at all."""

from __future__ import annotations

import hashlib
import ssl
import stat
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from submarine_runtime import webhdfs
from submarine_runtime.saving import PLACE
from submarine_runtime.ship import WebFolder

from tests.certificates import certificate

DATA = b"payload" * 1000
WHO = "delegation=SECRET"


class FakeWebHDFS(BaseHTTPRequestHandler):
    """A NameNode that sends on to a DataNode, which is itself, as WebHDFS does."""

    asked: list[str]
    failures: int

    def do_GET(self):
        type(self).asked.append(self.path)
        if self.path.startswith("/webhdfs/v1/missing"):
            self.answer(404, b'{"RemoteException":{"message":"File not found"}}')
        elif self.path.startswith("/webhdfs/v1/short"):
            self.answer(200, DATA[:100], length=len(DATA))
        elif self.path.startswith("/webhdfs/v1/busy") and self.failures:
            type(self).failures -= 1
            self.answer(503, b"later")
        elif "data=1" in self.path:
            self.answer(200, DATA)
        else:
            self.send_response(307)
            self.send_header("Location", f"{self.path}&data=1")
            self.send_header("Content-Length", "0")
            self.end_headers()

    def answer(self, code, body, length=None):
        self.send_response(code)
        self.send_header("Content-Length", str(length or len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    FakeWebHDFS.asked, FakeWebHDFS.failures = [], 2
    with ThreadingHTTPServer(("127.0.0.1", 0), FakeWebHDFS) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/webhdfs/v1"
        server.shutdown()
        thread.join()


def test_it_follows_to_the_datanode(server, tmp_path):
    path = tmp_path / "got"
    digest = hashlib.sha256(DATA).hexdigest()
    webhdfs.fetch(f"{server}/x?op=OPEN&{WHO}", str(path), digest)
    assert path.read_bytes() == DATA
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]


@pytest.fixture
def by_https(tmp_path):
    """Give the same by https, and the file of its CA."""
    ca = certificate(tmp_path)
    FakeWebHDFS.asked, FakeWebHDFS.failures = [], 2
    with ThreadingHTTPServer(("127.0.0.1", 0), FakeWebHDFS) as server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tmp_path / "both.pem")
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"https://127.0.0.1:{server.server_port}/webhdfs/v1", ca
        server.shutdown()
        thread.join()


def test_by_https_who_the_containers_ca_certifies_is_asked(by_https, tmp_path, monkeypatch):
    address, ca = by_https
    container = tmp_path / "container"
    container.mkdir()
    monkeypatch.setenv(PLACE, str(container))
    (container / webhdfs.CA_FILE).write_bytes(ca.read_bytes())
    webhdfs.fetch(f"{address}/x?op=OPEN", str(tmp_path / "got"))
    assert (tmp_path / "got").read_bytes() == DATA
    asked = len(FakeWebHDFS.asked)

    another = tmp_path / "another"
    another.mkdir()
    monkeypatch.setenv(PLACE, str(another))
    with pytest.raises(OSError, match="CERTIFICATE_VERIFY_FAILED") as caught:
        webhdfs.fetch(f"{address}/x?op=OPEN&{WHO}", str(tmp_path / "none"))
    assert "SECRET" not in str(caught.value)
    assert len(FakeWebHDFS.asked) == asked


def test_what_is_written_last_is_brought_when_the_containers_folder_is_gone(
    by_https, tmp_path, monkeypatch
):
    address, ca = by_https
    container = tmp_path / "container"
    container.mkdir()
    monkeypatch.setenv(PLACE, str(container))
    (container / webhdfs.CA_FILE).write_bytes(ca.read_bytes())
    folder = WebFolder(f"{address}/logs?op=OPEN&{WHO}")
    (container / webhdfs.CA_FILE).unlink()
    with pytest.raises(OSError, match="501"):  # it was asked; this server takes no files
        folder.create("stdout", b"last words")


def test_the_second_namenode_is_asked_where_the_first_is_silent(server, tmp_path):
    webhdfs.fetch(f"http://127.0.0.1:1/x?op=OPEN {server}/x?op=OPEN", str(tmp_path / "got"))
    assert (tmp_path / "got").read_bytes() == DATA


def test_a_busy_namenode_is_asked_again(server, tmp_path):
    webhdfs.fetch(f"{server}/busy?op=OPEN", str(tmp_path / "got"))
    assert (tmp_path / "got").read_bytes() == DATA
    assert len(FakeWebHDFS.asked) == 4


@pytest.mark.parametrize(
    ("name", "digest", "words"),
    [
        ("missing", "", "404 .*File not found"),
        ("short", "", "6900 bytes are missing"),
        ("x", "0" * 64, "SHA-256 differs"),
    ],
)
def test_what_fails_is_said_without_the_token(server, tmp_path, name, digest, words):
    path = tmp_path / "got"
    with pytest.raises(OSError, match=words) as caught:
        webhdfs.fetch(f"{server}/{name}?op=OPEN&{WHO}", str(path), digest)
    assert f"{server}/{name}" in str(caught.value)
    assert "SECRET" not in str(caught.value)
    assert not path.exists()
