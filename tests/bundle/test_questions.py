"""Calls that ask a person are refused before the job, at their cell and line."""

import pytest
from submarine_engine.errors import BundleError


@pytest.mark.parametrize(
    ("cells", "main", "place", "what"),
    [
        ([], "x = 1\nname = input('who? ')", "In [1], line 2", "`input()`"),
        ([], "if 1:\n    breakpoint()", "In [1], line 2", "`breakpoint()`"),
        ([], "import getpass\nx = getpass.getpass()", "In [1], line 2", "`getpass.getpass()`"),
        (
            ["def train():\n    breakpoint()", "def run():\n    return train()"],
            "run()",
            "In [1], line 2",
            "`breakpoint()`",
        ),
        (["from getpass import getpass as ask"], "print(1, ask())", "In [2], line 1", "`ask()`"),
        ([], "import pdb; pdb.set_trace()", "In [1], line 1", "`pdb.set_trace()`"),
        (
            ["def f():\n    import pdb\n    pdb.set_trace()"],
            "f()",
            "In [1], line 3",
            "`pdb.set_trace()`",
        ),
        ([], "def own(a=input()):\n    return a\nown()", "In [1], line 1", "`input()`"),
        ([], "from IPython import embed\nembed()", "In [1], line 2", "`embed()`"),
    ],
)
def test_a_question_is_refused_where_it_stands(notebook, cells, main, place, what):
    for cell in cells:
        notebook.run(cell)
    with pytest.raises(BundleError, match="asks a person") as caught:
        notebook.bundle(main)
    assert caught.value.where == place
    assert what in caught.value.what
    assert caught.value.fix


def test_all_of_them_are_named(notebook):
    notebook.run("def f():\n    return input()")
    with pytest.raises(BundleError) as caught:
        notebook.bundle("f()\nbreakpoint()")
    assert caught.value.what == (
        "`input()` asks a person, and a job has nobody to ask; so does `breakpoint()` "
        "(In [2], line 2)"
    )


@pytest.mark.parametrize(
    ("cells", "main"),
    [
        (["def input(x):\n    return x"], "print(input(1))"),
        (["input = len"], "print(input('abc'))"),
        ([], "def input(x):\n    return x\nprint(input(1))"),
        ([], "x = 1\ninput = str\nprint(input(x))"),
        (["def forward(input):\n    return input(1)"], "print(forward(str))"),
        (["class Net:\n    def input(self):\n        return 1"], "print(Net().input())"),
        (["def unused():\n    return input()"], "print(1)"),
        (["import types\npdb = types.SimpleNamespace(set_trace=int)"], "print(pdb.set_trace)"),
        ([], "ask = input\nprint(ask)"),
    ],
)
def test_what_only_has_such_a_name_is_the_users_own(notebook, cells, main):
    for cell in cells:
        notebook.run(cell)
    notebook.result(notebook.bundle(main))
