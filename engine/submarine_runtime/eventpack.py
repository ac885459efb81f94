"""Packs the events that a task writes for TensorBoard into one log, which the driver can read.

`container` starts it, `pod` packs by it.

A NodeManager shows the files of a container's log folder, and none of the folders in it. So the
files below ``SUBMARINE_LOGDIR`` (events for TensorBoard) go into one more log beside ``stdout``,
while they grow: a line of three numbers (bytes of the name, where in the file the data belongs,
bytes of the data), then name and data. Data that belongs to byte 0 begins its file anew.

A process of its own does it while the task runs, and brings the files to HDFS as well where a
TensorBoard reads them there. What the task wrote last is packed when it is over, by the container's
shell (`finish`), before that says that all is there.
"""

from __future__ import annotations

import fcntl
import os
import sys
import time

from submarine_runtime.lean import loads, suppress

TYPE_CHECKING = False  # as type checkers have it; the module takes long to import
if TYPE_CHECKING:
    from collections.abc import Iterator

    from submarine_runtime.relay import Relay

LOG = "events"
STARTED = "started.json"
"""What a container says as its task begins: when, where, with which GPUs."""

EVERY = 1.0
"""Seconds between two looks at the folder."""

_MOST = 1 << 30
_PIECE = 1 << 22
_MOST_FILES = 2000
_DEEPEST = 8
_LONGEST = 1000
_LOOK = 0.1  # seconds until the end of the task is seen: a look at one file of /proc
_PATIENCE = 15.0  # seconds for the last events: an HDFS that is away keeps no process for ever
_DESCRIPTORS = 1024
_SENT = ".sent"


def start(folder: str, log: str, relay: Relay, urls: str, below: str) -> None:
    """Start the process, and return at once.

    Parameters
    ----------
    folder, log
        What to pack, and where to; a note of what was packed lies beside the folder.
    relay
        Brings the task the question for its stacks meanwhile; knows its process.
    urls, below
        Where in HDFS to bring the files, too, as of `WebFolder`; empty for nowhere.
    """
    os.mkdir(folder, 0o700)  # noqa: PTH102 - pathlib is slow
    if os.fork():
        os.wait()
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    try:
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nothing, descriptor)
        os.closerange(3, _DESCRIPTORS)
        _run(folder, log, relay, urls, below)
    finally:
        os._exit(0)


def finish(folder: str, log: str) -> None:
    """Pack what a task that is over wrote last; say it in the task's log where that fails.

    Parameters
    ----------
    folder, log
        What to pack, and where to, as of `start`.
    """
    try:
        pack(folder, log)
    except OSError as error:
        sys.stderr.write(f"submarine: the last events are not packed: {error}\n")


def _run(folder: str, log: str, relay: Relay, urls: str, below: str) -> None:
    there, sampled_at = None, time.monotonic() + EVERY
    if urls:
        from submarine_runtime.ship import EventShip  # noqa: PLC0415 - of such jobs alone

        there = EventShip(folder, urls, below, files)
    while _lives(relay.task):
        with suppress(OSError):  # the disk is full, or a file cannot be read: the next look goes on
            pack(folder, log)
        with suppress(OSError):  # HDFS is away: likewise
            if there is not None:
                there.step()
        if time.monotonic() >= sampled_at:
            begun = _sample(log.rpartition("/")[0], relay.task)
            sampled_at = float("inf") if begun else time.monotonic() + EVERY
        again = time.monotonic() + EVERY
        while time.monotonic() < again and _lives(relay.task):
            relay.step()
            time.sleep(relay.carry(_LOOK))
    if there is not None:
        there.finish(_PATIENCE)


def _sample(folder: str, task: int) -> bool:
    """Have what the task uses written beside its logs; return whether its GPUs are known yet."""
    if not os.path.exists(f"{folder}/{STARTED}"):  # noqa: PTH110 - pathlib is slow
        return False  # its node has not answered yet
    from submarine_runtime import sampling  # noqa: PLC0415 - the first line waits for no import

    with suppress(OSError, ValueError, KeyError, TypeError):  # else the job goes on without
        with open(f"{folder}/{STARTED}") as file:  # noqa: PTH123 - pathlib is slow
            gpus = loads(file.read())["gpus"]
        sampling.start([(folder, task, None if gpus is None else ",".join(gpus))])
    return True


def pack(folder: str, log: str) -> None:
    """Pack what is new.

    Parameters
    ----------
    folder, log
        What to pack, and where to, as of `start`.

    Raises
    ------
    OSError
        The log cannot be written; or a file cannot be read, and all others are packed. What was
        not is packed the next time.
    """
    note = os.open(f"{folder}{_SENT}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(note, fcntl.LOCK_EX)
        sent = _read_note(note)
        before = dict(sent)
        try:
            unread = _pack_files(folder, log, sent)
        finally:
            if sent != before:
                _write_note(note, sent)
    finally:
        os.close(note)
    if unread is not None:
        raise unread


def _pack_files(folder: str, log: str, sent: dict[str, int]) -> OSError | None:
    """Pack what is new, and keep `sent` up to date; return why a file could not be read, if so."""
    unread: OSError | None = None
    out = -1
    try:
        for name in files(folder):
            try:
                size = os.lstat(f"{folder}/{name}").st_size
                if size == sent.get(name, 0):
                    continue
                if out < 0:
                    out = _open_log(log)
                if size < sent.get(name, 0):
                    sent[name] = 0
                _pack_file(f"{folder}/{name}", name, sent, out)
            except _LogError:
                raise
            except OSError as error:  # that file's own
                unread = unread or error
    finally:
        if out >= 0:
            os.close(out)
    return unread


class _LogError(OSError):
    """The log cannot be written."""


def _open_log(log: str) -> int:
    try:
        return os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)
    except OSError as error:
        raise _LogError(error.errno, error.strerror, error.filename) from error


def _pack_file(path: str, name: str, sent: dict[str, int], out: int) -> None:
    """Pack what is new of a file; keep `sent` up to date."""
    source = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        at = sent.get(name, 0)
        while os.fstat(out).st_size < _MOST and (data := os.pread(source, _PIECE, at)):
            key = name.encode("utf-8", "surrogateescape")
            _append(out, b"%d %d %d\n%b%b" % (len(key), at, len(data), key, data))
            at += len(data)
            sent[name] = at
    finally:
        os.close(source)


def _append(out: int, data: bytes) -> None:
    before = os.fstat(out).st_size
    try:
        while data:
            data = data[os.write(out, data) :]
    except OSError as error:
        os.ftruncate(out, before)  # half a piece would spoil what comes after it
        raise _LogError(error.errno, error.strerror, error.filename) from error


def files(folder: str) -> Iterator[str]:
    """Yield the names of the plain files below a folder, links aside, in their order."""
    left = _MOST_FILES
    waiting = [("", 0)]
    while waiting:
        below, depth = waiting.pop()
        try:
            with os.scandir(f"{folder}/{below}") as entries:
                found = sorted(entries, key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in found:
            name = f"{below}{entry.name}"
            if len(name) > _LONGEST or not name.isprintable():
                continue
            if entry.is_dir(follow_symlinks=False):
                if depth < _DEEPEST:
                    waiting.append((f"{name}/", depth + 1))
            elif entry.is_file(follow_symlinks=False):
                left -= 1
                if left < 0:
                    return
                yield name


def _read_note(note: int) -> dict[str, int]:
    sent = {}
    text = os.pread(note, _MOST_FILES * (_LONGEST * 4 + 24), 0).decode("utf-8", "surrogateescape")
    for line in text.split("\n"):
        at, _, name = line.partition(" ")
        if name:
            sent[name] = int(at)
    return sent


def _write_note(note: int, sent: dict[str, int]) -> None:
    text = "\n".join(f"{at} {name}" for name, at in sent.items())
    os.ftruncate(note, 0)
    os.pwrite(note, text.encode("utf-8", "surrogateescape"), 0)


def _lives(pid: int) -> bool:
    """Tell whether a process runs: neither gone nor waited for, see ``/proc/PID/stat``, proc(5)."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - as above
            return file.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except OSError:
        return False
