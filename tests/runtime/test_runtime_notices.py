"""Why a task is asked to end: by a message, or by the signal alone."""

from __future__ import annotations

import json

import pytest
from submarine_runtime import job, notices
from submarine_runtime.notices import NOTICE


@pytest.fixture(autouse=True)
def no_notice(monkeypatch):
    monkeypatch.setattr(notices, "_came_at", [])


def test_outside_a_job_and_in_one_that_may_go_on_there_is_none(tmp_path, monkeypatch):
    assert job.notice is None
    monkeypatch.setenv("SUBMARINE_TASK_DIR", str(tmp_path))
    assert job.notice is None


def test_the_message_says_why_and_how_long(tmp_path, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(notices.time, "monotonic", lambda: now[0])
    monkeypatch.setenv("SUBMARINE_TASK_DIR", str(tmp_path))
    (tmp_path / NOTICE).write_text(json.dumps({"reason": "preempted", "seconds": 30}))
    assert (job.notice.reason, job.notice.seconds) == ("preempted", 30.0)
    now[0] = 110.0
    assert job.notice.seconds == 20.0
    now[0] = 200.0
    assert repr(job.notice) == "Notice(reason='preempted', seconds=0.0)"


def test_of_a_signal_alone_nobody_knows_why(monkeypatch):
    monkeypatch.delenv("SUBMARINE_TASK_DIR", raising=False)
    notices.come()
    assert (job.notice.reason, job.notice.seconds) == ("", None)


@pytest.mark.parametrize("told", [b"", b"{}", b"[]", b"\xff", b'{"reason": 1}'])
def test_what_is_no_message_says_nothing(tmp_path, monkeypatch, told):
    monkeypatch.setenv("SUBMARINE_TASK_DIR", str(tmp_path))
    (tmp_path / NOTICE).write_bytes(told)
    assert notices.current() is None
