"""A launch command in place of the script."""

import json
import signal
import sys
from pathlib import Path

from tests.runtime.conftest import lives, wait_for


def test_it_runs_in_the_bundles_folder(task):
    code = task.run(command="pwd; cat part.py; echo $0; echo err >&2", files={"part.py": "x = 1\n"})
    assert (code, task.stderr) == (0, "err\n")
    assert task.stdout == f"{task.bundle}\nx = 1\n/bin/sh\n"
    outcome = task.outcome
    assert (outcome["kind"], outcome["exit_code"], outcome["result"]["format"]) == (
        "exited", 0, "none",
    )  # fmt: skip


def test_python_is_this_python(task):
    task.run(command="python main.py", files={"main.py": "import sys; print(sys.executable)"})
    assert task.stdout == f"{Path(sys.executable).parent}/python\n"


def test_its_scripts_find_the_runtime(task):
    files = {"main.py": "from submarine_runtime import progress\nprogress(0.5)\n"}
    assert task.run(command="python main.py", files=files) == 0, task.stderr
    assert json.loads((task.folder / "progress.json").read_text())["fraction"] == 0.5


def test_its_exit_code_is_the_tasks(task):
    assert task.run(command="exit 3") == 3
    assert (task.outcome["kind"], task.outcome["exit_code"]) == ("exited", 3)


def test_a_program_that_is_not_there(task):
    assert task.run(command="no-such-program") == 127
    assert "no-such-program" in task.stderr
    assert task.outcome["exit_code"] == 127


def test_a_signal_ends_the_task_as_it_ended_the_command(task):
    assert task.run(command="kill -SEGV $$") == -signal.SIGSEGV
    assert task.outcome is None


def test_what_it_leaves_behind_is_ended(task):
    task.run(command="sleep 600 & echo $!")
    pid = int(task.stdout)
    wait_for(lambda: not lives(pid))


def test_its_pipes_break_as_in_a_shell(task):
    assert task.run(command="yes | head -1") == 0
    assert (task.stdout, task.stderr) == ("y\n", "")


def test_it_is_given_time_to_end(task):
    task.start(command="trap 'echo saved; exit 4' TERM; echo began; while :; do sleep 0.01; done")
    task.said("began")
    import os

    os.killpg(task.process.pid, signal.SIGTERM)
    assert task.wait() == 4
    assert task.stdout == "began\nsaved\n"
