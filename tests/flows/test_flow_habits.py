"""Notebooks as people write them: what is in no tutorial, and yet in every folder."""

from __future__ import annotations

import subprocess
import sys

import pytest
from submarine_engine.bundle import Bundle
from submarine_engine.errors import SubmarineError
from submarine_engine.flows.build import build_flow
from submarine_engine.flows.model import FlowPaths

from tests.flows.conftest import notebook

JOB = "%%submarine --gpus 0 --name "

MESSY = (
    "!echo prepared\n%matplotlib inline",
    (
        "from statistics import *\ntotal = 0\n\n\ndef add(value):\n    global total, seen\n"
        "    total = total + value\n    seen = value"
    ),
    "%%time\nrows = [row for row in range(10) if row % 2]",
    "class Net:\n    def fit(self):\n        return mean(rows)",
    "class Net(Net):\n    def fit(self):\n        add(3)\n        return super().fit() + 1",
    "%timeit sum(rows)",
    JOB + "one\nfitted = Net().fit()\ndisplay(fitted)",
    (
        "import asyncio\n\nasync def get(x):\n    await asyncio.sleep(0)\n    return x\n\n"
        "both = await asyncio.gather(get(1), get(2))"
    ),
    JOB + "two\nprint('got', total, seen, fitted, both)\nlist = [fitted]",
    "print('then', list, total)",
)


def test_a_messy_notebook_runs_as_it_is(flow_of, call, tmp_path):
    flow = flow_of(*MESSY)
    assert [node.name for node in flow.nodes] == ["cell-1", "cell-3", "one", "cell-8", "two",
                                                  "cell-10"]  # fmt: skip
    code, out, err = call("flow", "run", tmp_path / "train.flow")
    assert code == 0, out + err
    assert "│ got 3 3 6 [1, 2]" in out
    assert "│ then [6] 3" in out
    assert "Wall time" in out


def test_what_a_function_binds_as_global_follows_who_calls_it(flow_of):
    flow = flow_of(
        "count = 0\n\n\ndef add():\n    global count\n    count = count + 1",
        JOB + "a\nadd()",
        JOB + "b\nprint(count)",
    )
    assert [read.node for read in flow.node("b").reads] == ["a"]


def test_what_commands_leave_no_code_tells_so_all_below_follows_them(flow_of):
    flow = flow_of("!echo x > data", JOB + "a\nx = open('data').read()", JOB + "b\nprint(x)")
    assert flow.node("a").after == ("cell-1",)
    assert flow.node("b").after == ()  # by way of a


def test_the_bundle_of_what_is_displayed_is_the_one_of_the_kernel(tmp_path):
    path = notebook(tmp_path / "train.ipynb", JOB + "a\ndisplay(3)")
    flow = build_flow(path, tmp_path / "flow")
    script = Bundle.read(FlowPaths(tmp_path / "flow").bundle(flow.nodes[0].bundle)).script
    assert "from IPython.display import display" in script
    # As the command line has it, too, where IPython has not put it among the builtins.
    words = ["-m", "submarine_engine.cli", "flow", "build", path, "--output", tmp_path / "other"]
    subprocess.run([sys.executable, *words], check=True, capture_output=True)
    assert (tmp_path / "other" / "bundles" / flow.nodes[0].bundle).is_dir()


def test_one_fault_is_told_once_and_not_again_by_who_needs_that_cell(flow_of):
    with pytest.raises(SubmarineError) as caught:
        flow_of("data = [nothing]", JOB + "a\nprint(data)")
    assert str(caught.value).count("is not defined") == 1


@pytest.mark.parametrize(
    ("cells", "where", "what", "fix"),
    [
        (["import ipywidgets as w\nslider = w.IntSlider(3)", JOB + "a\nprint(slider.value)"],
         "train.ipynb, In [1], line 2", "`slider` is a widget, and In [2] reads it", "parameters"),
        (["from no_such_module import *\nx = 1 + 2\nprint(x)"],
         "train.ipynb, In [1], line 1", "which names `from no_such_module import *` binds", "name"),
        (["x = %timeit -o 1"], "train.ipynb, In [1], line 1", "%timeit", ""),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_at_notebook_cell_and_line(flow_of, cells, where, what, fix):
    with pytest.raises(SubmarineError) as caught:
        flow_of(*cells)
    assert caught.value.where == where
    assert what in caught.value.what
    assert fix in caught.value.fix
