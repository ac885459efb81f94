"""`job rerun` and `job diff` in a terminal."""

from __future__ import annotations

import json

import pytest
from submarine_engine import open_job
from submarine_engine.history import JobPaths, default_home, read_json
from submarine_engine.job import JobSpec

DRAWN = "import random, sys\nrandom.seed(5)\nprint(random.random(), sys.argv[1:])\n"


def objects(done):
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def record_of(job):
    return read_json(JobPaths(default_home(), job.id).record)


def spec_of(job):
    return JobSpec.from_json(record_of(job)["spec"])


def test_what_a_command_ran_is_run_once_more(folder, submarine, monkeypatch):
    monkeypatch.setenv("SUBMARINE_LOCAL_GPUS", "2")
    (folder / "train.py").write_text(DRAWN)
    words = ("--gpus", "1", "--env", "RATE=1", "--", "--epochs", "3")
    first = submarine("job", "run", "train.py", *words)
    assert first.returncode == 0, first.stderr
    former = open_job("train")
    (folder / "train.py").write_text("print('changed since')\n")
    again = submarine("job", "rerun", former.id)
    assert again.returncode == 0, again.stderr
    assert again.stdout == first.stdout
    assert b"which packages job" in again.stderr  # its tests note none
    (told,) = objects(
        submarine("job", "rerun", former.id, "--gpus", "2", "--env", "MORE=2", "--detach", "--json")
    )
    other = open_job(told["job"])
    other.wait(180)
    assert (spec_of(other).gpus, spec_of(other).env) == (2, {"RATE": "1", "MORE": "2"})
    assert spec_of(other).roles[0].args == ("--epochs", "3")
    assert record_of(other)["rerun_of"] == former.id
    assert f"again:          job {former.id}".encode() in submarine("job", "show", other.id).stdout
    (shown,) = objects(submarine("job", "show", other.id, "--json"))
    assert shown["rerun_of"] == former.id


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nobody",), b"no job 'nobody' is on record"),
        (("train", "--gups", "2"), b"--gpus"),
        (("train", "--cache"), b"there is no option --cache"),
        (("train", "--sweep", "rate=1"), b"there is no option --sweep"),
        (("train", "--cluster", "nowhere"), b"nowhere"),
        (("train", "--gpus", "64"), b"64"),
        (("train", "--num_ps", "1", "--gang", "some"), b"some"),
        ((), b"JOB is missing"),
    ],
)
def test_what_cannot_be_run_again_is_said(folder, submarine, words, said):
    (folder / "train.py").write_text("1\n")
    submarine("job", "run", "train.py", "--detach")
    open_job("train").wait(180)
    done = submarine("job", "rerun", *words)
    assert done.returncode not in (0, 1)
    assert said in done.stderr


def test_two_jobs_are_compared(folder, submarine):
    for name, text in (("first", "1 + 1\n"), ("second", "1 + 2\n")):
        (folder / "train.py").write_text(text)
        assert submarine("job", "run", "train.py", "--name", name).returncode == 0
    done = submarine("job", "diff", "first", "second")
    assert done.returncode == 0
    lines = done.stdout.decode().splitlines()
    assert "  - 1 + 1" in lines
    assert "    result: 2 → 3" in lines
    assert b"\x1b" not in done.stdout  # it is no terminal
    (told,) = objects(submarine("job", "diff", "first", "second", "--json"))
    titles = {section["title"] for section in told["sections"] if section["rows"]}
    assert titles == {"options", "results", "GPU time"}
    assert ["-", "1 + 1"] in told["code"][0]["lines"]
    alone = submarine("job", "diff", "first", "first")
    assert (alone.returncode, b"both are the job" in alone.stderr) == (64, True)
    assert b"AFTER is missing" in submarine("job", "diff", "first").stderr
    assert b"no job 'nobody'" in submarine("job", "diff", "first", "nobody").stderr


def test_a_difference_has_colours_in_a_terminal(folder, submarine, monkeypatch):
    for text in ("1\n", "2\n"):
        (folder / "train.py").write_text(text)
        submarine("job", "run", "train.py", "--name", f"one-{text.strip()}")
    monkeypatch.setattr("submarine_engine.cli.output._has_colour", lambda _: True)
    out = submarine("job", "diff", "one-1", "one-2").stdout
    assert b"\x1b[31m  - 1\x1b[0m" in out
    assert b"\x1b[32m  + 2\x1b[0m" in out
