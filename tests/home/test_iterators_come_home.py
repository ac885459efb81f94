"""What was taken from an iterator, and read from a file: there as here, here as there."""

import pytest
from submarine_engine.errors import CannotTravelError

ITERATORS = """
import itertools
taken = {
    "list": iter([1, 2, 3, 4]),
    "tuple": iter((1, 2, 3, 4)),
    "range": iter(range(4)),
    "text": iter("abcd"),
    "keys": iter({1: 2, 3: 4, 5: 6}),
    "items": iter({1: 2, 3: 4, 5: 6}.items()),
    "set": iter({1, 2, 3}),
    "enumerate": enumerate("abcd"),
    "zip": zip([1, 2, 3, 4], "abcd"),
    "map": map(str, [1, 2, 3, 4]),
    "filter": filter(None, [1, 0, 2, 3, 4]),
    "reversed": reversed([1, 2, 3, 4]),
    "count": itertools.count(),
}
"""


@pytest.mark.parametrize(
    "step", ["next(one)", "(next(one), next(one))", "list(itertools.islice(one, 9))"]
)
def test_python_s_own_iterators_go_on_there_and_here(notebook, capsys, step):
    notebook.run(ITERATORS + "plain = [(next(one), " + step + ") for one in taken.values()]")
    notebook.run("rest = [list(itertools.islice(one, 9)) for one in taken.values()]")
    expected, rest = notebook["plain"], notebook["rest"]
    notebook.run(ITERATORS + "first = [next(one) for one in taken.values()]\nkept = dict(taken)")
    notebook.job("here = [" + step + " for one in taken.values()]")
    assert list(zip(notebook["first"], notebook["here"], strict=True)) == expected
    notebook.run("now = [list(itertools.islice(one, 9)) for one in kept.values()]")
    assert notebook["now"] == rest
    assert capsys.readouterr().err == ""


def test_a_generator_that_was_read_from_is_refused_with_a_way_out(notebook):
    notebook.run(
        "numbers = (i for i in range(5))\nmore = numbers\nfirst = next(numbers), next(numbers)"
    )
    with pytest.raises(
        CannotTravelError, match=r"`numbers` \(generator\) has been read from"
    ) as caught:
        notebook.job("total = sum(numbers)")
    assert "run In [1] again" in caught.value.fix
    assert caught.value.where == "In [1], line 1"
    notebook.run("numbers = (x for x in numbers)")
    with pytest.raises(CannotTravelError, match="has been read from"):  # by what it reads
        notebook.job("total = sum(numbers)")
    assert notebook.run("sum(more)") == 9


def test_the_cell_tells_what_is_made_again_in_the_job(notebook, capsys):
    notebook.run("numbers = (i for i in range(5))")
    notebook.job("total = sum(numbers)")
    assert "made again in the job: `numbers` (In [1])\n" in capsys.readouterr().err
    notebook.job("total = 1")
    assert "made again" not in capsys.readouterr().err
    notebook.run("more = (i for i in range(5))")
    notebook.job("print(next(more))", "--detach")
    assert "made again in the job: `more` (In [4])\n" in capsys.readouterr().err


def test_a_generator_that_the_job_has_used_up_is_used_up_here(notebook, capsys):
    notebook.run("numbers = (i for i in range(5))")
    notebook.job("total = sum(numbers)\nheld = [numbers]")
    assert notebook["total"] == 10
    assert list(notebook["numbers"]) == []
    assert notebook["held"] == [notebook["numbers"]]
    assert "stayed" not in capsys.readouterr().err


def test_one_that_the_job_has_only_begun_is_named(notebook, capsys):
    notebook.run("numbers = (i for i in range(5))")
    notebook.job("first = next(numbers)")
    assert notebook["first"] == 0
    assert "`numbers` (generator: the job has read on" in capsys.readouterr().err


def test_other_iterators_are_made_again_only_where_nothing_was_taken(notebook):
    notebook.run("import csv\nrows = csv.reader(['a,b', '1,2'])")
    assert notebook.job("list(rows)") == [["a", "b"], ["1", "2"]]
    notebook.run("rows = csv.reader(['a,b', '1,2'])\nheader = next(rows)")
    with pytest.raises(CannotTravelError, match=r"`rows` \(_csv\.reader\) has been read from"):
        notebook.job("list(rows)")


def test_one_that_a_function_may_have_taken_from_is_refused(notebook):
    notebook.run("import itertools\npairs = itertools.pairwise('abc')")
    notebook.run("def first():\n    return next(pairs)")
    notebook.run("one = first()")
    with pytest.raises(CannotTravelError, match="has been read from"):
        notebook.job("list(pairs)")


def test_an_open_file_is_read_on_there_and_here(notebook, tmp_path, capsys):
    (tmp_path / "notes" / "data.txt").write_text("ä\nb\nc\nd\n", encoding="utf-8")
    notebook.run("file = open('data.txt', encoding='utf-8')\nfirst = file.readline()")
    notebook.job("second = file.readline()\nheld = {'file': file}")
    assert [notebook["first"], notebook["second"]] == ["ä\n", "b\n"]
    assert notebook.run("third = file.readline()\nthird") == "c\n"
    assert notebook["held"]["file"] is notebook["file"]
    notebook.job("rest = file.read()\nfile.close()")
    assert notebook["rest"] == "d\n"
    assert notebook["file"].closed
    assert "stayed" not in capsys.readouterr().err


def test_a_file_in_the_middle_of_a_loop_has_no_known_place(notebook, tmp_path):
    (tmp_path / "notes" / "data.txt").write_text("a\nb\n")
    notebook.run("file = open('data.txt')\nfor line in file:\n    break")
    with pytest.raises(CannotTravelError, match=r"`file` .* has been read from"):
        notebook.job("file.read()")
    notebook["file"].close()
