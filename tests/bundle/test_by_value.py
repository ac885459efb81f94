"""What no name leads to travels by value: lambdas, and what functions have defined."""

import subprocess
import sys
import types

import pytest


def test_lambdas_inside_values_travel_and_read_the_variables_of_the_script(notebook):
    notebook.run("import math\nscale = 3\ndef twice(x): return 2 * x")
    notebook.run("steps = {'grow': lambda x: twice(x) * scale, 'root': lambda x: math.sqrt(x)}")
    bundle = notebook.bundle("scale = 5\nprint(steps['grow'](1), steps['root'](4), twice(1))")
    assert notebook.result(bundle) == "10 2.0 2\n"
    assert {value.name: value.how for value in bundle.manifest.values} == {"steps": "cloudpickle"}
    assert "def twice(x)" in bundle.script


def test_a_lambda_does_not_write_to_a_copy_of_the_variables(notebook):
    notebook.run(
        "count = 0\ndef make():\n    def add():\n        global count\n        count += 1\n"
        "    return add"
    )
    notebook.run("tools = [make()]")
    assert notebook.job("tools[0]()\nprint(count)") == "1\n"


def test_objects_of_classes_that_functions_make_travel_with_their_state(notebook):
    notebook.run(
        "def make():\n"
        "    class Base:\n"
        "        def __init__(self): self.weights = [1]\n"
        "    class Net(Base):\n"
        "        def __init__(self): super().__init__(); self.weights.append(2)\n"
        "        def __call__(self): return sum(self.weights)\n"
        "    return Net()"
    )
    notebook.run("model = make()\nmodel.weights.append(40)\nother = [type(model), model]")
    assert notebook.job("print(model(), isinstance(model, other[0]), other[1] is model)") == (
        "43 True True\n"
    )


def test_closures_stay_shared(notebook):
    notebook.run(
        "def counter():\n"
        "    n = 0\n"
        "    def up():\n        nonlocal n\n        n += 1\n"
        "    def get(): return n\n"
        "    return up, get\n"
        "up, get = counter()\n"
        "up()"
    )
    assert notebook.job("up()\nprint(get())") == "2\n"


def test_local_functions_of_modules_read_their_module(notebook, tmp_path, monkeypatch):
    (tmp_path / "libra.py").write_text(
        "import threading\nlock = threading.Lock()\nlock.acquire()\ncalls = []\n"
        "def make():\n    def inner(x):\n        calls.append(x)\n        return len(calls)\n"
        "    return inner\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    notebook.run("import libra\nholder = {'f': libra.make()}")
    assert notebook.job("print(holder['f'](1), len(libra.calls))") == "1 1\n"


def test_an_object_keeps_the_class_that_it_was_made_of(notebook):
    notebook.run("class Net:\n    def say(self): return 'old'\nnet = Net()")
    notebook.run("class Net:\n    def say(self): return 'new'")
    assert notebook.job("print(net.say(), Net().say())") == "old new\n"


def test_what_no_statement_defines_goes_by_value(notebook):
    notebook.run("exec('class Made:\\n    x = 4\\n    def f(self): return self.x')\nmade = Made()")
    assert notebook.job("print(made.f(), Made.x, type(made) is Made)") == "4 4 True\n"


def test_the_job_needs_no_cloudpickle_of_its_own(notebook, tmp_path):
    notebook.run("steps = [lambda x: x + 1]")
    bundle = notebook.bundle("print(steps[0](1))")
    folder = tmp_path / "alone"
    bundle.write(folder)
    done = subprocess.run(
        [sys.executable, "-S", "script.py"], cwd=folder, capture_output=True, text=True, check=True
    )
    assert done.stdout == "2\n"


def test_a_bundle_without_such_values_has_no_trace_of_it(notebook):
    notebook.run("table = [object]")
    assert not any("cloudpickle" in path for path in notebook.bundle("print(table)").files)


@pytest.mark.parametrize("way", ["Net.grow = grow", "setattr(Net, 'grow', grow)"])
def test_a_class_arrives_patched_by_assignment(notebook, way):
    notebook.run("class Net:\n    size = 1").run("def grow(self): return self.size + 1").run(way)
    assert notebook.job("print(Net().grow())") == "2\n"


def test_a_class_arrives_patched_by_a_decorator(notebook):
    notebook.run(
        "def add_to_class(cls):\n"
        "    def wrapper(f):\n        setattr(cls, f.__name__, f)\n        return f\n"
        "    return wrapper"
    )
    notebook.run("class Net:\n    size = 1")
    notebook.run("@add_to_class(Net)\ndef grow(self): return self.size + 1")
    notebook.run("net = Net()")
    assert notebook.job("print(Net().grow(), net.grow())") == "2 2\n"


def test_locks_that_nobody_holds_travel(notebook):
    notebook.run(
        "import threading, queue\n"
        "class Trainer:\n"
        "    def __init__(self):\n"
        "        self.lock, self.q, self.w = threading.Lock(), queue.Queue(), [3]"
    )
    notebook.run("trainer = Trainer()\ntrainer.q.put(1)")
    assert notebook.job("with trainer.lock: print(trainer.w, trainer.q.get())") == "[3] 1\n"


def test_the_namespace_of_the_notebook_is_left_alone(notebook):
    before = notebook.namespace["__builtins__"]
    notebook.run("f = [lambda: x]")
    notebook.bundle("print(f)")
    assert notebook.namespace["__builtins__"] is before
    assert isinstance(before, types.ModuleType)
