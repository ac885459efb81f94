"""A job in MLflow's records: once by a double, and the same against MLflow itself."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
from submarine_engine.cli import main
from submarine_engine.clusters.local import LocalCluster
from submarine_engine.export import params, series, to_mlflow
from submarine_engine.future import Job
from submarine_engine.metrics import Row

from tests.foundation import mlflow_double
from tests.foundation.mlflow_double import STORE
from tests.jobs import bundle_of, end_processes_of, spec_of

TRAINS = """
import os, pathlib
from submarine_runtime import report
for step in range(3):
    report(step, loss=1 / (step + 1), odd=float("nan"))
out = pathlib.Path(os.environ["SUBMARINE_OUTPUT_PATH"])
(out / "plots").mkdir()
(out / "plots" / "loss.txt").write_text("0.5")
(out / "model.txt").write_text("weights")
kept = pathlib.Path(os.environ["SUBMARINE_CHECKPOINT_PATH"])
(kept / "step-3").mkdir(parents=True)
(kept / "step-3" / "weights").write_text("w3")
"""


@pytest.fixture
def job(tmp_path, monkeypatch):
    """Give a job that is over."""
    home = tmp_path / "home"
    monkeypatch.setenv("SUBMARINE_HOME", str(home))
    cluster = LocalCluster(home)
    spec = spec_of(
        name="digits", notebook=str(tmp_path / "Digits.ipynb"), env={"RATE": "0.1"},
        checkpoint_path=str(tmp_path / "kept"),
    )  # fmt: skip
    job = Job(cluster, cluster.submit(spec, bundle_of(TRAINS), workdir=tmp_path))
    job.wait(120)
    yield job
    assert not end_processes_of(home)


@pytest.fixture
def double(monkeypatch):
    """Have the double stand for MLflow, without any record."""
    for name, module in mlflow_double.modules().items():
        monkeypatch.setitem(sys.modules, name, module)
    for kept in (STORE.experiments, STORE.runs, STORE.uris):
        kept.clear()
    return STORE


def test_a_job_is_one_run_however_often_it_is_exported(job, double, capsys):
    assert main(["job", "export", "digits", "--to", "mlflow", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["experiment"], told["uri"]) == ("Digits", "sqlite:///default.db")
    assert (told["metrics"], told["files"], told["model"]) == (6, 2, "checkpoint step-3")
    (run,) = double.runs.values()
    assert run.name == "digits"
    assert run.tags["submarine.job_id"] == job.id
    assert run.data.params["env.RATE"] == "0.1"
    assert run.data.params["worker.resources.gpus"] == "0"
    assert [(one.step, one.value) for one in run.history["loss"]] == [(0, 1), (1, 0.5), (2, 1 / 3)]
    assert all(math.isnan(one.value) for one in run.history["odd"])
    assert run.files.keys() == {
        "model.txt", "plots/loss.txt", "model/step-3/weights", "submarine/script.py",
    }  # fmt: skip
    assert (run.status, run.tags["submarine.state"]) == ("FINISHED", "succeeded")
    assert main(["job", "export", "digits", "--to", "mlflow"]) == 0
    assert "has 0 parameters, 0 values of metrics" in capsys.readouterr().out
    assert len(double.runs) == 1
    assert len(run.history["loss"]) == 3


def test_what_mlflow_refuses_is_told_and_costs_nothing_else(job, double, capsys):
    folder = job.artifacts()[0].path.parent
    (folder / "a#b").mkdir()
    (folder / "a#b" / "c").write_text("refused")
    found = to_mlflow(job, uri="sqlite:///here.db", experiment="mine")
    assert double.uris[-1] == ("sqlite:///here.db",) * 2
    assert (found.files, found.experiment) == (2, "mine")
    assert found.left == ("'a#b/c' was refused: MlflowException: Invalid artifact path: 'a#b'",)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--to", "wandb"], "jobs go to no system 'wandb'"),
        ([], "it says not where to"),
    ],
)
def test_it_says_where_a_job_can_go(job, words, said, capsys):
    assert main(["job", "export", job.id, *words]) != 0
    told = capsys.readouterr().err
    assert said in told
    assert "--to mlflow" in told


def test_without_mlflow_it_says_what_to_install(job, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "mlflow", None)
    assert main(["job", "export", job.id, "--to", "mlflow"]) != 0
    told = capsys.readouterr().err
    assert "MLflow's records cannot be written here" in told
    assert "mlflow" in told.partition("-m pip install")[2]


def test_whatever_mlflow_raises_is_told_in_words(job, double, monkeypatch, capsys):
    def refuse(*_):
        raise RuntimeError("the server\nis away")

    monkeypatch.setattr(mlflow_double.MlflowClient, "get_experiment_by_name", refuse)
    assert main(["job", "export", job.id, "--to", "mlflow", "--uri", "http://127.0.0.1:1"]) != 0
    told = capsys.readouterr().err
    assert "MLflow does not take the job: RuntimeError: the server" in told
    assert "http://127.0.0.1:1" in told


def test_ranks_and_names_that_mlflow_would_refuse():
    def row(at, **numbers):
        return Row(at, 1, {name: (value,) * 3 for name, value in numbers.items()})

    reported = {"worker-0": [row(1.5, step=4.0, **{"loß/a@b": 1.0})], "worker-1": [row(2.0, x=2.0)]}
    assert series(reported, "worker-0") == {
        "lo_/a_b": [(4, 1500, 1.0)],
        "worker-1/x": [(0, 2000, 2.0)],
    }
    told = dict(params({"roles": [{"name": "ps", "count": 2, "args": ["a", 1]}], "queue": None}))
    assert told == {"ps.count": "2", "ps.args": "a 1"}


EXPORT = """
import json, os, sys
from submarine_engine.export import to_mlflow
from submarine_engine.records import open_job
from mlflow import MlflowClient
uri = f"sqlite:///{os.getcwd()}/mlflow.db"
told = [to_mlflow(open_job(sys.argv[1]), uri=uri) for _ in range(2)]
client = MlflowClient(tracking_uri=uri, registry_uri=uri)
run = client.get_run(told[0].run_id)
history = [(one.step, one.value) for one in client.get_metric_history(run.info.run_id, "loss")]
def files(below=None):
    for one in client.list_artifacts(run.info.run_id, below):
        yield from files(one.path) if one.is_dir else [one.path]
print(json.dumps({
    "runs": [one.run_id for one in told], "again": told[1].metrics, "left": told[0].left,
    "params": run.data.params, "tags": run.data.tags, "history": sorted(history),
    "status": run.info.status, "files": sorted(files()), "experiment": told[0].experiment,
}))
"""


@pytest.mark.long
def test_mlflow_itself_has_all_of_it(job, tmp_path):
    """MLflow is no part of what the project's own environment has."""
    site, root = tmp_path / "site", Path(__file__).parents[2]
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
    subprocess.run(
        [*pip, "--target", site, "--constraint", root / "constraints.txt", "mlflow-skinny"],
        check=True,
    )
    environment = {
        **os.environ,
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "PYTHONPATH": os.pathsep.join([*filter(None, sys.path), str(site)]),
    }
    done = subprocess.run(
        [sys.executable, "-c", EXPORT, job.id],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["runs"][0] == told["runs"][1]
    assert (told["again"], told["left"], told["status"]) == (0, [], "FINISHED")
    assert told["experiment"] == "Digits"
    assert told["history"] == [[0, 1.0], [1, 0.5], [2, pytest.approx(1 / 3)]]
    assert told["params"]["env.RATE"] == "0.1"
    assert told["tags"]["submarine.job_id"] == job.id
    assert {"model.txt", "plots/loss.txt", "submarine/script.py"} < set(told["files"])
    assert any(name.startswith("model/") for name in told["files"])
