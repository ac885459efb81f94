"""A full disk: refused before anything runs, or told honestly, and the GPUs free."""

from __future__ import annotations

import os
import re
import resource
import subprocess

import pytest
from submarine_engine.bundle.model import Bundle, Manifest
from submarine_engine.clusters import locks
from submarine_engine.clusters.backend import KeptJob
from submarine_engine.clusters.local import LocalCluster
from submarine_engine.clusters.local.backend import LocalBackend, Process, Starter
from submarine_engine.clusters.local.leases import Holder, Leases, release_lease
from submarine_engine.errors import ClusterError, SubmissionError
from submarine_engine.history import JobPaths, new_job_id
from submarine_engine.job import JobSpec, JobState
from submarine_engine.lifecycle import LOST_TRIES

from tests.jobs import spec_of, until

from .conftest import Local

SIZE = 4 << 20


@pytest.fixture
def small_files():
    """Let no file of this process grow beyond a few kilobytes, as a full disk would."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture
def small_disk(tmp_path, local):
    """Keep jobs on a disk of four mebibytes."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "submarine-test", str(place)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("may not mount a small disk here; `small_files` covers submission")
    here = Local(tmp_path)
    here.home = place / "home"
    here.cluster = LocalCluster(here.home)
    yield here
    until(lambda: not here.processes())
    # A process that ends has no words any more while it still has files open.
    unmount = ["umount", str(place)]
    until(lambda: not subprocess.run(unmount, check=False, capture_output=True).returncode)


def fill(folder):
    with (folder / "filler").open("wb", buffering=0) as file:
        try:
            while file.write(bytes(4096)):
                pass
        except OSError:
            return folder / "filler"


def test_a_submission_that_cannot_be_written_leaves_nothing(local, small_files):
    bundle = Bundle(
        files={"script.py": b"1", "values/x.pkl": bytes(10_000)},
        manifest=Manifest(entry="script.py", python="3.11"),
    )
    with pytest.raises(SubmissionError, match="cannot be written: File too large") as caught:
        local.cluster.submit(JobSpec(), bundle, workdir=local.folder)
    assert "SUBMARINE_HOME" in caught.value.fix
    assert not [path for path in local.home.rglob("*") if path.is_file()]


def test_a_home_that_may_not_be_written(local, tmp_path):
    (tmp_path / "home").write_text("a file, no folder")
    with pytest.raises(SubmissionError, match="cannot be written"):
        local.submit("1")


def test_a_full_disk_refuses_the_job(small_disk):
    small_disk.home.mkdir()
    filler = fill(small_disk.home)
    with pytest.raises(SubmissionError, match="No space left on device"):
        small_disk.submit("1")
    filler.unlink()
    assert not [path for path in small_disk.home.rglob("*") if path.is_file()]
    assert small_disk.run("1").state is JobState.SUCCEEDED


def test_a_disk_that_fills_while_the_job_runs(small_disk, declare_gpus):
    declare_gpus(1)
    job_id = small_disk.submit("while True: print('x' * 10_000)", gpus=1)
    story = small_disk.follow(job_id)
    assert story.state is JobState.FAILED
    assert "No space left on device" in story.status.reason
    assert story.kinds[-3:] == ["Exited", "Released", "Finished"]
    assert small_disk.cluster.gpus()[0].job_id is None
    until(lambda: '"failed"' in small_disk.paths(job_id).status.read_text())


def test_a_disk_that_is_full_when_a_queued_job_would_start(small_disk, declare_gpus):
    declare_gpus(1)
    small_disk.run("1", gpus=1)
    leases = Leases(next(small_disk.home.glob("hosts/*/gpus")))
    taken = leases.take(("0",), 1, Holder("", ""))
    waits = small_disk.submit("print('never')", gpus=1)
    assert small_disk.state(waits) is JobState.QUEUED
    filler = fill(small_disk.home)
    release_lease(taken)
    story = small_disk.follow(waits)
    filler.unlink()
    assert story.state is JobState.FAILED
    assert "full" in story.status.reason
    assert small_disk.cluster.gpus()[0].job_id is None


def test_an_attempt_that_has_no_room_waits_for_it(small_disk, declare_gpus):
    declare_gpus(1)
    gate, begun = small_disk.folder / "gate", small_disk.folder / "begun"
    script = f"""
import os
open({str(begun)!r}, "w").close()
while not os.path.exists({str(gate)!r}): pass
assert os.environ["SUBMARINE_ATTEMPT"] != "1"
"""
    job_id = small_disk.submit(script, gpus=1, retries=1)
    small_disk.until_running(job_id, begun)
    filler = fill(small_disk.home)
    gate.touch()
    log = small_disk.paths(job_id).task("worker-0").stderr
    until(lambda: "No space left" in log.read_text())
    filler.unlink()
    status = small_disk.follow(job_id).status
    assert (status.state, status.failures) == (JobState.SUCCEEDED, 1), status


@pytest.mark.long  # it is begun ten times, at ever longer distances
@pytest.mark.timeout(1200)
def test_a_disk_that_is_full_between_two_attempts(small_disk, declare_gpus):
    """What cannot be noted is not begun: the job ends, and its GPU is free."""
    declare_gpus(1)
    gate = small_disk.folder / "gate"
    script = f"import os\nwhile not os.path.exists({str(gate)!r}): pass\nraise ValueError('full')"
    job_id = small_disk.submit(script, gpus=1, retries=1000)
    small_disk.until_running(job_id)
    filler = fill(small_disk.home)
    gate.touch()
    # Some attempts, or all, fit into the last page of its events.
    until(lambda: small_disk.state(job_id).final, 900)
    story = small_disk.follow(job_id)
    filler.unlink()
    assert story.state is JobState.FAILED, story.status
    assert story.status.attempt <= LOST_TRIES + 2
    unwritten = r"the job's folder cannot be written: No space left on device$"
    assert re.search(rf"{unwritten}|the disk that holds .* is full", story.status.reason)
    until(lambda: all(gpu.job_id is None for gpu in small_disk.cluster.gpus()))


def test_gpus_are_given_back_once_however_often_the_last_word_is_tried(tmp_path):
    """Another try may find their descriptors' numbers in use by somebody else."""
    paths = JobPaths(tmp_path, new_job_id())
    paths.root.mkdir(parents=True)
    lease = locks.take(tmp_path / "0")
    locks.share(lease)
    process = Process("worker-0", "abcde-1", None, [lease], held=False, gpus=("0",))
    spec = spec_of(gpus=1, retries=1)
    starter = Starter(paths, spec, pytest.fail)
    backend = LocalBackend(tmp_path, [process], starter)
    request = backend.request(KeptJob(paths, spec, {}, {}))
    request.give_back()
    assert locks.is_free(tmp_path / "0")
    stranger = os.open(tmp_path / "stranger", os.O_RDWR | os.O_CREAT)
    assert stranger == lease
    request.give_back()
    os.close(stranger)
    # There is room now, and it might be begun again: not on GPUs that others may have by now.
    again = backend.request(KeptJob(paths, spec, {}, {}, 2))
    with pytest.raises(ClusterError, match="its GPUs were given back"):
        again.ask()


def test_the_reserve_is_gone_when_the_job_is(local):
    job_id = local.submit("1")
    local.follow(job_id)
    assert not (local.paths(job_id).root / "reserve").exists()
    assert not list((local.home / "staging" / "jobs").iterdir())
