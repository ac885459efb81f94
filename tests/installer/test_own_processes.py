"""Only a cluster's own processes are ended, never a stranger's."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from submarine_engine.errors import ClusterError
from submarine_engine.installer import HadoopCluster
from submarine_engine.installer.cluster import sole_process
from submarine_engine.installer.daemons import end_containers, end_daemon, find_daemons, marks
from submarine_engine.installer.plan import Layout

SLEEP = "import sys, time; print(flush=True); time.sleep(600)"


@pytest.fixture
def start():
    """Return a function that starts a sleeper with those arguments and variables."""
    started = []

    def popen(*arguments, **variables):
        process = subprocess.Popen(
            [sys.executable, "-c", SLEEP, *arguments],
            env={**os.environ, **variables},
            stdout=subprocess.PIPE,
        )
        started.append(process)
        process.stdout.readline()
        return process

    yield popen
    for process in started:
        process.kill()
        process.communicate()


def test_daemons_are_known_by_cluster_and_name(start, tmp_path):
    here, there = Layout(tmp_path, "here"), Layout(tmp_path, "here2")
    mine, other = start(*marks(here, "namenode")), start(*marks(here, "datanode"))
    stranger = start(*marks(there, "namenode"))
    assert find_daemons(here) == {"namenode": mine.pid, "datanode": other.pid}
    assert end_daemon(here, "namenode")
    assert mine.wait(180) == -9
    assert other.poll() is stranger.poll() is None
    assert find_daemons(here) == {"datanode": other.pid}


def test_a_home_that_is_reached_by_a_link_is_the_same(start, tmp_path, monkeypatch):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    daemon = start(*marks(Layout(tmp_path / "real"), "namenode"))
    monkeypatch.chdir(tmp_path)
    for home in (Path("link"), tmp_path / "link", Path("real/../link")):
        assert find_daemons(Layout(home)) == {"namenode": daemon.pid}


def test_containers_are_ended_and_users_of_the_cluster_are_not(start, tmp_path):
    layout = Layout(tmp_path)
    container = start(LOCAL_DIRS=f"{layout.node_data(0)}/local/usercache")
    user = start(HADOOP_CONF_DIR=str(layout.conf), LOCAL_DIRS="/elsewhere")
    reader = start(str(layout.node_data(0) / "logs/stdout"))
    end_containers(layout)
    assert container.wait(180) == -9
    assert user.poll() is reader.poll() is None


def test_down_ends_daemons_whose_plan_is_lost(start, tmp_path):
    cluster = HadoopCluster(tmp_path, "lost")
    daemon = start(*marks(cluster.layout, "resourcemanager"))
    (cluster.layout.data / "deep").mkdir(parents=True)
    (cluster.layout.data / "deep/file").touch()
    (cluster.layout.data / "deep").chmod(0)
    (cluster.layout.root / "link").symlink_to(tmp_path)
    assert cluster.down()
    assert daemon.wait(180) == -9
    assert list(tmp_path.iterdir()) == []
    assert not cluster.down()
    assert list(tmp_path.iterdir()) == []


def test_a_cluster_that_is_not_there_is_said(tmp_path):
    cluster = HadoopCluster(tmp_path, "none")
    assert cluster.daemons() == []
    for ask in (lambda: cluster.plan, cluster.problems, cluster.environment, cluster.wait_ready):
        with pytest.raises(ClusterError, match="there is no cluster 'none'"):
            ask()


def test_the_lock_holds_one_after_the_other_though_its_file_goes(tmp_path):
    lock, inside, most = tmp_path / "clusters" / "a.lock", [], []

    def work():
        with sole_process(lock):
            inside.append(1)
            most.append(len(inside))
            time.sleep(0.01)
            inside.pop()
            lock.unlink()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 8


def test_a_home_that_a_cluster_is_the_first_in_is_closed_to_others(tmp_path):
    before = os.umask(0o022)
    try:
        with sole_process(tmp_path / "home" / "clusters" / "a.lock"):
            assert stat.S_IMODE((tmp_path / "home").stat().st_mode) == 0o700
    finally:
        os.umask(before)


def test_who_waits_too_long_for_the_lock_is_told(tmp_path):
    lock = tmp_path / "a.lock"
    with (
        sole_process(lock),
        pytest.raises(ClusterError, match="another process"),
        sole_process(lock, patience=0),
    ):
        pass
