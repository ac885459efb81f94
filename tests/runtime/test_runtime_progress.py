"""``progress()`` and what else training code may ask of its job."""

import json
import subprocess
import sys

import pytest
from submarine_runtime import job, progress


def told(task):
    return json.loads((task.folder / "progress.json").read_text())


def test_the_last_word_arrives(task):
    task.run(
        """
        from submarine_runtime import progress
        for step in range(1001):
            progress(step / 1000, f"step {step}")
        """
    )
    assert told(task) == {"fraction": 1.0, "message": "step 1000"}
    assert (task.folder / "progress.json").stat().st_mode & 0o777 == 0o600


def test_the_last_word_before_a_long_silence_arrives_meanwhile(task):
    task.start(
        """
        import time
        from submarine_runtime import progress
        progress(0.1)
        progress(0.2, "silence")
        print("said")
        time.sleep(600)
        """
    )
    task.said("said")
    from tests.runtime.conftest import wait_for

    wait_for(lambda: told(task) == {"fraction": 0.2, "message": "silence"})


def test_a_forked_child_may_tell(task):
    task.run(
        """
        import multiprocessing
        from submarine_runtime import progress
        progress(0.1)
        child = multiprocessing.get_context("fork").Process(target=progress, args=(0.7,))
        child.start()
        child.join()
        """
    )
    assert told(task)["fraction"] == 0.7


def test_a_message_is_one_short_line(task):
    task.run("from submarine_runtime import progress\nprogress(0, 'a\\n\"b\"\\t' + 'é' * 500)")
    assert told(task)["message"] == ('a "b" ' + "é" * 500)[:200]


def test_a_folder_that_is_gone_does_not_end_the_training(task):
    gone = {"SUBMARINE_TASK_DIR": str(task.folder / "gone")}
    assert task.run("from submarine_runtime import progress\nprogress(0.5)\n1", env=gone) == 0


@pytest.mark.parametrize("number", [0, 1, 0.5, 1.0])
def test_outside_a_job_it_does_nothing(number, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    progress(number, "fine")
    assert list(tmp_path.iterdir()) == []
    assert (job.id(), job.task(), job.input_path(), job.checkpoint_path()) == (None,) * 4


@pytest.mark.parametrize("number", [-0.1, 1.1, 50, float("nan"), float("inf")])
def test_a_fraction_that_is_none_is_refused(number):
    with pytest.raises(ValueError, match=r"the fraction is a number from 0 to 1"):
        progress(number)


@pytest.mark.parametrize("thing", ["0.5", True, None, [1], b"1", 10**400])
def test_what_is_no_number_is_refused(thing):
    with pytest.raises(TypeError, match=r"progress\(.*\): the fraction is a number from 0 to 1"):
        progress(thing)


def test_percent_are_answered_with_the_way_out():
    with pytest.raises(ValueError, match=r"for percent write progress\(45 / 100\)"):
        progress(45)


def test_numbers_of_numpy_are_numbers(task):
    task.run("import numpy\nfrom submarine_runtime import progress\nprogress(numpy.float32(0.25))")
    assert told(task)["fraction"] == 0.25


def test_paths_of_the_job_are_there(task):
    env = {"SUBMARINE_INPUT_PATH": "/data", "SUBMARINE_CHECKPOINT_PATH": "/keep"}
    task.run(
        "from submarine_runtime import job\n(job.input_path(), job.checkpoint_path())", env=env
    )
    assert task.value == ("/data", "/keep")


def test_the_runtime_imports_next_to_nothing(task):
    """What is loaded before the user's first line is what Python has loaded anyway, and C."""
    script = "import sys\nsorted(set(sys.modules))"
    task.run(script)
    with_runtime = set(task.value)
    code = "import sys; print(*sorted(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    more = with_runtime - set(run.stdout.split())
    python = {
        name
        for name in more
        if not name.startswith("submarine_runtime") and name not in sys.builtin_module_names
    }
    python -= {name for name in python if name.startswith("encodings.")}  # of the start-up files
    # fcntl takes 0.2 ms: by it the kernel tells of questions (`submarine_runtime.stacks`).
    assert python <= {"__future__", "_json", "faulthandler", "fcntl"}


LOOP = """
import time
from submarine_runtime import job
state = {"n": 0}
"""
STEPS = LOOP + "for step in job.steps(3, state):\n    time.sleep(0.2)"
OWN = (
    LOOP
    + "job.restore(state)\nfor step in range(3):\n    time.sleep(0.2)\n    job.checkpoint(state)"
)


@pytest.mark.parametrize("code", [STEPS, OWN], ids=["steps", "a loop of its own"])
def test_a_loop_tells_how_long_it_needs_to_end(task, tmp_path, code):
    task.run(code, env={"SUBMARINE_CHECKPOINT_PATH": str(tmp_path / "kept")})
    assert told(task)["needs"] > 1.3  # a step half as long again, and a second


@pytest.mark.parametrize("own", [None, []])
def test_what_each_rank_keeps_of_its_own_is_a_checkpoint_but_none_for_more_ranks(
    task, tmp_path, own
):
    code = f"from submarine_runtime import job\nlist(job.steps(2, {{}}, own={own!r}, every=0))"
    task.run(code, env={"SUBMARINE_CHECKPOINT_PATH": str(tmp_path / "kept")})
    assert told(task)["checkpoint"] is True
    assert told(task).get("kept", False) is (own is None)


def test_a_loop_that_keeps_nothing_needs_nothing(task):
    task.run("from submarine_runtime import job, progress\nprogress(0.5)\nlist(job.steps(2, {}))")
    assert "needs" not in told(task)
