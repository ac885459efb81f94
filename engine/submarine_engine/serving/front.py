"""The front: a job on the machine of whoever asked; it keeps the replicas, passes requests on.

It listens on loopback for its own user alone. A request that a replica has not answered is asked of
another one; while none is ready, it waits. A new version's replicas are ready before any request
goes to them, and the old ones are asked to end when their last request is answered. Where its
process is killed, its job's next attempt goes on with the replicas that there are.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from contextlib import suppress
from dataclasses import replace
from http import HTTPStatus
from http.client import responses
from pathlib import Path
from typing import TYPE_CHECKING, Any

from submarine_runtime import progress
from tornado.httpserver import HTTPServer
from tornado.httputil import HTTPHeaders
from tornado.web import Application, RequestHandler, stream_request_body

from submarine_engine.amounts import count
from submarine_engine.clusters import locks, open_cluster
from submarine_engine.errors import JobError, JobFailedError, SubmarineError
from submarine_engine.history import JobPaths, default_home, read_json
from submarine_engine.inside import is_own
from submarine_engine.job import JobState
from submarine_engine.records import children_of
from submarine_engine.serving.record import FrontState, ServingRecord, find_serving
from submarine_engine.serving.replica import LOOPBACK
from submarine_engine.serving.replicas import (
    DRAINING,
    LARGEST,
    QUEUED,
    READY,
    LostError,
    Replica,
    Request,
    SlowError,
    aside,
)
from submarine_engine.serving.try_page import try_page

if TYPE_CHECKING:
    from submarine_engine.clusters.base import Cluster

VARIABLE = "SUBMARINE_SERVED_VERSION"
"""Says in a replica's record which version of the model it serves, to who takes it over."""

_PATIENCE = 30.0
"""Seconds that a request waits for a replica: as long as one takes to be begun again, about."""
_TAKEN_OVER = 5.0  # seconds: the attempt before this one may not be quite gone
_SOON, _SELDOM = 0.2, 1.0
"""Seconds between two turns: somebody waits while replicas begin or end; else they are only looked
after."""
_DRAINS_WITHIN = 600.0
"""Seconds after which a replica that was replaced is ended, whatever it still works on."""
_LONGEST_PAUSE = 60.0  # seconds between two starts: what hinders them may be gone any minute
_ROLLS_AFTER = 5.0
"""Seconds that new replicas wait for free GPUs before old ones give theirs: a grant takes some."""
_ENDLESS = 1 << 62
_TRIES = 10
"""How often a request may lose its replica. More than two were never seen to be lost at once:
where it comes to that, it is the request that ends them."""

_PASS = (
    "Accept", "Accept-Encoding", "Content-Encoding", "Content-Type",
    "Inference-Header-Content-Length", "Traceparent", "Tracestate", "User-Agent", "X-Request-Id",
)  # fmt: skip
_BACK = (
    "Allow", "Cache-Control", "Content-Encoding", "Content-Type", "Inference-Header-Content-Length",
    "Location", "Retry-After", "Traceparent", "Vary", "X-Request-Id",
)  # fmt: skip


def run_front(served: str) -> None:
    """Serve what is asked for under a name, until the job is asked to end.

    Parameters
    ----------
    served
        The name.

    Raises
    ------
    JobError
        Another job is its front, or its port is taken.
    """
    record = find_serving(default_home(), served)
    own = os.environ.get("SUBMARINE_JOB_ID", "")
    if record.jobs and own not in record.jobs:
        raise _FinalError(
            "who began this front was killed before that was noted, and another one serves",
            where=str(record.folder),
            fix="see which one: submarine serve list",
        )
    lock = locks.take(record.lock, wait=_TAKEN_OVER)
    if lock is None:
        raise JobError(
            "another job serves this already",
            where=str(record.folder),
            fix=f"stop that first: submarine serve stop {served}",
        )
    if record.visible is None:  # the replicas see what whoever asked for them sees
        os.environ.pop("CUDA_VISIBLE_DEVICES", None)
    else:
        os.environ["CUDA_VISIBLE_DEVICES"] = record.visible
    record = record.with_job(own)
    front = Front(record, open_cluster(record.cluster), own)
    try:
        asyncio.run(front.run())
    finally:
        front.end_replicas()
        locks.drop(lock)


class Front:
    """Keeps the replicas of a serving, and passes requests on to them.

    Parameters
    ----------
    record
        What is asked for.
    cluster
        Where replicas run.
    job_id
        The front's own job.
    """

    def __init__(self, record: ServingRecord, cluster: Cluster, job_id: str) -> None:
        self._record, self._cluster, self._job_id = record, cluster, job_id
        self._told = replace(record.told(), job=job_id)
        self._written: FrontState | None = None
        self._replicas: dict[str, Replica] = {}
        self._draining_since: dict[str, float] = {}
        self._changed = asyncio.Event()
        self._next_start, self._pause = 0.0, 1.0
        self._waits_since: float | None = None
        self.port = record.port
        self._requests, self._failures = self._told.requests, self._told.failures

    async def run(self) -> None:
        """Listen, and look after the replicas."""
        server = HTTPServer(
            Application([(r"/.*", _Passes, {"front": self})]),
            max_buffer_size=LARGEST,
        )
        try:
            server.listen(self._record.port, LOOPBACK)
        except OSError as error:
            raise JobError(
                f"port {self._record.port} cannot be had: {error.strerror}",
                fix="serve it at another one: --port, or leave that out for any",
            ) from error
        self._take_over()
        stays = asyncio.create_task(self._stay())
        try:
            await self._look_after()
        finally:
            stays.cancel()
            server.stop()

    async def _stay(self) -> None:
        """Tell the replicas again and again that the front is there, however long a turn takes."""
        while True:
            # Where one cannot be told, the others are; that one has time until it ends.
            every = [one.stay() for one in self._replicas.values()]
            await asyncio.gather(*every, return_exceptions=True)
            await asyncio.sleep(_SELDOM)

    async def _look_after(self) -> None:
        while True:
            settled = await self._turn()
            if self._told.failed and not self._told.serves:
                raise _FinalError(
                    f"the model cannot be served: {self._told.reason}",
                    job_id=self._told.failed_job,
                    fix=f"its log says more: submarine job logs {self._told.failed_job}",
                )
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._changed.wait(), _SELDOM if settled else _SOON)
            self._changed.clear()

    def _take_over(self) -> None:
        """Go on with the replicas that fronts before this one have asked for."""
        home = default_home()
        for parent in self._record.jobs:
            for job_id in children_of(home, parent):
                spec = (read_json(JobPaths(home, job_id).record) or {}).get("spec") or {}
                version = str((spec.get("env") or {}).get(VARIABLE, ""))
                if version.isdecimal() and not self._is_over(job_id):
                    self._add(job_id, int(version))

    def _is_over(self, job_id: str) -> bool:
        try:
            return self._cluster.status(job_id).state.final
        except SubmarineError:  # the cluster does not answer now: it may run
            return False

    def _add(self, job_id: str, version: int) -> None:
        self._replicas[job_id] = Replica(self._cluster, job_id, version)

    # One turn.

    async def _turn(self) -> bool:
        """See how all stands, and do what there is to do; return whether nothing is to come."""
        with suppress(SubmarineError):
            self._record = await aside(ServingRecord.read, self._record.folder)
        await asyncio.gather(*(one.poll() for one in self._replicas.values()))
        for one in [one for one in self._replicas.values() if one.over is not None]:
            self._lose(one)
        await self._roll()
        self._switch()
        await self._grow()
        await self._drain()
        await self._tell()
        wanted = self._record.wanted
        return wanted == self._told.serves and all(
            one.state == READY for one in self._replicas.values()
        )

    def _lose(self, one: Replica) -> None:
        del self._replicas[one.job_id]
        self._draining_since.pop(one.job_id, None)
        if one.state == DRAINING:
            return
        say(f"replica {one.job_id} of version {one.version} is over: {one.reason}")
        proven = one.version == self._told.serves
        if one.over is JobState.FAILED and not one.was_ready and not proven:
            self._give_up(one)
        else:
            self._next_start = time.monotonic() + self._pause
            self._pause = min(2 * self._pause, _LONGEST_PAUSE)

    def _give_up(self, one: Replica) -> None:
        """Note that a version cannot be brought up; what is served stays."""
        if self._told.failed != one.version:
            say(f"version {one.version} is given up")
        self._told = replace(
            self._told, failed=one.version, failed_job=one.job_id, reason=one.reason
        )
        serves = self._told.serves
        if serves:
            with suppress(SubmarineError, OSError):  # what fails here leaves it wanted, and failed
                # First: who waits for this version sees that it failed, not that it was replaced.
                self._record.tell(self._told)
                self._record = self._record.change(
                    wanted=lambda found: serves if found.wanted == one.version else found.wanted
                )

    def _of(self, version: int) -> list[Replica]:
        return [
            one
            for one in self._replicas.values()
            if one.version == version and one.state != DRAINING
        ]

    async def _roll(self) -> None:
        """See whether the wanted version lacks GPUs that the served one has; begin to roll.

        Then old replicas end one ahead of the new ones that are ready: so all but one answer at
        any time, of whichever version.
        """
        wanted, serves = self._record.wanted, self._told.serves
        waiting = [one for one in self._of(wanted) if one.state == QUEUED]
        if not serves or wanted in (serves, self._told.failed) or not waiting:
            self._waits_since = None
            self._told = replace(self._told, held_up="")
            return
        if self._told.rolls == wanted:
            return
        now = time.monotonic()
        self._waits_since = now if self._waits_since is None else self._waits_since
        if now - self._waits_since < _ROLLS_AFTER:
            return
        self._waits_since = now  # so often it is asked
        had = sum(one.state != QUEUED for one in self._of(serves))
        held_up = await self._lacks(wanted, len(waiting), had)
        rolls = self._told.rolls
        if not held_up:
            say(f"no GPU is free for version {wanted}: it takes those of version {serves}")
            rolls = wanted
            held_up = f"version {wanted} takes the GPUs of version {serves} one by one"
        elif held_up != self._told.held_up:
            say(held_up)
        self._told = replace(self._told, rolls=rolls, had=had, held_up=held_up)

    @property
    def _rolls(self) -> bool:
        """Whether replicas of the wanted version take the places of the served one's one by one."""
        told, wanted = self._told, self._record.wanted
        return told.rolls == wanted and wanted not in (told.failed, told.serves)

    async def _lacks(self, wanted: int, waiting: int, had: int) -> str:
        """Return why the wanted version waits; empty where it is for the GPUs of the old one."""
        try:
            spec, _ = await aside(self._record.what, wanted)
            former, _ = await aside(self._record.what, self._told.serves)
            room = await aside(self._cluster.gpu_room, spec)
        except (SubmarineError, OSError, ValueError, KeyError):  # the cluster does not answer now
            return self._told.held_up or f"version {wanted} waits in the queue"
        each, theirs = spec.gpus or 0, former.gpus or 0
        if not each or room.free >= each:
            return f"version {wanted} waits in the queue"
        if theirs < each:
            return f"version {wanted} waits for GPUs: the replicas before it have too few to give"
        if room.wanted > waiting * each:
            return f"version {wanted} waits for GPUs, as other jobs do"
        if had <= 1:
            return f"version {wanted} waits for a GPU: version {self._told.serves} has the only one"
        return ""

    def _switch(self) -> None:
        """Pass requests on to the wanted version once all of its replicas are ready."""
        wanted = self._record.wanted
        mine = self._of(wanted)
        ready = sum(one.state == READY for one in mine)
        if ready:
            self._pause = 1.0
        enough = self._record.replicas
        if self._told.rolls == wanted and any(one.state == QUEUED for one in mine):
            # The next one is to have the GPU of the last old one; there may be no more than before.
            enough = max(1, min(enough, self._told.had) - 1)
        if wanted == self._told.serves or ready < enough:
            return
        say(f"version {wanted} is served by {count(ready, 'replica')}")
        self._told = replace(self._told, serves=wanted, held_up="")

    def _needed(self, version: int) -> int:
        """Return how many replicas of a version there are to be."""
        wanted, serves = self._record.wanted, self._told.serves
        # What is served stays until the wanted one, if that can be brought up, takes its place.
        alive = version == serves or (version == wanted and version != self._told.failed)
        asked = self._record.replicas if alive else 0
        if version == serves and asked and self._rolls:
            ready = sum(one.state == READY for one in self._of(wanted))
            return max(1, self._told.had - ready - 1)
        return asked

    async def _grow(self) -> None:
        """Ask for the replicas that are lacking."""
        for version in {self._told.serves, self._record.wanted} - {0}:
            for _ in range(self._needed(version) - len(self._of(version))):
                if time.monotonic() < self._next_start:
                    return
                await self._start(version)

    async def _start(self, version: int) -> None:
        try:
            spec, bundle = await aside(self._record.what, version)
            spec = replace(
                spec,
                parent=self._job_id,
                env={**spec.env, VARIABLE: str(version)},
            )
            where = Path(self._record.workdir)
            job_id = await aside(lambda: self._cluster.submit(spec, bundle, workdir=where))
        except (SubmarineError, OSError, ValueError, KeyError) as error:
            what = error.what if isinstance(error, SubmarineError) else str(error)
            say(f"no replica can be asked for now: {what}")
            self._next_start = time.monotonic() + self._pause
            self._pause = min(2 * self._pause, _LONGEST_PAUSE)
            return
        say(f"replica {job_id} of version {version} was asked for")
        self._add(job_id, version)

    async def _drain(self) -> None:
        """Ask those to end that nobody needs any more, once they have nothing to do."""
        for version in {one.version for one in self._replicas.values()}:
            # What answers goes last.
            ready_first = sorted(self._of(version), key=lambda one: one.state != READY)
            for one in ready_first[self._needed(version) :]:
                one.state = DRAINING
                self._draining_since[one.job_id] = time.monotonic()
        for job_id, since in list(self._draining_since.items()):
            one = self._replicas[job_id]
            if not one.busy or time.monotonic() - since > _DRAINS_WITHIN:
                with suppress(SubmarineError):  # it is asked once more the next turn
                    await one.cancel("it is needed no more")
                    del self._draining_since[job_id]

    async def _tell(self) -> None:
        told = replace(
            self._told,
            replicas=tuple(one.told() for one in self._replicas.values()),
            server=next((one.server for one in self._replicas.values() if one.server), "")
            or self._told.server,
            requests=self._requests,
            failures=self._failures,
        )
        self._told = told
        if told != self._written:
            with suppress(OSError):  # no room: it is written the next turn
                await aside(self._record.tell, told)
                self._written = told
        ready, wanted = told.ready, self._record.replicas
        progress(
            min(1.0, ready / wanted),
            f"{ready} of {count(wanted, 'replica')} ready, version {told.serves}"
            + (f"; {told.held_up}" if told.held_up else ""),
        )

    # Requests.

    def page(self) -> tuple[str, str]:
        """Return the page to try the model by, and its policy."""
        return try_page(self._record.name, self._told.server or "mlflow", self._record.takes)

    async def answer(self, request: Request) -> tuple[int, HTTPHeaders, bytes]:
        """Return what a replica answers to `request`: the status, the headers and the body."""
        until = time.monotonic() + _PATIENCE
        tried: set[str] = set()
        losses = 0
        while losses < _TRIES:
            one = self._choose(tried)
            if one is None:
                if time.monotonic() >= until:
                    self._failures += 1
                    why = f": this request has lost its replica {count(losses, 'time')}"
                    words = "no replica is ready" + (why if losses else "")
                    return _refusal(HTTPStatus.SERVICE_UNAVAILABLE, words)
                tried.clear()  # one that was lost may be there again
                await asyncio.sleep(_SOON / 4)
                continue
            try:
                found = await one.ask(request)
            except LostError:
                tried.add(one.job_id)
                losses += 1
                self._changed.set()
                continue
            except SlowError:
                self._failures += 1
                return _refusal(HTTPStatus.GATEWAY_TIMEOUT, "the model has not answered in time")
            self._requests += 1
            return found.code, found.headers, found.body
        self._failures += 1
        words = f"this request has lost its replica {losses} times: it may be what ends them"
        return _refusal(HTTPStatus.BAD_GATEWAY, words)

    def _choose(self, tried: set[str]) -> Replica | None:
        """Return the ready replica of what is served that has the fewest requests."""
        serving = self._of(self._told.serves)
        if self._rolls:  # the old ones grow fewer: those that have taken their places help
            serving += self._of(self._record.wanted)
        ready = [one for one in serving if one.state == READY and one.job_id not in tried]
        return min(ready, key=lambda one: one.busy, default=None)

    def end_replicas(self) -> None:
        """Ask all replicas to end, as the front does."""
        for one in self._replicas.values():
            with suppress(SubmarineError):
                self._cluster.cancel(one.job_id, "it is served no more")


class _FinalError(JobFailedError):
    """The end of a front that nobody needs, or whose first version cannot be brought up."""

    submarine_final = True
    """Its job is not begun again: that would come to the same."""


_FinalError.__qualname__ = JobFailedError.__qualname__
_FinalError.__module__ = JobFailedError.__module__


@stream_request_body
class _Passes(RequestHandler):
    """Passes any request on."""

    def initialize(self, front: Front) -> None:
        self._front = front
        self._pieces: list[bytes] = []
        self._size = 0

    async def prepare(self) -> None:
        """Refuse other users of the machine: the port of loopback is open to them.

        It comes before the body is read, so that nobody else's is.
        """
        connection: Any = self.request.connection
        context = connection.context
        if not getattr(context, "is_own", False):
            context.is_own = is_own(context.address[1], self._front.port)
        # By another name, a page of somebody else's in the user's browser would reach the model.
        named = self.request.host_name in {LOOPBACK, "localhost"}
        if not (context.is_own and named):
            self.set_header("Connection", "close")
            self._write(*_refusal(HTTPStatus.FORBIDDEN, "this is another user's"))
            self.finish()
            return
        connection.set_max_body_size(_ENDLESS)  # what is too much is refused in words, below

    async def data_received(self, chunk: bytes) -> None:
        """Take a piece of the body; of one that is too large nothing is kept."""
        self._size += len(chunk)
        self._pieces.append(chunk)
        if self._size > LARGEST:
            self._pieces.clear()

    async def get(self) -> None:
        asked = self.request
        if asked.path == "/" and asked.method in ("GET", "HEAD"):
            page, policy = self._front.page()
            self.set_header("Content-Security-Policy", policy)
            self.set_header("Cache-Control", "no-store")
            self.write(page)
            return
        if self._size > LARGEST:
            words = f"the request has {self._size} bytes, and {LARGEST} are the most: ask in parts"
            self._write(*_refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, words))
            return
        headers = HTTPHeaders()
        for name in _PASS:
            for value in asked.headers.get_list(name):
                headers.add(name, value)
        request = Request(str(asked.method), str(asked.uri), headers, b"".join(self._pieces))
        self._write(*await self._front.answer(request))

    head = post = put = patch = delete = options = get

    def _write(self, code: int, headers: HTTPHeaders, body: bytes) -> None:
        self.set_status(code, responses.get(code, "Unknown"))
        self.clear_header("Content-Type")
        for name in _BACK:
            for value in headers.get_list(name):
                self.add_header(name, value)
        if body:
            self.write(body)


def _refusal(status: HTTPStatus, words: str) -> tuple[int, HTTPHeaders, bytes]:
    headers = HTTPHeaders({"Content-Type": "application/json"})
    if status is HTTPStatus.SERVICE_UNAVAILABLE:
        headers["Retry-After"] = "1"
    return status, headers, json.dumps({"error": words}).encode()


def say(line: str) -> None:
    """Write a line to the job's log, which is what a front is asked for."""
    with suppress(OSError):  # a full disk is no reason to end what is served
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
