"""A job's artifacts: the files that its tasks have left in the folder ``SUBMARINE_OUTPUT_PATH``.

Names, links and what else lies there are the job's own work: no link is followed, and nothing is
opened but a plain file below the folder of its task.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from submarine_runtime.artifacts import LeftOut, files

from submarine_engine.amounts import count
from submarine_engine.amounts import size as in_words
from submarine_engine.errors import CommandError, JobError
from submarine_engine.history import SPOILT, JobPaths, TaskPaths, read_foreign

_LARGEST_NOTE = 1 << 20
_PIECE = 1 << 20


@dataclass(frozen=True, slots=True)
class Artifact:
    """A file that a job has left.

    Parameters
    ----------
    name
        Its path below the folder, which begins with the task's name where the job has several.
        What is no UTF-8 in it is there as `os.fsdecode` has it.
    size
        Its bytes.
    path
        Where it is on this machine.
    task
        Which task has left it.
    """

    name: str
    size: int
    path: Path
    task: str

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON has it, its name in text that can be encoded."""
        return {
            "name": shown(self.name),
            "size": self.size,
            "path": shown(str(self.path)),
            "task": self.task,
        }


@dataclass(frozen=True, slots=True)
class JobArtifacts:
    """What the tasks of a job have left.

    Parameters
    ----------
    files
        By task, then by name.
    left
        How many were left out for which reason: links, or what did not come home.
    """

    files: tuple[Artifact, ...] = ()
    left: Mapping[str, int] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Bytes of all of them."""
        return sum(one.size for one in self.files)

    @property
    def words(self) -> str:
        """All in a line: ``3 files, 12 MB; left out: 1 (a link)``."""
        told = f"{count(len(self.files), 'file')}, {in_words(self.size)}"
        if not self.left:
            return told
        why = ", ".join(f"{number:,} ({why})" for why, number in self.left.items())
        return f"{told}; left out: {why}"


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file as lists for people have it.

    Parameters
    ----------
    name, size
        In words.
    task, path
        Whose, and its name below the task's folder as `address` has it.
    """

    name: str
    size: str
    task: str
    path: str


@dataclass(frozen=True, slots=True)
class Listing:
    """The first of a job's artifacts, for people.

    Parameters
    ----------
    words
        As `JobArtifacts.words`.
    files
        The first ones.
    more
        How many others there are.
    """

    words: str
    files: tuple[ListedFile, ...]
    more: int


def listing(paths: JobPaths, found: JobArtifacts, most: int) -> Listing | None:
    """Return what a job has left for people; None where that is nothing.

    Parameters
    ----------
    paths, found
        The job, and what it has left.
    most
        How many files are named.
    """
    if not found.files and not found.left:
        return None
    files = tuple(
        ListedFile(shown(one.name), in_words(one.size), one.task, address(paths, one))
        for one in found.files[:most]
    )
    return Listing(found.words, files, max(0, len(found.files) - most))


def read_artifacts(paths: JobPaths, tasks: Sequence[str]) -> JobArtifacts:
    """Return what is there of a job's tasks.

    Parameters
    ----------
    paths, tasks
        Whose.
    """
    found: list[Artifact] = []
    left: dict[str, int] = {}
    for task in tasks:
        own = LeftOut()
        root = os.fsencode(paths.task(task).artifacts)
        below = f"{task}/" if len(tasks) > 1 else ""
        for name in files(root, own):
            with suppress(FileNotFoundError):  # it was removed meanwhile
                status = os.lstat(b"%b/%b" % (root, name))
                text = os.fsdecode(name)
                path = Path(os.fsdecode(root), text)
                found.append(Artifact(f"{below}{text}", status.st_size, path, task))
        for why, number in (*own.counts.items(), *_left_there(paths.task(task))):
            left[why] = left.get(why, 0) + number
    return JobArtifacts(tuple(found), left)


def _left_there(task: TaskPaths) -> list[tuple[str, int]]:
    """Return what did not come home, by a note that the job's code could have written."""
    import json  # noqa: PLC0415 - few jobs have such a note

    try:
        told = json.loads(read_foreign(task.artifacts_note, _LARGEST_NOTE))["left"]
        return [(str(why)[:100], int(number)) for why, number in list(told.items())[:20]]
    except SPOILT:
        return []


def shown(name: str) -> str:
    """Return a name as text that can be encoded: what is no UTF-8 in it is replaced."""
    return os.fsencode(name).decode("utf-8", "replace")


def address(paths: JobPaths, one: Artifact) -> str:
    """Return the name of a file below its task's folder, percent-encoded: any bytes as ASCII.

    Parameters
    ----------
    paths, one
        The job, and which of its artifacts.
    """
    from urllib.parse import quote  # noqa: PLC0415 - where addresses are made of them

    return quote(os.fsencode(one.path.relative_to(paths.task(one.task).artifacts)))


def open_artifact(paths: JobPaths, task: str, name: str) -> int:
    """Open one of a task's artifacts; return its descriptor.

    Parameters
    ----------
    paths
        The job's files.
    task, name
        Which; the name is below the task's own folder.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    OSError
        It cannot be read, or is no plain file: no link is followed on the way.
    """
    parts = os.fsencode(name).split(b"/")
    if any(part in (b"", b".", b"..") or b"\0" in part for part in parts):
        raise FileNotFoundError(errno.ENOENT, "no such artifact", name)
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    folder = os.open(paths.task(task).artifacts, flags | os.O_DIRECTORY)
    try:
        for part in parts[:-1]:
            below = os.open(part, flags | os.O_DIRECTORY, dir_fd=folder)
            os.close(folder)
            folder = below
        found = os.open(parts[-1], flags | os.O_NONBLOCK, dir_fd=folder)
    finally:
        os.close(folder)
    if not stat.S_ISREG(os.fstat(found).st_mode):
        os.close(found)
        raise OSError(errno.EINVAL, "it is no plain file", name)
    return found


def copy_artifacts(paths: JobPaths, artifacts: Iterable[Artifact], target: Path) -> list[Path]:
    """Copy artifacts into a folder; return where they are now.

    Parameters
    ----------
    paths
        The job's files.
    artifacts
        Which of that job's; each is copied by its name below the folder.
    target
        The folder; it is made where it is not there.

    Raises
    ------
    CommandError
        Something of these names is there: nothing is copied then.
    JobError
        One cannot be read, or written. Those before it are there.
    """
    wanted = [(one, target / one.name) for one in artifacts]
    there = [place for _, place in wanted if os.path.lexists(place)]
    if there:
        raise CommandError(
            f"{count(len(there), 'file')} would be replaced, first {shown(str(there[0]))!r}",
            where="--to",
            fix="name another folder, or move them away",
        )
    for one, place in wanted:
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            name = str(one.path.relative_to(paths.task(one.task).artifacts))
            _copy(open_artifact(paths, one.task, name), place)
        except OSError as error:  # noqa: PERF203 - each is said by its name
            raise JobError(
                f"{shown(one.name)!r} cannot be copied: {error.strerror or error}",
                where=shown(str(place)),
                fix="those before it are there; see whether there is room for the rest",
            ) from error
    return [place for _, place in wanted]


def _copy(descriptor: int, place: Path) -> None:
    """Copy an open file as long as it is now: it may be written while it is read."""
    with open(descriptor, "rb") as source, place.open("xb") as file:
        left = os.fstat(descriptor).st_size
        while left and (data := source.read(min(_PIECE, left))):
            file.write(data)
            left -= len(data)
