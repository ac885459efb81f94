"""The small parts: how an end is worded, how progress is paced, how a lock is waited for."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
import types
import warnings

import pytest
from submarine_engine.clusters import locks, tasks
from submarine_engine.clusters.local import backend
from submarine_engine.clusters.local.leases import Holder, Leases, release_lease
from submarine_engine.clusters.tasks import Ending, final_task_state
from submarine_engine.errors import ClusterError
from submarine_engine.events import Moment
from submarine_engine.history import TaskPaths, make_private
from submarine_engine.job import JobState

from tests.jobs import until


@pytest.mark.parametrize(
    ("code", "outcome", "oom", "words"),
    [
        (-9, {}, True, "the kernel ended it: the machine had no memory left"),
        (-9, {}, False, "somebody killed it from outside"),
        (-15, {}, False, "SIGTERM"),
        (-64, {}, False, "ended by "),
        (127, {}, False, "could not be run"),
        (1, {"kind": "raised", "error": {"type": "KeyError", "message": "'x'"}}, False, "KeyError"),
        (1, {"kind": "raised", "error": None}, False, "raised an error"),
        (1, {"kind": "raised", "error": {"type": "E", "message": ""}}, False, "E"),
        (1, {"kind": ["odd"]}, False, "exited with code 1"),
    ],
)
def test_an_end_in_words(tmp_path, code, outcome, oom, words):
    state, reason = final_task_state(Ending(code, outcome), tmp_path, oom_killed=oom)
    assert state is JobState.FAILED
    assert words in reason


@pytest.mark.parametrize(
    ("status", "outcome", "asked"),
    [
        (-2, {}, True),  # killed before it could say more
        (-15, {}, True),
        (130, {"kind": "raised", "error": {"type": "KeyboardInterrupt"}}, True),
        (-9, {}, False),
        (-2, {"kind": "raised", "error": {"type": "ValueError"}}, False),
        (0, {"kind": "returned"}, False),
    ],
)
def test_one_that_was_asked_to_end_is_told_apart(status, outcome, asked):
    assert Ending(status, outcome).asked_to_end is asked


def test_a_long_message_is_cut_to_one_line(tmp_path):
    error = {"type": "ValueError", "message": "x" * 10_000 + "\nsecond line"}
    _, reason = final_task_state(
        Ending(1, {"kind": "raised", "error": error}), tmp_path, oom_killed=False
    )
    assert len(reason) == 300
    assert "\n" not in reason


@pytest.mark.parametrize("returned", [None, "noon", [1], [1, "x"], [1, float("nan")], {}])
def test_a_time_of_return_that_is_none_is_the_end(returned):
    start, end = Moment(10, 10), Moment(20, 20)
    ending = Ending(0, {"kind": "returned", "returned_at": returned})
    assert 10 <= ending.returned_at(start, end).mono <= 20


def test_a_week_of_progress_is_some_thousand_events(tmp_path, monkeypatch):
    task = TaskPaths(tmp_path / "worker-0")
    make_private(task.root)
    clock = [0.0]
    monkeypatch.setattr(tasks.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(tasks.Progress, "_changed", lambda *_: True)
    said = {"fraction": 0.5, "message": ""}
    monkeypatch.setattr(tasks, "read_foreign", lambda *_: json.dumps(said))
    watched, told = tasks.Progress(task), 0
    while clock[0] < 7 * 86400:
        clock[0] += max(0.5, clock[0] / 2000)
        said["message"] = f"{clock[0]} s"
        told += watched.poll() is not None
    assert 1000 < told < 20_000


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "7", '{"fraction": "x"}', '{"fraction": NaN}', '{"fraction": 7}', "\xff"],
)
def test_progress_that_makes_no_sense_is_passed_over(tmp_path, monkeypatch, content):
    task = TaskPaths(tmp_path / "worker-0")
    make_private(task.root)
    watched = tasks.Progress(task)
    monkeypatch.setattr(watched, "_told_at", -1.0)
    task.progress.write_bytes(content.encode("latin-1"))
    assert watched.poll() is None


def test_a_lock_that_is_never_let_go_is_an_error_in_words(tmp_path, monkeypatch):
    monkeypatch.setattr(locks, "_PATIENCE", 0.05)
    descriptor = locks.take(tmp_path / "lock")
    with pytest.raises(ClusterError, match="has held the lock"), locks.held(tmp_path / "lock"):
        pytest.fail("got it")
    with open(descriptor, "wb"):  # noqa: PTH123 - closes it
        assert not locks.is_free(tmp_path / "lock")
    with locks.held(tmp_path / "lock"):
        assert not locks.is_free(tmp_path / "lock")
    assert locks.is_free(tmp_path / "lock")
    assert locks.is_free(tmp_path / "none such")


def test_leases_are_all_or_none_and_tell_their_holder(tmp_path):
    leases = Leases(tmp_path / "gpus")
    pool = ("0", "1", "2")
    first = leases.take(pool, 2, Holder("20260101-000000-aaaaa", "mnist"))
    assert list(first) == ["0", "1"]
    assert leases.take(pool, 2, Holder("20260101-000000-bbbbb", "other")) is None
    assert leases.holders(pool) == {
        "0": Holder("20260101-000000-aaaaa", "mnist"),
        "1": Holder("20260101-000000-aaaaa", "mnist"),
        "2": None,
    }
    assert str(leases.holders(pool)["0"]) == "'mnist' (…aaaaa)"
    release_lease(first)
    assert set(leases.holders(pool).values()) == {None}


def test_a_lease_passes_to_whoever_inherits_it(tmp_path):
    leases = Leases(tmp_path / "gpus")
    taken = leases.take(("0",), 1, Holder("", ""))
    child = subprocess.Popen(["sleep", "600"], pass_fds=list(taken.values()))
    release_lease(taken)
    assert leases.holders(("0",))["0"] is not None
    child.kill()
    child.wait()
    assert leases.holders(("0",))["0"] is None
    descriptor = os.open(tmp_path / "gpus" / "0", os.O_RDWR)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(descriptor)


FORK = """
import os, signal, sys
from pathlib import Path
from submarine_engine.clusters.local.leases import Holder, Leases, release_lease
leases = Leases(Path(sys.argv[1]))
taken = leases.take(("0",), 1, Holder("", ""))
pid = os.fork()
if pid == 0:
    os.kill(os.getpid(), signal.SIGSTOP)
os.waitid(os.P_PID, pid, os.WSTOPPED)
release_lease(taken)
free = leases.holders(("0",))["0"] is None
os.kill(pid, signal.SIGKILL)
sys.exit(not free)
"""


def test_a_fork_of_the_notebook_does_not_take_a_lease_along(tmp_path):
    assert subprocess.run([sys.executable, "-c", FORK, tmp_path], check=False).returncode == 0


def test_memory_is_told_in_units_people_use():
    assert backend._words(512 << 20) == "512 MiB"
    assert backend._words(8 << 30) == "8.0 GiB"


@pytest.mark.parametrize("instruction", ["open", "flock", "close"])
def test_a_fork_at_any_instruction_of_a_lock_does_not_take_it_along(
    tmp_path, monkeypatch, instruction
):
    path = tmp_path / "lock"
    module = fcntl if instruction == "flock" else os
    real = getattr(module, instruction)
    there, forked = threading.Event(), threading.Event()

    def pausing(*arguments):
        answer = real(*arguments)
        if threading.current_thread() is locker:
            there.set()
            forked.wait(1)  # where no fork may come between, it comes only after this
        return answer

    locker = threading.Thread(target=lambda: locks.drop(locks.take(path)))
    monkeypatch.setattr(locks, "fcntl" if module is fcntl else "os", Patched(module))
    setattr(getattr(locks, module.__name__), instruction, pausing)
    locker.start()
    assert there.wait(180)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that there are threads is the point
        pid = os.fork()
    if pid == 0:
        signal.pause()
    forked.set()
    try:
        locker.join()
        until(lambda: locks.is_free(path))  # the fork lets go as soon as it runs
        locks.drop(locks.take(path))
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


class Patched(types.SimpleNamespace):
    """A module whose functions can be replaced for one other module alone."""

    def __init__(self, module):
        super().__init__(**vars(module))
