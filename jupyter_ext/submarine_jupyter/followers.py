"""A job's whole stream for many readers, of whom each holds nothing but its cursor.

Those that have seen all there is wait for the one `Follower`, the only one that looks again and
again. What was read last is kept, so that one that lags a little gets it without another read; one
that lags more reads what is there already, at its own pace, and keeps nobody waiting.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING

from submarine_engine.clusters.base import Batch, Cursor

from submarine_jupyter.watching import Watcher
from submarine_jupyter.work import Work

if TYPE_CHECKING:
    from submarine_engine.future import Job

BATCH = 1 << 16
"""Bytes of logs that are read, held and sent at a time."""

_KEPT = 32
"""Batches that are kept."""
_QUICKEST = 0.02
_SLOWEST = 0.2


class Follower(Watcher):
    """Looks for what is new of one job, from the place that its readers have reached."""

    def __init__(self, job: Job, work: Work) -> None:
        self._job = job
        self._work = work
        self._tip: Cursor | None = None
        self._kept: OrderedDict[str, Batch] = OrderedDict()
        self._reading: dict[str, asyncio.Task[Batch]] = {}
        self._changed = asyncio.Event()
        super().__init__()

    async def next(self, cursor: Cursor) -> Batch:
        """Wait for what comes after `cursor`: a batch that is not empty, or the job's end.

        Raises
        ------
        SubmarineError
            The job cannot be read, or `cursor` is no place in its stream.
        """
        while True:
            if self.error:
                raise self.error
            if batch := self._kept.get(cursor.to_json()):
                return batch
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

    async def run(self) -> None:
        """Look at the tip, where the readers wait."""
        delay = _QUICKEST
        while True:
            if self._tip is None:
                await self._changed.wait()
                continue
            tip = self._tip
            batch = await self._read(tip)
            if self._tip == tip and (batch.items or batch.ended):
                self._move(None if batch.ended else batch.cursor)
                delay = _QUICKEST
            await asyncio.sleep(delay)
            delay = min(_SLOWEST, delay * 1.5)

    def wake(self) -> None:
        """Wake the readers that wait at the tip."""
        self._changed.set()

    async def _read(self, cursor: Cursor) -> Batch:
        """Read what comes after `cursor`, once for all who ask meanwhile."""
        key = cursor.to_json()
        if key not in self._reading:
            self._reading[key] = asyncio.create_task(self._fetch(key, cursor))
        return await asyncio.shield(self._reading[key])  # one reader may leave

    async def _fetch(self, key: str, cursor: Cursor) -> Batch:
        job = self._job
        lane = f"{job.cluster.name} streams"
        try:
            batch = await self._work.call(lane, job.cluster.read, job.id, cursor, limit=BATCH)
        finally:
            del self._reading[key]
        if batch.items or batch.ended:
            self._kept[key] = batch
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return batch

    def _move(self, tip: Cursor | None) -> None:
        self._tip = tip
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
