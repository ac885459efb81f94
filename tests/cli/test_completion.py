"""The Tab key in a shell."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from submarine_engine import submit

SUBMARINE = Path(sys.executable).with_name("submarine")
SCRIPT = """
eval "$(_SUBMARINE_COMPLETE=bash_source {submarine})"
COMP_WORDS=({submarine} "$@")
COMP_CWORD=$#
_submarine_completion {submarine}
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def tab(*words):
    """Return what bash is given where Tab is pressed after the last of `words`."""
    command = ["bash", "-c", SCRIPT.format(submarine=SUBMARINE), "bash", *words]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("jo",), ["job"]),
        (("job", "l"), ["list", "logs"]),
        (("use", ""), []),
        (("job", "run", "--worker-r"), ["--worker_resources"]),
        (("job", "run", "--capture"), []),
        (("job", "run", "--json", "--gpus", "lots", "--mode", "w"), ["warm"]),
        (("nonsense", ""), []),
    ],
)
def test_tab_completes_what_the_grammar_knows(words, found):
    assert tab(*words) == found


def test_tab_completes_jobs(folder):
    job = submit(len, "a", name="measure")
    job.result()
    assert tab("job", "show", "mea") == ["measure"]
    assert tab("job", "show", job.id[:4]) == [job.id]


def test_tab_is_silent_where_jobs_cannot_be_read(folder, monkeypatch):
    (folder / "home").touch()
    monkeypatch.setenv("SUBMARINE_HOME", str(folder / "home"))
    assert tab("job", "show", "") == []
