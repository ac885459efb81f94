"""The one loop behind cell, terminal and launch: everything arrives, in order, in flat memory."""

# ruff: noqa: ARG002 - a double takes all that the seam gives

import re
import tracemalloc

import pytest
from submarine_engine.clusters.base import Batch, Cluster, Cursor
from submarine_engine.errors import CommandError, JobNotFoundError
from submarine_engine.events import (
    Display,
    Exited,
    Finished,
    Granted,
    LogChunk,
    Progressed,
    Resized,
    Retried,
    Started,
    Submitted,
)
from submarine_engine.future import Job
from submarine_engine.job import JobState
from submarine_engine.lifecycle import fold
from submarine_engine.logs import PlainDisplays, Renderer, TaskMarks, check_task, follow

BEGIN = [
    Submitted(gpus=1, tasks=("worker-0",)),
    Granted(task="worker-0", host="here", container="c", gpus=("0",)),
    Started(task="worker-0"),
]
END = [Exited(task="worker-0", exit_code=0), Finished(state=JobState.SUCCEEDED)]


class RecordedCluster(Cluster):
    """Gives a recorded stream, a batch a read; speaks the seam's own protocol."""

    name = "recorded"

    def __init__(self, batches):
        self.batches = batches
        self.cursors = []

    def read(self, job_id, cursor, *, limit=1 << 20):
        self.cursors.append(cursor)
        number = len(self.cursors) - 1
        items = self.batches[number]
        if isinstance(items, Exception):
            raise items
        ended = number == len(self.batches) - 1
        return Batch(tuple(items), Cursor(number + 1, cursor.logs), ended)

    def status(self, job_id):
        read = self.batches[: len(self.cursors)]
        return fold(item for batch in read for item in batch if not is_log(item))

    def check(self, spec):
        raise NotImplementedError

    def submit(self, spec, bundle, *, workdir):
        raise NotImplementedError

    def cancel(self, job_id, reason=""):
        raise NotImplementedError

    def kill(self, job_id):
        raise NotImplementedError

    def results(self, job_id, task=None):
        raise NotImplementedError

    def gpus(self):
        raise NotImplementedError

    def log_url(self, job_id):
        return None


def is_log(item):
    return isinstance(item, LogChunk)


class Recorder(Renderer):
    """Keeps what it is given, in order."""

    def __init__(self):
        self.calls = []

    def status(self, status):
        self.calls.append(("status", status.state))

    def text(self, task, stream, text):
        self.calls.append((stream, text))

    def end(self, status):
        self.calls.append(("end", status.state))

    def of(self, name):
        return [value for key, value in self.calls if key == name]


def out(data, offset=0, stream="stdout"):
    return LogChunk(task="worker-0", stream=stream, offset=offset, data=data)


def run(batches, **options):
    recorder = Recorder()
    status = follow(Job(RecordedCluster(batches), "x"), recorder, **options)
    return recorder, status


def test_all_text_arrives_before_the_end_and_the_end_once():
    recorder, status = run([BEGIN, [out(b"a\n")], [out(b"b\n", 2), *END]])
    assert "".join(recorder.of("stdout")) == "a\nb\n"
    assert recorder.calls[-1] == ("end", JobState.SUCCEEDED)
    assert recorder.of("end") == [JobState.SUCCEEDED]
    assert status.state is JobState.SUCCEEDED
    assert JobState.RUNNING in recorder.of("status")


def test_text_that_comes_with_the_end_is_not_lost():
    recorder, _ = run([[*BEGIN, *END, out(b"last words")]], interval=1000)
    assert recorder.calls[-2:] == [("stdout", "last words"), ("end", JobState.SUCCEEDED)]


def test_streams_stay_apart_and_a_character_split_between_them_is_whole():
    batches = [
        [*BEGIN, out(b"caf\xc3"), out(b"warn", stream="stderr")],
        [out(b"\xa9\n", 4), out(b"ing\n", 4, "stderr"), *END],
    ]
    recorder, _ = run(batches)
    assert "".join(recorder.of("stdout")) == "café\n"
    assert "".join(recorder.of("stderr")) == "warning\n"


def test_lines_of_several_tasks_are_whole_and_say_whose_they_are():
    def of(task, data, offset):
        return LogChunk(task=task, stream="stdout", offset=offset, data=data)

    team = [Submitted(gpus=0, tasks=("worker-0", "worker-1"))]
    batches = [
        [*team, of("worker-0", b"epoch ", 0), of("worker-1", b"one\ntw", 0)],
        [of("worker-0", b"1\n 10 %\r 50", 6), of("worker-1", b"o\nlast", 6)],
        [of("worker-0", b" %\r100 %\n", 16), Finished(state=JobState.SUCCEEDED)],
    ]
    recorder, _ = run(batches, interval=0)
    lines = "".join(recorder.of("stdout")).splitlines()
    assert [line for line in lines if line.startswith("worker-0")] == [
        "worker-0 | epoch 1", "worker-0 | 100 %",
    ]  # fmt: skip
    assert [line for line in lines if line.startswith("worker-1")] == [
        "worker-1 | one", "worker-1 | two", "worker-1 | last",
    ]  # fmt: skip
    assert len(lines) == 5


TEAM = [Submitted(gpus=0, tasks=("ps-0", "worker-0", "worker-1"))]


def of_each(*tasks):
    """Return a text of each task."""
    return [
        LogChunk(task=task, stream="stdout", offset=0, data=f"{task}\n".encode()) for task in tasks
    ]


@pytest.mark.parametrize(
    ("which", "text"),
    [
        ("first", "worker-0\n"),
        ("worker-1", "worker-1\n"),
        ("all", "ps-0     | ps-0\nworker-0 | worker-0\nworker-1 | worker-1\n"),
    ],
)
def test_whose_log_is_shown_of_several_tasks(which, text):
    end = Finished(state=JobState.SUCCEEDED)
    batches = [[*TEAM, *of_each("ps-0", "worker-0", "worker-1"), end]]
    recorder, _ = run(batches, which=which)
    assert "".join(recorder.of("stdout")) == text


def marks(tasks, *, colour=False):
    """Return what stands before the lines of each task of a job that has these."""
    status, found = fold([Submitted(gpus=0, tasks=tuple(tasks))]), TaskMarks(colour=colour)
    return {task: found.of(task, status) for task in tasks}


def test_each_task_has_a_colour_of_its_own_and_keeps_it():
    tasks = [f"worker-{number}" for number in range(32)]
    coloured, plain = marks(tasks, colour=True), marks(tasks)
    assert len({coloured[task][:5] for task in tasks[:8]}) == 8
    assert coloured["worker-3"] == marks(tasks, colour=True)["worker-3"]
    assert {task: re.sub(r"\x1b\[\d+m", "", mark) for task, mark in coloured.items()} == plain
    assert len({len(mark) for mark in plain.values()}) == 1


def resized(attempt, *tasks):
    """Return the events by which a job begins again with these tasks."""
    return [Retried(attempt=attempt), Resized(tasks=tasks)]


SIZES = [
    [*TEAM, *of_each("worker-0", "worker-1")],
    [*resized(2, "worker-0", "worker-1", "worker-2"), *of_each("worker-2")],
    [*resized(3, "worker-0"), *of_each("worker-0")],
]
"""A job that grows, and then has one task left."""


@pytest.mark.parametrize("batches", [SIZES, [[item for batch in SIZES for item in batch]]])
def test_tasks_that_come_and_go_are_shown_with_the_others(batches):
    end = Finished(state=JobState.SUCCEEDED)
    recorder, _ = run([*batches, [end]], which="all")
    of_stdout = "".join(recorder.of("stdout")).splitlines()
    assert sorted(of_stdout) == [
        "worker-0 | worker-0", "worker-0 | worker-0", "worker-1 | worker-1", "worker-2 | worker-2",
    ]  # fmt: skip


def test_of_a_job_that_has_one_task_left_the_first_is_shown_and_no_other():
    recorder, _ = run([*SIZES, [Finished(state=JobState.SUCCEEDED)]], which="first")
    assert "".join(recorder.of("stdout")) == "worker-0\nworker-0\n"


def test_a_task_that_the_job_does_not_have_is_refused_with_those_it_has():
    tasks = [f"worker-{number}" for number in range(32)]
    for which in (None, "first", "all", "worker-31"):
        check_task(which, tasks)
    with pytest.raises(CommandError, match="no task 'worker-32'") as caught:
        check_task("worker-32", tasks)
    assert caught.value.where == "--logs"
    assert caught.value.fix.startswith("say one of first, all, worker-0, ")
    with pytest.raises(CommandError):
        check_task("all", tasks, "job logs", words=())


def test_half_a_character_at_the_end_is_shown_as_replaced():
    recorder, _ = run([[*BEGIN, out(b"caf\xc3"), *END]])
    assert "".join(recorder.of("stdout")) == "caf\ufffd"


def test_many_small_chunks_become_few_texts():
    batches = [[out(b"x\n", 2 * i)] for i in range(50)]
    recorder, _ = run([BEGIN, *batches, END], interval=1000)
    assert "".join(recorder.of("stdout")) == "x\n" * 50
    assert len(recorder.of("stdout")) <= 2


def test_much_progress_is_few_statuses_but_each_state_is_told():
    progress = [Progressed(task="worker-0", fraction=i / 1000) for i in range(1000)]
    recorder, status = run([BEGIN, progress, END], interval=1000)
    assert recorder.of("status")[:3] == [JobState.QUEUED, JobState.STARTING, JobState.RUNNING]
    assert len(recorder.of("status")) <= 5
    assert status.task("worker-0").progress == 0.999


def test_a_cursor_begins_in_the_logs_but_reads_all_events():
    cluster = RecordedCluster([[*BEGIN, out(b"b\n", 2), *END]])
    status = follow(Job(cluster, "x"), Recorder(), Cursor(7, {"worker-0/stdout": 2}))
    assert cluster.cursors == [Cursor(0, {"worker-0/stdout": 2})]
    assert status.started


def test_what_was_read_is_shown_when_the_job_cannot_be_read_any_more():
    recorder = Recorder()
    gone = JobNotFoundError("its folder is gone", fix="submit it again")
    job = Job(RecordedCluster([[*BEGIN, out(b"a\n")], [out(b"b\n", 2)], gone]), "x")
    with pytest.raises(JobNotFoundError):
        follow(job, recorder, interval=1000)
    assert "".join(recorder.of("stdout")) == "a\nb\n"
    assert not recorder.of("end")


def test_an_offset_skips_bytes_of_each_log():
    batches = [
        [*BEGIN, out(b"one\n"), out(b"err", stream="stderr")],
        [out(b"two\nthree\n", 4), *END],
    ]
    recorder, _ = run(batches, offset=6)
    assert "".join(recorder.of("stdout")) == "o\nthree\n"
    assert not recorder.of("stderr")


def test_without_waiting_it_stops_where_nothing_more_is_there():
    recorder = Recorder()
    job = Job(RecordedCluster([[*BEGIN, out(b"a\n")], [], [out(b"later", 2), *END]]), "x")
    status = follow(job, recorder, wait=False)
    assert recorder.of("stdout") == ["a\n"]
    assert not recorder.of("end")
    assert status.state is JobState.RUNNING


class FloodCluster(RecordedCluster):
    """Makes its chunks while it is read, so that nobody holds them all."""

    def __init__(self, chunks):
        super().__init__([BEGIN])
        self.chunks = chunks

    def read(self, job_id, cursor, *, limit=1 << 20):
        number = cursor.events
        data = b"%07d\n" % number * (1 << 17)
        ended = number == self.chunks
        items = END if ended else ([*BEGIN] if number == 0 else []) + [out(data, number << 20)]
        return Batch(items, Cursor(number + 1), ended)


class Counter(Renderer):
    """Counts only."""

    size = 0

    def text(self, task, stream, text):
        self.size += len(text)


def test_memory_stays_flat_over_a_flood():
    counter = Counter()
    tracemalloc.start()
    follow(Job(FloodCluster(100), "x"), counter, interval=1000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert counter.size == 100 << 20
    assert peak < 16 << 20


def shown(text, kind="display", display_id=None, task="worker-0", **places):
    data = {"text/plain": text} if text else {}
    return Display(task=task, offset=0, kind=kind, data=data, display_id=display_id, **places)


class Watcher(Recorder):
    """Keeps displays, too."""

    def display(self, item):
        self.calls.append((item.kind, item.text))


def watch(batches, **options):
    watcher = Watcher()
    follow(Job(RecordedCluster(batches), "x"), watcher, **options)
    return [call for call in watcher.calls if call[0] not in ("status", "end")]


def test_displays_stand_between_the_text_though_it_is_gathered():
    items = [out(b"a\n"), shown("one"), out(b"b\n", 2), shown("two"), shown("three")]
    expected = [
        ("stdout", "a\n"), ("display", "one"), ("stdout", "b\n"), ("display", "two"),
        ("display", "three"),
    ]  # fmt: skip
    assert watch([[*BEGIN, *items, *END]], interval=1000) == expected


def test_of_states_that_follow_one_another_only_the_last_is_shown():
    first, again = shown("0", display_id="x"), shown("new", display_id="x")
    states = [shown(str(n), "update", "x") for n in range(1, 9)]
    other = shown("other", "update", "y")
    items = [first, *states[:4], other, *states[4:], again, shown("last", "update", "x")]
    assert watch([[*BEGIN, *items, *END]], interval=1000)[1:] == [
        ("update", "8"), ("update", "other"), ("display", "new"), ("update", "last"),
    ]  # fmt: skip


def test_what_was_cleared_before_anybody_saw_it_is_not_shown():
    rounds = [item for n in range(9) for item in (shown("", "clear"), shown(str(n)))]
    assert watch([[*BEGIN, out(b"a"), *rounds, *END]], interval=1000)[-2:] == [
        ("clear", ""), ("display", "8"),
    ]  # fmt: skip


def test_one_of_several_tasks_does_not_clear_what_the_others_show():
    begin = [Submitted(gpus=0, tasks=("worker-0", "worker-1"))]
    items = [shown("one"), shown("", "clear", task="worker-1"), shown("two", task="worker-1")]
    assert watch([[*begin, *items, *END]]) == [("display", "one"), ("display", "two")]


@pytest.mark.parametrize(("which", "mark"), [("all", "worker-1 | "), ("worker-1", "")])
def test_a_display_says_whose_it_is_where_several_are_shown(which, mark):
    begin = [Submitted(gpus=0, tasks=("worker-0", "worker-1"))]
    watcher = Recorder()
    watcher.display = lambda item: watcher.calls.append((item.mark, item.text))
    items = [*begin, shown("drawn", task="worker-1"), *END]
    follow(Job(RecordedCluster([items]), "x"), watcher, which=which)
    assert (mark, "drawn") in watcher.calls


def test_an_offset_leaves_out_the_displays_before_it():
    items = [shown("before", stdout=3), out(b"0123456789"), shown("behind", stdout=10)]
    assert watch([[*BEGIN, *items, *END]], offset=5) == [("stdout", "56789"), ("display", "behind")]


def test_a_terminal_is_told_each_state_once_and_of_what_has_no_text_its_type():
    plain = PlainDisplays()
    items = [
        shown("one", display_id="x"), shown("one", "update", "x"), shown("two", "update", "x"),
        shown("", "clear"), shown("one"), shown("one"),
        Display(task="worker-0", offset=0, data={"image/png": "…"}),
        Display(task="worker-0", offset=0, data={"text/plain": ["two\n", "lines"]}),
        Display(task="worker-0", offset=0, data={"text/plain": 3}),
        Display(task="worker-0", offset=0),
    ]  # fmt: skip
    assert [plain.text(item) for item in items] == [
        "one\n", "", "two\n", "", "one\n", "one\n", "<image/png>\n", "two\nlines\n",
        "<text/plain>\n", "",
    ]  # fmt: skip
