"""Whoever runs a node or a flow is killed at each effect; whoever comes next ends it."""

from __future__ import annotations

import subprocess
import sys

import pytest
from submarine_engine.flows.runner import status_of

NODE = ("flow", "node", "FOLDER", "a", "--run", "r")
RUN = ("flow", "run", "FOLDER", "--run", "r")
WALKED = """
import sys
from submarine_engine.cli import main
from submarine_engine.flows import node, runner, session, writers  # loaded before effects count
from tests.local.walked import Walk
Walk(sys.argv[1], ("flow",), "{where}")
sys.exit(main(sys.argv[2:]))
"""
# Looking whether a lock is free is done over and over while a job runs, and changes nothing.
_OURS = r"record\\.json|run\\.json|values|bundles|open lock|rename|Popen|link|remove"


@pytest.fixture
def killed_at(flow_of, tmp_path, call):
    """Return a function that kills a command at an effect, and has another one end the run."""
    side = tmp_path / "side"
    note = f"with open({str(side)!r}, 'a') as file:\n    file.write('%s')\n"
    flow_of(
        f"%%submarine --gpus 0 --name a\n{note % 'a'}value = [len('x')]",
        f"%%submarine --gpus 0 --name b\n{note % 'b'}value.append(2)",
        f"%%submarine --gpus 0 --name c\n{note % 'c'}print(value)",
    )
    folder = tmp_path / "train.flow"

    def kill(words, number):
        run = f"r{number}"
        side.unlink(missing_ok=True)
        walk = tmp_path / f"walk-{number}"
        walk.mkdir()
        words = [{"FOLDER": str(folder), "r": run}.get(word, word) for word in words]
        code = WALKED.format(where=_OURS)
        process = [sys.executable, "-c", code, f"flow:{number}:{walk}", *words]
        first = subprocess.run(process, capture_output=True, text=True, check=False)
        killed = (walk / "killed").exists()
        assert first.returncode == (-9 if killed else 0), first.stderr
        code, out, err = call(*words)
        assert code == 0, out + err
        code, out, err = call("flow", "run", folder, "--run", run)
        assert code == 0, out + err
        assert side.read_text() == "abc", (number, (walk / "killed").read_text() if killed else "")
        assert "[1, 2]" in out or not killed or words[1] == "run"
        assert {one.attempt for one in status_of(folder, run).records.values()} == {1}
        return killed

    return kill


@pytest.mark.parametrize("number", [3, 9, 15])
def test_a_node_that_is_killed_runs_once(killed_at, number):
    killed_at(NODE, number)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("words", [NODE, RUN], ids=["node", "run"])
def test_every_kill_leaves_what_the_next_one_ends(killed_at, words):
    number = 1
    while killed_at(words, number):
        number += 1
    assert number > 5
