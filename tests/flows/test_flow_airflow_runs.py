"""Flows in a real Airflow: whole runs with a failure and a retry, lost workers, kills."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook
from submarine_engine.cli import main
from submarine_engine.records import list_jobs

from tests.flows.airflow_site import Airflow

pytestmark = [pytest.mark.long, pytest.mark.service, pytest.mark.timeout(1800)]

AIRFLOWS = [
    pytest.param("3", id="airflow 3"),
    pytest.param(
        "2",
        id="airflow 2",
        marks=pytest.mark.skipif(sys.version_info >= (3, 13), reason="Airflow 2 ends at 3.12"),
    ),
]

EVIL = "'; touch evil; $(touch evil) `touch evil` {{ ti.task_id }} \""

FAILS_ONCE = """\
%%submarine --name train --gpus 0
import pathlib
before = pathlib.Path(folder, "before")
print("training of", repr(day))
if not before.exists():
    before.touch()
    raise ValueError("bad luck")
model = sum(rows)
"""

WAITS = """\
%%submarine --name train --gpus 0
import pathlib, time
with pathlib.Path(folder, "begun").open("a") as begun:
    begun.write("x")
while not pathlib.Path(folder, "go").exists():
    time.sleep(0.05)
model = sum(rows)
"""

REPORT = """\
%%submarine --name report --gpus 0
print("the model is", model)
"""


@pytest.fixture(params=AIRFLOWS)
def airflow(request, tmp_path):
    site = Airflow(tmp_path / "airflow", tmp_path / "train.flow", request.param)
    yield site
    site.close()


def build(folder, cell, *words, day=EVIL):
    """Make a flow's folder, and its DAG, of a notebook whose job is `cell`."""
    cells = [
        new_code_cell(
            f"day = {day!r}\nfolder = {str(folder)!r}", metadata={"tags": ["parameters"]}
        ),
        new_code_cell("rows = [1, 2, 3]"),
        new_code_cell(cell),
        new_code_cell(REPORT),
    ]
    nbformat.write(new_notebook(cells=cells), folder / "train.ipynb")
    flow = folder / "train.flow"
    told = ["--to", "airflow", "--output", str(flow), *words]
    assert main(["flow", "build", str(folder / "train.ipynb"), *told]) == 0
    return flow


def jobs(name):
    return [one.state.value for one in reversed(list_jobs()) if one.name.endswith(name)]


def processes(*words):
    """Return the processes whose command line has all these words."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            told = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if all(word.encode() in told for word in words):
            found.append(int(folder.name))
    return found


def parent(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_a_whole_run_with_a_failure_and_a_retry(airflow, tmp_path):
    build(tmp_path, FAILS_ONCE, "--retries", "1")
    told = airflow.run("dags", "test", "train")
    assert airflow.tasks("train") == {"train": ("success", 2), "report": ("success", 1)}
    # The value of the parameter has come through as it is, and nothing of it was run.
    assert f"training of {EVIL!r}" in told
    assert not list(tmp_path.rglob("evil"))
    assert "ValueError: bad luck" in told
    assert "train.ipynb" in told
    assert "the model is 6" in told
    assert jobs("train") == ["failed", "succeeded"]
    assert jobs("report") == ["succeeded"]


def test_a_lost_worker_is_taken_over_and_its_job_with_it(airflow, tmp_path):
    flow = build(tmp_path, WAITS, "--retries", "5")
    airflow.start()
    airflow.run("dags", "reserialize")
    airflow.run("dags", "trigger", "train")
    airflow.until((tmp_path / "begun").exists)
    (node,) = processes("node", str(flow), "train")
    # As when a machine is lost: the command, the task that waits for it, what watches the task.
    lost = [node, parent(node)]
    if airflow.major == "3":
        lost.append(parent(parent(node)))
    tries = airflow.tasks("train")["train"][1]
    for sent in (signal.SIGSTOP, signal.SIGKILL):  # none of them sees another's end
        for pid in lost:
            os.kill(pid, sent)
    airflow.until(lambda: processes("node", str(flow), "train", f"--attempt={tries + 1}"))
    (tmp_path / "go").touch()
    airflow.until(lambda: airflow.tasks("train").get("report", ("", 0))[0] == "success")
    state, last = airflow.tasks("train")["train"]
    assert state == "success"
    assert last > tries
    assert jobs("train") == ["succeeded"]
    assert (tmp_path / "begun").read_text() == "x"
    # Its log and its end come to Airflow by different ways.
    airflow.until(lambda: "the model is 6" in airflow.logs("report", 1))


def test_the_time_limit_cancels_the_job(airflow, tmp_path):
    build(tmp_path, WAITS, "--time-limit", "30s")
    airflow.run("dags", "test", "train", code=1)
    airflow.until(lambda: jobs("train") == ["cancelled"])
    assert airflow.tasks("train")["train"][0] == "failed"


def test_an_airflow_that_is_too_old_refuses_the_file_in_words(airflow, tmp_path):
    dag = build(tmp_path, FAILS_ONCE) / "train.py"
    words = [airflow.program.with_name("python"), dag]
    assert subprocess.call(words, env=airflow.environment) == 0
    dag.write_text(dag.read_text().replace("< (2, 9)", "< (9, 0)"))
    done = subprocess.run(
        words, env=airflow.environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "ImportError: flow train needs Airflow 2.9 or newer, and this is" in done.stderr
    assert "submarine flow run" in done.stderr
