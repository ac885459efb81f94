"""Threads for what may block: the server's event loop never waits for a disk or a cluster.

Each *lane* has a few threads of its own: the calls to one cluster, the reads of its jobs' streams,
the logs. One that hangs uses up its own lane and no other, and who waits for it is told so.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from queue import SimpleQueue
from typing import Any, ParamSpec, TypeVar

from submarine_engine.errors import ClusterError

_P = ParamSpec("_P")
_T = TypeVar("_T")

_THREADS = 6
LIMIT = 20.0
"""Seconds after which a call is given up."""

_Task = tuple["Future[Any]", Callable[[], Any]]


class _Lane:
    """A few threads, begun when they are needed; the process's end does not wait for them."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._tasks: SimpleQueue[_Task | None] = SimpleQueue()
        self._threads = 0
        self._idle = 0
        self._lock = threading.Lock()

    def submit(self, function: Callable[[], _T]) -> Future[_T]:
        future: Future[_T] = Future()
        with self._lock:
            if self._idle:
                self._idle -= 1
            elif self._threads < _THREADS:
                self._threads += 1
                threading.Thread(target=self._run, name=self._name, daemon=True).start()
            self._tasks.put((future, function))
        return future

    def stop(self) -> None:
        for _ in range(_THREADS):
            self._tasks.put(None)

    def _run(self) -> None:
        while task := self._tasks.get():
            future, function = task
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(function())
                except BaseException as error:  # noqa: BLE001 - raised where it is waited for
                    future.set_exception(error)
            del task, future, function  # what they hold is big, and the wait may be long
            with self._lock:
                if self._tasks.empty():
                    self._idle += 1


class Work:
    """The lanes of a server, by name.

    Parameters
    ----------
    limit
        Seconds after which a call is given up.
    """

    def __init__(self, limit: float = LIMIT) -> None:
        self.limit = limit
        self._lanes: dict[str, _Lane] = {}

    async def call(
        self, lane: str, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs
    ) -> _T:
        """Run what may block, in a thread of `lane`.

        Raises
        ------
        ClusterError
            It has not answered within the limit. A thread that hangs stays with its lane.
        """
        if lane not in self._lanes:
            self._lanes[lane] = _Lane(f"submarine-{lane}")
        future = self._lanes[lane].submit(partial(function, *args, **kwargs))
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), self.limit)
        except (asyncio.TimeoutError, TimeoutError) as error:
            if future.done() and not future.cancelled() and future.exception() is error:
                raise  # the function's own
            raise ClusterError(
                f"no answer for {self.limit:g} s",
                where=lane,
                fix="see whether the cluster, or the disk with the jobs, answers; then ask again",
            ) from error

    def stop(self) -> None:
        """Begin nothing more."""
        for lane in self._lanes.values():
            lane.stop()
        self._lanes.clear()
