"""Values travel as they are, and what makes a value again travels as source."""

from __future__ import annotations

import os

import pytest
from submarine_engine.errors import CannotTravelError


def test_what_was_made_with_an_older_definition_keeps_it(notebook):
    notebook.run("RATE = 1").run("def f(rate=RATE):\n    return rate").run("RATE = 2")
    assert notebook.job("print(f(), RATE)") == "1 2\n"


def test_a_value_that_is_gone_is_refused_with_the_cell_to_run_again(notebook):
    notebook.run("rates = list(range(500))")
    notebook.run("def f(rates=rates):\n    return len(rates)")
    notebook.run("rates = list(range(600))")
    with pytest.raises(CannotTravelError) as caught:
        notebook.bundle("f()")
    assert caught.value.where == "In [2], line 1"
    assert "`rates`" in caught.value.what
    assert "In [3]" in caught.value.what
    assert caught.value.fix == "run In [2] again"


def test_values_are_those_of_now(notebook):
    notebook.run("rates = [0.1, 0.2]\nconfig = {'depth': 3}")
    notebook.run("rates.append(0.3)")
    bundle = notebook.bundle("print(rates, config)")
    assert notebook.result(bundle) == "[0.1, 0.2, 0.3] {'depth': 3}\n"
    assert "rates = [0.1, 0.2, 0.3]" in bundle.script
    assert "config = {'depth': 3}" in bundle.script  # as it was written: it still holds
    assert [(v.name, v.cell, v.how) for v in bundle.manifest.values] == [
        ("rates", "In [1]", "literal")
    ]


def test_a_set_keeps_the_types_of_what_is_in_it(notebook):
    notebook.run("kinds = {1}\ndef f(kinds={1}):\n    return kinds")
    notebook.run("for one in kinds, f():\n    one.clear()\n    one.add(True)")
    assert notebook.job("print(kinds, f())") == "{True} {True}\n"


def test_larger_values_travel_as_files(notebook):
    notebook.run("samples = [n / 7 for n in range(1000)]")
    bundle = notebook.bundle("print(sum(samples))")
    assert notebook.result(bundle) == f"{sum(n / 7 for n in range(1000))}\n"
    (value,) = bundle.manifest.values
    assert (value.name, value.cell, value.type, value.how) == (
        "samples",
        "In [1]",
        "list",
        "pickle",
    )
    assert value.size == len(bundle.files["values/samples.pkl"])


def test_instances_keep_their_class(notebook):
    notebook.run("class Net:\n    def __init__(self):\n        self.seen = list(range(300))")
    notebook.run("net = Net()")
    bundle = notebook.bundle("print(isinstance(net, Net), len(net.seen))")
    assert notebook.result(bundle) == "True 300\n"
    assert bundle.script.index("class Net") < bundle.script.index("net = load_values")


def test_values_that_share_an_object_go_on_sharing_it(notebook):
    notebook.run("class Box:\n    pass\n\nbox = Box()\nbox.items = []\nholder = {'box': box}")
    assert notebook.job("box.items.append(1)\nprint(holder['box'].items)") == "[1]\n"


def test_children_of_multiprocessing_find_the_classes(notebook):
    notebook.run("class Net:\n    def __init__(self):\n        self.size = 3\n\nnet = Net()")
    notebook.run("def work(n):\n    return n * net.size * isinstance(net, Net)")
    main = """
import multiprocessing

context = multiprocessing.get_context("spawn")
with context.Pool(1) as pool:
    print(pool.map(work, [1, 2]))
"""
    assert notebook.job(main) == "[3, 6]\n"


def test_a_registry_is_filled_again_by_its_decorators(notebook):
    notebook.run(
        "MODELS = {}\n\ndef register(f):\n    MODELS[f.__name__] = f\n    return f\n\n"
        "@register\ndef small():\n    return 's'"
    )
    notebook.run("@register\ndef large():\n    return 'l'")
    assert notebook.job("print(*sorted(MODELS), MODELS['large']())") == "large small l\n"


def test_a_decorator_that_has_run_is_a_comment(notebook):
    notebook.run("MODELS = {}\n\ndef register(f):\n    MODELS[f.__name__] = f\n    return f")
    notebook.run("@register\ndef small():\n    return 's'")
    bundle = notebook.bundle("print(*MODELS, MODELS['small']())")
    assert "\n# @register  (not again: what it did is in the values)\ndef small():" in bundle.script
    assert notebook.result(bundle) == "small s\n"


def test_an_object_that_only_its_statement_can_make_is_said(notebook):
    notebook.run("class Trainer: pass\n\ntrainer = Trainer()\ntrainer.steps = 0")
    notebook.run("class Net:\n    owner = trainer\n\ntrainer.net = Net()")
    bundle = notebook.bundle("print(trainer.net.owner is trainer)")
    assert [one.name for one in bundle.manifest.again] == ["trainer"]
    assert notebook.result(bundle) == "True\n"


def test_handlers_of_a_logger_that_do_not_travel_are_said(notebook):
    notebook.run("import logging\nlog = logging.getLogger('of_a_notebook')")
    told = []
    notebook.bundle("log.info('one')", tell=told.append)
    assert not told
    notebook.run("log.addHandler(logging.StreamHandler())")
    notebook.bundle("log.info('one')", tell=told.append)
    assert len(told) == 1
    assert "`log.handlers` (logging.StreamHandler)" in told[0]


def test_lambdas_and_what_calls_made_of_functions_travel_as_source(notebook):
    notebook.run(
        "import functools\nfrom collections import namedtuple\nfrom enum import Enum\n\n"
        "twice = lambda x: 2 * x\n"
        "Point = namedtuple('Point', 'x y')\n"
        "Color = Enum('Color', 'RED BLUE')\n"
        "cached = functools.lru_cache(twice)\n"
        "half = functools.partial(lambda x, y: x / y, y=2)\n"
        "def outer(k):\n    return lambda x: x * k\n"
        "scaled = outer(5)\n"
        "both = (twice, scaled)"
    )
    notebook.run("points = [Point(1, 2)] * 30\nred = Color.RED")
    main = "print(twice(1), points[3].y, red is Color.RED, cached(2), half(3), both[1](1))"
    assert notebook.job(main) == "2 2 True 4 1.5 5\n"


def test_a_partial_of_plain_functions_travels_by_value(notebook):
    notebook.run(
        "import functools\n\ndef f(x, y):\n    return x - y\n\ng = functools.partial(f, 5)"
    )
    bundle = notebook.bundle("print(g(1))")
    assert notebook.result(bundle) == "4\n"
    assert [value.name for value in bundle.manifest.values] == ["g"]


def test_names_that_only_the_kernel_knows_are_captured(notebook):
    notebook.namespace["brought_back"] = {"loss": 0.5}
    bundle = notebook.bundle("print(brought_back)")
    assert notebook.result(bundle) == "{'loss': 0.5}\n"
    assert bundle.manifest.values[0].cell == ""


def test_what_the_main_cell_binds_is_not_taken_from_the_kernel(notebook):
    notebook.namespace["model"] = open(os.devnull)  # noqa: PTH123, SIM115 - cannot travel
    notebook.run("def evaluate():\n    return model")
    assert notebook.job("model = 3\nprint(evaluate())") == "3\n"
    notebook.namespace["model"].close()


def test_what_the_main_cell_reads_before_it_binds_is_taken_from_the_kernel(notebook):
    notebook.run("model = 1").run("def evaluate():\n    return model")
    assert notebook.job("print(evaluate())\nmodel = model + 1\nprint(evaluate())") == "1\n2\n"


def test_a_name_that_a_branch_may_bind_is_taken_where_the_kernel_has_it(notebook):
    notebook.run("rate = 0.5")
    assert notebook.job("if not rate:\n    rate = 1\nprint(rate)") == "0.5\n"


def test_values_keep_the_class_that_they_have_where_the_main_cell_has_another(notebook):
    notebook.run("class Net:\n    size = 1\n\nnet = Net()")
    main = "class Net:\n    size = 2\n\nprint(net.size, Net().size, isinstance(net, Net))"
    assert notebook.job(main) == "1 2 False\n"


def test_the_main_cell_can_build_on_the_class_of_its_name(notebook):
    notebook.run("class Net:\n    size = 1")
    assert notebook.job("class Net(Net):\n    more = 2\n\nprint(Net.size, Net.more)") == "1 2\n"


def test_values_with_strange_attributes_are_no_functions(notebook):
    notebook.run(
        "class Strange:\n    def __getattr__(self, name):\n        raise ValueError(name)\n"
        "    def __reduce__(self):\n        return Strange, ()\n\nstrange = Strange()"
    )
    assert notebook.job("print(type(strange).__name__)") == "Strange\n"
