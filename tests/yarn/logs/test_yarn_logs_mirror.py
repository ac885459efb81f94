"""The copy of a task's logs: complete, exactly once, whoever goes on with it."""

from __future__ import annotations

import json
import os
import resource
import stat

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from submarine_engine.clusters.base import Cursor
from submarine_engine.clusters.log_mirror import LogMirror, LogsGoneError
from submarine_engine.clusters.reader import read_batch
from submarine_engine.clusters.yarn.allocator import job_variables
from submarine_engine.clusters.yarn.node_pages import NodeLogs, NodeSource
from submarine_engine.errors import ClusterError
from submarine_engine.events import Display, Finished, LogChunk, Submitted
from submarine_engine.history import JobPaths, TaskPaths
from submarine_engine.job import JobSpec, JobState, Role
from submarine_runtime import displays

FRAGMENTS = st.one_of(
    st.binary(max_size=200),
    st.sampled_from(
        [
            b"LogContents:\n",
            b"End of LogType:stdout.\n",
            b"\nEnd of LogType:stderr\n****\n\n",
            b"LogLength:0\n",
            b"\r\n0\r\n\r\n",
            b"x" * 9000,
        ]
    ),
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["stdout", "stderr"]), FRAGMENTS),
        st.tuples(st.just("step"), st.integers(1, 10_000)),
        st.sampled_from([("keeper killed", 0), ("node hangs up", 0), ("answer breaks off", 100)]),
    ),
    max_size=30,
)


class Kept:
    """Logs that are over and do not change."""

    live = False
    complete = True

    def __init__(self, container, **logs):
        self.container = container
        self.logs = logs

    def sizes(self):
        return {name: len(data) for name, data in self.logs.items()}

    def read(self, name, offset, limit):
        return self.logs[name][offset : offset + limit]


@given(steps=STEPS)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_happens_the_copy_is_the_log(node, tmp_path_factory, container, steps):
    for stream in ("stdout", "stderr"):
        node.log(stream).write_bytes(b"")
    task = TaskPaths(tmp_path_factory.mktemp("task"))
    logs = NodeLogs(node.address, timeout=180)
    mirror = LogMirror(task, NodeSource(logs, container))
    for what, value in steps:
        if what == "step":
            try:
                assert mirror.step(value) <= value
            except ClusterError:
                assert node.break_off is not None
            node.break_off = None
        elif what == "keeper killed":
            mirror = LogMirror(TaskPaths(task.root), NodeSource(logs, container))
        elif what == "node hangs up":
            node.hang_up()
        elif what == "answer breaks off":
            node.break_off = value
        else:
            node.write(what, value)
    node.break_off = None
    assert mirror.drain()
    logs.close()
    for stream in ("stdout", "stderr"):
        copy = task.log(stream).read_bytes() if task.log(stream).exists() else b""
        assert copy == node.log(stream).read_bytes()


def test_the_copies_are_the_owners_alone(node, task, source):
    before = os.umask(0)
    try:
        node.write("stdout", b"secret")
        LogMirror(task, source).drain()
    finally:
        os.umask(before)
    for path in task.root.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("stopped_at", [0, 1, 4095, 4096, 70_000, 99_999, 100_000])
def test_the_rest_comes_from_aggregation(node, task, source, container, stopped_at):
    content = os.urandom(100_000)
    node.write("stdout", content)
    node.write("stderr", b"e\n")
    mirror = LogMirror(task, source)
    assert not stopped_at or mirror.step(stopped_at) == stopped_at
    node.log("stdout").unlink()
    node.log("stderr").unlink()
    node.log("stdout").parent.rmdir()
    assert not mirror.drain()
    assert LogMirror(task, Kept(container, stdout=content, stderr=b"e\n")).drain()
    assert task.stdout.read_bytes() == content
    assert task.stderr.read_bytes() == b"e\n"


def test_a_log_that_goes_while_it_is_drained_is_left_to_others(node, task, source):
    node.write("stdout", b"x" * 10)
    node.after_list = lambda: node.log("stdout").unlink(missing_ok=True)
    assert not LogMirror(task, source).drain()


def test_a_step_does_not_ask_for_sizes_that_it_is_told(node, task, source):
    node.write("stdout", b"12345")
    mirror = LogMirror(task, source)
    assert mirror.step(sizes={"stdout": 5}) == 5
    assert mirror.step(sizes={"stdout": 5}) == 0
    assert len(node.asked) == 1
    node.write("stdout", b"6")
    assert mirror.behind({"stdout": 6, "other": 9}) == 1


def test_a_file_that_goes_within_a_step_is_said(node, task, source):
    node.write("stderr", b"")
    with pytest.raises(LogsGoneError):
        LogMirror(task, source).step(sizes={"stdout": 5})


def test_logs_of_the_next_container_come_after_those_of_the_one_before(task):
    first = Kept("container_1_1_1_2", stdout=b"one\n", stderr=b"")
    second = Kept("container_1_1_1_3", stdout=b"two\n", stderr=b"e")
    assert LogMirror(task, first).drain()
    for _ in range(2):  # a keeper, and the one after it
        assert LogMirror(task, second).drain()
    assert LogMirror(task, first).drain()
    assert task.stdout.read_bytes() == b"one\ntwo\n"
    assert task.stderr.read_bytes() == b"e"


def test_a_truncated_log_begins_anew_behind_its_copy(node, task, source, container, logs):
    node.write("stdout", b"before\n")
    mirror = LogMirror(task, source)
    mirror.step()
    node.log("stdout").write_bytes(b"new\n")
    mirror.step()
    assert task.stdout.read_bytes() == b"before\nnew\n"
    # So it is for the next keeper.
    node.write("stdout", b"more\n")
    assert LogMirror(task, NodeSource(logs, container)).drain()
    assert task.stdout.read_bytes() == b"before\nnew\nmore\n"


@pytest.mark.parametrize(
    "spoilt", ["", "nul", "[]", '{"x"', '{"container_1_1_1_2": 5}', '{"x": {"stdout": "?"}}']
)
def test_where_the_note_of_origins_is_spoilt_a_copy_begins_behind_what_it_holds(task, spoilt):
    """Whatever the loss of power has left of the copy, nothing of the log is lost."""
    source = Kept("container_1_1_1_2", stdout=b"one\n", stderr=b"e\n")
    assert LogMirror(task, source).drain()
    task.origins.write_bytes(b"\0" * 9 if spoilt == "nul" else spoilt.encode())
    mirror = LogMirror(task, source)
    assert mirror.drain()
    assert mirror.borders("stdout") == [4]
    for _ in range(2):  # as one that was never spoilt from then on
        assert LogMirror(task, source).drain()
    assert task.stdout.read_bytes() == b"one\none\n"


def test_a_note_of_origins_that_cannot_be_read_now_is_none_that_is_spoilt(task):
    source = Kept("container_1_1_1_2", stdout=b"one\n")
    assert LogMirror(task, source).drain()
    task.origins.unlink()
    task.origins.mkdir()
    with pytest.raises(OSError, match="it is no file"):
        LogMirror(task, source)


def test_truncation_between_list_and_read_is_seen(node, task, source):
    node.write("stdout", b"before\n")
    mirror = LogMirror(task, source)
    mirror.step()
    node.write("stdout", b"more\n")
    node.after_list = lambda: node.log("stdout").write_bytes(b"new\n")
    mirror.step()
    node.after_list = lambda: None
    mirror.step()
    assert task.stdout.read_bytes() == b"before\nnew\n"


def test_shorter_logs_of_a_source_that_lags_are_no_truncation(task, container):
    assert LogMirror(task, Kept(container, stdout=b"all of it")).drain()
    assert LogMirror(task, Kept(container, stdout=b"all")).step() == 0
    assert task.stdout.read_bytes() == b"all of it"


def test_a_full_disk_loses_and_repeats_nothing(node, task, source):
    content = os.urandom(50_000)
    node.write("stdout", content)
    mirror = LogMirror(task, source)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            mirror.step()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert task.stdout.read_bytes() == content[:20_000]
    assert mirror.drain()
    assert task.stdout.read_bytes() == content


def test_displays_of_one_container_after_another_stand_in_their_own_text(tmp_path):
    """Each container knows the bytes of its own logs alone; here they lie one behind the other."""
    paths = JobPaths(tmp_path, "20260101-000000-abcde")
    task = paths.task("worker-0")
    task.root.mkdir(parents=True)
    events = [Submitted(gpus=0, tasks=("worker-0",)), Finished(state=JobState.SUCCEEDED)]
    paths.events.write_text("".join(json.dumps(event.to_json()) + "\n" for event in events))
    for number in (1, 2):
        shown = [
            {"kind": "display", "data": {"text/plain": f"{number}a"}, "stdout": 6, "stderr": 0},
            {"kind": "display", "data": {"text/plain": f"{number}b"}, "stdout": 11, "stderr": 2},
        ]
        logs = {
            "stdout": b"begin\nend!\n",
            "stderr": b"e\n",
            "displays": "".join(json.dumps(frame) + "\n" for frame in shown).encode(),
        }
        assert LogMirror(task, Kept(f"container_{number}", **logs)).drain()
    told = []
    for item in read_batch(paths, ["worker-0"], Cursor(), 1 << 20).items:
        if isinstance(item, LogChunk):
            told.append((item.stream, item.data))
        elif isinstance(item, Display):
            told.append(item.text)
    once = [("stdout", b"begin\n"), "a", ("stdout", b"end!\n"), ("stderr", b"e\n"), "b"]
    twice = [f"{n}{one}" if isinstance(one, str) else one for n in (1, 2) for one in once]
    assert told == twice


def test_text_has_the_moment_at_which_it_came(tmp_path):
    task = JobPaths(tmp_path, "20260101-000000-abcde").task("worker-0")
    task.root.mkdir(parents=True)
    source = Kept("container_1", stdout=b"one\n", stderr=b"")
    source.live = True
    mirror = LogMirror(task, source)
    mirror.step()
    mirror.step()  # nothing came
    mirror._moment_due = 0.0
    source.logs["stderr"] = b"warning\n"
    mirror.step()
    source.live = False  # of log aggregation: written who knows when
    source.logs["stdout"] = b"one\ntwo\n"
    mirror._moment_due = 0.0
    mirror.step()
    assert task.stdout.read_bytes() == b"one\ntwo\n"
    told = [json.loads(line) for line in task.moments.read_text().splitlines()]
    assert [sizes for _, *sizes in told] == [[0, 0], [4, 0]]
    assert all(isinstance(wall, float) for wall, *_ in told)


@pytest.mark.parametrize("note", ["", "[]", "nonsense", '{"c": 1}', '{"c": {"stdout": "x"}}'])
def test_a_note_that_says_nothing_changes_no_display(tmp_path, note):
    paths = JobPaths(tmp_path, "20260101-000000-abcde")
    task = paths.task("worker-0")
    task.root.mkdir(parents=True)
    paths.events.write_text(json.dumps(Submitted(gpus=0, tasks=("worker-0",)).to_json()) + "\n")
    task.displays.write_text('{"kind": "display", "data": {"text/plain": "x"}, "stdout": 0}\n')
    task.origins.write_text(note)
    [_, shown] = read_batch(paths, ["worker-0"], Cursor(), 1 << 20).items
    assert (shown.text, shown.stdout) == ("x", 0)


@pytest.mark.parametrize(("notebook", "backend"), [("a.ipynb", displays.INLINE), (None, "Agg")])
def test_a_container_draws_into_the_notebook_if_there_is_one(notebook, backend):
    spec = JobSpec(roles=(Role(),), notebook=notebook)
    assert job_variables("id", spec, spec.roles[0], None)["MPLBACKEND"] == backend
