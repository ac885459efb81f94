"""A flow's folder in a real HDFS: whoever runs a node is killed, and whoever comes next ends it."""

from __future__ import annotations

import secrets
import subprocess
import sys

import pytest
from submarine_engine.clusters.yarn.hdfs import open_hdfs
from submarine_engine.flows.build import build_flow
from submarine_engine.flows.folder import place_of
from submarine_engine.flows.leases import is_held
from submarine_engine.flows.model import Flow, FlowPaths
from submarine_engine.flows.records import NodePaths, NodeState, read_record
from submarine_engine.flows.runner import status_of
from submarine_engine.records import list_jobs

from tests.flows.conftest import TRAIN, call, notebook  # noqa: F401 - a fixture
from tests.jobs import until
from tests.yarn.hdfs.conftest import new_user

KILLED = """
import os, signal, sys
from submarine_engine import cache
from submarine_engine.cli import main
from submarine_engine.clusters.yarn.storage import HdfsFiles
from submarine_engine.flows import node
at, count = sys.argv[1], 0
def counted(kind, name, said):
    real = getattr(kind, name)
    def call(*words, **options):
        global count
        count += 1
        if at in (said, str(count)):
            os.kill(os.getpid(), signal.SIGKILL)
        done = real(*words, **options)
        if at == f"after {said}":
            os.kill(os.getpid(), signal.SIGKILL)
        return done
    setattr(kind, name, call)
counted(HdfsFiles, "create", "create")
counted(HdfsFiles, "write", "write")
counted(HdfsFiles, "remove", "remove")
counted(cache, "submit", "submit")
counted(node._Running, "_come_home", "come home")
counted(node._Running, "_leave", "leave")
sys.exit(main(sys.argv[2:]))
"""
ADDRESS_OF_NOBODY = """<configuration>
<property><name>fs.defaultFS</name><value>hdfs://127.0.0.1:1</value></property>
<property><name>dfs.namenode.http-address</name><value>127.0.0.1:1</value></property>
</configuration>"""


@pytest.fixture
def address(conf):
    """Return the address of a new folder in the user's HDFS."""
    hdfs = open_hdfs(conf)
    yield hdfs.uri(f"{hdfs.home}/flows-{secrets.token_hex(4)}/train.flow")
    hdfs.close()


@pytest.fixture
def killed_at(call, tmp_path, address):  # noqa: F811 - the fixture
    """Return a function that kills a node's process, has another one end it, and tells of both."""
    side = tmp_path / "side"
    note = f"with open({str(side)!r}, 'a') as file:\n    file.write('ran ')\n"
    path = notebook(
        tmp_path / "train.ipynb",
        f"%%submarine --gpus 0 --name a\n{note}value = [len('x')]",
        "%%submarine --gpus 0 --name b\nvalue.append(2)\nprint(value)",
    )
    code, _, err = call("flow", "build", path, "--output", address)
    assert code == 0, err

    def kill(at):
        run, jobs = f"r-{at}", len(list_jobs())
        side.unlink(missing_ok=True)
        words = ["flow", "node", address, "a", "--run", run]
        first = subprocess.run(
            [sys.executable, "-c", KILLED, str(at), *words],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert first.returncode in (-9, 0), first.stderr
        code, out, err = call(*words)
        assert code == 0, out + err
        assert side.read_text() == "ran ", at
        assert len(list_jobs()) == jobs + 1
        assert read_record(FlowPaths(place_of(address)), run, "a").attempt == 1
        code, out, err = call("flow", "node", address, "b", "--run", run)
        assert (code, out) == (0, "[1, 2]\n"), err
        return first.returncode != 0

    return kill


@pytest.mark.long
def test_a_flow_in_hdfs_runs_as_one_on_a_path(call, tmp_path, address):  # noqa: F811 - the fixture
    path = notebook(tmp_path / "train.ipynb", *TRAIN[:4])
    code, out, err = call("flow", "build", path, "--output", address)
    assert code == 0, err
    assert out.strip() == address
    assert Flow.read(place_of(address)) == build_flow(path, tmp_path / "here.flow")
    code, out, err = call("flow", "run", address, "--run", "nightly")
    assert code == 0, out + err
    assert "fitted 8.0" in out
    status = status_of(place_of(address), "nightly")
    assert status.over
    assert not status.driven
    assert {one.state for one in status.records.values()} == {NodeState.SUCCEEDED}
    code, out, _ = call("flow", "status", address)
    assert code == 0
    assert out.count("succeeded") == 2


@pytest.mark.long
def test_who_takes_over_a_killed_node_in_hdfs_attaches_to_its_job(killed_at):
    assert killed_at("after submit")


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_every_kill_in_hdfs_leaves_what_the_next_one_ends(killed_at):
    for at in ("submit", "come home", "after come home", "leave", "after leave"):
        assert killed_at(at)
    number = 1
    while killed_at(number):
        number += 1
    assert number > 8


@pytest.mark.long
def test_a_second_worker_waits_for_the_first(call, tmp_path, address):  # noqa: F811 - the fixture
    gate = tmp_path / "gate"
    path = notebook(
        tmp_path / "train.ipynb",
        "import os, time",
        "%%submarine --gpus 0 --name a\n"
        f"while not os.path.exists({str(gate)!r}):\n    time.sleep(0.05)\nprint('ran')",
    )
    assert call("flow", "build", path, "--output", address)[0] == 0
    words = ["flow", "node", address, "a", "--run", "r"]
    command = [sys.executable, "-m", "submarine_engine.cli", *words]
    kept = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    first = subprocess.Popen(command, **kept)
    files = NodePaths(FlowPaths(place_of(address)).node("r", "a"))
    until(lambda: is_held(files.lock))
    second = subprocess.Popen(command, **kept)
    until(lambda: "waiting for it" in second.stderr.readline())
    gate.touch()
    assert first.communicate()[0] == "ran\n"
    out, err = second.communicate()
    assert (first.returncode, second.returncode) == (0, 0), err
    assert out == ""
    assert "has succeeded before" in err
    assert len(list_jobs()) == 1


def test_what_hdfs_refuses_is_told_in_its_words(call, tmp_path, conf, monkeypatch, address):  # noqa: F811 - the fixture
    path = notebook(tmp_path / "train.ipynb", *TRAIN)
    owner = new_user(conf)
    hdfs = open_hdfs(conf, owner)
    hdfs.put(b"", f"{hdfs.home}/closed/file")
    hdfs.put(b"", f"{hdfs.home}/file")
    hdfs.close()
    monkeypatch.setenv("HADOOP_USER_NAME", new_user(conf))
    for where, what in (
        (f"hdfs:///user/{owner}/closed/train.flow", "Permission denied"),
        ("hdfs://elsewhere:8020/user/ana/train.flow", "is not in this cluster's storage"),
        ("webhdfs://elsewhere:9870/user/ana/train.flow", "write hdfs:///PATH"),
    ):
        code, out, err = call("flow", "build", path, "--output", where)
        assert code not in (0, None)
        assert out == ""
        assert what in err
        assert "Traceback" not in err
    monkeypatch.setenv("HADOOP_USER_NAME", owner)
    code, _, err = call("flow", "build", path, "--output", f"hdfs:///user/{owner}/file")
    assert code not in (0, None)
    assert "it is a file, and no folder" in err
    assert not list_jobs()


def test_an_hdfs_that_does_not_answer_is_told(call, tmp_path, monkeypatch):  # noqa: F811 - the fixture
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "core-site.xml").write_text(ADDRESS_OF_NOBODY)
    (tmp_path / "conf" / "yarn-site.xml").write_text("<configuration/>")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path / "conf"))
    path = notebook(tmp_path / "train.ipynb", *TRAIN)
    code, out, err = call("flow", "build", path, "--output", "hdfs:///user/ana/train.flow")
    assert code not in (0, None)
    assert out == ""
    assert "HDFS does not answer" in err
    code, _, err = call("flow", "node", "hdfs:///user/ana/train.flow", "a", "--run", "r")
    assert code == 1
    assert "HDFS does not answer" in err
    assert not list_jobs()
