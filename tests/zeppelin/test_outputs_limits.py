"""Outputs of any size: a paragraph keeps to its limit, and says where the rest is."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from submarine_zeppelin.outputs import JOB_TYPE, LOG_TYPE, Outputs

from tests.zeppelin.shown import Shown, shown, texts

__all__ = ["shown"]  # a fixture


def test_a_hundred_megabytes_keep_to_the_limit_and_name_the_full_log(shown):
    outputs = Outputs(shown, 102_400)
    card = {JOB_TYPE: {"job_id": "mnist-1"}, "text/html": "<p>card</p>"}
    outputs.display(card, "card")
    line = "x" * 99 + "\n"
    outputs.stream("stdout", "first line\n")
    begun = time.process_time()
    for _ in range(1000):
        outputs.stream("stdout", line * 1000)
    outputs.stream("stdout", "last line\n")
    assert time.process_time() - begun < 30
    _, (kind, text) = texts(outputs)
    assert kind == "TEXT"
    assert len(text.encode()) <= 102_400 + 200
    assert text.startswith("first line\n")
    assert text.endswith("last line\n")
    assert "lines left out; full log: %submarine job logs mnist-1\n" in text
    left_out = int(text.partition("… ")[2].partition(" ")[0].replace(",", ""))
    assert left_out + text.count("\n") - 2 == 1_000_002


def test_where_the_full_log_is_comes_from_the_kernel(shown):
    outputs = Outputs(shown, 1000)
    outputs.display({LOG_TYPE: {"job_id": "a-1", "full": "http://node:8042/log"}})
    outputs.stream("stdout", "a line\n" * 1000)
    [(_, text)] = texts(outputs)
    assert "full log: http://node:8042/log" in text


def test_one_huge_line_keeps_to_the_limit(shown):
    outputs = Outputs(shown, 10_000)
    for _ in range(50):
        outputs.stream("stdout", "é" * 100_000)
    [(_, text)] = texts(outputs)
    assert len(text.encode()) <= 12_000


@pytest.mark.parametrize("limit", [0, 1, 2, 100])
def test_an_error_keeps_to_the_smallest_limit(shown, limit):
    outputs = Outputs(shown, limit)
    outputs.error("ValueError", "a" * 5000, [])
    [(_, text)] = texts(outputs)
    assert len(text) <= limit + len("\n…\n\n")


def test_many_stretches_of_text_keep_to_the_limit_together(shown):
    outputs = Outputs(shown, 10_000)
    for number in range(2000):
        outputs.stream("stdout", "some text in a line\n" * 100)
        outputs.display({"text/plain": str(number)})
    messages = outputs.messages()
    assert len(messages) <= 501
    assert "left out" in messages[-1].data
    assert sum(len(message.data) for message in messages) < 10_000 + 500 * 400
    assert shown.messages[-1] == messages[-1]


def test_displays_that_no_note_could_hold_are_left_out_in_words(shown):
    outputs = Outputs(shown)
    outputs.display({"text/html": "x" * 3_000_000}, "a")
    outputs.display({"text/html": "y" * 3_000_000}, "b")
    outputs.display({"text/html": "z" * 30_000_000}, "c")
    first, second, third = outputs.messages()
    assert first.type == "HTML"
    assert second.type == third.type == "TEXT"
    assert "left out" in second.data
    assert "left out" in third.data
    outputs.update({"text/html": "small"}, "a")
    outputs.update({"text/html": "y" * 3_000_000}, "b")
    assert outputs.messages()[1].type == "HTML"


PIECES = st.lists(
    st.text(alphabet="ab\n\r\t\x1b[1m%<é\udcff", max_size=30)
    | st.sampled_from(["%html ", "%table\n", "\x1b[31m", "long\n" * 100]),
    max_size=25,
)


@given(PIECES, st.integers(0, 600), st.booleans())
def test_the_result_keeps_to_the_limit_and_can_be_sent(pieces, limit, prefixes):
    outputs = Outputs(Shown(), limit, prefixes=prefixes)
    for piece in pieces:
        outputs.stream("stdout", piece)
    data = [message.data for message in outputs.messages()]
    "".join(data).encode()
    assert not any(
        "\x1b" in message.data for message in outputs.messages() if message.type == "TEXT"
    )
    assert sum(map(len, data)) <= limit + 1100 * len(data)


@given(st.lists(st.text(alphabet="ab\n<%", max_size=30), max_size=25))
def test_what_the_sink_was_told_is_the_result(pieces):
    shown = Shown()
    outputs = Outputs(shown)
    for piece in pieces:
        outputs.stream("stdout", piece)
    assert shown.messages == outputs.messages()
    assert "".join(message.data for message in shown.messages) == "".join(pieces)
