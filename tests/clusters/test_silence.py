"""How often tasks are looked at; those of whom nothing is heard: that is said, and taken back."""

from __future__ import annotations

from types import SimpleNamespace
from unittest.mock import Mock, PropertyMock

import pytest
from submarine_engine.clusters import job_run
from submarine_engine.clusters.job_run import JobRun
from submarine_engine.errors import ClusterError
from submarine_engine.events import Moment, Warned
from submarine_engine.job import JobState
from submarine_engine.lifecycle import JobStatus


class Task:
    """A task as a `JobRun` looks at it."""

    released, started, over, begins = False, None, False, False

    def __init__(self):
        self.why = ""

    def poll(self, *, hurry):  # noqa: ARG002 - as containers have it
        if self.why:
            raise ClusterError(self.why)
        return []


class Run(JobRun):
    """As much of one as looks at tasks."""

    _is_early = False

    def __init__(self, *tasks, started):
        self._containers = tasks
        self._status = JobStatus(started=started)
        self._said, self._silent_since, self._unwritten, self.written = {}, None, [], []
        self._journal = SimpleNamespace(append=lambda *events: self.written.extend(events))


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(job_run, "_SILENT", -1.0)


def test_tasks_that_cannot_be_reached_are_told_once_and_what_is_heard_again_ends_it():
    first, second = Task(), Task()
    run = Run(first, second, started=Moment.now())
    first.why = "the line is gone"
    run._poll_tasks()
    assert run.written == []  # the other one is heard
    second.why = "the line is gone, too"
    for _ in range(3):
        run._poll_tasks()
    (said,) = run.written
    assert isinstance(said, Warned)
    assert said.text == (
        "nothing is heard of it now, it runs on where it can: the line is gone, too"
    )
    first.why = ""
    for _ in range(3):
        run._poll_tasks()
    assert [event.text for event in run.written] == [said.text, ""]
    assert run._status.warning == ""


def test_what_is_wrong_while_a_job_waits_is_told_once_and_taken_back():
    run = Run(Task(), started=None)
    run._request = SimpleNamespace(trouble="", waiting=lambda: (0, "it waits"))

    def turns(trouble):
        run._request.trouble = trouble
        for _ in range(3):
            run._told_waiting_at = float("-inf")
            run._tell_waiting()
        return [event.text for event in run.written if isinstance(event, Warned)]

    assert turns("") == []
    assert turns("no such image") == ["no such image"]
    run._said = {}  # another keeper
    assert turns("no such image") == ["no such image"]
    assert turns("") == ["no such image", ""]


def test_what_is_wrong_with_a_job_that_runs_is_no_matter_of_its_wait():
    run = Run(Task(), started=Moment.now())
    run._status = JobStatus(state=JobState.RUNNING, warning="its memory is almost used up")
    run._request = SimpleNamespace(trouble="", waiting=lambda: (0, ""))
    run._told_waiting_at = float("-inf")
    run._tell_waiting()
    assert run.written == [] or not isinstance(run.written[-1], Warned)


def test_a_job_that_does_not_run_yet_is_not_missed():
    task = Task()
    task.why = "it is not there yet"
    run = Run(task, started=None)
    run._poll_tasks()
    assert run.written == []


def test_what_somebody_else_warns_of_stays():
    run = Run(Task(), started=Moment.now())
    run._write(Warned(text="its memory is almost used up"))
    run._poll_tasks()
    assert run._status.warning == "its memory is almost used up"


def test_what_a_turn_takes_once_is_not_rested_for(monkeypatch):
    spent = iter(
        [0.0, 0.5, 0.5, 0.501, 0.501, 0.9, 0.9, 1.3]
    )  # before and after each of four turns
    monkeypatch.setattr(job_run.time, "thread_time", lambda: next(spent))
    run = Mock(_effort=0.0, _containers=[Mock(id="one")])
    run._turn.return_value, run._pause.return_value = False, 0.05
    run._stacks.is_sampling = False
    type(run._status.state).final = PropertyMock(side_effect=[False] * 4 + [True])
    assert JobRun.run(run, Mock(is_set=lambda: False))
    assert [call.args[1] for call in run._rest.call_args_list] == [0.05, 0.05, 0.05, 1.0]
