"""The last complete checkpoint of a job, copied while the job may be writing the next one.

What counts as one: an entry of the checkpoint path, a folder or a file; the files of TensorFlow's
formats (``ckpt-5.index``, ``ckpt-5.data-00000-of-00001``) together. What is written aside (hidden
names, and such as hold ``tmp`` or end in ``.part``) is none yet. The newest one at rest is taken:
of which nothing has changed for `REST` seconds, before and while it is copied.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from submarine_engine.errors import SaveError

REST = 1.0
_TRIES = 5
_ASIDE = re.compile(
    r"^[._]|^te?mp[-_.]|[-_.]te?mp([-_.]|$)|\.(part|partial|incomplete|lock)$|~$", re.IGNORECASE
)
_PARTS = re.compile(r"^(.+)\.(?:index|meta|data-[0-9]{5}-of-[0-9]{5})$")
_POINTER = "checkpoint"  # TensorFlow's note of which one is the last


class File(NamedTuple):
    """A file below a checkpoint path: its path there, bytes, and when it was changed."""

    path: str
    size: int
    changed: float


class Storage(Protocol):
    """A checkpoint path."""

    @property
    def name(self) -> str:
        """The path, for people."""

    def files(self) -> Sequence[File]:
        """Return all files below it; none where it is not there."""

    def get(self, path: str, to: Path) -> None:
        """Copy the file at `path` there."""

    def is_whole(self, path: str) -> bool:
        """Return whether nobody has the file open for writing, as far as can be told."""


def copy_newest(storage: Storage, folder: Path, job_id: str) -> str:
    """Copy the last complete checkpoint into an empty folder; return its name.

    Raises
    ------
    SaveError
        There is none.
    OSError, ClusterError
        It cannot be read, or not be written here.
    """
    before = _checkpoints(storage.files())
    for _ in range(_TRIES):
        time.sleep(REST)
        now = _checkpoints(storage.files())
        resting = [
            name for name, files in now.items()
            if before.get(name) == files and all(storage.is_whole(file.path) for file in files)
        ]  # fmt: skip
        for name in sorted(resting, key=lambda name: _age(now[name]), reverse=True):
            if _copy(storage, name, now[name], folder):
                return name
        before = now
    if before:
        raise SaveError(
            f"the checkpoints in {storage.name} change all the time: none is complete",
            job_id=job_id,
            fix="let the job write each one under another name and rename it, or give a function "
            "to submarine_runtime.on_save",
        )
    raise SaveError(
        f"there is no checkpoint in {storage.name} yet, and the job's code gives no function",
        job_id=job_id,
        fix="ask after its first checkpoint, or let it call submarine_runtime.on_save(save)",
    )


def _checkpoints(files: Sequence[File]) -> dict[str, tuple[File, ...]]:
    """Return the files of each checkpoint, by its name."""
    found: dict[str, list[File]] = {}
    for file in files:
        name = file.path.partition("/")[0]
        if _ASIDE.search(name) or name == _POINTER:
            continue
        if (parts := _PARTS.match(name)) and name == file.path:
            name = parts[1]
        found.setdefault(name, []).append(file)
    return {name: tuple(sorted(some)) for name, some in found.items()}


def _age(files: Sequence[File]) -> float:
    return max(file.changed for file in files)


def _copy(storage: Storage, name: str, files: Sequence[File], folder: Path) -> bool:
    """Copy a checkpoint; whether it was still the same afterwards."""
    made = []
    try:
        for file in files:
            to = folder.joinpath(*file.path.split("/"))
            to.parent.mkdir(parents=True, exist_ok=True)
            storage.get(file.path, to)
            made.append(to)
    except FileNotFoundError:  # the job keeps the last few only: it was the turn of this one
        same = False
    else:
        same = _checkpoints(storage.files()).get(name) == tuple(files)
        same = same and [path.stat().st_size for path in made] == [file.size for file in files]
    if not same:
        for path in made:
            path.unlink()
    return same


class FolderStorage:
    """A checkpoint path on this machine."""

    def __init__(self, root: Path) -> None:
        self._root = root

    @property
    def name(self) -> str:
        """The folder's path."""
        return str(self._root)

    def files(self) -> list[File]:
        """Return all files below it."""
        found = []
        for path in self._root.rglob("*"):
            try:
                status = path.stat()
            except OSError:  # gone since
                continue
            if path.is_file():
                relative = path.relative_to(self._root).as_posix()
                found.append(File(relative, status.st_size, status.st_mtime))
        return found

    def get(self, path: str, to: Path) -> None:
        """Copy a file, with its time of change."""
        import shutil  # noqa: PLC0415 - where something is copied

        shutil.copy2(self._root / path, to)

    def is_whole(self, path: str) -> bool:  # noqa: ARG002 - as storages have it
        """Return that nothing speaks against it: only its rest can be seen."""
        return True
