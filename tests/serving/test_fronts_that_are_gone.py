"""What becomes of replicas and records where the front, or who asked for it, is gone or held up."""

from __future__ import annotations

import asyncio
import errno
import io
import shutil
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
from submarine_engine.errors import ClusterError, CommandError, JobFailedError
from submarine_engine.history import JobPaths, make_private
from submarine_engine.job import JobState
from submarine_engine.records import children_of, open_job
from submarine_engine.serving import front, launching, replica, replicas
from submarine_engine.serving.launching import servings, stand, start, stop, update, wait
from submarine_engine.serving.record import FrontState, ServingRecord, find_serving
from submarine_runtime.worker import calls_path

from tests.jobs import spec_of, until
from tests.serving.conftest import ask
from tests.serving.test_update import answered


@pytest.mark.long
@pytest.mark.service
def test_replicas_end_by_themselves_once_their_front_is_killed_for_good(
    home, constant, monkeypatch
):
    monkeypatch.setattr(launching, "ALONE", 25.0)  # the front speaks every ten seconds
    record = start(str(constant(1)), {"name": "left"})
    (replica,) = wait(record).told.replicas
    until(lambda: words_to(home, replica.job))
    open_job(record.job).kill()
    until(open_job(record.job).done)
    until(open_job(replica.job).done)
    until(lambda: [one.state for one in servings()] == ["cancelled"])
    ended = open_job(replica.job).status()
    assert ended.reason.startswith("JobError: the front is gone: no word from it for 25 s")
    assert ended.attempt == 1  # it is not begun again
    again = wait(start(str(constant(2)), {"name": "left"}))  # the name is free
    assert ask(again.record.address, {"inputs": [[1]]}).told == {"predictions": [2]}


def words_to(home, job):
    """Return how often the front has told a replica that it is there."""
    calls = JobPaths(home, job).task("worker-0").root / "calls"
    return calls.read_bytes().count(b'"stay"') if calls.exists() else 0


@pytest.mark.long
def test_a_replica_stays_for_as_long_as_its_front_says_so(home, constant, monkeypatch):
    monkeypatch.setattr(launching, "ALONE", 25.0)
    record = start(str(constant(1)), {"name": "stays"})
    (replica,) = wait(record).told.replicas
    until(lambda: words_to(home, replica.job) >= 4)  # thirty seconds later
    assert ask(record.address, {"inputs": [[1]]}).told == {"predictions": [1]}
    assert [one.job for one in stand(record).told.replicas] == [replica.job]


ONE, OTHER, NEW, SPOILT = (
    f"20260101-000000-{name}" for name in ("first", "other", "newer", "spoil")
)


class Site:
    """A cluster whose jobs run until they are cancelled, and listen nowhere."""

    def __init__(self):
        self.cancelled = set()

    def status(self, job_id):
        state = JobState.CANCELLED if job_id in self.cancelled else JobState.RUNNING
        task = SimpleNamespace(task="worker-0", message="")
        return SimpleNamespace(state=state, tasks=(task,), attempt=1, reason="")

    def cancel(self, job_id, reason):
        assert reason
        self.cancelled.add(job_id)


@pytest.fixture
def looked_after(home, tmp_path):
    """Return a function that has a front look after `jobs` while something else is done."""

    def look(site, jobs, meanwhile, **asked):
        for job in jobs:
            make_private(JobPaths(home, job).task("worker-0").root)
        folder = make_private(tmp_path / "served")
        record = ServingRecord(folder=folder, cluster="local", port=0, workdir="/", **asked)
        record.write()

        async def run():
            one = front.Front(record, site, "the-front")
            for job in jobs:
                one._add(job, 1)
            running = asyncio.create_task(one.run())
            await asyncio.to_thread(meanwhile, record)
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running

        asyncio.run(run())

    return look


def test_replicas_hear_of_their_front_while_another_one_is_asked_for(
    home, looked_after, monkeypatch
):
    monkeypatch.setattr(replicas, "_STAY", 0.0)
    monkeypatch.setattr(front, "_SELDOM", 0.01)
    monkeypatch.setattr(ServingRecord, "what", lambda *_: (spec_of(), None))
    asked, enough = threading.Event(), threading.Event()
    site = Site()

    def submit(*_, **__):
        folder = JobPaths(home, NEW).task("worker-0").root
        if not folder.exists():
            make_private(folder)
            return NEW
        asked.set()
        assert enough.wait(600)
        raise ClusterError("no more")

    site.submit = submit

    def meanwhile(_):
        try:
            until(asked.is_set)
            for job in (ONE, OTHER, NEW):
                before = words_to(home, job)
                until(lambda job=job, before=before: words_to(home, job) > before + 1)
        finally:
            enough.set()

    make_private(JobPaths(home, SPOILT).task("worker-0").root / "calls")  # it cannot be told
    looked_after(site, [SPOILT, ONE, OTHER], meanwhile, replicas=5)


def test_a_full_disk_ends_no_front(looked_after, monkeypatch):
    full, told, tell = threading.Event(), [], ServingRecord.tell
    full.set()

    def tell_where_there_is_room(record, state):
        told.append(state)
        if full.is_set():
            raise OSError(errno.ENOSPC, "full")
        tell(record, state)

    def meanwhile(record):
        until(lambda: len(told) > 1)
        full.clear()
        until(lambda: [one.job for one in record.told().replicas] == [ONE])

    monkeypatch.setattr(ServingRecord, "tell", tell_where_there_is_room)
    looked_after(Site(), [ONE], meanwhile)


def test_what_a_front_cannot_log_is_no_end_of_it(monkeypatch):
    class Full(io.StringIO):
        def flush(self):
            raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(sys, "stdout", Full())
    front.say("a line")
    assert sys.stdout.getvalue() == "a line\n"


def test_a_replica_that_could_not_be_cancelled_is_cancelled_the_next_time(looked_after):
    site, asked = Site(), []

    def cancel(job_id, reason):
        asked.append(job_id)
        if len(asked) == 1:
            raise ClusterError("it does not answer")
        Site.cancel(site, job_id, reason)

    def meanwhile(record):
        until(lambda: site.cancelled)
        until(lambda: len(record.told().replicas) == 1)

    site.cancel = cancel
    looked_after(site, [ONE, OTHER], meanwhile)
    assert asked[0] == asked[1]
    assert len(asked) == 2  # it is over, and the other one is needed


@pytest.mark.parametrize(
    "spoil",
    [lambda calls: calls.write_bytes(b"no frame\n"), lambda calls: calls.symlink_to("calls")],
    ids=["spoilt", "unreadable"],
)
def test_a_replica_that_cannot_read_what_its_front_says_ends_as_one_that_hears_nothing(
    tmp_path, monkeypatch, spoil
):
    ended = threading.Event()
    monkeypatch.setenv("SUBMARINE_TASK_DIR", str(tmp_path))
    monkeypatch.setattr(replica, "_LOOK", 0.01)
    monkeypatch.setattr(replica.signal, "pthread_kill", lambda *_: ended.set())
    spoil(Path(calls_path(str(tmp_path))))
    watch = replica._FrontWatch(0.2)
    until(ended.is_set)
    assert watch.is_alone


def walked_front(name, /):
    """Be a front that is killed where `walk` beside its serving says."""
    from submarine_engine.history import default_home
    from submarine_engine.serving.front import run_front

    from tests.local.walked import Walk

    folder = default_home() / "walk"
    number, where = (folder / "told").read_text().split("\n")
    Walk(f"front:{number}:{folder}", ("front",), where)
    run_front(name)


# Locks are looked at again and again, and how far it is is told as often; both change nothing.
EFFECTS = (
    r"rename .(state|serving|record|launch|task|status|inside-asked|cancel)|(rename|mkdir) 2|"
    r"open (calls|front.lock|bell)|Popen"
)


@pytest.fixture
def killed_at(home, constant, monkeypatch):
    """Return a function that has a front killed at an effect, and looks what the next one does."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))  # for the front to be itself
    monkeypatch.setattr(front, "run_front", walked_front)

    def kill(number, where=EFFECTS):
        walk = home / "walk"
        shutil.rmtree(walk, ignore_errors=True)
        walk.mkdir(parents=True, mode=0o700)
        (walk / "told").write_text(f"{number}\n{where}")
        name = f"walk-{number}"
        record = start(str(constant(1)), {"name": name})
        wait(record)
        wait(update(name, str(constant(2)), {}))
        # What it tells a replica every ten seconds is an effect, too: it may be killed meanwhile.
        assert until(lambda: answered(record.address)) == {"predictions": [2]}
        until(lambda: len(stand(record).told.replicas) == 1)
        front_job = find_serving(home, name).job
        attempt = open_job(front_job).status().attempt  # first: it may be killed just after that
        killed = (walk / "killed").exists()
        if killed:
            attempt = until(lambda: (now := open_job(front_job).status().attempt) > 1 and now)
        at = until((walk / "killed").read_text) if killed else ""
        assert attempt == (2 if killed else 1), at
        children = [open_job(one) for one in children_of(home, front_job)]
        # None is left beside the one that answers, whoever has asked for it.
        (replica,) = stand(record).told.replicas
        until(lambda: [one.id for one in children if not one.done()] == [replica.job])
        assert stop(name)
        return at

    return kill


@pytest.mark.long
@pytest.mark.service
def test_a_front_that_is_killed_as_it_asks_for_a_replica_asks_for_no_second_one(killed_at):
    assert killed_at(1, "Popen").startswith("subprocess.Popen")


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_every_kill_of_a_front_leaves_what_the_next_one_goes_on_with(killed_at):
    seen = []
    while at := killed_at(len(seen) + 1):
        seen.append(at)
    assert {at.split()[0] for at in seen} >= {"os.rename", "os.mkdir", "subprocess.Popen"}
    assert len(seen) > 20


STARTS = """
import sys
sys.path.insert(0, sys.argv[1])
from submarine_engine.serving import front, launching  # loaded before effects count
from tests.local.walked import Walk
Walk(sys.argv[2], ("start",), "rename .(serving|record|launch|spec|status)|mkdir 2|Popen")
launching.start(sys.argv[3], {"name": "begun"})
"""


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_whoever_is_killed_as_it_starts_a_front_leaves_a_name_that_is_free_or_served(
    home, constant, tmp_path
):
    number, seen = 1, []
    while True:
        walk = tmp_path / f"walk-{number}"
        walk.mkdir()
        words = [sys.executable, "-c", STARTS, str(Path(__file__).parents[2])]
        found = subprocess.run([*words, f"start:{number}:{walk}", str(constant(1))], check=False)
        if not (walk / "killed").exists():
            break
        assert found.returncode == -9
        seen.append((walk / "killed").read_text())
        if not [one for one in servings() if one.state in ("starting", "ready")]:
            with suppress(CommandError):  # the front may have been begun, and have come meanwhile
                start(str(constant(1)), {"name": "begun"})
        now = wait(find_serving(home, "begun"))
        assert ask(now.record.address, {"inputs": [[1]]}).told == {"predictions": [1]}
        assert len(now.told.replicas) == 1, seen
        assert stop("begun")
        number += 1
    assert found.returncode == 0
    assert len(seen) > 5, seen


def test_what_a_front_tells_last_is_seen_once_it_is_over(tmp_path, monkeypatch):
    make_private(tmp_path / "digits")
    asked = {"cluster": "local", "port": 1, "workdir": "/", "jobs": (ONE,)}
    record = ServingRecord(folder=tmp_path / "digits", **asked)

    def over():
        record.tell(FrontState(job=ONE, failed=1))
        return SimpleNamespace(state=JobState.FAILED)

    monkeypatch.setattr(launching, "open_job", lambda _: SimpleNamespace(status=over))
    assert stand(record).told.failed == 1


def test_a_front_that_nobody_has_noted_leaves_the_name_to_the_one_that_serves(
    tmp_path, monkeypatch
):
    make_private(tmp_path / "digits")
    asked = {"cluster": "local", "port": 1, "workdir": "/", "jobs": (OTHER,)}
    record = ServingRecord(folder=tmp_path / "digits", **asked)
    monkeypatch.setattr(front, "find_serving", lambda *_: record)
    monkeypatch.setenv("SUBMARINE_JOB_ID", ONE)
    with pytest.raises(JobFailedError, match="another one serves") as refused:
        front.run_front("digits")
    assert refused.value.submarine_final  # it is not begun again
    assert not record.lock.exists()
