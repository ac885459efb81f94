"""What a task tells of its stacks is read as a stranger's word, and put side by side."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from submarine_engine import stacks
from submarine_engine.bundle import Cell, build
from submarine_engine.clusters import stacks as clusters_stacks
from submarine_engine.errors import CommandError, JobError
from submarine_engine.failures import Source
from submarine_engine.history import JobPaths, new_job_id
from submarine_engine.job import JobState
from submarine_engine.lifecycle import JobStatus
from submarine_engine.stacks import ranks_of, read_stacks, read_threads

MAIN = """\
Thread 0x00007f203431c6c0 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 331 in wait
  File "/usr/lib/python3.11/threading.py", line 1002 in _bootstrap

Current thread 0x00007f2034e6db80 (most recent call first):
{frames}  File "/elsewhere/submarine_runtime/task.py", line 60 in run_script
  File "<frozen runpy>", line 88 in _run_code
"""
LOAD = '  File "/some/where/bundle/script.py", line {line} in load\n'
CODE = '  File "/some/where/bundle/script.py", line {line} in <module>\n'
REDUCE = '  File "/site-packages/torch/distributed/distributed_c10d.py", line 99 in all_reduce\n'


@pytest.fixture
def folder(tmp_path):
    """The folder of a job of two cells."""
    load = Cell(number=1, source="def load():\n    return 1")
    bundle = build(Cell(number=2, source="a = 1\nload()"), [load], {})
    bundle.write(tmp_path / "bundle")
    return tmp_path


def lines_of(folder):
    """Return on which lines of the script the cells' are."""
    manifest = json.loads((folder / "bundle" / "manifest.json").read_text())
    return {span["cell"]: span["line"] for span in manifest["lines"]}


def told(**tasks):
    found = {
        name.replace("_", "-"): {"host": "alpha", "stacks": text, "cpu": None}
        for name, text in tasks.items()
    }
    return {"version": 1, "id": "x", "at": 1.0, "tasks": found}


def test_tasks_that_stand_together_are_one_group_and_the_odd_one_is_first(folder):
    lines = lines_of(folder)
    code = CODE.format(line=lines["In [2]"] + 1)
    reduce = MAIN.format(frames=REDUCE + code)
    load = MAIN.format(frames=LOAD.format(line=lines["In [1]"] + 1) + code)
    tasks = ["ps-0", *(f"worker-{n}" for n in range(4)), "chief-0"]
    found = read_stacks(
        told(ps_0=None, worker_0=reduce, worker_1=reduce, worker_2=load, chief_0=reduce),
        folder,
        tasks,
    )
    assert [str(group) for group in found.groups] == [
        "ps-0: no answer from alpha: stopped, not begun, or no Python",
        "rank 3: In [1], line 2, in load(): return 1",
        "ranks 0, 1, 2: In [2], line 2 → all_reduce",
    ]
    assert list(found.lines("worker-2")) == [
        "worker-2: In [1], line 2, in load(): return 1",
        "    In [2], line 2: load()",
        "    In [1], line 2, in load(): return 1",
        "worker-2, another thread: /usr/lib/python3.11/threading.py, line 331, in wait",
        "    /usr/lib/python3.11/threading.py, line 1002, in _bootstrap",
        "    /usr/lib/python3.11/threading.py, line 331, in wait",
    ]
    assert found.to_json()["tasks"][0]["rank"] == 0
    with pytest.raises(CommandError, match="no task 'worker-3' of the job runs"):
        list(found.lines("worker-3"))


def test_a_chief_has_rank_0_and_who_serves_has_none():
    tasks = ["worker-0", "worker-1", "ps-0", "chief-0", "evaluator-0"]
    assert ranks_of(tasks) == {"chief-0": 0, "worker-0": 1, "worker-1": 2}


def test_a_folder_that_is_called_bundle_is_no_bundle(folder):
    line = lines_of(folder)["In [2]"]
    for path in ("/a/bundle/b/bundle/script.py", "/a/bundle/script.py"):
        text = f'Thread 0x1 (most recent call first):\n  File "{path}", line {line} in <module>\n'
        (thread,) = read_threads(text, Source.of(folder))
        assert str(thread.own[0]) == "In [2], line 1: a = 1"
    text = f'Thread 0x1 (most recent call first):\n  File "/bundle/x.py", line {line} in f\n'
    (thread,) = read_threads(text, Source.of(folder))
    assert (thread.own, thread.place) == ((), f"/bundle/x.py, line {line}, in f")


@pytest.mark.parametrize(
    ("text", "threads"),
    [
        ("", 0),
        ("no stack at all", 0),
        ('  File "a.py", line 1 in f', 0),  # of no thread
        ("Thread 0x1 (most recent call first):\n  <no Python frame>\n", 1),
        ("Thread 0x1 [pool-1 (x)] (most recent call first):\n  ...\n", 1),
        ('Thread 0x1 (most recent call first):\n  File "a", line ' + "9" * 400 + " in f\n", 1),
        ("Thread 0x1 (most recent call first):\n" * 50, 50),
    ],
    ids=["nothing", "words", "no thread", "no frame", "cut", "a large number", "many"],
)
def test_what_is_no_stack_is_left_out(folder, text, threads):
    found = read_threads(text, Source.of(folder))
    assert len(found) == threads
    assert all(thread.place == "in no Python code" for thread in found)


def test_what_a_task_tells_cannot_move_the_cursor(folder):
    text = 'Thread 0x1 (most recent call first):\n  File "\x1b[2Ja\u202e", line 1 in \x1b[31mf\n'
    (thread,) = read_threads(text, Source.of(folder))
    assert thread.place == "a\ufffd, line 1, in f()"


def test_a_driver_is_not_held_up_by_what_tasks_tell(folder, monkeypatch):
    looked = []
    real = Source.frame
    monkeypatch.setattr(Source, "frame", lambda self, one: looked.append(1) or real(self, one))
    monkeypatch.setattr(stacks, "_MOST_PLACES", 100)
    texts = {}
    for task in ("worker_0", "worker_1"):
        line = '  File "/a/bundle/script.py", line {} in ' + task + "\n"
        texts[task] = MAIN.format(frames="".join(line.format(n) for n in range(1000)))
    found = read_stacks(told(**texts), folder, ["worker-0", "worker-1"])
    assert len(looked) == 100
    assert all(len(one.threads[0].steps) >= 1000 for one in found.tasks)
    alike = MAIN.format(frames='  File "/lib/a.py", line 1 in f\n' * 1000)
    looked.clear()
    read_stacks(told(worker_0=alike, worker_1=alike), folder, ["worker-0", "worker-1"])
    assert len(looked) < 10


@given(
    text=st.text(
        st.sampled_from('Thread 0x1 (most):\n  File "a", line 1 in f\x1b\u202e'), max_size=300
    )
)
def test_any_text_is_read(text):
    for thread in read_threads(text, Source(None, None)):
        assert "\x1b" not in thread.place


def test_who_asks_where_nobody_drives_is_told_so(tmp_path, monkeypatch):
    monkeypatch.setattr(clusters_stacks, "_ASKERS_PATIENCE", 0.2)
    paths = JobPaths(tmp_path, new_job_id())
    paths.root.mkdir(parents=True)
    running = JobStatus(state=JobState.RUNNING)
    with pytest.raises(JobError, match=r"nobody has looked at its stacks within 0\.2 s") as caught:
        clusters_stacks.ask(paths, lambda: running)
    assert "supervisor.log" in caught.value.fix
    assert list(paths.root.iterdir()) == []  # no question is left


def test_an_answer_to_who_asks_too_is_taken(tmp_path):
    paths = JobPaths(tmp_path, new_job_id())
    paths.root.mkdir(parents=True)
    looks = []

    def status():
        looks.append(1)
        if len(looks) == 2:
            paths.stacks_asked.write_text('{"id": "theirs"}')
        if len(looks) == 4:
            paths.stacks.write_text('{"id": "theirs", "tasks": {}}')
            paths.stacks_asked.unlink()
        return JobStatus(state=JobState.RUNNING)

    assert clusters_stacks.ask(paths, status)["id"] == "theirs"


def test_who_has_not_seen_that_another_took_its_place_asks_again(tmp_path):
    paths = JobPaths(tmp_path, new_job_id())
    paths.root.mkdir(parents=True)
    asked = []

    def status():
        if paths.stacks_asked.exists():
            asked.append(json.loads(paths.stacks_asked.read_text())["id"])
            paths.stacks_asked.unlink()
        if len(asked) == 2:
            paths.stacks.write_text(json.dumps({"id": asked[0], "tasks": {}}))
        return JobStatus(state=JobState.RUNNING)

    assert clusters_stacks.ask(paths, status)["id"] == asked[0] == asked[1]
