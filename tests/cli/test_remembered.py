"""`submarine job run --cache`, and the verbs of remembered results."""

from __future__ import annotations

import json

from submarine_engine import list_jobs

RUN = ("job", "run", "train.py", "--cache", "--gpus", "0")


def test_a_script_that_has_run_is_not_run_again(submarine, folder):
    script = folder / "train.py"
    script.write_text("import helper\nprint('trained', helper.rate)\n")
    (folder / "helper.py").write_text("rate = 0.1\n")
    first = submarine(*RUN)
    assert (first.returncode, first.stdout) == (0, b"trained 0.1\n")
    [job] = list_jobs()
    second = submarine(*RUN)
    assert (second.returncode, second.stdout) == (0, b"trained 0.1\n")
    assert len(list_jobs()) == 1
    told = second.stderr.decode()
    assert "the result is from " in told
    assert f"job train ({job.id}); with --refresh it runs again" in told
    script.write_text("# by hand\n" + script.read_text())
    assert submarine(*RUN, "--detach").stdout.decode().strip() == job.id
    (folder / "helper.py").write_text("rate = 0.2\n")
    told = submarine(*RUN)
    assert told.stdout == b"trained 0.2\n"
    assert "runs again: module helper.py changed" in told.stderr.decode()
    assert submarine(*RUN, "--refresh").stdout == b"trained 0.2\n"
    assert submarine(*RUN, "--", "--epochs", "3").returncode == 0
    assert len(list_jobs()) == 4


def test_a_script_that_fails_runs_each_time(submarine, folder):
    (folder / "train.py").write_text("raise SystemExit(3)\n")
    assert [submarine(*RUN).returncode for _ in range(2)] == [3, 3]
    assert len(list_jobs()) == 2


def test_what_it_depends_on_is_explained(submarine, folder):
    (folder / "train.py").write_text("rate = 0.1\nprint(rate)\n")
    told = submarine(*RUN, "--dry-run").stderr.decode()
    assert "value `rate` = 0.1 (train.py, line 1)" in told
    assert "it is not remembered: the job would run" in told
    submarine(*RUN)
    assert "it is remembered, from " in submarine(*RUN, "--dry-run").stderr.decode()
    (folder / "train.py").write_text("rate = 0.2\nprint(rate)\n")
    told = submarine(*RUN, "--dry-run").stderr.decode()
    assert "value `rate`: 0.1 → 0.2 (train.py, line 1)" in told
    assert len(list_jobs()) == 1


def test_results_are_listed_and_forgotten(submarine, folder):
    assert b"no result is remembered" in submarine("cache", "list").stderr
    for name in ("one", "two"):
        (folder / "train.py").write_text(f"print('{name}')\n")
        submarine(*RUN, "--name", name)
    assert b"one" in submarine("cache", "list").stdout
    lines = submarine("cache", "list", "--json").stdout.splitlines()
    assert [json.loads(line)["name"] for line in lines] == ["two", "one"]
    assert submarine("cache", "clear", "one").stdout == b"forgotten: 1\n"
    assert json.loads(submarine("cache", "clear", "--json").stdout) == {"forgotten": 1}
    assert submarine("cache", "clear").stdout == b"forgotten: 0\n"
    gone = submarine("cache", "clear", "nothing")
    assert gone.returncode != 0
    assert b"no job 'nothing' is on record" in gone.stderr
    assert len(list_jobs()) == 2
