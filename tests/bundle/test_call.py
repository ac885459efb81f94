"""A function call as a job: the script ends in the call, as a person would write it."""

from __future__ import annotations

import functools
import json
import math
import sys

import pytest
from submarine_engine.bundle import Cell, build_call
from submarine_engine.errors import CannotTravelError, UndefinedNameError


def last(bundle):
    """The lines of the closing block."""
    return bundle.script.split('if __name__ == "__main__":\n')[1]


@pytest.fixture
def trained(notebook):
    notebook.run("def train(*args, **kwargs):\n    print(*args, *sorted(kwargs.items()))")
    return notebook


def test_small_arguments_are_written_out(trained, formatted):
    train = trained.namespace["train"]
    bundle = trained.call(train, 3, "a", [1, 2], rate=0.1, layers=(8, 4), note=None)
    assert last(bundle) == '    train(3, "a", [1, 2], rate=0.1, layers=(8, 4), note=None)\n'
    assert "# %% the call\n" in bundle.script
    assert trained.result(bundle) == "3 a [1, 2] ('layers', (8, 4)) ('note', None) ('rate', 0.1)\n"
    formatted(bundle)


def test_what_has_a_name_goes_by_it(trained):
    trained.run("data = list(range(500))\nother = data\ndef loss():\n    return 1")
    names = trained.namespace
    bundle = trained.call(names["train"], names["loss"], data=names["data"], other=names["other"])
    assert last(bundle) == "    train(loss, data=data, other=other)\n"
    assert [value.name for value in bundle.manifest.values] == ["data", "other"]


def test_what_has_none_travels_under_the_parameters_name(notebook):
    notebook.run(
        "def train(samples, scale):\n    print(len(samples), len(scale), list)\n\nscale = 1"
    )
    bundle = notebook.call(notebook.namespace["train"], list(range(500)), scale=list(range(600)))
    assert last(bundle) == "    train(samples, scale=scale_2)\n"
    assert notebook.result(bundle) == "500 600 <class 'list'>\n"


def test_long_calls_are_laid_out_as_the_formatter_does(trained, formatted):
    train = trained.namespace["train"]
    for count, width in ((8, 7), (12, 7), (3, 36)):
        kwargs = {f"{'name' * (width // 4)}{n}": "x" * 4 for n in range(count)}
        formatted(trained.call(train, **kwargs))
    formatted(trained.call(train, "x" * 40, ["y" * 20, "z" * 9]))


def test_odd_keywords_are_passed_on(trained):
    bundle = trained.call(trained.namespace["train"], **{"class": 1, "two words": 2})
    assert trained.result(bundle) == "('class', 1) ('two words', 2)\n"


def test_partials_are_unfolded(trained):
    part = functools.partial(trained.namespace["train"], 1, a=2, b=3)
    bundle = trained.call(functools.partial(part, 4), b=5)
    assert last(bundle) == "    train(1, 4, a=2, b=5)\n"


def test_methods_are_called_on_their_object(notebook):
    notebook.run(
        "class Trainer:\n    def __init__(self):\n        self.steps = list(range(300))\n"
        "    def fit(self, n):\n        print(n, len(self.steps))\n"
        "    @classmethod\n    def make(cls):\n        print(cls.__name__)"
    )
    trainer = notebook.namespace["Trainer"]()
    bundle = notebook.call(trainer.fit, 1)
    assert last(bundle) == "    trainer.fit(1)\n"
    assert notebook.result(bundle) == "1 300\n"
    notebook.run("t = Trainer()")
    assert last(notebook.call(notebook.namespace["t"].fit, 2)) == "    t.fit(2)\n"
    assert last(notebook.call(trainer.make)) == "    Trainer.make()\n"


def test_functions_of_modules_are_imported(trained):
    assert last(trained.call(math.sqrt, 2.0)) == "    sqrt(2.0)\n"
    bundle = trained.call(json.dumps, {"a": json.JSONEncoder})
    assert "from json import dumps" in bundle.script
    assert last(trained.call(print, "x")) == '    print("x")\n'
    bundle = trained.call(trained.namespace["train"], json.JSONEncoder.encode)
    assert last(bundle) == "    train(JSONEncoder.encode)\n"


def test_modules_beside_the_notebook_travel_with_the_function(notebook):
    (notebook.folder / "beside_call.py").write_text("def train(n):\n    print('beside', n)\n")
    sys.path.insert(0, str(notebook.folder))
    try:
        from beside_call import train
    finally:
        sys.path.remove(str(notebook.folder))
    bundle = notebook.call(train, 1)
    del sys.modules["beside_call"]
    assert bundle.manifest.modules == ("beside_call.py",)
    assert notebook.result(bundle) == "beside 1\n"


def test_lambdas_travel_as_they_were_written(notebook):
    notebook.run("SCALE = 3")
    bundle = notebook.call(eval_in(notebook, "lambda x, y=2: print(x * y * SCALE)"), 5)
    assert "    function = lambda x, y=2: print(x * y * SCALE)\n    function(5)\n" in bundle.script
    assert notebook.result(bundle) == "30\n"


def test_lambdas_in_containers_travel(notebook):
    notebook.run("def train(tools):\n    print(tools['f']())")
    tools = {"f": eval_in(notebook, "lambda: 1")}
    assert notebook.result(notebook.call(notebook.namespace["train"], tools)) == "1\n"


def eval_in(notebook, source):
    """Evaluate a lambda as a cell would, so that its source is where tracebacks look for it."""
    import linecache

    name = f"<cell {len(linecache.cache)}>"
    linecache.cache[name] = (len(source), None, [source], name)
    return eval(compile(source, name, "eval"), notebook.namespace)  # noqa: S307 - a kernel


def test_functions_made_inside_others_travel_by_value(notebook):
    notebook.run(
        "scale = 3\n"
        "def outer(k):\n"
        "    seen = []\n"
        "    def inner(x):\n"
        "        seen.append(x)\n"
        "        print(k * x * scale, seen, below(1))\n"
        "    def below(n):\n"
        "        return n and below(n - 1)\n"
        "    class Net:\n"
        "        def __init__(self, size):\n"
        "            self.size = size * k\n"
        "            print(self.size)\n"
        "    return inner, lambda x: print(x + k), Net"
    )
    inner, add, net = notebook.namespace["outer"](2)
    inner(1)
    bundle = notebook.call(inner, 5)
    assert bundle.script.rstrip().endswith("inner(5)")
    assert [(one.name, one.how) for one in bundle.manifest.values] == [("inner", "cloudpickle")]
    shown = [notebook.result(notebook.call(*call)) for call in ((inner, 5), (add, 1), (net, 4))]
    assert shown == ["30 [1, 5] 0\n", "3\n", "8\n"]


def test_a_function_whose_name_means_another_now_is_refused(trained):
    old = trained.namespace["train"]
    trained.run("def train():\n    pass")
    with pytest.raises(CannotTravelError, match="defined again"):
        trained.call(old)


def test_arguments_that_cannot_travel_are_refused(trained):
    with pytest.raises(CannotTravelError) as caught:
        trained.call(trained.namespace["train"], source=(n for n in range(3)))
    assert "`source`" in caught.value.what
    assert caught.value.where == "the call"


def test_a_function_whose_source_is_nowhere_goes_by_value(notebook):
    exec("def hidden():\n    print(1)", notebook.namespace)  # noqa: S102 - no cell has it
    assert notebook.result(notebook.call(notebook.namespace["hidden"])) == "1\n"


def test_undefined_names_of_the_function_are_told(notebook):
    notebook.run("def train():\n    return nowhere")
    with pytest.raises(UndefinedNameError) as caught:
        notebook.call(notebook.namespace["train"])
    assert caught.value.where == "In [1], line 2"


def test_coroutine_functions_are_run(notebook):
    notebook.run("async def train(n):\n    print('ran', n)")
    bundle = notebook.call(notebook.namespace["train"], 1)
    assert last(bundle) == "    asyncio.run(train(1))\n"
    assert notebook.result(bundle) == "ran 1\n"


def test_decorated_functions_go_by_their_name(notebook):
    notebook.run("import functools\n\n@functools.lru_cache\ndef train(n):\n    print(n)")
    bundle = notebook.call(notebook.namespace["train"], 4)
    assert notebook.result(bundle) == "4\n"


def test_programs_can_call_their_own_functions(notebook):
    source = """
SIZE = 2

def train(n):
    print(n * SIZE)

if __name__ == "__main__":
    launch(train, 3)
"""
    notebook.run(source, executed=5)
    cell = Cell(number=None, source=source, file="/somewhere/program.py")
    bundle = build_call(notebook.namespace["train"], (3,), {}, [cell], notebook.namespace)
    assert "launch" not in bundle.script
    assert bundle.manifest.lines[-1].cell == "/somewhere/program.py"
    assert notebook.result(bundle) == "6\n"
