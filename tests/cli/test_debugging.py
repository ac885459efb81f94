"""`job debug`: a failed job opened where it failed, from a terminal and for programs."""

from __future__ import annotations

import json
import subprocess

import pytest
from submarine_engine.clusters import store

from tests.cli.conftest import COMMAND

FAILS = """
import ctypes, sys
class Net:
    def __init__(self):
        self.size, self.items = 7, {"a": [1, 2]}
def crash(net):
    ctypes.string_at(0)
def step(net, batch):
    return batch[net.size]
if "crash" in sys.argv:
    crash(Net())
step(Net(), [1, 2])
"""


@pytest.fixture
def debug(folder, submarine, monkeypatch):
    """Run a file that fails, and give a debugger over its job commands; return what it writes."""
    plan = store.task_plan

    def unhurried(*args, **options):  # else a busy machine has no time for all values
        return {**plan(*args, **options), "post_mortem": {"secrets": [], "seconds": 20.0}}

    monkeypatch.setattr(store, "task_plan", unhurried)

    def run(*commands, arguments=()):
        (folder / "train.py").write_text(FAILS)
        words = ("--gpus", "0", "--", *arguments) if arguments else ("--gpus", "0")
        assert submarine("job", "run", "train.py", *words).returncode != 0
        done = subprocess.run(
            [*COMMAND, "job", "debug", "train"],
            input="".join(f"{command}\n" for command in (*commands, "q")),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_objects_have_their_attributes_without_their_class(debug, submarine):
    text = debug("p net", "p net.size, batch", "p step", "u", "p __name__", "n")
    assert "IndexError: list index out of range" in text
    assert "(9)step()" in text
    assert "<Net: size=7, items={'a': [1, 2]}>" in text
    assert "(7, [1, 2])" in text
    assert "<function step> (its code is not here)" in text
    assert "the job is over" in text
    done = submarine("job", "debug", "train", "--json")
    told = json.loads(done.stdout)
    assert [frame["function"] for frame in told["frames"] if frame["own"]] == ["<module>", "step"]
    assert told["frames"][-1]["locals"]["batch"] == "[1, 2]"


def test_of_a_crash_the_stack_is_shown_without_names(debug):
    text = debug("w", "p net", arguments=["crash"])
    assert "SIGSEGV" in text.partition("\n")[0]
    assert "crashed in native code; this is where it stood" in text
    assert "(7)crash()" in text
    assert "string_at()" in text
    assert "NameError: name 'net' is not defined" in text
    assert "submarine_runtime" not in text


def test_what_did_not_fail_has_no_frames(folder, submarine):
    (folder / "fine.py").write_text("x = 1")
    assert submarine("job", "run", "fine.py", "--gpus", "0").returncode == 0
    done = submarine("job", "debug", "fine")
    assert done.returncode != 0
    assert b"the job did not fail, it succeeded" in done.stderr
