"""How often tasks are looked at; those of whom nothing is heard: that is said, and taken back."""

from __future__ import annotations

import errno
import os
import subprocess
from types import SimpleNamespace
from unittest.mock import Mock, PropertyMock

import pytest
from submarine_engine.clusters import job_run
from submarine_engine.clusters.base import Allocated
from submarine_engine.clusters.container import Container
from submarine_engine.clusters.driver import launch_notes
from submarine_engine.clusters.job_run import JobRun
from submarine_engine.clusters.log_mirror import FolderSource
from submarine_engine.clusters.machine import host, pid_namespace, session_of
from submarine_engine.errors import ClusterError
from submarine_engine.events import Moment, Warned
from submarine_engine.history import JobPaths, new_job_id
from submarine_engine.job import JobSpec, JobState
from submarine_engine.lifecycle import JobStatus

from tests.jobs import LIMIT


class Task:
    """A task as a `JobRun` looks at it."""

    released, started, over, begins = False, None, False, False

    def __init__(self):
        self.why, self.trouble, self.looks = "", 0, 0

    def poll(self, *, hurry=False):  # noqa: ARG002 - as containers have it
        self.looks += 1
        if self.trouble:
            raise OSError(self.trouble, os.strerror(self.trouble))
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


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EMFILE])
@pytest.mark.parametrize("started", [None, Moment.now()])
def test_a_disk_here_that_is_full_ends_nothing_of_a_job_elsewhere(number, started):
    first, second = Task(), Task()
    run = Run(first, second, started=started)
    first.trouble = number
    for _ in range(3):
        run._poll_tasks()
    (said,) = run.written  # though the other one is heard
    assert said.text == f"its log cannot be copied here: {os.strerror(number)}"
    assert second.looks == 3
    first.trouble = 0
    run._poll_tasks()
    assert run._status.warning == ""


def test_a_crowd_rests_beside_a_full_disk(monkeypatch):
    monkeypatch.setattr(Run, "_is_crowd", True)
    first = Task()
    first.trouble = errno.ENOSPC
    stop = SimpleNamespace(is_set=lambda: bool(first.looks), wait=lambda _: None)
    Run(first, started=Moment.now())._rest(stop, LIMIT)
    assert first.looks


def test_what_is_no_want_of_room_is_tried_anew():
    first = Task()
    first.trouble = errno.EIO
    run = Run(first, started=Moment.now())
    with pytest.raises(OSError, match="Input/output"):
        run._poll_tasks()


def test_a_copy_goes_on_where_the_full_disk_has_cut_it(tmp_path):
    node = tmp_path / "node"
    node.mkdir()
    (node / "stdout").write_text("one\ntwo\n")
    disk = SimpleNamespace(source=lambda found: FolderSource(found.id, node))
    container = Container(JobPaths(tmp_path / "home", new_job_id()), "worker-0", 0, disk)
    container.give(Allocated("1/worker-0", "n1", 0.0))
    run, log = Run(container, started=Moment.now()), container.files.stdout
    log.symlink_to("/dev/full")
    for _ in range(2):
        run._poll_tasks()
    assert run._status.warning == "its log cannot be copied here: No space left on device"
    log.unlink()
    log.write_text("one\n")  # as much of it found room
    run._poll_tasks()
    assert log.read_text() == "one\ntwo\n"
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


# The notebook that a job waits for in the queue.


@pytest.fixture
def ended():
    """Give a process that is over, as a notebook's kernel that nobody hears of any more."""
    with subprocess.Popen(["true"]) as process:
        pass
    return [process.pid, 1]


def is_abandoned(session):
    run = Run(SimpleNamespace(id=""), started=None)
    run._launch, run._dead_at = {"session": session}, None
    run._course, run._spec = SimpleNamespace(attempt=1), SimpleNamespace(parent=None)
    run._backend = SimpleNamespace(lease=-1.0)
    return bool(run._abandoned())


def test_a_notebook_that_is_gone_from_this_very_place_waits_for_nothing(ended):
    assert is_abandoned([*ended, host(), pid_namespace()])
    assert is_abandoned(ended)  # noted by an older release
    assert not is_abandoned(None)


def test_a_notebook_elsewhere_lives_as_far_as_anybody_here_can_tell(ended):
    assert not is_abandoned([*ended, "login-2", pid_namespace()])
    assert not is_abandoned([*ended, host(), "pid:[1]"])  # a container's


def test_a_job_is_noted_with_the_place_of_its_notebook():
    session = session_of(launch_notes(JobSpec(notebook="n.ipynb")))
    assert session[2:] == (host(), pid_namespace())
    assert not is_abandoned(list(session))
    assert session_of(launch_notes(JobSpec())) is None
