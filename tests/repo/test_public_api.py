"""The public API is a list; nothing joins or leaves it by accident."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
import submarine_engine

PUBLIC = """
Batch Bundle BundleError CannotTravelError CaptureTooLargeError Cell CellSyntaxError Cluster
ClusterError CommandError ConfigError Cursor Display Event Gpu Job JobCancelledError JobError
JobFailedError
JobLostError JobNotFoundError JobSpec JobState JobStatus JobSummary Ledger LogChunk Manifest Moment
Resources ResourcesError ResultError Role SaveError Saved SubmarineError SubmissionError TaskState
TaskStatus UndefinedNameError UnsupportedError launch list_jobs open_job submit
""".split()  # noqa: SIM905 - words are easier to read than strings


def test_the_public_names_are_these():
    assert submarine_engine.__all__ == PUBLIC


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_is_there_and_documented(name):
    assert getattr(submarine_engine, name).__doc__
    assert name in dir(submarine_engine)


def test_type_checkers_see_the_same_names():
    tree = ast.parse(Path(submarine_engine.__file__).read_text())
    (typed,) = [node for node in tree.body if isinstance(node, ast.If)]
    imports = [node for node in typed.body if isinstance(node, ast.ImportFrom)]
    assert sorted(alias.name for node in imports for alias in node.names) == PUBLIC
    for node in imports:
        for alias in node.names:
            assert f"submarine_engine.{submarine_engine._HOMES[alias.name]}" == node.module


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="'submarine_engine' has no attribute 'lunch'"):
        submarine_engine.lunch  # noqa: B018 - the access is the test


def test_importing_the_engine_loads_nothing_else():
    code = "import sys, submarine_engine; print(*(m for m in sys.modules if 'submarine' in m))"
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    loaded = {name for name in run.stdout.split() if not name.startswith("__")}
    assert loaded == {"submarine_engine"}
