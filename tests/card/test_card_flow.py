"""The card of a flow: its graph and its nodes, with hostile text as text."""

from __future__ import annotations

import json
import re
from importlib.resources import files

import pytest
from submarine_engine.bundle.model import Cell
from submarine_engine.flows.current import CurrentFlow
from submarine_engine.flows.model import Flow, FlowPaths, Node, Parameter, Read
from submarine_engine.flows.records import NodePaths, NodeRecord, NodeState
from submarine_engine.flows.runner import RunStatus
from submarine_magics.card.flows import FLOW_TYPE, flow_bundle, flow_text, flow_tree, view_flow
from submarine_magics.card.nodes import ATTRIBUTES, TAGS

from tests.card.test_card_renderers import HOSTILE, Elements
from tests.card.test_card_served import elements, words

NOW = 1_800_000_000.0
LONG = "a-name-that-is-as-long-as-names-may-be-and-then-some-more-of-it"


@pytest.fixture
def current(tmp_path):
    cells = tuple(Cell(number=at, source="x", id=f"id-{at}") for at in range(1, 5))
    nodes = (
        Node(name="data", kind="cell", cells=(1, 2), binds=("rows",)),
        Node(name=LONG, cells=(3,), options=("--gpus", "2"),
             reads=(Read(name="rows", node="data"),)),
        Node(name="tidy", cells=(4,), after=(LONG,), condition="all_done"),
    )  # fmt: skip
    flow = Flow(
        name="nightly", notebook=HOSTILE, cells=cells, nodes=nodes,
        parameters=(Parameter(name="day", default=HOSTILE),), parameters_cell=1,
    )  # fmt: skip
    return CurrentFlow(flow=flow, folder=tmp_path / "nightly.flow", notebook=None, built=True)


def ran(*states, driven=False, **about):
    names = ("data", LONG, "tidy")
    records = {
        name: NodeRecord(
            state=NodeState(state), attempt=int(state != "waiting"),
            started=NOW - 90 if state not in ("waiting", "skipped") else None,
            ended=NOW - 60 if NodeState(state).final else None,
            job=f"job-{name[:4]}" if state not in ("waiting", "skipped") else "",
            error=HOSTILE if state == "failed" else "",
        )
        for name, state in zip(names, states, strict=True)
    }  # fmt: skip
    return RunStatus("run-1", records, driven=driven, **about)


def served(current, status):
    return flow_tree(view_flow(current, status, NOW), served=True).to_json()


def actions(tree):
    return [each[1]["data-action"] for each in elements(tree) if "data-action" in each[1]]


@pytest.mark.parametrize(
    ("status", "state", "possible"),
    [
        (None, "ready", ["flow-run"]),
        (ran("succeeded", "running", "waiting", driven=True), "running", ["flow-cancel"]),
        (ran("succeeded", "running", "waiting"), "stopped", ["flow-go-on", "flow-cancel"]),
        (ran("succeeded", "failed", "skipped"), "failed", ["flow-retry", "flow-run"]),
        (ran("succeeded", "cancelled", "skipped"), "cancelled", ["flow-retry", "flow-run"]),
        (ran("succeeded", "succeeded", "succeeded"), "succeeded", ["flow-run"]),
    ],
)
def test_each_state_says_what_can_be_done(current, status, state, possible):
    tree = served(current, status)
    assert tree[1]["data-state"] == state
    of_nodes = {"flow-node", "flow-cell", "flow-log"}
    assert [one for one in actions(tree) if one not in of_nodes] == possible


def test_the_graph_says_where_each_node_leads_and_what_travels(current):
    tree = served(current, ran("succeeded", "running", "waiting", driven=True))
    nodes = {each[1]["data-name"]: each for each in elements(tree)
             if each[1].get("data-action") == "flow-node"}  # fmt: skip
    assert nodes[LONG][1]["data-job"] == "job-a-na"
    assert nodes["tidy"][1] | {"data-cell": "id-4", "data-number": "4"} == nodes["tidy"][1]
    assert nodes[LONG][1]["aria-label"].endswith("2 GPUs, rows from data; opens its log")
    assert "when all_done" in nodes["tidy"][1]["aria-label"]
    assert all(each[1]["tabindex"] == "0" for each in nodes.values())
    text = words(tree)
    assert f"{LONG} gets rows from data" in text
    assert "1 succeeded, 1 running, 1 waiting" in text
    ticking = [each[1]["data-ticks"] for each in elements(tree) if "data-ticks" in each[1]]
    assert ticking == ["90.000", "90.000"]  # in the graph, and in the table


def test_edges_have_the_sizes_of_values_that_are_there(current):
    values = NodePaths(FlowPaths(current.folder).node("run-1", "data")).values(1)
    values.mkdir(parents=True)
    values.joinpath("manifest.json").write_text(
        json.dumps({"values": [{"name": "rows", "size": 2_100_000}]})
    )
    tree = served(current, ran("succeeded", "running", "waiting", driven=True))
    assert "rows · 2.1 MB" in words(tree)
    values.joinpath("manifest.json").write_text('{"values": [{"name": 1}]}')
    assert "MB" not in words(served(current, ran("succeeded", "running", "waiting")))


def test_hostile_text_stays_text(current):
    bundle = flow_bundle(view_flow(current, ran("succeeded", "failed", "skipped"), NOW))
    parsed = Elements(bundle["text/html"])
    assert not {"script", "img"} & {tag for tag, _ in parsed.elements}
    assert {tag for tag, _ in parsed.elements} <= TAGS | {"style"}
    assert "<script>alert(1)</script>" in parsed.words()
    assert "[U+202E]" in parsed.words()
    assert "\u202e" not in bundle["text/plain"] + bundle["text/html"]
    assert bundle[FLOW_TYPE]["folder"] == str(current.folder)
    kept = json.loads(bundle[FLOW_TYPE]["tree"])
    assert not actions(kept)  # a notebook keeps what it shows, and no button


def test_the_page_s_script_knows_each_element_and_attribute(current):
    script = files("submarine_magics.card").joinpath("tree.js").read_text()
    sets = dict(re.findall(r"const (\w+) = new Set\((.*?)\);", script, re.DOTALL))
    tags, attributes = (set(re.findall(r"[\w-]+", sets[name])) for name in ("TAGS", "ATTRIBUTES"))
    for tag, given, _ in elements(served(current, ran("succeeded", "failed", "skipped"))):
        assert tag in tags & TAGS
        plain = {key for key in given if not key.startswith(("aria-", "data-"))}
        assert plain - {"class", "width", "hidden"} <= attributes & ATTRIBUTES


def test_text_says_what_the_picture_shows(current):
    text = flow_text(view_flow(current, ran("succeeded", "failed", "skipped"), NOW))
    assert text.startswith("✕ flow nightly: failed (run run-1)\n")
    assert "rows ◂── data" in text
    assert "⊘" not in text
    assert "skipped" in text


def test_what_differs_from_the_notebook_is_said(current):
    changed = CurrentFlow(
        flow=current.flow, folder=current.folder, notebook=None, built=True, changed=True
    )
    tree = served(changed, None)
    assert "has changed since this flow was built" in words(tree)
    assert actions(tree)[:2] == ["flow-build", "flow-run"]
