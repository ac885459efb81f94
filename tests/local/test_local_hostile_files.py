"""What a job's code puts where its driver reads, whatever it is, holds nobody up."""

from __future__ import annotations

import os

import pytest
from submarine_engine.clusters import tasks
from submarine_engine.clusters.exchange import exchange_files
from submarine_engine.clusters.local import backend
from submarine_engine.clusters.saving import NOTE
from submarine_engine.errors import SaveError
from submarine_engine.future import Job
from submarine_engine.job import JobState
from submarine_engine.outcome import read_outcome
from submarine_runtime.exchange import HELLO
from submarine_runtime.stacks import STACKS

NUMBER = "1" + "0" * 400
CONTENTS = {
    "a number that no float is": f'{{"fraction": {NUMBER}, "message": 1}}',
    "nested without end": "[" * 100_000,
    "a list": "[1]",
    "bytes that are no text": "\udcff\udcfe",
}
KINDS = {
    "a pipe": os.mkfifo,
    "a folder": os.mkdir,
    "a file without end": lambda path: path.symlink_to("/dev/zero"),
    "a link to itself": lambda path: path.symlink_to(path),
}
WAIT = """
import os, time
folder = os.environ["SUBMARINE_TASK_DIR"]
{make}
open("made", "w").close()
while not os.path.exists("go on"): time.sleep(0.02)
"""


@pytest.fixture
def task(local):
    """Give the files of a task of a job that is over."""
    done = local.submit("1")
    assert local.follow(done).state is JobState.SUCCEEDED
    return local.paths(done).task("worker-0")


def is_refused(task):
    """Return whether a notebook is told that the outcome cannot be read."""
    try:
        read_outcome(task.root)
    except (OSError, ValueError):
        return True
    return False


@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS)
def test_content(task, content):
    outcome = f'{{"returned_at": [{NUMBER}, 1]}}' if content.startswith("{") else content
    for path, text in ((task.progress, content), (task.outcome, outcome)):
        path.write_text(text, errors="surrogateescape")
    assert tasks.Progress(task).poll(last=True) is None
    ending = tasks.Ending(0, tasks.read_outcome(task))
    assert ending.kind == ""
    now = tasks.Moment.now()
    assert tasks.Ending(0, {**ending.outcome, "kind": "raised"}).returned_at(now, now) == now
    assert is_refused(task)


@pytest.mark.parametrize("needs", ["-1", "NaN", "1e999", NUMBER, '"soon"', "[]", "null"])
def test_who_says_nonsense_of_its_end_needs_nothing(task, needs):
    task.progress.write_text(f'{{"fraction": 0.5, "needs": {needs}}}')
    progress = tasks.Progress(task)
    progress.poll(last=True)
    assert progress.needs == 0
    task.progress.write_text('{"fraction": null, "message": "", "needs": 7.5}')
    assert progress.poll(last=True) is None
    assert progress.needs == 7.5


@pytest.mark.parametrize("unused", ["7", "[]", "null", '{"text": "soon"}', "true"])
def test_who_says_nonsense_of_being_unused_is_used(task, unused):
    progress = tasks.Progress(task)
    progress.poll(last=True)
    assert progress.unused is None
    task.progress.write_text('{"fraction": null, "message": "", "unused": "it ends soon"}')
    assert progress.poll(last=True) is None
    assert progress.unused == "it ends soon"
    task.progress.write_text(f'{{"fraction": null, "message": "", "unused": {unused}}}')
    progress.poll(last=True)
    assert progress.unused == ""


@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
def test_kinds_of_files(task, make):
    said = (HELLO, STACKS)
    for path in (task.progress, task.outcome, task.displays, *(task.root / one for one in said)):
        path.unlink(missing_ok=True)
        make(path)
    assert tasks.Progress(task).poll(last=True) is None
    assert tasks.read_outcome(task) == {}
    assert is_refused(task)
    assert exchange_files(task.root, {}) == dict.fromkeys(said, b"")


@pytest.mark.parametrize("name", ["progress.json", "ask.json", NOTE])
@pytest.mark.parametrize("make", ["os.mkfifo(path)", "os.mkdir(path)", "os.symlink(path, path)"])
def test_a_running_job_is_followed_all_the_same(local, name, make):
    job_id = local.submit(WAIT.format(make=f'path = f"{{folder}}/{name}"; {make}'))
    local.until_running(job_id, local.folder / "made")
    with pytest.raises(SaveError):
        Job(local.cluster, job_id).save(local.folder / "model", patience=0.1)
    (local.folder / "go on").touch()
    assert local.follow(job_id).state is JobState.SUCCEEDED
    assert local.paths(job_id).supervisor_log.read_text() == ""


@pytest.mark.parametrize("name", ["stacks.json", "stacks-asked.json"])
def test_who_asks_for_stacks_waits_for_no_pipe(local, name):
    make = f'os.mkfifo(f"{{folder}}/../../{name}")'
    job_id = local.submit(WAIT.format(make=make))
    local.until_running(job_id, local.folder / "made")
    (task,) = Job(local.cluster, job_id).stacks().tasks
    assert task.threads
    (local.folder / "go on").touch()
    assert local.follow(job_id).state is JobState.SUCCEEDED


@pytest.mark.parametrize(
    "make",
    [
        'open(path, "w").write("[")',
        'open(path, "w").write("[1]")',
        "os.unlink(path)",
        "os.unlink(path); os.mkfifo(path)",
        "os.unlink(path); os.mkdir(path)",
    ],
)
def test_a_job_whose_code_spoils_its_own_plan_is_over(local, declare_gpus, make):
    declare_gpus(1)
    script = f"""
import os
path = os.environ["SUBMARINE_TASK_DIR"] + "/task.json"
{make}
raise ValueError("once more")
"""
    story = local.follow(local.submit(script, gpus=1, retries=1))
    assert (story.state, story.status.attempt) == (JobState.FAILED, 2)
    assert "cannot be started: " in story.logs["stderr"].decode().splitlines()[-1]
    assert local.cluster.gpus()[0].job_id is None


def test_a_supervisor_outlives_a_turn_that_fails(local, task, monkeypatch, capsys):
    turns = []

    class Run:
        def __init__(self, *_):
            pass

        def run(self, _):
            turns.append(1)
            if len(turns) == 1:
                raise RuntimeError("one bad turn")
            return True

    job_id = task.root.parent.parent.name
    for name, fake in (("Wake", lambda _: None), ("JobRun", Run), ("_sign", lambda *_: None)):
        monkeypatch.setattr(backend, name, fake)
    monkeypatch.setattr(backend.Starter, "start_first", lambda *_: True)
    monkeypatch.setattr(backend.time, "sleep", lambda _: None)
    backend.supervise(str(local.home), job_id, 0, (0, 0), leases=[], grace=1, fork_task=None)
    assert len(turns) == 2
    assert "one bad turn" in capsys.readouterr().err


def test_a_cancel_that_nobody_can_read_is_one(local):
    job_id = local.submit(WAIT.format(make=""))
    local.until_running(job_id, local.folder / "made")
    local.paths(job_id).cancel.write_text("[" * 100_000)
    assert local.follow(job_id).state is JobState.CANCELLED
