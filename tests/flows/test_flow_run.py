"""A flow without a scheduler: side by side, again after a failure, on after a kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from submarine_engine.cli.output import FAILED
from submarine_engine.flows.model import FlowPaths
from submarine_engine.flows.records import NodePaths, NodeState
from submarine_engine.flows.runner import newest_run, status_of

from tests.flows.conftest import TRAIN, notebook
from tests.jobs import until

JOB = "%%submarine --gpus 0 --name "
S, F, C, X = NodeState.SUCCEEDED, NodeState.FAILED, NodeState.CANCELLED, NodeState.SKIPPED


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "train.flow"


@pytest.fixture
def states(folder):
    def read(run="r"):
        return {name: one.state for name, one in status_of(folder, run).records.items()}

    return read


def test_a_flow_runs_to_its_end(flow_of, call, folder, states):
    flow_of(*TRAIN)
    code, out, err = call("flow", "run", folder, "--run", "r", "--param", "day=abcd")
    assert code == 0, err
    assert "fit    │ fitted 5.0\n" in out
    assert "cell-7 │ score is" in out
    assert set(states().values()) == {S}
    code, out, _ = call("flow", "status", folder, "--json")
    told = [json.loads(line) for line in out.splitlines()]
    assert [one["node"] for one in told] == ["cell-3", "fit", "other", "score", "cell-7"]
    assert all(one["job"] and one["ended"] >= one["started"] for one in told)


def test_a_flow_that_is_built_to_be_run_is_run_for_programs_too(call, tmp_path):
    path = notebook(tmp_path / "train.ipynb", JOB + "fit\nraise ValueError('no')")
    code, out, err = call("flow", "build", path, "--run", "--json")
    assert code == FAILED, err
    built, node = map(json.loads, out.splitlines())
    assert built["flow"] == "train"
    assert (node["node"], node["state"]) == ("fit", "failed")


def test_nodes_that_do_not_need_each_other_run_side_by_side(flow_of, call, folder, tmp_path):
    wait = (
        "import pathlib, time\n"
        f"mine, other = (pathlib.Path({str(tmp_path)!r}) / name for name in names)\n"
        "mine.touch()\nend = time.monotonic() + 60\n"
        "while not other.exists() and time.monotonic() < end:\n    time.sleep(0.05)\n"
        "assert other.exists()"
    )
    flow_of(
        f"{JOB}a\nnames = 'one', 'two'\n{wait}",
        f"{JOB}b\nnames = 'two', 'one'\n{wait}",
    )
    assert call("flow", "run", folder)[0] == 0


@pytest.mark.long
def test_what_follows_a_failure_waits_for_a_retry_of_it(flow_of, call, folder, states, tmp_path):
    side, flag = tmp_path / "side", tmp_path / "flag"
    note = f"with open({str(side)!r}, 'a') as file:\n    file.write('%s ')\n"
    flow_of(
        f"{JOB}good\n{note % 'good'}value = len('x')",
        f"{JOB}bad\nimport os\n{note % 'bad'}assert os.path.exists({str(flag)!r}), value",
        f"{JOB}after --after bad\n{note % 'after'}",
        f"{JOB}alarm --after bad --condition one_failed\n{note % 'alarm'}",
        f"{JOB}tidy --after after --condition all_done\n{note % 'tidy'}",
    )
    code, out, err = call("flow", "run", folder, "--run", "r")
    assert code == 1
    assert "train.ipynb, In [2], line 5: AssertionError" in err + out
    assert states() == {"good": S, "bad": F, "after": X, "alarm": S, "tidy": S}
    assert side.read_text().split() == ["good", "bad", "alarm", "tidy"] or (
        sorted(side.read_text().split()) == ["alarm", "bad", "good", "tidy"]
    )
    flag.touch()
    side.unlink()
    assert call("flow", "retry", folder)[0] == 0
    assert states() == {"good": S, "bad": S, "after": S, "alarm": X, "tidy": S}
    assert side.read_text().split() == ["bad", "after", "tidy"]
    code, _, err = call("flow", "retry", folder)
    assert (code, err) == (0, "nothing of it has failed\n")


def test_a_node_is_tried_as_often_as_the_flow_says(flow_of, call, folder, states, tmp_path):
    side = tmp_path / "side"
    flow_of(
        f"{JOB}a\nimport os\nwith open({str(side)!r}, 'a') as file:\n    file.write('x')\n"
        f"assert os.path.getsize({str(side)!r}) == 3",
        retries=2,
    )
    assert call("flow", "run", folder, "--run", "r")[0] == 0
    assert side.read_text() == "xxx"
    assert status_of(folder, "r").records["a"].attempt == 3


def test_a_node_waits_before_its_next_try_and_a_cancel_ends_that(
    flow_of, call, folder, states, tmp_path
):
    flag = tmp_path / "flag"
    flow_of(
        f"{JOB}a\nimport os\nassert os.path.exists({str(flag)!r})",
        f"{JOB}b --after a\nprint(1)",
        retries=1,
        retry_delay=600.0,
    )
    words = [sys.executable, "-m", "submarine_engine.cli", "flow", "run", folder, "--run", "r"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as runner:
        assert runner.stderr is not None
        told = b""
        for line in runner.stderr:
            told += line
            if b"tried again in 10 min" in line:
                break
        assert b"tried again in 10 min" in told
        assert call("flow", "cancel", folder)[:2] == (0, "r asked to end\n")
        runner.communicate(timeout=60)
    assert states() == {"a": F, "b": C}
    flag.touch()
    assert call("flow", "retry", folder)[0] == 0
    assert states() == {"a": S, "b": S}


def test_what_follows_a_node_that_is_tried_again_is_not_skipped(flow_of, call, folder, tmp_path):
    flag = tmp_path / "flag"
    # Its process ends a while after it has written that the node has failed.
    late = "import atexit, os, sys, time\n"
    flow_of(
        f"{JOB}a\nimport os\nfound = os.path.exists({str(flag)!r})\n"
        f"open({str(flag)!r}, 'w').close()\nassert found",
        f"{JOB}b --after a\nprint('after all')",
        retries=1,
    )
    (tmp_path / "sitecustomize.py").write_text(
        f"{late}if 'node' in sys.orig_argv:\n    atexit.register(time.sleep, 1)\n"
    )
    words = [sys.executable, "-m", "submarine_engine.cli", "flow", "run", folder, "--run", "r"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(words, env=environment, capture_output=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert b"after all" in done.stdout


def test_the_next_runner_has_the_tries_that_are_left(flow_of, call, folder, states, tmp_path):
    side = tmp_path / "side"
    flow_of(
        f"{JOB}a\nwith open({str(side)!r}, 'a') as file:\n    file.write('x')\n"
        f"assert file.tell() > 7",
        retries=2,
    )
    # A runner that was killed had begun the first try.
    assert call("flow", "node", folder, "a", "--run", "r", "--attempt", "1")[0] == 1
    assert call("flow", "run", folder, "--run", "r")[0] == 1
    assert (states(), side.read_text()) == ({"a": F}, "xxx")
    assert call("flow", "run", folder, "--run", "r")[0] == 1
    assert side.read_text() == "xxx"  # there is none left
    assert call("flow", "retry", folder)[0] == 1
    assert side.read_text() == "xxxxxx"


def test_a_node_that_was_cancelled_as_it_began_does_not_run(
    flow_of, call, folder, states, tmp_path
):
    side = tmp_path / "side"
    flow_of(f"{JOB}a\nopen({str(side)!r}, 'w').close()")
    files = NodePaths(FlowPaths(folder).node("r", "a"))
    files.folder.mkdir(parents=True)
    files.cancel.touch()  # its process has the lock by now, and no more is on record
    assert call("flow", "node", folder, "a", "--run", "r")[0] == 1
    assert (states(), side.exists()) == ({"a": C}, False)
    assert call("flow", "node", folder, "a", "--run", "r")[0] == 0
    assert (states(), side.exists()) == ({"a": S}, True)


def test_a_node_that_is_tried_again_begins_after_the_delay(flow_of, call, folder):
    flow_of(f"{JOB}a\nimport time\nprint('at', time.time())\nraise ValueError",
            retries=1, retry_delay=1.5)  # fmt: skip
    code, out, _ = call("flow", "run", folder, "--run", "r")
    assert code == 1
    first, second = (float(line.split("at ")[1]) for line in out.splitlines() if "│ at " in line)
    assert second - first > 1.5


def test_a_node_that_takes_too_long_fails(flow_of, call, folder, states):
    flow_of(f"{JOB}a\nimport time\ntime.sleep(600)", time_limit=0.5)
    code, _, err = call("flow", "run", folder, "--run", "r")
    assert code == 1
    assert states() == {"a": F}
    assert "it took longer than" in err


def test_a_run_is_cancelled_with_its_jobs(flow_of, call, folder, states, tmp_path):
    side = tmp_path / "side"
    flow_of(
        f"{JOB}a\nimport time\nopen({str(side)!r}, 'w').close()\ntime.sleep(600)",
        f"{JOB}b --after a\nprint(1)",
    )
    words = [sys.executable, "-m", "submarine_engine.cli", "flow", "run", folder, "--run", "r"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as runner:
        until(side.exists)
        assert call("flow", "cancel", folder)[:2] == (0, "r asked to end\n")
        assert runner.wait(180) == 1
    assert states() == {"a": C, "b": C}
    assert call("flow", "cancel", folder)[:2] == (1, "r was over already\n")


def test_an_interrupt_cancels_the_run(flow_of, folder, states, tmp_path):
    side = tmp_path / "side"
    flow_of(f"{JOB}a\nimport time\nopen({str(side)!r}, 'w').close()\ntime.sleep(600)")
    words = [sys.executable, "-m", "submarine_engine.cli", "flow", "run", folder, "--run", "r"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as runner:
        until(side.exists)
        runner.send_signal(signal.SIGINT)
        assert runner.wait(180) == 130
    assert states() == {"a": C}


def test_a_run_goes_on_after_its_runner_and_a_node_were_killed(
    flow_of, call, folder, states, tmp_path
):
    side, flag = tmp_path / "side", tmp_path / "flag"
    flow_of(
        f"{JOB}a\nimport os, time\nwith open({str(side)!r}, 'a') as file:\n    file.write('a')\n"
        f"while not os.path.exists({str(flag)!r}):\n    time.sleep(0.05)\nvalue = len('1234567')",
        f"{JOB}b\nwith open({str(side)!r}, 'a') as file:\n    file.write(f'b{{value}}')",
    )
    words = [sys.executable, "-m", "submarine_engine.cli", "flow", "run", folder, "--run", "r"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as runner:
        until(side.exists)
        runner.kill()
    lock = NodePaths(FlowPaths(folder).node("r", "a")).lock
    holders = _holders(lock)
    assert holders
    for pid in holders:
        os.kill(pid, signal.SIGKILL)
    code, _, err = call("flow", "status", folder)
    assert code == 0
    assert "nobody runs it" in err
    flag.touch()
    code, out, err = call("flow", "run", folder, "--run", "r")
    assert code == 0, out + err
    assert side.read_text() == "ab7"
    assert states() == {"a": S, "b": S}


def _holders(path):
    """Return the processes that have a file open."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if int(entry.name) != os.getpid() and path in map(
                Path.readlink, (entry / "fd").iterdir()
            ):
                found.append(int(entry.name))
    return found


def test_two_runners_of_one_run_are_refused(flow_of, call, folder, tmp_path):
    side, flag = tmp_path / "side", tmp_path / "flag"
    flow_of(
        f"{JOB}a\nimport os, time\nopen({str(side)!r}, 'w').close()\n"
        f"while not os.path.exists({str(flag)!r}):\n    time.sleep(0.05)"
    )
    words = [sys.executable, "-m", "submarine_engine.cli", "flow", "run", folder, "--run", "r"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as runner:
        until(side.exists)
        code, _, err = call("flow", "run", folder, "--run", "r")
        assert code == 65
        assert "another process runs r" in err
        flag.touch()
        assert runner.wait(180) == 0


@pytest.mark.parametrize("verb", ["status", "cancel", "retry"])
def test_a_run_that_is_not_there_is_refused(flow_of, call, folder, verb):
    flow_of(*TRAIN)
    assert "the flow has not run yet" in call("flow", verb, folder)[2]
    assert "there is no run 'x'" in call("flow", verb, folder, "--run", "x")[2]
    assert "this is no flow's folder" in call("flow", verb, folder.parent)[2]


def test_the_newest_run_is_meant(flow_of, call, folder):
    flow_of(f"{JOB}a\nprint(1)")
    for run in ("z", "a"):
        assert call("flow", "run", folder, "--run", run)[0] == 0
    assert newest_run(folder) == "a"
    assert newest_run(folder, "z") == "z"
