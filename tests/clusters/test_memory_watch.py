"""Memory near what was asked for is said before the kill, once, and what a killed task had used."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from submarine_engine.clusters import memory
from submarine_engine.clusters.memory import MemoryWatch, peak_words
from submarine_engine.history import TaskPaths
from submarine_engine.job import JobSpec, Resources, Role

GIB = 1 << 30


@pytest.fixture
def files(tmp_path):
    return TaskPaths(tmp_path)


@pytest.fixture
def watch(monkeypatch):
    monkeypatch.setattr(memory, "_EVERY", 0.0)
    return MemoryWatch(JobSpec(roles=(Role(resources=Resources(memory=2048)),)))


def use(files, *sizes):
    lines = (json.dumps({"at": at, "memory": size}) + "\n" for at, size in enumerate(sizes))
    files.metrics.write_text("".join(lines))


def test_it_is_said_once_and_taken_back_and_not_again(watch, files):
    task = SimpleNamespace(task="worker-0", files=files)
    assert watch.step([task]) is None  # nothing is known yet
    use(files, GIB)
    assert watch.step([task]) is None
    use(files, GIB, 1.9 * GIB)
    said = watch.step([task])
    assert said.startswith("worker-0 uses 1.9 GiB of 2.0 GiB of memory asked for")
    assert watch.step([task]) is None
    use(files, 1.9 * GIB, GIB)
    assert watch.step([task]) == ""
    use(files, 1.9 * GIB)
    assert watch.step([task]) is None


def test_of_a_task_without_a_size_or_a_damaged_file_nothing_is_said(watch, files):
    free = MemoryWatch(JobSpec())
    use(files, 100 * GIB)
    assert free.step([SimpleNamespace(task="worker-0", files=files)]) is None
    files.metrics.write_text('{"at": 1, "memory": "NaN"}\n[')
    assert watch.step([SimpleNamespace(task="worker-0", files=files)]) is None


@pytest.mark.parametrize(
    ("limit", "oom", "words"),
    [
        (None, True, "its processes used 13.0 GiB of memory at most"),
        (13 * GIB, False, "its processes used 13.0 GiB of memory at most, of 13.0 GiB asked for"),
        (64 * GIB, False, ""),
        (None, False, ""),
    ],
)
def test_a_killed_task_has_its_peak_where_memory_may_be_why(files, limit, oom, words):
    use(files, 5 * GIB, 13 * GIB, GIB)
    assert peak_words(files, limit, oom_killed=oom) == words


def test_nobody_knows_the_peak_of_a_task_that_was_short(files):
    assert peak_words(files, GIB, oom_killed=True) == ""
