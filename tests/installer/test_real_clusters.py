"""Real daemons: interrupted starts are finished, two stand side by side, nothing is left behind.

Each start takes ten seconds and more, so there is one test of two clusters' whole life: split among
several processes it would start them in each.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from urllib.request import ProxyHandler, build_opener

import pytest
from submarine_engine.errors import ClusterError, CommandError
from submarine_engine.installer import HadoopCluster, Wanted
from submarine_engine.installer.daemons import FORMATTER, find_daemons
from submarine_engine.installer.plan import BLOCK

pytestmark = pytest.mark.long

UP = ("cluster", "up", "--name", "three", "--nodes", "3", "--gpus", "2")
LIMIT = 180
LOOPBACK = "0100007F"  # as /proc/net/tcp has it


def command(*words, home):
    return {
        "args": [sys.executable, "-m", "submarine_engine.cli", *words],
        "env": {**os.environ, "SUBMARINE_HOME": str(home)},
    }


def submarine(*words, home, code=0):
    done = subprocess.run(**command(*words, home=home), capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    return done.stdout


def kill_half_way(home, ready):
    """Start the cluster and kill the command (SIGKILL) as soon as `ready` says so."""
    with subprocess.Popen(**command(*UP, home=home), stderr=subprocess.DEVNULL) as process:
        end = time.monotonic() + LIMIT
        while not ready():
            assert process.poll() is None
            assert time.monotonic() < end
            time.sleep(0.01)
        process.kill()


@pytest.fixture
def home(tmp_path):
    """Give a folder in which two clusters start at once; one was interrupted twice before."""
    home = tmp_path / "clusters-home"
    home.mkdir()
    three, bare = HadoopCluster(home, "three"), HadoopCluster(home, "bare")
    try:
        kill_half_way(home, three.layout.plan.exists)
        formatted = three.layout.formatted.exists  # where that took less than a look at it
        kill_half_way(home, lambda: FORMATTER in find_daemons(three.layout) or formatted())
        beside = ("cluster", "up", "--name", "bare", "--no-hdfs")
        with subprocess.Popen(**command(*beside, home=home)) as process:
            assert "3 nodes" in submarine(*UP, home=home)
            assert process.wait(LIMIT) == 0
        yield home
    finally:
        three.down()
        bare.down()


def a_start_that_was_interrupted_is_finished(three):
    assert three.problems() == []
    names = ["resourcemanager", "namenode", "datanode", *(f"nodemanager-{n}" for n in range(3))]
    assert [daemon.name for daemon in three.daemons()] == names


def up_twice_is_one_cluster(three):
    before = find_daemons(three.layout)
    assert three.up() == three.up(Wanted(nodes=3)) == three.plan
    assert find_daemons(three.layout) == before


def two_stand_side_by_side(home, three):
    bare = HadoopCluster(home, "bare")
    assert bare.problems() == []
    assert abs(bare.plan.port - three.plan.port) >= BLOCK
    assert [daemon.name for daemon in bare.daemons()] == ["resourcemanager", "nodemanager-0"]
    assert bare.plan.default_fs == "viewfs://local"


def every_node_has_its_gpus(three):
    with build_opener(ProxyHandler({})).open(f"{three.plan.rm_web}/ws/v1/cluster/nodes") as answer:
        nodes = json.load(answer)["nodes"]["node"]
    found = [
        kind["value"]
        for node in nodes
        for kind in node["totalResource"]["resourceInformations"]["resourceInformation"]
        if kind["name"] == "yarn.io/gpu"
    ]
    assert found == [2, 2, 2]


def another_shape_is_refused(three):
    with pytest.raises(ClusterError, match="there already, with --nodes 3") as caught:
        three.up(Wanted(nodes=2))
    assert "down" in caught.value.fix


def what_ended_is_told_and_up_mends_it(home, three):
    datanode = three.daemon("datanode")
    datanode.kill()
    told = json.loads(
        submarine("cluster", "status", "--json", "--name", "three", home=home, code=1)
    )
    assert told["problems"] == ["datanode does not run"]
    three.up()
    assert datanode.pid
    shown = submarine("cluster", "status", "--name", "three", home=home)
    assert str(datanode.pid) in shown
    assert "a job could run" in shown


def all_daemons_come_back_on_their_ports(home):
    bare = HadoopCluster(home, "bare")
    before = bare.plan
    for daemon in bare.daemons():
        bare.daemon(daemon.name).kill()
    assert bare.up() == before
    assert bare.problems() == []


def a_shell_finds_it(home):
    script = f"""
        eval "$({sys.executable} -m submarine_engine.cli cluster env --name three)"
        echo data | hdfs dfs -put - words && hdfs dfs -cat words && yarn node -list
        yarn nonsense
    """
    done = subprocess.run(
        ["sh", "-c", script], capture_output=True, text=True, check=False,
        env={**os.environ, "SUBMARINE_HOME": str(home)},
    )  # fmt: skip
    assert done.returncode == 64, done.stderr
    assert done.stdout.startswith("data\n")
    assert "Total Nodes:3" in done.stdout
    assert "there is no 'nonsense' here" in done.stderr


def logs_are_listed_and_written(home, three):
    listed = submarine("cluster", "logs", "--name", "three", home=home)
    assert all(daemon.name in listed for daemon in three.daemons())
    log = submarine("cluster", "logs", "nodemanager-2", "--name", "three", home=home)
    assert "Registered with ResourceManager" in log
    with pytest.raises(CommandError, match="there is no daemon 'nodemanager-3'"):
        three.daemon("nodemanager-3")


def nobody_else_may_look_in_or_call(home, three):
    layout = three.layout
    private = [home / "clusters", layout.root, *layout.root.iterdir()]
    for folder in (layout.conf, layout.bin, layout.logs):
        private += folder.iterdir()
    assert {str(path): path.stat().st_mode & 0o077 for path in private} == dict.fromkeys(
        map(str, private), 0
    )
    hosts = listeners(three.plan.port)
    assert len(hosts) >= 10 + 3 * 3
    assert set(hosts.values()) == {LOOPBACK}


def down_leaves_nothing(home, three):
    bare = HadoopCluster(home, "bare")
    first = three.plan.port
    assert "is gone" in submarine("cluster", "down", "--name", "three", home=home)
    assert "was not there" in submarine("cluster", "down", "--name", "three", home=home)
    assert find_daemons(three.layout) == listeners(first) == {}
    assert bare.problems() == []
    assert bare.down()
    assert list(home.iterdir()) == []


def listeners(first):
    """Return the addresses, in the kernel's notation, that are listened on in a block of ports."""
    found = {}
    for table in ("tcp", "tcp6"):
        for line in Path("/proc/net", table).read_text().splitlines()[1:]:
            _, local, _, state = line.split()[:4]
            host, port = local.split(":")
            if state == "0A" and first <= int(port, 16) < first + BLOCK:
                found[int(port, 16)] = host
    return found


@pytest.mark.timeout(900)  # of a busy machine
def test_the_life_of_two_clusters(home):
    three = HadoopCluster(home, "three")
    a_start_that_was_interrupted_is_finished(three)
    up_twice_is_one_cluster(three)
    two_stand_side_by_side(home, three)
    every_node_has_its_gpus(three)
    another_shape_is_refused(three)
    what_ended_is_told_and_up_mends_it(home, three)
    all_daemons_come_back_on_their_ports(home)
    a_shell_finds_it(home)
    logs_are_listed_and_written(home, three)
    nobody_else_may_look_in_or_call(home, three)
    down_leaves_nothing(home, three)
