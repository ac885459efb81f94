"""Calls of one function, and trials: by workers that stay, wherever the cluster runs them."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from submarine_engine.testing.place import PATIENCE

PROGRAM = """
import json, os, sys
from submarine_engine import map

def score(number, data):
    print("call", number)
    if number == 3:
        raise LookupError(f"no {number}")
    return number * 2, data[-2:] * 2_000_000 if number == 5 else os.getpid()

if __name__ == "__main__":
    inputs = [(number, b"x" * (3_000_000 if number == 4 else 2)) for number in range(6)]
    found = map(score, *zip(*inputs), cluster=sys.argv[1], gpus=0, max_workers=1)
    values, errors = [], []
    while True:
        try:
            values.append(next(found))
        except StopIteration:
            break
        except LookupError as error:
            errors.append(str(error.args[0]))
    numbers = [value[0] for value in values]
    logs = [found.log(number).splitlines()[0] for number in range(6)]
    told = numbers, len(values[-1][1]), len({value[1] for value in values[:-1]}), errors, logs
    print(json.dumps([*told, [*found.results()], [*found.failed]]))
"""


SEARCH = """
import json, os, sys
from submarine_engine import sweep
from submarine_runtime import report

def train(rate, units):
    print("trial", rate, units, len(os.environ["CUDA_VISIBLE_DEVICES"].split(",")))
    if rate == 4 and units == 32:
        raise LookupError("no such model")
    for epoch in range(3):
        report(epoch, loss=rate + units + 1 / (epoch + 1))
    return {"loss": rate + units}

if __name__ == "__main__":
    space = {"rate": [1, 4], "units": [16, 32]}
    found = sweep(
        train, space, sampler="grid", pruner="none", minimize="loss", max_gpus=2, gpus=1,
        cluster=sys.argv[1],
    )
    told = sorted(
        [trial.params["rate"], trial.params["units"], trial.state, trial.value, trial.error]
        for trial in found.trials
    )
    logs = sorted(found.log(trial.number).splitlines()[0] for trial in found.trials)
    reports = [list(trial.reports.values()) for trial in found.trials if trial.value == 17]
    print(json.dumps([found.best.params, found.best.value, told, logs, reports]))
"""


def run(cluster, source):
    """Run a program on a cluster; return what its last line says."""
    program = cluster.folder / "program.py"
    program.write_text(source)
    ran = subprocess.run(
        [sys.executable, str(program), cluster.name],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return json.loads(ran.stdout.splitlines()[-1])


def test_a_map_gives_values_errors_and_prints_in_the_inputs_order(cluster):
    expect(run(cluster, PROGRAM))


def test_a_sweep_of_four_trials_finds_the_best_one(cluster):
    pytest.importorskip("optuna")
    best, value, trials, logs, reports = run(cluster, SEARCH)
    assert (best, value) == ({"rate": 1, "units": 16}, 17)
    assert [trial[:4] for trial in trials] == [
        [1, 16, "complete", 17],
        [1, 32, "complete", 33],
        [4, 16, "complete", 20],
        [4, 32, "failed", None],
    ]
    assert ["no such model" in trial[4] for trial in trials] == [False, False, False, True]
    assert logs == [f"trial {rate} {units} 1" for rate in (1, 4) for units in (16, 32)]
    assert reports == [[18, 17.5, 17 + 1 / 3]]  # as the trial went on


def expect(told):
    """Hold what the program tells to what its calls were."""
    numbers, size, forks, errors, logs, ended, failed = told
    assert (numbers, ended, failed) == ([0, 2, 4, 8, 10], [0, 1, 2, 4, 5], [3])
    assert (size, forks) == (4_000_000, 4)  # what is large comes whole, there and back
    assert errors == ["no 3"]
    assert logs == [f"call {number}" for number in range(6)]
