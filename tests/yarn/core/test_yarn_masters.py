"""Warm masters whose tokens for HDFS grow old: the next job has another one, the last keeps its."""

from __future__ import annotations

import itertools
import math
from types import SimpleNamespace

import pytest
from submarine_engine.clusters.machine import Session
from submarine_engine.clusters.yarn import masters
from submarine_engine.clusters.yarn.driver import KeeperFolder, read_masters
from submarine_engine.clusters.yarn.masters import Master, Masters
from submarine_engine.history import JobPaths, write_json

from tests.jobs import until

LIFE = 1000.0


class Cluster:
    """Gives applications that run at once; a clock of the test's own."""

    def __init__(self, folder):
        self.folder, self.now, self.life = folder, 1e9, LIFE
        self.ended = []
        self._ids = itertools.count(1)

    def masters(self):
        return Masters(self.folder, self, self, 60.0, lambda: self.life)

    def submit(self, _):
        return f"application_1_{next(self._ids)}"

    def connect(self, app_id):
        return SimpleNamespace(
            shutdown=lambda *_: self.ended.append(app_id), close=lambda: None, app_id=app_id
        )

    def application(self, _):
        return {"state": "RUNNING"}

    def take(self, kept, app_id=""):
        wanted = Master("key", None, began=self.now)
        master = kept.take(wanted, SimpleNamespace, probed=False, app_id=app_id)
        assert master.ready.wait(60)
        assert master.failure is None
        return master


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    folder = KeeperFolder(tmp_path, SimpleNamespace(fingerprint="here"))
    folder.make()
    cluster = Cluster(folder)
    clock = SimpleNamespace(time=lambda: cluster.now, sleep=lambda _: None, monotonic=lambda: 0.0)
    monkeypatch.setattr(masters, "time", clock)
    monkeypatch.setattr(masters, "lives", lambda _: True)
    return cluster


def test_one_that_is_older_than_its_tokens_has_a_successor(cluster):
    kept = cluster.masters()
    first = cluster.take(kept)
    cluster.now += 0.7 * LIFE
    assert cluster.take(kept) is first
    assert kept.keeps("key")
    cluster.now += 0.1 * LIFE
    assert not kept.keeps("key")
    second = cluster.take(kept)
    assert second.app_id != first.app_id
    assert kept.keeps("key")
    # Two jobs have the first one still, one of which a keeper takes up anew.
    assert cluster.take(kept, first.app_id) is first
    for _ in range(2):
        kept.give(first)
        kept.tend()
    assert cluster.ended == []
    kept.give(first)
    assert kept.tend() == 1
    assert cluster.ended == [first.app_id]


def test_a_keeper_that_comes_after_a_kill_knows_which_one_is_whose(cluster):
    kept = cluster.masters()
    first = cluster.take(kept)
    cluster.now += LIFE
    second = cluster.take(kept)
    assert len(read_masters(cluster.folder)) == 2
    again = cluster.masters()
    assert cluster.take(again).app_id == second.app_id
    assert cluster.take(again, first.app_id).app_id == first.app_id
    until(lambda: len(again.lives()) == 2)
    again.close()
    assert sorted(cluster.ended) == sorted([first.app_id, second.app_id])


def test_without_kerberos_none_grows_old(cluster):
    cluster.life = math.inf
    kept = cluster.masters()
    first = cluster.take(kept)
    cluster.now += 100 * LIFE
    assert cluster.take(kept) is first


def test_a_keeper_that_comes_after_a_kill_knows_where_a_notebook_runs(cluster):
    session = Session(7, 70, "login-2", "pid:[1]")
    kept = cluster.masters()
    taken = kept.take(Master("key", session, began=cluster.now), SimpleNamespace, probed=False)
    assert taken.ready.wait(60)
    (noted,) = read_masters(cluster.folder)
    assert Master.noted(noted).session == session
    assert Master.noted({**noted, "session": [7, 70]}).session == Session(7, 70)
    assert Master.noted({**noted, "session": None}).session is None


def test_the_idlest_is_none_of_a_job_that_the_keeper_has_yet_to_take_up(cluster, monkeypatch):
    kept = cluster.masters()
    first = cluster.take(kept)
    kept.give(first)
    monkeypatch.setattr(KeeperFolder, "open_jobs", lambda _: ["20260101-000000-aaaaa"])
    root = JobPaths(cluster.folder.home, "20260101-000000-aaaaa").root
    root.mkdir(parents=True)
    write_json(root / "yarn.json", {"app_id": first.app_id, "containers": {"worker-0": "c"}})
    assert not kept.idle_queues()
    assert kept.end_idlest("default") == ""
    (root / "yarn.json").unlink()
    assert kept.idle_queues() == {"default": 1}
    assert kept.end_idlest("default") == first.app_id
    assert cluster.ended == [first.app_id]


def test_one_for_which_no_thread_can_be_started_is_not_waited_for(cluster, monkeypatch):
    kept = cluster.masters()

    def full(*_, **__):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(Masters, "_start", full)
        with pytest.raises(RuntimeError, match="new thread"):
            cluster.take(kept)
    assert cluster.take(kept).failure is None
