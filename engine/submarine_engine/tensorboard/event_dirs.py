"""Where the events of jobs lie, and one folder of links to them, which TensorBoard reads."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from submarine_engine.clusters import cluster_kind
from submarine_engine.clusters.environment import file_address
from submarine_engine.errors import SubmarineError
from submarine_engine.history import JobPaths, make_private, read_json

# Where the events of jobs lie: each task's log directory, and the checkpoint path.


EVENTS = "tfevents"
"""What the name of a file of events holds; TensorBoard goes by that, too."""

_DEEPEST = 6
_MOST_NAMES = 20_000
_MOST_FOUND = 500
_MOST_TASKS = 64


@dataclass(frozen=True, slots=True)
class Source:
    """A place that may hold events.

    Parameters
    ----------
    name
        What its runs are called: ``mnist-4abcd``, ``mnist-4abcd/worker-1``.
    place
        A folder of this machine, or an address of HDFS.
    """

    name: str
    place: str

    @property
    def remote(self) -> bool:
        """Whether it is an address."""
        return "://" in self.place


def job_sources(paths: JobPaths) -> list[Source]:
    """Return the places of the job of `paths`; none where its record cannot be read."""
    try:
        record = read_json(paths.record) or {}
        spec = dict(record["spec"])
        name = f"{spec['name']}-{paths.job_id[-5:]}"
    except (OSError, ValueError, KeyError, TypeError):
        return []
    tasks = _tasks(paths)
    found = [
        Source(name if len(tasks) == 1 else f"{name}/{task}", str(paths.task(task).logdir))
        for task in tasks
    ]
    if place := _checkpoints(record, spec):
        found.append(Source(f"{name}/checkpoints", place))
    return found


def _tasks(paths: JobPaths) -> list[str]:
    found = []
    with suppress(OSError):
        for name in sorted(os.listdir(paths.root / "tasks"))[:_MOST_TASKS]:  # noqa: PTH208 - names
            with suppress(ValueError):
                if paths.task(name).logdir.is_dir():
                    found.append(name)
    return found


def _checkpoints(record: Mapping[str, Any], spec: Mapping[str, Any]) -> str | None:
    text = spec.get("checkpoint_path")
    if not isinstance(text, str) or not text:
        return None
    if text.startswith(("hdfs://", "webhdfs://")):
        return None if "," in text else text.rstrip("/")
    with suppress(SubmarineError):
        here = file_address(text, "--checkpoint_path")
        if here is None and "://" not in text:
            here = cluster_kind(str(record.get("cluster"))).machine_path(text, "--checkpoint_path")
        if here is not None:
            return str(Path(str(record.get("workdir", "/"))) / here)
    return None


def event_folders(root: Path) -> list[Path]:
    """Return the topmost folders below `root`, itself included, that hold files of events.

    Links to folders are not followed; a search that finds too much ends early.
    """
    return [] if root.is_symlink() else list(_topmost(str(root)))


def _topmost(root: str) -> Iterator[Path]:
    left, found = _MOST_NAMES, 0
    waiting = [(root, 0)]
    while waiting and left > 0 and found < _MOST_FOUND:
        folder, depth = waiting.pop()
        below, events = [], False
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    left -= 1
                    if entry.is_dir(follow_symlinks=False):
                        below.append(entry.path)
                    elif EVENTS in entry.name:
                        events = True
                    if left <= 0:
                        break
        except OSError:
            continue
        if events:
            found += 1
            yield Path(folder)
        elif depth < _DEEPEST:
            waiting += [(path, depth + 1) for path in sorted(below, reverse=True)]


def event_files(root: Path) -> Iterator[Path]:
    """Yield the files of events at and below `root`, in the order of their names; bounded too."""
    left = _MOST_NAMES
    for folder, folders, names in os.walk(root):
        folders.sort()
        left -= len(folders) + len(names)
        if left <= 0 or folder.count("/") - str(root).count("/") > _DEEPEST:
            folders.clear()
        yield from (Path(folder, name) for name in sorted(names) if EVENTS in name)


# One folder that TensorBoard reads: links to wherever jobs keep events, renewed while they run.


class LinkedFolder:
    """A folder of links.

    Parameters
    ----------
    root
        It is made, and emptied.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._links: dict[str, str] = {}
        with suppress(FileNotFoundError):
            shutil.rmtree(root)
        make_private(root)

    def renew(self, sources: Iterable[Source]) -> None:
        """Link every folder of events of `sources` by its run's name; what is gone goes.

        Raises
        ------
        OSError
            The folder cannot be written.
        """
        links = {}
        for source in sources:
            place = Path(source.place)
            for folder in event_folders(place):
                below = folder.relative_to(place).as_posix()
                links[source.name if below == "." else f"{source.name}/{below}"] = str(folder)
        for name in [name for name in self._links if links.get(name) != self._links[name]]:
            self._remove(name)
        for name in sorted(links.keys() - self._links.keys()):
            self._add(name, links[name])

    def remove(self) -> None:
        """Remove all of it."""
        shutil.rmtree(self.root, ignore_errors=True)

    def _add(self, name: str, folder: str) -> None:
        link = self.root / name
        make_private(link.parent)
        with suppress(FileExistsError):
            link.symlink_to(folder)
        self._links[name] = folder

    def _remove(self, name: str) -> None:
        link = self.root / name
        with suppress(FileNotFoundError):
            link.unlink()
        del self._links[name]
        with suppress(OSError):  # others still lie there
            while link.parent != self.root:
                link = link.parent
                link.rmdir()
