"""The controller of a sweep killed with -9 at each word that it writes: told once, as it ran."""

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import optuna
import pytest
from submarine_engine.history import default_home, new_job_id
from submarine_engine.sweeps.found import Found
from submarine_engine.sweeps.study import open_storage
from submarine_engine.sweeps.summary import read_summary

from tests.jobs import end_processes_of
from tests.sweeps.programs import run_program

KILLED = Path(__file__).with_name("killed.py")
TRIALS = 6


@pytest.fixture
def folder(tmp_path):
    """Make a sweep whose controllers are begun by hand."""
    name, _ = run_program(
        tmp_path,
        f"""
        from types import SimpleNamespace
        from submarine_engine.sweeps import sweeping

        def train(x):
            number = int(os.environ["SUBMARINE_TRIAL"])
            with open(os.environ["SEEN"], "a") as file:
                file.write(json.dumps([number, x]) + "\\n")
            report(0, loss=x + 1)
            if number == 2:
                raise ValueError(number)
            return x

        sweeping.control_job = lambda folder, shown: SimpleNamespace(id="")
        seen = {{"SEEN": {str(tmp_path / "seen")!r}}}
        found = search(train, {{"x": uniform(0, 1)}}, trials={TRIALS}, env=seen, wait=False)
        print(json.dumps(found.id))
        """,
    )
    yield default_home() / "pools" / name
    end_processes_of(default_home())


def control(folder, task, job, *kill):
    ran = subprocess.run(
        [sys.executable, str(KILLED), folder.name, *map(str, kill)],
        env={
            **os.environ,
            "SUBMARINE_JOB_ID": job,
            "SUBMARINE_TASK_DIR": str(task),
            "PYTHONPATH": str(KILLED.parents[2]),
        },
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode in (0, -9), ran.stdout + ran.stderr
    return ran.returncode


@pytest.mark.long
@pytest.mark.timeout(3600)  # dozens of controllers, one after the other
@pytest.mark.parametrize("steps", [("study",), ("study", "journal", "frame", "summary")])
def test_whatever_is_killed_each_trial_is_told_once_what_its_code_gave(folder, tmp_path, steps):
    task, job = tmp_path / "task", new_job_id()
    task.mkdir()
    moments = itertools.cycle(["after", "half", "before", "half"])
    numbers = itertools.cycle([2, 3, 5, 4, 7] if steps == ("study",) else [2, 1, 1, 1, 2, 1])
    kills = 0
    for step in itertools.cycle(steps):
        if control(folder, task, job, step, next(moments), next(numbers)) == 0:
            break
        kills += 1
        assert kills < 200
    assert kills > 4
    seen = [json.loads(line) for line in (tmp_path / "seen").read_text().splitlines()]
    assert sorted(number for number, _ in seen) == list(range(TRIALS))
    ran = dict(seen)
    found = Found(folder)
    assert [trial.number for trial in found.trials] == list(range(TRIALS))
    for trial in found.trials:
        assert trial.params == {"x": ran[trial.number]}
        assert trial.state == ("failed" if trial.number == 2 else "complete")
        assert trial.values == (() if trial.number == 2 else (ran[trial.number],))
    finished = [
        log for log in map(json.loads, (folder / "study.log").read_text().splitlines())
        if log["op_code"] == 6
    ]  # fmt: skip
    assert len(finished) >= TRIALS
    (study,) = optuna.get_all_study_summaries(open_storage(folder))
    assert study.n_trials == TRIALS
    states = dict(read_summary(task).states)
    assert states == {"complete": TRIALS - 1, "failed": 1}
