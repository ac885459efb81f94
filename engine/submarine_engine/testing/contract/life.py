"""A job from its submission to its last event, and what stays of it."""

from __future__ import annotations

import inspect
import json
import stat
import sys

import pytest

from submarine_engine.errors import JobCancelledError, JobFailedError, JobNotFoundError
from submarine_engine.events import EVENTS, Event, Progressed, event_from_json
from submarine_engine.job import JobState
from submarine_engine.lifecycle import JobStatus, apply, fold
from submarine_engine.testing.jobs import until
from submarine_engine.testing.place import HOLD, PATIENCE

BEFORE = ("Waiting", "MasterStarted")
"""What a cluster may tell or not, before it gives anything."""

WHOLE = ["Submitted", "Granted", "Started", "Returned", "Exited", "Released", "Finished"]


def legal(events):
    """Fold events as they came; each of them has to change something."""
    status = JobStatus()
    for event in events:
        after = apply(status, event)
        assert after != status, f"{event} changes nothing after {status}"
        status = after
    return status


def test_a_job_tells_its_whole_life_in_order(cluster):
    job = cluster.submit("print('hello')", gpus=2, name="mnist")
    story = cluster.follow(job)
    assert [kind for kind in story.kinds if kind not in BEFORE] == WHOLE
    assert story.state is JobState.SUCCEEDED
    assert story.out == "hello\n"
    assert story.status == legal(story.events) == job.status()
    task = story.status.tasks[0]
    assert task.queued.mono <= task.held.mono <= task.busy.mono
    assert task.busy.mono <= task.returned.mono <= task.exited.mono
    assert (task.task, task.exit_code, len(task.gpus)) == ("worker-0", 0, 2)
    ledger = story.status.ledger
    assert (ledger.gpus, ledger.held_now) == (2, 0)
    assert ledger.released_after >= 0
    assert story.status.progress == 1


def test_a_start_is_told_phase_by_phase(cluster):
    script = (
        "import json\nfrom submarine_runtime import report\nfor n in range(3): report(n, loss=n)"
    )
    for variant in cluster.variants:
        job = cluster.submit(script, **variant)
        job.wait(PATIENCE)
        started = job.startup()
        phases = {phase.name: phase.seconds for phase in started.phases}
        own = ["master"] if "MasterStarted" in cluster.follow(job).kinds else []
        names = ["queue", *own, "container", "environment", "import", "first step"]
        assert list(phases) == names
        assert all(seconds >= 0 for seconds in phases.values())
        task = job.status().tasks[0]
        assert sum(phases.values()) == pytest.approx(started.seconds)
        assert started.seconds <= task.queued.until(task.exited) + 1e-6


def test_value_and_variables_come_home(cluster):
    job = cluster.submit(
        ["def train(epochs):\n    return {'loss': [1 / n for n in range(1, epochs)]}",
         "épochs = 5\nhistory = train(épochs)"],
        outputs=("épochs",),
    )  # fmt: skip
    results = job.results(180)
    assert results.value == {"loss": [1.0, 1 / 2, 1 / 3, 1 / 4]}
    assert results.outputs == {"history": results.value, "épochs": 5}
    assert results.warnings == []
    assert job.done()
    assert not job.running()
    assert not job.cancelled()
    assert job.exception() is None
    assert not job.cancel()


def test_a_result_of_many_megabytes_comes_home_whole(cluster):
    assert cluster.submit("bytes(range(256)) * 100_000").result(180) == bytes(range(256)) * 100_000


def test_a_failure_is_raised_at_cell_and_line(cluster):
    job = cluster.submit(
        ["def train(epochs):\n    for epoch in range(epochs):\n        check(epoch)\n",
         "def check(epoch):\n    if epoch == 1:\n        raise ValueError(f'no epoch {epoch} ü')",
         "train(3)"],
    )  # fmt: skip
    with pytest.raises(JobFailedError, match="no epoch 1 ü") as caught:
        job.result(180)
    assert isinstance(caught.value, ValueError)
    assert (caught.value.job_id, caught.value.remote_type) == (job.id, "ValueError")
    places = [(frame.cell, frame.line, frame.function) for frame in caught.value.frames]
    assert places == [("In [3]", 1, "<module>"), ("In [1]", 3, "train"), ("In [2]", 3, "check")]
    assert isinstance(job.exception(), ValueError)
    story = cluster.follow(job)
    assert story.state is JobState.FAILED
    assert story.status.reason == "ValueError: no epoch 1 ü"
    assert b"Traceback" in story.logs["stderr"]
    assert legal(story.events) == job.status()


class OwnError(Exception):
    """As the notebook has it that submits the job."""

    def __init__(self, code, why):
        super().__init__(code)
        self.code, self.why = code, why


def test_a_failure_is_of_the_notebooks_own_class(cluster, monkeypatch):
    monkeypatch.setattr(sys.modules["__main__"], "OwnError", OwnError, raising=False)
    raises = "raise OwnError(3, ['its', 'own']) from error"
    main = f"try:\n    {{}}['k']\nexcept KeyError as error:\n    {raises}"
    job = cluster.submit([inspect.getsource(OwnError), main])
    with pytest.raises(OwnError) as caught:
        job.result(PATIENCE)
    assert isinstance(caught.value, JobFailedError)
    assert (caught.value.code, caught.value.why) == (3, ["its", "own"])
    assert caught.value.args == (3,)
    assert type(caught.value.__cause__) is KeyError
    assert isinstance(job.exception(), OwnError)


@pytest.mark.parametrize(
    ("script", "code", "reason"),
    [
        ("import sys; sys.exit(3)", 3, "exited with code 3"),
        ("raise SystemExit('gone wrong')", 1, "exited with code 1"),
        ("import os; os._exit(7)", 7, "exited with code 7, without a last word from Python"),
        ("import os; os._exit(0)", 0, "exited with code 0, without a last word from Python"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", -11, "segmentation fault"),
        ("import os; os.abort()", -6, "SIGABRT"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -9, "killed it from outside"),
    ],
)
def test_an_end_without_a_result_says_why(cluster, script, code, reason):
    job = cluster.submit(script, gpus=1)
    story = cluster.follow(job)
    assert story.state is JobState.FAILED
    assert story.status.tasks[0].exit_code == code
    assert reason in story.status.reason
    assert (story.kinds[-1], story.status.ledger.held_now) == ("Finished", 0)
    with pytest.raises(JobFailedError):
        job.result()


def test_leaving_by_sys_exit_0_is_a_success(cluster):
    job = cluster.submit("import sys\nprint('all done')\nsys.exit(0)")
    assert job.wait(180).state is JobState.SUCCEEDED
    assert job.result() is None


def test_a_command_runs_in_the_bundle_by_the_same_python(cluster):
    story = cluster.run("print('from the script')", command="ls && python script.py; exit 3")
    assert "script.py\n" in story.out
    assert "from the script\n" in story.out
    assert story.status.tasks[0].exit_code == 3
    assert story.state is JobState.FAILED


def test_the_job_is_told_who_it_is_and_what_it_was_given(cluster, monkeypatch):
    monkeypatch.setenv("SUBMARINE_INPUT_PATH", "/of/an/outer/job")
    data = cluster.folder / "données"
    data.mkdir()
    job = cluster.submit(
        "import os; {key: os.environ.get(key) for key in os.environ if key != '_'}",
        env={"COLOUR": "größer\n'$HOME'", "EMPTY": ""},
        input_path=f"file://{data}",
        checkpoint_path=f"file://{cluster.folder}/saved here",
    )
    seen = job.result(180)
    assert (seen["COLOUR"], seen["EMPTY"]) == ("größer\n'$HOME'", "")
    assert (seen["SUBMARINE_JOB_ID"], seen["SUBMARINE_TASK"]) == (job.id, "worker-0")
    assert seen["PYTHONUNBUFFERED"] == "1"
    assert seen["SUBMARINE_INPUT_PATH"].endswith(str(data))
    assert seen["SUBMARINE_CHECKPOINT_PATH"].endswith("/saved here")


def test_progress_arrives_while_the_job_runs(cluster):
    gate = cluster.folder / "gate"
    job = cluster.submit(
        "from submarine_runtime import progress\nprogress(0.25, 'epoch 1/4 ü')\n"
        + HOLD.format(str(gate))
    )
    until(lambda: job.status().tasks[0].progress is not None, PATIENCE)
    told = job.status().tasks[0]
    assert (told.progress, told.message) == (0.25, "epoch 1/4 ü")
    gate.touch()
    story = cluster.follow(job)
    assert any(isinstance(event, Progressed) for event in story.events)
    assert story.status == legal(story.events)


def test_a_job_that_failed_shows_how_far_it_came(cluster):
    gate = cluster.folder / "gate"
    job = cluster.submit(
        "from submarine_runtime import progress\nprogress(0.25, 'epoch 1/4')\n"
        + HOLD.format(str(gate))
        + "progress(0.75, 'epoch 3/4')\nraise SystemExit(3)"
    )
    until(lambda: job.status().tasks[0].progress == 0.25, PATIENCE)
    gate.touch()  # it ends sooner than it is looked at again
    story = cluster.follow(job)
    assert story.state is JobState.FAILED
    task = story.status.tasks[0]
    assert (task.progress, task.message) == (0.75, "epoch 3/4")
    assert story.status == legal(story.events)


def test_progress_is_recognised_in_the_log(cluster):
    gate = cluster.folder / "gate"
    bar = "\\r 45%|####5     | 45/100 [00:01<00:01, 40it/s]"
    job = cluster.submit(f"import sys\nsys.stderr.write('{bar}')\n" + HOLD.format(str(gate)))
    until(lambda: job.status().tasks[0].progress == 0.45, PATIENCE)
    gate.touch()
    assert job.wait(180).state is JobState.SUCCEEDED


def test_two_jobs_with_one_name_are_two_jobs(cluster):
    first, second = (cluster.submit(f"print({n})", name="twin") for n in (1, 2))
    assert first.id != second.id
    assert (cluster.follow(first).out, cluster.follow(second).out) == ("1\n", "2\n")


OPEN = """
import sys
from submarine_engine import open_job
job = open_job(sys.argv[1])
status = job.wait(180)
print(job.cluster.name, status.state.value, job.result(), len(list(job.stream())))
"""


def test_any_process_opens_a_job_by_its_id_and_name(cluster):
    job = cluster.submit("print('out')\n'the result'", name=f"opened-{cluster.name}")
    events = [item for item, _ in job.stream() if isinstance(item, Event)]
    expected = f"{cluster.name} succeeded the result {len(events) + 1}\n"
    for wanted in (job.id, job.id[-5:], f"opened-{cluster.name}"):
        assert cluster.in_another_process(OPEN, wanted) == expected


def test_the_record_is_whole_and_the_owners_alone(cluster):
    job = cluster.submit("print(1)", name="mnist", gpus=1, env={"TOKEN": "secret"})
    story = cluster.follow(job)
    paths = cluster.paths(job)
    record = json.loads(paths.record.read_text())
    assert set(record) >= {
        "version", "id", "cluster", "spec", "created", "workdir", "bundle_hash", "python",
        "user", "host",
    }  # fmt: skip
    assert (record["id"], record["cluster"]) == (job.id, cluster.name)
    assert record["spec"]["roles"][0]["resources"]["gpus"] == 1
    # The events are the truth, the summary follows them.
    until(lambda: '"succeeded"' in paths.status.read_text())
    summary = json.loads(paths.status.read_text())
    assert summary == {
        "version": 1, "id": job.id, "name": "mnist", "cluster": cluster.name,
        "state": "succeeded", "reason": "", "gpus": 1, "created": record["created"],
        "finished": [story.status.finished.wall, story.status.finished.mono], "parent": None,
        "workers_on": None,
    }  # fmt: skip
    events = [json.loads(line) for line in paths.events.read_text().splitlines()]
    assert all(event["event"] in EVENTS for event in events)
    assert fold(map(event_from_json, events)) == story.status
    for path in [paths.root, *paths.root.rglob("*")]:
        mode = stat.S_IMODE(path.lstat().st_mode)
        assert mode == 0o700 if path.is_dir() else mode & 0o077 == 0, path


def test_a_secret_of_the_users_environment_is_not_kept(cluster, monkeypatch):
    monkeypatch.setenv("MY_SECRET", "hunter2")
    job = cluster.submit("1")
    cluster.follow(job)
    paths = cluster.paths(job)
    # The last file that is written, aside and renamed.
    until(lambda: '"succeeded"' in paths.status.read_text())
    for path in paths.root.rglob("*"):
        if path.is_file():
            assert b"hunter2" not in path.read_bytes(), path


@pytest.mark.parametrize("job_id", ["20260101-000000-aaaaa", "nonsense", "../../etc", ""])
def test_a_job_that_is_not_there(cluster, job_id):
    from submarine_engine.clusters.base import Cursor

    for ask in (
        cluster.seam.cancel,
        cluster.seam.kill,
        cluster.seam.status,
        cluster.seam.results,
        lambda job: cluster.seam.read(job, Cursor()),
    ):
        with pytest.raises(JobNotFoundError):
            ask(job_id)


def test_waiting_for_a_job_has_an_end(cluster):
    job, gate = cluster.hold(gpus=0)
    with pytest.raises(TimeoutError, match="is not over after"):
        job.result(timeout=0.1)
    gate.touch()
    assert job.result(180) is None


def test_a_cancelled_job_has_no_result(cluster):
    job, _ = cluster.hold(gpus=0)
    assert job.cancel("not needed")
    assert job.wait(180).state is JobState.CANCELLED
    assert job.cancelled()
    with pytest.raises(JobCancelledError, match="not needed"):
        job.result()


def test_what_the_processes_of_a_task_use_is_told_while_it_runs(cluster):
    job, gate = cluster.hold(0)
    until(lambda: len(job.metrics()))
    gate.touch()
    job.wait(PATIENCE)
    (row, *_) = job.cluster.metrics(job.id).used["worker-0"]
    assert row.numbers["memory"][1] > 1 << 20
