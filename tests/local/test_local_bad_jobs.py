"""Jobs that behave badly: nothing of them stays, and what is said of them is true."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest
from submarine_engine.clusters.base import Cursor
from submarine_engine.errors import JobNotFoundError
from submarine_engine.job import JobState

from tests.jobs import until


def gone(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


def remove(folder):
    shutil.rmtree(folder, ignore_errors=True)
    return folder.exists()


def test_children_that_outlive_the_job_are_ended_with_it(local, declare_gpus, tmp_path):
    declare_gpus(1)
    pids = tmp_path / "pids"
    story = local.run(
        "import os, subprocess, time\n"
        "def child(*words, **options):\n"
        "    process = subprocess.Popen(words, close_fds=False, **options)\n"
        f"    print(process.pid, file=open({str(pids)!r}, 'a'))\n"
        "child('sleep', '600')\n"
        "child('sleep', '600', start_new_session=True)\n"
        "child('sleep', '600', env={}, start_new_session=True)\n"
        "child('sh', '-c', 'trap \"\" TERM HUP; sleep 600 & wait', start_new_session=True)\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0:\n"
        f"        print(os.getpid(), file=open({str(pids)!r}, 'a'))\n"
        "        time.sleep(600)\n"
        "    os._exit(0)\n"
        f"while len(open({str(pids)!r}).readlines()) < 5: time.sleep(0.01)\n",
        gpus=1,
    )
    assert story.state is JobState.SUCCEEDED
    assert len(pids.read_text().split()) == 5
    assert all(gone(pid) for pid in pids.read_text().split())
    assert local.cluster.gpus()[0].job_id is None


def test_a_job_that_submits_a_job_does_not_take_it_along(local, tmp_path):
    flag = tmp_path / "flag"
    program = Path(__file__).with_name("notebook.py")
    inner = f"import time; time.sleep(0.5); open({str(flag)!r}, 'w')"
    story = local.run(
        "import json, os, subprocess, sys\n"
        f"os.environ['SUBMARINE_HOME'] = {str(local.home)!r}\n"
        f"wanted = json.dumps({{'jobs': [[{inner!r}, 0]], 'kill': False}})\n"
        f"subprocess.run([sys.executable, {str(program)!r}], input=wanted, text=True, check=True)\n"
    )
    job_id = story.out.strip()
    assert local.follow(job_id).state is JobState.SUCCEEDED
    assert flag.exists()


def test_more_memory_than_asked_for_ends_the_job_with_the_reason(local):
    story = local.run("data = bytearray(300 << 20); import time; time.sleep(600)", memory=100)
    assert story.state is JobState.FAILED
    assert story.status.reason.endswith("of 100 MiB of memory asked for")
    assert story.status.tasks[0].exit_code == -9
    assert story.status.tasks[0].reason == story.status.reason


def test_memory_of_all_processes_counts(local):
    story = local.run(
        "import os, time\nos.fork(); os.fork()\ndata = bytearray(60 << 20); time.sleep(600)\n",
        memory=150,
    )
    assert "of 150 MiB of memory asked for" in story.status.reason


def test_shared_memory_is_counted_once(local):
    story = local.run(
        "import os, time\n"
        "data = bytearray(120 << 20)\n"
        "children = [os.fork() or time.sleep(600) for _ in range(3)]\n"
        "time.sleep(1.5)\n",
        memory=300,
    )
    assert (story.state, story.status.reason) == (JobState.SUCCEEDED, "")


def test_a_folder_deleted_while_the_job_runs(local, declare_gpus, tmp_path):
    declare_gpus(1)
    flag = tmp_path / "flag"
    job_id = local.submit(f"open({str(flag)!r}, 'w'); import time; time.sleep(600)", gpus=1)
    local.until_running(job_id, flag)
    session = local.session(job_id)
    until(lambda: not remove(local.paths(job_id).root))
    with pytest.raises(JobNotFoundError, match=r"no folder .*deleted"):
        local.cluster.read(job_id, Cursor())
    with pytest.raises(JobNotFoundError):
        local.cluster.cancel(job_id)
    until(lambda: gone(session))
    until(lambda: local.cluster.gpus()[0].job_id is None)
    until(lambda: not local.processes())
    assert not local.paths(job_id).root.exists()


def test_a_clock_that_jumps_does_not_bend_durations(local, monkeypatch):
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + 10 * 365 * 86400)
    job_id = local.submit("import time; time.time = lambda: 0.0")
    monkeypatch.setattr(time, "time", real)
    story = local.follow(job_id)
    status = story.status
    task = status.tasks[0]
    assert status.submitted.wall > status.finished.wall > task.returned.wall
    assert all(0 <= seconds < 3600 for seconds in status.ledger.seconds(status.finished).values())
    assert 0 <= task.released_after < 3600
    moments = [event.at.mono for event in story.events]
    assert moments == sorted(moments)


def test_an_outcome_with_impossible_times_is_kept_within_the_task(local):
    story = local.run(
        "import time\ntime.monotonic = lambda: -1e9\nprint('the runtime reads this clock too')\n"
    )
    task = story.status.tasks[0]
    assert task.busy.mono <= task.returned.mono <= task.exited.mono


def test_a_program_that_is_not_there_is_said_in_words(local, declare_gpus, tmp_path, monkeypatch):
    import sys

    declare_gpus(1)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "gone" / "python"))
    story = local.run("1", gpus=1)
    assert story.state is JobState.FAILED
    assert "could not be started" in story.status.reason
    assert "gone/python" in story.status.reason
    assert story.status.ledger.held_now == 0
    until(lambda: local.cluster.gpus()[0].job_id is None)


def test_a_crash_after_the_result_is_written_takes_nothing_back(local):
    story = local.run(
        "import atexit, os, signal\n"
        "atexit.register(os.kill, os.getpid(), signal.SIGSEGV)\n"
        "'the result'\n"
    )
    assert story.state is JobState.SUCCEEDED
    assert story.status.tasks[0].exit_code == 0
