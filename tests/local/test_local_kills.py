"""Killed with -9: whoever it hits, no GPU stays held and no process stays behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from submarine_engine.clusters import locks
from submarine_engine.clusters.local import LocalCluster, launch, scheduler
from submarine_engine.clusters.machine import process_stat
from submarine_engine.clusters.store import sweep
from submarine_engine.job import JobState

from tests.jobs import LIMIT, processes_of, until

from .conftest import ids_of

SLEEP = "import time; print('on', flush=True); time.sleep(600)"


def keep_events(paths, *kinds):
    """Leave the record as it was before the other events."""
    lines = paths.events.read_text().splitlines(keepends=True)
    paths.events.write_text("".join(x for x in lines if json.loads(x)["event"] in kinds))


def free(local):
    return all(gpu.job_id is None for gpu in local.cluster.gpus())


@pytest.fixture(autouse=True)
def two_gpus(declare_gpus):
    declare_gpus(2)


def test_the_task(local):
    job_id = local.submit(SLEEP, gpus=2)
    local.until_running(job_id)
    os.kill(local.session(job_id), signal.SIGKILL)
    story = local.follow(job_id)
    assert story.state is JobState.FAILED
    assert "SIGKILL" in story.status.reason
    until(lambda: free(local))


def test_the_supervisor(local):
    job_id = local.submit(SLEEP, gpus=2)
    local.until_running(job_id)
    os.kill(local.supervisor(job_id), signal.SIGKILL)
    # The task dies with it, and so does the lease, though nobody looks.
    until(lambda: free(local))
    story = local.follow(job_id)
    assert story.state is JobState.LOST
    assert "supervisor vanished" in story.status.reason
    assert story.kinds[-3:] == ["Exited", "Released", "Finished"]
    until(lambda: '"lost"' in local.paths(job_id).status.read_text())


def test_the_supervisor_of_a_job_whose_children_went_their_own_way(local, tmp_path):
    flag = tmp_path / "flag"
    job_id = local.submit(
        "import subprocess, sys, time\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'],\n"
        "                 start_new_session=True, close_fds=False)\n"
        f"open({str(flag)!r}, 'w'); time.sleep(600)\n",
        gpus=2,
    )
    local.until_running(job_id, flag)
    os.kill(local.supervisor(job_id), signal.SIGKILL)
    until(lambda: local.state(job_id) is JobState.LOST)
    until(lambda: free(local))


def test_a_gpu_that_a_lost_job_holds_comes_to_the_next_by_itself(local, tmp_path):
    flag, done = tmp_path / "flag", tmp_path / "done"
    job_id = local.submit(
        "import os, time\n"
        "if os.fork() == 0: os.setsid()\n"
        f"open({str(flag)!r}, 'w'); time.sleep(600)\n",
        gpus=2,
    )
    local.until_running(job_id, flag)
    local.submit(f"open({str(done)!r}, 'w')", gpus=1)
    os.kill(local.supervisor(job_id), signal.SIGKILL)
    until(done.exists)  # only the keeper looks
    assert local.state(job_id) is JobState.LOST


HELPER = """
import os, subprocess, sys, time
os.environ.clear() if {cleared} else None
if os.fork() == 0:
    os.setsid()
    code = "import time; open({flag!r}, 'w').write(str(__import__('os').getpid())); time.sleep(600)"
    subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    os._exit(0)
time.sleep(600)
"""


LIVES = """
try:
    print(open('/proc/{pid}/stat').read().rpartition(')')[2].split()[0] not in 'ZX')
except OSError:
    print(False)
"""


def job_with_a_helper(local, flag, *, cleared):
    """Run a job whose helper has closed its descriptors and left; return the helper's pid, too."""
    job_id = local.submit(HELPER.format(flag=str(flag), cleared=cleared), gpus=2)
    local.until_running(job_id, flag)
    return job_id, int(until(flag.read_text))


def lives(pid):
    seen = process_stat(pid)
    return seen is not None and seen.state not in "ZX"


def test_a_helper_that_closed_its_descriptors_goes_with_the_supervisor_though_nobody_looks(
    local, tmp_path
):
    job_id, helper = job_with_a_helper(local, tmp_path / "flag", cleared=True)
    os.kill(local.supervisor(job_id), signal.SIGKILL)
    until(lambda: not lives(helper))
    until(lambda: free(local))
    assert local.follow(job_id).state is JobState.LOST


def test_no_gpu_is_granted_while_such_a_helper_may_use_it(local, tmp_path):
    job_id, helper = job_with_a_helper(local, tmp_path / "flag", cleared=False)
    supervisor = local.supervisor(job_id)
    guard = process_stat(supervisor).parent
    for pid in (guard, supervisor):  # all that could have ended it by itself
        os.kill(pid, signal.SIGKILL)
    until(lambda: free(local))
    assert lives(helper)
    looks = locks.take(local.paths(job_id).lock, wait=LIMIT)  # who has found that it is lost
    assert not scheduler.end_leftovers(local.paths(job_id))
    locks.drop(looks)
    story = local.run(LIVES.format(pid=helper), gpus=1)
    assert story.out == "False\n"
    assert local.follow(job_id).state is JobState.LOST


def test_a_job_is_not_lost_before_its_last_process_is_gone(local, tmp_path, monkeypatch):
    job_id, helper = job_with_a_helper(local, tmp_path / "flag", cleared=False)
    supervisor = local.supervisor(job_id)
    with monkeypatch.context() as changed:  # as if the kernel could not end it yet
        changed.setattr(scheduler.machine, "end_process", lambda pid: pid == helper)
        changed.setattr(scheduler, "_PATIENCE", 0.0)
        for pid in (process_stat(supervisor).parent, supervisor):
            os.kill(pid, signal.SIGKILL)
        until(lambda: free(local))
        assert local.state(job_id) is JobState.RUNNING
        assert not scheduler.end_leftovers(local.paths(job_id))  # what a granter asks
    until(lambda: local.state(job_id) is JobState.LOST)
    assert not lives(helper)


def test_the_supervisor_after_the_function_has_returned(local, tmp_path):
    job_id = local.submit("1", gpus=1)
    local.follow(job_id)
    paths = local.paths(job_id)
    # As if the supervisor had been killed just before its last word.
    keep_events(paths, "Submitted", "Granted", "Started")
    late = LocalCluster(local.home)
    until(lambda: late.status(job_id).state.final)
    story = local.follow(job_id, cluster=late)
    assert story.state is JobState.SUCCEEDED
    assert "returned, but its supervisor vanished" in story.status.reason
    assert story.status.tasks[0].exit_code == 0


@pytest.mark.parametrize(
    ("script", "options", "end", "words"),
    [
        ("import sys; sys.exit(0)", {}, (JobState.SUCCEEDED, 0), "ended, but its supervisor"),
        ("import sys; sys.exit(3)", {}, (JobState.FAILED, 3), "exited with code 3"),
        ("", {"command": "true"}, (JobState.SUCCEEDED, 0), "ended, but its supervisor"),
        ("raise ValueError('boom')", {}, (JobState.FAILED, 1), "ValueError: boom"),
    ],
)
def test_the_supervisor_after_an_end_of_any_kind(local, script, options, end, words):
    job_id = local.submit(script, gpus=1, **options)
    local.follow(job_id)
    keep_events(local.paths(job_id), "Submitted", "Granted")  # it had not even said that it ran
    late = LocalCluster(local.home)
    until(lambda: late.status(job_id).state.final)
    status = local.follow(job_id, cluster=late).status
    assert (status.state, status.tasks[0].exit_code) == end
    assert words in status.reason


def test_a_cancel_that_was_on_record_before_the_end_counts(local):
    job_id = local.submit(SLEEP, gpus=1)
    local.until_running(job_id)
    local.cluster.cancel(job_id, "enough")
    local.follow(job_id)
    kinds = "Submitted", "Granted", "Started", "CancelRequested"
    keep_events(local.paths(job_id), *kinds)
    late = LocalCluster(local.home)
    until(lambda: late.status(job_id).state.final)
    assert late.status(job_id).state is JobState.CANCELLED
    assert late.status(job_id).reason == "enough"


@pytest.mark.parametrize("gpus", [0, 1])
def test_a_job_runs_once_though_its_supervisor_is_killed_before_its_code_began(
    local, tmp_path, monkeypatch, gpus
):
    side, killed = tmp_path / "side", tmp_path / "killed.py"
    killed.write_text("import os; os.kill(os.getpid(), 9)")
    with monkeypatch.context() as changed:
        changed.setattr(launch, "_SUPERVISOR", killed)
        job_id = local.submit(f"open({str(side)!r}, 'a').write('ran'); 1", gpus=gpus)
        until(lambda: locks.is_free(local.paths(job_id).lock))
    assert local.follow(job_id).state is JobState.SUCCEEDED
    assert side.read_text() == "ran"
    with monkeypatch.context() as changed:
        changed.setattr(launch, "_SUPERVISOR", killed)
        story = local.run("1", gpus=gpus)
    assert story.state is JobState.LOST
    assert "killed 3 times before its code began" in story.status.reason
    assert story.kinds.count("Granted") == 3


def test_once_its_code_runs_nobody_may_begin_it_again(local):
    job_id = local.submit(
        "import os; print(os.path.exists(os.environ['SUBMARINE_TASK_DIR'] + '/../../launch.json'))"
    )
    assert local.follow(job_id).out == "False\n"


def test_a_job_whose_lock_a_reader_holds_keeps_its_place(local, monkeypatch):
    monkeypatch.setattr(launch, "_PATIENCE", 0.0)
    held = []
    real = locks.take

    def taken(path, *, wait=0.0):
        if path.name == "supervisor.lock" and wait == 0.0 and not held:
            held.append(real(path))  # a reader is just at it
            return None
        return real(path, wait=wait)

    with monkeypatch.context() as changed:
        changed.setattr(launch.locks, "take", taken)
        job_id = local.submit("1", gpus=1)
    assert job_id in local.cluster._queue
    locks.drop(held[0])
    assert local.follow(job_id).state is JobState.SUCCEEDED


def test_the_submitter_before_the_job_was_in_the_queue(local):
    job_id = local.submit("1", gpus=1)
    local.follow(job_id)
    keep_events(local.paths(job_id), "Submitted")
    late = LocalCluster(local.home)
    until(lambda: late.status(job_id).state is JobState.LOST)
    assert "submitted it was killed" in late.status(job_id).reason


def test_a_job_of_another_cluster_is_left_to_that_one(local):
    job_id = local.submit("1")
    local.follow(job_id)
    paths = local.paths(job_id)
    keep_events(paths, "Submitted", "Granted", "Started")
    record = json.loads(paths.record.read_text())
    paths.record.write_text(json.dumps({**record, "cluster": "yarn"}))
    late = LocalCluster(local.home)
    until(lambda: locks.is_free(paths.lock))
    assert late.status(job_id).state is JobState.RUNNING
    late.cancel(job_id)
    assert late.status(job_id).state is JobState.RUNNING


def test_the_submitter_while_its_job_runs(local, tmp_path):
    gate = tmp_path / "gate"
    script = f"import os, time\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.02)\nprint(7)"
    (job_id,) = ids_of(local.notebook((script, 1), kill=True), -signal.SIGKILL)
    local.until_running(job_id)
    gate.touch()
    assert local.follow(job_id).out == "7\n"


def test_half_a_submission_is_swept_away(local):
    staged = local.home / "staging" / "jobs" / "20260101-000000-aaaaa"
    staged.mkdir(parents=True)
    (staged / "supervisor.lock").touch()
    local.run("1")
    until(lambda: not processes_of(local.home))
    assert staged.exists()  # so young that its submitter may be about to take the lock
    os.utime(staged, (0, 0))
    local.run("1")
    until(lambda: not staged.exists())


def test_a_folder_whose_lock_was_never_taken_is_swept_away(tmp_path, monkeypatch):
    def staged(tail):
        found = tmp_path / "staging" / "jobs" / f"20260101-000000-{tail}"
        found.mkdir(parents=True)
        return found

    empty, half_removed, young, slow = map(staged, ("aaaaa", "bbbbb", "ccccc", "ddddd"))
    (half_removed / "record.json").touch()
    for one in (empty, half_removed, slow):
        os.utime(one, (0, 0))
    taken, real = [], Path.rmdir

    def goes_on_meanwhile(folder):
        if folder == slow:
            taken.append(locks.take(slow / "supervisor.lock"))
        real(folder)

    monkeypatch.setattr(Path, "rmdir", goes_on_meanwhile)
    sweep(tmp_path)
    assert sorted(young.parent.iterdir()) == [young, slow]
    locks.drop(*taken)


def test_a_machine_that_was_started_anew(local, monkeypatch):
    job_id = local.submit(SLEEP, gpus=1)
    local.until_running(job_id)
    supervisor = local.supervisor(job_id)
    monkeypatch.setattr(scheduler.machine, "boot_id", lambda: "another")
    os.kill(supervisor, signal.SIGKILL)
    until(lambda: local.state(job_id) is JobState.LOST)
    assert "started anew" in local.cluster.status(job_id).reason


def test_a_stranger_with_the_number_of_the_session_is_left_alone(local):
    from submarine_engine.clusters.machine import end_leftovers, process_stat

    stranger = subprocess.Popen(["sleep", "600"], start_new_session=True)
    try:
        began = process_stat(stranger.pid).start
        assert not end_leftovers("20260101-000000-aaaaa", stranger.pid, began - 1)
        assert stranger.poll() is None
        assert end_leftovers("20260101-000000-aaaaa", stranger.pid, began)
        assert stranger.wait() == -signal.SIGKILL
    finally:
        stranger.kill()
        stranger.wait()


def test_several_readers_settle_a_lost_job_once(local):
    job_id = local.submit(SLEEP, gpus=1)
    local.until_running(job_id)
    os.kill(local.supervisor(job_id), signal.SIGKILL)
    code = (
        "import sys; from submarine_engine.clusters.local import LocalCluster\n"
        "cluster = LocalCluster()\n"
        "while not cluster.status(sys.argv[1]).state.final: pass\n"
    )
    environment = {**os.environ, "SUBMARINE_HOME": str(local.home)}
    readers = [
        subprocess.Popen([sys.executable, "-c", code, job_id], env=environment) for _ in range(4)
    ]
    assert [reader.wait() for reader in readers] == [0] * 4
    assert local.follow(job_id).kinds.count("Finished") == 1
