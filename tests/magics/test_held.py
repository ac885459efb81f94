"""The traceback that a job ends by is kept back from the cell, and nothing else is."""

from types import SimpleNamespace

import pytest
from submarine_engine.events import Display
from submarine_magics.stream import HeldTraceback

ONE = "Traceback (most recent call last):\n  File 'x'\n    f()\nKeyError: 1\n"
TWO = "Traceback (most recent call last):\n  File 'x'\n    g()\nlib.LibError: two\nlines\n"
GROUP = """\
  + Exception Group Traceback (most recent call last):
  |   File 'x'
  | ExceptionGroup: many
  | lines (2 sub-exceptions)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File 'x'
    | ValueError: a
    +---------------- 2 ----------------
    | Exception Group Traceback (most recent call last):
    |   File 'x'
    | ExceptionGroup: in (1 sub-exception)
    +-+---------------- 1 ----------------
      | TypeError: b
      +------------------------------------
"""
MANY = "ExceptionGroup: many\nlines (2 sub-exceptions)"
DURING = "\nDuring handling of the above exception, another exception occurred:\n\n"


class Written:
    def __init__(self):
        self.texts = []

    def text(self, _task, stream, text):
        self.texts.append((stream, text))

    def display(self, item):
        self.texts.append(item)

    @property
    def all(self):
        return "".join(text for _, text in self.texts)


@pytest.fixture
def written():
    return Written()


@pytest.fixture
def held(written):
    return HeldTraceback(written)


@pytest.mark.parametrize(
    ("errors", "summary", "shown"),
    [
        (ONE, "KeyError: 1", ""),
        ("50%|#" + ONE, "KeyError: 1", "50%|#"),
        (ONE + DURING + TWO, "LibError: two\nlines", ""),
        (ONE + TWO, "LibError: two\nlines", ONE),
        (ONE + "from a hook\n", "KeyError: 1", "from a hook\n"),
        (ONE + "→ mend that\nfrom a hook\n", "KeyError: 1", "from a hook\n"),
        (ONE, "ValueError: 1", ONE),
        (ONE, "", ONE),
        (GROUP, MANY, ""),
        (ONE + DURING + GROUP + "from a hook\n", MANY, "from a hook\n"),
        (GROUP + ONE, "KeyError: 1", GROUP),
        ("worker-0 | " + ONE, "KeyError: 1", "worker-0 | " + ONE),
        (
            "\x1b[36mworker-0 | \x1b[0m" + ONE,
            "KeyError: 1",
            "\x1b[36mworker-0 | \x1b[0m" + ONE,
        ),
    ],
)
def test_only_the_traceback_of_the_end_is_left_out(held, written, errors, summary, shown):
    held.text("worker-0", "stderr", errors)
    held.drop(summary)
    assert written.all == shown


def test_the_notes_of_the_error_are_left_out_with_it(held, written):
    held.text("worker-0", "stderr", ONE + "a note\nof two lines\nfrom a hook\n")
    held.drop("KeyError: 1", ("a note\nof two lines", "not written"))
    assert written.all == "from a hook\n"


def test_what_comes_after_it_keeps_its_order(held, written):
    held.text("worker-0", "stdout", "before\n")
    held.text("worker-0", "stderr", ONE)
    held.text("worker-0", "stdout", "after\n")
    assert written.all == "before\n"
    held.release()
    assert written.all == f"before\n{ONE}after\n"
    held.text("worker-0", "stdout", "live\n")
    assert written.all.endswith("live\n")


def test_a_traceback_that_comes_in_pieces_is_one(held, written):
    for line in ONE.splitlines(keepends=True):
        held.text("worker-0", "stderr", line)
    held.text("worker-0", "stdout", "hook\n")
    held.drop("KeyError: 1")
    assert written.texts == [("stdout", "hook\n")]


def test_one_that_code_prints_itself_is_shown_soon(held, written, monkeypatch):
    clock = SimpleNamespace(monotonic=lambda: 0.0)
    monkeypatch.setattr("submarine_magics.stream.time", clock)
    held.text("worker-0", "stderr", ONE)
    held.tick()
    assert written.all == ""
    clock.monotonic = lambda: float("inf")
    held.tick()
    assert written.all == ONE


def test_a_display_keeps_its_place(held, written):
    first, second = object.__new__(Display), object.__new__(Display)
    held.display(first)
    held.text("worker-0", "stderr", ONE)
    held.display(second)
    held.text("worker-0", "stdout", "after\n")
    assert written.texts == [first]
    held.drop("KeyError: 1")
    assert written.texts == [first, second, ("stdout", "after\n")]
