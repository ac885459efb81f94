"""A job's outcome in this process: the value and the variables, or the error at cell and line."""

from __future__ import annotations

import pickle
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from submarine_engine.errors import JobCancelledError, JobError, JobLostError, ResultError
from submarine_engine.failures import failure, log_hint
from submarine_engine.job import JobState
from submarine_engine.outcome import Outcome, StoredValue, clean, read_outcome

if TYPE_CHECKING:
    from submarine_engine.clusters.base import Cluster
    from submarine_engine.lifecycle import JobStatus

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
    """

    value: Any = None
    outputs: dict[str, Any] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


def load_results(cluster: Cluster, job_id: str, status: JobStatus) -> Results:
    """Load what the job `job_id` gave back.

    Parameters
    ----------
    status
        The job as it ended.

    Raises
    ------
    JobFailedError
        The job failed; where the job raised a built-in exception, the error is one of that type
        too.
    JobCancelledError, JobLostError
        The job was cancelled, or vanished.
    ResultError
        The job succeeded, but what it gave back cannot be loaded here.
    """
    hint = log_hint(cluster, job_id)
    if not status.state.final:
        raise JobError(
            "the job is not over", job_id=job_id, fix="wait for it: job.wait(), job.result()"
        )
    if status.state is JobState.CANCELLED:
        why = f": {clean(status.reason)}" if status.reason else ""
        raise JobCancelledError(f"the job was cancelled{why}", job_id=job_id, fix=hint)
    if status.state is JobState.LOST:
        why = clean(status.reason) or "nobody knows how it ended: its supervisor is gone"
        raise JobLostError(why, job_id=job_id, fix=f"submit it again; {hint}")
    folder = cluster.results(job_id)
    with _readable(job_id, hint):
        outcome = read_outcome(folder)
        if status.state is JobState.FAILED:
            raise failure(job_id, status, outcome, folder, hint)
        if outcome is None:
            raise FileNotFoundError(f"there is no {folder / 'outcome.json'}")
        results = _Loader(job_id, folder / "results", outcome).load()
        results.warnings.extend(cluster.warnings(job_id))
        return results


@contextmanager
def _readable(job_id: str, hint: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:
        if isinstance(error, JobError):
            raise
        raise ResultError(
            f"the job's outcome cannot be read: {error}", job_id=job_id, fix=hint
        ) from error


class _Loader:
    """Loads the values of one outcome, each file once."""

    def __init__(self, job_id: str, folder: Path, outcome: Outcome) -> None:
        self._job_id = job_id
        self._folder = folder
        self._outcome = outcome
        self._loaded: dict[str, Any] = {}

    def load(self) -> Results:
        outcome = self._outcome
        outputs = {
            name: self._value(stored, f"`{name}`")
            for name, stored in outcome.outputs.items()
            if stored.format != "none" or not stored.warning
        }
        if outcome.result.format == "outputs":
            values = tuple(outputs.get(name) for name in outcome.result.names)
            value: Any = values[0] if len(values) == 1 else values
        else:
            value = self._value(outcome.result, "the result")
        stored_values = (outcome.result, *outcome.outputs.values())
        warnings = dict.fromkeys(stored.warning for stored in stored_values if stored.warning)
        return Results(value, outputs, list(warnings))

    def _value(self, stored: StoredValue, called: str) -> Any:  # noqa: ANN401 - the user's type
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
                raise ResultError(f"{what}: {why}", job_id=self._job_id, fix=fix) from error


class _Unpickler(pickle.Unpickler):
    """Remembers which class or function it was looking for."""

    wanted = ("", "")

    def find_class(self, module: str, name: str) -> Any:  # noqa: ANN401 - as pickle has it
        self.wanted = module, name
        return super().find_class(module, name)

    def explain(self, error: Exception, python: str, job_id: str) -> tuple[str, str]:
        """Return why loading failed, and what to do."""
        module, name = self.wanted
        again = f"then load it again: open_job({job_id!r}).result()"
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
