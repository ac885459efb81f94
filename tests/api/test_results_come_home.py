"""Values and variables of a job that succeeded, in this process."""

import dataclasses
import json
import sys
import types
from pathlib import Path

import pytest
from submarine_engine.errors import (
    JobCancelledError,
    JobError,
    JobLostError,
    ResultError,
)
from submarine_engine.job import JobState
from submarine_engine.results import ByTask, Results, ResultText


@pytest.fixture
def main(monkeypatch):
    """A ``__main__`` of this process, as a notebook has it."""
    module = types.ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", module)
    return module


def test_value_and_variables_come_home(ran):
    results = ran.run("a = 1\nloss = [0.5]\n{'loss': loss}", outputs=["a"]).results()
    assert results == Results({"loss": [0.5]}, {"a": 1}, [])


def test_nothing_is_none(ran):
    assert ran.run("for i in range(3): pass").results() == Results(None, {}, [])


def test_an_assignment_gives_value_and_variables(ran):
    results = ran.run("history = {'loss': [1]}").results()
    assert results.value == {"loss": [1]}
    assert results.outputs["history"] is results.value


def test_two_names_give_a_tuple(ran):
    results = ran.run("a, b = 1, None").results()
    assert results == Results((1, None), {"a": 1, "b": None}, [])


def test_instances_keep_their_class(ran, main):
    exec("class Net:\n    def __init__(self, n): self.n = n", main.__dict__)  # noqa: S102
    value = ran.run("class Net:\n    def __init__(self, n): self.n = n\nNet(3)").results().value
    assert type(value) is main.Net
    assert value.n == 3


def test_what_cannot_be_pickled_is_text_that_shows_as_itself(ran):
    results = ran.run("lambda: 1").results()
    assert isinstance(results.value, ResultText)
    assert repr(results.value) == str(results.value)
    assert results.value.startswith("<function <lambda> at ")
    [warning] = results.warnings
    assert warning.startswith("the result (function) cannot be pickled and came back as text: ")


def test_a_variable_that_is_not_there_is_a_warning(ran):
    results = ran.run("1", outputs=["histroy"]).results()
    assert results == Results(1, {}, ["`histroy` was never assigned"])


def test_text_of_a_job_moves_no_cursor(ran):
    shown = "def __repr__(self): return '\\x1b[2Jclear\\x07'"
    assert (
        ran.run(f"class Bad:\n    {shown}\n    __reduce__ = None\nBad()").results().value
        == "clear\ufffd"
    )


def test_a_class_that_is_not_defined_here_is_named(ran, main):
    ran.run("class Net: pass\nNet()")
    with pytest.raises(ResultError) as caught:
        ran.results()
    assert "the result (__main__.Net) cannot be loaded here: `Net` is not defined here" in str(
        caught.value
    )
    assert caught.value.fix.startswith("run the cell that defines `Net`")


def test_a_module_that_is_not_here_is_named(ran):
    ran.run(
        "import helper\nhelper.Model()",
        files={"helper_of_job.py": "", "helper.py": "class Model: pass"},
    )
    with pytest.raises(ResultError, match="there is no module `helper` in this Python") as caught:
        ran.results()
    assert "install `helper` here, or put it beside the notebook" in caught.value.fix


def test_a_setstate_that_raises_is_told(ran, main):
    cell = "class Bad:\n    def __setstate__(self, state): raise RuntimeError('no GPU here')\n"
    exec(cell, main.__dict__)  # noqa: S102
    ran.run(cell + "bad = Bad()\nbad.x = 1\nbad")
    with pytest.raises(ResultError, match="RuntimeError: no GPU here"):
        ran.results()


def test_another_python_is_told(ran, main):
    ran.run("class Net: pass\n[Net()]")
    ran.rewrite(python="2.7.18")
    (ran.folder / "results" / "return.pkl").write_bytes(b"no pickle")
    with pytest.raises(ResultError, match=r"the job ran Python 2\.7\.18, this is 3\."):
        ran.results()


def test_a_job_that_was_cancelled(ran):
    ran.run("1")
    with pytest.raises(JobCancelledError, match="the job was cancelled: enough"):
        ran.results("enough", JobState.CANCELLED)


def test_a_job_that_is_lost_tells_where_its_log_is(ran):
    ran.run("1")
    with pytest.raises(JobLostError, match="its log: submarine job logs 2025"):
        ran.results(state=JobState.LOST)
    ran.cluster.url = "https://cluster/log"
    with pytest.raises(
        JobLostError, match=r"its log: submarine job logs 2025\S+, https://cluster/log"
    ):
        ran.results(state=JobState.LOST)


def test_a_job_that_is_not_over(ran):
    ran.run("1")
    with pytest.raises(JobError, match="the job is not over"):
        ran.results(state=JobState.RUNNING)


def test_a_result_that_was_deleted(ran):
    ran.run("[1]")
    (ran.folder / "results" / "return.pkl").unlink()
    with pytest.raises(ResultError, match="cannot be read"):
        ran.results()
    (ran.folder / "outcome.json").unlink()
    with pytest.raises(ResultError, match=r"there is no .*outcome\.json"):
        ran.results()


STORED = {"format": "pickle", "type": "int", "file": "return.pkl", "size": 1, "warning": None}
HOSTILE = {
    "another version": {"version": 2},
    "another kind": {"kind": "flown"},
    "no number": {"exit_code": "0"},
    "a path out": {"result": {**STORED, "file": "../../secret.pkl"}},
    "a path": {"result": {**STORED, "file": "/etc/passwd"}},
    "no file": {"result": {**STORED, "file": None}},
    "another format": {"result": {**STORED, "format": "exec"}},
    "no result": {"result": None},
    "a list": {"outputs": []},
    "no text": {"result": {**STORED, "type": ["int"]}},
    "an output out": {"outputs": {"x": {**STORED, "file": "var-../x.pkl"}}},
}


@pytest.mark.parametrize("fields", HOSTILE.values(), ids=HOSTILE)
def test_an_outcome_that_is_none_is_refused(ran, fields):
    ran.run("1")
    ran.rewrite(**fields)
    with pytest.raises(ResultError, match="the job's outcome cannot be read"):
        ran.results()


@pytest.mark.parametrize("content", ["", "[]", "{", "null", "\x00", "[" * 100_000])
def test_what_is_no_outcome_at_all_is_refused(ran, content):
    ran.run("1")
    (ran.folder / "outcome.json").write_text(content)
    with pytest.raises(ResultError, match="the job's outcome cannot be read"):
        ran.results()


def test_names_that_are_none_are_left_aside(ran):
    ran.run("1")
    ran.rewrite(outputs={"a b": STORED, "x; y": STORED})
    assert ran.results().outputs == {}


def test_values_of_every_supported_python_load(ran, each_python):
    value = ran.run("{'a': (1, 2.5, 'é', None), 'b': b'x'}", python=each_python).results().value
    assert value == {"a": (1, 2.5, "é", None), "b": b"x"}
    assert json.loads((ran.folder / "outcome.json").read_text())["python"].startswith("3.")


def test_the_folder_of_results_holds_nothing_open(ran):
    ran.run("[1]")
    ran.results()
    # By name: how many files there are changes whenever something else is collected.
    still = [str(fd.readlink()) for fd in Path("/proc/self/fd").iterdir() if fd.is_symlink()]
    assert not [path for path in still if path.startswith(str(ran.root))]


def test_a_value_of_another_task_that_is_text_alone_says_so_when_it_is_asked_for(ran):
    ran.run("(n for n in range(3))")
    [task] = ran.status().tasks
    other = dataclasses.replace(task, task="worker-1", host="gpu-1")
    status = dataclasses.replace(ran.status(), tasks=(task, other))
    by_task = ByTask(ran.cluster, "20250101-000000-abcde", status, "mine")
    assert by_task["worker-0"] == "mine"
    with pytest.warns(UserWarning, match="worker-1 on gpu-1: the result .generator. cannot be"):
        assert "generator object" in by_task["worker-1"]
    assert repr(by_task).startswith("<values of worker-0, worker-1: ")
