"""What a script gives back: the value of its last statement, and its variables."""

import pytest

VALUES = {
    "expression": ("x = 1\nx + 1", 2),
    "call": ("def train(n):\n    return {'n': n}\n\ntrain(3)", {"n": 3}),
    "guarded": ("if __name__ == '__main__':\n    y = 2\n    y * 3", 6),
    "guarded the other way round": ("if '__main__' == __name__:\n    5", 5),
    "assignment": ("def train():\n    return [1]\n\nhistory = train()", [1]),
    "guarded assignment": ("if __name__ == '__main__':\n    history = 7", 7),
    "two names": ("a, b = 1, 'b'", (1, "b")),
    "of an iterator": ("a, *b = iter([1, 2, 3])", (1, [2, 3])),
    "chained": ("a = b = 4", (4, 4)),
    "augmented": ("a = 1\na += 1", 2),
    "annotated": ("a: int = 8", 8),
    "future import": ("from __future__ import annotations\nx: nothing = 3", 3),
    "text that could be a docstring": ("'hello'", "hello"),
    "false but there": ("0", 0),
    "a loop": ("for i in range(3):\n    i", None),
    "a definition": ("def f():\n    return 1", None),
    "an attribute": ("import types\nx = types.SimpleNamespace()\nx.y = 3", None),
    "annotation alone": ("a: int", None),
    "nothing": ("", None),
    "a comment": ("# %% [1]\n", None),
    "another condition": ("if __name__ != '__main__':\n    1", None),
}


@pytest.mark.parametrize(("script", "value"), VALUES.values(), ids=VALUES)
def test_the_last_statement_gives_the_value(task, script, value):
    assert task.run(script) == 0
    assert task.outcome["kind"] == "returned"
    assert task.value == value
    assert type(task.value) is type(value)


def test_assigned_names_come_back_with_the_wanted_ones(task):
    task.run("loss = 0.5\nmodel, history = 'm', [1]", outputs=["loss"])
    assert sorted(task.outcome["outputs"]) == ["history", "loss", "model"]
    assert [task.output(name) for name in ("loss", "model", "history")] == [0.5, "m", [1]]


def test_a_value_that_is_an_output_is_written_once(task):
    task.run("history = list(range(1000))\nhistory", outputs=["history"])
    assert task.value == list(range(1000))
    assert [path.name for path in (task.folder / "results").iterdir()] == ["var-history.pkl"]


def test_a_variable_that_cannot_name_a_file_everywhere_comes_back_too(task):
    long = "long" * 70
    task.run(f"été = 1\n{long} = 2\nplain = 3", outputs=["été", long])
    files = {path.name for path in (task.folder / "results").iterdir()}
    assert files == {"var-0.pkl", "var-1.pkl", "var-plain.pkl"}
    assert task.outcome["outputs"]["été"]["file"] == "var-0.pkl"


@pytest.mark.parametrize(
    ("script", "names"),
    [
        ("h = 1\nh", ["h"]),
        ("if __name__ == '__main__':\n    m, h = 1, 2\n    h, m", ["h", "m"]),
        ("h = 1\nif __name__ == '__main__':\n    h", []),  # the notebook's own, not the cell's
        ("h = 1\nh,", []),
        ("h = 1\n[h]", []),
        ("h = 1\nh, h", []),
        ("h = 1\nh, (h, 2)", []),
        ("h = 1\nh + 0", []),
    ],
)
def test_variables_that_the_close_shows_come_back(task, script, names):
    task.run(script)
    assert sorted(task.outcome["outputs"]) == sorted(names)


def test_a_wanted_name_that_is_not_there_is_told(task):
    assert task.run("1", outputs=["histroy"]) == 0
    stored = task.outcome["outputs"]["histroy"]
    assert (stored["format"], stored["warning"]) == ("none", "`histroy` was never assigned")


def test_the_namespace_is_the_scripts_own(task):
    task.run("sorted(name for name in globals() if not name.startswith('__'))")
    assert task.value == []


def test_lines_of_a_traceback_are_those_of_the_file(task):
    task.run("x = 1\n\n(x +\n 'a')")
    assert 'script.py", line 3, in <module>' in task.stderr


def test_files_are_the_owners_alone(task):
    task.run("x = 1\n[x]")
    results = task.folder / "results"
    files = [task.folder / "outcome.json", results / "return.pkl"]
    assert [path.stat().st_mode & 0o777 for path in (*files, results)] == [0o600, 0o600, 0o700]
    assert not [path.name for path in task.folder.rglob("*.new")]


def test_files_are_their_groups_too_where_the_folder_is(task):
    """The NodeManager reads a container's log folder as a member of the folder's group."""
    task.folder.chmod(0o750)
    script = "from submarine_runtime import progress\nprogress(1)\nx = 1\n[x]"
    task.run(script, results=".")
    names = ("outcome.json", "return.pkl", "progress.json")
    assert {(task.folder / name).stat().st_mode & 0o777 for name in names} == {0o640}


def test_every_supported_python_runs_a_task(task, each_python):
    script = "from submarine_runtime import progress\nprogress(1)\nclass A: pass\n{'a': [1]}"
    assert task.run(script, python=each_python) == 0, task.stderr
    assert task.value == {"a": [1]}
    assert (task.folder / "progress.json").exists()
