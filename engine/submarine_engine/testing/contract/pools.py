"""Calls of one function: by workers that stay, wherever the cluster runs them."""

from __future__ import annotations

import json
import subprocess
import sys

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


def test_a_map_gives_values_errors_and_prints_in_the_inputs_order(cluster):
    program = cluster.folder / "maps.py"
    program.write_text(PROGRAM)
    ran = subprocess.run(
        [sys.executable, str(program), cluster.name],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    expect(json.loads(ran.stdout.splitlines()[-1]))


def expect(told):
    """Hold what the program tells to what its calls were."""
    numbers, size, forks, errors, logs, ended, failed = told
    assert (numbers, ended, failed) == ([0, 2, 4, 8, 10], [0, 1, 2, 4, 5], [3])
    assert (size, forks) == (4_000_000, 4)  # what is large comes whole, there and back
    assert errors == ["no 3"]
    assert logs == [f"call {number}" for number in range(6)]
