"""Server-sent events: a job's whole stream, and one stream for everything that a page shows."""

from __future__ import annotations

import asyncio
import json
from contextlib import ExitStack
from http import HTTPStatus
from typing import Any

from submarine_engine.errors import CommandError, JobNotFoundError, SubmarineError
from tornado.iostream import StreamClosedError

from submarine_jupyter import jobs
from submarine_jupyter.cards import JobLook
from submarine_jupyter.followers import Follower
from submarine_jupyter.handlers import Api
from submarine_jupyter.overview import Overview
from submarine_jupyter.parts import Extra
from submarine_jupyter.refusals import told
from submarine_jupyter.stream import first_cursor, message
from submarine_jupyter.watching import Look
from submarine_jupyter.work import Work

_HEARTBEAT = 15.0
"""Seconds between two comments on a stream that has nothing to say: proxies close silent ones."""
_MOST_JOBS = 200
_QUICKEST = 0.125
_SLOWEST = 0.25
_OVERVIEW = 0.5
_Seen = tuple[int, Exception | None]
"""What a page was told of a `Look`: which version, and what trouble."""


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
        lane = f"{job.cluster.name} streams"
        await self.work.call(lane, job.cluster.read, job.id, cursor, limit=1)  # or refuse at once
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
                await self.send(_event("problem", json.dumps(told(error))))
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
                f"jobs are {len(wanted)}, overview is {overview!r}",
                where="?jobs=&overview=",
                fix=f"ask for {_MOST_JOBS} jobs at most, with commas between; overview is 0 or 1",
            )
        await self.begin()
        with ExitStack() as stack:
            looks: dict[str, Look] = {}
            for job_id in wanted:
                looks[job_id] = self._card(stack, job_id)
            if overview == "1":
                looks[""] = self._overview(stack)
            await self._send_all(looks)

    async def _send_all(self, looks: dict[str, Look]) -> None:
        seen: dict[str, _Seen] = dict.fromkeys(looks, (0, None))
        while looks and not self.left:
            self.changed.clear()
            for name, look in list(looks.items()):
                now = (look.version, look.trouble)
                if now != seen[name]:
                    version, trouble = seen[name]
                    seen[name] = now
                    if now[0] != version:
                        await self.send(_event("card" if name else "overview", look.text))
                    if now[1] and now[1] is not trouble:
                        await self._tell("problem", name, now[1])
                elif look.error or look.over:
                    del looks[name]
                    if look.error:
                        await self._tell("gone", name, look.error)
            if looks and not any(self._is_news(look, seen[name]) for name, look in looks.items()):
                await self._wait()

    async def _wait(self) -> None:
        try:
            await asyncio.wait_for(self.changed.wait(), _HEARTBEAT)
        except (asyncio.TimeoutError, TimeoutError):
            await self.send(": nothing new\n\n")

    @staticmethod
    def _is_news(look: Look, seen: _Seen) -> bool:
        return (look.version, look.trouble) != seen or look.over or look.error is not None

    async def _tell(self, kind: str, name: str, error: Exception) -> None:
        await self.send(_event(kind, json.dumps({"id": name, **told(error)})))

    def _card(self, stack: ExitStack, job_id: str) -> Look:
        return self._listen(
            stack, ("card", job_id), lambda: card_look(self.work, job_id, self.extras)
        )

    def _overview(self, stack: ExitStack) -> Look:
        return self._listen(stack, "overview", lambda: overview_look(self.work))

    def _listen(self, stack: ExitStack, key: object, make: Any) -> Look:  # noqa: ANN401
        look: Look = stack.enter_context(self.watchers.of(key, make))
        look.listeners.add(self.changed)
        stack.callback(look.listeners.discard, self.changed)
        return look


def card_look(work: Work, job_id: str, extras: tuple[Extra, ...]) -> Look:
    """Begin to look at a job's card."""
    found: list[JobLook] = []
    lane = "jobs"

    async def look() -> tuple[str | None, bool]:
        nonlocal lane
        if not found:
            job = await work.call(lane, jobs.opened, job_id)
            lane = f"{job.cluster.name} cards"
            found.append(await work.call(lane, JobLook, job, extras))
        return await work.call(lane, found[0].look)

    return Look(look, _QUICKEST, _SLOWEST, ended_by=(JobNotFoundError,))


def overview_look(work: Work) -> Look:
    """Begin to look at all jobs and clusters."""
    return Look(Overview(work).look, _OVERVIEW, _OVERVIEW)


def _event(kind: str, data: str) -> str:
    return f"event: {kind}\ndata: {data}\n\n"
