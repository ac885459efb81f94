"""Whose calls the interpreter takes: those of Zeppelin's user, its own and root's alone."""

from __future__ import annotations

import errno
import os
import pwd
import socket
import subprocess
import sys
import threading
from contextlib import closing

import pytest
from submarine_engine.errors import ConfigError
from submarine_zeppelin import peers
from submarine_zeppelin.peers import Callers, plain_address, uid_of_listener, uid_of_peer
from submarine_zeppelin.wire import Listener

from tests.jobs import until
from tests.zeppelin.talking import PYTHON

NOBODY = 65534
CALL = """
import os, sys
from submarine_zeppelin.wire import IDL, PROTOCOL, TRANSPORT
from thriftpy2.thrift import TClient
from thriftpy2.transport import TSocket
if sys.argv[2] != "-":
    os.setgid(int(sys.argv[2]))
    os.setuid(int(sys.argv[2]))
transport = TRANSPORT.get_transport(TSocket("127.0.0.1", int(sys.argv[1]), socket_timeout=30_000))
transport.open()
client = TClient(IDL.RemoteInterpreterService, PROTOCOL.get_protocol(transport))
try:
    print(client.getFormType("s1", "submarine_zeppelin.Python"))
except Exception as error:
    print(type(error).__name__)
"""


def pair(host, family=socket.AF_INET):
    """Return both ends of a connection: the server's first."""
    with closing(socket.socket(family, socket.SOCK_STREAM)) as listening:
        listening.bind((host, 0))
        listening.listen()
        client = socket.create_connection(("127.0.0.1", listening.getsockname()[1]))
        return listening.accept()[0], client


def call_as(port, uid="-"):
    found = subprocess.run(
        [sys.executable, "-c", CALL, str(port), str(uid)],
        capture_output=True, text=True, timeout=180, check=True,
    )  # fmt: skip
    return found.stdout.strip()


@pytest.mark.parametrize(
    ("host", "family"), [("127.0.0.1", socket.AF_INET), ("::", socket.AF_INET6)], ids=["v4", "v6"]
)
def test_the_user_at_the_other_end_is_known(host, family):
    """Java's sockets are IPv6 ones, on which IPv4 arrives as ``::ffff:127.0.0.1``."""
    server, client = pair(host, family)
    with server, client:
        assert uid_of_peer(server) == os.getuid()
        assert Callers().refusal(server) == ""


def test_what_its_process_has_closed_counts_as_nobodys(monkeypatch):
    """Linux shows a closed socket as root's: sent and closed at once, a call would be root's."""
    server, client = pair("127.0.0.1")
    with server:
        client.sendall(b"x")
        client.close()
        until(lambda: uid_of_peer(server) is None)
        assert "nobody knows whose" in Callers().refusal(server)


def test_who_listens_is_known():
    with socket.socket() as kept:
        kept.bind(("127.0.0.1", 0))
        port = kept.getsockname()[1]
        assert uid_of_listener("127.0.0.1", port) is None  # bound alone, and so nobody else's
        kept.listen()
        assert uid_of_listener("localhost", port) == os.getuid()


def test_of_another_machine_only_zeppelins_address_is_taken(monkeypatch):
    theirs = plain_address("192.0.2.7")
    monkeypatch.setattr(peers, "_addresses", lambda *_: {theirs})
    callers = Callers()
    assert "cannot be known" in callers.zeppelin_is_at("zeppelin.example", 9900)
    own = plain_address("192.0.2.9"), 1
    for other, refused in ((theirs, False), (plain_address("192.0.2.8"), True)):
        monkeypatch.setattr(peers, "_ends", lambda _, other=other: (own, (other, 2)))
        assert bool(callers.refusal(None)) == refused


def test_a_user_that_is_none_is_named():
    with pytest.raises(ConfigError, match="no user 'nosuchuser'"):
        Callers("nosuchuser")
    assert os.getuid() in Callers("root")._uids


def test_another_user_is_refused_by_name(monkeypatch):
    server, client = pair("127.0.0.1")
    with server, client:
        monkeypatch.setattr(os, "getuid", lambda: NOBODY)
        callers = Callers()
        monkeypatch.undo()
        if os.getuid():  # root may always
            assert "a call from 127.0.0.1" in callers.refusal(server)
        callers.zeppelin_is_at(*server.getsockname()[:2])  # nobody listens there
        with socket.create_server(("127.0.0.1", 0)) as zeppelin:
            assert callers.zeppelin_is_at(*zeppelin.getsockname()) == ""
        assert callers.refusal(server) == ""


class Short:
    """A listening socket of a process that has no file left for the first caller."""

    def __init__(self, real):
        self.real, self.left = real, 1

    def __getattr__(self, name):
        return getattr(self.real, name)

    def accept(self):
        if self.left:
            self.left -= 1
            raise OSError(errno.EMFILE, "too many open files")
        return self.real.accept()


def test_it_listens_on_when_it_was_short_of_files_or_threads(monkeypatch):
    listener = Listener("127.0.0.1")
    listener._socket = Short(listener._socket)
    start, left = threading.Thread.start, [1]

    def fails(thread):
        if thread.name != "accept" and left:
            left.pop()
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", fails)
    listener.serve(None, lambda _: None, lambda _: "not you")
    try:
        for _ in range(2):
            with socket.create_connection(("127.0.0.1", listener.port), timeout=180) as caller:
                assert caller.recv(1) == b""
    finally:
        listener.close()
    assert (listener._socket.left, left) == (0, [])
    until(lambda: all(thread.name != "accept" for thread in threading.enumerate()))


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_nobody_of_the_machine_runs_code_here(talk, tmp_path):
    assert call_as(talk.port) == "NATIVE"
    assert call_as(talk.port, NOBODY) != "NATIVE"
    log = tmp_path / "home/zeppelin/logs/submarine-x.log"
    until(lambda: "refused a call from 127.0.0.1" in log.read_text())
    assert f"user {pwd.getpwuid(NOBODY).pw_name}" in log.read_text()
    # It goes on for those who may.
    assert talk.interpret("40 + 2", PYTHON)[1] == [("TEXT", "42\n")]
