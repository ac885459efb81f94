"""A job on the local cluster, from submission to its last event."""

from __future__ import annotations

import json
import stat

import pytest
from submarine_engine.events import EVENTS, Progressed
from submarine_engine.job import JobState

from .conftest import until


def test_a_job_tells_its_whole_life_in_order(local, declare_gpus):
    declare_gpus(2)
    story = local.run("print('hello')", gpus=2, name="mnist")
    assert story.kinds == [
        "Submitted", "Granted", "Started", "Returned", "Exited", "Released", "Finished",
    ]  # fmt: skip
    assert story.state is JobState.SUCCEEDED
    assert story.out == "hello\n"
    ledger = story.status.ledger
    assert (ledger.gpus, ledger.held_now) == (2, 0)
    assert ledger.released_after is not None


def test_the_job_sees_exactly_the_gpus_granted(local, declare_gpus, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,6,7")
    declare_gpus(4)
    script = "import os; print(os.environ['CUDA_VISIBLE_DEVICES'])"
    two = local.run(script, gpus=2)
    assert two.out == "0,1\n"
    assert two.status.tasks[0].gpus == ("0", "1")
    assert local.run(script, gpus=0).out == "\n"


def test_left_open_one_gpu_where_there_is_one_else_none(local, declare_gpus):
    declare_gpus(2)
    assert len(local.run("1", gpus=None).status.tasks[0].gpus) == 1
    declare_gpus(0)
    assert local.run("1", gpus=None).status.tasks[0].gpus == ()


def test_the_streams_are_told_apart_and_nothing_of_a_byte_is_lost(local):
    story = local.run(
        "import os, sys\n"
        "os.write(1, bytes(range(256)))\n"
        "os.write(2, b'\\xff\\xfe half a \\xe2\\x82')\n"
        "sys.stdout.write('last line without an end')\n"
    )
    assert story.logs["stdout"] == bytes(range(256)) + b"last line without an end"
    assert story.logs["stderr"] == b"\xff\xfe half a \xe2\x82"


def test_relative_paths_begin_at_the_working_directory(local, tmp_path):
    (tmp_path / "notebooks").mkdir()
    story = local.run("import os; print(os.getcwd())", workdir=tmp_path / "notebooks")
    assert story.out == f"{tmp_path / 'notebooks'}\n"


def test_a_command_runs_in_the_bundle(local):
    story = local.run("print('from the script')", command="ls && python script.py; exit 3")
    assert "script.py\n" in story.out
    assert "from the script\n" in story.out
    assert story.status.tasks[0].exit_code == 3
    assert story.state is JobState.FAILED


@pytest.mark.parametrize(
    ("script", "code", "reason"),
    [
        ("raise ValueError('no such epoch')", 1, "ValueError: no such epoch"),
        ("import sys; sys.exit(3)", 3, "exited with code 3"),
        ("raise SystemExit('gone wrong')", 1, "exited with code 1"),
        ("import os; os._exit(7)", 7, "exited with code 7, without a last word from Python"),
        ("import os; os._exit(0)", 0, "exited with code 0, without a last word from Python"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", -11, "segmentation fault"),
        ("import os; os.abort()", -6, "SIGABRT"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -9, "killed it from outside"),
    ],
)
def test_a_failure_says_why(local, script, code, reason):
    story = local.run(script)
    assert story.state is JobState.FAILED
    assert story.status.tasks[0].exit_code == code
    assert reason in story.status.reason


def test_leaving_by_sys_exit_0_is_a_success(local):
    assert local.run("import sys; sys.exit(0)").state is JobState.SUCCEEDED


def test_an_exception_that_cannot_be_shown_is_still_a_failure(local):
    story = local.run(
        "class Rude(Exception):\n"
        "    def __str__(self): raise RuntimeError('no')\n"
        "    __repr__ = __str__\n"
        "raise Rude\n"
    )
    assert story.state is JobState.FAILED
    assert "Rude" in story.status.reason


def test_two_jobs_with_one_name_are_two_jobs(local):
    first, second = (local.submit(f"print({n})", name="twin") for n in (1, 2))
    assert first != second
    assert local.follow(first).out == "1\n"
    assert local.follow(second).out == "2\n"


def test_the_record_is_whole_and_the_owners_alone(local):
    job_id = local.submit("print(1)", name="mnist", env={"TOKEN": "secret"})
    local.follow(job_id)
    paths = local.paths(job_id)
    record = json.loads(paths.record.read_text())
    assert set(record) >= {
        "version", "id", "cluster", "spec", "created", "workdir", "bundle_hash", "python",
        "user", "host",
    }  # fmt: skip
    # The events are the truth, the summary follows them.
    until(lambda: '"succeeded"' in paths.status.read_text())
    summary = json.loads(paths.status.read_text())
    assert summary["name"] == "mnist"
    assert summary["finished"][1] > summary["created"][1]
    for path in [paths.root, *paths.root.rglob("*")]:
        mode = stat.S_IMODE(path.lstat().st_mode)
        assert mode == 0o700 if path.is_dir() else mode & 0o077 == 0, path


def test_the_users_environment_is_kept_only_until_the_job_runs(local, monkeypatch):
    monkeypatch.setenv("MY_SECRET", "hunter2")
    job_id = local.submit("import os; print(os.environ['MY_SECRET'])")
    assert local.follow(job_id).out == "hunter2\n"
    for path in local.paths(job_id).root.rglob("*"):
        if path.is_file() and path.name != "stdout":
            assert b"hunter2" not in path.read_bytes(), path


def test_any_process_opens_a_job_by_its_id(local):
    from submarine_engine.clusters.local import LocalCluster

    job_id = local.submit("print('once')")
    local.follow(job_id)
    other = LocalCluster(local.home)
    assert local.follow(job_id, cluster=other).out == "once\n"
    assert other.status(job_id).state is JobState.SUCCEEDED
    assert (other.results(job_id) / "outcome.json").exists()


def test_every_event_on_file_is_one_that_readers_know(local):
    job_id = local.submit("1")
    local.follow(job_id)
    lines = local.paths(job_id).events.read_text().splitlines()
    assert all(json.loads(line)["event"] in EVENTS for line in lines)


def progressed(story):
    return [event for event in story.events if isinstance(event, Progressed)]


def test_progress_that_the_job_tells_arrives(local):
    story = local.run(
        "import time\nfrom submarine_runtime import progress\n"
        "for step in range(4):\n"
        "    progress(step / 3, f'epoch {step}')\n"
        "    time.sleep(0.6)\n"
    )
    told = progressed(story)
    assert told
    assert [event.fraction for event in told] == sorted(event.fraction for event in told)
    assert told[-1].message.startswith("epoch ")


def test_progress_is_seen_in_the_log_too(local):
    story = local.run(
        "import sys, time\n"
        "sys.stderr.write('\\r 45%|####5     | 45/100 [00:01<00:01, 40it/s]')\n"
        "time.sleep(1.3)\n"
    )
    assert [event.fraction for event in progressed(story)] == [0.45]
