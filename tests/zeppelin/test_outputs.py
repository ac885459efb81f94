"""A paragraph's outputs: what the sink is told bit by bit is what the result says at the end."""

from __future__ import annotations

import pytest
from submarine_zeppelin.outputs import JOB_TYPE, LOG_TYPE, Outputs

from tests.zeppelin.shown import shown, texts

__all__ = ["shown"]  # a fixture


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


@pytest.mark.parametrize(
    ("ename", "said", "shown_as"),
    [
        ("BundleError", "define it in this cell", "define it in this paragraph"),
        ("BundleError", "begin a cell with %%submarine.python", "paragraph with %submarine.python"),
        ("CommandError", "begin it with %%submarine", "begin it with %submarine.run"),
        ("ClusterError", "set X=2 before the notebook starts", "X=2 before Zeppelin starts"),
        ("ValueError", "a cell of the %%submarine table", "a cell of the %%submarine table"),
        ("JobFailedError", "ValueError: no such cell", "no such cell"),
    ],
)
def test_our_own_errors_speak_of_paragraphs(shown, ename, said, shown_as):
    outputs = Outputs(shown)
    outputs.error(ename, said, [f"{ename}: {said}"])
    assert shown_as in texts(outputs)[0][1]
