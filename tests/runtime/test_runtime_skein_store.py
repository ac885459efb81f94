"""A container's messages in the store of its application's master, on gRPC's own server."""

from __future__ import annotations

import ssl

import pytest
import skein
from submarine_runtime.skein_store import MASTER, Store, key

from tests.runtime.skein_master import CONTAINER, JOB


def test_messages_go_there_and_back(master):
    store = Store(JOB, str(master.credentials))
    assert store.hear("answer.json") is None
    store.say("hello.json", b"{}")
    assert master.kept == {key(JOB, CONTAINER, "hello.json"): b"{}"}
    for data in (b"", b"here", b"\0\xff" * 100, b"x" * 3_000_000):
        master.kept[key(JOB, CONTAINER, "answer.json")] = data
        assert store.hear("answer.json") == data
    master.kept[key(JOB, "another", "other.json")] = b"not mine"
    assert store.hear("other.json") is None
    store.close()


def test_a_message_that_is_taken_is_taken_out(master):
    store = Store(JOB, str(master.credentials))
    assert store.take("calls") is None
    master.kept[key(JOB, CONTAINER, "calls")] = b"x" * 600_000
    master.kept[key(JOB, CONTAINER, "calls-taken")] = b"7"
    assert store.take("calls") == b"x" * 600_000
    assert store.take("calls") is None
    assert master.kept == {key(JOB, CONTAINER, "calls-taken"): b"7"}
    store.close()


def test_which_messages_there_are_is_one_call_without_them(master):
    store = Store(JOB, str(master.credentials))
    assert store.names() == set()
    for container, name in ((CONTAINER, "notice.json"), (CONTAINER, "calls"), ("other", "asked")):
        master.kept[key(JOB, container, name)] = b"x" * 1_000_000
    master.kept[key(JOB, f"{CONTAINER}4", "inside-asked.json")] = b"{}"  # its name begins alike
    assert store.names() == {"notice.json", "calls"}
    assert master.calls == 2
    store.close()


def test_one_connection_takes_as_many_calls_as_it_is_asked(master):
    store = Store(JOB, str(master.credentials))
    master.kept[key(JOB, CONTAINER, "answer.json")] = b"x" * 50_000
    for _ in range(600):  # 30 MB: more than was allowed at once
        assert len(store.hear("answer.json")) == 50_000
    assert master.calls == 600
    store.close()


def test_a_call_that_is_refused_is_an_error_and_the_next_one_is_made(master):
    store = Store(JOB, str(master.credentials))
    with pytest.raises(OSError, match="refuses the call"):
        store.hear("refused")
    store.say("hello.json", b"1")
    assert store.hear("hello.json") == b"1"
    store.close()


def test_a_master_of_another_certificate_is_not_spoken_to(master):
    other = skein.Security.new_credentials()
    (master.credentials / ".skein.crt").write_bytes(other._get_bytes("cert"))
    (master.credentials / ".skein.pem").write_bytes(other._get_bytes("key"))
    with pytest.raises(ssl.SSLError):
        Store(JOB, str(master.credentials)).say("hello.json", b"secret")
    assert master.kept == {}


def test_a_master_that_is_gone_is_an_error(master, monkeypatch):
    monkeypatch.setenv(MASTER, "127.0.0.1:1")
    with pytest.raises(OSError, match="refused"):
        Store(JOB, str(master.credentials)).hear("answer.json")
    assert master.calls == 0
