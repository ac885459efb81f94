"""A worker of a pool: a job of its own, and the two files that it is talked to by."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from submarine_runtime.call_frames import (
    CALLS,
    RETURNS,
    Reader,
    SpoiltError,
    append,
    cut_torn,
    frame,
)
from submarine_runtime.sealing import attempt_key

from submarine_engine.errors import SubmarineError
from submarine_engine.history import JobPaths
from submarine_engine.job import JobState
from submarine_engine.outcome import clean

if TYPE_CHECKING:
    from pathlib import Path

    from submarine_engine.clusters.base import Cluster
    from submarine_engine.lifecycle import JobStatus
    from submarine_engine.pool.journal import Noted

AHEAD = 0.25
"""Seconds of work that a worker is given beyond the call that it runs."""
_MOST_AHEAD = 32
_LONGEST_HOST = 255
_LOOK = 0.25  # seconds: a worker that is lost is missed so soon; of many, each look reads a file
_NEWEST = 0.3
"""How much the newest call says of how long the next one takes."""


class PoolWorker:
    """A job that takes calls.

    Parameters
    ----------
    cluster
        Where it runs.
    home
        Where the jobs are kept.
    job_id
        The job.
    task
        The task that takes the calls.

    Attributes
    ----------
    host
        Where it is; empty until it is ready.
    given
        The calls that it has, by index and try, in the order that they were given.
    ports
        Those that it has offered for the next call, where it is one of several ranks.
    """

    def __init__(self, cluster: Cluster, home: Path, job_id: str, task: str) -> None:
        self._cluster = cluster
        self.job_id = job_id
        self._paths = JobPaths(home, job_id)
        self._task = task
        self._folder = self._paths.task(task).root
        self._returns: Reader | None = None
        self._calls: int | None = None
        self.ready = False
        self.host = ""
        self.ports: object = None
        self.given: dict[tuple[int, int], Noted] = {}
        self.ending = False
        self.spoilt = ""
        self.status: JobStatus | None = None
        self._looked = 0.0
        self._heard = time.monotonic()
        self._mean: float | None = None
        self._batches = 0
        self._stayed = time.monotonic()

    @property
    def state(self) -> JobState:
        """The job's state, as of the last look."""
        return self.status.state if self.status else JobState.QUEUED

    @property
    def waits(self) -> bool:
        """Whether it waits in the queue, as of the last look."""
        return self.state is JobState.QUEUED

    @property
    def holds(self) -> bool:
        """Whether any of its tasks holds what it was granted, as of the last look."""
        tasks = self.status.tasks if self.status else ()
        return any(task.held and not task.released for task in tasks)

    def poll(self, *, anew: bool = False) -> bool:
        """Ask the cluster how the job is, where it has not been asked for a while.

        Parameters
        ----------
        anew
            Whether to ask in any case.

        Returns
        -------
        bool
            Whether it is over.
        """
        now = time.monotonic()
        if anew or now - self._looked >= _LOOK:
            self._looked = now
            self.status = self._cluster.status(self.job_id)
        return self.state.final

    def read(self) -> list[tuple[dict[str, Any], bytes]]:
        """Return what it has told since the last time."""
        frames: list[tuple[dict[str, Any], bytes]] = []
        self._returns = self._returns or self._open_returns()
        if self._returns is None:
            return frames
        try:
            for head, payload in self._returns.read():
                if head["kind"] == "ready":
                    self.ready, self._heard = True, time.monotonic()
                    self.ports = head.get("ports")
                    self.host = clean(str(head.get("host", ""))[:_LONGEST_HOST])
                elif head["kind"] == "offer":
                    self.ports = head.get("ports")
                else:
                    frames.append((head, payload))
            if frames:
                self._heard = time.monotonic()
        except (SpoiltError, OSError) as error:
            # What the job's code has spoilt is nothing to go on with.
            self.spoilt = str(error)
        return frames

    def _open_returns(self) -> Reader | None:
        """Return what reads what it tells; None where there is nothing yet."""
        path = self._folder / RETURNS
        if not path.exists():
            return None
        try:
            key = self._paths.results_key.read_bytes()
        except FileNotFoundError:  # its folder is the task's own
            return Reader(str(path))
        except OSError as error:
            self.spoilt = str(error)
            return None
        try:
            status = self._cluster.status(self.job_id)
        except SubmarineError:  # the cluster does not answer now
            return None
        container = next((one.container for one in status.tasks if one.task == self._task), "")
        if not container:
            return None
        return Reader(str(path), key=attempt_key(key, self.job_id, self._task, container))

    def received(self) -> set[tuple[int, int]]:
        """Return the calls that it was told of, by index and try."""
        reader = Reader(str(self._folder / CALLS))
        try:
            frames = [head for head, _ in reader.read() if head["kind"] == "call"]
        except (SpoiltError, OSError) as error:
            self.spoilt = str(error)
            return set()
        finally:
            reader.close()
        return {(head["index"], head["try"]) for head in frames}

    def room(self, batch: int) -> int:
        """Return how many more calls to give it now, at most a batch."""
        if not self.ready or self.ending or self.spoilt:
            return 0
        if self.given and time.monotonic() - self._heard > 2 * AHEAD:
            return 0  # the call that runs is no short one
        ahead = min(_MOST_AHEAD, int(AHEAD / max(self._mean, 1e-6))) if self._mean else 0
        most = batch + ahead
        return min(batch, most - len(self.given)) if len(self.given) <= most - batch else 0

    @property
    def idle(self) -> float:
        """Seconds since it has told anything: where it has no call, how long that is so."""
        return time.monotonic() - self._heard

    def takes_long(self, seconds: float) -> bool:
        """Return whether its calls may take `seconds`; where it has run none, each may."""
        return self._mean is None or self._mean >= seconds

    def took(self, seconds: float) -> None:
        """Note that a call took so many `seconds`: what the next ones may take is judged by it."""
        old = seconds if self._mean is None else self._mean
        self._mean = old + _NEWEST * (seconds - old)

    def give(self, noted: list[Noted]) -> None:
        """Tell it of the calls `noted`, which the journal says are given to it; raises OSError."""
        self._batches += 1
        of = {"of": f"{os.getpid()}-{self._batches}"} if len(noted) > 1 else {}
        data = []
        for one in noted:
            self.given[one.call.index, one.tries] = one
            head = {"kind": "call", "index": one.call.index, "try": one.tries, **of}
            data.append(frame(head, one.call.arguments))
        self._say(b"".join(data))

    def held_up(self) -> list[Noted]:
        """Return calls that wait behind one that takes longer than was thought."""
        if self.ending or time.monotonic() - self._heard < 2 * AHEAD:
            return []
        return [noted for noted in self.given.values() if not noted.began]

    def withdraw(self, noted: Noted, *, running: bool = False, moved: bool = False) -> None:
        """Ask it not to begin a call, or to end it where it runs.

        Parameters
        ----------
        noted
            The call, given to this worker at its newest try.
        running
            Whether to end it where it runs.
        moved
            Whether another worker is to run it.
        """
        about = {"index": noted.call.index, "try": noted.tries, "running": running, "moved": moved}
        self._say(frame({"kind": "withdraw", **about}))

    def tell(self, noted: Noted, word: str) -> None:
        """Answer a report of the call `noted` with `word`, the value of an `Answer`."""
        about = {"index": noted.call.index, "try": noted.tries, "word": word}
        self._say(frame({"kind": "told", **about}))

    def stay(self, every: float) -> None:
        """Send a keep-alive where nothing was said for a while: a worker that hears nothing ends.

        Parameters
        ----------
        every
            For how many seconds nothing was said.
        """
        if time.monotonic() - self._stayed >= every:
            self._say(frame({"kind": "stay"}))

    def end(self) -> None:
        """Let it end once it has done what it was given."""
        if not self.ending:
            self.ending = True
            self._say(frame({"kind": "end"}))

    def cancel(self, reason: str) -> None:
        """End its job; the `reason` is in words, for its record."""
        self.ending = True
        try:
            self._cluster.cancel(self.job_id, reason)
        except SubmarineError:  # it is gone
            return

    def close(self) -> None:
        """Close its files."""
        if self._returns is not None:
            self._returns.close()
        if self._calls is not None:
            os.close(self._calls)
            self._calls = None

    def _say(self, data: bytes) -> None:
        if self._calls is None:
            path = self._folder / CALLS
            cut_torn(str(path))
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            self._calls = os.open(path, flags, 0o600)
        self._stayed = time.monotonic()
        append(self._calls, data)
