"""Logs: every byte once, in its place, for every reader, from every cursor."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from submarine_engine import Cursor, LogChunk
from submarine_engine.clusters import open_cluster
from submarine_engine.errors import JobError
from submarine_engine.events import Finished
from submarine_engine.testing.jobs import follow
from submarine_engine.testing.place import HOLD

OUT = b"".join(bytes(range(256)) + b"line %d\r\n" % n for n in range(5)) + "ü last".encode()
ERROR = b"\xff\xfe half a \xe2\x82"
WRITE = f"""
import os
out, error = {OUT!r}, {ERROR!r}
os.write(2, error[:3])
os.write(1, out[:700])
os.write(2, error[3:])
os.write(1, out[700:])
"""


def rest(seam, job_id, cursor, limits):
    """Read what is left after a cursor, in batches of the sizes given in turn."""
    events, logs, cursors = [], {"stdout": b"", "stderr": b""}, []
    turn = 0
    while True:
        batch = seam.read(job_id, cursor, limit=limits[turn % len(limits)])
        turn += 1
        assert sum(len(x.data) for x in batch.items if isinstance(x, LogChunk)) <= max(
            2, limits[(turn - 1) % len(limits)]
        )
        for item in batch.items:
            if isinstance(item, LogChunk):
                assert item.data
                assert item.offset == cursor.logs.get(f"{item.task}/{item.stream}", 0)
                logs[item.stream] += item.data
            else:
                events.append(item)
        cursor = Cursor.from_json(batch.cursor.to_json())
        cursors.append((cursor, len(events), {name: len(data) for name, data in logs.items()}))
        if batch.ended:
            return events, logs, cursors


def test_every_byte_comes_once_from_every_cursor(cluster):
    job = cluster.submit(WRITE)
    story = cluster.follow(job)
    assert story.logs == {"stdout": OUT, "stderr": ERROR}

    @given(st.lists(st.integers(1, 900), min_size=1, max_size=5), st.randoms())
    @settings(max_examples=20)
    def check(limits, random):
        events, logs, cursors = rest(cluster.seam, job.id, Cursor(), limits)
        assert (events, logs) == (story.events, story.logs)
        assert isinstance(events[-1], Finished)
        cursor, told, offsets = random.choice(cursors)
        later, more, _ = rest(cluster.seam, job.id, cursor, limits)
        assert later == story.events[told:]
        assert more == {name: data[offsets[name] :] for name, data in story.logs.items()}

    check()


def test_nothing_follows_the_end(cluster):
    job = cluster.submit("print('x')")
    *_, (_, last) = job.stream()
    batch = cluster.seam.read(job.id, last)
    assert (list(batch.items), batch.cursor, batch.ended) == ([], last, True)
    assert list(job.stream(last)) == []


def test_lines_arrive_while_the_job_runs_to_two_readers_alike(cluster):
    gate = cluster.folder / "gate"
    job = cluster.submit("print('first')\n" + HOLD.format(str(gate)) + "print('second')")
    seen, cursor = b"", Cursor()
    for item, cursor in job.stream():  # noqa: B007 - the last one is wanted
        seen += item.data if isinstance(item, LogChunk) else b""
        if seen == b"first\n":
            break
    gate.touch()
    other = follow(open_cluster(cluster.name), job.id)
    assert other.out == "first\nsecond\n"
    again = [item for item, _ in job.stream(cursor) if isinstance(item, LogChunk)]
    assert b"".join(chunk.data for chunk in again) == b"second\n"
    assert again[0].offset == len(b"first\n")


def test_a_lot_of_output_is_whole(cluster):
    size = 20_000_000
    story = cluster.run(
        "import os, sys\n"
        "line = bytes(range(256)) * 64\n"
        f"left = {size}\n"
        "while left: left -= os.write(1, line[:left])\n"
    )
    expected = (bytes(range(256)) * (size // 256 + 1))[:size]
    assert len(story.logs["stdout"]) == size
    assert hashlib.sha256(story.logs["stdout"]).digest() == hashlib.sha256(expected).digest()


def test_a_job_that_says_nothing_has_empty_logs(cluster):
    assert cluster.run("1").logs == {"stdout": b"", "stderr": b""}


@pytest.mark.parametrize(
    "cursor",
    [
        Cursor(10**9),
        Cursor(-1),
        Cursor(0, {"worker-0/stdout": 10**9}),
        Cursor(0, {"worker-0/stdout": -1}),
        Cursor(0, {"worker-0/../../../record.json": 0}),
        Cursor(0, {"worker-7/stdout": 1}),
    ],
)
def test_a_cursor_of_another_job_is_an_error_in_words(cluster, cursor):
    job = cluster.submit("print('abc')")
    job.wait(180)
    with pytest.raises(JobError, match="no place in the job's stream") as caught:
        cluster.seam.read(job.id, cursor)
    assert caught.value.fix
