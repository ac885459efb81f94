"""Cells that ran become a script that does the same: what code needs travels as source."""

from __future__ import annotations

import builtins
import os
import subprocess
import sys

from submarine_engine.bundle import Cell, build


def test_only_what_is_needed_travels(notebook):
    notebook.run("import os\nimport json\n\nLIMIT = 3\nOTHER = 4")
    notebook.run(
        "def used(n):\n    return json.dumps([n] * LIMIT)\n\ndef unused():\n    return OTHER"
    )
    bundle = notebook.bundle("print(used(1))")
    assert notebook.result(bundle) == "[1, 1, 1]\n"
    for name in ("import os", "OTHER", "unused"):
        assert name not in bundle.script


def test_the_latest_definition_wins_whatever_the_order(notebook):
    notebook.run("def f():\n    return g()")
    notebook.run("def g():\n    return 'old'")
    notebook.run("def g():\n    return 'new'")
    bundle = notebook.bundle("print(f())")
    assert notebook.result(bundle) == "new\n"
    assert "old" not in bundle.script


def test_a_cell_that_was_run_again_is_written_once_under_its_last_number(notebook):
    base = "class Base:\n    size = 1"
    notebook.run(base).run("class Net(Base):\n    pass").run(base)
    bundle = notebook.bundle("print(Net.size, issubclass(Net, Base))")
    assert notebook.result(bundle).split()[0] == "1"
    assert bundle.script.count("class Base") == 1
    assert "# %% In [3]\nclass Base" in bundle.script


def test_lines_from_the_one_that_raised_on_took_no_effect(notebook):
    notebook.run("def f():\n    return 1")
    notebook.run("x = 1\nraise ValueError\ndef f():\n    return 2", executed=1)
    assert notebook.job("print(f(), x)") == "1 1\n"


def test_a_statement_that_raised_half_way_took_no_effect(notebook):
    notebook.run("def f():\n    return 1")
    notebook.run("if True:\n    y = 1\n    1 / 0\n    def f(): return 2", executed=0)
    assert notebook.job("print(f())") == "1\n"


def test_methods_that_were_put_in_later_come_along(notebook):
    notebook.run("class Net:\n    pass")
    notebook.run("def forward(self):\n    return OFFSET\n\nNet.forward = forward\nOFFSET = 4")
    notebook.run("def show(self):\n    return 'shown'\n\nsetattr(Net, 'show', show)")
    assert notebook.job("print(Net().forward(), Net().show())") == "4 shown\n"


def test_methods_of_a_class_that_was_defined_again_since_do_not(notebook):
    notebook.run("class Net:\n    pass").run("Net.forward = print").run("class Net:\n    pass")
    assert "forward" not in notebook.bundle("Net()").script


def test_implementations_of_a_generic_function_come_along(notebook):
    notebook.run(
        "import functools\n\n@functools.singledispatch\ndef show(x):\n    return 'any'\n\n"
        "@show.register\ndef _(x: int):\n    return 'int'"
    )
    assert notebook.job("print(show(1), show('a'))") == "int any\n"


def test_conditional_definitions_travel_whole(notebook):
    notebook.run(
        "try:\n    import not_there_at_all as fast\nexcept ImportError:\n    fast = None\n"
        "if fast is None:\n    def solve():\n        return 'slow'\n"
        "else:\n    def solve():\n        return 'fast'"
    )
    assert notebook.job("print(solve(), fast)") == "slow None\n"


def test_modules_kept_in_variables_are_imported(notebook):
    notebook.run("import os.path\nimport xml.dom\nimport xml.etree.ElementTree as ET\np = os.path")
    bundle = notebook.bundle("print(p.join('a', 'b'), ET.fromstring('<a/>').tag, xml.dom.Node)")
    assert notebook.result(bundle).startswith("a/b a <class")


def test_star_imports_give_the_names_that_are_used(notebook):
    notebook.run("from math import *")
    bundle = notebook.bundle("print(floor(2.5))")
    assert "from math import floor" in bundle.script
    assert notebook.result(bundle) == "2\n"


def test_future_imports_hold_for_all(notebook):
    notebook.run("from __future__ import annotations")
    notebook.run("def f(x: NotThere) -> Neither:\n    return x")
    bundle = notebook.bundle("print(f(1))")
    assert notebook.result(bundle) == "1\n"
    assert bundle.script.index("from __future__") < bundle.script.index("def f")


def test_functions_may_set_globals(notebook):
    notebook.run("def start():\n    global steps\n    steps = 3")
    assert notebook.job("start()\nprint(steps)") == "3\n"


def test_names_in_every_scope_are_told_apart(notebook):
    notebook.run("x = 'outer'\ndef show(y=[x for _ in 'ab']):\n    return [x for x in y], x")
    notebook.run("class C:\n    x = x + '!'\n    def get(self):\n        return x")
    main = "print(show(), C.x, C().get(), (lambda x: x)(1), f'{x!r:>9}')"
    assert notebook.job(main) == "(['outer', 'outer'], 'outer') outer! outer 1   'outer'\n"


def test_local_modules_travel_and_installed_ones_do_not(notebook):
    (notebook.folder / "helpers.py").write_text("def helped():\n    return 'helped'\n")
    bundle = notebook.bundle(
        "import pytest\nfrom helpers import helped\n\nprint(helped())", root=notebook.folder
    )
    assert bundle.manifest.modules == ("helpers.py",)
    assert notebook.result(bundle) == "helped\n"


def test_a_local_module_may_be_called_like_the_script(notebook):
    (notebook.folder / "script.py").write_text("WORD = 'mine'\n")
    bundle = notebook.bundle("import script\n\nprint(script.WORD)", root=notebook.folder)
    assert bundle.manifest.entry != "script.py"
    assert notebook.result(bundle) == "mine\n"


def test_names_of_the_script_never_hide_those_of_the_cells(notebook):
    notebook.run(
        "import json as pickle\n\nclass Path:\n    pass\n\ndef load_values():\n    return 7"
    )
    notebook.run("data = list(range(500))\npath = Path()\nNotebookUnpickler = 8")
    main = "print(pickle.dumps(data[:2]), isinstance(path, Path), load_values(), NotebookUnpickler)"
    assert notebook.job(main) == "[0, 1] True 7 8\n"


def test_programs_leave_their_main_block_behind(notebook):
    source = """
import sys

from json import dumps

SIZE = 3


def train():
    return dumps(SIZE)


if __name__ == "__main__":
    import csv
    sys.exit(train())
"""
    notebook.namespace.update(SIZE=3)
    cell = Cell(number=None, source=source, file="/somewhere/train.py")
    bundle = build(Cell(number=1, source="print(train())"), [cell], notebook.namespace)
    assert "# %% train.py\n" in bundle.script
    assert "sys" not in bundle.script
    assert notebook.result(bundle) == "3\n"


def test_what_a_programs_main_block_binds_can_be_needed(notebook):
    source = """
def show():
    return csv.__name__ + str(n)

if __name__ == "__main__":
    import csv
    n = 3
"""
    notebook.namespace.update(n=3)
    cell = Cell(number=None, source=source, file="/somewhere/train.py")
    bundle = build(Cell(number=1, source="print(show())"), [cell], notebook.namespace)
    assert notebook.result(bundle) == "csv3\n"


def test_the_same_input_gives_the_same_bytes_in_every_process(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import sys\nfrom submarine_engine.bundle import Cell, build\n"
        "source = '''import os, json, re, csv\n"
        "names = {'b', 'a', 'c'}\nbig = set(map(str, range(99)))\n"
        "class A: pass\nclass B(A): pass\n"
        "both = [A(), B()]\ndef f(): return os, json, re, csv, names, big, both'''\n"
        "exec(source)\n"
        "b = build(Cell(number=2, source='f()'), [Cell(number=1, source=source)], globals())\n"
        "print(b.hash, b.script)\n"
    )
    outputs = {
        subprocess.run(
            [sys.executable, str(program)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "2", "3")
    }
    assert len(outputs) == 1


def test_what_ipython_puts_among_the_builtins_is_imported(notebook, monkeypatch):
    from IPython.display import display

    monkeypatch.setattr(builtins, "display", display, raising=False)
    notebook.namespace["open"] = "IPython's own"
    notebook.namespace["exit"] = "IPython's own"
    bundle = notebook.bundle("display('x')\nprint(open.__name__, exit is None)")
    assert "from IPython.display import display\n" in bundle.script
    assert "IPython's own" not in bundle.script


def test_functions_of_a_main_block_are_moved_out_of_it(notebook):
    source = '''
if __name__ == "__main__":
    TEXT = """a
  b"""

    def f():
        """Say it.

        Well.
        """
        return """c
  d""", TEXT
'''
    notebook.run(source)
    bundle = notebook.bundle("print(f())")
    assert "\ndef f():\n    " in bundle.script
    assert notebook.result(bundle) == "('c\\n  d', 'a\\n  b')\n"


def test_long_sums_are_no_deep_nesting(notebook):
    notebook.run("x = 1")
    terms = " + ".join(["x"] * 900)
    assert notebook.job(f"print({terms})") == "900\n"
