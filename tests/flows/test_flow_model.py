"""What a flow is: read back as written, sound or refused in words, and its folder's names."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from submarine_engine.bundle import Cell, Dropped
from submarine_engine.errors import CommandError, FlowError
from submarine_engine.flows.model import (
    Flow,
    FlowPaths,
    Node,
    Parameter,
    Read,
    cron_fault,
    run_folder,
)


def cell(number, source="x = 1"):
    return Cell(number=number, source=source, raw=source, id=f"id-{number}")


def job(name, number, *reads, **more):
    given = tuple(Read(name=variable, node=node) for variable, node in reads)
    return Node(name=name, cells=(number,), reads=given, **more)


FLOW = Flow(
    name="train",
    notebook="train.ipynb",
    cells=(
        cell(1, "day = '2026-11-22'"),
        replace(cell(2), imports=("import os",), dropped=(Dropped(line=1, text="%x", reason="y"),)),
        cell(3),
        cell(4),
    ),
    parameters=(
        Parameter(name="day", default="2026-11-22"),
        Parameter(name="rate", default=0.1),
        Parameter(name="sizes", default=(1, 2)),
        Parameter(name="limit"),
    ),
    parameters_cell=1,
    schedule="0 2 * * *",
    nodes=(
        Node(name="load", kind="cell", cells=(2,), binds=("data",)),
        job("fit", 3, ("data", "load"), options=("--gpus", "2"), binds=("model",), retries=2,
            time_limit=3600.0, notify=("SLACK_URL",), bundle="0" * 64),
        job("report", 4, ("model", "fit"), after=("load",), condition="all_done"),
    ),
)  # fmt: skip


def test_a_flow_is_read_as_it_was_written(tmp_path):
    path = FLOW.write(tmp_path / "flow")
    assert Flow.read(tmp_path / "flow") == FLOW
    assert path.name == "flow.json"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_a_node_follows_whom_it_reads_from_and_whom_it_names():
    assert FLOW.node("report").follows == ("fit", "load")
    assert FLOW.followers("load") == ("fit", "report")
    assert FLOW.followers("report") == ()
    with pytest.raises(FlowError, match="there is no node 'raport'") as caught:
        FLOW.node("raport")
    assert "did you mean report?" in caught.value.fix


def test_the_order_runs_and_is_else_the_notebooks():
    nodes = (job("b", 1, after=("d",)), job("a", 2), job("d", 3), job("c", 4))
    flow = Flow(name="f", cells=tuple(map(cell, range(1, 5))), nodes=nodes)
    assert [node.name for node in flow.order] == ["a", "d", "b", "c"]


def test_a_changed_flow_has_its_own_order():
    assert [node.name for node in replace(FLOW, name="other").order] == ["load", "fit", "report"]


NODE = FLOW.nodes[0]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": "a/b"}, "'a/b' cannot name a flow"),
        ({"name": ""}, "'' cannot name a flow"),
        ({"nodes": ()}, "there is no node"),
        ({"nodes": (NODE, NODE)}, "node 'load': two nodes have this name"),
        ({"nodes": (replace(NODE, name="ROOT"),)}, "no node can be called ROOT"),
        ({"nodes": (replace(NODE, name="../x"),)}, "'../x' cannot name a node"),
        ({"nodes": (replace(NODE, name="a" * 65),)}, "64 characters at most"),
        ({"nodes": (replace(NODE, kind="step"),)}, "there is no kind 'step'"),
        ({"nodes": (replace(NODE, cells=(9,)),)}, "there is no cell 9"),
        ({"nodes": (replace(NODE, cells=()),)}, "it has 0 cells"),
        ({"nodes": (job("two", 1, binds=("not a name",)),)}, "'not a name' is no name of a"),
        ({"nodes": (replace(NODE, kind="job", cells=(1, 2)),)}, "it has 2 cells, and a job has"),
        ({"nodes": (replace(NODE, options=("--gpus", "1")),)}, "plain cells have no options"),
        ({"nodes": (replace(NODE, bundle="../../x"),)}, "is no hash of a bundle"),
        ({"nodes": (replace(NODE, condition="sometimes"),)}, "there is no condition 'sometimes'"),
        ({"nodes": (replace(NODE, condition="one_failed"),)}, "it follows no node"),
        ({"nodes": (replace(NODE, retries=-1),)}, "retries=-1 is not from 0"),
        ({"nodes": (replace(NODE, time_limit=float("nan")),)}, "no length of time"),
        ({"nodes": (replace(NODE, notify=("ftp://x",)),)}, "the webhook cannot be used"),
        ({"nodes": (job("a", 1, after=("b",)),)}, "it follows 'b', and there is no such node"),
        ({"nodes": (NODE, job("a", 1, ("x", "load")))}, "it reads `x` of load, which does not"),
        ({"nodes": (job("a", 1, after=("a",)),)}, "nodes wait for each other: a → a"),
        (
            {"nodes": (job("a", 1, after=("b",)), job("b", 2, after=("c",)),
                       job("c", 3, after=("a",)), job("z", 3, after=("a",)))},
            "nodes wait for each other: ",
        ),
        ({"cells": (cell(1), cell(1), cell(2), cell(3), cell(4))}, "two cells have one number"),
        ({"schedule": "nightly"}, "--schedule: 'nightly' is no line of cron"),
        ({"parameters": (Parameter(name="a b"),)}, "'a b' is no name of a variable"),
        ({"parameters": (Parameter(name="a", default=open),)}, "the default of a is no literal"),
    ],
)  # fmt: skip
def test_what_is_not_sound_is_refused_in_words(change, words):
    with pytest.raises(FlowError) as caught:
        replace(FLOW, **change)
    assert words in str(caught.value)
    assert caught.value.fix


def test_all_faults_are_in_one_message():
    with pytest.raises(FlowError) as caught:
        replace(FLOW, name="a b", schedule="x", nodes=(replace(NODE, name="ROOT", retries=-1),))
    for words in ("'a b' cannot name", "no line of cron", "called ROOT", "retries=-1"):
        assert words in caught.value.what or words in caught.value.where


def test_a_cycle_is_told_in_the_order_in_which_the_nodes_wait():
    nodes = (job("a", 1, after=("b",)), job("b", 2, after=("a",)), job("before", 3))
    with pytest.raises(FlowError, match=r"(a → b → a|b → a → b)"):
        replace(FLOW, nodes=nodes)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": 2}, "a flow of format 2 cannot be read: this release reads 1"),
        ({"nodes": [{"kind": "job"}]}, "it lacks 'name'"),
        ({"nodes": [{"name": "a", "cells": [1], "shell": "rm"}]}, "a node has no 'shell'"),
        ({"nodes": [{"name": "a", "cells": ["1"]}]}, "cells is '1', and has to be a whole number"),
        ({"nodes": [{"name": "a", "cells": [1], "after": "b"}]}, "after is 'b', and has to be a l"),
        ({"nodes": [{"name": 1, "cells": [1]}]}, "name is 1, and has to be text"),
        ({"parameters": [{"name": "a", "default": "open('x')"}]}, "it is no flow"),
        ({"cells": [{"number": 1}]}, "it lacks 'raw'"),
        ({"nodes": 7}, "it is no flow"),
    ],
)
def test_a_file_that_is_no_flow_is_refused_in_words(change, words, tmp_path):
    (tmp_path / "flow.json").write_text(json.dumps({**FLOW.to_json(), **change}))
    with pytest.raises(FlowError) as caught:
        Flow.read(tmp_path)
    assert words in str(caught.value)
    assert "flow.json" in caught.value.where


@pytest.mark.parametrize("text", ["", "[]", "{", "\x00"])
def test_a_file_that_is_no_json_is_refused(text, tmp_path):
    (tmp_path / "flow.json").write_text(text)
    with pytest.raises(FlowError):
        Flow.read(tmp_path)


def test_a_folder_without_a_flow_says_how_to_make_one(tmp_path):
    with pytest.raises(FlowError, match="this is no flow's folder") as caught:
        Flow.read(tmp_path)
    assert "submarine flow build" in caught.value.fix


def test_parameters_are_typed_as_their_defaults_are():
    given = {"day": "2026-01-01", "rate": "1", "sizes": "(3,)", "limit": "7"}
    assert FLOW.values(given) == {"day": "2026-01-01", "rate": 1.0, "sizes": (3,), "limit": 7}
    assert FLOW.values({})["day"] == "2026-11-22"
    assert FLOW.values({"day": "__import__('os')", "limit": "abc"})["limit"] == "abc"


@pytest.mark.parametrize(
    ("name", "text"),
    [("rate", "fast"), ("rate", "True"), ("sizes", "[1]"), ("rate", "(" * 500), ("other", "1")],
)
def test_a_value_that_no_parameter_has_is_refused(name, text):
    with pytest.raises(CommandError) as caught:
        FLOW.values({name: text})
    assert name in str(caught.value)
    assert caught.value.fix


@pytest.mark.parametrize(
    "line",
    ["0 2 * * *", "*/15 0-6,22 1 jan-mar MON", "5 4 * * 7", "0 0 1,15 * 1-5", "  0 2 * * *  "],
)
def test_lines_of_cron(line):
    assert cron_fault(line) == ""


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", "0 fields"),
        ("0 2 * *", "4 fields"),
        ("0 2 * * * *", "6 fields"),
        ("@daily", "1 fields"),
        ("60 2 * * *", "minute '60' is not from 0 to 59"),
        ("0 24 * * *", "hour '24' is not from 0 to 23"),
        ("0 2 0 * *", "day of the month '0'"),
        ("0 2 * 13 *", "month '13'"),
        ("0 2 * * 8", "day of the week '8'"),
        ("0 5-2 * * *", "ends before it begins"),
        ("*/0 2 * * *", "has a step of nothing"),
        ("0 2 * * mon,", "is no number"),
        ("0 ² * * *", "hour '²'"),
        ("0 2\n* * * *; rm", "no line of cron"),
    ],
)
def test_what_is_no_line_of_cron(line, words):
    assert words in cron_fault(line)


def test_a_run_of_any_scheduler_has_a_folder_of_its_own():
    assert run_folder("nightly-1") == "nightly-1"
    assert run_folder("scheduled__2026-11-22T02:00:00+00:00") == (
        "scheduled__2026-11-22T02%3A00%3A00%2B00%3A00"
    )
    assert run_folder("..") == "%2E."
    assert run_folder("a/../b") == "a%2F..%2Fb"


@pytest.mark.parametrize("run", ["", "a\n", "a\x00b", "x" * 251, "\ud800"])
def test_what_is_no_id_of_a_run_is_refused(run):
    with pytest.raises(FlowError, match="is no id of a run"):
        run_folder(run)


ids = st.text(st.characters(exclude_categories=("Cc", "Cs")), min_size=1, max_size=250)


@given(ids, ids)
def test_no_two_runs_share_a_folder(one, other):
    first, second = run_folder(one), run_folder(other)
    assert (first == second) == (one == other)
    assert "/" not in first
    assert not first.startswith(".")
    assert len(first) <= 120


def test_every_file_of_a_flow_lies_below_its_folder(tmp_path):
    paths = FlowPaths(tmp_path)
    assert paths.node("../..", "fit") == tmp_path / "runs" / "%2E.%2F.." / "fit"
    assert paths.bundle("a" * 64) == tmp_path / "bundles" / ("a" * 64)
    for wrong in (lambda: paths.bundle("../x"), lambda: paths.node("r", "../x")):
        with pytest.raises(FlowError):
            wrong()
