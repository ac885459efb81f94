"""Programs and ports inside running tasks: the environment, the folder and the end of the task."""

from __future__ import annotations

import threading

import pytest

from submarine_engine.errors import CommandError, JobError
from submarine_engine.inside import Session
from submarine_engine.job import JobState
from submarine_engine.testing.contract.several import begin
from submarine_engine.testing.contract.stacks import spoken
from submarine_engine.testing.jobs import until

WAITS = "import os, time\nprint(os.getcwd(), flush=True)\nwhile True: time.sleep(0.05)\n"
ASKS = 'echo "$SUBMARINE_JOB_ID $SUBMARINE_TASK $CUDA_VISIBLE_DEVICES|$PWD"; cat >&2; exit 7'


def test_a_program_runs_inside_each_task_and_ends_with_it(cluster, monkeypatch):
    # A busy machine tells late of an end.
    monkeypatch.setattr("submarine_engine.inside._ENDS_WITHIN", 60.0)
    job = begin(cluster, WAITS, worker=2, ps=1) if cluster.several else None
    job = job or cluster.submit(WAITS)
    tasks = [task.task for task in job.status().tasks] or ["worker-0"]
    spoken(cluster, job, *tasks)
    for task in tasks:
        found = job.exec(["sh", "-c", ASKS], task=task, stdin=b"given")
        folder = cluster.paths(job).task(task).stdout.read_text().strip()
        assert found.stdout.decode() == f"{job.id} {task} |{folder}\n"
        assert (found.returncode, found.stderr) == (7, b"given")
    with pytest.raises(CommandError, match="there is no such program"):
        job.exec(["no such program"])
    with pytest.raises(JobError, match=r"port 1 of .*: nobody listens"):
        Session(cluster.seam, job.id, {"port": 1})
    came, ready = [], cluster.folder / "ready"

    def stay():
        with pytest.raises(JobError) as caught:
            # Its input ends once this side has heard that it runs.
            job.exec(["sh", "-c", f"cat; touch {ready}; sleep 600"])
        came.append(caught.value.what)

    stays = threading.Thread(target=stay)
    stays.start()
    until(ready.exists, 180)
    job.kill()
    stays.join(180)
    assert came == ["worker-0 is over: what ran inside was ended with it"]
    assert job.wait(180).state is JobState.CANCELLED
    with pytest.raises(JobError, match=r"is over \(cancelled\): nothing runs inside it any more"):
        job.exec(["true"])
