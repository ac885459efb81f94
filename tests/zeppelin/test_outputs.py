"""A paragraph's outputs: what the sink is told bit by bit is what the result says at the end."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from submarine_zeppelin.mime import JOB_TYPE, LOG_TYPE
from submarine_zeppelin.outputs import Message, Outputs


class Shown:
    """What a browser would show of all that the sink was told."""

    def __init__(self):
        self.messages: list[Message] = []
        self.calls = 0

    def append(self, index, text):
        self.calls += 1
        assert self.messages[index].type == "TEXT"
        self.messages[index] = Message("TEXT", self.messages[index].data + text)

    def update(self, index, type, data):  # noqa: A002 - as in Sink
        self.calls += 1
        self.messages[index : index + 1] = [Message(type, data)]

    def update_all(self, messages):
        self.calls += 1
        self.messages = list(messages)


@pytest.fixture
def shown():
    return Shown()


def texts(outputs):
    return [(message.type, message.data) for message in outputs.messages()]


def test_text_is_appended_to_one_message(shown):
    outputs = Outputs(shown)
    outputs.stream("stdout", "one\n")
    outputs.stream("stderr", "two\n")
    assert texts(outputs) == [("TEXT", "one\ntwo\n")]
    assert shown.messages == outputs.messages()


def test_text_after_a_display_is_a_message_of_its_own(shown):
    outputs = Outputs(shown)
    outputs.stream("stdout", "before\n")
    outputs.display({"text/html": "<b>1</b>", "text/plain": "1"}, "d")
    outputs.stream("stdout", "after\n")
    outputs.update({"text/html": "<b>2</b>"}, "d")
    assert texts(outputs) == [("TEXT", "before\n"), ("HTML", "<b>2</b>"), ("TEXT", "after\n")]
    assert shown.messages == outputs.messages()


def test_an_update_to_more_messages_keeps_those_after_it_in_place(shown):
    outputs = Outputs(shown)
    outputs.display({"text/plain": "soon"}, "d")
    outputs.stream("stdout", "after\n")
    table = {"columns": ["a"], "rows": [[1]], "total": 7}
    outputs.update({"application/vnd.submarine.table+json": table}, "d")
    assert [kind for kind, _ in texts(outputs)] == ["TABLE", "TEXT", "TEXT"]
    outputs.stream("stdout", "more\n")
    assert shown.messages == outputs.messages()


def test_markup_in_text_stays_text(shown):
    outputs = Outputs(shown)
    evil = "%html <script>alert(1)</script>\n%angular {{x}}\n<img src=x onerror=alert(1)>\n"
    outputs.stream("stdout", evil)
    assert texts(outputs) == [("TEXT", evil)]


def test_a_plain_paragraph_chooses_by_prefixes(shown):
    outputs = Outputs(shown, prefixes=True)
    outputs.stream("stdout", "a\n%ht")
    outputs.stream(
        "stdout", "ml <b>x</b>\n<i>y</i>\n%table a\tb\n1\t2\n%text is a cell\n\n%text end\n"
    )
    assert texts(outputs) == [
        ("TEXT", "a\n"),
        ("HTML", "<b>x</b>\n<i>y</i>\n"),
        ("TABLE", "a\tb\n1\t2\n%text is a cell\n\n"),
        ("TEXT", "end\n"),
    ]
    assert shown.messages == outputs.messages()


def test_angular_and_what_only_looks_like_a_prefix_are_text(shown):
    outputs = Outputs(shown, prefixes=True)
    text = "%angular <x>\n100%html\n%htmlx\n%hello\n%"
    for letter in text:
        outputs.stream("stdout", letter)
    assert texts(outputs) == [("TEXT", text)]


@pytest.mark.parametrize("kind", [JOB_TYPE, LOG_TYPE])
def test_prefixes_end_where_a_job_begins(shown, kind):
    outputs = Outputs(shown, prefixes=True)
    outputs.stream("stdout", "%html <b>mine</b>\n")
    outputs.display({kind: {"job_id": "job-1"}, "text/html": "<p>card</p>"}, "card")
    outputs.stream("stdout", "%html <script>theirs</script>\n")
    assert texts(outputs)[-1] == ("TEXT", "%html <script>theirs</script>\n")


def test_colours_and_control_characters_are_taken_out_also_where_they_are_split(shown):
    outputs = Outputs(shown)
    for piece in ("\x1b[3", "1mred\x1b", "[0m \x1b]0;title\x07ok\x00\x08\x9b", "\x1b[2K!\n"):
        outputs.stream("stdout", piece)
    assert texts(outputs) == [("TEXT", "red ok!\n")]
    assert shown.messages == outputs.messages()


def test_halves_of_surrogate_pairs_can_be_sent(shown):
    outputs = Outputs(shown, prefixes=True)
    outputs.stream("stdout", "bad \udcff\n")
    outputs.display({"text/html": "\ud800<b>"})
    outputs.error("E", "\udcff", [])
    for message in (*outputs.messages(), *shown.messages):
        message.data.encode()


def test_a_progress_bar_overwrites_its_line(shown):
    outputs = Outputs(shown)
    outputs.stream("stderr", "start\n")
    for percent in range(0, 101, 10):
        outputs.stream("stderr", f"\r{percent:3}%")
    outputs.stream("stderr", "\rdone\n")
    outputs.tick()
    assert texts(outputs) == [("TEXT", "start\ndone\n")]


def test_a_progress_bar_of_any_length_spends_no_more_than_its_line(shown):
    outputs = Outputs(shown, 1000)
    for step in range(5000):
        outputs.stream("stderr", f"\rstep {step:4} " + "#" * 40)
    outputs.stream("stderr", "\rdone\n")
    assert texts(outputs) == [("TEXT", "done\n")]


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


def test_clear_at_once_and_with_the_next_output(shown):
    outputs = Outputs(shown)
    outputs.stream("stdout", "one\n")
    outputs.clear()
    assert outputs.messages() == shown.messages == []
    outputs.stream("stdout", "two\n")
    outputs.clear(wait=True)
    assert texts(outputs) == [("TEXT", "two\n")]
    outputs.stream("stdout", "three\n")
    assert texts(outputs) == [("TEXT", "three\n")]
    assert shown.messages == outputs.messages()


def test_an_error_is_text_without_colours_and_within_the_limit(shown):
    outputs = Outputs(shown, 1000, prefixes=True)
    outputs.error("ValueError", "x", ["\x1b[31mValueError\x1b[0m: %html <script>"])
    assert texts(outputs) == [("TEXT", "ValueError: %html <script>\n")]
    outputs.error("ValueError", "x", ["a" * 100_000, "the end"])
    assert len(outputs.messages()[-1].data) < 1100
    assert outputs.messages()[-1].data.endswith("the end\n")


def test_bundles_that_make_no_sense_show_nothing(shown):
    outputs = Outputs(shown)
    for bundle in ({}, {"text/plain": 3}, {JOB_TYPE: "x"}, {"image/png": "<script>"}):
        outputs.display(bundle)
    outputs.update({"text/plain": "x"}, "nobody's")
    assert outputs.messages() == shown.messages == []


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
