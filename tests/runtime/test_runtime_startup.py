"""What a task marks of its start: when its script comes, its own code, and its first step's end."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import pytest

from tests.runtime.conftest import PATIENCE

CELL = """
import json
EPOCHS = 3

def train():
    {}

if __name__ == "__main__":
    train()
"""
STEPS = {
    "report": "from submarine_runtime import report; [report(n, loss=n) for n in range(3)]",
    "steps": "from submarine_runtime import job; [step for step in job.steps(3, {})]",
    "checkpoint": "from submarine_runtime import job; job.restore({}); job.checkpoint({})",
    "progress": "from submarine_runtime import job; job.progress(0); job.progress(0.5)",
}


def marks_of(task):
    path = task.folder / "startup"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def names_of(task):
    return [name for _, name, _ in marks_of(task)]


@pytest.mark.parametrize("step", STEPS)
def test_a_task_marks_its_script_its_code_and_its_first_step(task, step):
    env = {"SUBMARINE_CHECKPOINT_PATH": str(task.workdir / "kept")}
    assert task.run(CELL.format(STEPS[step]), attempt=2, env=env) == 0, task.stderr
    assert names_of(task) == ["script", "code", "step"]
    assert {attempt for attempt, _, _ in marks_of(task)} == {2}
    moments = [moment for _, _, moment in marks_of(task)]
    assert moments == sorted(moments)
    assert moments[-1] <= task.outcome["returned_at"][1]
    assert (task.folder / "startup").stat().st_mode & 0o777 == 0o600


def test_imports_definitions_and_constants_are_above_the_code_of_a_plain_script(task):
    script = '''
    """Trains."""
    from __future__ import annotations
    import slow
    EPOCHS = 3
    class Net: pass
    saw = open("saw", "w").write(open({startup!r}).read())
    import late
    '''
    startup = str(task.folder / "startup")
    module = f"import os\nassert not os.path.exists({startup!r})"
    files = {"slow.py": module, "late.py": ""}
    assert task.run(script.format(startup=startup), files=files) == 0, task.stderr
    seen = (task.workdir / "saw").read_text().splitlines()
    assert [json.loads(line)[1] for line in seen] == ["script", "code"]
    assert "__submarine_home__" not in task.outcome["outputs"]


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("import nothing_of_that_name", ["script"]),
        ("import os\nos._exit(3)", ["script", "code"]),
        ("raise SystemExit(3)", ["script", "code"]),
        ("def f(): pass", ["script"]),
        ("", ["script"]),
        ("def broken(:", ["script"]),
        ("print(globals().get('__submarine_home__'))", ["script", "code"]),
    ],
)
def test_however_a_script_ends_it_marks_how_far_it_came(task, script, expected):
    task.run(script)
    assert names_of(task) == expected
    assert "__submarine_home__" not in task.stdout


def test_a_command_marks_its_begin_and_its_processes_the_first_step(task):
    program = "from submarine_runtime import report; report(0, loss=1); report(1, loss=1)"
    assert task.run(command=f"python -c '{program}'") == 0, task.stderr
    assert names_of(task) == ["command", "step"]


def test_where_nothing_can_be_written_the_task_goes_on(task):
    (task.folder / "startup").symlink_to(task.workdir / "elsewhere")
    assert task.run(CELL.format(STEPS["report"])) == 0, task.stderr
    assert not (task.workdir / "elsewhere").exists()
    assert task.stderr == ""


def test_the_calls_of_a_worker_are_no_first_step(task):
    script = """
    import os
    from submarine_runtime import job, worker

    class Once(worker.Worker):
        def run(self): job.progress(0.5)

    worker.Worker = Once
    worker.serve(print)
    """
    assert task.run(script) == 0, task.stderr
    assert names_of(task) == ["script", "code"]


def test_a_container_marks_when_its_process_was_started(tmp_path):
    program = (
        "from submarine_runtime import container as c; import sys; c.mark_process(sys.argv[1], 3)"
    )
    before = time.monotonic()
    subprocess.run([sys.executable, "-c", program, tmp_path], check=True, timeout=PATIENCE)
    attempt, name, at = json.loads((tmp_path / "startup").read_text())
    assert (attempt, name) == (3, "process")
    assert before - 0.02 <= at <= time.monotonic()  # a tick, and what is rounded to one
