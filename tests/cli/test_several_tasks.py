"""The log of several tasks in a terminal: whole lines, each after its task."""

from __future__ import annotations

import io
import json

import pytest
from submarine_engine.cli.output import Output
from submarine_engine.cli.terminal_view import JsonView, View
from submarine_engine.events import Finished, LogChunk, Submitted
from submarine_engine.job import JobState
from submarine_engine.lifecycle import fold


@pytest.fixture
def shown():
    """Show events and pieces of logs as the terminal does; return the bytes of stdout."""

    def show(tasks, *pieces):
        out = io.TextIOWrapper(io.BytesIO())
        view = View(Output(out=out, err=io.TextIOWrapper(io.BytesIO())), "job")
        events = [Submitted(gpus=0, tasks=tasks)]
        view.event(events[0], fold(events))
        for task, data in pieces:
            view.log(LogChunk(task=task, stream="stdout", offset=0, data=data))
        view.end("20250101-000000-abcde", fold([*events, Finished(state=JobState.SUCCEEDED)]))
        return out.buffer.getvalue()

    return show


def test_lines_are_whole_and_say_whose_they_are(shown):
    pieces = [
        ("worker-0", b"epoch "),
        ("worker-1", b"one\ntw\xff"),
        ("worker-0", b"1\n\nlast"),
        ("worker-1", b"o\n"),
    ]
    assert shown(("worker-0", "worker-1"), *pieces) == (
        b"worker-1 | one\nworker-0 | epoch 1\nworker-0 | \nworker-1 | tw\xffo\nworker-0 | last\n"
    )


def test_the_log_of_one_task_is_as_it_is(shown):
    pieces = [("worker-0", b"epoch "), ("worker-0", b"1\r2\xff")]
    assert shown(("worker-0",), *pieces) == b"epoch 1\r2\xff"


def test_of_a_bar_only_its_last_state_is_kept(shown):
    bar = [("worker-0", b"\r%d%%" % (n % 100)) for n in range(20_000)]
    pieces = [*bar, ("worker-1", b"x\n"), ("worker-0", b"\rdone\r"), ("worker-0", b"\nnext\n")]
    assert shown(("worker-0", "worker-1"), *pieces) == (
        b"worker-1 | x\nworker-0 | done\r\nworker-0 | next\n"
    )


def test_a_program_gets_the_last_bytes_too():
    out = io.StringIO()
    view = JsonView(Output(out=out, err=io.StringIO(), json=True), "job")
    view.log(LogChunk(task="worker-0", stream="stdout", offset=0, data="ü".encode()[:1]))
    view.end("20250101-000000-abcde", fold([Finished(state=JobState.SUCCEEDED)]))
    told = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [(one["event"], one.get("text"), one.get("offset")) for one in told] == [
        ("Log", "", 0), ("Log", "\ufffd", 1), ("Ended", None, None),
    ]  # fmt: skip
