"""What cannot become a script is refused with the place and the fix."""

from __future__ import annotations

import sys

import pytest
from submarine_engine.bundle import Cell
from submarine_engine.errors import (
    BundleError,
    CannotTravelError,
    CaptureTooLargeError,
    CellSyntaxError,
    UndefinedNameError,
)


def test_all_undefined_names_are_told_at_once_with_their_lines(notebook):
    notebook.run("def f():\n    return mising_one")
    notebook.namespace["missing_one"] = 1
    with pytest.raises(UndefinedNameError) as caught:
        notebook.bundle("a = 1\nf(a, nowhere)")
    text = str(caught.value)
    assert "`mising_one`" in text
    assert "In [1], line 2" in text
    assert "`nowhere`" in text
    assert "In [2], line 2" in text
    assert "missing_one`?" in text or "`nowhere`" in caught.value.what.split(",")[0]


@pytest.mark.parametrize(
    "main",
    [
        "try:\n    fast\nexcept NameError:\n    fast = None\nprint(fast)",
        "for n in range(2):\n    if n:\n        print(before)\n    before = None",
        "def f():\n    return late\n\nlate = None\nprint(f())",
        "try:\n    v = None\nexcept OSError as error:\n    v = error\nprint(v)",
        "match 3:\n    case int() as v:\n        print(None)",
        "print([v for v in [None]][0])",
        "if (v := None) is None:\n    print(v)",
        "x: 'NotDefined' = None\nprint(x)",
        "def f():\n    y: NotDefined = None\n    return y\n\nprint(f())",
        "from math import *\nprint(None if floor(1) else ceil)",
        "class C:\n    a = None\n    b = a\n\nprint(C.b)",
        "import os as system\nprint(None if system else 0)",
        "with open(__file__) as f:\n    print(None if f else 0)",
        "x = None\ndel x\nx = None\nprint(x)",
    ],
)
def test_names_that_the_cell_binds_itself_are_known(notebook, main):
    assert notebook.job(main).split()[-1] == "None"


@pytest.mark.parametrize(
    ("main", "line"),
    [
        ("x = 1\ny = x + z", 2),
        ("def f():\n    return 1 + z", 2),
        ("for x in range(3):\n    total = total + x", 2),
        ("if z:\n    pass", 1),
        ("class C(z):\n    pass", 1),
        ("@z\ndef f():\n    pass", 1),
        ("def f(x: z):\n    pass", 1),
        ("z += 1", 1),
        ("del z", 1),
        ("[v for v in z]", 1),
        ("try:\n    pass\nexcept z:\n    pass", 3),
        ("f'{z}'", 1),
        ("lambda: z", 1),
    ],
)
def test_undefined_names_are_found_wherever_they_stand(notebook, main, line):
    if sys.version_info >= (3, 14) and "x: z" in main:
        main = "@z\ndef f():\n    pass"
    with pytest.raises(UndefinedNameError) as caught:
        notebook.bundle(main)
    assert caught.value.where == f"In [1], line {line}"


def test_an_output_that_nobody_defines_is_refused(notebook):
    with pytest.raises(UndefinedNameError, match="histry"):
        notebook.bundle("history = [1]", outputs=["histry"])
    notebook.bundle("history = [1]", outputs=["history"])


def test_undefined_names_are_told_before_values_that_cannot_travel(notebook):
    notebook.run("numbers = (n for n in range(3))")
    with pytest.raises(UndefinedNameError):
        notebook.bundle("print(numbers, nowhere)")


def test_values_that_cannot_travel_are_refused_with_their_cell(notebook):
    notebook.run("import threading").run("lock = threading.Lock()\nlock.acquire()")
    notebook.run("def train():\n    with lock:\n        return 1")
    with pytest.raises(CannotTravelError) as caught:
        notebook.bundle("train()")
    assert caught.value.where == "In [2], line 1"
    assert "`lock`" in caught.value.what


def test_too_much_is_refused_with_the_largest(notebook):
    notebook.run("big = bytes(3_000_000)").run("small = bytes(range(256)) * 8")
    with pytest.raises(CaptureTooLargeError, match="big"):
        notebook.bundle("print(len(big), len(small))", limit=1_000_000)


@pytest.mark.parametrize(
    ("main", "line", "words"),
    [
        ("x = 1\ny = = 2", 2, "invalid syntax"),
        ("def f(:\n    pass", 1, ""),
        ("return 3", 1, "'return' outside function"),
        ("def f():\n    await x", 2, "await"),
        ("x = '", 1, "unterminated"),
        ("a\x00b", 1, "null bytes"),
        ("for x in y:\nprint(x)", 2, "indented block"),
    ],
)
def test_a_cell_that_does_not_parse_is_shown_with_its_line(notebook, main, line, words):
    with pytest.raises(CellSyntaxError) as caught:
        notebook.bundle(main)
    assert words in caught.value.what
    assert caught.value.where in (f"In [1], line {line}", "In [1]")


def test_a_syntax_error_has_its_text_and_caret(notebook):
    with pytest.raises(CellSyntaxError) as caught:
        notebook.bundle("if True:\n    y = = 2")
    assert caught.value.what.split("\n")[1:] == ["    y = = 2", "        ^"]


def test_an_empty_cell_is_refused(notebook):
    with pytest.raises(BundleError, match="nothing to run"):
        notebook.bundle("# only a comment\n")


def test_cells_that_never_parsed_do_not_stand_in_the_way(notebook):
    notebook.cells.append(Cell(number=1, source="x = = 1\ndef f(): pass"))
    notebook.run("def f():\n    return 1")
    assert notebook.job("print(f())") == "1\n"


@pytest.mark.parametrize("deep", ["-" * 6000 + "1", " + ".join(["1"] * 5000), "-" * 700 + "1"])
def test_a_main_cell_that_is_too_deep_is_refused_in_words(notebook, deep):
    with pytest.raises(CellSyntaxError, match="nested too deeply") as caught:
        notebook.bundle(f"x = 1\ny = f(lambda: {deep})")
    assert caught.value.where == "In [1]"
    assert "several statements" in caught.value.fix


def test_of_a_cell_that_is_too_deep_only_what_needs_it_is_refused(notebook):
    notebook.run("def shallow():\n    return 1")
    notebook.run(f"number = 7\ndef deep():\n    return {'-' * 700}1")
    assert notebook.result(notebook.bundle("print(shallow(), number)")) == "1 7\n"
    with pytest.raises(CannotTravelError, match="`deep` comes from code that is nested") as caught:
        notebook.bundle("shallow()\ndeep()")
    assert caught.value.where == "In [2], line 2"


def test_cells_that_nobody_can_parse_are_no_hindrance(notebook):
    notebook.cells.append(Cell(number=1, source=f"x = {'-' * 6000}1"))
    assert notebook.result(notebook.bundle("x = 2\nprint(x)")) == "2\n"
