"""Calls that a program gives: written to the pool's folder, and read there by the controller.

A map of what is there already is whole before anything is asked for. A generator is asked for more
as calls end, and an `Executor` writes what is submitted, as long as the program lives: it holds a
lock meanwhile. Once nobody holds it, nothing more will come.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from submarine_runtime.call_frames import Reader, SpoiltError, append, cut_torn, frame

from submarine_engine.clusters import locks
from submarine_engine.errors import SubmissionError
from submarine_engine.job import JobSpec
from submarine_engine.map_summary import FAILED, CallsWriter, task_folder
from submarine_engine.pool.calls import DONE, WAIT, Answer, Call, End, Nothing
from submarine_engine.pool.controller import tell_progress
from submarine_engine.pool.pool import GivenUpError, called, told_of, words

if TYPE_CHECKING:
    from collections.abc import Mapping

    from submarine_engine.pool.calls import Runner
    from submarine_engine.pool.folder import PoolFolder

_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC


class Giver:
    """Writes calls for a pool, and holds its lock: more may come as long as it does.

    Parameters
    ----------
    folder
        The pool's.

    Raises
    ------
    SubmissionError
        Its folder cannot be written.
    """

    def __init__(self, folder: PoolFolder) -> None:
        try:
            # One giver at a time; the one before may be about to drop it.
            self._lock = locks.take(folder.giver, wait=1.0)
            cut_torn(str(folder.inputs))
            self._inputs = os.open(folder.inputs, _FLAGS, 0o600)
        except OSError as error:
            raise _unwritten(folder, error) from error
        self._folder = folder
        self._closed = False
        self._masker = folder.masker

    def give(self, call: Call) -> None:
        """Give a call.

        Raises
        ------
        SubmissionError
            The disk is full; the call is not given then.
        """
        label = self._masker.text(call.label) if self._masker else call.label
        about = {"index": call.index, "label": label, "batch": call.batch}
        try:
            append(self._inputs, frame({"kind": "call", **about}, call.arguments))
        except OSError as error:
            raise _unwritten(self._folder, error) from error

    def withdraw(self, index: int, *, running: bool = False) -> None:
        """Take a call back, also once there are no more to give.

        Parameters
        ----------
        index
            The call's.
        running
            Whether to end it where it runs.

        Raises
        ------
        SubmissionError
            The disk is full.
        """
        told = frame({"kind": "withdraw", "index": index, "running": running})
        try:
            # Opened each time: `close` may have come before.
            withdrawn = os.open(self._folder.withdrawn, _FLAGS, 0o600)
            try:
                append(withdrawn, told)
            finally:
                os.close(withdrawn)
        except OSError as error:
            raise _unwritten(self._folder, error) from error

    def close(self) -> None:
        """Say that there will be no more."""
        if not self._closed:
            self._closed = True
            with suppress(OSError):  # that the lock is free says it, too
                append(self._inputs, frame({"kind": "done"}))
            os.close(self._inputs)
            if self._lock is not None:
                locks.drop(self._lock)


def _unwritten(folder: PoolFolder, error: OSError) -> SubmissionError:
    return SubmissionError(
        f"the pool's folder cannot be written: {error.strerror or error}",
        where=str(folder.root),
        fix="make room there",
    )


class Inputs:
    """The calls of a `Giver`, as a pool's source.

    Parameters
    ----------
    folder
        The pool's.
    """

    def __init__(self, folder: PoolFolder) -> None:
        self._folder = folder
        self._reader = Reader(str(folder.inputs))
        self._withdrawn = Reader(str(folder.withdrawn))
        self._frames: list[tuple[dict[str, Any], bytes]] = []
        self._done = False
        self._pool: Runner
        self._known: frozenset[int] = frozenset()
        self.ends = 0
        self.failed = 0
        self.given = 0
        self.total = 0
        self._gpus = 0
        self._summary: CallsWriter
        self._told: tuple[int, ...] = ()

    def begin(self, pool: Runner) -> None:
        """Hear that `pool` runs the calls, and begin what the job's card shows of them."""
        self._pool = pool
        self._known = pool.known
        self._gpus = JobSpec.from_json(self._folder.read()["spec"]).gpus or 0
        self._summary = CallsWriter(task_folder(), self._folder.root.name, self._gpus)

    def poll(self) -> None:
        """Take back what is not wanted any more."""
        for head, _ in self._withdrawn.read():
            self._pool.withdraw(head["index"], running=head["running"])
        self._tell()
        self._summarize()

    def next(self) -> Call | Nothing:
        """Return the next call that was given."""
        while not self._done:
            if not self._frames and not self._read():
                return WAIT
            head, payload = self._frames.pop(0)
            if head["kind"] == "done":
                self._done = True
            else:
                self.given += 1
                if head["index"] not in self._known:
                    return Call(head["index"], payload, head["label"], head["batch"])
        return DONE

    def _read(self) -> bool:
        # Whether anybody is there comes first: what was written before the end is then read.
        gone = locks.is_free(self._folder.giver)
        try:
            for taken in self._reader.read():
                self._frames.append(taken)
                if len(self._frames) >= _AT_ONCE:
                    break
        except SpoiltError as error:
            raise GivenUpError(
                f"the file of the inputs is damaged: {error}",
                where=str(self._folder.inputs),
                fix="restore it, or run the calls again",
            ) from error
        if not self._frames and gone:
            self._done = True
            self._pool.say("whoever gave the calls is gone: there will be no more of them")
            return False
        return bool(self._frames)

    def began(self, call: Call, worker: str) -> None:  # noqa: ARG002 - the pool's record has it
        """Hear that a call runs; its `worker` is in the pool's record."""
        self._summary.began(call)

    def result(self) -> object:
        """Show how it all ended; there is no value."""
        self._summarize(last=True)
        return None

    def _summarize(self, *, last: bool = False) -> None:
        """Keep what the job's card shows up to date."""
        total = max(self.given, self.ends, self.total)
        self._summary.update(total, 0 if last else self._pool.holding, now=last)

    def reported(self, call: Call, report: Mapping[str, Any]) -> Answer:  # noqa: ARG002 - of others
        """Let the `call` go on, whatever its `report` says: nobody has asked."""
        return Answer.GO_ON

    def ended(self, call: Call, end: End) -> None:
        """Tell by `end` what became of a call, in the log and on the card."""
        self.ends += 1
        self.failed += not end.succeeded
        # Where each error stood is looked up for those that the card shows.
        few = not end.succeeded and self.failed <= FAILED
        self._summary.ended(call, end, told_of(end, self._folder) if few else words(end))
        on = f" on {end.host}" if end.host else ""
        self._pool.say(f"{called(call)} {words(end)}{on}")
        self._tell()

    def _tell(self) -> None:
        """Tell on the card how far the calls are, and what runs them, where that has changed."""
        given = max(self.given, self.ends, self.total)
        workers = self._pool.holding if self.ends < given else 0  # they end with the last call
        told = (self.ends, given, self.failed, workers, workers * self._gpus)
        if given and told != self._told:
            self._told = told
            tell_progress(*told)


_AT_ONCE = 64


def label_of(value: object) -> str:
    """Return a short text for a call by its argument `value`; empty where that has none."""
    if not isinstance(value, (str, int, float, os.PathLike)):
        return ""
    text = os.fspath(value) if isinstance(value, os.PathLike) else str(value)
    text = json.dumps(str(text), ensure_ascii=False)[1:-1]
    return text if len(text) <= _LONGEST_LABEL else f"…{text[1 - _LONGEST_LABEL :]}"


_LONGEST_LABEL = 60
