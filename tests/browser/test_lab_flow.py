"""A notebook's flow in JupyterLab: its graph, run from there, and one card for a run in a cell."""

from __future__ import annotations

import json

import pytest
from submarine_engine.flows.build import build_flow

from tests.flows.conftest import notebook as write

JOB = "%%submarine --gpus 0 --name "
GRAPH = ".submarine-Flow .smc-graph"


@pytest.fixture
def flow(lab, gate):
    """Write a notebook whose `check` fails until the gate is there, and return its path."""
    name = f"{gate.name}.ipynb"
    cells = (
        "rows = list(range(1000))\nrows.append(0)",
        f"{JOB}fit\nbest = sum(rows)\nprint('fitted', best)",
        f"{JOB}check\nimport os\nassert os.path.exists({str(gate)!r}), best",
        f"{JOB}publish --after check\nprint('published', best)",
    )
    path = write(lab.work / name, *cells)
    spec = {"name": "python3", "display_name": "python3"}  # else the page asks for a kernel
    path.write_text(json.dumps({**json.loads(path.read_text()), "metadata": {"kernelspec": spec}}))
    yield name
    lab.tidy()


def at(page, name, state=""):
    which = f"{GRAPH} .smc-node[data-name={name}]" + (f"[data-state={state}]" if state else "")
    return page.locator(which)


@pytest.mark.long
def test_a_flow_is_looked_at_run_and_retried_in_its_graph(panel, page, flow, gate):
    panel.execute("submarine:show-flow", path=flow)
    card = page.locator(".submarine-Flow .submarine-card")
    card.get_by_text("not run yet").wait_for()
    assert page.locator(".lm-TabBar-tab.lm-mod-current .lm-TabBar-tabIcon svg").first.is_visible()
    assert at(page, "check").locator("text.smc-name").text_content() == "check"
    assert page.locator(f"{GRAPH} .smc-value").all_text_contents() == ["rows", "best", "best"]
    card.get_by_role("button", name="Build and run").click()
    at(page, "check", "failed").wait_for()
    at(page, "publish", "skipped").wait_for()
    card.get_by_role("button", name="Retry").wait_for()
    assert (
        f"{flow}, In [3], line 3: AssertionError: 499500"
        in card.locator(".smc-error").all_inner_texts()[1]
    )
    page.locator(f"{GRAPH} .smc-value", has_text="rows · 2.").wait_for()
    # By keyboard alone: a node's log.
    at(page, "fit").focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.locator(".submarine-Log", has_text="AssertionError: 499500").wait_for()
    gate.touch()
    card.get_by_role("button", name="Retry").click()
    page.wait_for_selector(".submarine-Flow .submarine-card[data-state=succeeded]")
    at(page, "publish", "succeeded").wait_for()
    assert card.get_by_role("row", name="succeeded, try 2").is_visible()
    # The cell that a node comes from, in the notebook that opens.
    card.get_by_role("row", name="publish").get_by_role("button", name="In [4]").click()
    page.locator(".jp-Cell.jp-mod-active", has_text="published").wait_for()
    # The same in the panel, of the notebook that is open now.
    page.locator(".submarine-FlowSection > summary").click()
    page.locator(".submarine-FlowSection .smc-graph [data-name=fit]").wait_for()
    assert page.locator(".submarine-FlowSection").get_by_text(flow).first.is_visible()


@pytest.mark.long
def test_a_run_in_a_cell_has_one_card_with_all_nodes(lab, notebook, page, flow, gate):
    folder = lab.work / flow.replace(".ipynb", ".flow")
    build_flow(lab.work / flow, folder)
    gate.touch()
    opened = notebook(f"%load_ext submarine_magics\n%submarine flow run {folder.name}")
    opened.run_all()
    output = page.locator(".jp-OutputArea-output .submarine-Flow")
    output.locator(".smc-node[data-name=publish][data-state=succeeded]").wait_for()
    opened.wait_idle()
    assert page.locator(".submarine-card").count() == 1
    output.get_by_role("button", name="Run again").wait_for()
    saved = opened.save()
    (data,) = (one.data for one in saved.cells[0].outputs if "data" in one)
    assert data["text/plain"].startswith("✓ flow ")
    assert "rows ◂── cell-1" in data["text/plain"]
