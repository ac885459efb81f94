"""Beside a container: questions and notices come by its application's master."""

from __future__ import annotations

import base64
import json
import os
import signal
import time

import pytest
from submarine_runtime import notices, peer_failed, relay
from submarine_runtime.call_frames import CALLS, TAKEN, part
from submarine_runtime.delegation import TOKEN, current
from submarine_runtime.notices import NOTICE
from submarine_runtime.sealing import KEY_FILE, KEY_SIZE, seal
from submarine_runtime.stacks import ASK, STACKS

from tests.runtime.test_runtime_stacks import begin

__all__ = ["begin"]  # the fixture


@pytest.fixture(autouse=True)
def no_notice(monkeypatch):
    monkeypatch.setattr(notices, "_came_at", [])


class Carrier:
    """Stands in for the store of an application's master."""

    def __init__(self):
        self.asked, self.notice, self.failed, self.said = None, None, None, {}
        self.parts, self.tokens = [], []
        self.calls = 0

    @property
    def kept(self):
        return {ASK: self.asked, NOTICE: self.notice, peer_failed.ASK: self.failed}

    def names(self):
        self.calls += 1
        tokens = {TOKEN} if self.tokens else set()
        return tokens | {name for name, told in self.kept.items() if told is not None}

    def hear(self, name):
        self.calls += 1
        return self.kept.get(name)

    def take(self, name):
        kept = {CALLS: self.parts, TOKEN: self.tokens}[name]
        return kept.pop(0) if kept else None

    def say(self, name, data):
        self.said[name] = data


def test_beside_a_container_each_question_is_brought_once(tmp_path, begin, monkeypatch):
    monkeypatch.setattr(relay, "_EVERY", 0.0)
    monkeypatch.setattr(relay, "_PATIENCE", 60.0)
    process = begin("input()")
    beside = relay.Relay("job", str(tmp_path), process.pid)
    carrier = beside._store = Carrier()
    beside.step()
    assert carrier.said == {}
    carrier.asked = b"1"
    beside.step()
    first, _, rest = carrier.said.pop(STACKS).partition(b"\n")
    seconds, moved = first.removeprefix(b"cpu ").split(b" io ")
    assert float(seconds) >= 0
    assert int(moved) > 0
    assert b"most recent call first" in rest
    beside.step()
    assert carrier.said == {}
    process.send_signal(signal.SIGSTOP)
    os.waitpid(process.pid, os.WUNTRACED)  # now all its threads stand: it does not answer
    monkeypatch.setattr(relay, "_PATIENCE", 1.5)
    carrier.asked = b"2"
    beside.step()
    assert carrier.said[STACKS].count(b"\n") == 1
    assert carrier.said[STACKS].startswith(b"cpu ")


def test_beside_a_container_a_notice_is_brought(tmp_path, monkeypatch):
    monkeypatch.setattr(relay, "_EVERY", 0.0)
    beside = relay.Relay("job", str(tmp_path), os.getpid())
    carrier = beside._store = Carrier()
    beside.step()
    assert not (tmp_path / NOTICE).exists()
    carrier.notice = b'{"reason": "queue ml preempts", "seconds": 30}'
    beside.step()
    monkeypatch.setenv("SUBMARINE_SAVE", str(tmp_path))
    assert notices.current().reason == "queue ml preempts"


def token(word, key=b"k" * KEY_SIZE):
    """Return a message with a token of HDFS, as the driver seals it."""
    text = base64.urlsafe_b64encode(b"\4%b\1x\1y\1z" % word).decode().rstrip("=")
    return text, seal(json.dumps({"version": 1, "token": text, "services": []}).encode(), key)


def test_beside_a_container_a_token_takes_the_place_of_another(tmp_path, monkeypatch):
    monkeypatch.setattr(relay, "_EVERY", 0.0)
    monkeypatch.setenv("SUBMARINE_SAVE", str(tmp_path))
    (tmp_path / KEY_FILE).write_bytes(b"k" * KEY_SIZE)
    beside = relay.Relay("job", str(tmp_path), os.getpid())
    carrier = beside._store = Carrier()
    beside.step()
    assert current("first") == "first"
    for word in b"next", b"last":
        text, message = token(word)
        carrier.tokens = [message]
        beside.step()
        assert current("first") == text
        assert carrier.tokens == []
    for wrong in token(b"evil", b"x" * KEY_SIZE)[1], b"", b"no seal":
        carrier.tokens = [wrong]
        beside.step()
        assert current("first") == text
        assert carrier.tokens == []


def test_beside_a_container_a_token_is_kept_until_it_can_be_written(tmp_path, monkeypatch):
    monkeypatch.setattr(relay, "_EVERY", 0.0)
    monkeypatch.setenv("SUBMARINE_SAVE", str(tmp_path))
    beside = relay.Relay("job", str(tmp_path), os.getpid())
    carrier = beside._store = Carrier()
    text, message = token(b"next")
    carrier.tokens = [message]
    beside.step()  # there is no key yet, as on a disk that cannot be read now
    assert current("first") == "first"
    (tmp_path / KEY_FILE).write_bytes(b"k" * KEY_SIZE)
    beside.step()
    assert current("first") == text


def test_beside_a_container_anothers_failure_is_brought_to_who_can_hear_of_it(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(relay, "_EVERY", 0.0)
    beside = relay.Relay("job", str(tmp_path), os.getpid())
    carrier = beside._store = Carrier()
    carrier.failed = b"{}"
    beside.step()  # it has not begun, or has no peers
    (tmp_path / peer_failed.ASKED).mkdir()
    beside.step()
    assert (tmp_path / peer_failed.ASK).read_bytes() == b"{}"


def test_beside_a_container_nothing_is_asked_before_a_while(tmp_path, monkeypatch):
    monkeypatch.setattr(relay, "_EVERY", 3600.0)
    beside = relay.Relay("job", str(tmp_path), os.getpid())
    monkeypatch.setattr(beside, "_poll", lambda: pytest.fail("it is too soon"))
    beside.step()
    monkeypatch.setattr(beside, "_next", time.monotonic())
    with pytest.raises(pytest.fail.Exception):
        beside.step()


def test_beside_a_container_one_call_tells_that_nobody_asks(tmp_path, monkeypatch):
    monkeypatch.setattr(relay, "_EVERY", 0.0)
    (tmp_path / peer_failed.ASKED).mkdir()
    beside = relay.Relay("job", str(tmp_path), os.getpid())
    carrier = beside._store = Carrier()
    for _ in range(10):
        monkeypatch.setattr(beside, "_next", 0.0)
        beside.step()
    assert carrier.calls == 10
    carrier.notice = b"{}"
    for _ in range(10):  # once heard, it is not asked for again
        monkeypatch.setattr(beside, "_next", 0.0)
        beside.step()
    assert carrier.calls == 21


def test_of_many_tasks_each_looks_less_often(tmp_path):
    one, some, many = (
        relay.Relay("job", str(tmp_path), os.getpid(), peers=peers)._every
        for peers in (1, 50, 1000)
    )
    assert one == some <= 0.5  # who would go into a task waits for it, and a second at most
    assert 1000 / many <= 200  # calls a second of the one master


def test_beside_a_worker_its_calls_are_brought_and_kept_until_they_are_written(tmp_path):
    assert relay.Relay("job", str(tmp_path), os.getpid()).carry(7.0) == 7.0  # no worker's
    there = tmp_path / "there"
    beside = relay.Relay("job", str(there), os.getpid(), calls=True)
    carrier = beside._store = Carrier()
    rests = [beside.carry(7.0) for _ in range(20)]
    assert rests == sorted(rests)
    assert rests[-1] < 0.5
    carrier.parts = [part(0, b"one"), part(0, b"one two")]
    beside.carry(7.0)  # there is no folder: it could not be written
    assert (carrier.said, len(carrier.parts)) == ({}, 1)
    there.mkdir()
    assert beside.carry(7.0) < rests[-1]
    assert carrier.said == {TAKEN: b"3"}
    beside.carry(7.0)
    assert (carrier.said, (there / CALLS).read_bytes()) == ({TAKEN: b"7"}, b"one two")
