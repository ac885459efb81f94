"""The ways to Slurm that its page shows: a notebook's `use slurm`, and the first three commands."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest
from submarine_engine.cli import main
from submarine_engine.clusters.slurm.sbatch import job_name
from submarine_engine.job import JobState
from submarine_engine.records import list_jobs
from submarine_engine.testing.jobs import end_processes_of

from tests.kernels import Driven

from .conftest import PATIENCE

PAGE = Path(__file__).parents[2] / "docs/slurm.md"

TRAIN = """
import os
from submarine_runtime import job

state = {"seen": 0}
for step in job.steps(3, state, every=0):
    state["seen"] += 1
print("trained by", os.environ["SLURM_JOB_ID"], "on", os.environ["CUDA_VISIBLE_DEVICES"])
"""

CELL = """%%submarine --gpus 1 --name digits
import os
seen = train(3)
seen["number"] = os.environ["SLURM_JOB_ID"]
seen
"""


@pytest.mark.long
def test_a_notebook_that_uses_slurm_has_its_cells_run_there(place, slurm, tmp_path):
    home = tmp_path / "notebook-home"
    home.mkdir()
    kernel = Driven(str(home), env=slurm.environment())
    try:
        said = kernel.run("%submarine use slurm").text
        kernel.run("def train(epochs):\n    print('epochs', epochs)\n    return {'epochs': epochs}")
        ran = kernel.run(CELL)
        assert ran.reply["status"] == "ok", ran.text
        after = kernel.run("seen").value
        (job,) = list_jobs(home)
    finally:
        kernel.stop()
        shutil.rmtree(home / "slurm", ignore_errors=True)  # its keeper would wait for more jobs
        end_processes_of(home, PATIENCE)
    assert "slurm" in said
    assert "epochs 3" in ran.text
    assert (job.name, job.cluster, job.state) == ("digits", "slurm", JobState.SUCCEEDED)
    number = place.told()[job_name(job.id, 1)]["job_id"]
    assert eval(after) == {"epochs": 3, "number": str(number)}  # noqa: S307 - what we have written


@pytest.mark.long
def test_the_first_three_commands_of_its_page_run(place, monkeypatch, capsys):
    block = re.search(r"```console\n(.*?)```", PAGE.read_text(), re.DOTALL)[1]
    doctor, run, show = [shlex.split(line.removeprefix("$ ")) for line in block.splitlines()]
    assert [words[:3] for words in (doctor, run, show)] == [
        ["submarine", "doctor", "--cluster"], ["submarine", "job", "run"],
        ["submarine", "job", "show"],
    ]  # fmt: skip
    monkeypatch.chdir(place.folder)
    (place.folder / "train.py").write_text(TRAIN)
    before = {job.id for job in list_jobs(place.home)}
    assert main(doctor[1:]) == 0, capsys.readouterr()
    told = capsys.readouterr().out
    assert "cluster: slurm" in told
    assert "GPUs: 4 (GPU)" in told
    assert main(run[1:]) == 0
    shown = capsys.readouterr().out
    (job,) = [job for job in list_jobs(place.home) if job.id not in before]
    number = place.told()[job_name(job.id, 1)]["job_id"]
    assert f"trained by {number} on " in shown
    assert list((place.folder / "models").rglob("*"))
    assert main([job.id if word == "JOB" else word for word in show[1:]]) == 0
    shown = capsys.readouterr().out
    assert "succeeded" in shown
    assert "slurm" in shown
