"""``%%submarine --map``: a cell that runs once for each file."""

import pytest
from submarine_engine.bundle.model import Cell
from submarine_engine.errors import CommandError
from submarine_magics.mapping import as_call, files_of
from submarine_magics.sweeping import function_of


def ran(source, outputs=(), path="a.csv"):
    cell = as_call(Cell(number=3, source="\n" + source), "path", outputs)
    return function_of(cell, {"base": "in "}, "call")(path)


@pytest.mark.parametrize(
    ("source", "outputs", "value"),
    [
        ("base + path", (), "in a.csv"),
        ("n = len(path)", (), None),
        ("n = len(path)\nn * 2", ("n",), {"n": 5}),
        ("import os as o\ndef n(): return path\nm = n()", ("m", "o"), None),
    ],
)
def test_a_cell_gives_its_value_or_its_variables(source, outputs, value):
    given = ran(source, outputs)
    assert given == value if value is not None or not outputs else given["m"] == "a.csv"


def test_a_variable_that_the_cell_does_not_bind_cannot_come_home():
    with pytest.raises(CommandError, match="does not bind base"):
        ran("base + path", ("base",))


def test_files_are_those_of_the_pattern_in_their_order(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("b.csv", "a.csv", ".c.csv", "d.txt", "deep/e.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert files_of("path=*.csv") == ("path", ["a.csv", "b.csv"])
    assert files_of("path = **/*.csv") == ("path", ["a.csv", "b.csv", "deep/e.csv"])
    assert files_of(f"path={tmp_path}/d.txt") == ("path", [f"{tmp_path}/d.txt"])
    for told, words in (
        ("*.csv", "is not NAME=FILES"),
        ("path=", "is not NAME=FILES"),
        ("a-b=*.csv", "is not NAME=FILES"),
        ("class=*.csv", "is not NAME=FILES"),
        ("path=*.tsv", r"there is no file \*.tsv"),
    ):
        with pytest.raises(CommandError, match=words):
            files_of(told)


@pytest.fixture
def data(kernel, tmp_path):
    for number, name in enumerate("abc"):
        (tmp_path / f"{name}.csv").write_text("1\n" * number)
    kernel.run("%load_ext submarine_magics")
    kernel.run("def count(text):\n    return len(text.splitlines())\npath = 'mine'")
    return tmp_path


def test_values_or_variables_come_home_in_the_order_of_the_files(kernel, data):
    ran = kernel.run(f"%%submarine --map path={data}/*.csv --gpus 0\ncount(open(path).read())\n")
    assert not ran.of_type("error"), ran.error
    assert "[0, 1, 2]" in ran.text
    # One card, and no line beside it that follows the same job.
    assert len(ran.of_type("display_data")) == 1, ran.of_type("display_data")
    ran = kernel.run(
        f"%%submarine --map path={data}/*.csv --gpus 0 -o lines,twice\n"
        "lines = count(open(path).read())\ntwice = [lines] * 2\nkept = 1"
    )
    assert not ran.of_type("error"), ran.error
    told = kernel.run("print(lines, twice, path, 'kept' in dir())").stream("stdout")
    assert told.strip() == "[0, 1, 2] [[0, 0], [1, 1], [2, 2]] mine False"


def test_a_call_that_fails_hides_none_of_the_others(kernel, data):
    ran = kernel.run(
        f"%%submarine --map path={data}/*.csv --gpus 0 -o each\n"
        "lines = count(open(path).read())\n"
        "each = 2 / lines"
    )
    assert "ZeroDivisionError" in ran.error
    assert "line 3" in ran.text, ran.text
    assert "1 of 3 calls failed" in ran.text
    assert kernel.run("print(each)").stream("stdout").strip() == "[None, 2.0, 1.0]"


def test_detached_it_is_the_map(kernel, data):
    kernel.run(f"%%submarine --map path={data}/*.csv --gpus 0 --detach\nlen(path) and count(path)")
    assert kernel.run("print(list(_))").stream("stdout").strip() == "[1, 1, 1]"


def test_what_is_not_possible_is_refused(kernel, data):
    for options, body, words in (
        (f"--map path={data}/*.csv", "count('')", "the cell does not read path"),
        (f"--map path={data}/*.tsv", "path", "there is no file"),
        (f"--map path={data}/*.csv --dry-run", "path", "--dry-run is not for a map"),
        (f"--map path={data}/*.csv --trials 2", "path", "--trials is not for a map"),
        (f"--map path={data}/*.csv --num_ps 1", "path", "is not for a map"),
    ):
        ran = kernel.run(f"%%submarine {options} --gpus 0\n{body}")
        assert words in ran.error, (options, ran.text)
