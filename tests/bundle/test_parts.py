"""``%%submarine.python`` cells become files of one bundle, or an error at cell and line."""

import ast
import subprocess
import sys

import pytest
from submarine_engine.bundle import Cell, Part, build_parts
from submarine_engine.bundle.model import Dropped
from submarine_engine.errors import BundleError, CellSyntaxError, UndefinedNameError


def cell(number, source, **fields):
    return Cell(number=number, source=source, raw=source, **fields)


def part(title, *sources, first=1):
    return Part(title, tuple(cell(first + index, text) for index, text in enumerate(sources)))


def test_cells_become_files_that_import_each_other(tmp_path):
    bundle = build_parts(
        [
            part("nets/model.py", "class Net:\n    size = 3\n"),
            part(None, "from nets.model import Net\n", "\nprint(Net.size)\n\n\n", first=2),
        ]
    )
    assert bundle.manifest.entry == "main.py"
    assert bundle.script == (
        "# Written by Submarine; each section says which cell of the notebook it comes from.\n"
        "\n\n# %% In [2]\nfrom nets.model import Net\n"
        "\n\n# %% In [3]\nprint(Net.size)\n"
    )
    bundle.write(tmp_path)
    done = subprocess.run([sys.executable, tmp_path / "main.py"], capture_output=True, check=True)
    assert done.stdout == b"3\n"


def test_every_line_of_a_cell_is_found_again():
    sources = ["\n\nimport os\n\nx = 1\n", "def f():\n    return x\n\n\nf()\n\n"]
    bundle = build_parts([part("train.py", *sources)])
    lines = bundle.files["train.py"].decode().split("\n")
    found = {}
    for number, line in enumerate(lines, 1):
        origin = bundle.manifest.origin("train.py", number)
        if origin:
            span, cell_line = origin
            found[(span.cell_number, cell_line)] = line
    for index, source in enumerate(sources, 1):
        for number, line in enumerate(source.split("\n"), 1):
            assert found.get((index, number), "") == line


def test_same_parts_same_bytes():
    parts = [part("b.py", "import a"), part("a.py", "x = 1"), part(None, "import b")]
    assert build_parts(parts).hash == build_parts(parts).hash
    assert list(build_parts(parts).files) == ["a.py", "b.py", "main.py"]


def test_parts_of_one_title_are_one_file():
    bundle = build_parts([part("a.py", "x = 1"), part(None, "import a"), part("a.py", "y = x")])
    assert ast.unparse(ast.parse(bundle.files["a.py"])) == "x = 1\ny = x"


def test_future_imports_of_later_cells_move_to_the_top():
    source = "from __future__ import annotations\n\nx: Later = 1\n"
    bundle = build_parts([part(None, "y = 2", source, "from __future__ import annotations")])
    compile(bundle.script, "main.py", "exec")
    assert bundle.script.count("__future__") == 1
    line = bundle.script.split("\n").index("x: Later = 1") + 1
    span, cell_line = bundle.manifest.origin("main.py", line)
    assert (span.cell_number, cell_line) == (2, 3)


def test_imports_of_translated_lines_come_first():
    translated = cell(4, 'subprocess.run("ls", shell=True)', imports=("import subprocess",))
    bundle = build_parts([Part(None, (translated,))])
    assert "# %% Imports\nimport subprocess\n\n\n# %% In [4]\n" in bundle.script


def test_dropped_lines_are_listed():
    dropped = Dropped(line=1, text="%matplotlib inline", reason="display")
    bundle = build_parts([Part(None, (cell(2, "\nx = 1", dropped=(dropped,)),))])
    assert bundle.manifest.dropped == (("In [2]", dropped),)


# What runs


def test_without_a_command_main_runs_else_the_only_part():
    assert build_parts([part("train.py", "x = 1")]).manifest.entry == "train.py"
    assert (
        build_parts([part("a.py", "x = 1"), part("main.py", "y = 1")]).manifest.entry == "main.py"
    )
    with pytest.raises(BundleError) as caught:
        build_parts([part("b.py", "x = 1"), part("a.py", "y = 1")])
    assert "a.py, b.py" in caught.value.what
    assert "--worker_launch_cmd" in caught.value.fix


@pytest.mark.parametrize(
    ("command", "entry"),
    [
        ("python b.py", "b.py"),
        ("A=1 /usr/bin/python3 -u -W ignore ./b.py --file a.py", "b.py"),
        ("torchrun --nproc 2 b.py", "b.py"),
        ("exec true", "a.py"),
        ("python -c 'print(1)'", "a.py"),
        ("python $SCRIPT || python /opt/else.py", "a.py"),
        ("cd deep && python else.py", "a.py"),
    ],
)
def test_a_command_says_what_runs(command, entry):
    parts = [part("a.py", "x = 1"), part("b.py", "y = 1")]
    assert build_parts(parts, command=command).manifest.entry == entry


def test_a_command_that_runs_nothing_is_refused(tmp_path):
    for root in (None, tmp_path):
        with pytest.raises(BundleError, match=r"runs train\.py, which is neither") as caught:
            build_parts([part("b.py", "x = 1")], command="python train.py", root=root)
    assert "parts are b.py" in caught.value.fix
    with pytest.raises(BundleError, match="cannot be read: No closing quotation"):
        build_parts([part("b.py", "x = 1")], command="python 'b.py")


def test_files_beside_the_notebook_travel_with_parts_and_commands(tmp_path):
    for name in ("helpers.py", "launch.py", "deeper.py", "tool.py", "unused.py"):
        (tmp_path / name).write_text("import deeper" if name == "launch.py" else "")
    parts = [part("train.py", "import helpers")]
    command = "python launch.py && python -m tool"
    bundle = build_parts(parts, command=command, root=tmp_path)
    assert bundle.manifest.modules == ("deeper.py", "helpers.py", "launch.py", "tool.py")
    assert set(bundle.files) == {"train.py", *bundle.manifest.modules}


# What is refused


@pytest.mark.parametrize(
    "title",
    [
        *("train", "../a.py", "/a.py", "a/../b.py", ".a.py", ".py", "a b.py", "-a.py", "a//b.py"),
        *("a\n.py", "a\\b.py", "x" * 300 + ".py", "", "a/.py"),
    ],
)
def test_a_title_is_a_safe_path(title):
    with pytest.raises(BundleError, match="cannot name a part"):
        build_parts([part(title, "x = 1")])


def test_no_parts_and_two_of_one_name_are_refused():
    for parts in ([], [Part("a.py", ())]):
        with pytest.raises(BundleError, match="there is no part to run"):
            build_parts(parts)
    with pytest.raises(BundleError, match="two modules of one name"):
        build_parts([part("nets.py", "x = 1"), part("nets/a.py", "x = 1"), part(None, "x = 1")])


@pytest.mark.parametrize(
    ("title", "file", "imported"),
    [
        ("model.py", "model.py", "model"),
        ("model.py", "model/__init__.py", "model"),
        ("nets/model.py", "nets.py", "nets"),
    ],
)
def test_a_part_in_the_way_of_a_file_is_refused(tmp_path, title, file, imported):
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text("")
    with pytest.raises(BundleError, match="would be one module") as caught:
        build_parts([part(title, "x = 1"), part(None, f"import {imported}")], root=tmp_path)
    assert caught.value.where == "In [1], line 1"


def test_syntax_errors_are_shown_at_cell_and_line():
    with pytest.raises(CellSyntaxError) as caught:
        build_parts([part(None, "x = 1", "\n\ny = (\n")])
    assert caught.value.where == "In [2], line 3"
    with pytest.raises(CellSyntaxError) as caught:
        build_parts([part(None, "x = 1", "y = 2; from __future__ import annotations")])
    assert caught.value.where == "In [2], line 1"
    with pytest.raises(CellSyntaxError, match="await"):
        build_parts([part(None, "await x")])


def test_undefined_names_are_shown_at_cell_and_line():
    with pytest.raises(UndefinedNameError) as caught:
        build_parts([part("a.py", "def f():\n    return rate", "\nf(size)\n")])
    assert caught.value.where == "In [1], line 2"
    assert (
        caught.value.what == "`rate` is not defined in a.py; also missing: `size` (In [2], line 2)"
    )


def test_a_name_of_an_ordinary_cell_is_told_to_be_there():
    with pytest.raises(UndefinedNameError) as caught:
        build_parts(
            [part("a.py", "print(rate)")], cells=[cell(7, "rate = 0.1"), cell(8, "x = rate")]
        )
    assert "`rate` is defined in In [7], which is no part" in caught.value.what
    assert "begin In [7] with %%submarine.python" in caught.value.fix


@pytest.mark.parametrize("name", ["get_ipython", "display"])
def test_what_only_a_notebook_has_is_undefined(name):
    with pytest.raises(UndefinedNameError, match=name):
        build_parts([part(None, f"{name}()")])


@pytest.mark.parametrize(
    "source",
    [
        "def f():\n    return g()\ndef g(): pass\nf()",
        "print(__name__, __file__, len('a'))",
        "from somewhere import *\nthing()",
        "from os.path import *\njoin('a')",
        "from other import *\nsize",
        "try:\n    x\nexcept NameError:\n    x = 1",
        "def f():\n    global x\n    x = 1\nf()\nx",
        "[y for y in range(3)]\nclass A:\n    z = 1\n    w = z",
        "if __name__ == '__main__':\n    import os\n    os.getcwd()",
    ],
)
def test_what_is_defined_is_not_refused(source):
    build_parts([part(None, source), part("other.py", "size = 1")])
