"""The last part of a long log, and the budget of bytes that a server lets through."""

from hypothesis import given
from hypothesis import strategies as st
from submarine_engine.logs import Tail
from submarine_magics.frontend import Pace


@given(st.lists(st.text(alphabet="ab\n", max_size=60), max_size=30), st.integers(1, 50))
def test_no_line_is_lost_from_the_count_and_the_text_is_the_end(pieces, limit):
    tail = Tail(limit)
    for piece in pieces:
        tail.add(piece)
    whole = "".join(pieces)
    elided, last = tail.last()
    assert whole.endswith(last)
    assert elided + last.count("\n") == whole.count("\n")


@given(st.lists(st.text(alphabet="ab\n", min_size=1, max_size=60), max_size=50))
def test_what_is_held_does_not_grow_with_the_log(pieces):
    tail = Tail(20)
    for piece in pieces:
        tail.add(piece)
        assert len(tail._text) <= 40 + 60


def test_a_shorter_look_counts_more_lines_as_left_out():
    tail = Tail(1000)
    tail.add("".join(f"line {i}\n" for i in range(10)))
    assert tail.last() == (0, "".join(f"line {i}\n" for i in range(10)))
    assert tail.last(14) == (8, "line 8\nline 9\n")


def test_a_last_line_longer_than_the_limit_keeps_its_end():
    tail = Tail(10)
    tail.add("x" * 100 + "end")
    assert tail.last()[1].endswith("end")


def test_a_bar_overwrites_the_last_line_only():
    tail = Tail(100)
    tail.add("epoch 1\n10%")
    tail.add("\r20%")
    tail.add("\r30%\nepoch 2\n")
    assert tail.last() == (0, "epoch 1\n30%\nepoch 2\n")


class Clock:
    """A clock that only sleeping moves."""

    def __init__(self):
        self.now = 0.0

    def sleep(self, seconds):
        self.now += seconds


@given(st.lists(st.integers(0, 3000), max_size=50))
def test_never_more_than_a_burst_above_the_rate(sizes):
    clock = Clock()
    pace = Pace(1000, 2000, clock=lambda: clock.now, sleep=clock.sleep)
    sent = 0
    for size in sizes:
        pace.take(size)
        sent += size
        assert sent <= 2000 + 1000 * clock.now + 1e-6


def test_a_trickle_never_waits():
    clock = Clock()
    pace = Pace(1000, 2000, clock=lambda: clock.now, sleep=clock.sleep)
    for _ in range(100):
        clock.now += 1
        before = clock.now
        pace.take(900)
        assert clock.now == before
