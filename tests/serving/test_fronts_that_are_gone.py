"""What becomes of replicas and records where the front, or who asked for it, is gone."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from submarine_engine.history import JobPaths
from submarine_engine.records import children_of, open_job
from submarine_engine.serving import front, launching
from submarine_engine.serving.launching import servings, stand, start, stop, update, wait
from submarine_engine.serving.record import find_serving

from tests.jobs import until
from tests.serving.conftest import ask


@pytest.mark.long
@pytest.mark.service
def test_replicas_end_by_themselves_once_their_front_is_killed_for_good(
    home, constant, monkeypatch
):
    monkeypatch.setattr(launching, "ALONE", 15.0)  # the front speaks every ten seconds
    record = start(str(constant(1)), {"name": "left"})
    (replica,) = wait(record).told.replicas
    until(lambda: words_to(home, replica.job))
    open_job(record.job).kill()
    until(open_job(record.job).done)
    until(open_job(replica.job).done)
    until(lambda: [one.state for one in servings()] == ["cancelled"])
    ended = open_job(replica.job).status()
    assert ended.reason.startswith("JobError: the front is gone: no word from it for 15 s")
    assert ended.attempt == 1  # it is not begun again
    again = wait(start(str(constant(2)), {"name": "left"}))  # the name is free
    assert ask(again.record.address, {"inputs": [[1]]}).told == {"predictions": [2]}


def words_to(home, job):
    """Return how often the front has told a replica that it is there."""
    calls = JobPaths(home, job).task("worker-0").root / "calls"
    return calls.read_bytes().count(b'"stay"') if calls.exists() else 0


@pytest.mark.long
def test_a_replica_stays_for_as_long_as_its_front_says_so(home, constant, monkeypatch):
    monkeypatch.setattr(launching, "ALONE", 15.0)
    record = start(str(constant(1)), {"name": "stays"})
    (replica,) = wait(record).told.replicas
    until(lambda: words_to(home, replica.job) >= 4)  # thirty seconds later
    assert ask(record.address, {"inputs": [[1]]}).told == {"predictions": [1]}
    assert [one.job for one in stand(record).told.replicas] == [replica.job]


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
        assert ask(record.address, {"inputs": [[1]]}).told == {"predictions": [2]}
        until(lambda: len(stand(record).told.replicas) == 1)
        killed = (walk / "killed").exists()
        at = (walk / "killed").read_text() if killed else ""
        front_job = find_serving(home, name).job
        assert open_job(front_job).status().attempt == (2 if killed else 1), at
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
@pytest.mark.timeout(3600)
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
            start(str(constant(1)), {"name": "begun"})
        now = wait(find_serving(home, "begun"))
        assert ask(now.record.address, {"inputs": [[1]]}).told == {"predictions": [1]}
        assert len(now.told.replicas) == 1, seen
        assert stop("begun")
        number += 1
    assert found.returncode == 0
    assert len(seen) > 5, seen
