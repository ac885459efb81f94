"""A cluster is asked once for all who want to know, and never for longer than it says itself."""

from __future__ import annotations

import threading
import time

import pytest
from submarine_engine.clusters.polled import Polled
from submarine_engine.errors import ClusterError


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
