"""A double of MLflow: its client's calls that an export makes, kept in memory, and no more.

It refuses what MLflow refuses: a parameter that changes, a key or an artifact's path of its own
rules. `tests/cli/test_export.py` runs the same export against MLflow itself.
"""

from __future__ import annotations

import re
import types
from pathlib import Path

STORE = types.SimpleNamespace(experiments={}, runs={}, uris=[])


class MlflowException(Exception):  # noqa: N818 - MLflow's
    pass


class Param:
    def __init__(self, key, value):
        self.key, self.value = key, value


class Metric:
    def __init__(self, key, value, timestamp, step):
        self.key, self.value, self.timestamp, self.step = key, value, timestamp, step


def get_tracking_uri():
    return "sqlite:///default.db"


class MlflowClient:
    def __init__(self, tracking_uri=None, registry_uri=None):
        STORE.uris.append((tracking_uri, registry_uri))

    def get_experiment_by_name(self, name):
        found = STORE.experiments.get(name)
        return found and types.SimpleNamespace(experiment_id=found)

    def create_experiment(self, name):
        STORE.experiments[name] = str(len(STORE.experiments))
        return STORE.experiments[name]

    def search_runs(self, experiments, filter_string, max_results):
        tag, wanted = re.fullmatch(r"tags\.`([\w.]+)` = '([^']*)'", filter_string).groups()
        found = [
            run for run in STORE.runs.values()
            if run.experiment in experiments and run.tags.get(tag) == wanted
        ]  # fmt: skip
        return found[:max_results]

    def create_run(self, experiment_id, start_time, tags, run_name):
        run_id = f"run-{len(STORE.runs)}"
        STORE.runs[run_id] = types.SimpleNamespace(
            info=types.SimpleNamespace(run_id=run_id), experiment=experiment_id, name=run_name,
            data=types.SimpleNamespace(params={}, metrics={}), tags=dict(tags), history={},
            files={}, status="RUNNING", start_time=start_time,
        )  # fmt: skip
        return STORE.runs[run_id]

    def log_batch(self, run_id, metrics=(), params=()):
        run = STORE.runs[run_id]
        for one in (*metrics, *params):
            if not re.fullmatch(r"[\w./ :-]{1,250}", one.key) or one.key.startswith("/"):
                raise MlflowException(f"Invalid name: {one.key!r}")
        for one in params:
            if run.data.params.setdefault(one.key, one.value) != one.value:
                raise MlflowException(f"Changing param values is not allowed: {one.key!r}")
        for one in metrics:
            run.history.setdefault(one.key, []).append(one)
            run.data.metrics[one.key] = one.value

    def get_metric_history(self, run_id, key):
        return STORE.runs[run_id].history[key]

    def log_artifact(self, run_id, local_path, artifact_path=None):
        if artifact_path and any(char in artifact_path for char in "#\n"):
            raise MlflowException(f"Invalid artifact path: {artifact_path!r}")
        path = Path(local_path)
        STORE.runs[run_id].files["/".join(filter(None, (artifact_path, path.name)))] = (
            path.read_bytes()
        )

    def log_artifacts(self, run_id, local_dir, artifact_path):
        for path in Path(local_dir).rglob("*"):
            if path.is_file():
                name = f"{artifact_path}/{path.relative_to(local_dir)}"
                STORE.runs[run_id].files[name] = path.read_bytes()

    def set_tag(self, run_id, key, value):
        STORE.runs[run_id].tags[key] = value

    def set_terminated(self, run_id, status, end_time):
        STORE.runs[run_id].status, STORE.runs[run_id].end_time = status, end_time


def modules():
    """Return the double as the modules that are imported of MLflow."""
    entities = types.ModuleType("mlflow.entities")
    entities.Metric, entities.Param = Metric, Param
    mlflow = types.ModuleType("mlflow")
    mlflow.MlflowClient, mlflow.get_tracking_uri = MlflowClient, get_tracking_uri
    mlflow.entities = entities
    return {"mlflow": mlflow, "mlflow.entities": entities}
