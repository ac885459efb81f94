"""Files that a job leaves in its folder for them: home after its end, however that came."""

from __future__ import annotations

from submarine_engine.job import JobState, Resources, Role
from submarine_engine.testing.jobs import until

LEAVE = """
import os, pathlib, time
out = pathlib.Path(os.environ["SUBMARINE_OUTPUT_PATH"])
(out / "plots").mkdir()
(out / "plots" / "loss.txt").write_text("0.5")
with (out / "model.pt").open("wb") as file:
    for number in range(3000):
        file.write(b"%1000d" % number)
"""
NAMES = [("model.pt", 3_000_000), ("plots/loss.txt", 3)]


def left(job):
    return [(one.name, one.size) for one in job.artifacts()]


EVENTS = """
import os, pathlib, time
folder = pathlib.Path(os.environ["SUBMARINE_LOGDIR"]) / "train"
folder.mkdir()
with (folder / "events.out.tfevents.1.host").open("wb", 0) as file:
    file.write(b"\\0first" * 1000)
    while not os.path.exists({gate!r}):
        time.sleep(0.05)
    file.write(b"last" * 500_000)
"""
FIRST = b"\0first" * 1000


def test_events_for_tensorboard_come_while_the_job_runs_and_whole_at_its_end(cluster):
    for number, options in enumerate(cluster.variants):
        gate = cluster.folder / f"gate-{number}"
        job = cluster.submit(EVENTS.format(gate=str(gate)), **options)
        (task,) = cluster.seam.status(job.id).tasks
        home = cluster.paths(job).task(task.task).logdir / "train/events.out.tfevents.1.host"
        until(lambda home=home: home.exists() and home.read_bytes() == FIRST)
        assert not job.done()
        gate.touch()
        assert job.wait(180).state is JobState.SUCCEEDED
        assert home.read_bytes() == FIRST + b"last" * 500_000


def test_what_a_job_leaves_comes_home_after_a_failure_too(cluster):
    hostile = "os.symlink('/etc', out / 'link'); open(os.fsencode(out) + b'/\\n\\xff', 'w')"
    for options in cluster.variants:
        job = cluster.submit(f"{LEAVE}\n{hostile}\nraise ValueError('over')", **options)
        assert cluster.follow(job).state is JobState.FAILED
        assert left(job) == [("\n\udcff", 0), *NAMES]
        assert dict(cluster.seam.artifacts(job.id).left) == {"a link": 1}
        home = {one.name: one.path.read_bytes() for one in job.artifacts()}
        assert home["plots/loss.txt"] == b"0.5"
        assert home["model.pt"] == b"".join(b"%1000d" % number for number in range(3000))


def test_ranks_leave_files_of_the_same_name_apart(cluster):
    if cluster.several:
        roles = (Role(resources=Resources(gpus=0), count=2),)
        job = cluster.submit(LEAVE, roles=roles)
        until(job.done)
        assert [one.name for one in job.artifacts()] == [
            f"worker-{number}/{name}" for number in range(2) for name, _ in NAMES
        ]


def test_a_job_that_is_cancelled_has_left_its_files(cluster):
    flag = cluster.folder / "written"
    job = cluster.submit(f"{LEAVE}\npathlib.Path({str(flag)!r}).touch()\ntime.sleep(600)")
    cluster.until_running(job, flag)
    job.cancel()
    until(job.done)
    assert left(job) == NAMES


def test_only_the_last_attempt_counts(cluster):
    script = LEAVE.replace('"model.pt"', "f'model-{attempt}.pt'")
    job = cluster.submit(f"import os\nattempt = os.environ['SUBMARINE_ATTEMPT']\n{script}\n"
        "if attempt == '1':\n    raise ValueError('once more')", retries=1)  # fmt: skip
    until(job.done)
    assert job.status().state is JobState.SUCCEEDED
    assert [one.name for one in job.artifacts()] == ["model-2.pt", "plots/loss.txt"]
