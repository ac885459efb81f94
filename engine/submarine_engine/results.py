"""A job's outcome in this process: the value and the variables, or the error at cell and line."""

from __future__ import annotations

import pickle
import platform
import sys
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from submarine_runtime.failure import Raised
from submarine_runtime.outcome import RAISED

from submarine_engine.bundle.model import Manifest, Sent
from submarine_engine.errors import JobCancelledError, JobError, JobLostError, ResultError
from submarine_engine.failures import as_raised, failure
from submarine_engine.history import read_json
from submarine_engine.home import BUDGET, THE_VALUE, Homecoming, bring, bring_error
from submarine_engine.job import JobState
from submarine_engine.masking import masker_of
from submarine_engine.outcome import Outcome, StoredValue, WentHome, clean, read_outcome

if TYPE_CHECKING:
    from submarine_engine.clusters.base import Cluster
    from submarine_engine.lifecycle import JobStatus, TaskStatus

_LONGEST_TEXT = 1 << 20


class ResultText(str):
    """What a job's result looks like, where the result itself could not come back."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


@dataclass(frozen=True, slots=True)
class Results:
    """What a job gave back.

    Parameters
    ----------
    value
        What the training function, or the cell's last expression, gave; `ResultText` where that
        could not be pickled.
    outputs
        Variables brought back, by name.
    warnings
        What was lost on the way, in words for the user.
    by_task
        What each task's own function, or closing expression, gave, in the order of their ranks:
        ``by_task["worker-1"]``. Each is loaded when it is asked for; what cannot be loaded is a
        `ResultError` then.
    """

    value: Any = None
    outputs: dict[str, Any] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    by_task: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)


def load_results(
    cluster: Cluster, job_id: str, status: JobStatus, home: Homecoming | None = None
) -> Results:
    """Load what the job `job_id` gave back.

    Parameters
    ----------
    cluster
        The job's.
    status
        The job as it ended.
    home
        What a cell has brought home already: what it raised then holds the notebook's own objects.

    Raises
    ------
    JobFailedError
        The job failed. Where its code raised, the error is of that type too, as far as this process
        knows it, with the arguments and attributes that it had.
    JobCancelledError, JobLostError
        The job was cancelled, or vanished.
    JobError
        The job is not over.
    ResultError
        The job succeeded, but what it gave back cannot be loaded here.
    """
    several = len(status.tasks) > 1
    failed = status.failed_task if several else ""
    hint = _log_hint(cluster, job_id, failed)
    if not status.state.final:
        raise JobError(
            "the job is not over", job_id=job_id, fix=f"wait for it: submarine job wait {job_id}"
        )
    if status.state is JobState.CANCELLED:
        why = f": {clean(status.reason)}" if status.reason else ""
        raise JobCancelledError(f"the job was cancelled{why}", job_id=job_id, fix=hint)
    if status.state is JobState.LOST:
        why = clean(status.reason) or "its supervisor is gone, so how it ended is unknown"
        raise JobLostError(why, job_id=job_id, fix=f"submit it again; {hint}")
    folder = cluster.results(job_id, failed or None)
    with _readable(job_id, hint):
        outcome = read_outcome(folder)
        if status.state is JobState.FAILED:
            error = failure(job_id, status, outcome, folder, hint)
            # At its time limit it was interrupted, which says nothing of why.
            raised = None if status.cancelling else _raised(folder, outcome, home)
            if raised is None:
                raise error
            masker = masker_of(folder.parent.parent)
            raise as_raised(error, raised, masker, in_cell=home is not None)
        if outcome is None:
            raise FileNotFoundError(f"there is no {folder / 'outcome.json'}")
        results = _Loader(job_id, folder / "results", outcome).load()
        results.warnings.extend(cluster.warnings(job_id))
        by_task = ByTask(cluster, job_id, status, results.value)
        return replace(results, by_task=by_task)


def _raised(folder: Path, outcome: Outcome | None, home: Homecoming | None) -> Raised | None:
    """Return what a job's code raised; None where that is not known here."""
    if home is not None and home.raised is not None:
        return home.raised
    results = folder / "results"
    try:
        if outcome is None:
            return None
        if outcome.home is not None:
            bundle = folder.parent.parent / "bundle"
            return bring_error(outcome.home, results=results, bundle=bundle, python=outcome.python)
        if not outcome.raised:
            return None
        with (results / RAISED).open("rb") as file:
            found = pickle.load(file)  # noqa: S301 - the user's own job's
    except Exception:  # noqa: BLE001 - whatever a foreign __setstate__ raises
        return None
    return found if isinstance(found, Raised) else None


@contextmanager
def _readable(job_id: str, hint: str, whose: str = "the job", where: str = "") -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:
        if isinstance(error, JobError):
            raise
        what = f"{whose}'s outcome cannot be read: {error}"
        raise ResultError(what, job_id=job_id, where=where, fix=hint) from error


class ByTask(Mapping[str, Any]):
    """The value of each task of a job, in the order of their ranks; loaded when it is asked for.

    Parameters
    ----------
    cluster, job_id
        The job.
    status
        The job as it ended.
    first
        The value of rank 0.
    """

    def __init__(self, cluster: Cluster, job_id: str, status: JobStatus, first: object) -> None:
        self._cluster = cluster
        self._job_id = job_id
        self._tasks = {task.task: task for task in status.ranked}
        self._values: dict[str, Any] = {status.ranked[0].task: first} if status.tasks else {}

    def __iter__(self) -> Iterator[str]:
        return iter(self._tasks)

    def __len__(self) -> int:
        return len(self._tasks)

    def __repr__(self) -> str:
        return f"<values of {', '.join(self._tasks)}: each is loaded when it is asked for>"

    def __getitem__(self, task: str) -> Any:  # noqa: ANN401 - the user's own type
        """Return the value of a task.

        Raises
        ------
        KeyError
            The job has no such task.
        ResultError
            The task gave no value, or it cannot be loaded here.
        """
        if task not in self._tasks:
            raise KeyError(f"{task}: the job has {', '.join(self._tasks)}")
        if task not in self._values:
            self._values[task] = self._load(self._tasks[task])
        return self._values[task]

    def _load(self, task: TaskStatus) -> Any:  # noqa: ANN401 - as above
        hint = _log_hint(self._cluster, self._job_id, task.task)
        where = f"{task.place}, job {self._job_id}"
        folder = self._cluster.results(self._job_id, task.task)
        with _readable(self._job_id, hint, task.task, where):
            outcome = read_outcome(folder)
        if outcome is None or outcome.kind != "returned":
            how = clean(task.reason) or f"it {task.state.value}"
            what = f"{task.task} gave no value: {how}"
            raise ResultError(what, job_id=self._job_id, where=where, fix=hint)
        stored = outcome.result
        if stored.format == "none" and stored.warning:
            raise ResultError(stored.warning, job_id=self._job_id, where=where, fix=hint)
        loader = _Loader(self._job_id, folder / "results", outcome, where)
        with _readable(self._job_id, hint, task.task, where):
            results = loader.load()
        for warning in results.warnings:
            warnings.warn(f"{task.place}: {warning}", stacklevel=3)
        return results.value


def come_home(  # noqa: PLR0913 - what it takes, each by its name
    cluster: Cluster,
    job_id: str,
    task: str | None = None,
    *,
    define: Callable[[Manifest, Collection[str]], None],
    sent: Sent | None = None,
    namespace: MutableMapping[str, Any] | None = None,
    budget: int = BUDGET,
) -> Homecoming | None:
    """Bring what a cell's job left behind into the notebook, however the job ended.

    Parameters
    ----------
    cluster, job_id
        The job.
    task
        Which task's; None for rank 0's. The others leave behind their value and error alone.
    define
        Executes the definitions of a manifest that the job came to, by their names.
    sent, namespace, budget
        As for `submarine_engine.home.bring`.

    Returns
    -------
    Homecoming or None
        None where the job left nothing, or was no notebook's.

    Raises
    ------
    ResultError
        What it left cannot be read.
    """
    with _readable(job_id, _log_hint(cluster, job_id, task or "")):
        folder = cluster.results(job_id, task)
        outcome = read_outcome(folder)
        if outcome is None or outcome.home is None:
            return None
        bundle = folder.parent.parent / "bundle"
        manifest = Manifest.from_json(read_json(bundle / "manifest.json") or {})
        define(manifest, outcome.home.defined)
        home = bring(
            outcome.home,
            results=folder / "results",
            bundle=bundle,
            sent=sent,
            namespace=namespace,
            budget=budget,
            python=outcome.python,
        )
        if outcome.result.format == "outputs":
            home.value = value_of(outcome.result.names, home.names)
        elif outcome.result.format in ("pickle", "text"):
            loader = _Loader(job_id, folder / "results", outcome)
            home.value = loader.value(outcome.result, "the result")
        home.left = outcome.kind == "exited" and outcome.exit_code == 0
        return home


def value_of(names: Sequence[str], values: Mapping[str, Any]) -> Any:  # noqa: ANN401
    """Return what a closing assignment to `names` gave: one value, or a tuple of several.

    Parameters
    ----------
    values
        By name; None stands for a name that is missing.
    """
    found = tuple(values.get(name) for name in names)
    return found[0] if len(found) == 1 else found


class _Loader:
    """Loads the values of one outcome, each file once."""

    def __init__(self, job_id: str, folder: Path, outcome: Outcome, where: str = "") -> None:
        self._where = where
        self._job_id = job_id
        self._folder = folder
        self._outcome = outcome
        self._loaded: dict[str, Any] = {}

    def load(self) -> Results:
        outcome = self._outcome
        if outcome.home is not None:
            return self._of_home(outcome.home)
        outputs = {
            name: self.value(stored, f"`{name}`")
            for name, stored in outcome.outputs.items()
            if stored.format != "none" or not stored.warning
        }
        if outcome.result.format == "outputs":
            value = value_of(outcome.result.names, outputs)
        else:
            value = self.value(outcome.result, "the result")
        stored_values = (outcome.result, *outcome.outputs.values())
        warnings = dict.fromkeys(stored.warning for stored in stored_values if stored.warning)
        return Results(value, outputs, list(warnings))

    def _of_home(self, went: WentHome) -> Results:
        """Load what a cell left behind, apart from the notebook's own objects."""
        result = self._outcome.result
        bundle = self._folder.parent.parent.parent / "bundle"
        home = bring(
            went,
            results=self._folder,
            bundle=bundle,
            python=self._outcome.python,
            budget=sys.maxsize,
        )
        value = home.value
        if result.format == "outputs":
            value = value_of(result.names, home.names)
        elif result.format in ("pickle", "text"):
            value = self.value(result, "the result")
        elif result.format == "home" and THE_VALUE in home.stayed:
            raise ResultError(
                f"the result ({result.type}) cannot be loaded here: {home.stayed[THE_VALUE]}",
                job_id=self._job_id,
                where=self._where,
                fix="run the cells that define what it is made of, then load it again",
            )
        return Results(value, home.names, [])

    def value(self, stored: StoredValue, called: str) -> Any:  # noqa: ANN401 - the user's type
        """Load a value that has a file of its own."""
        if stored.file is None:
            return None
        if stored.file not in self._loaded:
            load = self._unpickle if stored.format == "pickle" else self._text
            self._loaded[stored.file] = load(self._folder / stored.file, stored, called)
        return self._loaded[stored.file]

    def _text(self, path: Path, _stored: StoredValue, _called: str) -> ResultText:
        with path.open("rb") as file:
            return ResultText(clean(file.read(_LONGEST_TEXT).decode(errors="replace")))

    def _unpickle(self, path: Path, stored: StoredValue, called: str) -> Any:  # noqa: ANN401
        with path.open("rb") as file:
            unpickler = _Unpickler(file)
            try:
                return unpickler.load()
            except Exception as error:
                # Whatever a foreign __setstate__ raises: the file itself was opened above.
                what = f"{called} ({stored.type}) cannot be loaded here"
                why, fix = unpickler.explain(error, self._outcome.python, self._job_id)
                raise ResultError(
                    f"{what}: {why}", job_id=self._job_id, where=self._where, fix=fix
                ) from error


class _Unpickler(pickle.Unpickler):
    """Remembers which class or function it was looking for."""

    wanted = ("", "")

    def find_class(self, module: str, name: str) -> Any:  # noqa: ANN401 - as pickle has it
        self.wanted = module, name
        return super().find_class(module, name)

    def explain(self, error: Exception, python: str, job_id: str) -> tuple[str, str]:
        """Return why loading failed, and what to do."""
        module, name = self.wanted
        again = (
            "then load it again: from submarine_engine import open_job; "
            f"open_job({job_id!r}).result()"
        )
        if (
            isinstance(error, AttributeError)
            and module == "__main__"
            and "get attribute" in str(error)
        ):
            return f"`{name}` is not defined here", f"run the cell that defines `{name}`, {again}"
        if isinstance(error, ModuleNotFoundError):
            fix = f"install `{error.name}` here, or put it beside the notebook, {again}"
            return f"there is no module `{error.name}` in this Python", fix
        why = f"{type(error).__name__}: {error}"
        here = platform.python_version()
        if python.split(".")[:2] != here.split(".")[:2]:
            return why, f"the job ran Python {python}, this is {here}: use one version for both"
        return why, "return plain data, for example arrays on the CPU, or a path that was saved to"


def _log_hint(cluster: Cluster, job_id: str, task: str = "") -> str:
    """Return in words where the job's log is, or that of one of its tasks."""
    url = cluster.log_url(job_id)
    which = f" --task {task}" if task else ""
    return f"its log: submarine job logs {job_id}{which}{f', {url}' if url else ''}"
