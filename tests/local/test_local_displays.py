"""Displays in a job's stream: in their place between the text, from every cursor, within bounds."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from submarine_engine import Cursor, Display, LogChunk
from submarine_engine.clusters.reader import read_batch
from submarine_engine.errors import JobError
from submarine_engine.events import Finished, Submitted
from submarine_engine.history import JobPaths
from submarine_engine.job import JobState

SHOW = """
import sys
from IPython.display import display, HTML, clear_output
for epoch in range(3):
    print("epoch", epoch)
    print("loss", epoch, file=sys.stderr)
    display(HTML(f"<b>{epoch}</b>"))
print("done")
"""


class Files:
    """The files of a job, written by hand."""

    def __init__(self, home, job_id="20260101-000000-abcde"):
        self.paths = JobPaths(home, job_id)
        self.task = self.paths.task("worker-0")
        self.task.root.mkdir(parents=True)
        self.event(Submitted(gpus=0, tasks=("worker-0",)))

    def event(self, event):
        with self.paths.events.open("a") as file:
            file.write(json.dumps(event.to_json()) + "\n")

    def finish(self):
        self.event(Finished(state=JobState.SUCCEEDED))

    def write(self, stream, text):
        with self.task.log(stream).open("a") as file:
            file.write(text)

    def show(self, text, *, stdout=0, stderr=0):
        frame = {"kind": "display", "id": None, "data": {"text/plain": text}, "metadata": {}}
        self.raw(json.dumps({**frame, "stdout": stdout, "stderr": stderr}) + "\n")

    def raw(self, text):
        with self.task.displays.open("a") as file:
            file.write(text)

    def read(self, cursor=None, limit=1 << 20):
        return read_batch(self.paths, ["worker-0"], cursor or Cursor(), limit)


def told(items):
    """Return displays in order with the text between, that of stdout first."""
    found, between = [], {"stdout": "", "stderr": ""}
    for item in [*items, None]:
        if isinstance(item, LogChunk):
            between[item.stream] += item.data.decode()
        elif isinstance(item, Display) or item is None:
            found += [pair for pair in between.items() if pair[1]]
            between = dict.fromkeys(between, "")
            found += [("display", item.data.get("text/html", item.text))] if item else []
    return found


@pytest.fixture
def files(tmp_path):
    return Files(tmp_path)


def test_displays_come_between_the_text_from_every_cursor(local):
    job_id = local.submit(SHOW)
    local.follow(job_id)
    expected = []
    for epoch in range(3):
        expected += [("stdout", f"epoch {epoch}\n"), ("stderr", f"loss {epoch}\n")]
        expected += [("display", f"<b>{epoch}</b>")]
    expected += [("stdout", "done\n")]

    @given(st.lists(st.integers(1, 300), min_size=1, max_size=5))
    @settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
    def check(limits):
        cursor, items, turn = Cursor(), [], 0
        while True:
            batch = local.cluster.read(job_id, cursor, limit=limits[turn % len(limits)])
            items += batch.items
            cursor = Cursor.from_json(batch.cursor.to_json())
            if batch.ended:
                break
            turn += 1
            assert turn < 1000
        assert told(items) == expected
        assert isinstance(items[-1], Finished)

    check()


def test_a_display_waits_for_its_text_and_keeps_later_text_back(files):
    files.write("stdout", "a")
    files.write("stderr", "late")
    files.show("picture", stdout=2)
    first = files.read()
    assert told(first.items) == [("stdout", "a")]
    files.write("stdout", "bc")
    second = files.read(first.cursor)
    assert told(second.items) == [
        ("stdout", "b"), ("display", "picture"), ("stdout", "c"), ("stderr", "late"),
    ]  # fmt: skip


def test_a_display_that_has_lost_its_text_comes_at_the_end(files):
    files.write("stdout", "a")
    files.show("picture", stdout=10**30)
    files.write("stderr", "late")
    files.finish()
    batch = files.read()
    assert told(batch.items) == [("stdout", "a"), ("display", "picture"), ("stderr", "late")]
    assert batch.ended


def test_what_is_no_display_is_passed_over(files):
    files.show("one")
    for line in (
        "", "nonsense", "[]", "[" * 100_000, '{"kind": "script"}', '{"kind": "update", "data": {}}',
        '{"kind": "display", "data": []}', '{"kind": "display", "stdout": -1}',
        '{"kind": "display", "stdout": true}', '{"kind": "display", "id": 3}',
    ):  # fmt: skip
        files.raw(f"{line}\n")
    files.show("two")
    files.raw('{"kind": "display", "da')
    batch = files.read()
    assert told(batch.items) == [("display", "one"), ("display", "two")]
    files.finish()  # the half of one never becomes one
    assert files.read(batch.cursor).ended


def test_a_line_without_end_is_read_in_pieces_and_passed_over(files):
    files.raw("x" * (23 << 20) + "\n")
    files.show("after")
    files.finish()
    cursor, items = Cursor(), []
    while not (batch := files.read(cursor)).ended:
        cursor = batch.cursor
        items += batch.items
    assert told([*items, *batch.items]) == [("display", "after")]


def test_more_than_a_job_may_show_is_not_read(files, monkeypatch):
    monkeypatch.setattr("submarine_engine.clusters.reader._MOST_FRAMES", 500)
    for number in range(10):
        files.show(str(number))
    files.finish()
    batch = files.read()
    assert 1 <= len(told(batch.items)) < 10
    assert batch.ended


def test_a_link_or_a_folder_in_its_place_is_no_display(files, tmp_path):
    other = tmp_path / "other"
    other.write_text('{"kind": "display", "data": {"text/plain": "stolen"}}\n')
    files.task.displays.symlink_to(other)
    files.finish()
    batch = files.read()
    assert told(batch.items) == []
    assert batch.ended


def test_a_cursor_beyond_the_displays_is_none_of_this_job(files):
    files.show("one")
    with pytest.raises(JobError, match="worker-0/displays has"):
        files.read(Cursor(0, {"worker-0/displays": 10_000}))
