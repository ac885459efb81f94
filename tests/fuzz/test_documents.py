"""Whatever stands in a document of flows, sweeps, servings or a shared machine: words, or as said.

Each document is one of ours with something else in a place, or with other bytes.
"""

from __future__ import annotations

import json
import os
import secrets
from contextlib import suppress
from copy import deepcopy
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from submarine_engine.cli import main
from submarine_engine.clusters import locks
from submarine_engine.clusters.local.leases import Holder, SharedLeases, release_lease
from submarine_engine.clusters.local.policy import Policy
from submarine_engine.clusters.local.turns import Turns
from submarine_engine.errors import SubmarineError
from submarine_engine.flows import leases
from submarine_engine.flows.build import build_flow
from submarine_engine.flows.folder import place_of
from submarine_engine.flows.model import Flow, FlowPaths
from submarine_engine.flows.records import NodePaths, NodeRecord, read_record, write_record
from submarine_engine.flows.runner import status_of
from submarine_engine.history import make_private, new_job_id
from submarine_engine.serving.record import FrontState, ReplicaState, ServingRecord
from submarine_engine.sweeps.plan import SweepPlan
from submarine_engine.sweeps.record import SweepRecord
from submarine_engine.sweeps.space import Space

from tests.flows.conftest import TRAIN, notebook

VALUES = st.one_of(
    st.sampled_from([
        None, True, [], {}, "", "../../x", "/etc/passwd", ".", "..", "a\0b", "\ud800", "\x1b[31m",
        0, -1, 1.5, 1e300, float("inf"), float("nan"), 10**400, 1 << 62, [[]], {"": {}},
        "x" * 5000, ["../.."], [None], {"name": []}, "succeeded",
    ]),
    st.text(max_size=8),
    st.integers(),
)  # fmt: skip


@st.composite
def spoilt(draw, document):
    """Strategy: the bytes of a document that is not as it was."""
    document = json.loads(json.dumps(document))
    for _ in range(draw(st.integers(1, 3))):
        places = list(_places(document))
        if not places:
            break
        holder, key = draw(st.sampled_from(places))
        what = draw(st.sampled_from(["other", "other", "gone", "deep"]))
        if what == "gone":
            with suppress(IndexError, KeyError):
                del holder[key]
        elif what == "deep":
            holder[key] = "DEEP"
        else:
            holder[key] = deepcopy(draw(VALUES))  # the next round may write in it
    said = json.dumps(document).encode().replace(b'"DEEP"', b"[" * 20_000 + b"]" * 20_000)
    if draw(st.integers(0, 4)) == 0:
        at = draw(st.integers(0, len(said)))
        said = draw(st.sampled_from([said[:at], said[:at] + b"\xff" + said[at:], said * 2]))
    return said


def _places(document):
    pairs = document.items() if isinstance(document, dict) else enumerate(document)
    for key, value in list(pairs):
        yield document, key
        if isinstance(value, (dict, list)):
            yield from _places(value)


@pytest.fixture(scope="module")
def flow(tmp_path_factory):
    folder = tmp_path_factory.mktemp("flow")
    path = notebook(folder / "train.ipynb", *TRAIN)
    build_flow(path, folder / "train.flow")
    return folder / "train.flow"


def test_whatever_stands_in_a_flow_is_a_flow_or_told_of(flow):
    path = FlowPaths(flow).flow
    whole = json.loads(path.read_text())

    @settings(max_examples=settings.default.max_examples // 2 or 1)
    @given(spoilt(whole))
    def look(said):
        path.write_bytes(said)
        try:
            found = Flow.read(flow)
        except SubmarineError:
            return
        assert [node.name for node in found.order]
        for node in found.nodes:
            assert FlowPaths(flow).node("run", node.name).parent == flow / "runs/run"
        assert Flow.from_json(found.to_json()) == found

    try:
        look()
    finally:
        path.write_text(json.dumps(whole))


def node_records(job):
    return NodeRecord(
        attempt=1, job=job, cluster="local", bundle="a" * 64, home="h", host="here", started=1.0,
        ended=2.0, error="no", shared={"x": ["y"]},
    ).to_json()  # fmt: skip


def test_whatever_stands_in_a_nodes_record_is_a_record_or_told_of(flow):
    found = Flow.read(flow)
    name = found.order[0].name
    write_record(FlowPaths(flow), "r", name, NodeRecord())
    path = NodePaths(FlowPaths(flow).node("r", name)).record

    @given(spoilt(node_records(new_job_id())))
    @example(json.dumps({"state": "running", "attempt": "/../../x"}).encode())
    @example(json.dumps({"state": [], "attempt": 1}).encode())
    def look(said):
        path.write_bytes(said)
        try:
            record = read_record(FlowPaths(flow), "r", name)
        except SubmarineError:
            return
        assert NodePaths(path.parent).values(record.attempt).parent == path.parent
        assert isinstance(record.attempt, int)
        assert isinstance(record.error, str)
        for one in (record.started, record.ended):
            assert one is None or one - one == 0
        assert status_of(flow, "r").run == "r"

    look()


@pytest.mark.parametrize("which", ["sweep", "serving", "state"])
def test_whatever_stands_in_a_kept_record_lists_tell_of_it(which, tmp_path, monkeypatch, capfd):
    home = tmp_path / "home"
    make_private(home)
    monkeypatch.setenv("SUBMARINE_HOME", str(home))
    if which == "sweep":
        folder = home / "pools" / new_job_id()
        make_private(folder)
        plan = SweepPlan(objectives=(("loss", "minimize"),), trials=2)
        record = SweepRecord(folder=folder, name="train", plan=plan, space=Space.of("x=[1, 2]"))
        verbs = [("sweep", "list"), ("sweep", "show", "train")]
    else:
        folder = home / "servings" / "digits"
        make_private(folder)
        record = ServingRecord(
            folder=folder, cluster="local", port=8000, workdir="/w", models={"1": "m"},
            jobs=(new_job_id(),),
        )  # fmt: skip
        one = ReplicaState(job=new_job_id(), version=1, state="ready")
        record.write()
        record.tell(FrontState(job=new_job_id(), serves=1, replicas=(one,)))
        verbs = [("serve", "list"), ("serve", "show", "digits")]
    record.write()
    path = folder / ("state.json" if which == "state" else record.FILE)
    whole = json.loads(path.read_text())

    @settings(max_examples=settings.default.max_examples // 2 or 1)
    @given(spoilt(whole))
    @example(json.dumps({**whole, "plan": None}).encode())
    @example(json.dumps({**whole, "jobs": [[]], "replicas": [[]]}).encode())
    def look(said):
        path.write_bytes(said)
        for words in verbs:
            main(words)
            out, err = capfd.readouterr()
            assert "fault of ours" not in err, (words, said[:500], err)
            assert "\x1b[31m" not in out + err

    look()


def test_whatever_stands_in_a_turn_is_held_or_free(monkeypatch):
    monkeypatch.setattr(leases, "_NAP", 0.001)
    place = place_of(f"memory:///lease-{secrets.token_hex(4)}/lock")
    whole = leases._me()

    @settings(max_examples=settings.default.max_examples // 2 or 1)
    @given(spoilt(whole), st.sampled_from(["00000007", "7", "0" * 300 + "7", "9" * 200, "x", "-1"]))
    @example(b"[" * 20_000, "00000001")
    @example(b"{}", "9" * 5000)
    def look(said, name):
        for one in place.storage.list(place.path):
            (place / one.name).unlink()
        place.storage.write((place / name).path, said)
        assert leases.is_held(place) in (True, False)
        assert isinstance(leases.holder_of(place), str)
        with suppress(SubmarineError):
            lock = leases.take(place)
            if lock is not None:
                lock.drop()

    look()


def test_whatever_others_have_told_the_machine_is_passed_over_or_waited_for(tmp_path):
    for name in ("leases", "waiting"):
        (tmp_path / name).mkdir()
    state = Turns(tmp_path / "waiting", tmp_path / "served", Policy(), tmp_path)
    shared = SharedLeases(tmp_path / "leases", tmp_path / "own", tmp_path)
    whole = {"gpus": 1, "pool": ["0", "1"], "jobs": 1, "served": 0.0, "since": 1.0, "home": "/h"}
    told = {"job": new_job_id(), "home": "/h"}

    @example(json.dumps({**whole, "gpus": float("inf")}).encode(), b"{}", "0.1")
    @example(json.dumps({**whole, "jobs": float("inf")}).encode(), b"{}", "0.1")
    @given(spoilt(whole), spoilt(told), st.sampled_from(["0.1", "0.0", "../0.1", "0.999999999"]))
    def look(waits, holds, name):
        path = tmp_path / "waiting" / f"1-{secrets.token_hex(6)}-0"
        lease = tmp_path / "leases" / name.replace("/", "_")
        claimed = [locks.make_claimed(one) for one in (path, lease)]
        try:
            os.write(claimed[0], waits)
            os.write(claimed[1], holds)
            turn = state.look(1, ["0", "1"], 2.0, shared.look(), set())
            assert turn.room <= 2
            for one in shared.look():
                assert set(one.holder_notes()) <= {"job", "home"}
            taken = shared.take(["0", "1"], 1, Holder(new_job_id(), "x"))
            assert taken is None or len(taken) == 1
            release_lease(taken or {})
        finally:
            for descriptor in claimed:
                locks.drop(descriptor)
            for one in (*Path(tmp_path, "leases").iterdir(), path):
                one.unlink()

    look()
