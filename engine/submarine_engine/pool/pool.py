"""A pool: calls of one function, by workers that stay, each call to its end exactly once.

The pool's journal is the truth. What is about to be done stands there before it is done, and an end
is written once; so a pool that is run again after its process was killed goes on with the same
workers, and hears from the beginning what these have told.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from submarine_engine.clusters.base import GpuRoom
from submarine_engine.errors import JobNotFoundError, SubmarineError, SubmissionError
from submarine_engine.job import JobSpec, JobState
from submarine_engine.outcome import clean
from submarine_engine.pool.calls import Answer, Call, End, Nothing, Source
from submarine_engine.pool.gang import Gang
from submarine_engine.pool.journal import Journal, Noted
from submarine_engine.pool.workers import PoolWorker
from submarine_engine.records import children_of, iter_jobs

if TYPE_CHECKING:
    from pathlib import Path

    from submarine_engine.bundle import Bundle
    from submarine_engine.clusters.base import Cluster
    from submarine_engine.pool.folder import PoolFolder

LOST_TRIES = 5
"""How often a call is given again since its worker was lost while it ran."""

_SOONEST = 0.002
"""Seconds between two turns while there is something to do: far less than any call takes."""
_LATEST = 0.02
"""Seconds between two turns when there is nothing: a turn looks at one file of each worker."""
_STAY = 10.0
"""Seconds between two words to a worker without a call, which ends by itself after a minute."""
_AT_ONCE = 4
"""Workers that begin at once: more imports beside each other take each other's time."""
_LOOK_AROUND = 0.25
"""Seconds between two looks at other jobs: so long may one wait before a worker gives way."""
_LOOK_ELSEWHERE = 1.0
"""The same where each look is a question to a cluster's scheduler."""
_FRESH = 0.05
"""Seconds for which a look holds where a worker takes its next short call."""
_LONG = 0.25
"""Seconds that a call takes on average from which on a worker is given none without a look."""
_LOOKED_AT = 50
"""The newest jobs that are looked at: what waits is new, but for a queue that is longer."""
_ENDING_TAKES = 30.0
"""Seconds in which workers end by themselves; then they are cancelled."""
_STARTS = 3
"""How many workers in a row may fail to begin by what a node did, before the pool is given up."""
_BETWEEN_STARTS = 2.0
"""Seconds after a worker that did not begin before the next one is tried."""
_IDLE = 60.0
"""Seconds after which a worker without a call ends though there may be one some day."""


class GivenUpError(SubmarineError):
    """A pool cannot go on: no worker can begin, or every call fails."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workers:
    """What a pool's workers are.

    Parameters
    ----------
    cluster
        Where they run.
    spec
        Of each; its parent is the job that runs the pool.
    bundle
        What they run: a script that ends in `submarine_runtime.worker.serve`.
    workdir
        Where relative paths begin.
    most, least
        How many there may be, and how many stay though others wait for their GPUs.
    """

    cluster: Cluster
    spec: JobSpec
    bundle: Bundle
    workdir: Path
    most: int = 1
    least: int = 1


class Pool:
    """Runs the calls of a source.

    Parameters
    ----------
    folder
        The pool's; the caller holds its lock.
    workers
        What the workers are.
    retries
        How often a call that fails by itself is tried again.
    give_up
        After how many calls that failed while none succeeded it is given up; None for never.
    say
        Is told in words what happens, a line at a time.
    """

    def __init__(
        self,
        folder: PoolFolder,
        workers: Workers,
        *,
        retries: int = 0,
        give_up: int | None = None,
        say: Callable[[str], object] = lambda _: None,
    ) -> None:
        self.folder = folder
        self._kind = workers
        self._retries = retries
        self._give_up = give_up
        self._say = say
        self.journal = Journal(folder)
        self._masker = folder.masker
        self._workers: dict[str, PoolWorker] = {}
        self._waiting: deque[Noted] = deque()
        self._source: Source
        self._done = False
        self._look_every = _LOOK_AROUND if self._kind.cluster.tasks_here else _LOOK_ELSEWHERE
        self._unwanted: set[int] = set()
        self._moving: set[int] = set()
        self._succeeded = 0
        self._failed = 0
        self._first: End | None = None
        self._starts = 0
        self._next_start = 0.0
        self._looked_around = 0.0
        self._wanted = 0
        self._last_ones = False
        self._free: int | None = None

    def say(self, line: str) -> None:
        """Tell in the log what happens, in the words of `line`."""
        self._say(line)

    @property
    def known(self) -> frozenset[int]:
        """The calls, by index, that a controller before this one has taken from the source."""
        return frozenset(self.journal.record.calls)

    @property
    def workers(self) -> int:
        """How many workers there are, those that are still to begin among them."""
        return sum(not worker.ending for worker in self._workers.values())

    @property
    def holding(self) -> int:
        """How many workers hold what they were granted, those that are ending among them."""
        holds = (JobState.STARTING, JobState.RUNNING)
        return sum(worker.state in holds for worker in self._workers.values())

    @property
    def most(self) -> int:
        """How many workers there may be."""
        return self._kind.most

    @property
    def crowded(self) -> bool:
        """Whether other jobs lack GPUs while this pool has more workers than its least."""
        return self.lacking > 0 and self.workers > self._kind.least

    @property
    def least(self) -> int:
        """How many workers stay though others wait for their GPUs."""
        return self._kind.least

    @property
    def lacking(self) -> int:
        """How many GPUs other jobs wait for, beyond what is free or about to be."""
        if not self._wanted:
            return 0
        free = self._count_free()
        leaving = sum(self._is_leaving(worker) for worker in self._workers.values())
        return max(0, self._wanted - free - leaving * (self._kind.spec.gpus or 0))

    def _is_leaving(self, worker: PoolWorker) -> bool:
        """Return whether a worker that ends has GPUs that are not counted as free yet."""
        # Elsewhere what it has released is counted as free a moment late: it leaves until it is
        # over.
        return worker.ending and (worker.holds or not self._kind.cluster.tasks_here)

    def run(self, source: Source) -> None:
        """Run all calls that a source gives; go on where the pool was run before.

        Raises
        ------
        GivenUpError
            No worker can begin, or every call fails.
        OSError
            The pool's folder cannot be written.
        """
        self._source = source
        source.begin(self)
        try:
            self._take_over()
            leave = getattr(source, "leave", lambda: True)
            while True:
                self._go_through()
                self._end_workers()
                if leave():
                    break
                self._done = False  # more was asked for meanwhile
            self.journal.over()
        except GivenUpError as error:
            with suppress(OSError):  # it is given up for a full disk
                self.journal.over(str(error), job=self._kind.spec.parent)
            self._cancel("the pool was given up")
            raise
        except BaseException:
            self._cancel("its pool has ended")
            raise
        finally:
            for worker in self._workers.values():
                worker.close()
            self.journal.close()

    def _go_through(self) -> None:
        pause = _SOONEST
        while not self._over():
            if self._turn():
                pause = _SOONEST
            time.sleep(pause)
            pause = min(_LATEST, pause * 1.3)

    def withdraw(self, index: int, *, running: bool = False) -> None:
        """Take the call `index` back if it has not begun, or end it where it runs.

        Its source hears how it ended. One that runs comes to its own end unless `running`.
        """
        self._unwanted.add(index)  # it may be still to come, or come back from its worker
        noted = self.journal.record.open.get(index)
        if noted is None:
            return
        if noted in self._waiting:
            self._waiting.remove(noted)
            self._end(noted, End(outcome="withdrawn", attempts=noted.tries))
        elif worker := self._workers.get(noted.given):
            worker.withdraw(noted, running=running)

    # One turn.

    def _over(self) -> bool:
        return self._done and not self._waiting and not self.journal.record.open

    def _turn(self) -> bool:
        """Do what there is to do; return whether there was anything."""
        active = False
        for worker in list(self._workers.values()):
            active = self._hear(worker) or active
            self._poll_worker(worker)
        # After it: what was taken back before a call ended is not given in its place.
        self._source.poll()
        active = self._feed() or active
        self._share()
        self._look_around(self._look_every)
        self._grow()
        self._shrink()
        return active

    def _hear(self, worker: PoolWorker) -> bool:
        frames = worker.read()
        for head, payload in frames:
            key = head.get("index"), head.get("try")
            # What the job's code may have written there is a stranger's word.
            known = type(key[0]) is type(key[1]) is int
            noted = worker.given.get(key) if known else None  # type: ignore[arg-type] # it is one
            if noted is None:  # it was heard before a controller took over
                continue
            kind = head["kind"]
            if kind == "began":
                if not noted.began:
                    self.journal.began(noted, worker.host)
                self._source.began(noted.call, worker.job_id)
            elif kind == "report":
                self._report(worker, noted, payload)
            elif kind == "ended":
                del worker.given[key]  # type: ignore[arg-type] # as above
                end = _end_of(head, payload, noted, worker)
                if self._masker is not None:  # it is shown, and stays on record
                    end = replace(end, told=self._masker.outcome(dict(end.told)))
                self._record_end(noted, end)
                if head.get("outcome") not in ("withdrawn", "moved"):
                    worker.took(_number(head.get("seconds")))
        return bool(frames)

    def _report(self, worker: PoolWorker, noted: Noted, payload: bytes) -> None:
        with suppress(ValueError, RecursionError):
            report = json.loads(payload)
            if isinstance(report, dict):
                answer = self._source.reported(noted.call, report)
                if answer is not Answer.GO_ON:
                    worker.tell(noted, answer.value)

    def _poll_worker(self, worker: PoolWorker) -> None:
        """See whether a worker is over; its calls are given again."""
        try:
            over = worker.poll()
        except JobNotFoundError:
            over = True
        except SubmarineError:  # the cluster does not answer now
            return
        if worker.spoilt and not over and not worker.ending:
            self.say(f"worker {worker.job_id}: what it tells cannot be read: {worker.spoilt}")
            worker.cancel("what it tells its pool cannot be read")
        if not over:
            return
        self._hear(worker)  # what it told last
        del self._workers[worker.job_id]
        worker.close()
        # Its GPUs are free for whoever waits, who is looked for anew once that one may have them.
        if self._kind.cluster.tasks_here:
            self._free = None
        else:
            self._free = (self._free or 0) + (self._kind.spec.gpus or 0)
        self._looked_around = time.monotonic() - self._look_every + _FRESH
        if worker.ready or worker.ending:
            self._starts = 0
        else:
            self._did_not_begin(worker)
        lost = sorted(worker.given.values(), key=lambda noted: noted.call.index, reverse=True)
        for noted in lost:
            if noted.began:
                why = worker.status.reason if worker.status else ""
                told = {"reason": why, "state": worker.state.value}
                end = End(
                    outcome="lost",
                    told=told,
                    worker=worker.job_id,
                    host=worker.host,
                    attempts=noted.tries,
                )
                self._record_end(noted, end)
            else:
                self._again(noted)

    def _did_not_begin(self, worker: PoolWorker) -> None:
        from submarine_engine.future import Job  # noqa: PLC0415 - only where something failed

        self._starts += 1
        self._next_start = time.monotonic() + _BETWEEN_STARTS
        error = None
        with suppress(SubmarineError):
            error = Job(self._kind.cluster, worker.job_id).exception(0)
        error = error or SubmarineError(worker.status.reason if worker.status else "it is gone")
        what = getattr(error, "what", str(error))
        frames = getattr(error, "frames", ())
        if frames:
            what = f"{what} ({frames[-1]})"
        self.say(f"worker {worker.job_id} could not begin: {what}")
        # An error of the code is the same on each node; what a node did may not be.
        if frames or self._starts >= _STARTS:
            raise GivenUpError(
                f"no worker can begin: {what}",
                where=getattr(error, "where", "") or f"job {worker.job_id}",
                fix=f"its log: submarine job logs {worker.job_id}",
            ) from error

    # What becomes of a call.

    def _record_end(self, noted: Noted, end: End) -> None:
        """Note how a try went: for good, or to be tried again."""
        self._moving.discard(noted.call.index)
        unwanted = noted.call.index in self._unwanted
        if unwanted and end.outcome in ("moved", "lost"):
            end = replace(end, outcome="withdrawn")
        if end.outcome == "moved":
            self.journal.tried(noted, end)
            self._waiting.append(noted)
            return
        if end.outcome == "lost":
            again = noted.losses + 1 < LOST_TRIES
        else:
            failed = end.outcome in ("error", "died")
            again = failed and noted.failures < self._retries
        if unwanted or not again:
            self._end(noted, end)
            return
        self.journal.tried(noted, end)
        self.say(f"{called(noted.call)} {words(end)}; it is tried again")
        self._waiting.appendleft(noted)

    def _again(self, noted: Noted) -> None:
        noted.take_back()
        if noted.call.index in self._unwanted:
            self._end(noted, End(outcome="withdrawn", attempts=noted.tries))
        else:
            self._waiting.appendleft(noted)

    def _end(self, noted: Noted, end: End) -> None:
        self.journal.ended(noted, end)
        self._count(end)
        self._source.ended(noted.call, end)
        self._may_give_up()

    def _count(self, end: End) -> None:
        if end.succeeded:
            self._succeeded += 1
        elif end.outcome in ("error", "died", "lost"):
            self._failed += 1
            self._first = self._first or end

    def _may_give_up(self) -> None:
        if self._give_up is None or self._succeeded or self._failed < self._give_up:
            return
        first = told_of(self._first, self.folder) if self._first else ""
        raise GivenUpError(
            f"all of the first {self._failed} calls failed; the first one {first}",
            fix="mend that, and run it again; give_up=None goes on whatever fails",
        )

    # Calls to workers.

    def _feed(self) -> bool:
        fed = False
        ready = sorted(self._workers.values(), key=lambda worker: len(worker.given))
        for worker in ready:
            if not worker.given:
                # Where its calls take long it is now or never: no job that waits is passed over.
                # Elsewhere each look is a question to the cluster.
                long = self._kind.cluster.tasks_here and worker.takes_long(_LONG)
                now = long and worker.room(1) and self._is_more()
                self._look_around(0.0 if now else _FRESH)
            if self.crowded:
                break  # who is through with its calls gives way
            while (batch := self._batch(worker)) is not None:
                self.journal.given(*batch, worker=worker.job_id)
                try:
                    worker.give(batch)
                except OSError as error:  # its folder is gone
                    worker.spoilt = str(error)
                fed = True
        if not self._waiting:
            self._pull()
        return fed

    def _share(self) -> None:
        """Take calls back that wait behind a long one, where another worker could run them."""
        idle = any(worker.ready and not worker.given for worker in self._all())
        if self._waiting or not (idle or self.workers < self._kind.most):
            return
        for worker in self._all():
            for noted in worker.held_up():
                if noted.call.index not in self._moving:
                    self._moving.add(noted.call.index)
                    worker.withdraw(noted, moved=True)

    def _all(self) -> list[PoolWorker]:
        return [worker for worker in self._workers.values() if not worker.ending]

    def _batch(self, worker: PoolWorker) -> list[Noted] | None:
        if not worker.room(1) or not self._is_more():
            return None
        size = self._waiting[0].call.batch
        if not (room := worker.room(size)):
            return None
        batch = [self._waiting.popleft()]
        while len(batch) < room and self._is_more():
            if self._waiting[0].call.batch != size:
                break
            batch.append(self._waiting.popleft())
        return batch

    def _is_more(self) -> bool:
        return bool(self._waiting) or self._pull()

    def _pull(self) -> bool:
        """Ask the source for a call; return whether there is one."""
        while not self._done:
            given = self._source.next()
            if not isinstance(given, Call):
                self._done = given is Nothing.DONE
                self._last_ones = given is not Nothing.WAIT
                return False
            self._last_ones = False
            noted = self.journal.call(given)
            if given.index not in self._unwanted:
                self._waiting.append(noted)
                return True
            self._end(noted, End(outcome="withdrawn", attempts=0))
        return False

    # Workers: more, fewer.

    def _may_grow(self) -> bool:
        """Return whether one worker more is to be asked for now."""
        if not self._waiting or self.workers >= self._kind.most:
            return False
        gpus = self._kind.spec.gpus
        beginning = sum(not (w.ready or w.ending) for w in self._workers.values())
        if beginning >= _AT_ONCE or time.monotonic() < self._next_start:
            return False
        # Elsewhere what is free is known a moment late: no more than one ever waits in a queue.
        if not self._kind.cluster.tasks_here and any(one.waits for one in self._all()):
            return False
        # The first one may wait in the queue; each further one takes what is free, and has a call
        # of its own waiting: what begins may hold its GPUs already, or not yet.
        if not gpus or not self.workers:
            return True
        if not self._is_free(gpus * (beginning + 1)):
            return False
        return all(len(self._waiting) > beginning or self._pull() for _ in range(beginning + 1))

    def _grow(self) -> None:
        if not self._may_grow():
            return
        try:
            job_id = self._kind.cluster.submit(
                self._kind.spec, self._kind.bundle, workdir=self._kind.workdir
            )
        except SubmissionError as error:
            if self.workers:
                self._next_start = time.monotonic() + _BETWEEN_STARTS
                return
            raise GivenUpError(
                f"no worker can be submitted: {error.what}",
                where=error.where,
                fix=f"{error.fix}; then: submarine job retry {self._kind.spec.name}",
            ) from error
        except SubmarineError as error:  # the cluster does not answer now
            self.say(f"no worker can be submitted now: {error.what}")
            self._next_start = time.monotonic() + _BETWEEN_STARTS
            return
        self.journal.worker(job_id)
        self._add(job_id)

    def _add(self, job_id: str) -> PoolWorker:
        tasks = self._kind.spec.tasks
        worker: PoolWorker
        if len(tasks) > 1:
            worker = Gang(self._kind.cluster, self.folder.home, job_id, tasks)
        else:
            worker = PoolWorker(self._kind.cluster, self.folder.home, job_id, tasks[0])
        self._workers[job_id] = worker
        return worker

    def _is_free(self, gpus: int) -> bool:
        return not self._wanted and self._count_free() >= gpus

    def _count_free(self) -> int:
        if self._free is None:
            try:
                room = self._kind.cluster.gpu_room(self._kind.spec)
            except SubmarineError:
                room = GpuRoom(0)
            queued = sum(worker.waits for worker in self._workers.values())
            ours = queued * (self._kind.spec.gpus or 0)
            self._free, self._wanted = room.free, max(self._wanted, room.wanted - ours)
            # After it: what was released in between would be counted twice, and another job wait.
            for worker in self._workers.values():
                if worker.ending:
                    with suppress(SubmarineError):
                        worker.poll(anew=True)
        return self._free

    def _look_around(self, age: float) -> None:
        """See who else waits for GPUs, and how many are free, where that is not known for long."""
        if not self._kind.spec.gpus or time.monotonic() - self._looked_around < age:
            return
        self._looked_around = time.monotonic()
        self._free = None
        self._wanted = sum(
            job.gpus
            for job in islice(iter_jobs(self.folder.home, children=True), _LOOKED_AT)
            if job.state is JobState.QUEUED
            and job.parent != self._kind.spec.parent
            and job.cluster == self._kind.cluster.name
        )
        self._count_free()

    def _shrink(self) -> None:
        """End what has nothing to do; give GPUs to other jobs that wait, as many as they lack.

        All others are told that they may stay.
        """
        unneeded = self._are_last_ones()
        for worker in list(self._workers.values()):
            if worker.ending:
                continue
            if not worker.given and (unneeded or (worker.ready and worker.idle >= _IDLE)):
                self._end_worker(worker)
                continue
            if self.crowded and not worker.given:
                if worker.ready:
                    self.say(f"another job waits for GPUs: worker {worker.job_id} gives way")
                    worker.end()
                elif worker.state is JobState.QUEUED:
                    worker.cancel("another job waits for GPUs")
            elif worker.ready:
                with suppress(OSError):
                    worker.stay(_STAY)

    def _are_last_ones(self) -> bool:
        """Return whether all calls that there will be have begun, each on its own worker."""
        return (
            self._last_ones
            and not self._waiting
            and all(noted.began for noted in self.journal.record.open.values())
            and all(len(worker.given) <= 1 for worker in self._workers.values())
        )

    def _end_workers(self) -> None:
        for worker in self._workers.values():
            self._end_worker(worker)
        until = time.monotonic() + _ENDING_TAKES
        left = list(self._workers.values())
        while left and time.monotonic() < until:
            left = [worker for worker in left if not _is_over(worker)]
            time.sleep(_LATEST)
        for worker in left:
            worker.cancel("its pool has ended")

    @staticmethod
    def _end_worker(worker: PoolWorker) -> None:
        if worker.ready:
            with suppress(OSError):
                worker.end()
        else:
            worker.cancel("there is nothing left to do")

    def _cancel(self, reason: str) -> None:
        for worker in self._workers.values():
            worker.cancel(reason)

    # Going on where another process was ended.

    def _take_over(self) -> None:
        record = self.journal.record
        # Another job is somebody's word that it may go better now.
        if record.over and record.over_by == self._kind.spec.parent:
            raise GivenUpError(record.over)
        goes_on = getattr(self._source, "goes_on", False)
        if record.over is not None and not record.open and not goes_on:
            self._done = True
        parent = self._kind.spec.parent
        asked = [*record.workers, *(children_of(self.folder.home, parent) if parent else ())]
        for job_id in dict.fromkeys(asked):
            worker = self._add(job_id)
            worker.given = {
                (noted.call.index, noted.tries): noted
                for noted in record.open.values()
                if noted.given == job_id
            }
            if not worker.given and _is_over(worker):  # it has nothing to tell any more
                self._workers.pop(job_id).close()
        for index, line in record.ended.items():
            end = self.journal.end(line)
            self._count(end)
            self._source.ended(record.calls[index], end)
        self._waiting.extend(
            noted for noted in record.open.values() if noted.given not in self._workers
        )
        for noted in self._waiting:
            noted.take_back()
        self._give_again()
        for noted in [noted for noted in self._waiting if noted.cut]:
            self._waiting.remove(noted)
            told = {"reason": f"its arguments are gone: {self.folder.arguments} is cut off"}
            self._end(noted, End(outcome="lost", told=told, attempts=noted.tries))
        if record.calls:
            done = len(record.ended)
            self.say(f"going on: {done} of {len(record.calls)} calls have ended")

    def _give_again(self) -> None:
        """Tell workers of calls that the journal gives them and that they never heard of."""
        for worker in list(self._workers.values()):
            heard = worker.received()
            unheard = [noted for key, noted in worker.given.items() if key not in heard]
            for noted in unheard:
                del worker.given[noted.call.index, noted.tries]
                self._again(noted)


def called(call: Call) -> str:
    """Return what people call a call."""
    return f"call {call.index}" + (f" ({call.label})" if call.label else "")


def words(end: End) -> str:
    """Return in words what `end` says of a call."""
    if end.succeeded:
        return f"done in {end.seconds:.2g} s"
    if end.outcome == "error":
        error = end.told.get("error")
        told = error if isinstance(error, dict) else {}
        said = str(told.get("message", "")).partition("\n")[0]
        return clean(f"raised {told.get('type', 'an error')}: {said}"[:300])
    if end.outcome == "died":
        code = end.told.get("code")
        how = f"by signal {-code}" if isinstance(code, int) and code < 0 else f"with code {code}"
        return f"ended its process {how}"
    if end.outcome == "lost":
        why = end.told.get("reason") or end.told.get("state", "")
        return f"was lost with its worker {end.worker}: {why}"
    return {"withdrawn": "was cancelled", "stop": "was stopped", "pause": "was paused"}.get(
        end.outcome, end.outcome
    )


def told_of(end: End, folder: PoolFolder) -> str:
    """Return in words what became of a call, and of an error at which cell and line.

    Parameters
    ----------
    end
        How it ended.
    folder
        Its pool's, where the script of the workers is that an error's frames stand in.
    """
    from submarine_engine.pool.results import Loader  # noqa: PLC0415 - only where something failed

    if end.outcome != "error":
        return words(end)
    frames = getattr(Loader(folder).error(end, "call"), "frames", ())
    return words(end) + (f" ({frames[-1]})" if frames else "")


_OUTCOMES = {"value", "text", "error", "died", "withdrawn", "moved", "stop", "pause"}
_LONGEST_CALL = 1e9


def _end_of(head: dict[str, Any], payload: bytes, noted: Noted, worker: PoolWorker) -> End:
    """Return what a worker tells of a call, which is the word of a stranger."""
    outcome = head.get("outcome")
    own = {"kind", "index", "try", "size", "outcome", "seconds", "mark"}
    told = {key: value for key, value in head.items() if key not in own}
    if not isinstance(outcome, str) or outcome not in _OUTCOMES:
        outcome, told = "died", {"code": None}
    return End(
        outcome=outcome,
        payload=payload,
        seconds=_number(head.get("seconds")),
        told=told,
        worker=worker.job_id,
        host=worker.host,
        attempts=noted.tries,
    )


def _number(value: object) -> float:
    # Beyond that it is no time that anything took, and an int may be too large for a float.
    told = isinstance(value, (int, float)) and 0 <= value < _LONGEST_CALL
    return float(value) if told else 0.0  # type: ignore[arg-type] # a number


def _is_over(worker: PoolWorker) -> bool:
    try:
        return worker.poll()
    except SubmarineError:
        return True


def with_parent(spec: JobSpec, parent: str | None) -> JobSpec:
    """Return the spec of workers whose pool the job `parent` runs; None outside a job."""
    return replace(spec, parent=parent, notebook=None, asks=False)
