"""What the installer says where it cannot go on, and what it reads of NVML."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from urllib.parse import parse_qsl, urlsplit

import pytest
from submarine_engine.cli import main
from submarine_engine.errors import ClusterError
from submarine_engine.installer import ClusterPlan, Daemon, HadoopCluster, Wanted, daemons
from submarine_engine.installer.daemons import KDC, daemon_names, missing_parts
from submarine_engine.installer.java import Java
from submarine_engine.installer.plan import FIRST, Card, find_gpus
from submarine_engine.installer.sites import write_files

from tests.jobs import until

LOG = """\
2026-01-01 00:00:00,000 INFO NodeManager: STARTUP_MSG: Starting NodeManager
2026-01-01 00:00:01,000 ERROR NodeManager: Error starting NodeManager
java.net.BindException: Address already in use
2026-01-01 00:00:02,000 INFO NodeManager: SHUTDOWN_MSG: Shutting down
"""


@pytest.fixture
def made(tmp_path):
    """Return a cluster whose files are there, on a Java that is not."""
    cluster = HadoopCluster(tmp_path, "made")
    java = Java(tmp_path / "gone", 17)
    plan = ClusterPlan.make(Wanted(gpus=1), port=FIRST, java=java, jars=tmp_path / "jars")
    write_files(plan, cluster.layout)
    return cluster


def test_a_daemon_that_ended_is_told_with_its_own_words(made):
    daemon = made.daemon("nodemanager-0")
    daemon.log.write_text(LOG)
    error = daemon.failure()
    assert "the nodemanager-0 has ended by itself" in error.what
    assert "BindException: Address already in use" in error.what
    assert "SHUTDOWN" not in error.what
    assert error.where == str(daemon.log)
    assert "cluster logs nodemanager-0" in error.fix


def test_a_daemon_that_cannot_be_run_is_told(made):
    manager = made.daemon("resourcemanager")
    manager.start()
    until(lambda: manager.pid is None)  # what was to become it is there for a moment
    with pytest.raises(ClusterError, match="the resourcemanager has ended by itself"):
        made.wait_ready(timeout=10)
    assert made.problems()[0] == "resourcemanager does not run"


def test_waiting_for_a_daemon_without_a_log_is_told(made):
    with pytest.raises(ClusterError, match="the resourcemanager has ended by itself"):
        made.wait_ready(timeout=10)
    assert isinstance(made.daemon("namenode"), Daemon)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("up", "--hdfs", "--no-hdfs"), "contradict each other"),
        (("up", "--nodes", "0"), "--nodes 0 is not possible"),
        (("up", "--name", "../x"), "cannot name a cluster"),
        (("logs", "nonsense"), "there is no cluster 'yarn'"),
        (("env",), "there is no cluster 'yarn'"),
    ],
)
def test_wrong_words_are_answered_before_anything_is_done(words, told, capsys, tmp_path):
    assert main(["cluster", *words]) != 0
    assert told in capsys.readouterr().err
    assert not (tmp_path / "home").exists()


class NameNode:
    """Answers in the place of a cluster's daemons, by what is in its HDFS; notes what is asked."""

    def __init__(self, user):
        self.user, self.folders, self.orders = user, {}, []

    def __call__(self, url, method="GET"):
        path, query = urlsplit(url).path, dict(parse_qsl(urlsplit(url).query))
        folder = path.removeprefix("/webhdfs/v1")
        if method != "GET":
            self.orders.append((query["op"], folder))
            self.folders.setdefault(folder, self.user)
            return {"boolean": True}
        if query.get("op") == "GETFILESTATUS":
            if folder not in self.folders:
                raise FileNotFoundError
            return {"FileStatus": {"owner": self.folders[folder]}}
        if "qry" in query:
            actors = '[{"ActorState": "RUNNING"}]'
            told = {"Safemode": "", "NumLiveDataNodes": 1, "BPServiceActorInfo": actors}
            return {"beans": [told]}
        return {"nodes": {}}


def test_who_asks_what_is_missing_changes_nothing(made, monkeypatch):
    namenode = NameNode(made.plan.user)
    monkeypatch.setattr(daemons, "_DaemonClient", lambda _: namenode)
    monkeypatch.setattr(daemons, "_missing_yarn", lambda *_: "")
    running = dict.fromkeys(daemon_names(made.plan), 1)
    monkeypatch.setattr(daemons, "find_daemons", lambda _: running)
    assert missing_parts(made.plan, made.layout) == ["HDFS lacks the folders that jobs need"]
    assert namenode.orders == []
    made.wait_ready(timeout=10)
    assert {"/user", f"/user/{made.plan.user}"} < {folder for _, folder in namenode.orders}
    namenode.orders.clear()
    assert missing_parts(made.plan, made.layout) == []
    namenode.folders[f"/user/{made.plan.user}"] = "another"
    assert missing_parts(made.plan, made.layout) == ["HDFS lacks the folders that jobs need"]
    assert namenode.orders == []


def test_the_kdc_is_not_run_with_what_it_would_not_hear(made):
    kdc = Daemon(KDC, made.plan, made.layout)
    with pytest.raises(ValueError, match="kdc"):
        kdc.run("-format")
    with pytest.raises(ValueError, match="kdc"):
        kdc.run(wait=True)


def nvml(cards):
    """Answer as `pynvml` does, for GPUs that are not there; a text of memory is an error."""

    class NVMLError(Exception):
        pass

    def memory(card):
        if card.memory is None:
            raise NVMLError
        return SimpleNamespace(total=card.memory << 20)

    return SimpleNamespace(
        NVMLError=NVMLError,
        nvmlInit=lambda: None,
        nvmlShutdown=lambda: None,
        nvmlDeviceGetCount=lambda: len(cards),
        nvmlDeviceGetHandleByIndex=cards.__getitem__,
        nvmlDeviceGetName=lambda card: card.name.encode(),
        nvmlDeviceGetUUID=lambda card: card.uuid,
        nvmlDeviceGetMinorNumber=lambda card: card.minor,
        nvmlDeviceGetMemoryInfo=memory,
    )


def test_gpus_of_the_machine_are_found(monkeypatch):
    cards = (Card("H200", "GPU-1", 2, 141_000), Card("GB10", "GPU-2", 0, None))
    monkeypatch.setitem(sys.modules, "pynvml", nvml(cards))
    assert find_gpus() == (cards[0], cards[1]._replace(memory=0))


def test_a_machine_without_nvml_has_none(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert find_gpus() == ()


def test_up_says_who_else_can_use_the_cluster(made, monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("SUBMARINE_HOME", str(tmp_path))
    monkeypatch.setattr(HadoopCluster, "up", lambda self, *_, **__: self.plan)
    assert main(["cluster", "up", "--name", "made"]) == 0
    told = capsys.readouterr()
    assert f"can run code as {made.plan.user} by it" in " ".join(told.err.split())


@pytest.mark.parametrize("verb", ["status", "down"])
def test_of_no_cluster_those_of_another_name_are_told(verb, monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("SUBMARINE_HOME", str(tmp_path))
    for name, kind in (("mine", "slurm"), ("kubernetes", "kubernetes")):
        folder = tmp_path / "clusters" / name
        folder.mkdir(parents=True)
        (folder / f"{kind}.json").write_text("{}")
    main(["cluster", verb])
    told = capsys.readouterr()
    assert "there is kubernetes and mine (--name)" in told.out + told.err


def test_no_copy_of_start_scripts_is_kept_in_log_folders(made):
    site = (made.layout.conf / "yarn-site.xml").read_text()
    name = "<name>yarn.nodemanager.log-container-debug-info.enabled</name>"
    assert f"{name}<value>false</value>" in site
