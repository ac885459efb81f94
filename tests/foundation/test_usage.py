"""What jobs have cost: GPU time over tasks and attempts, put together."""

from __future__ import annotations

import json
import time

import pytest
from submarine_engine import submit
from submarine_engine.cli import main
from submarine_engine.command.values import read_by
from submarine_engine.errors import CommandError
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
from submarine_engine.job import JobState
from submarine_engine.usage import GpuTime, gpu_time, usage


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
    assert shown.out.split()[:7] == ["NAME", "JOBS", "QUEUED", "HELD", "BUSY", "WASTED", "COST"]


def test_what_it_cannot_be_told_by_is_refused():
    with pytest.raises(CommandError, match="'mood' is not possible") as caught:
        read_by("mood")
    assert caught.value.fix == "write one of user, notebook, name, cluster, day, week"
