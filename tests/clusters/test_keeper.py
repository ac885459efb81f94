"""A keeper in trouble: what it does to the jobs that it sees through, and to those that come."""

from __future__ import annotations

import errno
import os
import resource
import signal
import threading
from contextlib import suppress
from pathlib import Path
from unittest.mock import Mock

import pytest
from submarine_engine.clusters import keeper, locks, open_cluster
from submarine_engine.clusters.backend import KeeperFolder
from submarine_engine.clusters.job_run import JobRun
from submarine_engine.history import JobPaths, default_home, new_job_id, read_json
from submarine_engine.job import JobState

from tests.clusters.submarine_hosts import HostsBackend
from tests.contract.conftest import use_backend
from tests.jobs import LIMIT, bundle_of, end_processes_of, follow, processes_of, spec_of, until

A_JOB = new_job_id()


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    use_backend(monkeypatch, tmp_path / "site", "hosts = submarine_hosts:HostsBackend")
    yield open_cluster("hosts")
    end_processes_of(default_home())


@pytest.fixture
def own(tmp_path):
    """Give a keeper of this process, and its backend; it has no job."""

    class Backend(HostsBackend):
        idle = 0.0
        given_up = ()

        def give_up(self, paths):
            self.given_up = (*self.given_up, paths.job_id)

    backend = Backend(tmp_path)
    folder = KeeperFolder(tmp_path, "hosts", "key")
    folder.make()
    return keeper.Keeper(backend, folder), backend, folder


def test_a_job_that_is_handed_on_as_the_keeper_ends_has_another(cluster, monkeypatch):
    started = []
    folder = cluster.backend.folder()
    folder.make()
    lock = locks.take(folder.lock)
    kind = type(cluster.backend)
    monkeypatch.setattr(kind, "idle", 0.0)
    monkeypatch.setattr(kind, "end", lambda _: cluster._folder.hand(A_JOB))  # as a submitter
    monkeypatch.setattr(
        KeeperFolder, "ensure_keeper", lambda self, _: started.append(locks.is_free(self.lock))
    )
    keeper.main([str(folder.home), "hosts", folder.key, str(lock)])
    assert started == [True]


class Troubled:
    """Stands for a `JobRun` that has so many troubles before it sees its job through."""

    def __init__(self, count):
        self.left = count

    def __call__(self, *_arguments):
        return self

    def run(self, _stop):
        if self.left:
            self.left -= 1
            raise OSError("the disk is full")
        return True

    def close(self):
        pass


@pytest.mark.parametrize(
    ("steady", "troubles", "lost"), [(-1.0, 12, False), (60.0, 4, False), (60.0, 5, True)]
)
def test_troubles_of_days_do_not_add_up(own, monkeypatch, steady, troubles, lost):
    mine, backend, folder = own
    monkeypatch.setattr(keeper, "_STEADY", steady)
    monkeypatch.setattr(keeper, "JobRun", Troubled(troubles))
    mine._stop.wait = lambda _: None
    (JobPaths(folder.home, A_JOB).root).mkdir(parents=True)
    mine._see_through(A_JOB, keeper._Rest(mine._stop))
    assert bool(backend.given_up) == lost


def test_what_fails_beside_the_jobs_ends_no_keeper(own, monkeypatch, capsys):
    mine, backend, folder = own
    seen = []

    def tend():
        seen.append(1)
        if len(seen) == 1:
            folder.hand(A_JOB)  # of a job that is gone
        raise ValueError("no reason")

    monkeypatch.setattr(backend, "idle", 1.0)
    monkeypatch.setattr(backend, "tend", tend)
    mine.run()
    assert len(seen) > 1
    assert folder.open_jobs() == []
    assert capsys.readouterr().err.count("ValueError: no reason") == 1


@pytest.mark.parametrize("number", [errno.ESTALE, errno.EIO, errno.EMFILE])
def test_a_folder_that_cannot_be_read_for_a_while_ends_no_keeper(own, monkeypatch, capsys, number):
    mine, _, folder = own
    left, real = [1, 1, 1], Path.iterdir

    def iterdir(path):
        if path == folder.open and left:
            left.pop()
            raise OSError(number, os.strerror(number))
        return real(path)

    monkeypatch.setattr(Path, "iterdir", iterdir)
    folder.hand(A_JOB)  # of a job that is gone
    mine.run()
    assert (left, folder.open_jobs()) == ([], [])
    assert capsys.readouterr().err.count(f"OSError: [Errno {number}]") == 1


def test_a_folder_that_cannot_be_seen_is_not_gone(own, monkeypatch):
    mine, _, folder = own
    left, real = [1], Path.stat

    def stat(path, **options):
        if path == folder.root and left:
            left.pop()
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
        return real(path, **options)

    folder.hand(A_JOB)  # of a job that is gone
    monkeypatch.setattr(Path, "stat", stat)
    mine.run()
    assert (left, folder.open_jobs()) == ([], [])


@pytest.mark.parametrize(("soft", "after"), [(256, 4096), (5000, 5000)])
def test_a_keeper_may_have_many_files_open(cluster, monkeypatch, soft, after):
    folder, before = cluster.backend.folder(), resource.getrlimit(resource.RLIMIT_NOFILE)
    folder.make()
    lock = locks.take(folder.lock)
    monkeypatch.setattr(type(cluster.backend), "idle", 0.0)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, before[1]))
    try:
        keeper.main([str(folder.home), "hosts", folder.key, str(lock)])
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (min(after, before[1]), before[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_job_that_is_over_holds_up_no_other(own, monkeypatch):
    mine, backend, folder = own
    monkeypatch.setattr(keeper, "JobRun", Troubled(0))  # it was killed before it asked
    JobPaths(folder.home, A_JOB).root.mkdir(parents=True)
    for job_id in (A_JOB, new_job_id()):  # and one whose folder was deleted
        folder.hand(job_id)
    mine.run()
    assert folder.open_jobs() == []
    later = new_job_id()
    backend.submit_queue.join(later)
    until(lambda: backend.submit_queue.is_turn(later))  # each leaves as its thread ends


def test_a_thread_that_cannot_start_is_started_later(own, monkeypatch):
    mine, _, folder = own
    start, left = threading.Thread.start, [1, 1]

    def fails(thread):
        if thread.name == A_JOB and left:
            left.pop()
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", fails)
    folder.hand(A_JOB)
    mine.run()
    assert (left, folder.open_jobs()) == ([], [])


class Queued:
    """Stands for `JobRun`s that ask for their jobs in turn, and rest for an hour between looks."""

    def __init__(self):
        self.looks, self.asked = 0, []

    def __call__(self, backend, paths, _load):
        return QueuedRun(self, backend.submit_queue, paths.job_id)


class QueuedRun:
    """One of them."""

    def __init__(self, all_of_them, queue, job_id):
        self.all, self.queue, self.job_id = all_of_them, queue, job_id

    def run(self, stop):
        self.queue.name(self.job_id, "hosts")
        while not stop.is_set():
            self.all.looks += 1
            if self.queue.is_turn(self.job_id):
                self.all.asked.append(self.job_id)
                self.queue.leave(self.job_id)
                return True
            stop.wait(3600)
        return False

    def close(self):
        pass


def test_jobs_whose_turn_comes_look_at_once_however_long_they_would_rest(own, monkeypatch):
    mine, _, folder = own
    queued, jobs = Queued(), [new_job_id() for _ in range(60)]
    monkeypatch.setattr(keeper, "JobRun", queued)
    for number, job_id in enumerate(jobs):
        JobPaths(folder.home, job_id).root.mkdir(parents=True)
        folder.hand(job_id)
        os.utime(folder.open / job_id, ns=(number, number))  # one after the other
    thread = threading.Thread(target=mine.run, daemon=True)
    thread.start()
    until(lambda: len(queued.asked) == len(jobs))
    thread.join(LIMIT)
    assert not thread.is_alive()
    assert queued.asked == jobs
    # At first, when the turn comes, and where that came to be before it had told whom it asks.
    assert queued.looks <= 3 * len(jobs)


def test_jobs_that_rest_are_woken_when_the_keeper_ends(own, monkeypatch):
    mine, backend, folder = own
    queued, job_id = Queued(), new_job_id()
    monkeypatch.setattr(keeper, "JobRun", queued)
    backend.submit_queue.join(new_job_id())  # holds it up for ever
    JobPaths(folder.home, job_id).root.mkdir(parents=True)
    folder.hand(job_id)
    thread = threading.Thread(target=mine.run, daemon=True)
    thread.start()
    until(lambda: queued.looks)
    (run,) = until(lambda: list(mine._runs.values()))  # noted once it has begun
    folder.root.rename(folder.root.with_name("gone"))
    for ended in (thread, run):
        ended.join(LIMIT)
        assert not ended.is_alive()


def test_a_job_that_waits_keeps_no_file_of_its_keeper_open(cluster, tmp_path):
    """Where a process may have a thousand files, a thousand jobs leave it some to ask with."""
    gate = tmp_path / "gate"
    code = HOLD.format(side=str(tmp_path / "side"), gate=str(gate))
    running = cluster.submit(spec_of(gpus=4), bundle_of(code), workdir=tmp_path)
    until(lambda: cluster.status(running).state is JobState.RUNNING)
    waiting = [cluster.submit(spec_of(gpus=4), bundle_of("7"), workdir=tmp_path) for _ in range(3)]
    until(lambda: all(cluster.status(job_id).waiting_reason for job_id in waiting))
    found = processes_of(default_home())
    [pid] = [pid for pid, words in found.items() if "clusters.keeper" in words]

    def open_files(name):
        """Return the jobs of which the keeper has a file of this name open."""
        links = []
        for one in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(FileNotFoundError):  # closed since
                links.append(one.readlink())
        return [link.parent.name for link in links if link.name == name]

    until(lambda: open_files("events.jsonl") == [running])
    gate.touch()
    stories = [follow(cluster, job_id) for job_id in (running, *waiting)]
    assert [story.state for story in stories] == [JobState.SUCCEEDED] * 4


def test_a_note_that_cannot_be_made_ends_no_keeper(own, monkeypatch):
    mine, _, folder = own
    folder.hand(A_JOB)  # of a job that is gone
    monkeypatch.setattr(Path, "chmod", Mock(side_effect=PermissionError("not yours")))
    mine.run()
    assert folder.open_jobs() == []


def test_a_file_that_is_no_job_keeps_no_keeper_busy(own):
    mine, _, folder = own
    (folder.open / ".nfs000000000001").touch()
    folder.hand(A_JOB)  # of a job that is gone
    mine.run()
    assert folder.open_jobs() == []
    assert not (folder.open / A_JOB).exists()


def test_a_job_that_is_over_is_not_lost_afterwards(cluster, tmp_path):
    job_id = cluster.submit(spec_of(), bundle_of("7"), workdir=tmp_path)
    assert follow(cluster, job_id).state is JobState.SUCCEEDED
    paths = JobPaths(default_home(), job_id)
    # The summary comes after the events.
    until(lambda: read_json(paths.status)["state"] == "succeeded")
    events = paths.events.read_bytes()
    keeper.end_unwatched(paths, "its keeper cannot begin")
    assert paths.events.read_bytes() == events
    assert read_json(paths.status)["state"] == "succeeded"


@pytest.fixture
def spoilt(cluster, tmp_path):
    """Give a job that waits, and whose record a loss of power has emptied; no keeper lives."""
    gate = tmp_path / "gate"
    code = HOLD.format(side=str(tmp_path / "side"), gate=str(gate))
    job_id = cluster.submit(spec_of(gpus=4), bundle_of(code), workdir=tmp_path)
    until(lambda: cluster.status(job_id).state is JobState.RUNNING)
    waiting = cluster.submit(spec_of(gpus=4, name="spoilt"), bundle_of("7"), workdir=tmp_path)
    until(lambda: cluster.status(waiting).waiting_reason)
    kill_keeper(default_home())
    paths = JobPaths(default_home(), waiting)
    paths.record.write_bytes(b"")
    yield paths
    gate.touch()


def kill_keeper(home):
    [pid] = [pid for pid, words in processes_of(home).items() if "clusters.keeper" in words]
    os.kill(pid, signal.SIGKILL)
    until(lambda: not [w for w in processes_of(home).values() if "clusters.keeper" in w])


@pytest.mark.parametrize("also", ["", "status", "events"])
def test_a_job_whose_record_is_spoilt_is_over_and_keeps_no_keeper(
    cluster, spoilt, monkeypatch, also
):
    if also:
        (spoilt.root / {"status": "status.json", "events": "events.jsonl"}[also]).write_bytes(b"")
    mine = keeper.Keeper(cluster.backend, cluster.backend.folder())
    mine._stop.wait = lambda _: None
    mine._see_through(spoilt.job_id, keeper._Rest(mine._stop))
    assert not mine._folder.is_open(spoilt.job_id)
    if also != "events":
        status = cluster.status(spoilt.job_id)
        assert status.state is JobState.LOST
        assert "the job cannot be watched: SpoiltFileError" in status.reason
    if also != "status":
        told = read_json(spoilt.status)
        assert (told["state"], told["name"], told["gpus"]) == ("lost", "spoilt", 4)
    assert not mine._folder.is_open(spoilt.job_id)  # whoever looks hands it on no more


@pytest.mark.parametrize("fresh", [True, False])
def test_a_job_whose_record_is_spoilt_keeps_no_other_from_being_told(cluster, spoilt, fresh):
    folder = cluster.backend.folder()
    [running] = [one for one in folder.open_jobs() if one != spoilt.job_id]
    os.utime(folder.open / running)  # after it
    (folder.open / spoilt.job_id).chmod(0o600 if fresh else 0o700)
    keeper.give_back(folder, "no luck")
    assert folder.open_jobs() == ([running] if fresh else [spoilt.job_id, running])
    [words] = cluster.warnings(running)
    assert words.startswith("no keeper can begin: no luck")
    status = cluster.statuses.status(spoilt)
    assert status.state is (JobState.LOST if fresh else JobState.QUEUED)


def test_a_request_is_let_go_of_where_its_events_cannot_be_opened(cluster, tmp_path, monkeypatch):
    job_id = cluster.submit(spec_of(), bundle_of("7"), workdir=tmp_path)
    follow(cluster, job_id)
    paths, closed = JobPaths(default_home(), job_id), []
    backend = cluster.backend
    real = backend.request

    def request(job):
        made = real(job)
        made.close = lambda: closed.append(1)
        paths.events.unlink()
        paths.events.mkdir()  # as one that cannot be opened
        return made

    monkeypatch.setattr(backend, "request", request)
    with pytest.raises(OSError, match="directory"):
        JobRun(backend, paths, lambda: 1)
    assert closed == [1]


HOLD = """
import os, time
with open({side!r}, "a") as file: file.write("ran\\n")
while not os.path.exists({gate!r}): time.sleep(0.02)
7
"""


def test_a_keeper_that_cannot_begin_leaves_what_runs_to_the_next(cluster, tmp_path, monkeypatch):
    """One that no keeper has begun with is over, in words: nothing of it can run."""
    side, gate = tmp_path / "side", tmp_path / "gate"
    code = HOLD.format(side=str(side), gate=str(gate))
    folder = cluster.backend.folder()
    running = cluster.submit(spec_of(gpus=1), bundle_of(code), workdir=tmp_path)
    until(lambda: cluster.status(running).state is JobState.RUNNING)
    waiting = cluster.submit(spec_of(gpus=4), bundle_of(code), workdir=tmp_path)
    until(lambda: folder.is_taken_up(waiting))
    [pid] = [pid for pid, words in processes_of(folder.home).items() if "clusters.keeper" in words]
    os.kill(pid, signal.SIGKILL)
    lock = until(lambda: locks.take(folder.lock))
    fresh = cluster.submit(spec_of(), bundle_of("7"), workdir=tmp_path)

    def cannot(*_):
        raise ImportError("no module named hosts")

    with monkeypatch.context() as broken:
        broken.setattr(type(cluster.backend), "begin", cannot)
        for _ in range(2):  # as often as somebody looks: said once
            with pytest.raises(ImportError):
                keeper.main([str(folder.home), "hosts", folder.key, str(lock)])
    assert folder.open_jobs() == [running, waiting]
    assert cluster.status(fresh).state is JobState.LOST
    assert "ImportError: no module named hosts" in cluster.status(fresh).reason
    assert cluster.status(running).state is JobState.RUNNING
    status = cluster.status(waiting)
    assert status.state is JobState.QUEUED
    assert status.waiting_reason == "no keeper can begin: ImportError: no module named hosts"
    for job_id in (running, waiting):
        [words] = cluster.warnings(job_id)
        assert words.startswith(
            "no keeper can begin: ImportError: no module named hosts. What runs"
        )
    locks.drop(lock)
    gate.touch()
    stories = [follow(cluster, job_id) for job_id in (running, waiting)]
    assert [story.state for story in stories] == [JobState.SUCCEEDED] * 2
    assert side.read_text() == "ran\n" * 2
