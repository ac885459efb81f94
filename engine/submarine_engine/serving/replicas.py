"""A replica as the front sees it: a job, the port inside it, and connections that are kept open.

Connections go the way of `submarine job forward`, so a replica may be on any cluster. They are kept
for the next request: each costs a process beside the task.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypeVar, cast

from submarine_runtime.call_frames import CALLS, append, cut_torn, frame
from tornado.http1connection import HTTP1Connection, HTTP1ConnectionParameters
from tornado.httputil import (
    HTTPHeaders,
    HTTPInputError,
    HTTPMessageDelegate,
    RequestStartLine,
    ResponseStartLine,
)
from tornado.iostream import IOStream, StreamClosedError

from submarine_engine.errors import SubmarineError
from submarine_engine.history import JobPaths, default_home
from submarine_engine.inside import connect
from submarine_engine.job import JobState
from submarine_engine.serving.record import ReplicaState
from submarine_engine.serving.replica import SERVERS

if TYPE_CHECKING:
    from submarine_engine.clusters.base import Cluster

QUEUED, STARTING, READY, FAILING, DRAINING = (
    "queued", "starting", "ready", "failing", "draining",
)  # fmt: skip

LARGEST = 256 << 20
"""Bytes of a request, and of an answer: both are held whole, to be asked of another replica."""

ANSWER_WITHIN = 600.0
"""Seconds that a model may take for an answer."""

_PROBE_WITHIN = 10.0  # seconds: one that takes longer though it has no request does not answer
_STAY = 10.0
"""Seconds between two words that the front is there, of which `replica.ALONE` lets some be lost."""
_MOST_IDLE = 16
_PLACE = re.compile(r"([a-z]{1,16}) at port ([0-9]{1,5})", re.ASCII)
_THREADS = ThreadPoolExecutor(32, "serving")

Found = TypeVar("Found")


async def aside(call: Callable[..., Found], *args: object) -> Found:
    """Return what a call that waits for files or clusters gives; others go on meanwhile.

    Parameters
    ----------
    call
        What is called, on a thread of the servings' own.
    args
        Its arguments.
    """
    return await asyncio.get_running_loop().run_in_executor(_THREADS, call, *args)


class LostError(Exception):
    """A replica has not answered: it is gone, or its server broke off."""


class SlowError(Exception):
    """A replica has not answered in time; it works on the request still."""


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked of a replica.

    Parameters
    ----------
    method, path
        As they came.
    headers
        Those that pass.
    body
        All of it.
    """

    method: str
    path: str
    headers: HTTPHeaders = field(default_factory=HTTPHeaders)
    body: bytes = b""


class Answer(HTTPMessageDelegate):
    """What a replica answers, whole."""

    def __init__(self) -> None:
        self.code, self.headers = 0, HTTPHeaders()
        self.whole = False
        self._pieces: list[bytes] = []

    @property
    def body(self) -> bytes:
        """All of its bytes."""
        return b"".join(self._pieces)

    def headers_received(
        self, start_line: RequestStartLine | ResponseStartLine, headers: HTTPHeaders
    ) -> None:
        """Take the status and the headers; one that only says to go on is none."""
        code = cast("ResponseStartLine", start_line).code
        if code >= HTTPStatus.OK:
            self.code, self.headers = code, headers

    def data_received(self, chunk: bytes) -> None:
        """Take a piece of the body."""
        self._pieces.append(chunk)

    def finish(self) -> None:
        """Note that nothing is missing."""
        self.whole = self.code >= HTTPStatus.OK

    def on_connection_close(self) -> None:
        """Nothing more comes: it is not whole."""


class Replica:
    """One replica.

    Parameters
    ----------
    cluster, job_id
        Its job.
    version
        Which version of the model it serves.
    """

    def __init__(self, cluster: Cluster, job_id: str, version: int) -> None:
        self.job_id, self.version = job_id, version
        self.state = QUEUED
        self.busy = 0
        """How many requests it has."""
        self.was_ready = False
        self.over: JobState | None = None
        self.reason = ""
        self._cluster = cluster
        self._place: tuple[int, str, int] | None = None
        """The attempt, the server and its port."""
        self._idle: list[IOStream] = []
        self._task = ""
        """Its job's first task; empty where that is not known yet."""
        self._stayed = -_STAY
        self._is_cut = False

    @property
    def server(self) -> str:
        """What serves in it; empty where that is not known yet."""
        return self._place[1] if self._place else ""

    def told(self) -> ReplicaState:
        """Return it as the front tells of it."""
        return ReplicaState(job=self.job_id, version=self.version, state=self.state)

    async def poll(self) -> None:
        """See how its job stands, and whether its server is ready."""
        try:
            status = await aside(self._cluster.status, self.job_id)
        except SubmarineError:  # the cluster does not answer now: what was known may hold still
            return
        if status.state.final:
            self.over, self.reason = status.state, status.reason
            self.close()
            return
        place = None
        if status.state is JobState.RUNNING and status.tasks:
            # What the job's code says there is a stranger's word; it leads into the job alone.
            found = _PLACE.fullmatch(status.tasks[0].message)
            if found and found[1] in SERVERS and 0 < int(found[2]) < 1 << 16:
                place = status.attempt, found[1], int(found[2])
        if place != self._place:
            self.close()
            self._place = place
        is_ready = place is not None and await self._probe(SERVERS[place[1]])
        self._update_state(status.state, ready=is_ready)

    async def stay(self) -> None:
        """Send a keep-alive where one is due: a replica without any ends after `ALONE` s.

        Raises
        ------
        OSError, ValueError
            It cannot be sent: there is no folder yet, no room, or something else than frames.
        SubmarineError
            The cluster does not say now where it goes.
        """
        if self.over is None and time.monotonic() - self._stayed >= _STAY:
            await aside(self._send_stay)
            self._stayed = time.monotonic()

    def _send_stay(self) -> None:
        if not self._task:  # looked up here: a new replica is polled only when its turn is done
            self._task = self._cluster.status(self.job_id).tasks[0].task
        path = JobPaths(default_home(), self.job_id).task(self._task).root / CALLS
        if not self._is_cut:
            cut_torn(str(path))  # of a front that was killed as it wrote
            self._is_cut = True
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(path, flags, 0o600)
        try:
            append(descriptor, frame({"kind": "stay"}))
        finally:
            os.close(descriptor)

    def _update_state(self, state: JobState, *, ready: bool) -> None:
        if self.state == DRAINING:
            return
        if ready:
            self.state, self.was_ready = READY, True
        elif state is JobState.QUEUED:
            self.state = QUEUED
        else:
            self.state = FAILING if self.was_ready else STARTING

    async def _probe(self, path: str) -> bool:
        try:
            answer = await asyncio.wait_for(self._ask(Request("GET", path)), _PROBE_WITHIN)
        except (LostError, asyncio.TimeoutError):
            # A model at work may keep its server from answering: its requests tell how it is.
            return self.state == READY and self.busy > 0
        return answer.code == HTTPStatus.OK

    async def ask(self, request: Request) -> Answer:
        """Return its answer to `request`.

        Raises
        ------
        LostError
            There is none: it is gone, or has broken off.
        SlowError
            It has not come within `ANSWER_WITHIN`.
        """
        self.busy += 1
        try:
            return await asyncio.wait_for(self._ask(request), ANSWER_WITHIN)
        except asyncio.TimeoutError as error:
            raise SlowError from error
        except LostError:
            if self.state == READY:  # until it is seen to be ready once more
                self.state = FAILING
            raise
        finally:
            self.busy -= 1

    async def _ask(self, request: Request) -> Answer:
        # A server may close a connection that nobody uses at any time.
        while self._idle:
            with suppress(LostError):
                return await self._over(self._idle.pop(), request)
        return await self._over(await self._connect(), request)

    async def _connect(self) -> IOStream:
        if self._place is None:
            raise LostError
        try:
            connection = await aside(connect, self._cluster, self.job_id, self._place[2])
        except (SubmarineError, OSError) as error:
            raise LostError from error
        return IOStream(connection)

    async def _over(self, stream: IOStream, request: Request) -> Answer:
        place, answer = self._place, Answer()
        line = RequestStartLine(request.method, request.path, "HTTP/1.1")
        headers = HTTPHeaders(request.headers)
        headers["Host"] = f"localhost:{place[2] if place else 0}"
        if request.body or request.method not in ("GET", "HEAD"):
            headers["Content-Length"] = str(len(request.body))
        parameters: Any = HTTP1ConnectionParameters(max_body_size=LARGEST)
        there = HTTP1Connection(stream, is_client=True, params=parameters)
        kept = False
        try:
            await there.write_headers(line, headers, request.body or None)
            there.finish()
            await there.read_response(answer)
            if not answer.whole:
                raise LostError
            ends = answer.headers.get("Connection", "").lower() == "close"
            kept = not ends and place == self._place and len(self._idle) < _MOST_IDLE
            kept = kept and not stream.closed()
        except (StreamClosedError, HTTPInputError, OSError) as error:
            raise LostError from error
        finally:
            if kept:
                self._idle.append(there.detach())
            else:
                stream.close()
        return answer

    async def cancel(self, reason: str) -> None:
        """Ask its job to end.

        Parameters
        ----------
        reason
            In words, for the job's record.

        Raises
        ------
        SubmarineError
            It cannot be asked now.
        """
        self.close()
        await aside(self._cluster.cancel, self.job_id, reason)

    def close(self) -> None:
        """Leave the connections that nobody uses."""
        for stream in self._idle:
            stream.close()
        self._idle.clear()
