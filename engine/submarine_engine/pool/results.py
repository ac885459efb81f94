"""What a pool's calls gave, as its program sees it: values, and errors at cell and line."""

from __future__ import annotations

import pickle
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from submarine_runtime.call_frames import RETURNS, Reader, SpoiltError

from submarine_engine.clusters.log_mirror import LogsGoneError
from submarine_engine.errors import JobCancelledError, JobFailedError, JobLostError, ResultError
from submarine_engine.failures import Source, as_raised, failed_like
from submarine_engine.history import JobPaths
from submarine_engine.job import JobSpec
from submarine_engine.outcome import clean, read_error
from submarine_engine.pool.arguments import load
from submarine_engine.results import ResultText

if TYPE_CHECKING:
    from submarine_engine.pool.calls import End
    from submarine_engine.pool.folder import PoolFolder


class Loader:
    """Makes values and errors of how calls ended.

    Parameters
    ----------
    folder
        The pool's.
    """

    def __init__(self, folder: PoolFolder) -> None:
        self._source = Source.of(folder.root)
        self._masker = folder.masker

    def value(self, end: End, what: str, log: str = "") -> Any:  # noqa: ANN401 - the user's own
        """Return what a call returned.

        Parameters
        ----------
        end
            How it ended.
        what
            What people call it.
        log
            What shows its log alone; the worker's whole log unless given.

        Raises
        ------
        JobFailedError, JobCancelledError, JobLostError
            It returned nothing: what `error` gives.
        ResultError
            It cannot be loaded here.
        """
        if end.outcome == "text":
            return ResultText(clean(end.payload.decode(errors="replace")))
        if end.outcome != "value":
            raise self.error(end, what, log)
        try:
            return load(end.payload)
        except Exception as error:  # whatever a foreign __setstate__ raises
            raise ResultError(
                f"what {what} returned cannot be loaded here: {type(error).__name__}: {error}",
                job_id=end.worker,
                fix="run the cells that define what it is made of, then load it again",
            ) from error

    def error(
        self, end: End, what: str, log: str = ""
    ) -> JobFailedError | JobCancelledError | JobLostError:
        """Return the error of a call that returned nothing; the rest is as `value` has it.

        Parameters
        ----------
        end
            How the call ended.
        what
            The call, in words.
        log
            How to read its log, in words.
        """
        hint = f"its log: {log or f'submarine job logs {end.worker}'}" if end.worker else ""
        if end.outcome == "withdrawn":
            return JobCancelledError(f"{what} was cancelled", job_id=end.worker)
        if end.outcome == "lost":
            why = clean(str(end.told.get("reason") or end.told.get("state", "")))
            lost = f"{what} was lost with its worker{f': {why}' if why else ''}"
            return JobLostError(lost, job_id=end.worker, fix=hint)
        error = read_error(end.told.get("error"))
        if end.outcome != "error" or error is None:
            return JobFailedError(f"{what} {_how(end)}", job_id=end.worker, fix=hint)
        trace = self._source.trace(error)
        kinds = ((error.module, error.type), ("builtins", error.builtin))
        task = end.told.get("task")  # of several
        fix = f"it was {what}{f' in {clean(str(task)[:99])}' if task else ''}; {hint}"
        failed = failed_like(kinds, trace.summary, job_id=end.worker, trace=trace, fix=fix)
        if end.payload:
            with suppress(Exception):  # as a notebook that lacks what the exception holds
                raised = pickle.loads(end.payload)  # noqa: S301 - our own job's
                return as_raised(failed, raised, self._masker)
        return failed


def printed(folder: PoolFolder, index: int, end: End) -> str:
    """Return what a call has written to its worker's log: ``stdout``, then ``stderr``.

    Parameters
    ----------
    folder
        The pool's.
    index, end
        The call, and how it ended.

    Raises
    ------
    LogsGoneError
        The worker's files are gone, or cannot be read.
    """
    tasks = JobSpec.from_json(folder.read()["spec"]).tasks
    # Of several the one that failed.
    task = next((one for one in tasks if one == end.told.get("task")), tasks[0])
    files = JobPaths(folder.home, end.worker).task(task)
    key = index, end.attempts
    begins: dict[str, Any] = {}
    ends: dict[str, Any] = {}
    reader = Reader(str(files.root / RETURNS))
    try:
        for head, _ in reader.read():
            if "stdout" not in head:
                continue
            began, mine = head["kind"] == "began", (head.get("index"), head.get("try")) == key
            if began and mine:
                begins, ends = head, {}
            # Its own end, though a fork's next call may have told before that it began; of a call
            # whose process died, where the next one begins.
            elif begins and (mine or (began and not ends)):
                ends = head
        pieces = []
        for stream in ("stdout", "stderr"):
            at, until = begins.get(stream), ends.get(stream)
            if isinstance(at, int) and at >= 0:
                with files.log(stream).open("rb") as file:
                    file.seek(at)
                    # Where its worker was lost with it, there is no word after it.
                    size = max(0, until - at) if isinstance(until, int) else -1
                    pieces.append(file.read(size).decode(errors="replace"))
    except (OSError, SpoiltError) as error:
        raise LogsGoneError(
            f"what call {index} has printed cannot be read: {error}",
            where=str(files.root),
            fix=f"the worker's whole log: submarine job logs {end.worker}",
        ) from error
    finally:
        reader.close()
    return "".join(pieces)


def _how(end: End) -> str:
    code = end.told.get("code")
    if end.outcome == "died" and isinstance(code, int):
        if code < 0:
            return f"ended its process by signal {-code}: a crash, or too much memory"
        return f"ended its process with code {code}"
    return {"stop": "was stopped", "pause": "was paused"}.get(end.outcome, "failed")
