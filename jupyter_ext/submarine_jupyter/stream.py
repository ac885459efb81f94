"""Server-sent events: a job's whole stream, and one stream for everything that a page shows.

The id of the last event of a batch is a cursor, so a reader goes on exactly there. Many readers
share one follower of a job, of whom each holds nothing but its cursor.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections import OrderedDict
from contextlib import ExitStack
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from submarine_engine.clusters.base import Batch, Cursor
from submarine_engine.errors import ClusterError, CommandError, JobNotFoundError, SubmarineError
from submarine_engine.events import Display, Event, LogChunk
from tornado.iostream import StreamClosedError

from submarine_jupyter import jobs
from submarine_jupyter.cards import CardPoller, Overview, card
from submarine_jupyter.handlers import Api
from submarine_jupyter.routes import Plugin, error_body
from submarine_jupyter.work import Poller, Watcher, Work

if TYPE_CHECKING:
    from submarine_engine.future import Job


# A job's stream as server-sent events; the id of the last one of a batch is a cursor.


_LONGEST = 1 << 16


def first_cursor(text: str) -> Cursor:
    """Return where a reader wants to begin; the beginning where it says nothing.

    Raises
    ------
    CommandError
        `text` is no cursor.
    """
    try:
        if len(text) > _LONGEST:
            raise ValueError(len(text))  # noqa: TRY301 - one answer for both
        return Cursor.from_json(text) if text else Cursor()
    except (ValueError, RecursionError) as error:
        raise CommandError(
            "this is no cursor",
            where="Last-Event-ID or ?cursor=",
            fix="send the id of an event, or nothing to begin at the beginning",
        ) from error


def message(batch: Batch) -> str:
    """Return a batch as events; only the last one has an id, since a cursor is a batch's end."""
    found = [_server_event(item) for item in batch.items]
    if batch.ended:
        found.append(("end", {}))
    lines = [f"event: {kind}\ndata: {json.dumps(data)}\n" for kind, data in found]
    if lines:
        lines[-1] = f"id: {batch.cursor.to_json()}\n{lines[-1]}"
    return "".join(f"{line}\n" for line in lines)


def _server_event(item: Event | LogChunk | Display) -> tuple[str, dict[str, object]]:
    if isinstance(item, Event):
        return "job", item.to_json()
    if isinstance(item, Display):
        return "display", item.to_json()
    data = base64.b64encode(item.data).decode()
    return "log", {
        "task": item.task, "stream": item.stream, "offset": item.offset, "data": data,
    }  # fmt: skip


# A job's whole stream for many readers, of whom each holds nothing but its cursor.
#
# Those that have seen all there is wait for the one `Follower`, the only one that looks again and
# again. What was read last is kept, so that one that lags a little gets it without another read;
# one that lags more reads what is there already, at its own pace, and keeps nobody waiting.


BATCH = 1 << 16
"""Bytes of logs that are read, held and sent at a time."""

_KEPT = 32
"""Batches that are kept."""
_READ_QUICKEST = 0.02
"""Seconds between two looks at a job that writes: what is new comes late by as much."""
_READ_SLOWEST = 0.2
"""Likewise at one that is silent: its next line waits for it, and many jobs are looked at."""


class Follower(Watcher):
    """Looks for what is new of one job, from the place that its readers have reached.

    Parameters
    ----------
    job
        The job.
    work
        The pools in which it is read.
    """

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
        delay = _READ_QUICKEST
        while True:
            if self._tip is None:
                await self._changed.wait()
                continue
            tip = self._tip
            batch = await self._read(tip)
            if self._tip == tip and (batch.items or batch.ended):
                self._move(None if batch.ended else batch.cursor)
                delay = _READ_QUICKEST
            await asyncio.sleep(delay)
            delay = min(_READ_SLOWEST, delay * 1.5)

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
        pool = f"{job.cluster.name} streams"
        try:
            batch = await self._work.call(pool, job.cluster.read, job.id, cursor, limit=BATCH)
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


_HEARTBEAT = 15.0
"""Seconds between two comments on a stream that has nothing to say: proxies close silent ones."""
_MOST_JOBS = 200
_SEND_QUICKEST = 0.125
"""Seconds between two looks at a card that changes: eyes follow no more, and each sends a tree."""
_SEND_SLOWEST = 0.25
"""Likewise at one that does not change."""
_OVERVIEW = 0.5
"""Seconds between two looks at the overview, each of which reads the summaries of all jobs."""
_Seen = tuple[int, Exception | None]
"""What a page was told of a `Poller`: which version, and what trouble."""


class Stream(Api):
    """What both streams share: their number, their headers, and their reader's leaving."""

    def initialize(self, *args: Any, **options: Any) -> None:  # noqa: ANN401 - as Api has them
        """Make what wakes the stream, before its reader can leave."""
        super().initialize(*args, **options)
        self.changed = asyncio.Event()
        self.left = False

    def on_connection_close(self) -> None:
        """Wake the stream: its reader left."""
        self.left = True
        self.changed.set()

    async def begin(self) -> None:
        """Send the headers."""
        self.set_header("Content-Type", "text/event-stream")
        self.set_header("Cache-Control", "no-store")
        self.set_header("X-Accel-Buffering", "no")
        await self.flush()

    async def send(self, text: str) -> None:
        """Send text; a slow reader waits here, alone."""
        self.write(text)
        await self.flush()

    async def respond(self, **names: str) -> None:
        """Stream, if the server does not stream to too many already."""
        with self.watchers.stream() as free:
            if not free:
                self.refuse()
                return
            try:
                await self.stream(**names)
            except StreamClosedError:
                return

    async def stream(self, **names: str) -> None:
        """Send what there is, as it comes."""
        raise NotImplementedError

    def refuse(self) -> None:
        """Say that there are too many streams."""
        self._tell_error(
            HTTPStatus.TOO_MANY_REQUESTS,
            {
                "what": f"{self.watchers.most} streams are open already",
                "where": "SubmarineApp.max_streams",
                "fix": "close pages that show jobs, or let the server have more of them",
            },
        )


class Events(Stream):
    """``/jobs/{job_id}/events``: events and log bytes of one job, from a cursor on."""

    async def stream(self, job_id: str) -> None:  # type: ignore[override]  # this path's names
        """Send everything from the cursor to the job's end, and go on as it comes."""
        cursor = first_cursor(
            self.request.headers.get("Last-Event-ID") or self.get_query_argument("cursor", "")
        )
        job = await self.work.call("jobs", jobs.opened, job_id)
        pool = f"{job.cluster.name} streams"
        await self.work.call(pool, job.cluster.read, job.id, cursor, limit=1)  # or refuse at once
        await self.begin()
        with self.watchers.of(("events", job_id), lambda: Follower(job, self.work)) as follower:
            coming: asyncio.Task[Any] | None = None
            try:
                while not self.left:
                    coming = coming or asyncio.create_task(follower.next(cursor))
                    left = asyncio.create_task(self.changed.wait())
                    await asyncio.wait(
                        {coming, left}, timeout=_HEARTBEAT, return_when=asyncio.FIRST_COMPLETED
                    )
                    left.cancel()
                    if not coming.done():
                        await self.send(": nothing new\n\n")
                        continue
                    batch, coming = coming.result(), None
                    await self.send(message(batch))
                    cursor = batch.cursor
                    if batch.ended:
                        return
            except SubmarineError as error:
                await self.send(_page_event("problem", json.dumps(error_body(error))))
            finally:
                if coming:
                    coming.cancel()


class Page(Stream):
    """``/stream``: the cards of some jobs and the overview, each whenever it has changed."""

    async def stream(self, **_names: str) -> None:
        """Send what the page shows now, then what changes, until all of it is over."""
        wanted = dict.fromkeys(filter(None, self.get_query_argument("jobs", "").split(",")))
        overview = self.get_query_argument("overview", "0")
        if len(wanted) > _MOST_JOBS or overview not in ("0", "1"):
            raise CommandError(
                f"the page asks for {len(wanted)} jobs, and overview is {overview!r}",
                where="?jobs=&overview=",
                fix=f"ask for {_MOST_JOBS} jobs at most, with commas between; overview is 0 or 1",
            )
        await self.begin()
        with ExitStack() as stack:
            pollers: dict[str, Poller] = {}
            for job_id in wanted:
                pollers[job_id] = self._card(stack, job_id)
            if overview == "1":
                pollers[""] = self._overview(stack)
            await self._send_all(pollers)

    async def _send_all(self, pollers: dict[str, Poller]) -> None:
        seen: dict[str, _Seen] = dict.fromkeys(pollers, (0, None))
        while pollers and not self.left:
            self.changed.clear()
            for name, poller in list(pollers.items()):
                now = (poller.version, poller.trouble)
                if now != seen[name]:
                    version, trouble = seen[name]
                    seen[name] = now
                    if now[0] != version:
                        await self.send(_page_event("card" if name else "overview", poller.text))
                    if now[1] and now[1] is not trouble:
                        await self._tell("problem", name, now[1])
                elif poller.error or poller.over:
                    del pollers[name]
                    if poller.error:
                        await self._tell("gone", name, poller.error)
            if pollers and not any(
                self._is_news(poller, seen[name]) for name, poller in pollers.items()
            ):
                await self._wait()

    async def _wait(self) -> None:
        try:
            await asyncio.wait_for(self.changed.wait(), _HEARTBEAT)
        except (asyncio.TimeoutError, TimeoutError):
            await self.send(": nothing new\n\n")

    @staticmethod
    def _is_news(poller: Poller, seen: _Seen) -> bool:
        return (poller.version, poller.trouble) != seen or poller.over or poller.error is not None

    async def _tell(self, kind: str, name: str, error: Exception) -> None:
        await self.send(_page_event(kind, json.dumps({"id": name, **error_body(error)})))

    def _card(self, stack: ExitStack, job_id: str) -> Poller:
        return self._listen(
            stack, ("card", job_id), lambda: card_poller(self.work, job_id, self.plugins)
        )

    def _overview(self, stack: ExitStack) -> Poller:
        return self._listen(stack, "overview", lambda: overview_poller(self.work))

    def _listen(self, stack: ExitStack, key: object, make: Any) -> Poller:  # noqa: ANN401
        poller: Poller = stack.enter_context(self.watchers.of(key, make))
        poller.listeners.add(self.changed)
        stack.callback(poller.listeners.discard, self.changed)
        return poller


def card_poller(work: Work, job_id: str, plugins: tuple[Plugin, ...]) -> Poller:
    """Begin to look at a job's card.

    Parameters
    ----------
    work
        The pools in which the job is asked.
    job_id
        The job; it is opened at the first look.
    plugins
        Modules that add parts of theirs to the card.
    """
    found: list[CardPoller] = []
    pool = "jobs"

    async def poll() -> tuple[str | None, bool]:
        nonlocal pool
        if not found:
            job = await work.call(pool, jobs.opened, job_id)
            pool = f"{job.cluster.name} cards"
            found.append(await work.call(pool, CardPoller, job, plugins))
        try:
            return await work.call(pool, found[0].poll)
        except ClusterError:  # its thread may look on, and what that finds is shown to nobody
            found.clear()
            raise

    return Poller(poll, _SEND_QUICKEST, _SEND_SLOWEST, ended_by=(JobNotFoundError,))


def overview_poller(work: Work) -> Poller:
    """Begin to look at all jobs and clusters, in pools of `work`."""
    return Poller(Overview(work).poll, _OVERVIEW, _OVERVIEW)


def _page_event(kind: str, data: str) -> str:
    return f"event: {kind}\ndata: {data}\n\n"


# A card and the overview as they are now, for who does not stream.


class CardSnapshot(Api):
    """``/jobs/{job_id}/card``."""

    async def respond(self, job_id: str) -> None:  # type: ignore[override]  # this path's names
        """Send the card."""
        cluster = await self.work.call("jobs", jobs.cluster_of, job_id)
        self.tell(await self.work.call(f"{cluster} cards", card, job_id, self.plugins))


class OverviewSnapshot(Api):
    """``/overview``."""

    async def respond(self, **_names: str) -> None:
        """Send what the pages' one look has found, or look."""
        changed = asyncio.Event()
        with self.watchers.of("overview", lambda: overview_poller(self.work)) as poller:
            poller.listeners.add(changed)
            try:
                while poller.trouble or not poller.version:
                    if error := poller.error or poller.trouble:
                        raise error
                    changed.clear()
                    await asyncio.wait_for(changed.wait(), self.work.limit)
            finally:
                poller.listeners.discard(changed)
            self.tell(json.loads(poller.text))
