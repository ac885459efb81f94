"""Reading a job's stream from any cursor: every byte once, in its place, and the end at the end."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from submarine_engine.clusters import reader
from submarine_engine.clusters.base import Cursor
from submarine_engine.clusters.reader import read_batch
from submarine_engine.clusters.store import Journal, cancel_request, read_events, request_cancel
from submarine_engine.errors import JobError, JobNotFoundError
from submarine_engine.events import (
    CancelRequested,
    Exited,
    Finished,
    LogChunk,
    Started,
    Submitted,
)
from submarine_engine.history import JobPaths, make_private
from submarine_engine.job import JobState

TASK = "worker-0"
RECORD = {
    "id": "20260101-000000-aaaaa",
    "cluster": "local",
    "created": [0, 0],
    "spec": {"name": "job", "roles": [{"count": 1, "resources": {"gpus": 0}}]},
}


def a_job(folder: Path, out: bytes = b"", error: bytes = b"", *events) -> JobPaths:
    """Write what a job leaves behind."""
    paths = JobPaths(folder, RECORD["id"])
    make_private(paths.task(TASK).root)
    paths.task(TASK).stdout.write_bytes(out)
    paths.task(TASK).stderr.write_bytes(error)
    journal = Journal(paths, RECORD)
    journal.append(Submitted(gpus=0, tasks=(TASK,)), Started(task=TASK), *events)
    journal.close()
    return paths


ENDED = Finished(state=JobState.SUCCEEDED)


def read_all(paths, limit, cursor=None):
    """Read to the end; check what every batch promises."""
    cursor, events, logs = cursor or Cursor(), [], {"stdout": b"", "stderr": b""}
    while True:
        batch = read_batch(paths, [TASK], cursor, limit)
        chunks = [item for item in batch.items if isinstance(item, LogChunk)]
        assert sum(len(chunk.data) for chunk in chunks) <= max(limit, 2)
        for chunk in chunks:
            assert chunk.data
            logs[chunk.stream] += chunk.data
        events += [item for item in batch.items if not isinstance(item, LogChunk)]
        assert batch.ended == (bool(events) and isinstance(events[-1], Finished))
        cursor = Cursor.from_json(batch.cursor.to_json())
        if batch.ended:
            return events, logs, cursor


def test_an_end_that_comes_while_it_is_read_is_the_next_batchs(tmp_path, monkeypatch):
    paths = a_job(tmp_path)
    cursor = read_batch(paths, [TASK], Cursor(), 100).cursor
    read = reader._bytes

    def ends_meanwhile(path, offset, size):
        monkeypatch.setattr(reader, "_bytes", read)
        with paths.events.open("a") as events:
            events.write(json.dumps(ENDED.to_json()) + "\n")
        return read(path, offset, size)

    monkeypatch.setattr(reader, "_bytes", ends_meanwhile)
    batch = read_batch(paths, [TASK], cursor, 100)
    assert not batch.ended
    assert [type(item) for item in read_batch(paths, [TASK], batch.cursor, 100).items] == [Finished]


def test_an_end_is_seen_however_long_its_reason(tmp_path):
    reason = "\x1f" * 100_000  # as JSON the longest
    end = (CancelRequested(reason=reason), Finished(state=JobState.CANCELLED, reason=reason))
    paths = a_job(tmp_path, b"", b"", *end)
    first = read_batch(paths, [TASK], Cursor(), 100)
    assert first.ended
    assert reason.startswith(first.items[-1].reason)
    again = read_batch(paths, [TASK], first.cursor, 100)
    assert (list(again.items), again.ended) == ([], True)
    request_cancel(paths, reason, kill=False)
    assert cancel_request(paths).reason == first.items[-1].reason == first.items[-2].reason


@given(out=st.binary(max_size=200), error=st.binary(max_size=200), limit=st.integers(1, 64))
@settings(max_examples=40)
def test_every_byte_comes_once_whatever_the_limit(tmp_path_factory, out, error, limit):
    paths = a_job(tmp_path_factory.mktemp("home"), out, error, ENDED)
    events, logs, cursor = read_all(paths, limit)
    assert logs == {"stdout": out, "stderr": error}
    assert [type(event).__name__ for event in events] == ["Submitted", "Started", "Finished"]
    again = read_batch(paths, [TASK], cursor, limit)
    assert (list(again.items), again.ended) == ([], True)


def test_neither_stream_waits_for_the_other(tmp_path):
    paths = a_job(tmp_path, b"o" * 1000, b"e" * 10)
    batch = read_batch(paths, [TASK], Cursor(), 100)
    sizes = {item.stream: len(item.data) for item in batch.items if isinstance(item, LogChunk)}
    assert sizes == {"stdout": 90, "stderr": 10}


def test_what_comes_later_is_read_from_where_the_reader_was(tmp_path):
    paths = a_job(tmp_path, b"one ")
    first = read_batch(paths, [TASK], Cursor(), 100)
    assert not first.ended
    with paths.task(TASK).stdout.open("ab") as log:
        log.write(b"two")
    journal = Journal(paths, RECORD)
    journal.append(Exited(task=TASK, exit_code=0), ENDED)
    second = read_batch(paths, [TASK], first.cursor, 100)
    assert [type(item).__name__ for item in second.items] == ["Exited", "LogChunk", "Finished"]
    assert second.items[1] == LogChunk(task=TASK, stream="stdout", offset=4, data=b"two")


def test_half_an_event_is_not_read_and_does_not_stay(tmp_path):
    paths = a_job(tmp_path)
    whole = paths.events.read_bytes()
    paths.events.write_bytes(whole + b'{"event": "Fini')
    batch = read_batch(paths, [TASK], Cursor(), 100)
    assert len(batch.items) == 2
    assert batch.cursor.events == len(whole)
    Journal(paths, RECORD).append(ENDED)
    assert read_batch(paths, [TASK], batch.cursor, 100).ended


@pytest.mark.parametrize("damage", [b"\xff\xfe\n", b"[]\n", b'{"event": "Nonsense"}\n', b"{}\n"])
def test_a_damaged_line_is_passed_over(tmp_path, damage):
    paths = a_job(tmp_path)
    with paths.events.open("ab") as file:
        file.write(damage)
    Journal(paths, RECORD).append(ENDED)
    assert [type(event).__name__ for event, _ in read_events(paths.events)[0]] == [
        "Submitted",
        "Started",
        "Finished",
    ]
    assert read_all(paths, 100)[0][-1] == ENDED


@pytest.mark.parametrize(
    "cursor",
    [
        Cursor(10**6),
        Cursor(3),
        Cursor(-1),
        Cursor(0, {"worker-0/stdout": 4}),
        Cursor(0, {"worker-0/stdout": -1}),
        Cursor(0, {"worker-0/../../../record.json": 0}),
        Cursor(0, {"worker-1/stdout": 0}),
    ],
)
def test_a_cursor_of_another_job_is_an_error_in_words(tmp_path, cursor):
    paths = a_job(tmp_path, b"abc")
    with pytest.raises(JobError, match="no place in the job's stream") as caught:
        read_batch(paths, [TASK], cursor, 100)
    assert caught.value.fix


def test_a_log_that_the_job_made_into_something_else_is_not_read(tmp_path):
    paths = a_job(tmp_path, b"", b"", ENDED)
    log = paths.task(TASK).stdout
    log.unlink()
    log.symlink_to("/etc/passwd")
    paths.task(TASK).stderr.unlink()
    os.mkfifo(paths.task(TASK).stderr)
    assert read_all(paths, 100)[1] == {"stdout": b"", "stderr": b""}


def test_a_folder_that_is_deleted_under_the_reader(local):
    import shutil

    job_id = local.submit("1")
    local.follow(job_id)
    local.until_noted(job_id, "succeeded")
    shutil.rmtree(local.paths(job_id).root)
    with pytest.raises(JobNotFoundError, match="deleted"):
        local.cluster.read(job_id, Cursor())


def test_a_status_is_the_same_after_each_look(local):
    job_id = local.submit("1")
    story = local.follow(job_id)
    first = local.cluster.status(job_id)
    assert first == story.status
    assert local.cluster.status(job_id) is first


def test_a_name_that_is_no_utf8_does_not_stop_the_events(tmp_path):
    paths = a_job(tmp_path, b"", b"", Exited(task=TASK, exit_code=1, reason="bad \udcff name"))
    assert json.loads(paths.events.read_text().splitlines()[-1])["reason"] == "bad ? name"
