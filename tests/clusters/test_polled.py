"""A cluster is asked once for all who want to know, and never for longer than it says itself."""

from __future__ import annotations

import threading
import time

import pytest
from submarine_engine.clusters.polled import Polled
from submarine_engine.errors import ClusterError
from submarine_engine.testing.jobs import until


class Counter:
    """Answers with how often it was asked."""

    def __init__(self):
        self.asked = 0
        self.broken = False

    def __call__(self):
        self.asked += 1
        if self.broken:
            raise ClusterError("it does not answer")
        return self.asked


def test_many_who_ask_at_once_are_one_question():
    count, begun = Counter(), threading.Barrier(8)
    polled, answers = Polled(count, holds=600.0), []

    def ask():
        begun.wait()
        answers.append(polled.answer())

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [1] * 8


def test_an_answer_to_a_question_from_before_is_none():
    polled = Polled(Counter(), holds=600.0)
    assert polled.answer() == 1
    assert polled.answer(since=time.monotonic()) == 2
    assert polled.answer() == 2


def test_a_hurry_asks_as_soon_as_it_may():
    polled = Polled(Counter(), holds=600.0, soon=lambda answer, _: 600.0 if answer > 1 else -1.0)
    assert polled.answer() == 1
    assert polled.answer(hurry=True) == 2
    assert polled.answer(hurry=True) == 2
    patient = Polled(Counter(), holds=600.0)
    assert [patient.answer(), patient.answer(hurry=True)] == [1, 1]


def test_what_fails_is_asked_again():
    count = Counter()
    count.broken = True
    polled = Polled(count, holds=600.0)
    with pytest.raises(ClusterError):
        polled.answer()
    count.broken = False
    assert polled.answer() == 2


class Slow(Counter):
    """Answers when it may."""

    def __init__(self):
        super().__init__()
        self.begun, self.may = threading.Event(), threading.Event()

    def __call__(self):
        if self.asked:
            self.begun.set()
            assert self.may.wait(180)
        return super().__call__()


@pytest.fixture
def renewed():
    """Give what is being asked for the second time, by a thread, and what answers it."""
    slow = Slow()
    polled, answers = Polled(slow, holds=-1.0, work=0, soon=lambda *_: -1.0), []
    threads = []

    def ask(**options):
        try:
            answers.append(polled.answer(**options))
        except ClusterError as error:
            answers.append(error.what)

    def begin(**options):
        threads.append(threading.Thread(target=ask, kwargs=options))
        threads[-1].start()

    assert polled.answer() == 1
    begin()
    assert slow.begun.wait(180)
    yield polled, slow, begin, answers
    slow.may.set()
    for thread in threads:
        thread.join()


def test_who_is_in_no_hurry_has_the_answer_before_while_somebody_asks(renewed):
    polled, slow, _, answers = renewed
    assert [polled.answer() for _ in range(3)] == [1, 1, 1]
    assert (slow.asked, answers) == (1, [])


@pytest.mark.parametrize("options", [{"hurry": True}, {"since": float("inf")}])
def test_who_needs_a_newer_answer_waits_for_it(renewed, options):
    _, slow, begin, answers = renewed
    begin(**options)
    assert answers == []
    slow.may.set()
    until(lambda: sorted(answers) == [2, 3])


def test_after_a_question_that_failed_nobody_has_the_answer_before(renewed):
    polled, slow, begin, answers = renewed
    slow.broken = True
    slow.may.set()
    until(lambda: answers == ["it does not answer"])
    slow.may.clear()
    slow.begun.clear()
    begin()
    assert slow.begun.wait(180)
    begin()
    slow.broken = False
    slow.may.set()
    until(lambda: len(answers) == 3)
    assert min(answers[1:]) > 1
    assert polled.answer() > 1
