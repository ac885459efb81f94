"""What strangers have found at listeners, each as short as it can be."""

from __future__ import annotations

import json
import os
import socket
import struct
import threading
from contextlib import closing, suppress
from functools import partial

import pytest
from submarine_engine.clusters.machine import child_ids
from submarine_magics.card import pages
from submarine_runtime import inside, xgboost_tracker, zygote
from submarine_runtime.channel import BEGIN, REFUSED, VERSION, Channel, wait
from submarine_runtime.lean import dumps
from submarine_zeppelin import calls
from submarine_zeppelin.calls import BadCallError, Calls
from submarine_zeppelin.wire import IDL, PROTOCOL, TRANSPORT, Listener
from thriftpy2.thrift import TClient
from thriftpy2.transport import TSocket

from tests.jobs import until

from .conftest import echoes

HEAD = b"\x80\x01\0\1" + struct.pack(">i", 9) + b"getStatus" + bytes(4)
MOST = struct.pack(">i", (1 << 31) - 1)
SPOILT_CALLS = {
    "a list of elements without a size": HEAD + b"\x0f\0\x63\0" + MOST,
    "a list of no type": HEAD + b"\x0f\0\x63\x63" + MOST,
    "a map of no types": HEAD + b"\x0d\0\x63\0\0" + MOST,
    "a list of less than nothing": HEAD + b"\x0f\0\x63\x0b" + struct.pack(">i", -5),
    "a text of two gigabytes": HEAD + b"\x0b\0\1" + MOST,
    "a text of less than nothing": HEAD + b"\x0b\0\1" + struct.pack(">i", -1 << 31),
    "structs without end": HEAD + b"\x0c\0\1" * 100_000,
    "lists without end": HEAD + b"\x0f\0\1" + b"\x0f\0\0\0\1" * 100_000,
    "a name of two gigabytes": HEAD[:4] + MOST,
    "another protocol": b"GET / HTTP/1.1\r\n\r\n",
    "the protocol of old": struct.pack(">i", 9) + b"getStatus\1" + bytes(5),
}


class Answers:
    """What is asked of an interpreter, as far as these tests ask it."""

    def getStatus(self, _session, job):  # noqa: N802 - the wire's
        return f"{job} is well"


@pytest.fixture
def interpreter():
    listener = Listener("127.0.0.1")
    listener.serve(Answers(), lambda _: None, lambda _: "")
    yield listener
    listener.close()


def status(listener):
    transport = TRANSPORT.get_transport(TSocket("127.0.0.1", listener.port, socket_timeout=60_000))
    transport.open()
    with closing(TClient(IDL.RemoteInterpreterService, PROTOCOL.get_protocol(transport))) as client:
        return client.getStatus("s1", "j1")


@pytest.mark.parametrize("said", SPOILT_CALLS.values(), ids=SPOILT_CALLS)
def test_a_call_that_lies_of_its_measure_is_refused_before_it_is_read(said):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        threading.Thread(target=_say, args=(theirs, said), daemon=True).start()
        with pytest.raises(BadCallError):
            Calls(ours).next()


def _say(connection, said):
    with suppress(OSError):
        connection.sendall(said)


def test_whoever_lies_is_sent_away_and_the_next_one_is_answered(interpreter, capfd):
    for said in (*SPOILT_CALLS.values(), HEAD[:7], HEAD + b"\x0b\0\1"):
        with socket.create_connection(("127.0.0.1", interpreter.port)) as connection:
            connection.settimeout(60)
            with suppress(ConnectionError):  # sent away before all of it was said
                connection.sendall(said)
                with suppress(OSError):  # it has hung up
                    connection.shutdown(socket.SHUT_WR)
                assert connection.recv(100) == b""
        assert status(interpreter) == "j1 is well"
    err = capfd.readouterr().err
    assert "Traceback" not in err
    assert err.count("a call cannot be read: ") == len(SPOILT_CALLS)


def test_calls_follow_one_another_however_they_are_cut():
    ours, theirs = socket.socketpair()
    one, two = HEAD + b"\0", HEAD + b"\x0b\0\1\0\0\0\2hi\x0d\0\2\x0b\x08\0\0\0\1\0\0\0\1k\0\0\0\1\0"
    with ours, theirs:
        came = Calls(ours)
        theirs.sendall(one + two[:20])
        assert came.next() == one
        threading.Thread(target=_say, args=(theirs, two[20:])).start()
        assert came.next() == two
        theirs.close()
        with pytest.raises(EOFError):
            came.next()


def test_a_call_that_does_not_come_to_its_end_is_waited_for_so_long(monkeypatch):
    monkeypatch.setattr(calls, "PATIENCE", 0.2)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(HEAD)
        with pytest.raises(BadCallError, match="not here within"):
            Calls(ours).next()


def test_who_says_half_a_request_and_goes_leaves_nothing_on_the_screen(log_pages, capfd):
    for said in (b"GET /", b"GET / HTTP/1.1\r\nHost", b"\xff" * 100):
        connection = log_pages.connect()
        connection.sendall(said)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()
    log_pages.honest()
    assert capfd.readouterr() == ("", "")


def test_a_request_that_comes_byte_by_byte_is_waited_for_so_long(log_pages, monkeypatch):
    with monkeypatch.context() as hasty:
        hasty.setattr(pages.Handler, "timeout", 0.5)
        with log_pages.connect() as connection:

            def is_sent_away():
                try:
                    connection.sendall(b"x")
                except OSError:
                    return True
                return False

            until(is_sent_away)
    log_pages.honest()


def test_connections_that_are_too_many_are_sent_away(log_pages, monkeypatch):
    monkeypatch.setattr(pages.Handler, "timeout", 600)
    kept = [log_pages.connect() for _ in range(pages._MOST)]
    with log_pages.connect() as one:
        one.settimeout(60)
        assert one.recv(1) == b""
    for connection in kept:
        connection.close()
    until(lambda: _is_answered(log_pages))


def _is_answered(listener):
    try:
        listener.honest()
    except (AssertionError, OSError):
        return False
    return True


def test_who_asks_for_a_tracker_and_says_nothing_takes_no_thread_for_ever(monkeypatch, port):
    monkeypatch.setattr(xgboost_tracker, "_MOST", 3)
    before = threading.active_count()
    xgboost_tracker.Trackers(2, "127.0.0.1", port)._ports.append(4711)
    kept = [socket.create_connection(("127.0.0.1", port)) for _ in range(30)]
    kept[-1].settimeout(60)
    assert kept[-1].recv(1) == b""
    assert threading.active_count() <= before + 1 + 3
    for one in kept:
        one.close()

    def answered():
        try:
            with socket.create_connection(("127.0.0.1", port)) as connection:
                connection.sendall(b"0")
                return connection.recv(20) == b"4711"
        except OSError:  # those that were hung up may still count: the next try is hung up, too
            return False

    until(answered)


def test_a_zygote_outlives_what_is_no_question(zygote_here):
    def is_sent_away(said):
        with suppress(OSError), zygote_here.connect() as connection:
            connection.sendall(struct.pack("!I", len(said)) + said)
            connection.shutdown(socket.SHUT_WR)
            return connection.recv(1) == b""
        return False

    for said in (b"[" * 30_000, b"{", b"\xff", b'{"gpus": 1e999}', b"[]"):
        # Who says nothing for two seconds is sent away before, as on a busy machine.
        until(partial(is_sent_away, said))
    zygote_here.honest()


def test_a_question_that_comes_byte_by_byte_is_waited_for_so_long(monkeypatch):
    monkeypatch.setattr(zygote, "_PATIENCE", 0.2)
    ours, theirs = socket.socketpair()
    over = threading.Event()

    def drip():
        while not over.wait(0.02):
            _say(theirs, b" ")

    with ours, theirs:
        threading.Thread(target=drip).start()
        with pytest.raises(TimeoutError):
            zygote._read(ours, struct.pack("!I", 1 << 20))
        over.set()


@pytest.mark.parametrize("word", ["a\0b", "\ud800", "\0"])
def test_a_word_that_no_program_can_be_given_is_refused_in_words(inside_here, word):
    with closing(Channel(inside_here.connect())) as channel:
        channel.send(BEGIN, dumps({"version": VERSION, "argv": ["echo", word]}).encode())
        found = []
        while not found:
            assert wait(channel, 60)
            found = channel.read()
    assert found[0][0] == REFUSED
    assert b"cannot be run: Invalid argument" in found[0][1]


def test_strangers_take_so_many_processes_and_the_owner_is_let_in_after_them(far, monkeypatch):
    monkeypatch.setattr(inside, "_STRANGERS", 5)
    # On a busy machine the owner's turn comes late: after each of those who have left by then.
    monkeypatch.setattr("submarine_engine.clusters.inside._CONNECT", 120.0)
    monkeypatch.setattr("submarine_engine.clusters.inside.PATIENCE", 180.0)
    task = inside.Task(str(far.place), far.process.pid, {"PATH": os.environ["PATH"]})
    listener = inside.NetworkListener(str(far.place), "asked")
    far.files.inside.write_bytes(inside.announcement(listener))
    server = os.fork()
    if server == 0:
        try:
            inside.serve(task, listener)
        finally:
            os._exit(0)
    listener.close()
    told = json.loads(far.files.inside.read_bytes())
    kept = [socket.create_connection((told["host"], told["port"])) for _ in range(40)]
    until(lambda: len(child_ids(server)) == 5)
    for one in kept:
        one.close()
    until(lambda: not child_ids(server))
    echoes(far.begin(far.credentials, argv=["echo", "well"]))
    far.process.kill()
    os.waitpid(server, 0)
