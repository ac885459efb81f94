"""Charts of jobs in a real JupyterLab: metrics by task, the log at the cursor, jobs compared."""

from __future__ import annotations

import json
import time

import pytest
from submarine_engine.history import JobPaths

from tests.jobs import until

HOSTILE = "<img src=x onerror=\"document.title='hacked'\">"
CHART = ".submarine-Chart"


def over(panel, jobs, name):
    """Run a job to its end; return its id and the files of its task."""
    job = jobs.start(name=name)
    jobs.finish(job)
    panel.row(job, "succeeded")
    return job, JobPaths(jobs.lab.home, job).task("worker-0")


def write(file, began, series, name="loss"):
    rows = ({"at": began + at, name: value} for at, value in enumerate(series))
    file.unlink(missing_ok=True)  # whoever still writes there writes into the old one
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))


@pytest.mark.long
def test_charts_move_together_and_show_the_log_of_the_moment(panel, jobs):
    page = panel.page
    job, task = over(panel, jobs, "charted")
    began = time.time() - 100
    write(task.reported, began, [100 - at for at in range(100)], HOSTILE)
    write(task.metrics, began, [at % 100 for at in range(100)], "gpu0")
    task.moments.write_text(f"[{began}, 0, 0]\n[{began + 50}, 8, 0]\n")
    panel.row(job).click()
    panel.button("show-metrics").click()
    charts = page.locator(f"#submarine-metrics-{job} {CHART}")
    charts.locator("canvas").nth(1).wait_for()
    assert charts.locator(".submarine-Chart-name").all_text_contents() == [HOSTILE, "GPU use"]
    values = charts.locator(".submarine-Chart-curve b")
    assert values.all_text_contents() == ["1", "99 %"]
    assert page.locator(f"{CHART} img").count() == 0
    box = charts.locator(".u-over").first.bounding_box()
    left, middle = box["x"] + box["width"] * 0.25, box["y"] + box["height"] / 2
    page.mouse.move(left, middle)
    until(lambda: values.all_text_contents()[1] not in {"99 %", "—"})
    loss, gpu = (float(text.split()[0]) for text in values.all_text_contents())
    assert loss + gpu == 100  # both of the one moment
    assert 15 < gpu < 35
    log = page.locator(f"#submarine-metrics-{job} .submarine-Moment")
    log.locator("[aria-current]:has-text('epoch 1')").wait_for()
    page.mouse.move(box["x"] + box["width"] * 0.75, middle)
    log.locator("[aria-current]:has-text('epoch 2')").wait_for()
    page.mouse.move(left, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.5, middle, steps=3)
    page.mouse.up()
    page.mouse.move(0, 0)
    page.locator("button:has-text('Show all')").click()
    until(lambda: values.all_text_contents() == ["1", "99 %"])


@pytest.mark.long
def test_a_running_jobs_chart_goes_on(panel, jobs):
    job = jobs.start(name="goes-on")
    panel.row(job, "running").click()
    task = JobPaths(jobs.lab.home, job).task("worker-0")
    write(task.reported, time.time() - 5, [5.0, 4.0, 3.0])
    panel.button("show-metrics").click()
    tab = panel.page.locator(f"#submarine-metrics-{job}")
    loss = tab.locator(CHART, has_text="loss")
    loss.locator("b", has_text="3").wait_for()
    canvas = loss.locator("canvas").element_handle()
    with task.reported.open("a") as file:
        file.write(f"{json.dumps({'at': time.time(), 'loss': 1.25})}\n{{cut off")
    loss.locator("b", has_text="1.25").wait_for()
    assert canvas.evaluate("node => node.isConnected")  # it is built once
    jobs.finish(job)


@pytest.mark.long
def test_selected_jobs_are_compared_and_each_row_has_its_curve(panel, jobs):
    page = panel.page
    found = [over(panel, jobs, name) for name in ("slow", "fast")]
    for number, (_, task) in enumerate(found):
        write(task.reported, time.time() - 20, [9.0, 5.0 - number])
    (first, _), (second, _) = found
    script = next(JobPaths(jobs.lab.home, second).bundle.glob("*.py"))
    script.write_text(f"rate = 2  # {HOSTILE}\n{script.read_text()}")
    panel.open()  # curves of jobs that are over are asked for once
    spark = panel.row(second).locator(".submarine-Job-spark")
    spark.wait_for()
    assert spark.get_attribute("aria-label").startswith("loss over time, now 4")
    panel.row(first).click()
    assert panel.button("compare-jobs").is_disabled()
    panel.row(second).click(modifiers=["ControlOrMeta"])
    assert panel.button("cancel").is_disabled()
    assert panel.button("show-metrics").is_disabled()
    panel.button("compare-jobs").click()
    tab = page.locator(".submarine-Compare")
    tab.locator("canvas").first.wait_for()
    rows = [row.split("\t") for row in tab.locator("table").inner_text().split("\n")]
    assert ["--name", "slow", "fast"] in rows
    assert ["loss", "5", "4"] in rows
    assert f"+rate = 2  # {HOSTILE}" in tab.locator(".submarine-mod-added").all_text_contents()
    curves = tab.locator(".submarine-Chart-label")
    assert curves.all_text_contents()[:2] == ["slow", "fast"]
    assert tab.locator("img").count() == 0
    assert "hacked" not in page.title()
    assert page.locator(".submarine-Compare-section").all_text_contents()[-1] == "GPU time"


def kept_tabs(panel):
    """Return what JupyterLab has noted of the tabs, in words; it does after a moment."""
    told = panel.page.evaluate("""async () => {
        const { serviceManager } = window.jupyterapp;
        return (await serviceManager.workspaces.fetch('default')).data;
    }""")
    return json.dumps(told.get("layout-restorer:data", {}).get("main", {}))


@pytest.mark.long
def test_tabs_are_there_again_after_a_reload(panel, jobs):
    """Charts, jobs compared and scripts, each as it was; what a closed one had is not."""
    page = panel.page
    found = [over(panel, jobs, name) for name in ("kept", "other")]
    for _, task in found:
        write(task.reported, time.time() - 20, [9.0, 5.0])
    (first, _), (second, _) = found
    for command, arguments in (
        ("show-metrics", {"job": first}),
        ("show-metrics", {"job": second}),
        ("show-script", {"job": first}),
        ("compare-jobs", {"jobs": [first, second]}),
    ):
        panel.execute(f"submarine:{command}", **arguments)
        page.wait_for_function("() => window.jupyterapp.shell.currentWidget")
    tabs = page.locator("#jp-main-dock-panel .lm-TabBar-tab")
    names = {"Metrics: kept", "Metrics: other", "kept: script", "Compare jobs"}
    until(lambda: names <= set(tabs.all_text_contents()))
    page.evaluate("id => window.jupyterapp.shell.activateById(id)", f"submarine-metrics-{second}")
    page.evaluate("() => window.jupyterapp.shell.currentWidget.dispose()")
    page.evaluate("id => window.jupyterapp.shell.activateById(id)", f"submarine-metrics-{first}")
    here = (f"metrics-{first}", f"script-{first}", f"compare-{first}-{second}")

    def noted():
        kept = kept_tabs(panel)
        return all(one in kept for one in here) and f"metrics-{second}" not in kept

    until(noted)
    panel.lab.show(page, reset=False)
    names.remove("Metrics: other")
    until(lambda: names <= set(tabs.all_text_contents()))
    assert "Metrics: other" not in tabs.all_text_contents()
    page.locator(f"#submarine-metrics-{first} {CHART} canvas").first.wait_for()
    page.evaluate(
        "id => window.jupyterapp.shell.activateById(id)", f"submarine-compare-{first}-{second}"
    )
    page.locator(".submarine-Compare-section", has_text="Reported last").wait_for()
    page.locator(".submarine-Compare canvas").first.wait_for()
