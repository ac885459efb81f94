"""The keeper or the submitter of a job killed with -9 at an exact place: the code runs once."""

from __future__ import annotations

import sys
from collections import Counter

import pytest
from submarine_engine.clusters import open_cluster
from submarine_engine.clusters.saving import can_save
from submarine_engine.clusters.store import read_events
from submarine_engine.history import JobPaths, job_ids
from submarine_engine.job import JobState

from tests.clusters.walking import recovered, submit
from tests.contract.conftest import use_backend
from tests.jobs import end_processes_of, follow, processes_of, until


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Give a home of its own, with the tests' backend installed."""
    use_backend(monkeypatch, tmp_path / "site", "hosts = submarine_hosts:HostsBackend")
    home = tmp_path / "home"
    yield home
    end_processes_of(home)


def events(home, job_id):
    return [event for event, _ in read_events(JobPaths(home, job_id).events)[0]]


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("role", "where"),
    [
        ("submitter", r"open .*-.*-[a-z2-7]{5}$"),  # on record, and not handed to the keeper
        ("keeper", r"subprocess\.Popen"),  # it has its GPUs, and is not started
        ("keeper", r"open events\.jsonl"),  # it was started, or is through: nobody has noted it
        ("keeper", r"os\.rename \.status\.json"),
        ("keeper", r"os\.remove .*-.*-[a-z2-7]{5}$"),  # it is over, and still on the keeper's list
    ],
)
def test_a_job_runs_once(tmp_path, home, role, where):
    submit(tmp_path, "hosts", role, 1, where=where, gpus=2)
    assert recovered(tmp_path, home, "hosts") is not None
    until((tmp_path / "killed").exists)


def test_a_job_that_was_never_handed_on_can_be_cancelled(tmp_path, home):
    submit(tmp_path, "hosts", "submitter", 1, where=r"open .*-.*-[a-z2-7]{5}$")
    assert (tmp_path / "killed").exists()
    cluster = open_cluster("hosts")
    (job_id,) = job_ids(home)
    cluster.cancel(job_id, "not needed")
    story = follow(cluster, job_id)
    assert story.state in (JobState.CANCELLED, JobState.SUCCEEDED)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("role", "retries"), [("submitter", None), ("keeper", None), ("keeper", 3)]
)
def test_a_kill_at_each_point_of_the_way_of_a_job(tmp_path, monkeypatch, capsys, role, retries):
    table, number = [], 0
    while True:
        number += 1
        folder, home = tmp_path / str(number), tmp_path / str(number) / "home"
        folder.mkdir()
        with monkeypatch.context() as patch:
            patch.setenv("SUBMARINE_HOME", str(home))
            use_backend(patch, folder / "site", "hosts = submarine_hosts:HostsBackend")
            code = TWICE.format(side=str(folder / "side")) if retries else ""
            submit(folder, "hosts", role, number, gpus=2, retries=retries, code=code)
            try:
                story = begun_again(folder, home) if retries else recovered(folder, home, "hosts")
            except AssertionError as error:
                killed = folder / "killed"
                what = killed.read_text() if killed.exists() else "the end"
                raise AssertionError(f"{role} killed at {number} ({what}): {error}") from error
            finally:
                until(lambda home=home: not processes_of(home))
        if not (folder / "killed").exists():
            break
        came = "not submitted" if story is None else story.state.value
        table.append((number, (folder / "killed").read_text(), came))
    with capsys.disabled():
        sys.stdout.write(f"\n{role}: {dict(Counter(came for *_, came in table))}\n")
        for line in table:
            sys.stdout.write("  {:3} {:45} {}\n".format(*line))
    assert table


TWICE = """
import os
from submarine_runtime import job
descriptor = os.open({side!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
os.write(descriptor, f"attempt {{job.attempt}}\\n".encode())
print("this is", job.attempt)
if job.attempt == 1:
    raise SystemExit("no luck")
"""


def begun_again(folder, home):
    """Have what was killed recovered; the code has run twice, and its second attempt counts."""
    cluster = open_cluster("hosts")
    (job_id,) = job_ids(home)
    story = follow(cluster, job_id)
    assert story.state is JobState.SUCCEEDED, story.status
    assert (folder / "side").read_text() == "attempt 1\nattempt 2\n"
    assert story.out == "this is 1\nthis is 2\n"
    line = "— attempt 2 of 4 begins: exited with code 1 —\n"
    assert story.logs["stderr"].decode() == f"no luck\n{line}"
    kinds = Counter(kind for kind in story.kinds if kind != "Waiting")
    twice = ("Granted", "Started", "Exited", "Released")
    assert {kind for kind, count in kinds.items() if count != 1} == {*twice}
    assert all(kinds[kind] == 2 for kind in twice)
    assert story.status.attempt == 2
    until(lambda: all(gpu.job_id is None for gpu in cluster.gpus()))
    return story


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("number", "where"),
    [
        (1, r"os\.rename \.outcome\.json"),  # the first attempt is over, and not home
        (2, r"os\.rename \.status\.json"),  # its end is noted
        (3, r"os\.rename \.status\.json"),  # the second one is noted, and nothing is done
        (1, r"os\.remove outcome\.json"),
        (1, r"shutil\.rmtree results"),
        (1, r"shutil\.rmtree gone"),  # what the first one has on its host is being removed
        (2, r"subprocess\.Popen"),  # the second has its GPUs, and is not started
        (4, r"os\.rename \.status\.json"),  # it was started, and that is noted
        (2, r"os\.rename \.outcome\.json"),
    ],
)
def test_a_job_is_begun_again_once(tmp_path, home, number, where):
    code = TWICE.format(side=str(tmp_path / "side"))
    submit(tmp_path, "hosts", "keeper", number, where=where, code=code, gpus=2, retries=3)
    assert begun_again(tmp_path, home)
    assert (tmp_path / "killed").exists()


SEVERAL = """
import os, time
from submarine_runtime import job
descriptor = os.open({side!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
os.write(descriptor, f"{{job.rank}} of {{job.world_size}}\\n".encode())
"""


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("number", "where"),
    [
        (1, r"os\.rename \.answer\.json"),  # all are there, and none is told
        (2, r"os\.rename \.answer\.json"),  # it is noted, and none is told
        (3, r"os\.rename \.answer\.json"),  # one of three is told, and runs
        (4, r"os\.rename \.answer\.json"),
        (1, r"subprocess\.Popen"),  # none has begun
        (3, r"subprocess\.Popen"),  # two wait for the third
    ],
)
def test_several_begin_together_whoever_answers_them(tmp_path, home, number, where):
    roles = {"worker": 2, "chief": 1}
    code = SEVERAL.format(side=str(tmp_path / "side"))
    job_id = submit(tmp_path, "hosts", "keeper", number, where=where, roles=roles, code=code)
    cluster = open_cluster("hosts")
    until(lambda: cluster.status(job_id).state.final)
    status = cluster.status(job_id)
    assert status.state is JobState.SUCCEEDED, status
    assert (tmp_path / "killed").exists()
    ran = sorted((tmp_path / "side").read_text().splitlines())
    assert ran == ["0 of 3", "1 of 3", "2 of 3"]
    kinds = Counter(
        f"{type(one).__name__} {getattr(one, 'task', '')}" for one in events(home, job_id)
    )
    assert max(count for kind, count in kinds.items() if not kind.startswith("Waiting")) == 1
    until(lambda: all(gpu.job_id is None for gpu in cluster.gpus()))


SEVERAL_TWICE = """
import os, time
from submarine_runtime import job
descriptor = os.open({side!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
os.write(descriptor, f"{{job.attempt}}: {{job.rank}} of {{job.world_size}}\\n".encode())
if job.attempt == 1:
    while job.rank != 1 or open({side!r}).read().count("of") < 3: time.sleep(0.02)
    raise SystemExit("no luck")
"""


def several_begun_again(folder, home):
    """Have what was killed recovered: all tasks have run twice, the second time together."""
    cluster = open_cluster("hosts")
    (job_id,) = job_ids(home)
    until(lambda: cluster.status(job_id).state.final)
    status = cluster.status(job_id)
    assert (status.state, status.attempt, status.failures) == (JobState.SUCCEEDED, 2, 1), status
    ran = sorted((folder / "side").read_text().splitlines())
    assert ran == [f"{attempt}: {rank} of 3" for attempt in (1, 2) for rank in range(3)]
    for task in ("chief-0", "worker-0", "worker-1"):
        log = JobPaths(home, job_id).task(task).stderr.read_text()
        assert log.count("— attempt 2 of 4 begins: worker-0 on") == 1, log
    kinds = Counter(
        f"{type(one).__name__} {getattr(one, 'task', '')}" for one in events(home, job_id)
    )
    assert max(count for kind, count in kinds.items() if not kind.startswith("Waiting")) <= 2, kinds
    until(lambda: all(gpu.job_id is None for gpu in cluster.gpus()))
    return status


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("number", "where"),
    [
        (1, r"os\.remove answer\.json"),  # all are over, and what they were told is to go
        (4, r"subprocess\.Popen"),  # none of the second attempt has begun
        (6, r"subprocess\.Popen"),  # two of it wait for the third
        (5, r"os\.rename \.answer\.json"),  # all are there, and none is told
        (7, r"os\.rename \.answer\.json"),  # one of three is told, and runs
    ],
)
def test_several_are_begun_again_together(tmp_path, home, number, where):
    code = SEVERAL_TWICE.format(side=str(tmp_path / "side"))
    roles = {"worker": 2, "chief": 1}
    submit(
        tmp_path, "hosts", "keeper", number, where=where, roles=roles, code=code, retries=3
    )  # fmt: skip
    several_begun_again(tmp_path, home)
    assert (tmp_path / "killed").exists()


TRAIN = """
import os, time
import submarine_runtime

@submarine_runtime.on_save
def save(folder):
    descriptor = os.open({side!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(descriptor, b"saved\\n")
    (folder / "weights").write_text("1.5")

while not os.path.exists({gate!r}): time.sleep(0.02)
"""


def test_who_asks_for_the_model_is_answered_by_the_next_keeper(tmp_path, home):
    """It is killed before it brings the question; the next one brings it."""
    code = TRAIN.format(side=str(tmp_path / "side"), gate=str(tmp_path / "gate"))
    where = r"os\.rename \.ask\.json"
    job_id = submit(tmp_path, "hosts", "keeper", 1, where=where, code=code, gpus=1)
    cluster = open_cluster("hosts")
    until(lambda: can_save(JobPaths(home, job_id), cluster.status(job_id)))
    assert cluster.save(job_id, str(tmp_path / "model")).files == 1
    assert (tmp_path / "killed").exists()
    assert (tmp_path / "side").read_text() == "saved\n"  # asked twice, heard once
    assert not (JobPaths(home, job_id).task("worker-0").root / "ask.json").exists()
    (tmp_path / "gate").touch()
    until(lambda: cluster.status(job_id).state is JobState.SUCCEEDED)


@pytest.mark.parametrize(
    "where",
    [
        r"os\.rename \.stacks\.[0-9a-f]",  # the task is about to be asked
        r"os\.rename \.stacks\.json",  # it has answered, and that is about to be told
    ],
)
def test_who_asks_for_stacks_is_answered_by_the_next_keeper(tmp_path, home, where):
    job_id = submit(tmp_path, "hosts", "keeper", 1, where=where, hold=True, gpus=1)
    cluster = open_cluster("hosts")
    until(lambda: cluster.status(job_id).state is JobState.RUNNING)
    until((tmp_path / "side").exists)  # it runs a moment before its code has begun
    (task,) = cluster.stacks(job_id).tasks
    assert task.threads
    assert (tmp_path / "killed").exists()
    (tmp_path / "gate").touch()
    assert recovered(tmp_path, home, "hosts") is not None
