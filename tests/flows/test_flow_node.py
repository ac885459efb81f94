"""One node of one run: once, whoever asks and however often, and with what others have left."""

from __future__ import annotations

import json

import pytest
from submarine_engine.flows.folder import make_folder
from submarine_engine.flows.leases import take
from submarine_engine.flows.model import FlowPaths
from submarine_engine.flows.records import NodeState, read_record
from submarine_engine.flows.runner import cancel_run, reset_failed
from submarine_engine.records import list_jobs, record_of

from tests.flows.conftest import TRAIN

JOB = "%%submarine --gpus 0 --name "


@pytest.fixture
def run(call, tmp_path):
    """Return a function that runs a node of ``train.flow`` in the run ``r``."""

    def node(name, *words, run="r"):
        return call("flow", "node", tmp_path / "train.flow", name, "--run", run, *words)

    return node


@pytest.fixture
def record(tmp_path):
    def read(name, run="r"):
        return read_record(FlowPaths(tmp_path / "train.flow"), run, name)

    return read


def test_values_travel_from_node_to_node(flow_of, run, record):
    flow_of(*TRAIN)
    outs = [run(name)[:2] for name in ("cell-3", "fit", "other", "score", "cell-7")]
    assert [code for code, _ in outs] == [0] * 5
    assert [out for _, out in outs] == [
        "", "fitted 8.0\n", "of 2026-11-22\n", "12.82842712474619\n",
        "score is 12.82842712474619\n",
    ]  # fmt: skip
    assert record("fit").state is NodeState.SUCCEEDED


def test_a_node_that_has_succeeded_returns_at_once(flow_of, run, record):
    flow_of(JOB + "a\nprint('ran')")
    assert run("a")[:2] == (0, "ran\n")
    jobs = len(list_jobs())
    code, out, err = run("a")
    assert (code, out) == (0, "")
    assert "has succeeded before" in err
    assert len(list_jobs()) == jobs
    assert run("a", run="other")[:2] == (0, "ran\n")


def test_a_parameter_of_a_run_is_in_its_bundles(flow_of, run, record):
    flow_of(*TRAIN)
    assert run("cell-3", "--param", "day=abc", "--param", "rate=2")[0] == 0
    assert run("fit", "--param", "day=abc", "--param", "rate=2")[1] == "fitted 18.0\n"
    assert run("other")[1] == "of abc\n"  # those that the run has begun with
    code, _, err = run("other", "--param", "day=xyz")
    assert code == 1
    assert "has begun with other parameters" in err


def test_an_error_names_notebook_cell_and_line(flow_of, run, record):
    flow_of("x = 1", JOB + "a\ny = x\nraise ValueError('no')")
    code, _, err = run("a")
    assert code == 1
    assert "train.ipynb, In [2], line 3: ValueError: no" in err
    assert "train.ipynb, In [2], line 3" in record("a").error


def test_an_error_in_joined_cells_is_at_its_own_cell(flow_of, run, record):
    flow_of("import random\na = random.random()", "b = a + 1", "c = b\n\n1 / (a - a)")
    assert run("cell-1")[0] == 1
    assert "train.ipynb, In [3], line 3: ZeroDivisionError" in record("cell-1").error


def test_a_failure_is_tried_again_and_one_of_that_try_is_returned(flow_of, run, record, tmp_path):
    flag = tmp_path / "flag"
    flow_of(f"import pathlib\nflag = pathlib.Path({str(flag)!r})", JOB + "a\nassert flag.exists()")
    run("cell-1")
    assert run("a", "--attempt", "1")[0] == 1
    jobs = len(list_jobs())
    assert run("a", "--attempt", "1")[0] == 1  # the scheduler asks again for the same try
    assert len(list_jobs()) == jobs
    flag.touch()
    assert run("a", "--attempt", "2")[0] == 0
    assert record("a").attempt == 2


@pytest.mark.parametrize("failed", [False, True])
def test_a_try_whose_process_starts_as_its_run_is_cancelled_does_not_run(
    flow_of, run, record, tmp_path, failed
):
    flow_of(JOB + f"a\nassert {not failed}")
    folder = tmp_path / "train.flow"
    if failed:
        assert run("a", "--attempt", "1")[0] == 1
    make_folder(FlowPaths(folder).run("r"))
    lock = take(FlowPaths(folder).run("r") / "runner.lock")  # as who runs it has it
    cancel_run(folder, "r")
    lock.drop()
    jobs = len(list_jobs())
    assert run("a", "--attempt", str(1 + failed))[0] == 1
    assert record("a").state is NodeState.CANCELLED
    assert len(list_jobs()) == jobs
    assert reset_failed(folder, "r") == ["a"]
    run("a", "--attempt", str(1 + failed))
    assert len(list_jobs()) == jobs + 1


def test_a_value_that_does_not_pickle_is_named_with_its_edge(flow_of, run, record):
    flow_of(JOB + "a\nrows = (n for n in range(3))\nnext(rows)", JOB + "b\nprint(next(rows))")
    code, _, err = run("a")
    assert code == 1
    assert "`rows`" in err
    assert "node a" in err
    assert record("a").state is NodeState.FAILED


def test_values_that_shared_an_object_and_come_from_two_nodes_are_refused(flow_of, run, record):
    flow_of(
        JOB + "load\nmodel = [0]",
        JOB + "one\nfirst = {'model': model}",
        JOB + "two\nsecond = {'model': model}",
        JOB + "train\nfirst['model'].append(1)\nprint(model, second)",
    )
    for name in ("load", "one", "two"):
        assert run(name)[0] == 0
    code, _, err = run("train")
    assert code == 1
    assert "shares an object with `model`" in err


def test_a_change_in_place_that_the_code_does_not_show_is_told(flow_of, run, record):
    cells = (
        JOB + "load\nrows = [len('x')]",
        JOB + "sly\ngetattr(rows, 'app' + 'end')(2)",
        JOB + "show{}\nprint(rows)",
    )
    flow_of(cells[0], cells[1], cells[2].format(""))
    assert run("load")[0] == 0
    code, _, err = run("sly")
    assert code == 1
    assert "it has changed `rows` in place, and show reads that as it was before" in err
    assert "--after sly" in err or "--after sly" in record("sly").error
    flow_of(cells[0], cells[1], cells[2].format(" --after sly"))
    for name in ("load", "sly"):
        assert run(name, run="again")[0] == 0
    assert run("show", run="again")[:2] == (0, "[1, 2]\n")


def test_a_node_is_refused_before_those_that_it_follows(flow_of, run, record):
    flow_of(*TRAIN)
    code, _, err = run("fit")
    assert code == 1
    assert "it follows cell-3, which is waiting" in err
    assert record("fit").state is NodeState.WAITING


def test_a_node_of_all_done_runs_though_a_scheduler_never_began_one(flow_of, run, record):
    flow_of(
        JOB + "fit\n1 / 0",
        JOB + "report --after fit\nprint(1)",
        JOB + "tidy --after report --condition all_done\nprint('tidied')",
    )
    assert run("fit")[0] == 1
    assert run("tidy")[:2] == (0, "tidied\n")


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("nobody", "--run", "r"), "there is no node 'nobody'"),
        (("fit",), "is no id of a run"),
        (("fit", "--run", "a\nb"), "is no id of a run"),
        (("fit", "--run", "r", "--param", "day"), "day"),
        (("fit", "--run", "r", "--param", "day=1", "--param", "day=2"), "is given twice"),
    ],
)
def test_what_cannot_be_asked_is_refused(flow_of, call, tmp_path, words, what):
    flow_of(*TRAIN)
    code, _, err = call("flow", "node", tmp_path / "train.flow", *words)
    assert code != 0
    assert what in err


def test_a_bundle_that_was_changed_is_refused(flow_of, run, tmp_path):
    flow = flow_of(JOB + "a\nprint(1)")
    script = FlowPaths(tmp_path / "train.flow").bundle(flow.node("a").bundle) / "script.py"
    script.write_text("print(2)\n")
    code, out, err = run("a")
    assert (code, out) == (1, "")
    assert "its bundle has changed since the flow was built" in err


def test_seeds_and_the_environment_reach_every_node(flow_of, run):
    flow_of(
        "import os\nimport random\nrandom.seed(7)\nos.environ['FLOW_COLOUR'] = 'green'",
        JOB + "a\nprint(random.random(), os.environ['FLOW_COLOUR'])",
    )
    assert run("a")[:2] == (0, "0.32383276483316237 green\n")


def test_the_end_is_told_to_programs(flow_of, run):
    flow_of(JOB + "a\nprint(1)")
    lines = [json.loads(line) for line in run("a", "--json")[1].splitlines()]
    assert lines[-1]["state"] == "succeeded"
    assert lines[-1]["job"]


def test_a_node_on_any_of_several_clusters_is_one_job_that_says_why(
    flow_of, run, record, monkeypatch
):
    monkeypatch.setenv("SUBMARINE_ANY_OF", "local")
    flow_of("%%submarine --gpus 0 --cluster any --name a\nprint('ran')")
    code, out, err = run("a")
    assert (code, out) == (0, "ran\n")
    assert "chosen: local: no GPU asked for" in err
    assert record("a").cluster == "local"
    assert run("a")[0] == 0
    (job,) = list_jobs()
    assert record_of(job.id)["spec"]["chosen"] == "local: no GPU asked for"
