"""Job folders: put on record whole, appended to by one process at a time, read by all.

A job's folder is its record. `put_on_record` writes it aside and renames it into place; `Journal`
appends to ``events.jsonl`` and keeps ``status.json``; `StatusCache` reads many statuses quickly.
Beside the events lie two notes: ``warnings.json``, and ``cancel.json`` of whoever wants it to end.
"""

from __future__ import annotations

import errno
import json
import os
import pwd
import shutil
import stat
import sys
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from submarine_runtime.exchange import ANSWER, HELLO
from submarine_runtime.peer_failed import ASKED as FRAMES_ASKED
from submarine_runtime.stacks import ASKED, MAIN_ASKED, STACKS

from submarine_engine.clusters import locks, machine, outbox
from submarine_engine.errors import SubmissionError
from submarine_engine.events import (
    CancelRequested,
    Event,
    Finished,
    Granted,
    Moment,
    Resized,
    Retried,
    Started,
    Submitted,
    event_from_json,
)
from submarine_engine.history import (
    RECORD_VERSION,
    SPOILT,
    JobPaths,
    SpoiltFileError,
    check_home,
    make_private,
    new_job_id,
    read_json,
    read_whole,
    shown_user,
    write_aside,
    write_json,
)
from submarine_engine.job import JobState
from submarine_engine.lifecycle import JobStatus, fold
from submarine_engine.masking import write_marks
from submarine_engine.secret_values import NOTE

if TYPE_CHECKING:
    from submarine_engine.bundle import Bundle
    from submarine_engine.job import JobSpec


# A job's ``events.jsonl`` and ``status.json``, written by whoever holds the supervisor's lock.


STATUS_VERSION = 1
RESERVE = "reserve"
RESERVE_SIZE = 16384
_LONGEST_REASON = 2000
"""Characters, six bytes of JSON each at most: a job's last line has room in what is reserved for
it, and `reader` knows it by the last bytes of the events."""


class Journal:
    """Appends events; the summary in ``status.json`` follows them.

    The file stays open, so that a deleted folder or a full disk is no surprise half-way; but for
    jobs to which nothing happens for long, see `rest`.

    Parameters
    ----------
    paths
        The job's files.
    record
        The content of the job's ``record.json``.

    Raises
    ------
    OSError
        The file cannot be opened.
    """

    def __init__(self, paths: JobPaths, record: Mapping[str, Any]) -> None:
        self._paths = paths
        self._record = record
        self._gpus: int | None = None  # where that is known here: it may change
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        self._descriptor: int | None = os.open(paths.events, flags, 0o600)
        self._cut_torn_line(self._descriptor)

    def append(self, *events: Event) -> None:
        """Write events, all or none.

        Parameters
        ----------
        *events
            In the order in which they happened.

        Raises
        ------
        OSError
            The disk is full, or the file is gone; nothing was written.
        """
        events = tuple(_with_short_reason(event) for event in events)
        lines = [json.dumps(event.to_json(), ensure_ascii=False) + "\n" for event in events]
        data = "".join(lines).encode(errors="replace")
        if self._descriptor is None:
            self._descriptor = os.open(self._paths.events, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
        descriptor = self._descriptor
        size = os.fstat(descriptor).st_size
        try:
            written = os.write(descriptor, data)
            if written < len(data):
                os.write(descriptor, data[written:])  # tells why by raising
        except OSError:
            os.ftruncate(descriptor, size)
            raise
        self._summarise(events)

    def append_last(self, *events: Event) -> None:
        """Write a job's last events, in the room that was kept for them on a full disk.

        Nobody needs its secrets any more. Its webhook is told from now on.

        Parameters
        ----------
        *events
            `Finished` is the last one.

        Raises
        ------
        OSError
            Even that is not enough.
        """
        for name in (NOTE, RESERVE):
            with suppress(OSError):
                (self._paths.root / name).unlink(missing_ok=True)
        due = outbox.note(self._paths, self._record)
        self.append(*events)
        if due:
            outbox.start(self._paths)

    def rest(self) -> None:
        """Close the file until there is more to write.

        A process has a thousand files at most, unless it is allowed more: a keeper of as many jobs
        that wait would have none left for what asks the cluster.
        """
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def close(self) -> None:
        """Close the file."""
        self.rest()

    def _summarise(self, events: tuple[Event, ...]) -> None:
        for event in events:
            if isinstance(event, Resized):
                self._gpus = event.gpus
        for event in reversed(events):
            if (state := _state_after(event)) is not None:
                reason = event.reason if isinstance(event, Finished) else ""
                finished = [event.at.wall, event.at.mono] if state.final else None
                told = summary(self._record, state, reason, finished=finished)
                # The events are the truth: a summary that cannot be written is only old.
                with suppress(OSError):
                    write_json(self._paths.status, {**told, "gpus": self._count_gpus(told)})
                return

    def _count_gpus(self, told: Mapping[str, Any]) -> int:
        """Return how many GPUs the job asks for now, by its record unless its tasks may change."""
        if self._gpus is None:
            self._gpus = int(told["gpus"])
            if any(role.get("least") for role in self._record["spec"]["roles"]):
                with suppress(OSError, ValueError, KeyError, TypeError):
                    self._gpus = int((read_json(self._paths.status) or {})["gpus"])
        return self._gpus

    @staticmethod
    def _cut_torn_line(descriptor: int) -> None:
        """Drop a line that a former writer did not live to end; no reader has taken it yet."""
        size = os.fstat(descriptor).st_size
        tail = os.pread(descriptor, RESERVE_SIZE, max(0, size - RESERVE_SIZE))
        torn = len(tail) - (tail.rfind(b"\n") + 1)
        if torn:
            os.ftruncate(descriptor, size - torn)


def _with_short_reason(event: Event) -> Event:
    """Cut the reason of a job's end, and that of whoever has asked for it."""
    if isinstance(event, (CancelRequested, Finished)):
        return replace(event, reason=event.reason[:_LONGEST_REASON])
    return event


def summary(
    record: Mapping[str, Any],
    state: JobState = JobState.QUEUED,
    reason: str = "",
    *,
    finished: list[float] | None = None,
) -> dict[str, Any]:
    """Return the content of ``status.json``.

    Parameters
    ----------
    record
        The content of ``record.json``.
    state, reason
        How the job stands, and why.
    finished
        When it was over, on the wall and the monotonic clock; None where it is not.
    """
    resources = [
        role["resources"]["gpus"] * (role.get("least") or role["count"])
        for role in record["spec"]["roles"]
    ]
    return {
        "version": STATUS_VERSION,
        "id": record["id"],
        "name": record["spec"]["name"],
        "cluster": record["cluster"],
        "state": state.value,
        "reason": reason.encode(errors="replace").decode(),
        "gpus": sum(resources),
        "created": record["created"],
        "finished": finished,
        "parent": record["spec"].get("parent"),
        "workers_on": record["spec"].get("workers_on"),
    }


def read_events(path: Path, offset: int = 0) -> tuple[list[tuple[Event, int]], int]:
    """Read whole lines from `offset`.

    Parameters
    ----------
    path
        A job's ``events.jsonl``.
    offset
        In bytes; where a line begins.

    Returns
    -------
    events : list of (Event, int)
        Each with the offset of its line; lines that are damaged are passed over.
    end : int
        Where to go on.

    Raises
    ------
    OSError
        The file cannot be read.
    """
    data = read_whole(path, offset)
    data = data[: data.rfind(b"\n") + 1]
    found = []
    place = offset
    for line in data.splitlines(keepends=True):
        with suppress(*SPOILT):
            found.append((event_from_json(json.loads(line)), place))
        place += len(line)
    return found, offset + len(data)


def _state_after(event: Event) -> JobState | None:
    if isinstance(event, Finished):
        return event.state
    if isinstance(event, Granted):
        return JobState.STARTING
    if isinstance(event, Retried):
        return JobState.QUEUED
    return JobState.RUNNING if isinstance(event, Started) else None


# Statuses of jobs, each folded once: later looks read only what is new.


_MOST_CACHED = 256


class _CachedStatus(NamedTuple):
    inode: int
    offset: int
    status: JobStatus


class StatusCache:
    """Remembers the statuses of the jobs looked at last."""

    def __init__(self) -> None:
        self._seen: OrderedDict[str, _CachedStatus] = OrderedDict()

    def status(self, paths: JobPaths) -> JobStatus:
        """Return the job as its events tell.

        Parameters
        ----------
        paths
            The job's files.

        Raises
        ------
        OSError
            The job's folder is gone, or cannot be read, or its events are no more.
        """
        now = paths.events.stat()
        seen = self._seen.pop(paths.job_id, None)
        if seen is None or seen.inode != now.st_ino or seen.offset > now.st_size:
            seen = _CachedStatus(now.st_ino, 0, JobStatus())
        if seen.offset < now.st_size:
            found, end = read_events(paths.events, seen.offset)
            status = fold((event for event, _ in found), seen.status)
            seen = _CachedStatus(now.st_ino, end, status)
        if not seen.status.tasks:  # the first event came with the folder
            raise SpoiltFileError(errno.EBADMSG, "no event of ours is in it", str(paths.events))
        self._seen[paths.job_id] = seen
        while len(self._seen) > _MOST_CACHED:
            self._seen.popitem(last=False)
        return seen.status


# What went wrong beside a job itself, noted in its folder: ``warnings.json``.


_FILE = "warnings.json"


def add_warning(paths: JobPaths, text: str) -> None:
    """Note a warning, once; for the one process that sees the job through.

    Parameters
    ----------
    paths
        The job's files.
    text
        What went wrong, in a sentence.

    Raises
    ------
    OSError
        The disk is full, or the job's folder is gone.
    """
    noted = read_warnings(paths)
    if text not in noted:
        write_json(paths.root / _FILE, {"version": 1, "warnings": [*noted, text]})


def read_warnings(paths: JobPaths) -> list[str]:
    """Return what `add_warning` noted, oldest first; nothing where that cannot be read.

    Parameters
    ----------
    paths
        The job's files.
    """
    with suppress(OSError, ValueError, AttributeError, TypeError):
        noted = read_json(paths.root / _FILE) or {}
        return [str(text) for text in noted.get("warnings", ())]
    return []


# How somebody says that a job shall end: ``cancel.json``, and a ring of the supervisor's bell.
#
# No signal is sent to the supervisor, so none can hit a stranger that has got its number since.


class CancelRequest(NamedTuple):
    """What ``cancel.json`` says; `kill` for at once, without grace."""

    reason: str
    kill: bool


def bell_path(paths: JobPaths) -> Path:
    """Return the path of the named pipe at which the job's supervisor listens.

    Parameters
    ----------
    paths
        The job's files.
    """
    return paths.root / "bell"


def request_cancel(paths: JobPaths, reason: str, *, kill: bool) -> None:
    """Say that the job shall end.

    Parameters
    ----------
    paths
        The job's files.
    reason
        Why, for people; what is too long is cut.
    kill
        Whether it ends at once, without grace.

    Raises
    ------
    OSError
        The folder is gone. On a full disk the request is told by an empty file.
    """
    try:
        write_json(paths.cancel, {"reason": reason[:_LONGEST_REASON], "kill": kill})
    except FileNotFoundError:
        raise
    except OSError:
        paths.cancel.touch(mode=0o600)
    ring_bell(paths)


def ring_bell(paths: JobPaths) -> None:
    """Wake the job's supervisor; nothing where none listens.

    Parameters
    ----------
    paths
        The job's files.
    """
    with suppress(OSError):
        descriptor = os.open(bell_path(paths), os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            os.write(descriptor, b"!")
        finally:
            os.close(descriptor)


def cancel_request(paths: JobPaths) -> CancelRequest | None:
    """Return what somebody wants, None where nobody wants the job to end.

    Parameters
    ----------
    paths
        The job's files.
    """
    try:
        data = read_json(paths.cancel)
    except (OSError, RecursionError, ValueError):
        return CancelRequest("", kill=False)
    if data is None:
        return None
    if not isinstance(data, dict):
        return CancelRequest("", kill=False)
    return CancelRequest(str(data.get("reason") or ""), kill=data.get("kill") is True)


# Putting a job on record: its folder is written aside, whole, and renamed into place.


PLAN_VERSION = 1
_FRESH = 60.0  # seconds: between making its folder and taking its lock a submitter needs less


def put_on_record(  # noqa: PLR0913, PLR0917 - what a record is made of
    home: Path,
    cluster: str,
    spec: JobSpec,
    bundle: Bundle,
    workdir: Path,
    finish: Callable[[JobPaths, JobPaths], None],
    *,
    secrets: Mapping[str, str],
    former: JobPaths | None = None,
    rerun: bool = False,
) -> tuple[JobPaths, int]:
    """Write a job's folder.

    Parameters
    ----------
    home
        Where jobs are kept.
    cluster
        The name of the cluster that the job is for.
    spec
        The job, checked.
    bundle
        What it runs.
    workdir
        Where relative paths of the job begin.
    finish
        Writes what that cluster needs besides: called with the folder as it is staged, and as it
        will be.
    secrets
        As `secret_variables` gave them: marks are written by which they are found again.
    former
        The job that this one runs again; what it keeps secret stays so.
    rerun
        Whether it is run from the start, which the record says.

    Returns
    -------
    paths : JobPaths
        The job.
    lock : int
        The descriptor that holds its supervisor's lock: while it is open, no reader takes the job
        for lost.

    Raises
    ------
    SubmissionError
        The disk is full; nothing is left behind.
    ConfigError
        As `check_home`.
    """
    paths = JobPaths(home, new_job_id())
    staged = JobPaths(_staging(home), paths.job_id)
    with _all_or_nothing(staged, paths):
        make_private(home)
    check_home(home)
    spec = outbox.accept(spec, home)
    with _all_or_nothing(staged, paths):
        make_private(paths.root.parent)
        make_private(staged.root)
        lock = locks.take(staged.lock, wait=1.0)  # `sweep` may try it for a moment
        if lock is None:
            raise OSError("somebody else has taken it")
        try:
            bundle.write(staged.bundle)
            again = former.job_id if former and rerun else None
            _write_record(staged, cluster, spec, bundle, workdir, again)
            # A job's children run its code: what it keeps secret, they do.
            parent = JobPaths(home, spec.parent) if spec.parent else None
            marking = former or parent
            marked = marking.root if marking else None
            webhook = outbox.find(home, spec.notify) if spec.notify else None
            told = [("notify", webhook)] if webhook else []
            write_marks(staged.root, (*secrets.items(), *bundle.secrets, *told), marked)
            finish(staged, paths)
            write_aside(staged.root / RESERVE, bytes(RESERVE_SIZE))
            staged.root.rename(paths.root)
        except BaseException:
            locks.drop(lock)
            raise
    return paths, lock


@contextmanager
def _all_or_nothing(staged: JobPaths, paths: JobPaths) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        shutil.rmtree(staged.root, ignore_errors=True)
        if isinstance(error, (OSError, ValueError)):
            why = error.strerror if isinstance(error, OSError) and error.strerror else error
            raise SubmissionError(
                f"the job's folder cannot be written: {why}",
                where=str(paths.root),
                fix="make room there, or let SUBMARINE_HOME name a folder of yours with room",
            ) from error
        raise


def _write_record(  # noqa: PLR0913, PLR0917 - what a record is made of
    staged: JobPaths,
    cluster: str,
    spec: JobSpec,
    bundle: Bundle,
    workdir: Path,
    again: str | None,
) -> None:
    created = Moment.now()
    record: dict[str, Any] = {
        "version": RECORD_VERSION,
        "id": staged.job_id,
        "cluster": cluster,
        "spec": spec.to_json(),
        "created": [created.wall, created.mono],
        "workdir": str(workdir),
        "bundle_hash": bundle.hash,
        "python": sys.executable,
        "user": shown_user() or user_name(),
        "host": machine.host(),
        "boot": machine.boot_id(),
    }
    if again:
        record["rerun_of"] = again
    write_json(staged.record, record)
    write_json(staged.status, summary(record))
    journal = Journal(staged, record)
    try:
        least = spec.smallest
        journal.append(Submitted(gpus=least.gpus or 0, tasks=least.tasks, at=created))
    finally:
        journal.close()


def task_plan(  # noqa: PLR0913 - as the runtime's protocol has them
    spec: JobSpec,
    task: str,
    *,
    job_id: str,
    bundle: str,
    entry: str,
    workdir: str,
    home: Mapping[str, Any] | None = None,
    attempt: int = 1,
) -> Mapping[str, Any]:
    """Return the content of ``task.json``.

    With ``"metrics"`` the task has written what it uses; a driver beside it, on the same machine,
    takes that out and does so itself.

    Parameters
    ----------
    spec
        The job, of as many tasks as this attempt has.
    task
        Which task, as ``worker-0``.
    job_id
        The job's id.
    bundle, workdir
        Where they lie on the machine that runs the task.
    entry
        The bundle's file that runs.
    home
        What `Manifest.home` says.
    attempt
        How often the job has been begun, this time included.
    """
    role = next(role for role in spec.roles if task in role.tasks)
    return {
        "version": PLAN_VERSION,
        "job_id": job_id,
        "task": task,
        "bundle": bundle,
        "entry": entry,
        "command": role.command,
        "args": list(role.args),
        "workdir": workdir,
        "outputs": list(spec.outputs),
        "env": dict(spec.env),
        "home": home,
        "asks": spec.asks,
        "peers": len(spec.tasks),
        "framework": spec.framework,
        "attempt": attempt,
        "metrics": True,
        "post_mortem": ({"secrets": list(spec.secrets)} if spec.post_mortem == "on" else None),
    }


_OF_AN_ATTEMPT = (
    "outcome.json", "results", "progress.json", "save.json", "ask.json", "imported.json",
    "artifacts", "artifacts.json", ".artifacts", HELLO, ANSWER, ASKED, MAIN_ASKED,
    STACKS, FRAMES_ASKED,
)  # fmt: skip


def clear_attempt(paths: JobPaths, tasks: Iterable[str], line: str) -> None:
    """Remove what an attempt has left that the next one must not take for its own.

    Its logs stay, and say in `line` that another attempt begins. Done again it changes nothing: the
    one who did it first may have been killed.

    Parameters
    ----------
    paths, tasks
        Whose; nothing of the next attempt runs yet.
    line
        What stands in each task's stderr from now on.

    Raises
    ------
    OSError
        The disk is full, or the job's folder is gone.
    """
    paths.answer.unlink(missing_ok=True)
    for task in tasks:
        files = paths.task(task)
        make_private(files.root)
        for name in _OF_AN_ATTEMPT:
            _remove(files.root / name)
        for pipe in files.root.glob("answer-*"):  # of a question that its asker did not outlive
            _remove(pipe)
        make_private(files.artifacts)
        _append_line(files.stderr, f"{line}\n".encode(errors="replace"))


def _remove(path: Path) -> None:
    """Remove what the job's code may have put there: a link leads nowhere."""
    try:
        path.unlink(missing_ok=True)
    except IsADirectoryError:
        try:
            shutil.rmtree(path)
        except PermissionError:  # the job's code has made folders that nobody may write in
            path.chmod(0o700)  # no link: `unlink` has removed such
            for parent, folders, _ in os.walk(path):
                for folder in folders:
                    if not (found := Path(parent, folder)).is_symlink():
                        found.chmod(0o700)
            shutil.rmtree(path)


def _append_line(path: Path, line: bytes) -> None:
    """Append a line of its own to a log, unless that is its last."""
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags, 0o600)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR):  # the job's code was at it
            return
        raise
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return
        tail = os.pread(descriptor, len(line) + 1, max(0, status.st_size - len(line) - 1))
        if tail.removeprefix(b"\n") != line:
            with suppress(OSError):  # a full disk costs the line, not the attempt
                os.write(descriptor, line if not tail or tail.endswith(b"\n") else b"\n" + line)
    finally:
        os.close(descriptor)


def sweep(home: Path) -> None:
    """Remove what submitters that were killed half-way have left.

    Parameters
    ----------
    home
        Where jobs are kept.

    Raises
    ------
    OSError
        Something cannot be removed.
    """
    folder = _staging(home) / "jobs"
    if not folder.is_dir():
        return
    for left in folder.iterdir():
        with suppress(FileNotFoundError):
            if time.time() - left.stat().st_mtime < _FRESH:  # its lock may be about to be taken
                continue
        with suppress(OSError):  # while it is empty: who has the lock by now has it in there
            left.rmdir()
        if left.is_dir() and locks.is_free(left / "supervisor.lock"):
            shutil.rmtree(left, ignore_errors=True)


def user_name() -> str:
    """Return the name of the user that this process runs as; the number where it has none."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a container's nameless user
        return str(os.getuid())


def _staging(home: Path) -> Path:
    return home / "staging"
