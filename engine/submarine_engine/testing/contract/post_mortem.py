"""What the frames of a failed job held: each task's, at cell and line, once the job is over."""

from __future__ import annotations

import pytest

from submarine_engine.errors import JobError
from submarine_engine.job import JobState
from submarine_engine.post_mortem import open_post_mortem
from submarine_engine.testing.contract.several import begin

_ENOUGH = 30.0
"""Seconds in which a task keeps its frames on any machine."""

NAME = "CONTRACT_SECRET"
VALUE = "hf_" + "P0stM0rtem" * 2
FAILS = """
import os, socket, time
from submarine_runtime import job, post_mortem

def step(batch, more=()):
    token = "Bearer " + os.environ["CONTRACT_SECRET"]
    if job.rank < job.world_size - 1:  # the other one sees by this port that it is here
        with socket.create_server(("", int(os.environ["MASTER_PORT"]))):
            time.sleep(600)
    while job.world_size > 1:
        try:
            socket.create_connection((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])))
            break
        except ConnectionRefusedError:
            time.sleep(0.02)
    raise ValueError(batch)

# Else there is no time for all values on a busy machine.
post_mortem._LONGEST = post_mortem._LONGEST_OF_HEAVY = 500
rate = 0.5
step([job.rank] * 3)
"""


def test_the_frames_of_a_failed_job_are_opened_afterwards(cluster, monkeypatch):
    monkeypatch.setenv(NAME, VALUE)
    job = cluster.submit([FAILS], secrets=(NAME,))
    assert cluster.follow(job).state is JobState.FAILED
    found = open_post_mortem(job)
    assert "ValueError: [0, 0, 0]" in found.title
    (outer, inner) = (frame for frame in found.frames if frame.own)
    assert (outer.function, inner.function, inner.line) == ("<module>", "step", 16)
    assert inner.file.startswith("<In [")
    last = found.traceback(own=True).tb_next
    assert last.tb_frame.f_locals["batch"] == [0, 0, 0]
    assert last.tb_frame.f_locals["token"].startswith("Bearer <secret")
    assert found.traceback().tb_frame.f_globals["rate"] == 0.5
    root = cluster.paths(job).root
    kept = [path for path in root.rglob("post-mortem*") if path.is_file()]
    assert len(kept) == 2
    assert not any(VALUE.encode() in path.read_bytes() for path in kept)


def test_each_task_of_several_has_frames_of_its_own(cluster):
    job = begin(cluster, FAILS, env={NAME: VALUE}, worker=2)
    if job is None:
        return
    status = job.wait(180)
    for task in (None, "worker-1"):  # the other one waits, and is ended
        found = open_post_mortem(job, task)
        assert found.title.startswith(f"worker-1 of job {job.id}: ValueError")
        assert found.traceback(own=True).tb_next.tb_frame.f_locals["batch"] == [1, 1, 1]
    assert status.failed_task == "worker-1"
    other = open_post_mortem(job, "worker-0")
    assert "worker-1" in other.title
    # On a busy machine a task may be killed before it has kept them: then it is said.
    assert other.values or (other.missing and cluster.seam.backend.frames_within < _ENOUGH)
    if other.values:
        assert other.traceback(own=True).tb_next.tb_frame.f_locals["batch"] == [0, 0, 0]
    assert status.task("worker-0").returned is None
    log = cluster.paths(job).task("worker-0").stderr
    assert not log.exists() or log.read_text() == "", "it ends without a word"
    with pytest.raises(JobError, match="no task 'worker-7'"):
        open_post_mortem(job, "worker-7")


def test_a_job_that_kept_nothing_says_why_and_where_it_stood(cluster):
    job = cluster.submit("def f():\n    raise ValueError\nf()", post_mortem="off")
    cluster.follow(job)
    found = open_post_mortem(job)
    assert "--post_mortem off" in found.missing
    assert [frame.function for frame in found.frames if frame.own] == ["<module>", "f"]
    assert found.traceback() is not None
