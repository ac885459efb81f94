"""Examples on a real YARN cluster: the one made for YARN, and those that make many calls."""

from __future__ import annotations

import re
import shutil

import nbformat
import pytest
from submarine_engine import list_jobs
from submarine_engine.history import JobPaths, default_home, read_json

from tests.jobs import end_processes_of
from tests.kernels import ROOT, run_example, texts_of


@pytest.fixture
def run(on_yarn, tmp_path, monkeypatch):
    """Run a notebook from top to bottom, with YARN as the configured cluster where asked for."""
    home = tmp_path / "home"
    monkeypatch.setenv("SUBMARINE_HOME", str(home))
    yield run_example
    shutil.rmtree(home, ignore_errors=True)
    end_processes_of(home, patience=3)  # the keeper goes, skein's driver waits for another


def free(text):
    return len(re.findall(r"\bfree$", text, re.MULTILINE))


def application_of(name):
    """Return the application of a job; a card that is saved holds no address of this machine."""
    (job,) = (one for one in list_jobs() if one.name == name)
    return read_json(JobPaths(default_home(), job.id).root / "yarn.json")["app_id"]


@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_one_for_yarn_shows_what_it_says(run):
    cells = run("yarn")
    assert application_of("digits") == application_of("wider")
    assert re.search(r"wider +\{'queued': .*'busy': .*\}, released \d+ ms", cells["ledger"])
    assert cells["queue"].count("running") == 2
    assert cells["queue"].count("queued queue default: 4/4 GPUs in use") == 2
    assert free(cells["gpus"]) == 0
    assert re.search(r"queue +default +0 +4", cells["gpus"])
    assert cells["results"].count("units") == 4
    assert "IndexError" in cells["error"]
    assert "line 4" in cells["error"]
    assert free(cells["free"]) == 4


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("name", "cells"),
    [("map", ["map", "failed", "hard", "executor"]), ("sweep", ["cell-9", "cell-11", "cell-12"])],
)
def test_many_calls_come_to_the_same_as_on_one_machine(run, name, cells):
    there = run(name, SUBMARINE_CLUSTER="yarn")
    here = texts_of(nbformat.read(ROOT / f"examples/{name}.ipynb", as_version=4))
    for cell in cells:  # the last line: above it may be a card
        assert there[cell].splitlines()[-1] == here[cell].splitlines()[-1]
