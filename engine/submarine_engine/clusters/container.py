"""One task's container elsewhere: its files are copied, as its node and the cluster show them."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from submarine_runtime.artifacts import PACK
from submarine_runtime.container import STARTED
from submarine_runtime.eventpack import LOG
from submarine_runtime.outcome import RAISED
from submarine_runtime.post_mortem import INDEX, VALUES
from submarine_runtime.sealing import NotGenuineError, attempt_key, mark, marker

from submarine_engine.clusters.artifacts import ArtifactMirror
from submarine_engine.clusters.log_mirror import (
    EXIT,
    LIMIT,
    STREAMS,
    EventLog,
    LogMirror,
    LogsGoneError,
    LogSource,
)
from submarine_engine.clusters.saving import NOTE
from submarine_engine.clusters.store import add_warning
from submarine_engine.clusters.tasks import TaskRun, here
from submarine_engine.config import load_config
from submarine_engine.errors import ClusterError
from submarine_engine.events import (
    Event,
    Progressed,
    Started,
)
from submarine_engine.history import SPOILT, JobPaths, finite, make_private, write_aside
from submarine_engine.outcome import OUTCOME_VERSION

if TYPE_CHECKING:
    from submarine_engine.clusters.base import Allocated

_OUTCOME = "outcome.json"
_PROGRESS = "progress.json"
_PIECE = 1 << 20
_PEEKS = 3
_LARGEST = 1 << 26
_MOST_OF_OTHERS = 1 << 30
"""Bytes of a result that come home from a task that is not of rank 0: nobody may ask for them."""

_HOME = "home.pkl"
_RESULT = re.compile(r"(return|home|raised|var-\w{1,200})\.(pkl|txt)")


class Origin(Protocol):
    """What knows where a container's files are: a `Request`."""

    def source(self, container: Allocated) -> LogSource:
        """As `Request.source`.

        Parameters
        ----------
        container
            As `Request.source` has it.
        """

    def recover(self, container: Container) -> None:
        """As `Request.recover`.

        Parameters
        ----------
        container
            As `Request.recover` has it.
        """


OOM = b"oom"
"""Stands behind the status in `EXIT` where the kernel has ended a process for lack of memory."""


class Container(TaskRun):
    """A container whose files lie elsewhere.

    Parameters
    ----------
    paths, task, gpus
        As `TaskRun` has them.
    request
        Tells where the files of what the cluster gave can be read.
    """

    def __init__(
        self, paths: JobPaths, task: str, gpus: int, request: Origin | None = None
    ) -> None:
        super().__init__(paths, task, gpus)
        self._paths = paths
        self._request = request
        self._silent = False
        self._peeks = 0
        self._exit: int | None = None
        self._noted = False
        self._given_at = 0.0
        self._ahead = 0.0  # seconds that the node's clock is ahead of this one, as far as it shows
        self._progress = b""  # as it was said last
        self._source: LogSource | None = None
        self._mirror: LogMirror | None = None
        self._events: EventLog | None = None

    def give(self, found: Allocated) -> None:
        """Follow what the cluster gave, and read its files from now on.

        Parameters
        ----------
        found
            As `Request.ask` returned it.
        """
        super().give(found)
        self._given_at = found.began
        if self._request is not None:
            self.see(self._request.source(found))

    def see(self, source: LogSource) -> None:
        """Read from there from now on.

        Parameters
        ----------
        source
            Shows the container's files.
        """
        make_private(self.files.root)
        self._source = source
        self._mirror = LogMirror(self.files, source)
        self._events = EventLog(self.files)

    def poll(self, *, hurry: bool = False) -> list[Event]:
        """Copy what is new of it; return what that tells.

        Parameters
        ----------
        hurry
            Whether its first line is waited for: then its node is asked for that alone most times,
            which is one question instead of two.

        Raises
        ------
        ClusterError
            The node does not answer.
        OSError
            The job's folder cannot be written.
        """
        if self._source is None or self._mirror is None:
            return []
        if hurry and self._silent and self._peeks < _PEEKS:
            self._peeks += 1
            with suppress(LogsGoneError):
                self.spoke = self._mirror.peek("stdout") > 0
            if not self.spoke:
                return []
        self._peeks = 0
        sizes = self._source.sizes()
        self._silent = self._source.live and "stdout" in sizes and not self.spoke
        events: list[Event] = []
        begins = self.started is None and STARTED in sizes
        with suppress(LogsGoneError):
            # The first line is waited for, and read before what the task began with, as is all
            # that comes within the same moment: but not all of a flood.
            limit = _PIECE if begins else LIMIT
            self.spoke = self._mirror.step(limit, sizes=sizes) > 0 or self.spoke
            if LOG in sizes:
                self._unpack_events()
        if begins and (self.spoke or self.begins):
            events += self._begin(self._fetch_json(STARTED, sizes))
        self.begins = begins
        if self.started is not None:
            events += self._look_at_progress(sizes)
        if EXIT in sizes and not self._mirror.behind(sizes):
            self.over = True
        return events

    def bring_home(self) -> None:
        """Copy the rest of a container that is over, from wherever it still is."""
        complete = False
        with suppress(ClusterError):
            complete = self.drain()
        if not complete and self.id and self._request is not None:
            self._request.recover(self)

    def drain(self) -> bool:
        """Copy the rest of a container that is over, and what it left; whether all was there."""
        if self._source is None or self._mirror is None:
            return False
        complete = self._mirror.drain()
        self._unpack_events()
        if not complete:
            return False
        sizes = self._source.sizes()
        if self.started is None and STARTED in sizes:
            self.late = self._begin(self._fetch_json(STARTED, sizes))
        self._exit = self._read_exit(sizes)
        self.fetch_outcome(sizes)
        self.fetch_post_mortem(sizes)
        self._fetch_progress(sizes)
        self._fetch_artifacts(sizes)
        # What brings files to HDFS may have found them gone already; log aggregation has them.
        return EXIT in sizes or self._source.live or not self.gathered

    @property
    def is_blank(self) -> bool:
        """Whether its source, which would show it, has nothing of what it writes as it begins.

        Raises
        ------
        ClusterError
            The source does not answer.
        """
        source = self._source
        if self.started is not None or source is None or (source.complete and not source.live):
            return False  # it is seen after the end only
        return {STARTED, *STREAMS}.isdisjoint(source.sizes())

    def _unpack_events(self) -> None:
        if self._mirror is not None and self._events is not None:
            self._events.step(self._mirror.borders(LOG))

    def fetch_outcome(self, sizes: Mapping[str, int]) -> None:
        """Bring ``outcome.json`` and the results that it names into the job's folder.

        Parameters
        ----------
        sizes
            What the source has just said of its files.
        """
        if _OUTCOME not in sizes or self.files.outcome.exists():
            return
        data, _, given = self._fetch(_OUTCOME, sizes).partition(b"\n")
        key = self._read_key()
        if key is not None and given.strip().decode("ascii", "replace") != mark(
            _OUTCOME, (data,), key
        ):
            self._refuse(_OUTCOME)
            return
        outcome = json.loads(data)
        marks = outcome.pop("marks", {})
        with suppress(LookupError, OverflowError, TypeError, ValueError):
            # The node's monotonic clock means nothing here; its wall clock does.
            wall = float(outcome["returned_at"][0]) - self._ahead
            outcome["returned_at"] = [wall, here(wall).mono]
        make_private(self.files.results)
        entries = [outcome.get("result"), *dict(outcome.get("outputs") or {}).values()]
        if outcome.get("home"):
            entries.append({"file": _HOME})
        if outcome.get("raised"):
            entries.append({"file": RAISED})
        for entry in entries:
            name = entry.get("file") if isinstance(entry, dict) else None
            if isinstance(name, str) and _RESULT.fullmatch(name) and name in sizes:
                pieces = self._pieces(name, sizes[name])
                if key is not None:
                    pieces = _genuine(name, pieces, key, str(marks.get(name)))
                try:
                    if why := self._bring(name, sizes[name], pieces):
                        entry.update(_left_there(self.task, sizes[name], why))
                except NotGenuineError:
                    self._refuse(name)
                    return
        write_aside(self.files.outcome, json.dumps(outcome).encode())

    def fetch_post_mortem(self, sizes: Mapping[str, int]) -> None:
        """Bring what the frames of a failed task held; a job's end does not wait for a second try.

        What has not this container's mark is left where it is: `job debug` says that there is none.

        Parameters
        ----------
        sizes
            What the source has just said of its files.
        """
        if not {INDEX, VALUES} <= set(sizes) or self.files.post_mortem.exists():
            return
        with suppress(ClusterError, LogsGoneError, NotGenuineError, OSError, ValueError):
            data, _, given = self._fetch(INDEX, sizes).partition(b"\n")
            told = json.loads(data)
            pieces, key = self._pieces(VALUES, sizes[VALUES]), self._read_key()
            if key is not None:
                if given.strip().decode("ascii", "replace") != mark(INDEX, (data,), key):
                    return
                pieces = _genuine(VALUES, pieces, key, str(told.get("mark")))
            make_private(self.files.results)
            write_aside(self.files.results / VALUES, pieces)
            write_aside(self.files.post_mortem, data)

    def _fetch_artifacts(self, sizes: Mapping[str, int]) -> None:
        """Bring what the task has left for people, and note what did not come."""
        if PACK in sizes and self._source is not None:
            limit = int(load_config().value("artifacts_limit"))
            if said := ArtifactMirror(self.files, limit).bring(self._source, sizes):
                with suppress(OSError):
                    add_warning(self._paths, said)

    def _bring(self, name: str, size: int, pieces: Iterator[bytes]) -> str:
        """Bring a result home; return why it is left where it is, empty where it is not.

        No job fails for the value of a task that is not of rank 0: nobody may ask for it.
        """
        if self.follows and size > _MOST_OF_OTHERS:
            return f"more than {_MOST_OF_OTHERS:,} come home from rank 0 alone"
        try:
            write_aside(self.files.results / name, pieces)
        except OSError as error:
            if not self.follows:
                raise
            return f"{error.strerror} here"
        return ""

    def _read_key(self) -> bytes | None:
        """Return this container's key; None where an older release has asked for the job's."""
        with suppress(FileNotFoundError):
            key = self._paths.results_key.read_bytes()
            return attempt_key(key, self._paths.job_id, self.task, self.id)
        return None

    def _refuse(self, name: str) -> None:
        """Let the task fail by words instead of by what somebody else may have written."""
        shutil.rmtree(self.files.results, ignore_errors=True)
        words = (
            f"{name}, as {self.node} shows it, was not written by {self.task} in {self.id}: its"
            " mark is not of that container's key. Nothing of the result was read. Who else can"
            " write in that node's log folders, or answer for it? Run the job again elsewhere"
        )
        error = {"type": "ClusterError", "module": "submarine_engine.errors", "message": words}
        told = {"kind": "raised", "exit_code": 1, "result": {"format": "none"}, "outputs": {}}
        refused = {"version": OUTCOME_VERSION, **told, "error": error}
        write_aside(self.files.outcome, json.dumps(refused).encode())

    @property
    def exit_status(self) -> int | None:
        """What the shell saw of the task's end; negative for a signal. None where it saw none."""
        if self._exit is None and self._source is not None:
            with suppress(ClusterError):
                self._exit = self._read_exit(self._source.sizes())
        return self._exit

    def _read_exit(self, sizes: Mapping[str, int]) -> int | None:
        with suppress(ClusterError, ValueError):
            if EXIT in sizes:
                status, *more = self._fetch(EXIT, sizes).split()
                code, self.oom_killed = int(status), OOM in more
                return 128 - code if code > 128 else code  # noqa: PLR2004 - as shells tell signals
        return None

    def _begin(self, told: Mapping[str, Any]) -> list[Event]:
        # No task begins before its container is given, nor after it is seen. A node that says so
        # has another clock, and would have the job's time limit come an hour too early.
        wall = float(told["at"][0])
        possible = max(self._given_at, min(wall, time.time()))
        self._ahead = wall - possible
        self.started = here(possible)
        gpus = tuple(str(gpu)[:100] for gpu in told.get("gpus") or ())
        clock = None
        with suppress(*SPOILT, LookupError):
            clock = finite(told["at"][1])
        return [Started(task=self.task, gpus=gpus, at=self.started, clock=clock)]

    def _look_at_progress(self, sizes: Mapping[str, int]) -> list[Event]:
        with suppress(ClusterError, LogsGoneError):
            if NOTE in sizes and not self._noted:  # for `can_save`: there is a function
                write_aside(self.files.root / NOTE, self._fetch(NOTE, sizes))
                self._noted = True
        if not self.progress.is_due:
            return []
        self._fetch_progress(sizes)
        progressed: Progressed | None = self.progress.poll()
        return [progressed] if progressed else []

    def _fetch_progress(self, sizes: Mapping[str, int]) -> None:
        with suppress(ClusterError, LogsGoneError):
            if _PROGRESS in sizes and (said := self._fetch(_PROGRESS, sizes)) != self._progress:
                self._progress = said
                self.progress.hear(said)

    def _fetch_json(self, name: str, sizes: Mapping[str, int]) -> Mapping[str, Any]:
        found: Mapping[str, Any] = json.loads(self._fetch(name, sizes))
        return found

    def _fetch(self, name: str, sizes: Mapping[str, int]) -> bytes:
        if sizes[name] > _LARGEST:
            raise ClusterError(f"{name} has {sizes[name]:,} bytes, which no runtime writes")
        return b"".join(self._pieces(name, sizes[name]))

    def _pieces(self, name: str, size: int) -> Iterator[bytes]:
        assert self._source is not None  # noqa: S101 - for the type checker
        offset = 0
        while offset < size:
            piece = self._source.read(name, offset, min(_PIECE, size - offset))
            if not piece:
                raise ClusterError(f"{name} has {size:,} bytes, and only {offset:,} come")
            offset += len(piece)
            yield piece


def _left_there(task: str, size: int, why: str) -> dict[str, Any]:
    """Return what an outcome says of a result that was not brought home."""
    warning = (
        f"the result of {task} has {size:,} bytes, and did not come home: {why}. Write it to the"
        " checkpoint path there, or give less"
    )
    return {"format": "none", "file": None, "warning": warning}


def _genuine(name: str, pieces: Iterator[bytes], key: bytes, wanted: str) -> Iterator[bytes]:
    """Pass on the pieces of a file; NotGenuineError at its end where its mark is another one."""
    made = marker(name, key)
    for piece in pieces:
        made.update(piece)
        yield piece
    if made.hexdigest() != wanted:
        raise NotGenuineError(name)
