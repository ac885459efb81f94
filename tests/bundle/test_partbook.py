"""Which cell gives what to which file."""

import pytest
from submarine_engine.bundle import Cell, PartBook
from submarine_engine.errors import BundleError


def cell(number, source, **fields):
    return Cell(number=number, source=source, raw=source, **fields)


def test_a_title_does_not_hide_what_python_needs():
    for title in ("json.py", "logging/x.py"):
        with pytest.raises(BundleError, match="would hide the module"):
            PartBook().add(title, cell(1, "x = 1"))
    PartBook().add("test.py", cell(1, "x = 1"))


def titles(book, order=()):
    return [(p.title, [c.source for c in p.cells]) for p in book.parts(order)]


def test_a_cell_run_again_replaces_what_it_gave_in_its_place():
    book = PartBook()
    book.add("a.py", cell(1, "x = 1", id="one"))
    book.add("a.py", cell(2, "y = 1", id="two"))
    book.add(None, cell(3, "z = 1", id="three"))
    book.add("a.py", cell(4, "x = 2", id="one"))
    assert titles(book) == [("a.py", ["x = 2", "y = 1"]), (None, ["z = 1"])]
    book.add("b.py", cell(5, "y = 1", id="two"))
    assert titles(book) == [("a.py", ["x = 2"]), ("b.py", ["y = 1"]), (None, ["z = 1"])]
    book.add("a.py", cell(6, " \n", id="one"))
    book.remove("three")
    assert titles(book) == [("b.py", ["y = 1"])]
    book.clear()
    assert titles(book) == []


def test_cells_that_are_gone_from_the_notebook_give_nothing_any_more():
    book = PartBook()
    book.add("a.py", cell(1, "x = 1", id="one"))
    book.add("b.py", cell(2, "y = 1", id="two"))
    book.add(None, cell(3, "z = 1"))
    book.keep(["two", "three"])
    assert titles(book) == [("b.py", ["y = 1"]), (None, ["z = 1"])]
    assert book.has("b.py")
    assert book.has("main.py")
    assert not book.has("a.py")


def test_a_refused_title_takes_nothing_away():
    book = PartBook()
    book.add("a.py", cell(1, "x = 1", id="one"))
    with pytest.raises(BundleError) as caught:
        book.add("../a.py", cell(2, "x = 2", id="one"))
    assert caught.value.where == "In [2]"
    assert titles(book) == [("a.py", ["x = 1"])]


def test_the_notebooks_order_counts_where_it_is_known():
    book = PartBook()
    for name in ("late", "early", "new"):
        book.add(None, cell(1, f"{name} = 1", id=name))
    assert titles(book, ["early", "other", "late"]) == [
        (None, ["early = 1", "late = 1", "new = 1"])
    ]


def test_without_ids_a_cell_is_known_by_text_or_by_what_it_defines():
    book = PartBook()
    book.add(None, cell(1, "def train(): pass"))
    book.add(None, cell(2, "train()"))
    book.add(None, cell(3, "train()"))
    book.add(None, cell(4, "def train():\n    return 1"))
    book.add("a.py", cell(5, "def train():\n    return 1"))
    book.add(None, cell(6, "print(train())"))
    assert titles(book) == [
        (None, ["def train():\n    return 1", "train()", "print(train())"]),
        ("a.py", ["def train():\n    return 1"]),
    ]


def test_main_and_no_title_are_one_file():
    book = PartBook()
    book.add(None, cell(1, "x = 1"))
    book.add("main.py", cell(2, "y = x"))
    assert titles(book) == [(None, ["x = 1", "y = x"])]
