"""Where the time of a start went: phases that add up, each second in its own."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from submarine_engine.events import (
    Exited,
    Finished,
    Granted,
    MasterStarted,
    Moment,
    Retried,
    Started,
    Submitted,
)
from submarine_engine.history import TaskPaths
from submarine_engine.job import JobState
from submarine_engine.lifecycle import fold
from submarine_engine.waterfall import MEANING, read_marks, startup

TASKS = ("worker-0", "worker-1")
FAR = 7e6  # what the clock of another machine is ahead


def at(mono):
    return Moment(1e9 + mono, mono)


def a_start(injected="", *, tasks=TASKS, clock=FAR):
    """Events and marks of a job whose phases take 1, 2, 3 … s, and one of them 1 s more."""
    times, now = {}, 100.0
    for number, name in enumerate(MEANING, 1):
        now += number + (name == injected)
        times[name] = now
    zero = 0.0 if clock is None else clock
    began = times["container"] + 0.5  # what it is started for is later than its process
    master = times["master"]
    events = [
        Submitted(at=at(100.0), gpus=2, tasks=tasks),
        MasterStarted(at=at(master), seconds=2.0 + (injected == "master")),
        *(Granted(at=at(master), task=task, host="h", container="c") for task in tasks),
        *(
            Started(at=at(began), task=task, clock=None if clock is None else began + zero)
            for task in tasks
        ),
    ]
    names = {"process": "container", "script": "environment", "code": "import"}
    marks = {mark: times[name] + zero for mark, name in names.items()}
    found = {
        task: {**marks, "step": times["first step"] + zero + n} for n, task in enumerate(TASKS)
    }
    return events, {task: found[task] for task in tasks}


def seconds_of(found):
    return {phase.name: phase.seconds for phase in found.phases}


@pytest.mark.parametrize("clock", [None, FAR, -1e9])
@pytest.mark.parametrize("injected", ["", *MEANING])
def test_a_second_more_is_in_the_phase_that_took_it_and_in_no_other(injected, clock):
    events, marks = a_start(injected, clock=clock)
    found = startup(fold(events), marks, at(1e4))
    expected = {name: n + (name == injected) for n, name in enumerate(MEANING, 1)}
    assert seconds_of(found) == pytest.approx(expected)
    assert found.seconds == pytest.approx(21 + bool(injected))


def test_each_phase_lasts_until_the_last_task_is_through_it():
    events, marks = a_start()
    events[-1] = replace(events[-1], at=at(events[-1].at.mono + 4))  # its marks move with it
    found = seconds_of(startup(fold(events), marks, at(1e4)))
    assert found["container"] == pytest.approx(3 + 4)
    assert found["environment"] == pytest.approx(4)
    assert found["first step"] == pytest.approx(6 - 4)


def test_nothing_is_told_before_code_runs_and_then_what_is_over():
    events, marks = a_start()
    for many in range(len(events) - 1):
        assert startup(fold(events[:many]), marks, at(1e4)) is None
    one = {task: told for task, told in marks.items() if task == "worker-0"}
    found = startup(fold(events), one, at(1e4))  # the other's interpreter is not up
    assert list(seconds_of(found)) == ["queue", "master", "container"]
    for told in marks.values():
        told.pop("step")
    assert list(seconds_of(startup(fold(events), marks, at(1e4)))) == list(MEANING)[:-1]


def test_a_command_has_no_imports_and_a_cluster_without_a_master_none():
    events, marks = a_start(clock=None)
    told = [event for event in events if not isinstance(event, MasterStarted)]
    commands = {
        task: {"command": found["script"], "step": found["step"]} for task, found in marks.items()
    }
    found = startup(fold(told), commands, at(1e4))
    assert list(seconds_of(found)) == ["queue", "container", "environment", "first step"]
    assert found.seconds == pytest.approx(21)


def test_of_a_job_that_was_begun_again_it_is_the_last_attempt():
    events, _ = a_start(tasks=TASKS[:1], clock=None)
    again = [
        *events,
        Exited(at=at(500), task="worker-0", exit_code=1),
        Retried(at=at(600), attempt=2),
        Granted(at=at(601), task="worker-0", host="h", container="d", attempt=2),
        Started(at=at(603), task="worker-0"),
    ]
    found = startup(fold(again), {"worker-0": {"script": 606.0, "code": 610.0}}, at(1e4))
    assert seconds_of(found) == {"queue": 1, "container": 2, "environment": 3, "import": 4}
    assert found.words == (
        "10 s (attempt 2): queue 1.0 s, container 2.0 s, environment 3.0 s, import 4.0 s"
    )
    assert found.to_json() == {"attempt": 2, "seconds": 10.0, "phases": seconds_of(found)}


TIMES = st.floats(-1e7, 1e7)
MARK = st.sampled_from(["process", "script", "command", "code", "step"])
EVENT = st.one_of(
    st.builds(MasterStarted, at=TIMES.map(at), seconds=TIMES),
    st.builds(
        Granted,
        at=TIMES.map(at),
        task=st.sampled_from(TASKS),
        host=st.just("h"),
        container=st.just("c"),
        attempt=st.integers(1, 2),
    ),
    st.builds(
        Started, at=TIMES.map(at), task=st.sampled_from(TASKS), clock=st.none() | TIMES
    ),
    st.builds(Exited, at=TIMES.map(at), task=st.sampled_from(TASKS), exit_code=st.just(0)),
    st.builds(Retried, at=TIMES.map(at), attempt=st.just(2)),
    st.builds(Finished, at=TIMES.map(at), state=st.just(JobState.FAILED)),
)  # fmt: skip


@given(
    TIMES.map(at),
    st.lists(EVENT, max_size=12),
    st.dictionaries(st.sampled_from(TASKS), st.dictionaries(MARK, TIMES)),
    TIMES.map(at),
)
def test_phases_add_up_whatever_clocks_say(submitted, events, marks, now):
    status = fold([Submitted(at=submitted, gpus=1, tasks=TASKS), *events])
    found = startup(status, marks, now)
    if found is None:
        return
    names = [phase.name for phase in found.phases]
    assert names == [name for name in MEANING if name in names]
    assert all(phase.seconds >= 0 for phase in found.phases)
    assert found.seconds == pytest.approx(sum(seconds_of(found).values()))
    # The whole is from the beginning to a moment that is on record, not a sum of what was measured.
    begin = min(task.queued.mono for task in status.tasks)
    ends = {0.0, now.mono - begin}
    for task in status.tasks:
        moments = [one.mono for one in (task.held, task.busy, task.exited) if one]
        ends.update(mono - begin for mono in moments)
        zero = task.clock if task.clock is not None else task.busy and task.busy.mono
        for mono in marks.get(task.task, {}).values() if task.busy else ():
            started = max(0.0, task.held.mono - begin, task.busy.mono - begin)
            ends.add(started + mono - zero)
    assert any(found.seconds == pytest.approx(end, abs=1e-6) for end in ends)


# What a task has marked: its code can write there what it likes.


def marked(folder, content, attempt=1):
    task = TaskPaths(folder)
    task.startup.write_bytes(content)
    return read_marks(task, attempt)


def line(*values):
    return json.dumps(values).encode() + b"\n"


def test_marks_are_read_each_once_and_those_of_the_attempt_alone(tmp_path):
    first = line(1, "script", 1.0) + line(1, "code", 2.0) + line(1, "step", 3.0)
    second = line(2, "process", 9.0) + line(2, "script", 10.0) + line(2, "code", 11.0)
    assert marked(tmp_path, first + second) == {"script": 1.0, "code": 2.0, "step": 3.0}
    content = first + second + line(2, "step", 12.0) + line(2, "step", 13.0)
    assert marked(tmp_path, content, 2) == {
        "process": 9.0,
        "script": 10.0,
        "code": 11.0,
        "step": 12.0,
    }


def test_what_was_begun_once_more_in_one_attempt_counts_from_there(tmp_path):
    first = line(1, "script", 1.0) + line(1, "code", 2.0) + line(1, "step", 3.0)
    assert marked(tmp_path, first + line(1, "command", 5.0)) == {"command": 5.0}
    assert marked(tmp_path, first + line(1, "process", 5.0)) == {"process": 5.0}


HOSTILE = [
    b"",
    b"\xff\xfe\n\n[]\n{}\nnull\n7\n",
    line(1, "script", "x") + line(1, ["code"], 1.0) + line("1", "step", 1.0) + line(1, "step"),
    b'[1, "script", NaN]\n[1, "script", 1e999]\n[1, "step", -Infinity]\n',
    b"[" * 60_000 + b"\n",
    line(1, "end", 1.0) + line(1, "__class__", 1.0) + line(True, "step", 10**400),
    b'[1, "script", 1.0',
]


@pytest.mark.parametrize("content", HOSTILE)
def test_what_is_no_mark_is_passed_over(tmp_path, content):
    assert marked(tmp_path, content + b"\n" + line(1, "code", 2.0)) == {"code": 2.0}


def test_what_is_no_file_has_no_marks(tmp_path):
    task = TaskPaths(tmp_path)
    assert read_marks(task, 1) == {}
    task.startup.symlink_to("/etc/passwd")
    assert read_marks(task, 1) == {}
    task.startup.unlink()
    task.startup.mkdir()
    assert read_marks(task, 1) == {}
