"""A job on the local cluster, from submission to its last event."""

from __future__ import annotations

from submarine_engine.events import Progressed
from submarine_engine.job import JobState, Resources, Role

from tests.jobs import until


def test_left_open_one_gpu_where_there_is_one_else_none(local, declare_gpus):
    declare_gpus(2)
    assert len(local.run("1", gpus=None).status.tasks[0].gpus) == 1
    declare_gpus(0)
    assert local.run("1", gpus=None).status.tasks[0].gpus == ()


def test_relative_paths_begin_at_the_working_directory(local, tmp_path):
    (tmp_path / "notebooks").mkdir()
    story = local.run("import os; print(os.getcwd())", workdir=tmp_path / "notebooks")
    assert story.out == f"{tmp_path / 'notebooks'}\n"


def test_an_exception_that_cannot_be_shown_is_still_a_failure(local):
    story = local.run(
        "class Rude(Exception):\n"
        "    def __str__(self): raise RuntimeError('no')\n"
        "    __repr__ = __str__\n"
        "raise Rude\n"
    )
    assert story.state is JobState.FAILED
    assert "Rude" in story.status.reason


def test_the_users_environment_is_kept_only_until_the_job_runs(local, monkeypatch):
    monkeypatch.setenv("MY_SECRET", "hunter2")
    job_id = local.submit("import os; print(os.environ['MY_SECRET'])")
    assert local.follow(job_id).out == "hunter2\n"
    local.until_noted(job_id, "succeeded")
    for path in local.paths(job_id).root.rglob("*"):
        if path.is_file() and path.name != "stdout":
            assert b"hunter2" not in path.read_bytes(), path


def progressed(story):
    return [event for event in story.events if isinstance(event, Progressed)]


def test_a_job_that_fails_says_how_far_it_came(local):
    story = local.run("for n in (1, 2, 3): print(f'Epoch {n}/4 - loss: 1', flush=True)\n1 / 0")
    assert story.state is JobState.FAILED
    assert story.status.progress == 0.75
    assert story.status.tasks[0].progress == 0.75


def test_progress_that_the_job_tells_arrives(local, tmp_path):
    gate = tmp_path / "gate"
    job_id = local.submit(
        "import os, time\nfrom submarine_runtime import progress\n"
        "for step in range(4):\n"
        "    progress(step / 3, f'epoch {step}')\n"
        "    time.sleep(0.6)\n"
        f"while not os.path.exists({str(gate)!r}): time.sleep(0.02)\n"
    )
    until(lambda: local.cluster.status(job_id).progress == 1)
    gate.touch()
    told = progressed(local.follow(job_id))
    assert [event.fraction for event in told] == sorted(event.fraction for event in told)
    assert told[-1].message.startswith("epoch ")


def test_a_chief_needs_no_worker(local):
    story = local.run("40 + 2", roles=(Role(name="chief", resources=Resources(gpus=0)),))
    assert (story.state, story.status.reason) == (JobState.SUCCEEDED, "")
