"""A worker of several tasks: each call runs in all of them, as the ranks of one training.

All ranks are told of a call, and of where the others are: each of them offers free ports for the
next one, so that no rank of it can meet what a former call has left. The next call is given once
the last rank has ended the one before. What rank 0 reports and returns counts; the first rank that
fails by itself ends the others.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from submarine_runtime.call_frames import CALLS, Reader, SpoiltError, frame

from submarine_engine.lifecycle import is_echo
from submarine_engine.pool.workers import PoolWorker

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from submarine_engine.clusters.base import Cluster
    from submarine_engine.pool.journal import Noted

Key = tuple[int, int]
Frame = tuple[dict[str, Any], bytes]

_GRACE = 1.0
"""Seconds that ranks have for their own ends after the first one that failed, or was stopped."""
_PAUSES = 30.0
"""The same where the call was told to pause: rank 0 may still write the checkpoint of all.

And where those that failed all tell of another one, which was lost: that one may tell why."""

_FAILED = ("error", "died")


class _Rank(PoolWorker):
    """One task of a gang."""

    def say(self, data: bytes) -> None:
        """Tell it something; raises OSError."""
        self._say(data)

    def received_frames(self) -> dict[Key, Frame]:
        """Return the calls that it was told of, in their order."""
        reader = Reader(str(self._folder / CALLS))
        try:
            frames = [(head, data) for head, data in reader.read() if head["kind"] == "call"]
        except (SpoiltError, OSError) as error:
            self.spoilt = str(error)
            return {}
        finally:
            reader.close()
        return {(head["index"], head["try"]): (head, data) for head, data in frames}


class Gang(PoolWorker):
    """A job of several tasks that takes calls.

    Parameters
    ----------
    cluster
        Where it runs.
    home
        Where the jobs are kept.
    job_id
        The job.
    tasks
        Its tasks, in the order of their ranks.
    """

    def __init__(self, cluster: Cluster, home: Path, job_id: str, tasks: Sequence[str]) -> None:
        super().__init__(cluster, home, job_id, tasks[0])
        self._tasks = tasks
        self._ranks = [_Rank(cluster, home, job_id, task) for task in tasks]
        self._used: list[object] = [None] * len(tasks)
        self._ends: dict[Key, dict[int, Frame]] = {}
        self._since: dict[Key, float] = {}
        self._told: set[Key] = set()

    def read(self) -> list[Frame]:
        """Return what rank 0 has told since the last time, and of a call's end once all have."""
        found: list[Frame] = []
        for number, rank in enumerate(self._ranks):
            for head, payload in rank.read():
                self._heard = time.monotonic()
                if head["kind"] == "ended":
                    self._ended(number, head, payload, found)
                elif number == 0:
                    found.append((head, payload))
            self.spoilt = self.spoilt or rank.spoilt
        first = self._ranks[0]
        if first.ready and not self.ready:
            self.ready, self.host, self._heard = True, first.host, time.monotonic()
        self._end_others()
        return found

    def _ended(self, number: int, head: dict[str, Any], payload: bytes, found: list[Frame]) -> None:
        key = head.get("index"), head.get("try")
        if not type(key[0]) is type(key[1]) is int:
            return  # a stranger's word
        ends = self._ends.setdefault(key, {})  # type: ignore[arg-type] # both are numbers
        ends[number] = head, payload
        if len(ends) == len(self._ranks):
            found.append(self._result(ends))
            for one in (self._ends, self._since):
                one.pop(key, None)  # type: ignore[arg-type] # likewise
            self._told.discard(key)

    def _end_others(self) -> None:
        """End the ranks of a call that one of them has failed, or rank 0 has left."""
        now = time.monotonic()
        for key in self.given:
            ends = self._ends.get(key, {})
            if all(head.get("outcome") in ("value", "text") for head, _ in ends.values()):
                continue
            failed = [head for head, _ in ends.values() if head.get("outcome") in _FAILED]
            # Where all tell of a rank that was lost, that one has still to tell why.
            echoes = bool(failed) and all(map(_is_echo, failed))
            paused = key in self._told and 0 not in ends
            waits = _PAUSES if paused or echoes else _GRACE
            if now - self._since.setdefault(key, now) >= waits:
                self._since[key] = now
                left = [one for one in range(len(self._ranks)) if one not in ends]
                self._withdraw(key, left)

    def _withdraw(self, key: Key, ranks: Sequence[int]) -> None:
        about = {"index": key[0], "try": key[1], "running": True, "moved": False}
        for number in ranks:
            self._ranks[number].say(frame({"kind": "withdraw", **about}))

    def _result(self, ends: dict[int, Frame]) -> Frame:
        """Return what a call came to, of what each of its ranks did, in the order of their ends."""
        outcomes = {number: str(head.get("outcome")) for number, (head, _) in ends.items()}
        if outcomes[0] in ("stop", "pause"):
            return ends[0]
        failed = [number for number, how in outcomes.items() if how in _FAILED]
        own = [number for number in failed if not _is_echo(ends[number][0])]
        withdrawn = [number for number, how in outcomes.items() if how == "withdrawn"]
        number = (own or failed or withdrawn or [0])[0]
        head, payload = ends[number]
        return {**head, "task": self._tasks[number]}, payload

    def received(self) -> set[Key]:
        """Return the calls that it was told of; those that only some ranks were, all are now."""
        each = [rank.received_frames() for rank in self._ranks]
        calls = {key: call for told in each for key, call in told.items()}
        for number, (rank, told) in enumerate(zip(self._ranks, each, strict=True)):
            self.spoilt = self.spoilt or rank.spoilt
            for key in calls.keys() - told.keys():
                if key in self.given:
                    rank.say(frame(*calls[key]))
            if calls:
                head, _ = list(calls.values())[-1]
                self._used[number] = head["ports"][self._tasks[number]]
        return set(calls)

    def room(self, batch: int) -> int:
        """Return how many more calls to give it now: one, once no rank has another."""
        if self.given or not super().room(batch):
            return 0
        offers = [rank.ports for rank in self._ranks]
        return int(all(new and new != old for new, old in zip(offers, self._used, strict=True)))

    def give(self, noted: list[Noted]) -> None:
        """Tell it of a call, which the journal says is given to it; raises OSError."""
        (one,) = noted
        self.given[one.call.index, one.tries] = one
        ports = {task: rank.ports for task, rank in zip(self._tasks, self._ranks, strict=True)}
        head = {"kind": "call", "index": one.call.index, "try": one.tries, "ports": ports}
        self._used = [rank.ports for rank in self._ranks]
        data = frame(head, one.call.arguments)
        for rank in self._ranks:
            rank.say(data)

    def held_up(self) -> list[Noted]:
        """Return nothing: no call waits in a gang."""
        return []

    def withdraw(self, noted: Noted, *, running: bool = False, moved: bool = False) -> None:  # noqa: ARG002 - none is
        """Ask it to end a call where it runs; one that was given begins at once.

        Parameters
        ----------
        running
            Whether to end it where it runs.
        moved
            Whether another worker is to run it.
        """
        if running:
            self._withdraw((noted.call.index, noted.tries), range(len(self._ranks)))

    def tell(self, noted: Noted, word: str) -> None:
        """Answer a report of a call: rank 0 alone has made it."""
        self._told.add((noted.call.index, noted.tries))
        self._ranks[0].tell(noted, word)

    def stay(self, every: float) -> None:
        """Tell all ranks now and then that there is somebody."""
        for rank in self._ranks:
            rank.stay(every)

    def end(self) -> None:
        """Let it end once it has done what it was given."""
        self.ending = True
        for rank in self._ranks:
            rank.end()

    def close(self) -> None:
        """Close its files."""
        for rank in self._ranks:
            rank.close()


def _is_echo(head: dict[str, Any]) -> bool:
    """Return whether a rank's error tells of another one that was lost."""
    error = head.get("error")
    if head.get("outcome") != "error" or not isinstance(error, dict):
        return False
    types = [str(error.get("type")), str(error.get("builtin"))]
    return is_echo(types, str(error.get("message", "")))
