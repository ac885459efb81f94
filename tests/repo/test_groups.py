"""Tests that share a cluster must follow one another: the tools that run the tests keep to it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from textwrap import dedent

TESTS = dedent("""
    import pytest

    @pytest.mark.parametrize("count", range(8))
    def test_alone(count): pass

    @pytest.mark.xdist_group("together")
    @pytest.mark.parametrize("count", range(8))
    def test_together(count): pass
""")


def test_tests_of_a_group_run_in_one_process(tmp_path):
    (tmp_path / "test_some.py").write_text(TESTS)
    run = [sys.executable, "-m", "pytest", "-v", "--numprocesses", "2", "--dist", "loadgroup"]
    text = subprocess.run(
        [*run, "-p", "xdist", "--rootdir", tmp_path, tmp_path],
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    where = re.findall(r"^\[(gw\d)\].* PASSED .*(alone|together)\b", text, re.MULTILINE)
    assert len(where) == 16, text
    assert len({worker for worker, name in where if name == "together"}) == 1, text
