"""What each call of a pool has written, by its label: found in its workers' logs."""

from __future__ import annotations

import json

import pytest
from submarine_engine.history import JobPaths
from submarine_engine.job import JobSpec
from submarine_engine.pool.call_logs import CallLogs
from submarine_engine.pool.calls import End
from submarine_engine.pool.folder import VERSION, PoolFolder
from submarine_engine.pool.results import printed
from submarine_runtime.call_frames import frame

POOL, WORKER = "20260101-000000-aaaaa", "20260101-000001-bbbbb"


@pytest.fixture
def pool(tmp_path):
    """Return a pool whose worker has run trial 0, paused it, run trial 1, and now trial 0 again."""
    folder = PoolFolder(tmp_path / "pools" / POOL)
    folder.root.mkdir(parents=True)
    folder.plan.write_text(json.dumps({"version": VERSION, "spec": JobSpec().to_json()}))
    labels = ("trial 0", "trial 1", "trial 0")
    lines = [
        {"kind": "call", "index": index, "label": label, "batch": 1, "at": 0, "size": 0}
        for index, label in enumerate(labels)
    ]
    lines += [{"kind": "began", "index": index, "try": 1, "worker": WORKER} for index in range(3)]
    folder.calls.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    files = JobPaths(tmp_path, WORKER).task("worker-0")
    files.root.mkdir(parents=True)
    files.log("stdout").write_text("one\ntwo\nthree\nfour\n")
    files.log("stderr").write_text("bad\n")

    def at(kind, index, stdout, stderr, payload=b"", **more):
        head = {"kind": kind, "index": index, "try": 1, "stdout": stdout, "stderr": stderr}
        return frame({**head, **more}, payload)

    (files.root / "returns").write_bytes(
        frame({"kind": "ready", "pid": 1, "host": "here"})
        + at("began", 0, 0, 0)
        + frame({"kind": "report", "index": 0, "try": 1}, b"{}")
        + at("ended", 0, 4, 4, outcome="pause", payload=b"x" * 100_000)
        + at("began", 1, 4, 4)  # its process dies: its end says nothing of logs
        + frame({"kind": "ended", "index": 1, "try": 1, "outcome": "died"})
        + at("began", 2, 8, 4)
    )
    return folder, files


def texts(logs, label, most=1000):
    runs = [run for index in logs.labelled(label) for run in logs.runs(index)]
    return [(logs.text(run, most).text, logs.text(run, most).left_out) for run in runs]


def test_each_call_has_what_it_wrote(pool):
    folder, files = pool
    logs = CallLogs(folder)
    assert texts(logs, "trial 0") == [("one\nbad\n", 0), ("three\nfour\n", 0)]
    assert texts(logs, "trial 1") == [("two\n", 0)]
    assert texts(logs, "trial 2") == []
    with files.log("stdout").open("a") as file:
        file.write("five\n")
    assert texts(logs, "trial 0")[-1] == ("three\nfour\nfive\n", 0)


def test_a_call_of_a_fork_may_tell_that_it_began_before_the_former_ones_end_is_told(pool):
    folder, files = pool
    sizes = {"began": [(0, 0), (4, 4), (8, 4)], "ended": [(4, 4), (8, 4), (19, 4)]}
    order = [("began", 0), ("began", 1), ("ended", 0), ("began", 2), ("ended", 1), ("ended", 2)]
    (files.root / "returns").write_bytes(
        b"".join(
            frame({"kind": kind, "index": index, "try": 1, "stdout": at[0], "stderr": at[1]})
            for kind, index in order
            for at in [sizes[kind][index]]
        )
    )
    assert texts(CallLogs(folder), "trial 0") == [("one\nbad\n", 0), ("three\nfour\n", 0)]
    assert texts(CallLogs(folder), "trial 1") == [("two\n", 0)]
    ends = [End(outcome="value", worker=WORKER)] * 3
    assert [printed(folder, index, end) for index, end in enumerate(ends)] == [
        "one\nbad\n", "two\n", "three\nfour\n",
    ]  # fmt: skip


def test_of_a_long_one_the_end_in_whole_lines(pool):
    assert texts(CallLogs(pool[0]), "trial 0", most=8)[-1] == ("four\n", 3)


def test_files_that_are_gone_or_damaged_have_nothing(pool):
    folder, files = pool
    with (files.root / "returns").open("r+b") as file:
        file.truncate(100_000)
    assert texts(CallLogs(folder), "trial 1") == [("", 0)]
    (files.root / "returns").write_bytes(b"no frame\n" * 3)
    assert texts(CallLogs(folder), "trial 0") == [("", 0), ("", 0)]
    files.log("stdout").unlink()
    assert texts(CallLogs(folder), "trial 1") == [("", 0)]
