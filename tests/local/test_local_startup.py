"""Where the time of a real job's start went: a second that passes somewhere is seen there."""

from __future__ import annotations

import json
import os
import textwrap
import time

import pytest
from submarine_engine.future import Job
from submarine_engine.job import JobState, Resources, Role

from tests.jobs import until

# A second by the clock that phases are told in, however late this process gets its turn.
A_SECOND = (
    "import time; until = time.monotonic() + 1\nwhile time.monotonic() < until: time.sleep(0.05)"
)
REPORT = "from submarine_runtime import report\n{}\nreport(0, loss=1.0)"
ON_LOCAL = ["queue", "container", "environment", "import", "first step"]


def started(job):
    found = job.startup()
    return {phase.name: phase.seconds for phase in found.phases}


def over(local, job_id):
    job = Job(local.cluster, job_id)
    assert job.wait(120).state is JobState.SUCCEEDED
    return job


@pytest.fixture
def site(local, monkeypatch):
    """Give a folder that the tasks' Python finds modules in."""
    folder = local.folder / "site"
    folder.mkdir()
    monkeypatch.setenv("PYTHONPATH", f"{folder}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    return folder


def test_a_second_of_an_import_and_of_the_first_step_is_seen_there(local, site):
    (site / "slow.py").write_text(A_SECOND)
    script = REPORT.format(A_SECOND.replace("import time; ", "import slow, time\n"))
    job = over(local, local.submit(script))
    phases = started(job)
    assert list(phases) == ON_LOCAL
    assert phases["import"] >= 1
    assert phases["first step"] >= 1
    (task,) = job.status().tasks
    # Not of several measurements: it is one line from the submission on.
    assert sum(phases.values()) <= task.queued.until(task.returned)
    assert sum(list(phases.values())[:2]) == pytest.approx(task.queued.until(task.busy), rel=0.01)


def test_the_phases_add_up_to_what_a_clock_beside_them_shows(local):
    script = """
        import json, pathlib, time
        from submarine_runtime import report
        before = time.monotonic()
        report(0, loss=1.0)
        pathlib.Path("beside").write_text(json.dumps([before, time.monotonic()]))
        """
    job = over(local, local.submit(textwrap.dedent(script)))
    begin = job.status().submitted.mono
    before, after = json.loads((local.folder / "beside").read_text())
    assert before - begin <= sum(started(job).values()) <= after - begin


def test_a_second_before_the_interpreter_is_up_is_the_environments(local, site):
    (site / "sitecustomize.py").write_text(A_SECOND)
    assert started(over(local, local.submit(REPORT.format(""))))["environment"] >= 1


def test_a_second_in_the_queue_is_the_queues(local, monkeypatch):
    monkeypatch.setenv("SUBMARINE_LOCAL_GPUS", "1")
    gate = local.folder / "gate"
    hold = f"import os, time\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.02)"
    local.until_running(local.submit(hold, gpus=1))
    job = Job(local.cluster, local.submit(REPORT.format(""), gpus=1))
    since = job.status().submitted.mono
    until(lambda: time.monotonic() > since + 1)
    assert job.startup() is None
    gate.touch()
    assert started(over(local, job.id))["queue"] >= 1


def test_of_a_job_that_was_begun_again_the_last_attempt_is_told(local):
    script = REPORT.format("from submarine_runtime import job\nassert job.attempt > 1")
    job = over(local, local.submit(script, retries=1))
    found = job.startup()
    assert found.attempt == 2
    assert found.words.partition(":")[0].endswith("(attempt 2)")
    status = job.status()
    assert found.seconds <= status.tasks[0].queued.until(status.finished)
    assert list(started(job)) == ON_LOCAL


def test_of_several_tasks_a_phase_lasts_until_the_last_one_is_through(local, site):
    # A second after the other task's imports, however late that comes to them.
    waits = """
        import os, pathlib, time
        other = pathlib.Path(os.environ["SUBMARINE_TASK_DIR"]).with_name("worker-0") / "startup"
        if os.environ["SUBMARINE_TASK"] == "worker-1":
            while not other.exists(): time.sleep(0.02)
            until = time.monotonic() + 1
            while time.monotonic() < until: time.sleep(0.05)
        """
    (site / "slow.py").write_text(textwrap.dedent(waits))
    roles = (Role(count=2, resources=Resources(gpus=0)),)
    job = over(local, local.submit(REPORT.format("import slow"), roles=roles))
    phases = started(job)
    assert list(phases) == ON_LOCAL
    assert phases["import"] >= 1


def test_a_worker_of_another_job_has_no_start_of_its_own(local):
    parent = local.submit("")
    job = over(local, local.submit("", parent=parent))
    assert job.startup() is None
    assert over(local, parent).startup() is not None


def test_a_remembered_result_has_no_start(local):
    job = over(local, local.submit(""))
    job.remembered = "from 14:02"
    assert job.startup() is None
