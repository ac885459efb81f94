"""Lets the ranks of a job keep checkpoints of the same steps, through files in their folder.

`checkpoints` uses it in jobs of several ranks. Rank 0 decides, a little ahead: from which
checkpoint all begin, after which step the next one is written, whether all end there. It writes
that into ``plan``, a line at a time. Each other rank writes into a file of its own that it is
there, and which part of a checkpoint it has written. No rank waits for another one while the
training goes on.
"""

from __future__ import annotations

import os
import time

from submarine_runtime import lean
from submarine_runtime.lean import suppress

TYPE_CHECKING = False  # as type checkers have it; the module takes long to import
if TYPE_CHECKING:
    from typing import Any

    from submarine_runtime.checkpoint_files import Folder

PATIENCE = 120.0
"""Seconds that a rank is waited for; without it there is no checkpoint of that step."""

_FOLDER = ".ranks-"
_PLAN = "plan"
_ASKED = "asked"
_FAILED = "failed"
_LONG, _SHORT = 10.0, 2.0  # seconds between an announcement and its step, at most; where all end
_COST = 0.05  # part of the time that looks may take


class Ranks:
    """The ranks of a job, as one of them sees them.

    Parameters
    ----------
    storage
        Where the checkpoints lie.
    rank
        Which one this is.
    count
        How many there are.
    key
        What these ranks have in common, and no other attempt has: ``<job>-<attempt>``.
    """

    def __init__(self, storage: Folder, rank: int, count: int, key: str) -> None:
        self.rank = rank
        self.count = count
        self.key = key
        self.calls: dict[int, bool] = {}
        self.begin: dict[str, Any] | None = None
        self.end: bool | None = None
        self.over = -1
        self.without: set[int] = set()
        self.is_asked = False
        self._asked = False
        self._storage = storage
        self._folder = f"{_FOLDER}{key}"
        self._heard: dict[str, int] = {}
        self._parts: dict[int, dict[int, list[int] | None]] = {}
        self._looked = self._costs = 0.0
        self._stepped = time.monotonic()
        self._shortest, self._mean = float("inf"), 0.0

    def enter(self) -> None:
        """Say that this rank is there; the first removes what other attempts have left.

        Raises
        ------
        PermissionError
            Another user has made the folder in which the ranks agree.
        OSError
            It cannot be written.
        """
        if self.rank == 0:
            job = self.key.partition(".")[0]
            for name in self._storage.names():
                if name.startswith(f"{_FOLDER}{job}.") and name != self._folder:
                    self._storage.remove(name)
        self._storage.make(self._folder)
        self._storage.expect_own(self._folder)
        self._storage.tell(f"{self._folder}/{self.rank}", "here")

    # What rank 0 says.

    def say(self, *, must: bool = False, **words: object) -> bool:
        """Add to the plan; tell whether that was done.

        Parameters
        ----------
        must
            Whether it is an error where that was not done.
        **words
            What is said, a line of JSON: ``begin``, ``at`` with ``stop``, ``end`` or ``over``.

        Raises
        ------
        OSError
            It must be, and was not.
        """
        try:
            self._storage.tell(f"{self._folder}/{_PLAN}", lean.dumps(words))
        except OSError:  # a full disk is no reason to end a training
            if must:
                raise
            return False
        return True

    def call(self, done: int, total: int | None, *, stop: bool) -> None:
        """Announce the step after which the next checkpoint is written.

        Parameters
        ----------
        done
            How many steps this rank has made.
        total
            How many there are, where that is known.
        stop
            Whether all end there.
        """
        # Each rank looks before it comes there: in time, also if steps are as short as ever.
        short = int(2 * self._storage.look / max(self._shortest, 1e-6))
        ahead = 1 + min(short, int((_SHORT if stop else _LONG) / max(self._mean, 1e-6)))
        at = done + ahead if total is None else min(done + ahead, total)
        if at > done and self.say(at=at, stop=stop):
            self.calls[at] = stop

    # What all hear.

    def step(self, done: int, *, now: bool) -> None:
        """Say that a step is done; look at what the others say, if it is time or `now`."""
        clock = time.monotonic()
        took, self._stepped = clock - self._stepped, clock
        self._shortest = min(self._shortest, took)
        self._mean = took if not self._mean else 0.9 * self._mean + 0.1 * took
        self.calls = {at: stop for at, stop in self.calls.items() if at >= done}
        if now or clock - self._looked >= min(self._storage.look, self._costs / _COST):
            self.read_plan()
            self._costs = time.monotonic() - clock

    def read_plan(self) -> None:
        """Read what is new."""
        self._looked = time.monotonic()
        with suppress(OSError):  # the storage is away for a while
            if self.rank == 0:
                self.is_asked = self.is_asked or bool(self._new(_ASKED))
            else:
                for line in self._new(_PLAN):
                    with suppress(ValueError):  # a line that a full disk has cut
                        self._take(lean.loads(line))

    def _take(self, said: dict[str, Any]) -> None:
        if "begin" in said:
            self.begin = said
        elif "at" in said:
            self.calls[said["at"]] = said["stop"]
        elif "end" in said:
            self.end = said["end"]
        else:
            self.over = said["over"]

    def _new(self, name: str) -> list[str]:
        since = self._heard.get(name, 0)
        text = self._storage.hear(f"{self._folder}/{name}", since)
        self._heard[name] = since + len(text)
        return text.splitlines()

    def wait(self, what: str) -> bool:
        """Wait until the plan says something; tell whether it came.

        Parameters
        ----------
        what
            Of this object's: ``begin``, ``end``.
        """
        return self._until(lambda: getattr(self, what) is not None)

    def wait_over(self, step: int) -> bool:
        """Wait until rank 0 is through with the checkpoint after `step`."""
        return self._until(lambda: self.over >= step)

    def _until(self, condition: Any) -> bool:  # noqa: ANN401 - a function
        limit = time.monotonic() + PATIENCE
        while True:
            self.read_plan()
            if condition():
                return True
            if time.monotonic() > limit and not self._is_first_there():
                return False
            time.sleep(self._storage.wait)

    def _is_first_there(self) -> bool:
        """Tell whether rank 0 has begun, and is still at it: it may read a large state."""
        return self.begin is None and bool(self._storage.hear(f"{self._folder}/0"))

    def ask(self) -> None:
        """Say that this rank was asked to end."""
        if not self._asked:
            with suppress(OSError):
                self._storage.tell(f"{self._folder}/{_ASKED}", str(self.rank))
                self._asked = True

    # The parts of a checkpoint.

    def add(self, step: int, written: tuple[int, int] | None) -> None:
        """Say that this rank's part is written, its size and sum; or that it cannot be.

        Parameters
        ----------
        step
            The checkpoint's: after how many steps it is.
        written
            How many bytes the part has, and their CRC-32; None where it cannot be written.
        """
        words = " ".join(map(str, written)) if written else _FAILED
        self._storage.tell(f"{self._folder}/{self.rank}", f"{step} {words}")

    def parts(self, step: int) -> dict[int, list[int] | None]:
        """Return the parts so far by rank, None for one that could not be written.

        Parameters
        ----------
        step
            The checkpoint's; parts of earlier ones are forgotten.
        """
        found = self._parts.setdefault(step, {})
        with suppress(OSError):
            for rank in range(1, self.count):
                if rank not in found:
                    for line in self._new(str(rank)):
                        self._take_part(rank, line)
        self._parts = {at: parts for at, parts in self._parts.items() if at >= step}
        return found

    def _take_part(self, rank: int, line: str) -> None:
        step, _, words = line.partition(" ")
        with suppress(ValueError):  # what is no such line tells of no part
            numbers = None
            if words != _FAILED:
                size, total = map(int, words.split())
                numbers = [size, total]
            self._parts.setdefault(int(step), {})[rank] = numbers

    def absent(self) -> set[int]:
        """Return the ranks that have begun no loop."""
        return {rank for rank in range(1, self.count) if not self._heard.get(str(rank))}


def of_this_process(storage: Folder) -> Ranks | None:
    """Return the ranks of this process's job; None where it is alone, or none of them.

    Parameters
    ----------
    storage
        Where their checkpoints lie, and the files by which they agree.
    """
    try:
        rank, count = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    except (KeyError, ValueError):
        return None
    if not 0 <= rank < count or count == 1:
        return None
    from submarine_runtime.exchange import place  # noqa: PLC0415 - of jobs of several ranks

    job = os.environ.get("SUBMARINE_JOB_ID", "none")
    with suppress(OSError, ValueError, KeyError):
        attempt = place(os.environ.get("SUBMARINE_TASK_DIR")).attempt
        restarts = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        call = os.environ.get("SUBMARINE_CALL", "0")  # of a pool, which runs one after another
        return Ranks(storage, rank, count, f"{job}.{attempt}.{restarts}.{call}")
    return None
