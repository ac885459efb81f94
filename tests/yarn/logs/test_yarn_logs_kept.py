"""What log aggregation keeps: what YARN says of it, and logs told apart in one file."""

from __future__ import annotations

import time
from contextlib import closing

import pytest
from submarine_engine.clusters.log_mirror import LogsGoneError
from submarine_engine.clusters.yarn.log_format import stored_logs
from submarine_engine.clusters.yarn.log_transport import Aggregation, aggregation, fetch_aggregated
from submarine_engine.errors import ClusterError

NOW = "just now"


def entry(name, content, container, *, kind="AGGREGATED"):
    first = f"Container: {container} on localhost_45454"
    end = f"End of LogType:{name}"
    return (
        f"{first}\nLogAggregationType: {kind}\n{'=' * len(first)}\nLogType:{name}\n"
        f"LogLastModifiedTime:Sat Nov 21 05:42:44 +0000 2026\nLogLength:{len(content)}\n"
        "LogContents:\n"
    ).encode() + b"%s\n%s\n%s\n\n" % (content, end.encode(), b"*" * (len(end) + 50))


@pytest.mark.parametrize(
    ("report", "expected"),
    [
        (None, Aggregation.KEPT),
        ({"state": "RUNNING", "logAggregationStatus": "SUCCEEDED"}, Aggregation.LIVE),
        ({"state": "ACCEPTED"}, Aggregation.LIVE),
        ({"state": "FINISHED", "logAggregationStatus": "SUCCEEDED"}, Aggregation.KEPT),
        ({"state": "KILLED", "logAggregationStatus": "FAILED"}, Aggregation.KEPT),
        ({"state": "FAILED", "logAggregationStatus": "DISABLED"}, Aggregation.OFF),
        (
            {"state": "FINISHED", "logAggregationStatus": "RUNNING", "finishedTime": NOW},
            Aggregation.WAITING,
        ),
        (
            {"state": "FINISHED", "logAggregationStatus": "NOT_START", "finishedTime": NOW},
            Aggregation.WAITING,
        ),
        (
            {"state": "FINISHED", "logAggregationStatus": "NOT_START", "finishedTime": 1e12},
            Aggregation.KEPT,
        ),
    ],
)
def test_what_yarn_says_of_the_logs(report, expected):
    if report and report.get("finishedTime") == NOW:
        report = {**report, "finishedTime": time.time() * 1000}
    assert aggregation(report) is expected


def test_logs_are_told_apart_whatever_they_hold(tmp_path, container):
    inner = entry("stderr", b"not the real one", container)
    logs = {"stdout": inner + b"End of LogType:stdout", "stderr": b"", "x.bin": bytes(range(256))}
    (tmp_path / "node").mkdir()
    (tmp_path / "node" / container).write_bytes(
        b"".join(entry(name, data, container) for name, data in logs.items())
    )
    found = stored_logs(tmp_path, container)
    assert {name: log.read(0, 1 << 20) for name, log in found.items()} == logs
    assert found["x.bin"].read(250, 3) == bytes((250, 251, 252))
    assert found["x.bin"].read(256, 9) == b""


def test_the_longest_of_several_copies_counts(tmp_path, container):
    data = b"".join(entry("stdout", text, container) for text in (b"ab", b"abcd", b"abc"))
    (tmp_path / "logs").write_bytes(data)
    assert stored_logs(tmp_path, container)["stdout"].read(0, 9) == b"abcd"


def test_other_containers_and_nodes_own_logs_are_left_out(tmp_path, container):
    (tmp_path / "logs").write_bytes(
        entry("stdout", b"another", f"{container}9")
        + entry("stdout", b"recoded on its way", container, kind="LOCAL")
    )
    assert stored_logs(tmp_path, container) == {}


@pytest.mark.parametrize("cut", [1, 60, 200, -90, -100])
def test_a_file_that_breaks_off_is_refused(tmp_path, container, cut):
    (tmp_path / "logs").write_bytes(entry("stdout", b"content", container)[:cut])
    with pytest.raises(ClusterError):
        stored_logs(tmp_path, container)


def program(folder, text):
    (folder / "bin").mkdir()
    file = folder / "bin" / "yarn"
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)


def test_the_command_gets_words_and_leaves_nothing(tmp_path, monkeypatch, container):
    (tmp_path / "answer").write_bytes(entry("stdout", b"x", container))
    program(tmp_path, f'echo "$@" > {tmp_path}/said; mkdir $9; cp {tmp_path}/answer $9')
    monkeypatch.setenv("HADOOP_HOME", str(tmp_path))
    with closing(
        fetch_aggregated(container, hadoop=tmp_path, scratch=tmp_path, owner="a; b")
    ) as kept:
        assert kept.sizes() == {"stdout": 1}
        with pytest.raises(LogsGoneError):
            kept.read("stderr", 0, 1)
    said = (tmp_path / "said").read_text()
    assert said.startswith("logs -applicationId application_1700000000000_0001 -containerId ")
    assert said.endswith("-appOwner a; b\n")
    assert not list(tmp_path.glob(".aggregated*"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("exit 0", "LogsGoneError: the cluster does not have the logs"),
        ("echo 'Can not find any log file matching'; exit 255", "LogsGoneError: the cluster"),
        ("echo no such queue >&2; exit 3", "ClusterError: logs of CONTAINER: `yarn logs` failed"),
        ("exec sleep 60", "ClusterError: logs of CONTAINER: `yarn logs` took over 0.2 s"),
        ("mkdir $9; echo nonsense > $9/x", "ClusterError: an answer is no log of YARN's"),
    ],
)
def test_a_command_that_brings_nothing(tmp_path, monkeypatch, container, text, said):
    program(tmp_path, text)
    monkeypatch.setenv("HADOOP_HOME", str(tmp_path))
    patience = 0.2 if "sleep" in text else 30
    with pytest.raises(ClusterError) as caught:
        fetch_aggregated(container, hadoop=tmp_path, scratch=tmp_path, patience=patience)
    error = caught.value
    assert f"{type(error).__name__}: {error}".startswith(said.replace("CONTAINER", container))
    assert not list(tmp_path.glob(".aggregated*"))


def test_without_the_command_it_is_named(tmp_path, monkeypatch, container):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("HADOOP_HOME", raising=False)
    monkeypatch.delenv("HADOOP_YARN_HOME", raising=False)
    with pytest.raises(ClusterError, match="read by the `yarn` command"):
        fetch_aggregated(container, hadoop=tmp_path, scratch=tmp_path)
    with pytest.raises(ClusterError, match="not a container's id"):
        fetch_aggregated("application_1_1", hadoop=tmp_path, scratch=tmp_path)
