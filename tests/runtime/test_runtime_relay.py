"""Beside a container: questions and notices come by its application's master."""

from __future__ import annotations

import os
import time

import pytest
from submarine_runtime import notices, relay
from submarine_runtime.notices import NOTICE
from submarine_runtime.stacks import ASK, STACKS

from tests.runtime.test_runtime_stacks import begin

__all__ = ["begin"]  # the fixture


@pytest.fixture(autouse=True)
def no_notice(monkeypatch):
    monkeypatch.setattr(notices, "_came_at", [])


class Carrier:
    """Stands in for the store of an application's master."""

    def __init__(self):
        self.asked, self.notice, self.said = None, None, {}

    def hear(self, name):
        return {ASK: self.asked, NOTICE: self.notice}[name]

    def say(self, name, data):
        self.said[name] = data


def test_beside_a_container_each_question_is_brought_once(tmp_path, begin, monkeypatch):
    monkeypatch.setattr(relay, "_EVERY", 0.0)
    process = begin("input()")
    beside = relay.Relay("job", str(tmp_path), process.pid)
    carrier = beside._carrier = Carrier()
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
    process.send_signal(19)  # SIGSTOP: it does not answer
    carrier.asked = b"2"
    beside.step()
    assert carrier.said[STACKS].count(b"\n") == 1
    assert carrier.said[STACKS].startswith(b"cpu ")


def test_beside_a_container_a_notice_is_brought(tmp_path, monkeypatch):
    monkeypatch.setattr(relay, "_EVERY", 0.0)
    beside = relay.Relay("job", str(tmp_path), os.getpid())
    carrier = beside._carrier = Carrier()
    beside.step()
    assert not (tmp_path / NOTICE).exists()
    carrier.notice = b'{"reason": "queue ml preempts", "seconds": 30}'
    beside.step()
    monkeypatch.setenv("SUBMARINE_SAVE", str(tmp_path))
    assert notices.current().reason == "queue ml preempts"


def test_beside_a_container_nothing_is_asked_before_a_while(tmp_path, monkeypatch):
    beside = relay.Relay("job", str(tmp_path), os.getpid())
    monkeypatch.setattr(beside, "_look", lambda: pytest.fail("it is too soon"))
    beside.step()
    monkeypatch.setattr(beside, "_next", time.monotonic())
    with pytest.raises(pytest.fail.Exception):
        beside.step()
