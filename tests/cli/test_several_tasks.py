"""The log of several tasks in a terminal: whole lines, each after its task."""

from __future__ import annotations

import io
import json

import pytest
from submarine_engine.cli.output import Output
from submarine_engine.cli.terminal_view import JsonView, View, ending_text
from submarine_engine.events import (
    Exited,
    Finished,
    Granted,
    LogChunk,
    Released,
    Resized,
    Retried,
    Returned,
    Started,
    Submitted,
    Warned,
)
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


@pytest.mark.parametrize(("gpus", "words"), [(1, "1 GPU released"), (2, "2 GPUs released")])
def test_the_last_line_counts_the_gpus(gpus, words):
    tasks = [f"worker-{n}" for n in range(gpus)]
    events = [
        Submitted(gpus=gpus, tasks=tuple(tasks)),
        *(Granted(task=task, host="a", container=task, gpus=("0",)) for task in tasks),
        *(Started(task=task) for task in tasks),
        *(Returned(task=task) for task in tasks),
        *(Exited(task=task, exit_code=0) for task in tasks),
        *(Released(task=task) for task in tasks),
        Finished(state=JobState.SUCCEEDED),
    ]
    output = Output(out=io.StringIO(), err=io.StringIO())
    assert f" · {words} " in ending_text(output, "an-id", "job", fold(events))


def test_the_log_of_one_task_is_as_it_is(shown):
    pieces = [("worker-0", b"epoch "), ("worker-0", b"1\r2\xff")]
    assert shown(("worker-0",), *pieces) == b"epoch 1\r2\xff"


def test_of_a_bar_only_its_last_state_is_kept(shown):
    bar = [("worker-0", b"\r%d%%" % (n % 100)) for n in range(20_000)]
    pieces = [*bar, ("worker-1", b"x\n"), ("worker-0", b"\rdone\r"), ("worker-0", b"\nnext\n")]
    assert shown(("worker-0", "worker-1"), *pieces) == (
        b"worker-1 | x\nworker-0 | done\r\nworker-0 | next\n"
    )


def test_tasks_that_come_and_go_are_shown_with_the_others():
    out = io.TextIOWrapper(io.BytesIO())
    view = View(Output(out=out, err=io.TextIOWrapper(io.BytesIO())), "job")
    events = [Submitted(gpus=0, tasks=("worker-0",))]
    for attempt, tasks in enumerate([("worker-0", "worker-1"), ("worker-0",)], start=2):
        view.know(fold(events))
        for task in fold(events).logged:
            view.log(LogChunk(task=task, stream="stdout", offset=0, data=f"{attempt}\n".encode()))
        events += [Retried(attempt=attempt), Resized(tasks=tasks)]
    view.know(fold(events))
    view.log(LogChunk(task="worker-1", stream="stdout", offset=0, data=b"late\n"))
    assert out.buffer.getvalue() == (b"2\nworker-0 | 3\nworker-1 | 3\nworker-1 | late\n")


def test_a_program_gets_the_last_bytes_too():
    out = io.StringIO()
    view = JsonView(Output(out=out, err=io.StringIO(), json=True), "job")
    view.log(LogChunk(task="worker-0", stream="stdout", offset=0, data="ü".encode()[:1]))
    view.end("20250101-000000-abcde", fold([Finished(state=JobState.SUCCEEDED)]))
    told = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [(one["event"], one.get("text"), one.get("offset")) for one in told] == [
        ("Log", "", 0), ("Log", "\ufffd", 1), ("Ended", None, None),
    ]  # fmt: skip


def test_the_last_bytes_come_where_a_job_is_not_followed_to_its_end_too():
    out = io.StringIO()
    view = JsonView(Output(out=out, err=io.StringIO(), json=True), "job")
    view.log(LogChunk(task="worker-0", stream="stdout", offset=0, data="ü".encode()[:1]))
    view.end_lines()
    view.end_lines()  # nothing is told twice
    told = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [(one["event"], one["text"], one["offset"]) for one in told] == [
        ("Log", "", 0), ("Log", "\ufffd", 1),
    ]  # fmt: skip


class Terminal(io.TextIOWrapper):
    """What says that it is a terminal."""

    def isatty(self):
        return True


def test_in_a_terminal_each_task_has_a_colour_and_elsewhere_none(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    out, err = Terminal(io.BytesIO()), io.TextIOWrapper(io.BytesIO())
    view = View(Output(out=out, err=err), "job")
    event = Submitted(gpus=0, tasks=("worker-0", "ps-0"))
    view.event(event, fold([event]))
    for stream in ("stdout", "stderr"):
        for task in ("worker-0", "ps-0"):
            view.log(LogChunk(task=task, stream=stream, offset=0, data=b"\x1b[1mx\n"))
    assert out.buffer.getvalue() == (
        b"\x1b[36mworker-0 | \x1b[0m\x1b[1mx\n\x1b[33mps-0     | \x1b[0m\x1b[1mx\n"
    )
    assert err.buffer.getvalue() == b"worker-0 | \x1b[1mx\nps-0     | \x1b[1mx\n"


RANKS = """
import sys
from submarine_runtime import job
print("rank", job.rank, end="" if job.rank == 1 else "\\n")
if job.rank == 1 and sys.argv[1:] == ["fail"]:
    sys.exit(7)
"""


def test_a_terminal_shows_the_log_of_rank_0_or_those_that_are_asked_for(submarine, folder):
    (folder / "ranks.py").write_text(RANKS)
    run = ("job", "run", "ranks.py", "--num_workers", "2", "--gpus", "0")
    assert submarine(*run).stdout == b"rank 0\n"
    assert submarine(*run, "--logs", "worker-1").stdout == b"rank 1"
    both = submarine(*run, "--logs", "all").stdout
    assert sorted(both.splitlines()) == [b"worker-0 | rank 0", b"worker-1 | rank 1"]
    assert submarine("job", "attach", "ranks", "--logs", "worker-1").stdout == b"rank 1"
    logs = submarine("job", "logs", "ranks").stdout.splitlines()
    assert sorted(logs) == [b"worker-0 | rank 0", b"worker-1 | rank 1"]
    assert submarine("job", "logs", "ranks", "--task", "worker-1").stdout == b"rank 1"
    assert submarine("job", "logs", "ranks", "--task", "first").stdout == b"rank 0\n"
    assert submarine("job", "logs", "ranks", "--task", "all").stdout.splitlines() == logs
    for words in (run, ("job", "attach", "ranks")):
        refused = submarine(*words, "--logs", "ps-0")
        assert refused.returncode
        assert b"the job has no task 'ps-0'" in refused.stderr


def test_a_terminal_says_which_task_failed_and_ends_as_that_one_did(submarine, folder):
    (folder / "ranks.py").write_text(RANKS)
    run = ("job", "run", "ranks.py", "--num_workers", "2", "--gpus", "0", "--", "fail")
    done = submarine(*run)
    assert done.returncode == 7
    assert b"worker-1 on " in done.stderr
    assert b"exited with code 7" in done.stderr


def test_what_is_wrong_is_said_between_the_lines():
    err = io.StringIO()
    view = View(Output(out=io.TextIOWrapper(io.BytesIO()), err=err), "job")
    told = [Submitted(gpus=0, tasks=("worker-0",)), Warned(text="it hangs\x1b[2J"), Warned(text="")]
    for event in told:
        view.event(event, fold(told))
    assert err.getvalue().count("warning: it hangs") == 1
    assert "\x1b[2J" not in err.getvalue()
