"""A submitted job in the hand: acts like a Future, opened by id from any process."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from submarine_engine.clusters.base import Cluster, Cursor
from submarine_engine.errors import (
    JobCancelledError,
    JobError,
    JobFailedError,
    JobLostError,
)
from submarine_engine.events import Display, Granted, LogChunk
from submarine_engine.job import JobState
from submarine_engine.results import Results, load_results

if TYPE_CHECKING:
    from subprocess import CompletedProcess

    from submarine_engine.artifacts import Artifact
    from submarine_engine.clusters.base import Saved
    from submarine_engine.difference import Difference
    from submarine_engine.events import Event
    from submarine_engine.lifecycle import JobStatus
    from submarine_engine.stacks import Stacks
    from submarine_engine.waterfall import Startup

_QUICKEST = 0.01  # seconds: a look reads a file's end; text shows within a frame of a screen or so
_SLOWEST = 0.05  # seconds while it is quiet: people see no delay, and it costs next to nothing
_EARLY = 2.0  # seconds after its grant: the first line is waited for, and looked for most often


class Job:
    """A job on a cluster.

    Parameters
    ----------
    cluster
        Where it runs.
    job_id
        Its id there.

    Attributes
    ----------
    remembered
        Where its result was asked for again and was not computed anew (see
        `submarine_engine.cache`): when and by which job it was, in words.
    """

    def __init__(self, cluster: Cluster, job_id: str) -> None:
        self.cluster = cluster
        self.id = job_id
        self.remembered = ""
        self._results: Results | None = None
        self._error: JobError | None = None

    def __repr__(self) -> str:
        return f"<Job {self.id} on {self.cluster.name}: {self.status().state.value}>"

    def status(self) -> JobStatus:
        """Return the job as it stands."""
        return self.cluster.status(self.id)

    def done(self) -> bool:
        """Return whether the job is over, however it ended."""
        return self.status().state.final

    def running(self) -> bool:
        """Return whether the job's code runs now."""
        return self.status().state is JobState.RUNNING

    def cancelled(self) -> bool:
        """Return whether the job ended by being cancelled."""
        return self.status().state is JobState.CANCELLED

    def cancel(self, reason: str = "") -> bool:
        """Ask the job to end (SIGTERM, grace, SIGKILL); False where it was over already.

        Parameters
        ----------
        reason
            Shown with the job's state.
        """
        if self.done():
            return False
        self.cluster.cancel(self.id, reason)
        return True

    def kill(self) -> None:
        """End the job's processes at once."""
        self.cluster.kill(self.id)

    def save(self, path: str | os.PathLike[str], *, patience: float | None = None) -> Saved:
        """Bring the model to the new folder `path` now, while training goes on.

        The function that the training code gave to `submarine_runtime.on_save` writes it; where
        there is none, the last complete checkpoint of ``--checkpoint_path`` is copied.

        Parameters
        ----------
        path
            A folder of this machine, or ``hdfs://…`` where the cluster has HDFS.
        patience
            Seconds that the function may take; the setting ``save_patience`` unless given.

        Raises
        ------
        SaveError
            The job does not run, gives no way to its model, or its own function failed; the job
            is as it was.
        UnsupportedError
            The cluster cannot do it, or not to that path.
        """
        return self.cluster.save(self.id, os.fspath(path), patience=patience)

    def retry(self, *, notebook: bool = False) -> Job:
        """Run this job, which did not succeed, once more: a new job, from the last checkpoint.

        It has the same script and values, asks for the same, and has the same checkpoint folder.
        Values of ``--secret`` are looked up anew.

        Parameters
        ----------
        notebook
            Whether it is the job's notebook that asks.

        Raises
        ------
        JobError
            This one is not over, has succeeded, or its script is gone.
        SubmissionError, ClusterError
            The cluster refuses the new one.
        """
        return Job(self.cluster, self.cluster.retry(self.id, notebook=notebook))

    def rerun(self, *, cluster: Cluster | str | None = None, **options: Any) -> Job:  # noqa: ANN401 - as `submit` has them
        """Run this very job once more, from the start; return the new one.

        It has the same script and values, byte for byte, whatever was changed since, and asks for
        the same. Values of ``--secret`` are looked up anew. Warns of packages and data that are
        others now. To go on from the last checkpoint, see `retry`.

        Parameters
        ----------
        cluster
            Where to run; this job's unless given.
        options
            What is to be otherwise, as `submit` has it: ``gpus=2``. What `env` and `secret` name
            is added.

        Raises
        ------
        JobError
            Its script or values are gone or were changed, or it is a sweep or a map.
        CommandError
            An option is not possible; or the job kept checkpoints, and no other
            `checkpoint_path` is given.
        SubmissionError, ClusterError
            The cluster refuses the new one.
        """
        # imported late: few jobs are run again
        from submarine_engine.rerun import rerun, with_options  # noqa: PLC0415

        told: list[str] = []
        where, again = rerun(
            self.id,
            lambda spec: with_options(spec, options),
            cluster=cluster or self.cluster,
            tell=told.append,
        )
        for text in told:
            warnings.warn(text, stacklevel=2)
        return Job(where, again)

    def diff(self, other: Job) -> Difference:
        """Return how another job differs from this one: code, values, options, versions, results.

        It is told by what is on record: also of jobs of different clusters, and that are not over.

        Parameters
        ----------
        other
            The later one, as `open_job` gives it.

        Returns
        -------
        Difference
            It shows itself as text, and in a notebook as HTML. `Difference.same` says whether
            nothing differs, `Difference.sections` has what does, and `Difference.unknown` what
            nobody can tell.

        Raises
        ------
        CommandError
            It is this one.
        """
        from submarine_engine.difference import compare  # noqa: PLC0415 - few jobs are compared
        from submarine_engine.rerun import paths_of  # noqa: PLC0415 - likewise

        return compare(paths_of(self.cluster, self.id), paths_of(other.cluster, other.id))

    def stacks(self) -> Stacks:
        """Return where the job's tasks stand now: their stacks, at cell and line.

        The job goes on meanwhile. A task that does not answer, since it is stopped or runs no
        Python, is there without any.

        Raises
        ------
        JobError
            The job does not run, or nobody answers.
        UnsupportedError
            The cluster cannot do it.
        """
        return self.cluster.stacks(self.id)

    def exec(
        self, command: Sequence[str], *, task: str | None = None, stdin: bytes = b""
    ) -> CompletedProcess[bytes]:
        """Run a program inside a running task; return its exit code and what it has written.

        It has the environment, the folder and the GPUs of the task, and is ended with it.

        Parameters
        ----------
        command
            The program and its arguments: words, which no shell reads.
        task
            Inside which; that of rank 0 unless given.
        stdin
            What the program reads.

        Raises
        ------
        CommandError
            The job has no such task, or the task no such program.
        JobError
            The job does not run, ends meanwhile, or the task cannot be reached.
        UnsupportedError
            The cluster cannot do it.
        """
        from submarine_engine.inside import run  # noqa: PLC0415 - few jobs are gone into

        return run(self.cluster, self.id, command, task=task, stdin=stdin)

    def metrics(self) -> Any:  # noqa: ANN401 - pandas may not be there
        """Return what the job's tasks have used so far, a row for each task and second.

        Older rows of long jobs stand for more: they have the mean, and ``NAME_min`` and
        ``NAME_max`` beside it.

        Returns
        -------
        pandas.DataFrame or list of dict
            ``task``, ``at``, ``cpu`` in cores, ``memory`` in bytes, ``processes``; in bytes a
            second ``read`` and ``write`` of disks, ``received`` and ``sent`` of the machine's or
            container's network; of each GPU of the task ``gpu0`` in percent, ``gpu0_memory`` in
            bytes. A list where pandas is not installed.
        """
        from submarine_engine.metrics import as_dicts, as_table  # noqa: PLC0415 - few jobs are asked

        return as_table(as_dicts(self.cluster.metrics(self.id).used))

    def reported(self) -> Any:  # noqa: ANN401 - pandas may not be there
        """Return what the job's code has given to `submarine_runtime.report` so far.

        Returns
        -------
        pandas.DataFrame or list of dict
            As `metrics` has them: ``task``, ``at``, ``step``, and the numbers by name.
        """
        from submarine_engine.metrics import as_dicts, as_table  # noqa: PLC0415 - few jobs are asked

        return as_table(as_dicts(self.cluster.metrics(self.id).reported))

    def startup(self) -> Startup | None:
        """Return where the time went from the job's submission to its first step.

        >>> for phase in job.startup().phases:
        ...     print(phase.name, phase.seconds)

        Returns
        -------
        Startup or None
            Its ``phases`` that are over, each with ``name`` and ``seconds``; their sum is
            ``seconds``. Of a job that was begun again it is the last ``attempt``. None while none
            of the job's code runs, for a job that works for another one, and for a result that is
            remembered: nothing was started for it.
        """
        return None if self.remembered else self.cluster.startup(self.id)

    def artifacts(self) -> list[Artifact]:
        """Return the files that the job's tasks have left in the folder ``SUBMARINE_OUTPUT_PATH``.

        They are here while the job runs where it runs on this machine; otherwise they come home
        when a task is over, however it ended. Where the job was begun more than once, they are of
        its last attempt.

        Returns
        -------
        list of Artifact
            Each with its ``name``, its ``size`` in bytes, and its ``path`` on this machine. The
            names of several tasks begin with the task's: ``worker-1/model.pt``. Links are left out.
        """
        return list(self.cluster.artifacts(self.id).files)

    def stream(
        self, cursor: Cursor | None = None, *, idle: float | None = None
    ) -> Iterator[tuple[Event | LogChunk | Display | None, Cursor]]:
        """Yield everything from `cursor` (default: the beginning) to the job's end.

        Parameters
        ----------
        cursor
            Where to begin; each item comes with the cursor to go on after its batch.
        idle
            Yield ``(None, cursor)`` at least every `idle` seconds while nothing happens.
        """
        cursor = cursor or Cursor()
        delay = _QUICKEST
        quiet_since = time.monotonic()
        lively_until = 0.0
        while True:
            batch = self.cluster.read(self.id, cursor)
            for item in batch.items:
                if isinstance(item, Granted):  # its first line is waited for by somebody
                    lively_until = time.monotonic() + _EARLY
                elif isinstance(item, (LogChunk, Display)):
                    lively_until = 0.0
                yield item, batch.cursor
            cursor = batch.cursor
            if batch.ended:
                return
            if batch.items:
                delay, quiet_since = _QUICKEST, time.monotonic()
            elif idle is not None and time.monotonic() - quiet_since >= idle:
                quiet_since = time.monotonic()
                yield None, cursor
            time.sleep(delay)
            if time.monotonic() > lively_until:
                delay = min(_SLOWEST, delay * 1.5)

    def wait(self, timeout: float | None = None) -> JobStatus:
        """Block until the job is over.

        Parameters
        ----------
        timeout
            Seconds to wait at most; None waits for ever.

        Raises
        ------
        TimeoutError
            It is not over after `timeout` seconds; the job goes on.
        """
        limit = None if timeout is None else time.monotonic() + timeout
        delay = _QUICKEST
        while True:
            late = limit is not None and time.monotonic() >= limit  # before that look: it counts
            status = self.status()
            if status.state.final:
                return status
            if late:
                raise TimeoutError(f"job {self.id} is not over after {timeout} s")
            time.sleep(delay)
            delay = min(_SLOWEST, delay * 1.5)

    def results(self, timeout: float | None = None) -> Results:
        """Wait, and return the result with the variables that were brought back.

        What a job ended by is one object, however often and by whichever method it is asked for.

        Parameters
        ----------
        timeout
            Seconds to wait at most; None waits for ever.

        Raises
        ------
        JobFailedError, JobCancelledError, JobLostError
            The job did not succeed. `JobFailedError` holds the frames in the user's cells.
        ResultError
            The job succeeded, but what it returned cannot be loaded here.
        TimeoutError
            The job is not over after `timeout` seconds; it goes on.
        """
        status = self.wait(timeout)
        if self._error is not None:
            raise self._error.with_traceback(None)  # else each raise would add to it
        if self._results is None:
            try:
                self._results = load_results(self.cluster, self.id, status)
            except (JobFailedError, JobCancelledError, JobLostError) as error:
                self._error = error
                raise
        return self._results

    def result(self, timeout: float | None = None) -> Any:  # noqa: ANN401 - the user's own type
        """Wait, and return what the training function returned; raises as `results` does.

        Warns where a value could not come back as itself.

        Parameters
        ----------
        timeout
            Seconds to wait at most; None waits for ever.
        """
        results = self.results(timeout)
        for warning in results.warnings:
            warnings.warn(warning, stacklevel=2)
        return results.value

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait, and return the error that `result` would raise; None where it would not.

        Parameters
        ----------
        timeout
            Seconds to wait at most; None waits for ever.

        Raises
        ------
        JobCancelledError
            The job was cancelled (as `concurrent.futures.Future.exception` does).
        TimeoutError
            The job is not over after `timeout` seconds.
        """
        try:
            self.results(timeout)
        except (JobCancelledError, TimeoutError):
            raise
        except Exception as error:  # noqa: BLE001 - handed to the caller
            return error
        return None
