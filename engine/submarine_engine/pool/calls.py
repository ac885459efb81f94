"""The vocabulary of a pool: calls, what comes of them, and where they come from."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Call:
    """A call of the pool's function.

    Parameters
    ----------
    index
        Which one it is: each has its own, from 0.
    arguments
        Pickled: ``(args, keywords)``.
    label
        What people call it, in logs.
    batch
        With how many others like it it may go to a worker at once, to run in one process.
    """

    index: int
    arguments: bytes
    label: str = ""
    batch: int = 1


class Nothing(Enum):
    """What a source gives where it has no call."""

    WAIT = "wait"
    """None now; there may be one later."""
    LAST = "last"
    """None now; nor later, unless one of those that run comes back. No worker is kept for it."""
    DONE = "done"
    """There will be no more."""


WAIT = Nothing.WAIT
LAST = Nothing.LAST
DONE = Nothing.DONE


class Answer(str, Enum):
    """What a report is answered with; the call hears it at its next one."""

    GO_ON = ""
    STOP = "stop"
    PAUSE = "pause"


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """What became of a call, for good.

    Parameters
    ----------
    outcome
        ``value``; ``text`` where the value cannot be pickled; ``error`` that it raised; ``died``
        where its process did; ``lost`` with its worker; ``withdrawn``; ``stop`` or ``pause`` as a
        report was answered.
    payload
        The value or the exception, pickled; the text.
    seconds
        How long the call ran.
    told
        What else the worker tells: the ``error`` as JSON, the ``type`` of the value, the exit
        ``code`` of what died, how long the logs were.
    worker, host
        The job that ran it, and where.
    attempts
        How often it was given to a worker: the number of its last try, whether that one began or
        not; 0 where it was taken back before any.
    """

    outcome: str
    payload: bytes = b""
    seconds: float = 0.0
    told: Mapping[str, Any] = field(default_factory=dict)
    worker: str = ""
    host: str = ""
    attempts: int = 1

    @property
    def succeeded(self) -> bool:
        """Whether there is a value."""
        return self.outcome in ("value", "text")


class Runner(Protocol):
    """What a source may ask of the pool that runs its calls."""

    @property
    def known(self) -> frozenset[int]:
        """The calls, by index, that a controller before this one has taken from the source."""

    @property
    def workers(self) -> int:
        """How many workers there are, those that are still to begin among them."""

    @property
    def holding(self) -> int:
        """How many workers hold what they were granted, those that are ending among them."""

    @property
    def crowded(self) -> bool:
        """Whether other jobs wait while the pool has more workers than its least."""

    def withdraw(self, index: int, *, running: bool = False) -> None:
        """Take a call back that has not begun, or end it where it runs.

        Parameters
        ----------
        index
            The call's.
        running
            Whether to end it where it runs; else one that runs comes to its own end.
        """

    def say(self, line: str) -> object:
        """Tell in the log what happens, in the words of `line`."""


class Source(Protocol):
    """Where a pool's calls come from, and who hears what becomes of them.

    All of it is called by the pool's one thread, and must not block.
    """

    def begin(self, pool: Runner) -> None:
        """Hear that `pool` runs its calls, before all else."""

    def poll(self) -> None:
        """Do what there is to do besides, such as to withdraw calls; at each turn of the pool."""

    def next(self) -> Call | Nothing:
        """Return the next call; else why there is none."""

    def began(self, call: Call, worker: str) -> None:
        """Hear that a call runs, on the worker of that job; once for each try."""

    def reported(self, call: Call, report: Mapping[str, Any]) -> Answer:
        """Hear what a running call reports, and answer.

        Parameters
        ----------
        call
            The call that runs.
        report
            What it reports: an object of JSON that the job's code has written, so anything may be
            in it.
        """

    def ended(self, call: Call, end: End) -> None:
        """Hear by `end` what became of a call: once for each that has ended.

        Where a controller takes over, its source hears first of all what is on record.
        """
