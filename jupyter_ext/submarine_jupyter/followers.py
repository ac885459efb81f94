"""One follower for each job that is watched, however many readers it has.

A reader holds nothing but its cursor. Those that have seen all there is wait for the follower, the
only one that looks again and again; its last batch serves all of them. One that lags behind reads
what is there already by itself, at its own pace, and keeps nobody waiting.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from submarine_engine.clusters.base import Batch, Cursor

from submarine_jupyter.work import Work

if TYPE_CHECKING:
    from submarine_engine.future import Job

BATCH = 1 << 16
"""Bytes of logs that are read, held and sent at a time."""

_QUICKEST = 0.02
_SLOWEST = 0.2


class Follower:
    """Looks for what is new of one job, from the place that its readers have reached."""

    def __init__(self, job: Job, work: Work) -> None:
        self._job = job
        self._work = work
        self._tip: Cursor | None = None
        self._before: Cursor | None = None
        self._batch: Batch | None = None
        self._error: Exception | None = None
        self._changed = asyncio.Event()
        self.readers = 0
        self.task = asyncio.create_task(self._follow())

    async def next(self, cursor: Cursor) -> Batch:
        """Wait for what comes after `cursor`: a batch that is not empty, or the job's end.

        Raises
        ------
        SubmarineError
            The job cannot be read, or `cursor` is no place in its stream.
        """
        while True:
            if self._error:
                raise self._error
            if self._batch and cursor == self._before:
                return self._batch
            changed, tip = self._changed, self._tip
            if cursor == tip:
                await changed.wait()
                continue
            batch = await self._read(cursor)
            if batch.items or batch.ended:
                return batch
            cursor = batch.cursor
            if self._tip == tip and cursor != tip:
                self._move(cursor)

    async def _read(self, cursor: Cursor) -> Batch:
        job = self._job
        return await self._work.read(job.cluster.read, job.id, cursor, limit=BATCH)

    async def _follow(self) -> None:
        try:
            delay = _QUICKEST
            while True:
                if self._tip is None:
                    await self._changed.wait()
                    continue
                tip = self._tip
                batch = await self._read(tip)
                if self._tip == tip and (batch.items or batch.ended):
                    self._before, self._batch = tip, batch
                    self._move(None if batch.ended else batch.cursor)
                    delay = _QUICKEST
                await asyncio.sleep(delay)
                delay = min(_SLOWEST, delay * 1.5)
        except Exception as error:  # noqa: BLE001 - every reader is told
            self._error = error
            self._changed.set()

    def _move(self, tip: Cursor | None) -> None:
        self._tip = tip
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


class Followers:
    """The followers of a server, by job; there is none where nobody reads."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._by_job: dict[str, Follower] = {}

    @contextmanager
    def of(self, job: Job) -> Iterator[Follower]:
        """Give the one follower of `job` as long as the reader reads."""
        follower = self._by_job.get(job.id)
        if follower is None or follower.task.done():
            follower = self._by_job[job.id] = Follower(job, self._work)
        follower.readers += 1
        try:
            yield follower
        finally:
            follower.readers -= 1
            if not follower.readers:
                follower.task.cancel()
                if self._by_job.get(job.id) is follower:
                    del self._by_job[job.id]

    def counts(self) -> dict[str, int]:
        """Return how many readers the follower of each job has."""
        return {job_id: follower.readers for job_id, follower in self._by_job.items()}

    def stop(self) -> None:
        """End all of them."""
        for follower in self._by_job.values():
            with suppress(RuntimeError):  # the loop is closed already
                follower.task.cancel()
        self._by_job.clear()
