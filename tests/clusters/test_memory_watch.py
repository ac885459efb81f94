"""Memory near what was asked for is said before the kill, once, and what a killed task had used."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
from submarine_engine.clusters import memory
from submarine_engine.clusters.container import Container
from submarine_engine.clusters.job_run import JobRun
from submarine_engine.clusters.log_mirror import FolderSource
from submarine_engine.clusters.memory import MemoryWatch, exceeded, lost_process, peak_words
from submarine_engine.clusters.tasks import Ending, TaskRun
from submarine_engine.failures import failure
from submarine_engine.history import JobPaths, TaskPaths, new_job_id
from submarine_engine.job import JobSpec, JobState, Resources, Role
from submarine_engine.lifecycle import Course, JobStatus
from submarine_engine.outcome import Outcome, RemoteError

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


NODE = (
    "[2025-11-22 03:14:15.926]Container [pid=47,containerID=container_1_0001_01_000002] is running"
    " 149127168B beyond the 'PHYSICAL' memory limit. Current usage: 2.1 GB of 2 GB physical memory"
    " used; 4.3 GB of 4.2 GB virtual memory used. Killing container."
)  # as Hadoop's NodeManager words it (ContainersMonitorImpl)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (NODE, "it used more memory than it was given"),
        (NODE.replace("PHYSICAL", "VIRTUAL"), "it used more virtual memory than its node allows"),
        ("slurmstepd: error: Detected 1 oom_kill event. OOM Killed", "it used more memory than"),
        ("Container exited with a non-zero exit code 137. Killed by external signal", ""),
        ("Container killed on request. Exit code is 143; bedroom", ""),
        ("", ""),
        ("x" * 10_000_000, ""),
    ],
)
def test_a_cluster_that_ends_a_task_for_its_memory_is_understood(said, words):
    assert exceeded(said).startswith(words)
    assert bool(exceeded(said)) is bool(words)


@pytest.mark.parametrize(
    ("error", "is_it"),
    [
        ("RuntimeError: DataLoader worker (pid 7) is killed by signal: Killed.", True),
        ("BrokenProcessPool: A process in the process pool was terminated abruptly", True),
        ("WorkerError: a worker ended with exit code -9", True),
        ("ValueError: a skilled guess at exit code -99", False),
    ],
)
def test_an_error_that_tells_of_a_killed_process_is_understood(error, is_it):
    assert lost_process(error) is is_it


class Ended(TaskRun):
    """A task that is over, on a cluster that says why."""

    exit_status = None

    def poll(self, *, hurry=False):
        raise NotImplementedError(hurry)

    def bring_home(self):
        raise NotImplementedError


MORE = "it used more memory than it was given"
SIGKILLED = "ended by SIGKILL: somebody killed it from outside"
OOM_KILLED = "ended by SIGKILL: the kernel ended it: the machine had no memory left"
LOADER = {"type": "RuntimeError", "message": "DataLoader worker is killed by signal: Killed."}


PEAK = "its processes used 2.1 GiB of memory at most, of 2.0 GiB asked for"
GONE = "RuntimeError: DataLoader worker is killed by signal: Killed."
KERNEL = "the kernel ended a process of its machine meanwhile, which had no memory left"


def raised(error):
    return Ending(1, {"kind": "raised", "exit_code": 1, "error": error})


@pytest.mark.parametrize(
    ("ending", "said", "oom", "reason"),
    [
        # YARN asks first (SIGTERM), and the runtime raises that.
        (raised({"type": "KeyboardInterrupt"}), NODE, False, f"{MORE}; {PEAK}; YARN says: {NODE}"),
        (Ending(-9, {}), NODE, False, f"{MORE}; {PEAK}; YARN says: {NODE}"),
        (Ending(-9, {}), "code 137", False, f"{SIGKILLED}; YARN says: code 137; {PEAK}"),
        (Ending(-9, {}), "", True, f"{OOM_KILLED}; {PEAK}"),
        (raised(LOADER), "", True, f"{GONE}; {KERNEL}; {PEAK}"),
        (raised(LOADER), "", False, GONE),
        (
            Ending(3, {}),
            "",
            True,
            "exited with code 3, without a last word from Python (os._exit?)",
        ),
    ],
)
def test_the_reason_of_a_task_that_memory_ended_says_so_with_the_peak(
    tmp_path, ending, said, oom, reason
):
    paths = JobPaths(tmp_path, new_job_id())
    task = Ended(paths, "worker-0", 0)
    task.files.root.mkdir(parents=True)
    use(task.files, GIB, 2.1 * GIB, GIB)
    task.said, task.oom_killed = said, oom
    run = JobRun.__new__(JobRun)  # what it is made of needs a cluster
    run._paths, run._course = paths, Course()
    run._backend = SimpleNamespace(title="YARN")
    run._request = SimpleNamespace(forgotten=False)
    run._memory = MemoryWatch(JobSpec(roles=(Role(resources=Resources(memory=2048)),)))
    assert run._task_state(task, ending) == (JobState.FAILED, reason)


def test_what_is_raised_then_is_the_memory_and_the_way_out_not_the_interrupt(tmp_path):
    reason = f"{MORE}; {PEAK}; YARN says: {NODE}"
    kind = "KeyboardInterrupt"
    error = RemoteError(type=kind, module="builtins", builtin=kind, message="")
    interrupted = Outcome(kind="raised", exit_code=130, python="3.11.7", error=error)
    status = JobStatus(state=JobState.FAILED, reason=reason)
    raised = failure(new_job_id(), status, interrupted, tmp_path, "its log")
    assert raised.what == reason
    assert raised.fix.startswith("use smaller batches, or ask for more with --memory")
    plain = failure(new_job_id(), replace(status, reason=""), interrupted, tmp_path, "its log")
    assert "memory" not in str(plain)


@pytest.mark.parametrize(
    ("told", "status", "oom"),
    [
        ("137\n", -9, False),
        ("137 oom\n", -9, True),
        ("0", 0, False),
        ("", None, False),
        ("oom", None, False),
        ("137 out of oomph", -9, False),
    ],
)
def test_a_task_elsewhere_tells_that_its_kernel_had_no_memory_left(tmp_path, told, status, oom):
    task = Container(JobPaths(tmp_path / "home", new_job_id()), "worker-0", 0)
    there = tmp_path / "there"
    there.mkdir()
    (there / "exit").write_text(told)
    task.see(FolderSource("container-1", there))
    assert (task.exit_status, task.oom_killed) == (status, oom)


def test_nobody_knows_the_peak_of_a_task_that_was_short(files):
    assert peak_words(files, GIB, oom_killed=True) == ""
