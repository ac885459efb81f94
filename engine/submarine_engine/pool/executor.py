"""`Executor`: `concurrent.futures` on the cluster's GPUs."""

from __future__ import annotations

import concurrent.futures
import functools
import threading
import time
import types
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, Future, InvalidStateError
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from submarine_runtime.worker import apply

from submarine_engine.errors import CommandError, JobFailedError, ResultError, SubmarineError
from submarine_engine.pool.arguments import Arguments
from submarine_engine.pool.calls import Call
from submarine_engine.pool.inputs import Giver, Inputs, label_of
from submarine_engine.pool.journal import Follower
from submarine_engine.pool.launching import PoolPlan, check_function, control_job, count, prepare
from submarine_engine.pool.pool import called
from submarine_engine.pool.results import Loader, printed
from submarine_engine.records import open_job

if TYPE_CHECKING:
    from submarine_engine.future import Job
    from submarine_engine.pool.calls import End

_SOONEST = 0.002  # seconds: as the controller's own turns; who called it waits for the value
_LATEST = 0.02  # seconds while nothing ends: less than anybody notices, one file is looked at
_LOOK = 0.5  # seconds: whether the job lives still; where it does, the journal tells all else


class ExecutorSource(Inputs):
    """The calls of an executor, for their controller."""


class CallFuture(Future[Any]):
    """A call of an `Executor`.

    Parameters
    ----------
    calls
        All calls of its function: the pool that runs it.
    index
        Which of them it is, from 0.
    """

    def __init__(self, calls: _Calls, index: int) -> None:
        super().__init__()
        self._calls = calls
        self._index = index
        self._withdrawn = False
        self._worker = ""
        self._moved_on = threading.Lock()

    @property
    def job(self) -> Job | None:
        """The job of the worker that has it, or had; None before it has begun."""
        return open_job(self._worker) if self._worker else None

    def log(self) -> str:
        """Return what the call has printed: ``stdout``, then ``stderr``.

        Raises
        ------
        CommandError
            It has not run to its end by now.
        LogsGoneError
            Its worker's files are gone.
        """
        return self._calls.log(self._index)

    def cancel(self, *, running: bool = False) -> bool:
        """Take the call back where it has not begun.

        Parameters
        ----------
        running
            Whether to end it where it runs, too: its process is killed. `result` raises
            `concurrent.futures.CancelledError` once that is done.

        Returns
        -------
        bool
            Whether it is taken back, or asked to end.
        """
        if super().cancel():
            self._move_on()
            self._calls.withdraw(self._index, running=running)
            return True
        if running and self.running():
            self._calls.withdraw(self._index, running=True)
            return True
        return self.cancelled()

    def cancelled(self) -> bool:
        """Return whether it was taken back, or ended where it ran."""
        return self._withdrawn or super().cancelled()

    def _begin(self, worker: str) -> None:
        self._worker = worker
        self._move_on()

    def _move_on(self) -> None:
        """Note that it runs, or tell who waits that it is cancelled: whichever comes first, once.

        It may be cancelled again and again, also just as it begins.
        """
        if self._moved_on.acquire(blocking=False):
            self.set_running_or_notify_cancel()

    def _end(self, end: End, loader: Loader, what: str) -> None:
        self._worker = end.worker
        if self.done():
            return
        if end.outcome == "withdrawn":
            self._withdrawn = True
            self._fail(CancelledError())
            return
        try:
            value = loader.value(end, what, ".log() of its future")
        except BaseException as error:  # noqa: BLE001 - it is the call's own, or says why
            self._fail(error)
        else:
            self.set_result(value)

    def _fail(self, error: BaseException) -> None:
        with suppress(InvalidStateError):  # it was cancelled meanwhile
            self.set_exception(error)


class _Calls:
    """The calls of one function: a pool."""

    def __init__(self, plan: PoolPlan) -> None:
        prepared = prepare(plan)
        self.folder = prepared.make()
        self._arguments = Arguments(prepared.names)
        self._giver = Giver(self.folder)
        self._follower = Follower(self.folder)
        self._loader = Loader(self.folder)
        self._futures: dict[int, CallFuture] = {}
        self._ended: dict[int, End] = {}
        self._labels: dict[int, str] = {}
        self._given = 0
        self._lock = threading.Lock()
        self._looked = 0.0
        try:
            self.job = control_job(self.folder)
        except BaseException:
            self._giver.close()
            raise

    @property
    def open(self) -> bool:
        """Whether there are calls that have not ended."""
        return bool(self._futures)

    def submit(self, args: tuple[Any, ...], keywords: dict[str, Any], batch: int) -> CallFuture:
        with self._lock:
            index = self._given
            label = label_of(args[0]) if args else ""
            what = called(Call(index, b"", label))
            data = self._arguments.pack(args, keywords, what)
            future = self._futures[index] = CallFuture(self, index)
            self._labels[index] = label
            try:
                self._giver.give(Call(index, data, label, batch))
            except BaseException:
                del self._futures[index], self._labels[index]
                raise
            self._given += 1
            return future

    def log(self, index: int) -> str:
        end = self._ended.get(index)
        if end is None or not end.worker:
            raise CommandError(f"call {index} has not run to its end by now", fix="wait for it")
        return printed(self.folder, index, end)

    def withdraw(self, index: int, *, running: bool) -> None:
        with self._lock:
            if index in self._futures:
                self._giver.withdraw(index, running=running)

    def close(self) -> None:
        with self._lock:
            self._giver.close()

    def cancel_waiting(self) -> None:
        for future in list(self._futures.values()):
            future.cancel()

    def poll(self) -> bool:
        """Hear what has become of the calls; return whether there was anything."""
        try:
            lines = self._follower.read()
        except (ResultError, OSError) as error:  # what becomes of them is never heard
            self._fail_all(error)
            return False
        for line in lines:
            future = self._futures.get(line.get("index", -1))
            if future is None:
                continue
            if line["kind"] == "began":
                future._begin(line["worker"])  # noqa: SLF001 - of this module
            elif line["kind"] == "ended":
                index = line["index"]
                what = called(Call(index, b"", self._labels.pop(index)))
                end = self._follower.end(line)
                self._ended[index] = replace(end, payload=b"", told={})
                future._end(end, self._loader, what)  # noqa: SLF001 - likewise
                del self._futures[index]
        if not lines and self._futures and time.monotonic() - self._looked >= _LOOK:
            self._looked = time.monotonic()
            self._see_whether_it_runs()
        return bool(lines)

    def _see_whether_it_runs(self) -> None:
        """Fail what will never end, since the job that ran the calls is over."""
        try:
            if not self.job.done() or self.poll():
                return
            error = self.job.exception(0)
        except SubmarineError as cancelled:
            error = cancelled
        why = error or JobFailedError("the job that ran the calls has ended", job_id=self.job.id)
        self._fail_all(why)

    def _fail_all(self, error: BaseException) -> None:
        """Fail the calls that have not ended."""
        with self._lock:
            left = list(self._futures.values())
            self._futures.clear()
        for future in left:
            future._fail(error)  # noqa: SLF001 - of this module


class Executor(concurrent.futures.Executor):
    """Runs calls on the cluster, as the executors of `concurrent.futures` do on this machine.

    All calls of one function are one job, which gives them to workers that stay. What a function
    needs of the program or the notebook travels when it is submitted for the first time.

    Parameters
    ----------
    max_workers, max_gpus
        How many there may be at once, for each function: all GPUs of the cluster unless given;
        without GPUs, as many workers as there are cores.
    retries
        How often a call that fails is tried again. One whose worker is lost is given again anyhow.
    forks
        Whether each call runs in a fork of its own; else all of a worker run in one process.
    options
        Of each worker, as `submit` has them: ``gpus=1, memory="8G"``.

    Raises
    ------
    CommandError
        An option is not possible.
    """

    def __init__(
        self,
        max_workers: int | None = None,
        *,
        max_gpus: int | None = None,
        retries: int = 0,
        forks: bool = True,
        **options: Any,  # noqa: ANN401 - of the workers' jobs
    ) -> None:
        count("retries", retries, 0)
        if max_workers is not None:
            count("max_workers", max_workers)
        self._options = options
        self._plan = {
            "options": options,
            "source": f"{__name__}:{ExecutorSource.__name__}",
            "forks": forks,
            "max_gpus": max_gpus,
            "max_workers": max_workers,
            "told": {"retries": retries},
        }
        self._calls: dict[object, _Calls] = {}
        self._functions: list[object] = []
        self._lock = threading.RLock()
        self._batch = threading.local()
        self._shut = False
        self._thread: threading.Thread | None = None
        self._more = threading.Event()

    def submit(
        self,
        fn: Callable[..., Any],
        /,
        *args: Any,  # noqa: ANN401 - the function's own
        **kwargs: Any,  # noqa: ANN401 - likewise
    ) -> CallFuture:
        """Call ``fn(*args, **kwargs)`` on a worker; return its future at once.

        Parameters
        ----------
        fn, args, kwargs
            The call.

        Raises
        ------
        RuntimeError
            The executor was shut down.
        BundleError
            The function, what it needs or an argument cannot travel.
        SubmissionError
            The cluster refuses the job.
        """
        check_function(fn)
        while isinstance(fn, functools.partial):
            args, kwargs = (*fn.args, *args), {**fn.keywords, **kwargs}
            fn = fn.func
        if isinstance(fn, types.MethodType):
            args, fn = (fn.__self__, *args), fn.__func__
        if not _has_a_name(fn):
            fn, args = apply, (fn, *args)
        with self._lock:
            if self._shut:
                raise RuntimeError("cannot schedule new futures after shutdown")
            calls = self._calls.get(id(fn))
            if calls is None:
                plan = dict(self._plan)
                if fn is apply:
                    plan["options"] = {"name": "calls", **self._options}
                calls = self._calls[id(fn)] = _Calls(PoolPlan(function=fn, **plan))  # type: ignore[arg-type] # each as its field
                self._functions.append(fn)  # so that its id stays its own
            future = calls.submit(args, kwargs, getattr(self._batch, "size", 1))
            self._more.set()
            if self._thread is None:
                name = "submarine: calls"
                self._thread = threading.Thread(target=self._follow, name=name, daemon=True)
                self._thread.start()
        return future

    def map(
        self,
        fn: Callable[..., Any],
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,
        **more: Any,  # noqa: ANN401 - what later Pythons have
    ) -> Iterator[Any]:
        """Return the values of calls with each of the inputs, in their order.

        Parameters
        ----------
        fn, iterables, timeout, more
            As `concurrent.futures.Executor.map` has them.
        chunksize
            How many calls one process runs after another.

        Raises
        ------
        TimeoutError
            From the iterator: a value is not there after `timeout` seconds.
        """
        self._batch.size = count("chunksize", chunksize)
        try:
            return super().map(fn, *iterables, timeout=timeout, **more)
        finally:
            self._batch.size = 1

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002 - as `Executor` has it
        """Take no more calls; end the workers once those that there are have ended.

        Parameters
        ----------
        wait
            Whether to wait for that.
        cancel_futures
            Whether to take back what has not begun.
        """
        with self._lock:
            self._shut = True
            everything = list(self._calls.values())
        for calls in everything:
            if cancel_futures:
                calls.cancel_waiting()
            calls.close()
        self._more.set()
        if wait:
            if self._thread is not None:
                self._thread.join()
            for calls in everything:
                calls.job.wait()

    def _follow(self) -> None:
        """Resolve futures as their calls end."""
        pause = _SOONEST
        while True:
            with self._lock:
                # Both at once: of calls that come after that look, none may be left behind.
                everything, shut = list(self._calls.values()), self._shut
                self._more.clear()
            active = [calls.poll() for calls in everything]
            if not any(calls.open for calls in everything):
                if shut:
                    return
                self._more.wait()
            elif not any(active):
                time.sleep(pause)
            pause = _SOONEST if any(active) else min(_LATEST, pause * 1.3)


def _has_a_name(function: object) -> bool:
    """Return whether a script can define a function, or import it from a module of the user's."""
    if not isinstance(function, (types.FunctionType, type)):
        return False
    if function.__module__ == "builtins" or "<" in function.__qualname__:
        return False
    return function is not apply
