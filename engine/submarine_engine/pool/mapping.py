"""`map`: one function over many inputs, each result there as soon as it is."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any

from submarine_runtime.call_frames import Reader

from submarine_engine.clusters import locks
from submarine_engine.errors import (
    CommandError,
    JobFailedError,
    JobNotFoundError,
    SubmarineError,
)
from submarine_engine.future import Job
from submarine_engine.history import default_home, read_json
from submarine_engine.pool.arguments import Arguments
from submarine_engine.pool.calls import DONE, WAIT, Call, Nothing
from submarine_engine.pool.folder import PoolFolder
from submarine_engine.pool.inputs import Giver, Inputs, label_of
from submarine_engine.pool.journal import Follower
from submarine_engine.pool.launching import PoolPlan, check_function, control_job, count, prepare
from submarine_engine.pool.pool import GivenUpError, called
from submarine_engine.pool.results import Loader, printed
from submarine_engine.records import open_job

if TYPE_CHECKING:
    from submarine_engine.bundle.model import Cell
    from submarine_engine.pool.calls import End, Runner

GIVE_UP = 20
_LOOK_AHEAD = 64
_SOONEST = 0.005  # seconds: a loop over results waits for it, and a look reads a file's end
_LATEST = 0.05  # seconds while nothing ends: less than anybody notices
_LOOK = 0.5  # seconds: whether the job lives still; where it does, the journal tells all else


class MapSource(Inputs):
    """The calls of a map, for its controller."""

    def begin(self, pool: Runner) -> None:
        """Hear whose calls these are."""
        super().begin(pool)
        self.total = int(self._folder.read().get("calls", 0))

    def next(self) -> Call | Nothing:
        """Return the next call; where inputs are gone, say so when all others have ended."""
        given = super().next()
        if given is not DONE or self.given >= self.total:
            return given
        if self.ends < self.given:
            return WAIT
        raise GivenUpError(
            f"{self.total - self.given:,} of {self.total:,} inputs are gone: their file is cut off",
            where=str(self._folder.inputs),
            fix="results() has the values of the others; run the map again for these",
        )

    def result(self) -> Mapped:
        """Return what the job's own result is."""
        super().result()
        return Mapped(self._folder)


_SOURCE = f"{__name__}:{MapSource.__name__}"


class Mapped(Iterator[Any]):
    """What a map gives: an iterator of its values, and all that is there of them by now.

    Where a call failed, `next` raises its error; the next one goes on with the call after it.

    Parameters
    ----------
    folder
        The pool's.
    ordered
        Whether values come in the order of their inputs, else as they come.

    Attributes
    ----------
    job
        The job that runs it.
    """

    def __init__(self, folder: PoolFolder, *, ordered: bool = True) -> None:
        self._folder = folder
        self._ordered = ordered
        self._follower = Follower(folder)
        self._loader = Loader(folder)
        self._labels: dict[int, str] = {}
        self._ends: dict[int, End] = {}
        self._order: list[int] = []
        self._shown = 0
        self._over: str | None = None
        self._feeder: _Feeder | None = None
        plan = folder.read()
        self._total: int | None = plan.get("calls")
        former = plan.get("former")
        self._former = _opened(former) if former else None
        self._looked = 0.0
        self.job: Job | None = None

    def __reduce__(self) -> tuple[object, ...]:
        return _opened, (self._folder.root.name,)

    def __repr__(self) -> str:
        self._read()
        failed = sum(not end.succeeded for end in self._ends.values())
        return f"<map: {len(self._ends):,} calls have ended, {failed:,} of them without a value>"

    def __iter__(self) -> Mapped:
        return self

    def __len__(self) -> int:
        """How many calls there are in all, those whose values were taken among them.

        Raises
        ------
        TypeError
            The inputs come of a generator: nobody knows.
        """
        if self._total is None:
            raise TypeError("the inputs of this map come of a generator: it has no length")
        return self._total

    def __bool__(self) -> bool:
        return True

    def __next__(self) -> Any:  # noqa: ANN401 - the user's own
        pause = _SOONEST
        while True:
            self._feed()
            if self._read():
                pause = _SOONEST
            if (index := self._next()) is not None:
                self._shown += 1
                return self._value(index)
            if self._is_over():
                raise StopIteration
            time.sleep(pause)
            pause = min(_LATEST, pause * 1.3)

    def wait(self) -> Mapped:
        """Wait until every call and the job have ended, and return itself.

        Raises
        ------
        JobFailedError, JobCancelledError, JobLostError
            The job ended before the calls did. Where it gave up since every call failed, it is the
            first call's own error.
        """
        while True:
            self._feed()
            self._read()
            try:
                if self._is_over():
                    break
            except JobFailedError:
                if self._over and (failed := self.failed) and len(failed) == len(self._ends):
                    raise failed[min(failed)] from None
                raise
            time.sleep(_LATEST)
        if self.job is not None:
            self.job.wait()
        return self

    def results(self) -> dict[int, Any]:
        """Return the values that are there by now, by the place of their input.

        Raises
        ------
        ResultError
            One cannot be loaded here.
        """
        self._read()
        values = {index: self._value(index) for index in self._ends if self._ends[index].succeeded}
        if self._former is not None:
            values = {**self._former.results(), **values}
        return dict(sorted(values.items()))

    @property
    def failed(self) -> dict[int, SubmarineError]:
        """The errors of the calls that have failed by now, by the place of their input."""
        self._read()
        found: dict[int, SubmarineError] = {
            index: self._loader.error(self._ends[index], self._called(index), self._hint(index))
            for index in self._ends
            if not self._ends[index].succeeded
        }
        if self._former is not None:
            before = self._former.failed
            own = self._calls_again() if before else {}
            found |= {index: error for index, error in before.items() if index not in own}
        return dict(sorted(found.items()))

    def log(self, index: int) -> str:
        """Return what a call that has ended has printed: ``stdout``, then ``stderr``.

        Parameters
        ----------
        index
            The place of its input.

        Raises
        ------
        CommandError
            No such call has ended by now.
        LogsGoneError
            Its worker's files are gone.
        """
        self._read()
        end = self._ends.get(index)
        if end is None and self._former is not None:
            return self._former.log(index)
        if end is None or not end.worker:
            raise CommandError(
                f"no call {index!r} has run to its end by now",
                fix="results() and failed have those that did",
            )
        return printed(self._folder, index, end)

    def retry_failed(self) -> Mapped:
        """Run the calls that gave no value once more, with the same code and inputs.

        While the map runs, these are the ones that have failed by now; once it is over, also those
        that never ended. What runs again already, or has given its value there, is passed over.

        Returns
        -------
        Mapped
            Its iterator gives the values of these calls alone; its `results` are all that there
            are, also of this map. The places of the inputs stay what they were.

        Raises
        ------
        CommandError
            No call has failed that is not tried again by now.
        """
        first = self
        while first._former is not None:
            first = first._former
        with locks.held(first._folder.root / "retry.lock"):  # noqa: SLF001 - likewise
            runs = first._and_those_after()  # noqa: SLF001 - likewise
            last: dict[int, tuple[Call, bool]] = {}
            for run in runs:
                last |= run._calls_again()  # noqa: SLF001 - likewise
            calls = [call for _, (call, again) in sorted(last.items()) if again]
            if not calls:
                raise CommandError(
                    "no call has failed that was not tried again",
                    fix="failed has those that failed by now",
                )
            newest = runs[-1]._folder  # noqa: SLF001 - likewise
            folder = newest.again({"former": newest.root.name, "calls": len(calls)})
            return _begun(Mapped(folder, ordered=self._ordered), calls)

    def _and_those_after(self) -> list[Mapped]:
        """Return this map and those that run its failed calls again, the oldest first."""
        # By what each says, not by its name: two of the same second are in no order.
        after = {}
        for path in self._folder.root.parent.glob("*/pool.json"):
            if former := (read_json(path) or {}).get("former"):
                after[former] = path.parent.name
        found = [self]
        while name := after.pop(found[-1]._folder.root.name, ""):  # noqa: SLF001 - of this class
            found.append(_opened(name))
        return found

    def _calls_again(self) -> dict[int, tuple[Call, bool]]:
        """Return the calls of this run, and whether each is to be run again."""
        over = self.job is None or self.job.done()  # first: what it told last is then read
        self._read()
        return {
            head["index"]: (
                Call(head["index"], data, head["label"], head["batch"]),
                not self._succeeded(head["index"]) and (over or head["index"] in self._ends),
            )
            for head, data in Reader(str(self._folder.inputs)).read()
            if head["kind"] == "call"
        }

    def cancel(self) -> bool:
        """End the job, its workers and all calls that have not ended; what is there stays."""
        return self.job is not None and self.job.cancel("the map was cancelled")

    # The record, as it grows.

    def _next(self) -> int | None:
        if not self._ordered:
            return self._order[self._shown] if self._shown < len(self._order) else None
        if self._former is None:
            return self._shown if self._shown in self._ends else None
        # A controller takes them in the order that they were given.
        places = list(self._labels)
        place = places[self._shown] if self._shown < len(places) else None
        return place if place in self._ends else None

    def _succeeded(self, index: int) -> bool:
        return index in self._ends and self._ends[index].succeeded

    def _read(self) -> bool:
        lines = self._follower.read()
        for line in lines:
            if line["kind"] == "call":
                self._labels[line["index"]] = line["label"]
            elif line["kind"] == "ended":
                self._ends[line["index"]] = self._follower.end(line)
                self._order.append(line["index"])
            elif line["kind"] == "over":
                # What one job gave up another one goes on with.
                own = self.job is None or line.get("job") in (None, self.job.id)
                self._over = line["why"] if own else None
        return bool(lines)

    def _value(self, index: int) -> Any:  # noqa: ANN401 - the user's own
        end = self._ends[index]
        hint = "" if end.succeeded else self._hint(index)
        return self._loader.value(end, self._called(index), hint)

    def _hint(self, index: int) -> str:
        """Return what shows a failed call's log, how many failed, and what to do about them."""
        failed = sum(not end.succeeded for end in self._ends.values())
        of = f" of {self._total:,}" if self._total is not None else ""
        calls = "call" if self._total == 1 else "calls"
        return (
            f".log({index}) of the map; {failed:,}{of} {calls} failed by now: .failed has them, and"
            " .retry_failed() runs them again"
        )

    def _called(self, index: int) -> str:
        return called(Call(index, b"", self._labels.get(index, "")))

    def _feed(self) -> None:
        feeder, self._feeder = self._feeder, None
        if feeder is not None and feeder.feed(len(self._ends)):
            self._feeder = feeder

    def _is_over(self) -> bool:
        """Return whether every call has ended; raise where some never will."""
        if self._over == "":
            return True
        if self._over is None:
            if self.job is None or time.monotonic() - self._looked < _LOOK:
                return False
            self._looked = time.monotonic()
            if not self.job.done() or self._read():
                return False
        if self._over:
            what, _, fix = self._over.partition("\n→ ")
            raise JobFailedError(what, job_id=self.job.id if self.job else "", fix=fix)
        if self.job is not None:
            self.job.results()  # raises what has ended it
        raise JobFailedError("the job that ran the map has ended before it was done")


def open_map(name: str) -> Mapped:
    """Return a map by its name, or the id of its job: also one that runs or was cancelled.

    Parameters
    ----------
    name
        The newest of that name is taken.

    Raises
    ------
    JobNotFoundError
        There is none.
    """
    job, home = open_job(name), default_home()
    folder = PoolFolder.of_job(home, job.id)
    if folder is not None and folder.read()["source"] == _SOURCE:
        found = _opened(folder.root.name)
        found.job = job
        return found
    raise JobNotFoundError(
        f"job {job.id} is no map", where=str(home), fix="see `submarine job list`"
    )


def _opened(pool: str) -> Mapped:
    folder = PoolFolder.of(default_home(), pool)
    found = Mapped(folder)
    with suppress(JobNotFoundError):  # it was removed: what has come is still there
        found.job = open_job(folder.job_id) if folder.job_id else None
    return found


class _Feeder:
    """Takes inputs of a generator as calls end, and gives them on."""

    def __init__(
        self,
        giver: Giver,
        inputs: Iterator[tuple[Any, ...]],
        arguments: Arguments,
        given: int,
        batch: int,
    ) -> None:
        self._giver = giver
        self._inputs = inputs
        self._arguments = arguments
        self._given = given
        self._batch = batch

    def feed(self, ended: int) -> bool:
        """Give what there is room for; return whether there may be more."""
        while self._given - ended < _LOOK_AHEAD + self._batch:
            try:
                taken = next(self._inputs)
                self._giver.give(_call(self._given, taken, self._arguments, self._batch))
            except StopIteration:
                self._giver.close()
                return False
            except BaseException:
                self._giver.close()
                raise
            self._given += 1
        return True


def _call(index: int, taken: tuple[Any, ...], arguments: Arguments, batch: int) -> Call:
    label = label_of(taken[0]) if taken else ""
    what = f"input {index}" + (f" ({label})" if label else "")
    return Call(index, arguments.pack(taken, {}, what), label, batch)


def map(  # noqa: A001, PLR0913 - what it is called everywhere; the options, each by its name
    function: Callable[..., Any],
    /,
    *inputs: Iterable[Any],
    batch: int = 1,
    retries: int = 0,
    ordered: bool = True,
    forks: bool = True,
    max_gpus: int | None = None,
    max_workers: int | None = None,
    give_up: int | None = GIVE_UP,
    cell: Cell | None = None,
    shown: bool = True,
    **options: Any,  # noqa: ANN401 - of the workers' jobs
) -> Mapped:
    """Call `function` with each of the inputs, on the cluster; return the values as they come.

    Parameters
    ----------
    function
        What each call calls.
    inputs
        As for Python's own `map`: with several, a call takes one of each.
    batch
        How many calls one process runs after another.
    retries
        How often a call that fails is tried again. One whose worker is lost is given again anyhow.
    ordered
        Whether values come in the order of their inputs, else as they come.
    forks
        Whether each call runs in a fork of its own; else all of a worker run in one process.
    max_gpus, max_workers
        How many there may be at once: all GPUs of the cluster unless given; without GPUs, as many
        workers as there are cores.
    give_up
        Stop once so many calls have failed and none has succeeded; None for never.
    cell
        Of a notebook, that defines the function, where none was executed that does.
    shown
        Whether a line in a notebook's cell follows the job: not where its card will.
    options
        Of each worker, as `submit` has them: ``gpus=1, memory="8G"``; ``workers=2`` for calls that
        two tasks run each, of which the first one's value counts; ``time_limit`` is that of the
        whole.

    Raises
    ------
    CommandError
        An option is not possible.
    BundleError
        The function, what it needs or an input cannot travel.
    SubmissionError
        The cluster refuses the job.
    """
    check_function(function)
    count("batch", batch)
    count("retries", retries, 0)
    if give_up is not None:
        count("give_up", give_up)
    if not inputs:
        raise CommandError("there are no inputs", fix="give them after the function: map(f, files)")
    finite = all(isinstance(one, Sized) for one in inputs)
    taken = zip(*inputs, strict=False)
    arguments = Arguments()
    first = taken if finite else islice(taken, _LOOK_AHEAD)
    calls = [_call(index, one, arguments, batch) for index, one in enumerate(first)]
    told: dict[str, int | None] = {"retries": retries, "give_up": give_up}
    if finite or len(calls) < _LOOK_AHEAD:
        told["calls"] = len(calls)
    if batch > 1 and options.get("num_workers", options.get("workers", 1)) != 1:
        raise CommandError(
            f"batch={batch} is for calls of one worker: several meet anew for each call",
            fix="leave batch out",
        )
    plan = PoolPlan(
        function=function,
        options=options,
        source=_SOURCE,
        forks=forks,
        max_gpus=max_gpus,
        max_workers=max_workers,
        told=told,
        cell=cell,
    )
    prepared = prepare(plan, arguments.names)
    found = Mapped(prepared.make(), ordered=ordered)
    if "calls" in told:
        return _begun(found, calls, shown=shown)
    return _begun(found, calls, taken, Arguments(prepared.names), batch, shown=shown)


def _begun(  # noqa: PLR0913 - what `map` was given, each by its name
    found: Mapped,
    calls: Iterable[Call],
    more: Iterator[tuple[Any, ...]] | None = None,
    arguments: Arguments | None = None,
    batch: int = 1,
    *,
    shown: bool = True,
) -> Mapped:
    """Give a map its calls, and submit its job."""
    giver = Giver(found._folder)  # noqa: SLF001 - of this module
    given = 0
    try:
        for call in calls:
            giver.give(call)
            given += 1
        if more is None or arguments is None:
            giver.close()
        else:
            found._feeder = _Feeder(giver, more, arguments, given, batch)  # noqa: SLF001 - likewise
        found.job = control_job(found._folder, shown=shown)  # noqa: SLF001 - likewise
    except BaseException:
        giver.close()
        raise
    return found
