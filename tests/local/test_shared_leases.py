"""Leases of a shared machine: one taker each, whatever ends, and who counts as busy."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest
from submarine_engine.clusters import machine
from submarine_engine.clusters.local import gpus, turns
from submarine_engine.clusters.local.leases import (
    Holder,
    Lease,
    Leases,
    SharedLeases,
    release_lease,
)
from submarine_engine.clusters.local.policy import Policy
from submarine_engine.clusters.local.turns import Turns, Waiter
from submarine_engine.history import new_job_id

from .conftest import open_files

POOL = [str(number) for number in range(4)]
TAKER = """
import sys
from collections import Counter
from pathlib import Path
sys.path[:0] = {path!r}
from submarine_engine.clusters.local.leases import Holder, SharedLeases
leases = SharedLeases(Path({folder!r}), Path({folder!r} + "-own"), Path("/nowhere"))
from tests.local.walked import Walk
Walk("taker:{number}:{notes}", ("taker",))
taken = leases.take({pool!r}, 2, Holder("20260101-000000-abcde", "x"))
print(len(taken or ()))
"""


@pytest.fixture
def leases(tmp_path):
    folder = tmp_path / "leases"
    folder.mkdir()
    return SharedLeases(folder, tmp_path / "own", tmp_path / "home")


def test_a_kill_at_each_point_of_taking_loses_no_gpu_and_gives_none_twice(leases, tmp_path):
    killed = []
    for number in range(1, 100):
        notes = tmp_path / f"notes-{number}"
        notes.mkdir()
        code = TAKER.format(
            path=[entry for entry in sys.path if entry] + [str(Path.cwd())],
            folder=str(tmp_path / "leases"),
            number=number,
            notes=notes,
            pool=POOL,
        )
        ended = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
        taken = leases.take(POOL, 4, Holder(new_job_id(), "y"))
        assert taken is not None, f"a GPU is lost at {number}"
        again = leases.take(POOL, 1, Holder(new_job_id(), "z"))
        assert again is None, f"a GPU was given twice at {number}"
        release_lease(taken)
        if not (notes / "killed").exists():
            assert ended.stdout.strip() == b"2", ended.stderr
            break
        assert ended.returncode == -signal.SIGKILL
        killed.append((notes / "killed").read_text())
    assert {word.split()[0] for word in killed} >= {"open", "os.link", "os.remove"}


def test_who_looked_long_ago_takes_nothing_that_was_taken_since(leases, monkeypatch):
    looks = leases.look
    old = looks()
    first = leases.take(["0"], 1, Holder(new_job_id(), "a"))
    release_lease(first)
    held = leases.take(["0"], 1, Holder(new_job_id(), "b"))  # number 2; number 1 is tidied away
    assert held is not None
    for path in (leases._shared).glob("0.1"):
        path.unlink()
    seen = iter([old])
    monkeypatch.setattr(leases, "look", lambda: next(seen, None) or looks())
    assert leases.take(["0"], 1, Holder(new_job_id(), "c")) is None
    monkeypatch.undo()
    assert [lease.number for lease in leases.look() if lease.held] == [2]
    release_lease(held)


@pytest.fixture(params=["alone", "shared"])
def either(request, leases, tmp_path):
    """Give leases of one user, or of a machine that is shared."""
    return leases if request.param == "shared" else Leases(tmp_path / "gpus")


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_what_fails_after_the_first_gpu_was_taken_keeps_none(either, error):
    release_lease(either.take(POOL, 4, Holder(new_job_id(), "before")))
    asked = []

    def is_over(job_id):
        asked.append(job_id)
        if len(asked) == 2:
            raise error
        return True

    with pytest.raises(error):
        either.take(POOL, 2, Holder(new_job_id(), "fails"), is_over)
    taken = either.take(POOL, 4, Holder(new_job_id(), "next"))
    assert taken is not None
    release_lease(taken)


def test_a_process_without_descriptors_left_keeps_no_gpu(either):
    """Wherever it runs out of them: at the first open file, at the second, and so on."""
    release_lease(either.take(POOL, 4, Holder(new_job_id(), "before")))
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    before = open_files()
    failed, taken = 0, None
    for most in range(limit[0]):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, limit[1]))
        try:
            taken = either.take(POOL, 4, Holder(new_job_id(), "x"))
        except OSError:
            failed += 1
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limit)
        if taken is not None:
            break
        assert open_files() == before, f"left open with {most} at most"
    assert len(taken) == 4
    assert failed > len(POOL)
    release_lease(taken)


class NvmlOfOthersDouble:
    """Tells of processes on GPUs as `pynvml` does."""

    NVMLError = type("NVMLError", (Exception,), {})
    NVML_DEVICE_MIG_ENABLE = 1

    def __init__(self, of):
        self.of = of

    def nvmlInit(self):  # noqa: N802 - as NVML calls it
        pass

    nvmlShutdown = nvmlInit  # noqa: N815 - likewise

    def nvmlDeviceGetCount(self):  # noqa: N802
        return len(self.of)

    def nvmlDeviceGetHandleByIndex(self, index):  # noqa: N802
        return list(self.of)[index]

    def nvmlDeviceGetUUID(self, handle):  # noqa: N802
        return handle.encode()

    def nvmlDeviceGetMigMode(self, _handle):  # noqa: N802
        raise self.NVMLError

    def nvmlDeviceGetComputeRunningProcesses(self, handle):  # noqa: N802
        return [SimpleNamespace(pid=pid) for pid in self.of[handle]]


@pytest.fixture
def used(monkeypatch):
    """Give GPUs, on the first of which another user computes, and this one on the second."""
    if os.geteuid() != 0:
        pytest.skip("only root can begin a process of another user")
    stranger = subprocess.Popen(["/bin/sleep", "600"], user=65534)
    of = {"GPU-a": [stranger.pid], "GPU-b": [os.getpid(), 999_999_999], "GPU-c": []}
    monkeypatch.setitem(sys.modules, "pynvml", NvmlOfOthersDouble(of))
    monkeypatch.setattr(gpus, "_used", None)
    monkeypatch.setattr(machine, "_people", None)
    yield list(of)
    stranger.kill()
    stranger.wait()


def test_a_gpu_on_which_another_user_computes_is_busy(leases, used):
    assert gpus.used_by_others(used) == {"GPU-a": 65534}
    taken = leases.take(used, 2, Holder(new_job_id(), "x"))
    assert list(taken) == ["GPU-b", "GPU-c"]
    assert leases.take(["GPU-a"], 1, Holder(new_job_id(), "x")) is None
    assert leases.holders(["GPU-a"])["GPU-a"].user == "nobody"
    release_lease(taken)


def test_without_a_queue_for_all_a_gpu_on_which_another_user_computes_is_given_last(
    tmp_path, used, monkeypatch
):
    monkeypatch.setattr(machine, "_is_person", lambda uid: uid == 65534)  # no one can log in as him
    leases = Leases(tmp_path / "gpus")
    first = leases.take(used, 2, Holder(new_job_id(), "x"))
    assert list(first) == ["GPU-b", "GPU-c"]
    last = leases.take(used, 1, Holder(new_job_id(), "x"))
    assert list(last) == ["GPU-a"]  # nobody's queue keeps it for him
    release_lease(first)
    release_lease(last)


def test_who_is_a_person():
    assert not machine._is_person(0)
    assert not machine._is_person(65534)
    assert not machine._is_person(61_999)  # no such user


@pytest.mark.parametrize(
    "shares", [{}, {"user 1": 2.0}, {"user 1": 3.0, "user 2": 0.5}], ids=["even", "two", "odd"]
)
def test_over_time_each_user_has_his_share(tmp_path, monkeypatch, shares):
    """Fifty users who always wait for one of four GPUs, by the very rules, without processes."""
    users, policy = range(1, 51), Policy(share=shares)
    monkeypatch.setattr(turns, "user_name_of", lambda uid: f"user {uid}")
    state = Turns(tmp_path, tmp_path / "served", policy, tmp_path)
    served, given = dict.fromkeys(users, 0.0), dict.fromkeys(users, 0)
    held: list[Lease] = []
    for number in range(1, 5001):
        if len(held) == len(POOL):
            held.pop(0)
        state._last = {lease.uid: lease.since for lease in held}
        count = Counter(lease.uid for lease in held)
        waiters = [Waiter(uid, 1, tuple(POOL), 1, served[uid], 0.0) for uid in users]
        first = min(waiters, key=lambda one, count=count: state._order(one, count))
        served[first.uid] += 1 / policy.share_of(f"user {first.uid}")
        given[first.uid] += 1
        held.append(Lease("0", number, first.uid, float(number), True, tmp_path))
    whole = sum(policy.share_of(f"user {uid}") for uid in users)
    for uid in users:
        due = 5000 * policy.share_of(f"user {uid}") / whole
        assert abs(given[uid] - due) <= 0.05 * due + 1, (uid, given[uid], due)
