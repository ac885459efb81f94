"""How long one waits for a job, by the clock of who waits."""

from __future__ import annotations

from types import SimpleNamespace

from submarine_engine import Job, future
from submarine_engine.inside import Session
from submarine_engine.job import JobState
from submarine_engine.lifecycle import JobStatus


def test_a_job_that_ends_within_the_time_has_ended_however_late_that_is_seen(monkeypatch):
    now, states = [0.0], iter([JobState.RUNNING, JobState.SUCCEEDED])

    def status():
        now[0] += 100  # the thread that waits is held up
        return JobStatus(state=next(states))

    clock = SimpleNamespace(monotonic=lambda: now[0], sleep=lambda _: None)
    monkeypatch.setattr(future, "time", clock)
    job = object.__new__(Job)
    monkeypatch.setattr(job, "status", status)
    assert job.wait(10).state is JobState.SUCCEEDED


def test_a_connection_that_ends_with_its_job_says_so_however_late_that_is_seen(monkeypatch):
    monkeypatch.setattr("submarine_engine.inside._ENDS_WITHIN", -1.0)
    session = object.__new__(Session)
    session.task, session._job_id = "worker-0", "20260101-000000-aaaaa"
    session._cluster = SimpleNamespace(status=lambda _: JobStatus(state=JobState.SUCCEEDED))
    assert "worker-0 is over" in str(session._lost())
