"""Threads for what may block: the server's event loop never waits for a disk or a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")

_THREADS = 8


class Work:
    """Two bounded pools: a cluster that does not answer delays no stream of a job."""

    def __init__(self) -> None:
        self._calls = ThreadPoolExecutor(_THREADS, "submarine-call")
        self._reads = ThreadPoolExecutor(_THREADS, "submarine-read")

    async def call(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Run what one request asks for."""
        job = partial(function, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self._calls, job)

    async def read(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Run one read of a job's stream."""
        job = partial(function, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self._reads, job)

    def stop(self) -> None:
        """Begin nothing more."""
        self._calls.shutdown(wait=False, cancel_futures=True)
        self._reads.shutdown(wait=False, cancel_futures=True)
