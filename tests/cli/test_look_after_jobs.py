"""`job list`, `show`, `logs`, and what programs read from them."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from pathlib import Path

import pytest
from submarine_engine import list_jobs, open_job
from submarine_engine.errors import JobNotFoundError
from submarine_engine.events import Moment
from submarine_engine.history import JobPaths, default_home, make_private, new_job_id, write_json
from submarine_engine.job import JobState
from submarine_engine.records import job_words

from tests.jobs import until

STATUS = {
    "version": 1, "name": "old", "cluster": "local", "state": "succeeded", "reason": "",
    "gpus": 2, "created": [1000.0, 10.0], "finished": [1007.5, 17.5],
}  # fmt: skip


def put(name="old", **changes):
    """Put the summary of a job on record that is over."""
    paths = JobPaths(default_home(), new_job_id())
    make_private(paths.root.parent)
    make_private(paths.root)
    write_json(paths.status, {**STATUS, "id": paths.job_id, "name": name, **changes})
    return paths


@pytest.fixture
def trained(folder, submarine):
    (folder / "train.py").write_text(
        "import os\nos.write(1, b'one\\xff\\n')\nos.write(2, b'two\\n')\nos.write(1, b'three\\n')\n"
    )
    assert submarine("job", "run", "train.py").returncode == 0
    return open_job("train").id


def objects(done):
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_list_is_newest_first_and_short(submarine):
    for number in range(25):
        put(f"job-{number}", created=[1000 + number / 10, 10 + number / 10])
    done = submarine("job", "list")
    lines = done.stdout.decode().splitlines()
    assert lines[0].split() == ["ID", "NAME", "STATE", "GPUS", "AGE", "ELAPSED", "CLUSTER"]
    assert [line.split()[1] for line in lines[1:]] == [f"job-{n}" for n in range(24, 4, -1)]
    assert b"--all lists every job" in done.stderr
    assert len(submarine("job", "list", "--all").stdout.splitlines()) == 26
    limited = submarine("job", "list", "--limit", "3")
    assert len(limited.stdout.splitlines()) == 4


def test_a_list_reads_only_what_it_shows():
    shown = [put().job_id for _ in range(3)]
    JobPaths(default_home(), "20200101-000000-aaaaa").root.mkdir()
    # Opening this one would never return.
    os.mkfifo(JobPaths(default_home(), "20200101-000000-aaaaa").status)
    assert {job.id for job in list_jobs(limit=3)} == set(shown)


def test_a_list_passes_over_what_is_no_record(submarine):
    good = put("good")
    for content in (b"", b"[]", b"{}", b'{"state": "dancing"}', b"\xff"):
        broken = put()
        broken.status.write_bytes(content)
    (default_home() / "jobs" / "not-a-job").mkdir()
    assert [job.id for job in list_jobs()] == [good.job_id]
    assert submarine("job", "list").stdout.decode().count("\n") == 2


def test_a_list_of_nothing(submarine):
    done = submarine("job", "list")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"no job is on record\n")
    assert objects(submarine("job", "list", "--json")) == []


def test_a_list_for_programs(submarine):
    paths = put("mine")
    (job,) = objects(submarine("job", "list", "--json"))
    expected = {key: value for key, value in STATUS.items() if key != "version"}
    assert job == {
        **expected, "id": paths.job_id, "name": "mine", "parent": None, "workers_on": None,
    }  # fmt: skip


def test_a_list_names_the_cluster_that_a_jobs_code_runs_on(submarine):
    put("mine", cluster="slurm")
    put("search", cluster="local", workers_on="kubernetes")
    header, *rows = submarine("job", "list").stdout.decode().splitlines()
    assert header.split()[-1] == "CLUSTER"
    assert {row.split()[1]: row.split()[-1] for row in rows} == {
        "mine": "slurm", "search": "kubernetes",
    }  # fmt: skip


def test_contradictions_are_errors(submarine):
    assert submarine("job", "list", "--all", "--limit", "3").returncode == 64


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_a_list_of_no_job_at_all_is_refused(submarine, more):
    put("mine")
    done = submarine("job", "list", "--limit", "0", *more)
    assert (done.returncode, done.stdout) == (64, b"")
    assert b"--limit 0 is not possible" in done.stderr


def test_a_summary_knows_how_long_it_took():
    put()
    (summary,) = list_jobs()
    assert summary.state is JobState.SUCCEEDED
    assert summary.elapsed(Moment.now()) == 7.5


def test_words_that_name_a_job_are_ids_and_names():
    first, second = put("a"), put("a")
    assert set(job_words()) == {first.job_id, second.job_id, "a"}


def test_show_tells_all(trained, submarine):
    text = submarine("job", "show", trained).stdout.decode()
    for word in (
        trained,
        "succeeded",
        "worker-0",
        "GPU ledger:",
        "start:",
        "working folder:",
        str(Path.cwd()),
    ):
        assert word in text
    (shown,) = objects(submarine("job", "show", "train", "--json"))
    assert set(shown) == {
        "job", "folder", "spec", "state", "reason", "failed_task", "exit_code", "ahead", "progress",
        "submitted", "started", "finished", "tasks", "ledger", "warnings", "startup",
        "rerun_of",
    }  # fmt: skip
    assert (shown["exit_code"], shown["tasks"][0]["task"]) == (0, "worker-0")
    assert shown["ledger"]["released_after"] >= 0
    phases = shown["startup"]["phases"]
    assert list(phases)[:3] == ["queue", "container", "environment"]
    assert shown["startup"]["seconds"] == pytest.approx(sum(phases.values()), abs=1e-4)


def test_logs_are_byte_exact_and_apart(trained, submarine):
    done = submarine("job", "logs", trained)
    assert (done.stdout, done.stderr) == (b"one\xff\nthree\n", b"two\n")
    assert submarine("job", "logs", trained[-5:], "--stderr").stdout == b""
    assert submarine("job", "logs", "train", "--stdout", "--offset", "4").stdout == b"\nthree\n"
    assert submarine("job", "logs", "train", "--offset", "4").stderr == b""
    past_stderr = submarine("job", "logs", "train", "--offset", "5")
    assert (past_stderr.returncode, past_stderr.stdout, past_stderr.stderr) == (0, b"three\n", b"")
    assert submarine("job", "attach", "train", "--offset", "5").returncode == 0
    assert submarine("job", "logs", "train", "--task", "worker-0").stdout == b"one\xff\nthree\n"
    both = submarine("job", "attach", "train", "--offset", "4")
    assert both.stdout == b"\nthree\n"


def test_logs_for_programs_have_offsets(trained, submarine):
    pieces = objects(submarine("job", "logs", trained, "--json"))
    out = [piece for piece in pieces if piece["stream"] == "stdout"]
    assert "".join(piece["text"] for piece in out) == "one\ufffd\nthree\n"
    assert out[0]["offset"] == 0
    assert {frozenset(piece) for piece in pieces} == {
        frozenset({"event", "task", "stream", "offset", "text"})
    }


@pytest.mark.parametrize("words", [("retry",), ("stacks",), ("save",), ("exec", "--", "true")])
def test_what_a_job_that_is_over_cannot_do_has_a_code(trained, submarine, words):
    verb, *rest = words
    done = submarine("job", verb, trained, *rest)
    assert (done.returncode, done.stdout) == (76, b"")
    assert f"job {trained}: ".encode() in done.stderr


def test_a_log_can_be_followed(folder, submarine, start):
    (folder / "train.py").write_text(
        "import pathlib, time\nprint('begun', flush=True)\n"
        "while not pathlib.Path('go').exists(): time.sleep(0.02)\nprint('through')\n"
    )
    submarine("job", "run", "train.py", "--detach")
    follower = start("job", "logs", "train", "-f", stdout=subprocess.PIPE)
    assert follower.stdout.readline() == b"begun\n"
    threading.Timer(0.1, (folder / "go").touch).start()
    assert follower.stdout.read() == b"through\n"
    assert follower.wait(180) == 0


def test_a_run_for_programs(folder, submarine):
    # One write: `print` makes two of it, which may come apart.
    (folder / "train.py").write_text("import os\nos.write(1, b'x\\n')\nraise SystemExit(4)\n")
    done = submarine("job", "run", "train.py", "--json")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 4
    job_id = list_jobs()[0].id
    assert lines[0] == {"event": "Job", "job": job_id, "name": "train", "cluster": "local"}
    assert lines[1]["event"] == "Submitted"
    assert {
        "event": "Log",
        "task": "worker-0",
        "stream": "stdout",
        "offset": 0,
        "text": "x\n",
    } in lines
    assert lines[-1] == {
        "event": "Ended",
        "job": job_id,
        "state": "failed",
        "reason": lines[-1]["reason"],
        "failed_task": "worker-0",
        "exit_code": 4,
    }
    (detached,) = objects(submarine("job", "run", "train.py", "--json", "--detach"))
    assert (set(detached), detached["name"]) == ({"job", "name", "cluster"}, "train")
    waited = submarine("job", "wait", detached["job"], "--json")
    assert json.loads(waited.stdout)["exit_code"] == waited.returncode == 4
    (killed,) = objects(submarine("job", "kill", detached["job"], "--json"))
    assert killed == {"job": detached["job"], "asked": False}


@pytest.mark.parametrize("verb", ["show", "logs", "attach", "wait", "cancel", "kill"])
@pytest.mark.parametrize("wanted", ["nothing", "../../etc", "20200101-000000-aaaaa"])
def test_a_job_that_is_not_there(submarine, verb, wanted):
    done = submarine("job", verb, wanted)
    assert done.returncode == 66
    assert b"submarine job list" in done.stderr


def test_one_wrong_name_cancels_nothing(folder, submarine):
    (folder / "train.py").write_text("import time\ntime.sleep(600)\n")
    submarine("job", "run", "train.py", "--detach")
    assert submarine("job", "cancel", "train", "trian").returncode == 66
    job = open_job("train")
    assert not job.done()
    assert not job.status().cancelling
    job.kill()


def test_a_task_that_is_not_there(trained, submarine):
    done = submarine("job", "logs", trained, "--task", "ps-0")
    assert done.returncode == 64
    assert b"say one of first, all, worker-0" in done.stderr


def test_a_deleted_job_cannot_be_opened():
    with pytest.raises(JobNotFoundError):
        open_job("train")


def test_gpus_and_who_holds_them(folder, submarine, monkeypatch):
    assert b"SUBMARINE_LOCAL_GPUS=N" in submarine("gpus").stderr
    monkeypatch.setenv("SUBMARINE_LOCAL_GPUS", "2")
    (folder / "train.py").write_text("import time\ntime.sleep(600)\n")
    submarine("job", "run", "train.py", "--gpus", "1", "--detach")
    job = open_job("train")
    try:
        gpus = objects(submarine("gpus", "--json"))
        assert [set(gpu) for gpu in gpus] == [{"id", "name", "host", "memory", "job"}] * 2
        assert sorted(gpu["job"] or "free" for gpu in gpus) == sorted([job.id, "free"])
        assert submarine("gpus").stdout.decode().count(job.id) == 1
    finally:
        job.kill()


def test_displays_are_text_in_the_terminal_and_whole_for_programs(folder, submarine):
    (folder / "show.py").write_text(
        "from IPython.display import HTML, display\nprint('before')\n"
        "handle = display(HTML('<b>x</b>'), display_id='one')\n"
        "handle.update(HTML('<b>y</b>'))\nprint('between')\nhandle.update('ended')\nprint('after')\n"
    )
    text = "before\n<IPython.core.display.HTML object>\nbetween\n'ended'\nafter\n"
    assert submarine("job", "run", "show.py").stdout.decode() == text
    assert submarine("job", "logs", "show").stdout.decode() == text
    assert submarine("job", "logs", "show", "--stdout").stdout == b"before\nbetween\nafter\n"
    shown = [o for o in objects(submarine("job", "logs", "show", "--json")) if o["event"] != "Log"]
    assert [(o["event"], o["kind"]) for o in shown] == [
        ("Display", "display"), ("Display", "update"), ("Display", "update"),
    ]  # fmt: skip
    assert shown[0]["data"]["text/html"] == "<b>x</b>"


def test_where_a_jobs_tasks_stand(folder, submarine):
    (folder / "train.py").write_text(
        "import time\nfrom submarine_runtime import job\n"
        "def load():\n    time.sleep(3600)\n"
        "print('there', flush=True)\nif job.rank:\n    load()\ntime.sleep(3600)\n"
    )
    words = ("--num_workers", "3", "--gpus", "0", "--detach")
    assert submarine("job", "run", "train.py", *words).returncode == 0
    job = open_job("train")
    logs = [JobPaths(default_home(), job.id).task(f"worker-{n}").stdout for n in range(3)]
    until(lambda: all(log.exists() and log.stat().st_size for log in logs) and job.running())

    def stand():  # what is printed comes before they stand where they stay
        found = submarine("job", "stacks", "train")
        text = found.stdout.decode()
        stay = "rank 0: train.py, line 8:" in text and "ranks 1, 2: train.py, line 4" in text
        return stay and found

    done = until(stand)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode().splitlines() == [
        "rank 0: train.py, line 8: time.sleep(3600)",
        "    train.py, line 8: time.sleep(3600)",
        "ranks 1, 2: train.py, line 4, in load(): time.sleep(3600)",
        "    train.py, line 7: load()",
        "    train.py, line 4, in load(): time.sleep(3600)",
    ]
    done = submarine("job", "stacks", "train", "--task", "worker-2")
    assert done.stdout.startswith(b"worker-2: train.py, line 4, in load()")
    assert b"no task 'worker-3'" in submarine("job", "stacks", "train", "--task", "worker-3").stderr
    (told,) = objects(submarine("job", "stacks", "train", "--json"))
    assert [group["tasks"] for group in told["groups"]] == [["worker-0"], ["worker-1", "worker-2"]]
    job.kill()
    job.wait(180)
    done = submarine("job", "stacks", "train")
    assert done.returncode != 0
    assert b"the job is over (cancelled): it has no stacks any more" in done.stderr


def test_what_a_jobs_tasks_use_and_report(folder, submarine):
    (folder / "train.py").write_text(
        "import time\nfrom submarine_runtime import report\n"
        "report(4, loss=0.25)\nprint('there', flush=True)\ntime.sleep(3600)\n"
    )
    assert submarine("job", "run", "train.py", "--gpus", "0", "--detach").returncode == 0
    job = open_job("train")
    until(lambda: len(job.metrics()) > 1 and len(job.reported()) and job.running())
    (told,) = objects(submarine("job", "top", "train", "--json"))
    assert told["tasks"][0]["task"] == "worker-0"
    assert told["tasks"][0]["memory"] > 1 << 20
    (reported,) = told["reported"]
    assert (reported["step"], reported["loss"]) == (4, 0.25)
    done = submarine("job", "top", "train")
    head, columns, row, loss = done.stdout.decode().splitlines()
    assert head.split() == ["train", job.id, "running"]
    assert columns.startswith("TASK      CPU")
    assert row.startswith("worker-0  0.")
    assert loss == "loss  ▁  0.25 (step 4)"
    job.kill()


def test_a_job_that_failed_is_run_again_and_followed(folder, submarine):
    (folder / "train.py").write_text(
        "import os\nprint('run')\nif not os.path.exists('mended'):\n    raise SystemExit(3)\n"
    )
    assert submarine("job", "run", "train.py").returncode == 3
    former = open_job("train").id
    (folder / "train.py").unlink()
    (folder / "mended").touch()
    (started,) = objects(submarine("job", "retry", "train", "--detach", "--json"))
    assert started["name"] == "train"
    assert started["job"] not in (former, "")
    assert open_job(started["job"]).wait(180).state is JobState.SUCCEEDED
    (folder / "mended").unlink()
    done = submarine("job", "retry", former)
    assert (done.returncode, done.stdout) == (3, b"run\n")
    again = open_job("train").id
    assert again.encode() in done.stderr
    assert len({former, started["job"], again}) == 3
    done = submarine("job", "retry", started["job"])
    assert done.returncode != 0
    assert b"it has succeeded" in done.stderr
