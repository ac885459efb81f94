"""What jobs have cost: GPU time over tasks and attempts, put together."""

from __future__ import annotations

import json
import math
import time

import pytest
from submarine_engine import submit
from submarine_engine.cli import main
from submarine_engine.clusters import locks
from submarine_engine.clusters.base import Gpu
from submarine_engine.clusters.store import Journal, put_on_record
from submarine_engine.command.values import read_by
from submarine_engine.errors import ClusterError, CommandError
from submarine_engine.events import (
    Exited,
    Finished,
    Granted,
    Moment,
    Released,
    Retried,
    Returned,
    Started,
    Submitted,
)
from submarine_engine.history import read_json
from submarine_engine.job import JobState
from submarine_engine.metrics import Row
from submarine_engine.usage import GpuTime, Usage, gpu_time, others, usage

from tests.jobs import bundle_of, spec_of


def at(second: float) -> Moment:
    return Moment(1_000_000 + second, second)


def granted(second: float, *gpus: str, task: str = "worker-0", attempt: int = 1) -> Granted:
    return Granted(at=at(second), task=task, host="h", container="c", gpus=gpus, attempt=attempt)


def over(second: float, task: str = "worker-0"):
    yield Returned(at=at(second), task=task)
    yield Exited(at=at(second + 0.5), task=task, exit_code=0)
    yield Released(at=at(second + 1), task=task)


def test_a_job_counts_each_of_its_gpus():
    events = [
        Submitted(at=at(0), gpus=2, tasks=("worker-0",)),
        granted(10, "0", "1"),
        Started(at=at(13), task="worker-0"),
        *over(20),
    ]
    assert gpu_time(events, at(99)) == GpuTime(queued=20, held=22, busy=14)
    assert gpu_time(events, at(99)).wasted == 8
    assert gpu_time(events[:1], at(5)) == GpuTime(queued=10)
    assert gpu_time(events[:3], at(15)) == GpuTime(queued=20, held=10, busy=4)
    assert gpu_time([], at(5)) == GpuTime()


def test_what_was_before_another_start_of_the_machine_counts():
    def later(second: float) -> Moment:  # it was started anew at second 90
        return Moment(1_000_000 + second, second - 90)

    events = [
        Submitted(at=at(60), gpus=1, tasks=("worker-0",)),
        granted(70, "0"),
        Started(at=at(80), task="worker-0"),
        Returned(at=later(100), task="worker-0"),
        Exited(at=later(101), task="worker-0", exit_code=0),
        Released(at=later(102), task="worker-0"),
    ]
    assert gpu_time(events, later(110)) == GpuTime(queued=10, held=32, busy=20)
    assert at(20).until(at(10)) == 0.0


def test_each_task_and_each_attempt_counts():
    events = [
        Submitted(at=at(0), gpus=2, tasks=("worker-0", "worker-1")),
        granted(1, "0"),
        granted(2, "1", task="worker-1"),
        Started(at=at(3), task="worker-0"),
        Exited(at=at(5), task="worker-0", exit_code=1),
        Released(at=at(5), task="worker-0"),
        Exited(at=at(6), task="worker-1", exit_code=-9),
        Released(at=at(6), task="worker-1"),
        Retried(at=at(7), attempt=2),
        granted(9, "0", attempt=2),
        granted(9, "1", task="worker-1", attempt=2),
        Started(at=at(9), task="worker-0"),
        Started(at=at(9), task="worker-1"),
        *over(11),
        *over(12, "worker-1"),
        Finished(at=at(13), state=JobState.SUCCEEDED),
    ]
    # 1 + 2 seconds in the queue, then 2 each; 4 + 4 held, then 3 + 4; 2 busy, then 2 + 3.
    assert gpu_time(events, at(99)) == GpuTime(queued=7, held=15, busy=7)


def test_jobs_are_put_together(monkeypatch, capsys):
    monkeypatch.setenv("SUBMARINE_LOCAL_GPUS", "2")
    for name, gpus in (("small", 1), ("large", 2), ("small", 0)):
        submit(time.sleep, 0, name=name, gpus=gpus).wait()
    [by_user] = usage()
    assert by_user.jobs == 3
    assert by_user.time.held >= by_user.time.busy > 0
    told = {one.of: one.jobs for one in usage("name")}
    assert told == {"small": 2, "large": 1}
    assert sum(one.time.held for one in usage("name")) == pytest.approx(by_user.time.held)
    assert [one.jobs for by in ("week", "day", "cluster", "notebook") for one in usage(by)] == [
        3
    ] * 4
    assert usage(since=0) == []
    monkeypatch.setenv("SUBMARINE_GPU_HOUR_PRICE", "3600")
    assert main(["usage", "--by", "name", "--json"]) == 0
    [large, small] = map(json.loads, capsys.readouterr().out.splitlines())
    assert {large["of"], small["of"]} == {"large", "small"}
    assert large["held"] >= small["held"]
    assert large["cost"] == pytest.approx(large["held"], abs=0.01)
    assert main(["usage", "--by", "name"]) == 0
    shown = capsys.readouterr()
    heads = ["NAME", "JOBS", "QUEUED", "HELD", "BUSY", "IDLE", "WASTED", "COST"]
    assert shown.out.split()[:8] == heads


def test_what_it_cannot_be_told_by_is_refused():
    with pytest.raises(CommandError, match="'mood' is not possible") as caught:
        read_by("mood")
    assert caught.value.fix == "write one of user, notebook, name, cluster, day, week"


def row(second, *, rows=1, **gpus):
    return Row(at(second).wall, rows, {name: (mean, mean, mean) for name, mean in gpus.items()})


def test_a_gpu_that_the_code_leaves_alone_is_idle_as_far_as_it_was_measured():
    events = [
        Submitted(at=at(0), gpus=2, tasks=("worker-0",)),
        granted(0, "0", "1"),
        Started(at=at(10), task="worker-0"),
        *over(110),
    ]
    rows = [
        row(5, gpu0=0.0, gpu1=0.0),  # before its code ran
        row(11, gpu0=0.0, gpu1=90.0, memory=1.0),
        row(12, gpu0=math.nan, gpu1=0.4, gpu0_memory=0.0),
        row(50, gpu0=0.0),  # of what was between nobody knows
        row(100, rows=30, gpu0=0.0),  # of the fifty seconds since the one before
        row(112, gpu0=0.0),  # after its code
    ]
    spent = gpu_time(events, at(999), {"worker-0": rows}.__getitem__)
    assert (spent.held, spent.busy) == (222, 200)
    assert spent.measured == pytest.approx(1 + 1 + 1 + 1 + 2 + 50)
    assert spent.idle == pytest.approx(1 + 1 + 2 + 50)
    assert spent.wasted == pytest.approx(22 + spent.idle)
    assert Usage(of="me", jobs=1, time=spent).row()[5:] == ("0.01", "0.02")
    unmeasured = Usage(of="me", jobs=1, time=gpu_time(events, at(999)))
    assert unmeasured.row()[5] == "—"
    assert unmeasured.to_json()["idle"] is None


def test_what_a_jobs_folder_says_of_its_gpus_counts(tmp_path):
    paths, lock = put_on_record(
        tmp_path / "home", "local", spec_of(gpus=1), bundle_of("1"), tmp_path,
        lambda *_: None, secrets={},
    )  # fmt: skip
    locks.drop(lock)
    now = time.time()
    moments = {n: Moment(now + n, n) for n in (0, 1, 11)}
    journal = Journal(paths, read_json(paths.record))
    journal.append(
        Granted(at=moments[0], task="worker-0", host="h", container="c", gpus=("0",)),
        Started(at=moments[1], task="worker-0"),
        Exited(at=moments[11], task="worker-0", exit_code=0),
        Released(at=moments[11], task="worker-0"),
        Finished(at=moments[11], state=JobState.SUCCEEDED),
    )
    journal.close()
    task = paths.task("worker-0")
    task.root.mkdir(parents=True)
    lines = [json.dumps({"at": now + n, "gpu0": 0 if n < 6 else 99}) for n in range(12)]
    task.metrics.write_text("\n".join([*lines, '{"at": 1, "gpu0": "cut']))
    [mine] = usage(home=tmp_path / "home")
    assert mine.time.busy == pytest.approx(10, abs=0.01)
    assert mine.time.idle == pytest.approx(4, abs=0.01)


def test_what_others_hold_is_said_of_clusters_that_tell(monkeypatch, tmp_path, capsys):
    def gpu(number, **more):
        return Gpu(id=str(number), name="H200", host="h", **more)

    class Shared:
        def gpus(self):
            mine = "20260101-000000-aaaaa"
            (tmp_path / "home" / "jobs" / mine).mkdir(parents=True, exist_ok=True)
            (tmp_path / "home" / "jobs" / mine / "record.json").write_text("{}")
            return [
                gpu(0, holder="me: application_1", job_id=mine, queue="a"),
                gpu(1, holder="ada\x1b[31m: application_2", queue="a"),
                gpu(2, holder="bob: application_3", job_id="20260101-000000-bbbbb", queue="b"),
                gpu(3),
            ]

    monkeypatch.setattr("submarine_engine.clusters.open_cluster", lambda _: Shared())
    assert others() == ["local: others hold 2 of 4 GPUs now (queue a: 1, queue b: 1)"]
    assert main(["usage"]) == 0
    assert "others hold 2 of 4" in capsys.readouterr().err

    def refused(_):
        raise ClusterError("it does not answer")

    monkeypatch.setattr("submarine_engine.clusters.open_cluster", refused)
    assert others() == []
