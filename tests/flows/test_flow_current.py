"""The flow that a notebook has now, and a run whose process outlives who began it."""

from __future__ import annotations

from dataclasses import fields

import pytest
from submarine_engine.errors import FlowError, SubmarineError
from submarine_engine.flows.build import FlowOptions, build_flow, options_of
from submarine_engine.flows.current import build_again, current_flow
from submarine_engine.flows.model import Flow, FlowPaths
from submarine_engine.flows.records import NodeState, sizes_left
from submarine_engine.flows.runner import newest_status, start_run, status_of

from tests.flows.conftest import TRAIN, notebook
from tests.jobs import LIMIT, until

JOB = "%%submarine --gpus 0 --name "


def test_a_notebook_has_a_flow_before_it_is_built(tmp_path):
    found = current_flow(notebook(tmp_path / "train.ipynb", *TRAIN))
    assert not found.built
    assert not (tmp_path / "train.flow").exists()
    assert [node.name for node in found.flow.nodes][:2] == ["cell-3", "fit"]
    built = build_again(tmp_path / "train.ipynb")
    assert built.built
    assert built.folder == tmp_path / "train.flow"


@pytest.mark.parametrize("which", ["train.ipynb", "train.flow", ""])
def test_it_is_found_by_notebook_by_its_folder_and_by_the_folder_above(flow_of, tmp_path, which):
    flow_of(*TRAIN)
    found = current_flow(tmp_path / which)
    assert (found.built, found.changed) == (True, False)
    assert found.notebook == tmp_path / "train.ipynb"


def test_a_changed_notebook_is_said_and_built_again_with_the_same_options(flow_of, tmp_path):
    options = FlowOptions(
        name="nightly",
        schedule="0 2 * * *",
        given={"rate": "0.25"},
        mail="ana@example.com",
        retries=2,
        retry_delay=5.0,
        time_limit=60.0,
        notify=("HOOK",),
        cache=True,
    )
    assert all(getattr(options, one.name) for one in fields(options))  # each is another than usual
    flow_of(*TRAIN)
    folder = tmp_path / "train.flow"
    build_flow(tmp_path / "train.ipynb", folder, options)
    assert options_of(Flow.read(folder)) == options
    notebook(tmp_path / "train.ipynb", *TRAIN, f"{JOB}more\nprint(score)")
    assert current_flow(folder).changed
    again = build_again(folder)
    assert not again.changed
    assert again.flow.name == "nightly"
    assert "more" in [node.name for node in again.flow.nodes]
    assert options_of(again.flow) == options


def test_what_is_no_flow_is_said(tmp_path, flow_of):
    with pytest.raises(FlowError, match="there is no flow in this folder"):
        current_flow(tmp_path)
    with pytest.raises(SubmarineError, match="no such notebook"):
        current_flow(tmp_path / "other.ipynb")
    flow_of(*TRAIN)
    build_flow(tmp_path / "train.ipynb", tmp_path / "other.flow")
    with pytest.raises(FlowError, match="has 2 flows") as caught:
        current_flow(tmp_path)
    assert "other.flow, train.flow" in caught.value.fix
    (tmp_path / "train.ipynb").unlink()
    with pytest.raises(FlowError, match="notebook is not there any more"):
        build_again(tmp_path / "train.flow")


def test_a_run_is_seen_through_by_a_process_of_its_own(flow_of, tmp_path):
    gate, folder = tmp_path / "gate", tmp_path / "train.flow"
    wait = f"import os, time\nwhile not os.path.exists({str(gate)!r}):\n    time.sleep(0.05)"
    flow_of(f"{JOB}one\n{wait}\nvalue = list(range(100))", f"{JOB}two\nassert len(value) == 100")
    run = start_run(folder)
    assert newest_status(folder).driven
    with pytest.raises(FlowError, match="another process runs"):
        start_run(folder, run)
    with pytest.raises(FlowError, match="goes on, and would find other nodes"):
        build_again(folder)
    gate.touch()
    until(lambda: status_of(folder, run).over, LIMIT)
    status = status_of(folder, run)
    assert {one.state for one in status.records.values()} == {NodeState.SUCCEEDED}
    sizes = sizes_left(FlowPaths(folder), run, "one", status.records["one"])
    assert sizes["value"] > 100
    assert start_run(folder, run) == run  # over: nothing is begun


def test_a_process_that_cannot_begin_says_why(flow_of, tmp_path, monkeypatch):
    flow_of(*TRAIN)
    monkeypatch.setenv("SUBMARINE_CLUSTER", "no such cluster")
    monkeypatch.setattr("sys.executable", "/bin/false")
    with pytest.raises(FlowError, match="its process has ended at once"):
        start_run(tmp_path / "train.flow")
