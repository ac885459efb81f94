"""What a real job uses and reports, asked of the job."""

from __future__ import annotations

import json
import sys
import textwrap

import pytest
from submarine_engine.cli import main
from submarine_engine.errors import ConfigError
from submarine_engine.future import Job

from tests.jobs import until

SCRIPT = """
import pathlib, time
from submarine_runtime import report
block = bytearray(b"x" * (100 << 20))
report(0, loss=0.5)
report(1, loss=float("inf"))
while not pathlib.Path("enough").exists():
    sum(range(10_000))
"""


def test_a_job_tells_what_it_uses_and_reports_while_it_runs_and_afterwards(local):
    job = Job(local.cluster, local.submit(SCRIPT))

    def is_at_work():  # a busy machine measures it before its code has come so far
        table = job.metrics()
        if len(table) <= 2:
            return False
        last = table.iloc[-1]
        return last["memory"] > 100 << 20 and last["cpu"] > 0.05

    until(is_at_work)
    table = job.metrics()
    assert {*table["task"]} == {"worker-0"}
    assert str(table["at"].dtype).endswith("UTC]")
    (local.folder / "enough").touch()
    job.wait(120)
    assert len(job.metrics()) >= len(table)
    reported = job.reported()
    assert list(reported["step"]) == [0, 1]
    assert list(reported["loss"]) == [0.5, float("inf")]


def test_without_pandas_they_are_rows_and_a_job_that_was_short_has_none(local, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    job = Job(local.cluster, local.submit("from submarine_runtime import report\nreport(3, a=1)"))
    job.wait(120)
    rows, task = job.metrics(), job.status().tasks[0]
    assert isinstance(rows, list)
    # It is measured from its first second on, and a busy machine may need longer for all of it.
    assert not rows or task.busy.until(task.exited) > 1
    (row,) = job.reported()
    assert row == {"task": "worker-0", "at": pytest.approx(row["at"]), "step": 3, "a": 1.0}


def test_memory_near_what_was_asked_for_is_said_before_the_kill_and_on_the_card(local):
    script = """
        import time
        block = bytearray(372 << 20)
        block[::4096] = b"x" * (len(block) // 4096)  # so that the memory is used
        while True: time.sleep(0.05)
        """
    job = Job(local.cluster, local.submit(textwrap.dedent(script), memory=400))
    until(lambda: job.status().warning or job.done())
    assert "MiB of 400 MiB of memory asked for" in job.status().warning
    (warning,) = until(lambda: job.cluster.warnings(job.id))  # it is kept right after the event
    assert warning == job.status().warning
    job.kill()
    assert job.wait(180).reason == "killed"


def test_how_long_gpus_may_do_nothing_is_the_jobs_own_or_the_configured_time(local, monkeypatch):
    def recorded(**options):
        job = Job(local.cluster, local.submit("1", gpus=0, **options))
        job.wait(120)
        return json.loads(local.paths(job.id).record.read_text())["spec"]["idle"]

    assert recorded() is None
    monkeypatch.setenv("SUBMARINE_IDLE", "30m")
    assert recorded() == 1800.0
    assert recorded(idle=0.0) == 0.0
    monkeypatch.setenv("SUBMARINE_IDLE", "soon")
    with pytest.raises(ConfigError, match="idle cannot be 'soon'"):
        local.submit("1", gpus=0)


@pytest.mark.parametrize("told", ["soon", "-5m", "1 fortnight"])
def test_a_time_that_is_none_is_refused_by_its_option(told, capsys):
    assert main(["job", "run", "train.py", "--idle", told]) != 0
    assert "--idle" in capsys.readouterr().err
