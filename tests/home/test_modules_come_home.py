"""What a job's cell sets on a module of the notebook's is set there afterwards."""

import sys
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


def test_a_module_that_the_script_does_not_name_has_what_was_set(cfg):
    cfg.run("import my_cfg, my_other")
    cfg.run("my_cfg.bump()")
    assert cfg.job("my_other.go()") == 3
    assert sys.modules["my_cfg"].V == 3


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
