"""What keeps the server's event loop from waiting: worker pools, and pollers for all readers.

Whatever may block runs in a small pool of threads for its kind of work, so that what hangs costs
its own pool alone. One poller looks for however many watch a thing; none where nobody does.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Hashable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from functools import partial
from queue import SimpleQueue
from typing import Any, ParamSpec, TypeVar

from submarine_engine.errors import ClusterError

# Threads for what may block: the server's event loop never waits for a disk or a cluster.
#
# Each *pool* has a few threads of its own: the calls to one cluster, the reads of its jobs'
# streams, the logs. One that hangs uses up its own pool and no other, and who waits for it is told
# so.


_P = ParamSpec("_P")
_T = TypeVar("_T")

_THREADS = 6
LIMIT = 20.0
"""Seconds after which a call is given up."""

_Task = tuple["Future[Any]", Callable[[], Any]]


class _WorkerPool:
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
    """The pools of a server, by name.

    Parameters
    ----------
    limit
        Seconds after which a call is given up.
    """

    def __init__(self, limit: float = LIMIT) -> None:
        self.limit = limit
        self._pools: dict[str, _WorkerPool] = {}

    async def call(
        self, pool: str, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs
    ) -> _T:
        """Run what may block, in a thread of `pool`.

        Parameters
        ----------
        pool
            Its name; pools are made when they are first used.
        function, args, kwargs
            What is called, and with what.

        Raises
        ------
        ClusterError
            It has not answered within the limit. A thread that hangs stays with its pool.
        """
        if pool not in self._pools:
            self._pools[pool] = _WorkerPool(f"submarine-{pool}")
        answer = asyncio.wrap_future(self._pools[pool].submit(partial(function, *args, **kwargs)))
        answer.add_done_callback(lambda _: answer.cancelled() or answer.exception())  # seen, so
        try:
            # Not `asyncio.wait_for`: before Python 3.12 that loses a cancel that comes with the
            # answer, and whoever looks again and again would never end.
            await asyncio.wait((answer,), timeout=self.limit)
            if answer.done():
                return answer.result()
        finally:
            answer.cancel()
        raise ClusterError(
            f"no answer for {self.limit:g} s",
            where=pool,
            fix="see whether the cluster, or the disk with the jobs, answers; then ask again",
        )

    def stop(self) -> None:
        """Begin nothing more."""
        for pool in self._pools.values():
            pool.stop()
        self._pools.clear()


# One looker for each thing that is watched, however many watch it; none where nobody does.


MOST_STREAMS = 400
LONGEST_PAUSE = 15.0
"""Seconds between two looks that fail, at most."""


class Watcher:
    """Looks at one thing again and again, in one task, for all its readers."""

    def __init__(self) -> None:
        self.readers = 0
        self.error: Exception | None = None
        self.task = asyncio.create_task(self._guarded())

    async def run(self) -> None:
        """Look, until there is nothing more to see."""
        raise NotImplementedError

    def wake(self) -> None:
        """Tell the readers that there is something new, or an end."""
        raise NotImplementedError

    async def _guarded(self) -> None:
        try:
            await self.run()
        except Exception as error:  # noqa: BLE001 - every reader is told
            self.error = error
            self.wake()


_W = TypeVar("_W", bound=Watcher)


class Watchers:
    """The watchers of a server, by what they look at, and how many streams it has.

    Parameters
    ----------
    most
        Streams that may be open at once.
    """

    def __init__(self, most: int = MOST_STREAMS) -> None:
        self.most = most
        self.streams = 0
        self._found: dict[Hashable, Watcher] = {}

    @contextmanager
    def stream(self) -> Iterator[bool]:
        """Count a stream as long as it is open; False where there are too many already."""
        if self.streams >= self.most:
            yield False
            return
        self.streams += 1
        try:
            yield True
        finally:
            self.streams -= 1

    @contextmanager
    def of(self, key: Hashable, make: Callable[[], _W]) -> Iterator[_W]:
        """Give the one watcher of `key` as long as the reader reads; `make` makes it."""
        watcher: Any = self._found.get(key)
        if watcher is None or watcher.error:
            watcher = self._found[key] = make()
        watcher.readers += 1
        try:
            yield watcher
        finally:
            watcher.readers -= 1
            if not watcher.readers:
                watcher.task.cancel()
                if self._found.get(key) is watcher:
                    del self._found[key]

    def counts(self) -> dict[Hashable, int]:
        """Return how many readers each has."""
        return {key: watcher.readers for key, watcher in self._found.items()}

    def stop(self) -> None:
        """End all of them."""
        for watcher in self._found.values():
            with suppress(RuntimeError):  # the loop is closed already
                watcher.task.cancel()
        self._found.clear()


class Poller(Watcher):
    """The newest state of something, as text to send; readers that lag see no state between.

    Parameters
    ----------
    look
        Returns the text, None where nothing has changed, and whether that was the last one.
    quickest, slowest
        Seconds between two looks, while things change and while they do not.
    ended_by
        Errors after which there is nothing to look at any more. Any other is the trouble of one
        look, which its readers are told and the next good look ends.
    """

    def __init__(
        self,
        look: Callable[[], Awaitable[tuple[str | None, bool]]],
        quickest: float,
        slowest: float,
        ended_by: tuple[type[Exception], ...] = (),
    ) -> None:
        super().__init__()
        self._look, self._quickest, self._slowest = look, quickest, slowest
        self._ended_by = ended_by
        self.text = ""
        self.version = 0
        self.trouble: Exception | None = None
        self.over = False
        self.listeners: set[asyncio.Event] = set()

    async def run(self) -> None:
        """Look until the last state."""
        delay = pause = self._quickest
        while not self.over:
            try:
                text, self.over = await self._look()
            except self._ended_by:
                raise
            except Exception as error:  # noqa: BLE001 - every reader is told, and the watch goes on
                self.trouble = error
                self.wake()
                pause = min(LONGEST_PAUSE, pause * 2)
                await asyncio.sleep(pause)
                continue
            pause = self._quickest
            if text is not None or self.trouble:  # what was told last holds again
                self.text = self.text if text is None else text
                self.version += 1
                self.trouble = None
                delay = self._quickest
                self.wake()
            elif self.over:
                self.wake()
            if not self.over:
                await asyncio.sleep(delay)
            delay = min(self._slowest, delay * 1.25)

    def wake(self) -> None:
        """Wake every page that listens."""
        for listener in self.listeners:
            listener.set()
