"""The script is laid out as a person would have done it, and as ``ruff format`` leaves it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import submarine_engine
from submarine_engine.bundle import Cell, build


def test_imports_are_merged_in_the_order_of_isort(notebook, formatted):
    (notebook.folder / "beside.py").write_text("word = 'here'\n")
    sys.path.insert(0, str(notebook.folder))
    try:
        notebook.run(
            "import sys, os.path as path\nimport os\nfrom beside import word\nimport pytest"
        )
    finally:
        sys.path.remove(str(notebook.folder))
        del sys.modules["beside"]
    notebook.run("from typing import Any, TYPE_CHECKING, cast as as_type, Optional  # of all kinds")
    notebook.run(
        "from itertools import (\n    accumulate, chain, combinations, compress, count, cycle,\n"
        "    dropwhile, groupby, islice\n)"
    )
    main = (
        "print(sys, path, os, word, pytest, Any, TYPE_CHECKING, as_type, Optional)\n"
        "print(accumulate, chain, combinations, compress, count)\n"
        "print(cycle, dropwhile, groupby, islice)"
    )
    bundle = notebook.bundle(main, root=notebook.folder)
    assert bundle.script.split("# %% Imports\n", 1)[1].split("\n\n\n", 1)[0] == (
        "import os\n"
        "import os.path as path\n"
        "import sys\n"
        "from itertools import (\n    accumulate,\n    chain,\n    combinations,\n    compress,\n"
        "    count,\n    cycle,\n    dropwhile,\n    groupby,\n    islice,\n)\n"
        "from typing import TYPE_CHECKING, Any, Optional  # of all kinds\n"
        "from typing import cast as as_type  # of all kinds\n"
        "\n"
        "import pytest\n"
        "\n"
        "from beside import word"
    )
    formatted(bundle)
    notebook.result(bundle)


def test_lines_that_would_grow_too_long_are_left_to_the_person(notebook, formatted):
    word = "x" * 60
    notebook.run("def show(*values, name=None):\n    return values[0]")
    main = f'value = show("{word}", name="abc")\nprint(value)\n'
    assert len(main.split("\n", maxsplit=1)[0]) == 88
    bundle = notebook.bundle(main)
    assert bundle.script.count("    # fmt: off\n") == 1
    assert notebook.result(bundle) == f"{word}\n"
    formatted(bundle)


def test_a_main_block_of_ones_own_is_kept(notebook, formatted):
    bundle = notebook.bundle(
        'def f():\n    return 1\n\n\nif __name__ == "__main__":\n    print(f())'
    )
    assert bundle.script.count("__name__") == 1
    assert notebook.result(bundle) == "1\n"
    formatted(bundle)


def test_semicolons_that_silence_the_notebook_are_left_out(notebook, formatted):
    notebook.run("def f():\n    return 1")
    bundle = notebook.bundle("f();  # quiet")
    assert bundle.script.endswith("    f()  # quiet\n")
    formatted(bundle)
    assert notebook.bundle("x = 1; f();").script.endswith("    x = 1; f()\n")


def test_statements_that_share_a_line_are_told_apart(notebook):
    notebook.run("a = 1; b = 'ü'; import json; f = lambda: (a, b)")
    bundle = notebook.bundle("print(json.dumps(f()))")
    assert notebook.result(bundle) == '[1, "\\u00fc"]\n'


def test_constants_among_leading_definitions_stand_with_them(notebook, formatted):
    main = "N = 3\n\n\ndef f():\n    return N\n\n\nM = 4\nprint(f() + M)"
    bundle = notebook.bundle(main)
    assert bundle.script.endswith(
        "# %% In [1]\nN = 3\n\n\ndef f():\n    return N\n\n\n"
        'if __name__ == "__main__":\n    M = 4\n    print(f() + M)\n'
    )
    formatted(bundle)


def test_imports_below_statements_stay_where_they_are(notebook):
    main = """
import os

os.environ["WORD"] = "set"
import json

print(json.dumps(os.environ["WORD"]))
"""
    bundle = notebook.bundle(main)
    assert "    import json" in bundle.script
    assert notebook.result(bundle) == '"set"\n'


@pytest.mark.parametrize("newline", ["\r\n", "\r", "\n"])
def test_all_newlines_are_understood(notebook, newline):
    source = newline.join(["def f():", "    return '''a", "b'''", "", "print(f())"])
    bundle = build(Cell(number=1, source=source), [], {})
    assert notebook.result(bundle) == "a\nb\n"
    assert "\r" not in bundle.script


def test_strange_separators_inside_strings_are_no_newlines(notebook):
    notebook.run("WORDS = 'a\x0cb\u2028c\x1cd'\n\ndef f():\n    return len(WORDS)")
    bundle = notebook.bundle("print(f(), len('x\u2029y'))")
    assert notebook.result(bundle) == "7 3\n"


def test_many_values_loaded_together_are_laid_out(notebook, formatted):
    names = [f"a_rather_long_name_{n}" for n in range(6)]
    notebook.run("shared = list(range(300))\n" + "\n".join(f"{name} = [shared]" for name in names))
    bundle = notebook.bundle("\n".join(f"print(len({name}))" for name in names))
    formatted(bundle)
    assert notebook.result(bundle) == "1\n" * 6


def test_f_strings_over_several_lines_keep_their_text(notebook):
    notebook.run("x = 3")
    main = "if x:\n    text = f'''\n{x}\n  end'''\nprint(repr(text))"
    assert notebook.job(main) == "'\\n3\\n  end'\n"


@pytest.mark.parametrize(
    "every",
    [
        pytest.param(8, id="one in eight"),
        pytest.param(1, id="all", marks=pytest.mark.long),  # most of a minute
    ],
)
def test_whatever_is_formatted_stays_formatted(tmp_path, every):
    """Whole modules as main cells: this package's own are real code, laid out at 88 columns."""
    package = Path(submarine_engine.__file__).parent
    for file in sorted(package.rglob("*.py"))[::every]:
        name = "_".join(file.relative_to(package).parts)
        (tmp_path / name).write_text(file.read_text())
    ruff = [sys.executable, "-m", "ruff", "format", "--isolated", "--no-cache"]
    subprocess.run([*ruff, "--quiet", "."], cwd=tmp_path, check=True)
    for file in tmp_path.glob("*.py"):
        cell = Cell(number=1, source=file.read_text())
        if cell.source.strip() and "getpass" not in cell.source:  # a job has nobody to ask
            file.write_text(build(cell, [], {}).script)
    done = subprocess.run(
        [*ruff, "--diff", "."], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
