"""Cells to nodes: what depends on what, what is refused, and with which words."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from submarine_engine.bundle import Bundle
from submarine_engine.errors import SubmarineError
from submarine_engine.flows.build import build_flow
from submarine_engine.flows.model import Flow, FlowPaths

from tests.flows.conftest import TRAIN, notebook

JOB = "%%submarine --gpus 0 --name "


def edges(flow):
    return {
        node.name: {
            name: ",".join(read.name for read in node.reads if read.node == name)
            for name in node.follows
        }
        for node in flow.nodes
    }


def test_what_a_cell_reads_that_another_binds_is_an_edge(flow_of, tmp_path):
    flow = flow_of(*TRAIN)
    assert edges(flow) == {
        "cell-3": {},
        "fit": {"cell-3": "data"},
        "other": {"cell-3": "data"},
        "score": {"other": "best", "fit": "model"},
        "cell-7": {"score": "model,score"},
    }
    assert [node.kind for node in flow.nodes] == ["cell", "job", "job", "job", "cell"]
    assert flow.node("fit").options == ("--gpus", "0", "--name", "fit")
    assert Flow.read(tmp_path / "train.flow") == flow


def test_a_bundle_without_values_of_others_is_stored(flow_of, tmp_path):
    flow = flow_of("rate = 0.5", JOB + "a\nprint(rate)", JOB + "b\nprint(1)")
    paths = FlowPaths(tmp_path / "train.flow")
    for node in flow.nodes:
        assert Bundle.read(paths.bundle(node.bundle)).hash == node.bundle
    assert "rate = 0.5" in Bundle.read(paths.bundle(flow.node("a").bundle)).script
    assert oct(paths.bundles.stat().st_mode)[-3:] == "700"


def test_the_same_notebook_gives_the_same_flow(flow_of):
    assert flow_of(*TRAIN) == flow_of(*TRAIN)


def test_each_stored_bundle_is_the_one_that_the_notebook_submits(tmp_path):
    path = notebook(
        tmp_path / "train.ipynb",
        "import math\nrate = 0.5\nlosses = []\n\n\ndef step(x):\n    return math.sqrt(x) * rate",
        JOB + "one\nlosses.append(step(4))\nstep = 3",
        JOB + "two\nfor rate in (1, 2):\n    print(math.sqrt(rate))",
    )
    flow = build_flow(path, tmp_path / "flow")
    shell = Path(__file__).with_name("shell.py")
    done = subprocess.run(
        [sys.executable, shell, path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    submitted = json.loads(done.stdout.splitlines()[-1])
    assert {str(node.cells[0]): node.bundle for node in flow.nodes} == submitted


def test_plain_cells_that_work_on_one_value_are_one_node(flow_of):
    flow = flow_of(
        "import random\n\n\ndef clean(rows):\n    return [row for row in rows if row]",
        "rows = [random.random() for _ in range(3)]",
        "other = sum(range(3))",
        "rows = clean(rows)",
        JOB + "fit\nprint(rows, other)",
        "print(rows)",
    )
    assert [(node.name, node.cells) for node in flow.nodes] == [
        ("cell-2", (2, 4)),
        ("cell-3", (3,)),
        ("fit", (5,)),
        ("cell-6", (6,)),
    ]
    assert edges(flow)["fit"] == {"cell-2": "rows", "cell-3": "other"}


def test_what_a_cell_changes_in_place_is_taken_from_it(flow_of):
    flow = flow_of(
        "losses = []\n\n\ndef note(into, value):\n    into.append(value)",
        JOB + "one\nnote(losses, 1)",
        JOB + "two\nlosses += [2]",
        JOB + "three\nprint(losses)",
        JOB + "four\nprint(losses[0])",
    )
    assert edges(flow) == {
        "one": {},
        "two": {"one": "losses"},
        "three": {"two": "losses"},
        "four": {"two": "losses"},
    }


def test_what_two_values_may_share_comes_from_one_node(flow_of):
    flow = flow_of(
        JOB + "load\nmodel = [0]",
        JOB + "bind\nholder = {'model': model}",
        JOB + "train\nholder['model'][0] = 1\nprint(model)",
    )
    assert edges(flow)["train"] == {"bind": "holder,model"}


def test_jobs_that_only_read_a_value_do_not_wait_for_each_other(flow_of):
    flow = flow_of(
        "data = list(range(3))",
        "def fit(data, rate):\n    return sum(data) * rate",
        JOB + "a\nfirst = fit(data, 1)",
        JOB + "b\nsecond = fit(data, 2)",
        JOB + "best\nprint(max(first, second))",
    )
    assert edges(flow)["a"] == edges(flow)["b"] == {"cell-1": "data"}
    assert edges(flow)["best"] == {"a": "first", "b": "second"}


def test_after_and_condition_are_of_the_cell(flow_of):
    flow = flow_of(
        JOB + "a\nprint(1)",
        JOB + "b\nprint(2)",
        JOB + "tidy --after a --after b --condition all_done\nprint(3)",
    )
    tidy = flow.node("tidy")
    assert (tidy.follows, tidy.condition) == (("a", "b"), "all_done")


def test_a_tagged_cell_is_a_job(flow_of):
    flow = flow_of(("print(1)", ["submarine:--gpus=0", "submarine:--name=tagged"]))
    assert flow.node("tagged").options == ("--gpus=0", "--name=tagged")


def test_syntax_of_the_notebook_is_translated(flow_of):
    flow = flow_of("%matplotlib inline\n%load_ext submarine_magics", JOB + "a\n!echo hello")
    assert [node.name for node in flow.nodes] == ["a"]
    assert flow.cells[0].dropped[0].text == "%matplotlib inline"


def test_a_flow_has_its_parameters_and_each_node_what_all_have(flow_of):
    flow = flow_of(*TRAIN, given={"day": "2026-01-01"}, schedule="0  2 * * *", retries=3,
                   time_limit=60.0, notify=("SLACK_URL",), name="nightly")  # fmt: skip
    assert (flow.name, flow.schedule, flow.parameters_cell) == ("nightly", "0 2 * * *", 1)
    assert [(one.name, one.default) for one in flow.parameters] == [
        ("day", "2026-01-01"),
        ("rate", 0.5),
    ]
    assert {(node.retries, node.time_limit, node.notify) for node in flow.nodes} == {
        (3, 60.0, ("SLACK_URL",))
    }


def test_a_chosen_parameter_is_in_the_stored_bundles(flow_of, tmp_path):
    flow = flow_of(("day = 'x'", ["parameters"]), JOB + "a\nprint(day)", given={"day": "y"})
    script = Bundle.read(FlowPaths(tmp_path / "train.flow").bundle(flow.node("a").bundle)).script
    assert "day = 'y'" in script
    assert "day = 'x'" not in script


def test_modules_beside_the_notebook_are_kept_in_the_flow(flow_of, tmp_path):
    (tmp_path / "helper.py").write_text("VALUE = 3\n")
    flow_of("import helper", JOB + "a\nprint(helper.VALUE)")
    kept = tmp_path / "train.flow" / "modules" / "helper.py"
    assert kept.read_text() == "VALUE = 3\n"


@pytest.mark.parametrize(
    ("cells", "where", "what", "fix"),
    [
        ([JOB + "a\nprint(model)"], "In [1], line 2", "`model` is not defined",
         "no cell of the notebook binds it"),
        ([JOB + "a\nprint(model)", "model = 1"], "In [1], line 2", "`model` is not defined",
         "In [2] binds it, below"),
        ([JOB + "a\nx = 1", JOB + "a\ny = 2"], "In [2], line 1", "In [1] is called 'a', too",
         "--name of its own"),
        ([JOB + "a --after b\nx = 1", JOB + "b --after a\ny = 2"], "node 'a'",
         "nodes wait for each other", "mend"),
        ([JOB + "a --after c\nx = 1"], "In [1], line 1", "no cell is called so", "there are a"),
        ([JOB + "ROOT\nx = 1"], "In [1], line 1", "Azkaban calls the whole flow so", "--name"),
        (["import os", JOB + "a\nx = input('who?')"], "In [2], line 2", "asks a person", "above"),
        (["who = input('who?')"], "In [1], line 1", "asks a person", "above"),
        ([JOB + "a --gpu 3\nx = 1"], "In [1], line 1", "there is no option --gpu", "--gpus"),
        ([JOB + "a --sweep lr=choice(1,2)\nx = lr"], "In [1], line 1", "a sweep is no node", "out"),
        (["%%submarine.python\nx = 1"], "In [1], line 1", "a part", "%%submarine"),
        (["x = = 1"], "In [1], line 1", "syntax", ""),
        ([JOB + "a\n%timeit 1"], "In [1], line 2", "%timeit", "time"),
        (["import os"], "", "no cell of the notebook has anything to run", ""),
        ([("a = 1", ["parameters"]), ("b = 1", ["parameters"])], "train.ipynb", "both tagged", ""),
        (["class Net:\n    seen = []", JOB + "a\nNet.seen.append(1)", JOB + "b\nprint(Net.seen)"],
         "In [2]", "it changes `Net`, which In [3] uses", "variable"),
    ],
)  # fmt: skip
def test_what_no_flow_can_be_is_refused_at_cell_and_line(flow_of, cells, where, what, fix):
    with pytest.raises(SubmarineError) as caught:
        flow_of(*cells)
    assert where in caught.value.where
    assert what.lower() in str(caught.value).lower()
    assert fix in caught.value.fix


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"schedule": "nightly"}, "'nightly' is no line of cron"),
        ({"given": {"nobody": "1"}}, "the notebook has no parameter 'nobody'"),
        ({"given": {"rate": "fast"}}, "'fast' is no value of parameter 'rate'"),
        ({"name": "a/b"}, "'a/b' cannot name a flow"),
        ({"retries": -1}, "retries=-1"),
        ({"retry_delay": -1.0}, "retry_delay=-1.0 is no length of time"),
        ({"mail": "ana@example.com, nobody"}, "'nobody' is no address of mail"),
    ],
)
def test_options_that_are_not_possible_are_refused(flow_of, options, words):
    with pytest.raises(SubmarineError, match=words):
        flow_of(*TRAIN, **options)


def test_all_missing_names_are_told_at_once(flow_of):
    with pytest.raises(SubmarineError) as caught:
        flow_of(JOB + "a\nprint(one)", JOB + "b\nprint(two)")
    assert "`one`" in str(caught.value)
    assert "`two`" in str(caught.value)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "there is no such notebook"),
        ("{", "the notebook cannot be read"),
        ("[]", "it is no notebook of format 4"),
        ('{"worksheets": []}', "it is no notebook of format 4"),
        ('{"cells": [{"cell_type": "code", "source": 3}]}', "it is no notebook of format 4"),
    ],
)
def test_what_is_no_notebook_is_refused(tmp_path, content, words):
    path = tmp_path / "train.ipynb"
    if content is not None:
        path.write_text(content)
    with pytest.raises(SubmarineError, match=words):
        build_flow(path, None)


def test_a_flow_is_drawn_with_what_travels(call, tmp_path):
    path = notebook(tmp_path / "train.ipynb", *TRAIN)
    code, out, _ = call("flow", "show", path)
    assert code == 0
    assert (
        "● score   In [6]  --gpus 0 --name score\n  ├── best ◂── other\n  └── model ◂── fit" in out
    )
    code, out, _ = call("flow", "show", path, "--json")
    assert [node["name"] for node in json.loads(out)["nodes"]][:2] == ["cell-3", "fit"]


def test_the_command_builds_a_flow(call, tmp_path):
    path = notebook(tmp_path / "train.ipynb", *TRAIN)
    words = ("--schedule", "0 2 * * *", "--param", "day=2026-01-01", "--output", tmp_path / "out")
    code, out, err = call("flow", "build", path, *words)
    assert (code, out.strip()) == (0, str(tmp_path / "out"))
    assert "5 nodes" in err
    flow = Flow.read(tmp_path / "out")
    assert (flow.schedule, flow.parameters[0].default) == ("0 2 * * *", "2026-01-01")


def test_a_scheduler_that_nobody_writes_for_is_refused(call, tmp_path):
    path = notebook(tmp_path / "train.ipynb", *TRAIN)
    code, _, err = call("flow", "build", path, "--to", "cronos")
    assert code == 64
    assert "flows cannot be written for 'cronos'" in err
    assert not (tmp_path / "train.flow").exists()
