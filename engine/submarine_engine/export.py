"""A job in the records of another system: what it asked for, its numbers, and what it has left.

MLflow's, by its own client. A job is one run in an experiment, found by the tag `TAG`: exported
once more, the same run has what is new.
"""

from __future__ import annotations

import math
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from submarine_runtime.reported import STEP

from submarine_engine.amounts import count
from submarine_engine.clusters import locks, saving
from submarine_engine.clusters.environment import file_address
from submarine_engine.errors import CommandError, JobError, SubmarineError, UnsupportedError
from submarine_engine.extras import install_extra
from submarine_engine.history import JobPaths, default_home, read_json
from submarine_engine.job import JobState
from submarine_engine.masking import masker_of
from submarine_engine.records import open_job

if TYPE_CHECKING:
    from submarine_engine.artifacts import Artifact
    from submarine_engine.command.parser import Command
    from submarine_engine.future import Job
    from submarine_engine.lifecycle import JobStatus
    from submarine_engine.metrics import Row

TAG = "submarine.job_id"
_STATES = {
    JobState.SUCCEEDED: "FINISHED",
    JobState.FAILED: "FAILED",
    JobState.LOST: "FAILED",
    JobState.CANCELLED: "KILLED",
}
_UNNAMED = "submarine"
_NO_PARAMETER = frozenset(
    {"version", "name", "notebook", "secrets", "outputs", "parent", "asks", "chosen", "quicklinks"}
)
_LONGEST_KEY = 250
_LONGEST_VALUE = 500  # MLflow's own limit, in its older releases
_BATCH = 100
"""Of both MLflow takes so many parameters, and more metrics, in one request."""

_WAIT = 60.0  # seconds: who exports it right now sends many requests to a server elsewhere
_PLACE = "submarine"
_MODEL = "model"


@dataclass(frozen=True, slots=True)
class Exported:
    """What has come of it.

    Parameters
    ----------
    job
        The job's id.
    run_id, experiment, uri
        Which run, in which experiment, where.
    params, metrics, files
        How many parameters, values of metrics and files are new there.
    model
        Where the model came from, in words; why there is none otherwise.
    left
        What MLflow has refused, in words.
    """

    job: str
    run_id: str
    experiment: str
    uri: str
    params: int
    metrics: int
    files: int
    model: str
    left: tuple[str, ...]

    @property
    def words(self) -> str:
        """All in a line."""
        told = (
            f"run {self.run_id} of experiment {self.experiment!r} at {self.uri} has "
            f"{count(self.params, 'parameter')}, {count(self.metrics, 'value')} of metrics and "
            f"{count(self.files, 'file')} more; model: {self.model}"
        )
        return "; ".join((told, *self.left))

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        fields = "run_id", "experiment", "uri", "params", "metrics", "files", "model"
        return {**{name: getattr(self, name) for name in fields}, "left_out": list(self.left)}


def to_mlflow(job: Job, *, uri: str = "", experiment: str = "") -> Exported:
    """Put a job into MLflow's records, or what is new of one that is there.

    Parameters
    ----------
    uri
        Where MLflow keeps its records; ``MLFLOW_TRACKING_URI``, else MLflow's own default, unless
        given.
    experiment
        Its name; that of the notebook unless given.

    Raises
    ------
    UnsupportedError
        MLflow is not installed.
    JobError
        It refuses, or somebody else exports the job right now.
    """
    paths = JobPaths(getattr(job.cluster, "home", None) or default_home(), job.id)
    record = read_json(paths.record) or {}
    spec: Mapping[str, Any] = record.get("spec") or {}
    named = experiment or Path(str(spec.get("notebook") or "")).stem or _UNNAMED
    lock = locks.take(paths.root / "export.lock", wait=_WAIT)
    if lock is None:
        raise JobError("it is being exported right now", job_id=job.id, fix="try again in a while")
    try:
        with _in_our_words(uri):
            return _Run(job, paths, record, uri, named).export()
    finally:
        locks.drop(lock)


def export_as_asked(command: Command) -> Exported:
    """Do what the verb `command` asks for; raises as `to_mlflow` does.

    Raises
    ------
    CommandError
        It names no system, or one that is unknown.
    """
    asked = command.values
    if asked.get("to") != "mlflow":
        raise CommandError(
            f"jobs go to no system {asked['to']!r}" if asked.get("to") else "it says not where to",
            where="--to",
            fix="write --to mlflow",
        )
    uri, experiment = asked.get("uri") or "", asked.get("experiment") or ""
    return to_mlflow(open_job(asked["job"]), uri=uri, experiment=experiment)


@contextmanager
def _in_our_words(uri: str) -> Iterator[None]:
    """Tell in our words what MLflow, or one of the many packages below it, raises."""
    try:
        yield
    except SubmarineError:
        raise
    except ImportError as error:
        raise UnsupportedError(
            f"MLflow's records cannot be written here: {error}",
            where="--to mlflow",
            fix=install_extra("mlflow"),
        ) from error
    except Exception as error:
        said = str(error).strip().partition("\n")[0][:300]
        raise JobError(
            f"MLflow does not take the job: {type(error).__name__}: {said}",
            where=uri or os.environ.get("MLFLOW_TRACKING_URI") or "MLflow's own default",
            fix="name its server or data base by --uri or MLFLOW_TRACKING_URI, for example "
            "sqlite:///mlflow.db; what has arrived is not written again",
        ) from error


class _Run:
    """A job's run, found or made.

    Parameters
    ----------
    paths, record
        The job's.
    experiment
        Its name.
    """

    def __init__(
        self, job: Job, paths: JobPaths, record: Mapping[str, Any], uri: str, experiment: str
    ) -> None:
        from mlflow import MlflowClient, get_tracking_uri  # noqa: PLC0415 - seconds, and an extra

        self._job, self._paths, self._record = job, paths, record
        self._spec: Mapping[str, Any] = record.get("spec") or {}
        self._status: JobStatus = job.status()
        self._masker = masker_of(paths.root)
        self._uri, self._experiment = uri or get_tracking_uri(), experiment
        # MLflow without its registry of models refuses a data base as one.
        self._client = MlflowClient(tracking_uri=self._uri, registry_uri=self._uri)
        self._left: list[str] = []

    def export(self) -> Exported:
        """Bring what is new."""
        run = self._find() or self._make()
        run_id = run.info.run_id
        params = self._log_params(run_id, run.data.params)
        metrics = self._log_metrics(run_id, set(run.data.metrics))
        files = self._log_files(run_id)
        model = self._log_model(run_id)
        self._close(run_id)
        return Exported(
            self._job.id,
            run_id,
            self._experiment,
            self._uri,
            params,
            metrics,
            files,
            model,
            tuple(self._left),
        )

    def _find(self) -> Any:  # noqa: ANN401 - MLflow's
        self._experiment_id = self._experiment_of()
        found = self._client.search_runs(
            [self._experiment_id], f"tags.`{TAG}` = '{self._job.id}'", max_results=1
        )
        return found[0] if found else None

    def _experiment_of(self) -> str:
        found = self._client.get_experiment_by_name(self._experiment)
        if found is not None:
            return str(found.experiment_id)
        return str(self._client.create_experiment(self._experiment))

    def _make(self) -> Any:  # noqa: ANN401 - MLflow's
        name = str(self._spec.get("name") or self._job.id)
        notebook = str(self._spec.get("notebook") or "")
        begun = self._status.submitted
        tags = {
            TAG: self._job.id,
            "submarine.cluster": self._job.cluster.name,
            "mlflow.user": str(self._record.get("user") or ""),
            "mlflow.source.name": notebook,
            "mlflow.source.type": "NOTEBOOK" if notebook else "JOB",
        }
        return self._client.create_run(
            self._experiment_id,
            start_time=int(begun.wall * 1000) if begun else None,
            tags=tags,
            run_name=name,
        )

    def _close(self, run_id: str) -> None:
        """Say how the job stands."""
        state, finished = self._status.state, self._status.finished
        reason = self._masked(self._status.reason)[:_LONGEST_VALUE]
        for name, value in (("submarine.state", state.value), ("submarine.reason", reason)):
            self._client.set_tag(run_id, name, value)
        if state.final:
            end = int(finished.wall * 1000) if finished else None
            self._client.set_terminated(run_id, _STATES[state], end)

    def _masked(self, text: str) -> str:
        return self._masker.text(text) if self._masker else text

    def _log_params(self, run_id: str, there: Mapping[str, str]) -> int:
        from mlflow.entities import Param  # noqa: PLC0415 - as above

        told = {key: self._masked(value)[:_LONGEST_VALUE] for key, value in params(self._spec)}
        new = [Param(key, value) for key, value in told.items() if key not in there]
        for begin in range(0, len(new), _BATCH):
            self._client.log_batch(run_id, params=new[begin : begin + _BATCH])
        return len(new)

    def _log_metrics(self, run_id: str, there: set[str]) -> int:
        from mlflow.entities import Metric  # noqa: PLC0415 - as above

        reported = self._job.cluster.metrics(self._job.id).reported
        ranked = self._status.ranked
        new = []
        for name, points in series(reported, ranked[0].task if ranked else "").items():
            history = self._client.get_metric_history(run_id, name) if name in there else ()
            known = {point.step for point in history}
            new += [
                Metric(name, value, at, step) for step, at, value in points if step not in known
            ]
        for begin in range(0, len(new), _BATCH):
            self._client.log_batch(run_id, metrics=new[begin : begin + _BATCH])
        return len(new)

    def _log_files(self, run_id: str) -> int:
        """Bring what the job has left, and the script: a file of the same name is replaced."""
        found = self._job.cluster.artifacts(self._job.id)
        logged = sum(self._log_file(run_id, one) for one in found.files)
        if found.left:
            self._left.append(found.words)
        entry = str((read_json(self._paths.bundle / "manifest.json") or {}).get("entry") or "")
        script = self._paths.bundle / entry
        if entry and "/" not in entry and script.is_file() and not script.is_symlink():
            self._client.log_artifact(run_id, str(script), _PLACE)
        return logged

    def _log_file(self, run_id: str, one: Artifact) -> bool:
        folder = one.name.rpartition("/")[0]
        try:
            self._client.log_artifact(run_id, str(one.path), folder or None)
        except Exception as error:  # noqa: BLE001 - MLflow's, or of where it keeps its files
            said = str(error).strip().partition("\n")[0][:200]
            self._left.append(f"{one.name!r} was refused: {type(error).__name__}: {said}")
            return False
        return True

    def _log_model(self, run_id: str) -> str:
        """Bring the model of a job that runs, by its own function; else its last checkpoint."""
        with tempfile.TemporaryDirectory(prefix="submarine-model-") as folder:
            place = Path(folder, _MODEL)
            try:
                running = self._status.state is JobState.RUNNING
                words = self._saved(place) if running else ""
                words = words or f"checkpoint {self._last_checkpoint(place)}"
            except SubmarineError as error:
                return f"none ({error.what})"
            except OSError as error:
                return f"none ({error.strerror or error})"
            self._client.log_artifacts(run_id, str(place), _MODEL)
            return words

    def _saved(self, place: Path) -> str:
        """Have the job itself save its model; return how, empty where the job has ended since."""
        try:
            return self._job.save(place).words
        except SubmarineError:
            if not self._job.done():
                raise
            shutil.rmtree(place, ignore_errors=True)
            return ""

    def _last_checkpoint(self, place: Path) -> str:
        """Copy the last complete checkpoint that lies on this machine; return its name."""
        own = self._job.cluster.own_checkpoints(self._job.id) or ""
        kept = str(self._spec.get("checkpoint_path") or own)
        if not kept or (kept == own and "://" not in own and not Path(own).is_dir()):
            raise JobError("the job is over and has kept no checkpoint", job_id=self._job.id)
        path = file_address(kept, "--checkpoint_path")
        if path is None and "://" in kept:
            raise JobError(f"{kept} is not on this machine", job_id=self._job.id)
        place.mkdir()
        root = Path(str(self._record.get("workdir") or "."), path or kept)
        return saving.copy_newest(saving.FolderStorage(root), place, self._job.id)


def params(spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what a job asked for, by plain names: ``worker.resources.gpus``.

    Parameters
    ----------
    spec
        As its record has it.
    """
    for name, value in spec.items():
        if name not in _NO_PARAMETER:
            yield from _flat("" if name == "roles" else name, value)


def _flat(name: str, value: Any) -> Iterator[tuple[str, str]]:  # noqa: ANN401 - as JSON has it
    if value is None or value in ("", [], {}):
        return
    if isinstance(value, Mapping):
        inner = {str(key): one for key, one in value.items() if key != "name"}
        below = f"{name}." if name else ""
        for key, one in inner.items():
            yield from _flat(f"{below}{key}", one)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        if all(isinstance(one, Mapping) for one in value):
            for one in value:
                yield from _flat(".".join(filter(None, (name, str(one.get("name", ""))))), one)
        else:
            yield _key(name), " ".join(map(str, value))
    else:
        yield _key(name), str(value)


def series(
    reported: Mapping[str, Sequence[Row]], first: str
) -> dict[str, list[tuple[int, int, float]]]:
    """Return what tasks have reported: step, time in milliseconds and value, by a metric's name.

    Parameters
    ----------
    reported
        Rows by task.
    first
        The task of rank 0: its names are plain, the others' begin with their task.
    """
    found: dict[str, dict[int, tuple[int, int, float]]] = {}
    for task, rows in reported.items():
        below = "" if task == first else f"{task}/"
        for number, row in enumerate(rows):
            step = row.numbers.get(STEP, (math.nan,) * 3)[2]
            at = int(step) if math.isfinite(step) else number
            for name, (_, mean, _) in row.numbers.items():
                if name != STEP:
                    points = found.setdefault(_key(f"{below}{name}"), {})
                    points[at] = at, int(row.at * 1000), mean  # of a step it is the last
    return {name: list(points.values()) for name, points in found.items()}


def _key(name: str) -> str:
    """Return a name that MLflow takes."""
    return re.sub(r"[^\w./ -]|(?<=/)/|^/+|\.\.+", "_", name, flags=re.ASCII)[:_LONGEST_KEY] or "_"
