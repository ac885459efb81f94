"""What a paragraph shows while it runs is sent before its result, or not at all."""

from __future__ import annotations

import json
import socket
import threading
import time
from types import SimpleNamespace

import pytest
from submarine_zeppelin import wire
from submarine_zeppelin.peers import Callers

from tests.jobs import until
from tests.zeppelin.talking import EventServerDouble


class SlowDouble(EventServerDouble):
    """A Zeppelin that takes its time for what a paragraph shows."""

    def __init__(self):
        super().__init__()
        self.asked, self.answers = threading.Event(), threading.Event()
        self.breaks = False

    def updateOutput(self, event):  # noqa: N802 - the wire's
        self.asked.set()
        assert self.answers.wait(60)
        if self.breaks:
            self.breaks = False
            self._open[-1].shutdown(socket.SHUT_RDWR)
        else:
            super().updateOutput(event)


@pytest.fixture
def zeppelin(monkeypatch):
    monkeypatch.setattr(wire, "_PATIENCE", 60_000)
    monkeypatch.setattr(wire, "_CALL_TAKES", 180.0)
    double = SlowDouble()
    yield double
    double.answers.set()
    double.close()


@pytest.fixture
def events(zeppelin):
    events = wire.Events("group", Callers())
    events.connect("127.0.0.1", zeppelin.port)
    return events


def test_a_result_waits_for_what_is_under_way_however_long_that_takes(zeppelin, events):
    shown = events.shown("n1", "p1")
    shown.update(0, "TEXT", "line 1\n")
    assert zeppelin.asked.wait(60)
    shown.append(0, "line 2\n")  # the result has it
    ending = threading.Thread(target=events.over, args=(shown,))
    ending.start()
    until(lambda: shown.over)
    ending.join(1.5)  # longer than it takes to try a Zeppelin again that was away
    assert ending.is_alive()
    zeppelin.answers.set()
    ending.join(60)
    assert not ending.is_alive()
    assert zeppelin.updates == [(0, "TEXT", "line 1\n")]


def test_what_could_not_be_sent_does_not_come_after_the_result(zeppelin, events):
    shown, other = events.shown("n1", "p1"), events.shown("n1", "p2")
    shown.update(0, "TEXT", "line 1\n")
    assert zeppelin.asked.wait(60)
    zeppelin.breaks = True
    ending = threading.Thread(target=events.over, args=(shown,))
    ending.start()
    until(lambda: shown.over)
    zeppelin.answers.set()
    ending.join(60)
    assert not ending.is_alive()
    shown.append(0, "line 2\n")
    other.update(0, "TEXT", "of another\n")
    until(lambda: zeppelin.updates)
    assert zeppelin.updates == [(0, "TEXT", "of another\n")]


def test_what_a_restart_is_ending_takes_nothing_from_the_next_run(zeppelin, events):
    zeppelin.answers.set()
    former = events.shown("n1", "p1")
    shown = events.shown("n1", "p1")
    former.update(0, "TEXT", "the interpreter was restarted\n")
    shown.update(0, "TEXT", "line 1\n")
    events.over(former)
    until(lambda: (0, "TEXT", "line 1\n") in zeppelin.updates)
    assert all("restarted" not in data for _, _, data in zeppelin.updates)


def test_a_page_that_was_late_for_the_first_is_told_to_draw_once_more(
    zeppelin, events, monkeypatch
):
    first, second = wire._DRAW_AFTER
    clock = SimpleNamespace(monotonic=lambda: 100.0, sleep=time.sleep)
    monkeypatch.setattr(wire, "time", clock)
    told = json.dumps({"noteId": "n1", "paraId": "p1"})
    events.draw("n1", "p1")
    clock.monotonic = lambda: 100.0 + first
    until(lambda: zeppelin.links)
    assert zeppelin.links == [told]
    clock.monotonic = lambda: 100.0 + second
    until(lambda: len(zeppelin.links) > 1)
    assert zeppelin.links == [told, told]
