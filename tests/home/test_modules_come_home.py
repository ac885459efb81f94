"""What a job's cell sets on a module of the notebook's is set there afterwards."""

import os
import sys
import textwrap
from pathlib import Path

import pytest

SOURCE = """
import threading

V = 1
D = {"rows": [1]}
SEEN = []
HANDLER = None
LOCK = threading.Lock()
OPS = {"double": lambda x: 2 * x}


class Config:
    rate = 0.1
    layers = [1]


class State:
    def __init__(self):
        self.steps = 0


state = State()


def bump():
    global V
    V += 1
    state.steps += 1
    SEEN.append(V)
    return V
"""


@pytest.fixture
def cfg(notebook, monkeypatch):
    """Write a module beside the notebook."""
    Path("my_cfg.py").write_text(SOURCE)
    Path("my_other.py").write_text("import my_cfg\n\n\ndef go():\n    return my_cfg.bump()\n")
    monkeypatch.syspath_prepend(str(Path.cwd()))
    yield notebook
    for name in ("my_cfg", "my_other"):
        sys.modules.pop(name, None)


def test_what_is_set_on_a_module(cfg, capsys):
    cfg.run("import my_cfg\nD, state, Config = my_cfg.D, my_cfg.state, my_cfg.Config")
    cfg.job(
        """
        my_cfg.V = 77
        my_cfg.D["a"] = 1
        my_cfg.NEW = [1]
        held = my_cfg.D
        del my_cfg.HANDLER
        my_cfg.Config.rate = 0.5
        my_cfg.Config.layers.append(2)
        my_cfg.OPS["one"] = 1
        """
    )
    module = sys.modules["my_cfg"]
    assert module.V == 77
    assert module.D == {"rows": [1], "a": 1}
    assert module.D is cfg["D"] is cfg["held"]
    assert module.NEW == [1]
    assert not hasattr(module, "HANDLER")
    assert (module.Config.rate, module.Config.layers) == (0.5, [1, 2])
    assert module.Config is cfg["Config"]
    assert module.OPS["one"] == 1
    assert module.OPS["double"](2) == 4
    assert "stayed" not in capsys.readouterr().err


def test_what_a_function_of_it_sets_however_it_is_reached(cfg, capsys):
    cfg.run("from my_cfg import SEEN, state\nimport my_other")
    cfg.job("my_other.go()\nimport my_cfg\nmy_cfg.bump()")
    assert sys.modules["my_cfg"].V == 3
    assert cfg["SEEN"] == [2, 3]
    assert cfg["SEEN"] is sys.modules["my_cfg"].SEEN
    assert cfg["state"].steps == 2
    assert "stayed" not in capsys.readouterr().err


def test_a_module_that_only_the_job_has_imported(cfg):
    cfg.job("def go():\n    import my_cfg\n    return my_cfg.bump()\ngo()")
    assert sys.modules["my_cfg"].V == 2


def test_what_cannot_come_home_is_named(cfg, capsys):
    cfg.run("import my_cfg")
    cfg.job("import socket\nmy_cfg.V = socket.socket()\nmy_cfg.SEEN.append(5)")
    said = capsys.readouterr().err
    assert "stayed in the job: `my_cfg.V` (socket.socket: " in said
    assert sys.modules["my_cfg"].V == 1
    assert sys.modules["my_cfg"].SEEN == [5]


def test_a_value_of_the_notebook_set_on_a_module_stays_that_value(cfg):
    cfg.run("import my_cfg\nmodel = {'w': 1}")
    cfg.job("model['w'] = 2\nmy_cfg.HANDLER = model")
    assert sys.modules["my_cfg"].HANDLER is cfg["model"]
    assert cfg["model"] == {"w": 2}


def test_what_the_notebook_has_set_on_a_module_is_there_in_the_job(cfg):
    cfg.run("import my_cfg\nimport my_other\nfrom my_cfg import D as rows")
    cfg.run("my_other.go()\nmy_cfg.D['seen'] = rows\nmy_cfg.Config.layers.append(9)")
    cfg.run("my_cfg.HANDLER = lambda: my_cfg.V")
    cfg.job(
        """
        found = my_cfg.V, my_cfg.SEEN, my_cfg.state.steps, my_cfg.HANDLER(), my_cfg.Config.layers
        alike = rows is my_cfg.D, rows["seen"] is rows
        my_other.go()
        rows["b"] = 2
        """
    )
    module = sys.modules["my_cfg"]
    assert cfg["found"] == (2, [2, 3], 1, 2, [1, 9])
    assert cfg["alike"] == (True, True)
    assert (module.V, module.SEEN, module.state.steps, module.D["b"]) == (3, [2, 3], 2, 2)
    assert cfg["found"][1] is module.SEEN
    assert cfg["rows"] is module.D


def test_what_the_cell_of_the_import_itself_has_called(cfg):
    cfg.run("import my_cfg\nmy_cfg.bump()\nmy_cfg.Config.layers.append(2)")
    cfg.job("found = my_cfg.V, list(my_cfg.SEEN), my_cfg.Config.layers\nmy_cfg.bump()")
    assert cfg["found"] == (2, [2], [1, 2])
    assert (sys.modules["my_cfg"].V, sys.modules["my_cfg"].SEEN) == (3, [2, 3])


def test_what_the_job_of_the_import_itself_has_called_is_there_in_the_next(cfg):
    cfg.job("import my_cfg\nmy_cfg.bump()")
    cfg.job("found = my_cfg.V, my_cfg.SEEN")
    assert cfg["found"] == (2, [2])


def test_a_module_that_is_reloaded_keeps_what_reloading_leaves(cfg):
    cfg.run("import importlib, my_cfg\nmy_cfg.extra = 5\nmy_cfg.V = 9\nimportlib.reload(my_cfg)")
    cfg.job("found = my_cfg.extra, my_cfg.V")
    assert cfg["found"] == (5, 1)


@pytest.mark.parametrize("notebook", ["plain"], indirect=True)
def test_calls_before_the_extension_was_loaded(cfg):
    cfg.run("import my_cfg, my_other")
    cfg.run("my_other.go()\nmy_cfg.Config.rate = 0.7")
    cfg.run("%load_ext submarine_magics")
    script = cfg.job("print(my_cfg.V)", "--dry-run").data
    cfg.job(
        "found = my_cfg.V, list(my_cfg.SEEN), my_cfg.state.steps, my_cfg.Config.rate\nmy_other.go()"
    )
    assert cfg["found"] == (2, [2], 1, 0.7)
    assert sys.modules["my_cfg"].V == 3
    assert "my_cfg.D" not in script  # its file tells that it is as it was


@pytest.mark.parametrize("notebook", ["plain"], indirect=True)
def test_a_module_that_no_cell_had_used_yet_is_as_its_file_makes_it(cfg):
    cfg.run("import my_cfg\n%load_ext submarine_magics")
    assert "load_values" not in cfg.job("print(my_cfg.V)", "--dry-run").data


def test_own_modules_are_found_as_without_the_extension(cfg):
    import importlib.util

    spec = importlib.util.find_spec("my_cfg")
    assert spec.origin == str(Path("my_cfg.py").resolve())
    cfg.run("import my_cfg")
    assert type(sys.modules["my_cfg"].__loader__).__name__ == "SourceFileLoader"
    assert sys.modules["my_cfg"].__spec__.loader is sys.modules["my_cfg"].__loader__
    with pytest.raises(ModuleNotFoundError, match="my_cfgs"):
        cfg.run("import my_cfgs")


def test_imports_go_on_where_the_working_directory_is_gone(cfg, tmp_path):
    (tmp_path / "gone").mkdir()
    here = Path.cwd()
    os.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    try:
        with pytest.raises(ModuleNotFoundError, match="my_missing"):
            cfg.run("import my_missing")
    finally:
        os.chdir(here)


def test_a_module_that_the_script_does_not_name_has_what_was_set(cfg):
    cfg.run("import my_cfg, my_other")
    cfg.run("my_cfg.bump()")
    assert cfg.job("my_other.go()") == 3
    assert sys.modules["my_cfg"].V == 3


def test_what_lies_inside_of_what_a_module_holds_stays_the_same_objects(cfg):
    source = """
    import numpy
    from collections import defaultdict
    D = {"rows": [1], ("a", 1): [0], "t": ([1], {"a": []})}
    groups = defaultdict(list, a=[1])
    W = {"w": numpy.zeros(2)}
    class Node:
        def __init__(self):
            self.kids, self.up = [], None
    root = Node()
    root.kids.append(Node())
    root.kids[0].up = root
    def go():
        D["rows"].append(2)
        D["a", 1].append(1)
        D["t"][1]["a"].append(3)
        groups["a"].append(2)
        groups["b"].append(1)
        W["w"][0] += 5
        root.kids[0].kids.append(Node())
    """
    Path("my_cfg.py").write_text(textwrap.dedent(source))
    cfg.run(
        "import my_cfg\nD, groups, root, w = my_cfg.D, my_cfg.groups, my_cfg.root, my_cfg.W['w']"
    )
    cfg.run("rows, t, group, kid = D['rows'], D['t'][1], groups['a'], root.kids[0]")
    cfg.job("my_cfg.go()\ngrandchild = my_cfg.root.kids[0].kids[0]")
    module = sys.modules["my_cfg"]
    assert cfg["rows"] == [1, 2]
    assert cfg["rows"] is module.D["rows"]
    assert module.D["a", 1] == [0, 1]
    assert cfg["t"] == {"a": [3]}
    assert (cfg["group"], dict(module.groups)) == ([1, 2], {"a": [1, 2], "b": [1]})
    assert list(cfg["w"]) == [5, 0]
    assert cfg["kid"].kids == [cfg["grandchild"]]
    assert cfg["kid"].up is module.root is cfg["root"]


def test_what_a_value_shares_with_the_inside_of_a_module_stays_one(cfg):
    cfg.run("import my_cfg\nrows = my_cfg.D['rows']")
    cfg.job("my_cfg.D['rows'].append(2)\nfound = list(rows)")
    assert cfg["found"] == [1, 2]
    assert cfg["rows"] is sys.modules["my_cfg"].D["rows"]


def test_what_was_not_changed_is_not_sent(cfg):
    cfg.run("import my_cfg")
    script = cfg.job("print(my_cfg.V)", "--dry-run").data
    assert "my_cfg." not in script.replace("print(my_cfg.V)", "")


def test_what_a_value_shares_with_a_module_stays_one(cfg):
    cfg.run("import my_cfg, my_other")
    cfg.run("rows = my_cfg.D\nbox = {'seen': my_cfg.SEEN}\nstate = my_cfg.state")
    cfg.job(
        """
        my_other.go()
        my_cfg.D["b"] = 2
        found = rows["b"], list(box["seen"]), state.steps
        """
    )
    module = sys.modules["my_cfg"]
    assert cfg["found"] == (2, [2], 1)
    assert cfg["rows"] is module.D
    assert cfg["box"]["seen"] is module.SEEN
    assert cfg["state"] is module.state
    assert (module.D["b"], module.SEEN, module.state.steps) == (2, [2], 1)


def test_a_launched_function_finds_what_was_set_on_a_module(cfg, monkeypatch):
    monkeypatch.setattr("submarine_magics.launching.get_ipython", lambda: cfg.shell)
    cfg.run("import my_cfg, my_other\nfrom submarine_magics import launch, submit")
    cfg.run("my_cfg.bump()\nmy_cfg.Config.rate = 0.7")
    cfg.run("def go():\n    return my_cfg.V, my_cfg.SEEN, my_cfg.state.steps, my_cfg.Config.rate")
    assert cfg.run("launch(go, gpus=0)") == (2, [2], 1, 0.7)
    assert cfg.run("submit(my_other.go, gpus=0).result(180)") == 3
