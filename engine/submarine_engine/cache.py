"""Remembered results: a job whose like has succeeded is not run again.

What is remembered is which job had a result, under the key of all that the result depends on
(`submarine_engine.cache_key`). The result itself stays in that job's folder, its record, and is
checked and loaded from there as that job's own always is; where the folder is gone or has changed,
the job runs again and says why.

A job is noted as it is submitted, and counts once it has succeeded: one that outlives its notebook
is remembered, too, and one that fails or is cancelled never is. Two that are the same and run at
the same time both run.

``<home>/cache/`` holds an entry ``<key>.json`` for each key; its time is that of its last use, and
the entries that were not used for longest are removed beyond the setting `cache_limit`. An entry is
read in one piece, so that one which is removed meanwhile is still whole to its reader.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from submarine_runtime.frames import FILE

from submarine_engine.cache_key import FileDigests, Key, Part, key_of
from submarine_engine.clusters import locks
from submarine_engine.config import load_config
from submarine_engine.errors import (
    CommandError,
    ConfigError,
    JobNotFoundError,
    SubmarineError,
    UnsupportedError,
)
from submarine_engine.future import Job
from submarine_engine.history import (
    JobPaths,
    check_home,
    default_home,
    find_job,
    is_job_id,
    make_private,
    read_foreign,
    read_json,
    shown_user,
    write_aside,
    write_first,
    write_json,
)
from submarine_engine.job import JobState
from submarine_engine.outcome import clean, read_outcome

if TYPE_CHECKING:
    from submarine_engine.bundle import Bundle
    from submarine_engine.clusters.base import Cluster
    from submarine_engine.job import JobSpec
    from submarine_engine.lifecycle import JobStatus

VERSION = 1
_LARGEST = 4 << 20
_MOST_JOBS = 4
_MOST_CHANGES = 3
_PATIENCE = 5.0  # seconds: the lock is held while an entry is written; longer is a stopped process
_LEFT = 3600.0
"""Seconds after which nobody writes any more to a file under a temporary name."""
_KEY = re.compile(r"[0-9a-f]{64}")

Stamp = tuple[str, int, int]
"""A file of a result: its path in the job's folder, its size, and when it was written."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What is remembered under one key.

    Parameters
    ----------
    key
        In hexadecimal.
    name, cluster
        Of the job that was noted last.
    origin
        The cell, function or file that the job is of.
    used
        When it was used last, in seconds since 1970.
    parts
        What the key is made of.
    jobs
        The jobs that had it, the newest first; with the files of its result once it is over.
    """

    key: str
    name: str
    cluster: str
    origin: str
    used: float
    parts: tuple[Part, ...]
    jobs: Mapping[str, tuple[Stamp, ...] | None]

    @property
    def job(self) -> str:
        """The job that was noted last."""
        return next(iter(self.jobs), "")

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form, without what the key is made of."""
        return {
            "key": self.key,
            "name": self.name,
            "cluster": self.cluster,
            "origin": self.origin,
            "used": self.used,
            "jobs": list(self.jobs),
        }


@dataclass(frozen=True, slots=True)
class Caching:
    """That a result may be remembered, as whoever submits the job says it.

    Parameters
    ----------
    refresh
        Whether the job runs in any case, and its result is remembered in place of an earlier one.
    origin
        What the job is of, the same each time: a notebook and its cell's id, a file.
    where_possible
        Whether a job whose result cannot be remembered runs all the same; else it is refused.
    """

    refresh: bool = False
    origin: str = ""
    where_possible: bool = False

    @classmethod
    def of(cls, values: Mapping[str, Any], origin: str) -> Caching | None:
        """Return what the options of ``job run`` say.

        Parameters
        ----------
        values
            What was given, by key.
        origin
            As in `Caching`.
        """
        refresh = bool(values.get("refresh"))
        return cls(refresh, origin) if refresh or values.get("cache") else None


@dataclass(frozen=True, slots=True)
class CacheLookup:
    """What a look for a result found.

    Parameters
    ----------
    job
        The job that had it; None where it is to be run.
    why
        Why none is used although there was one, or what has changed; empty for the first run.
    """

    job: Job | None
    why: str = ""


class Cache:
    """What is remembered in one home.

    Parameters
    ----------
    home
        Where the jobs are kept.
    """

    def __init__(self, home: Path | None = None) -> None:
        self.home = home or default_home()
        self.root = self.home / "cache"

    # The key.

    def key(
        self,
        cluster: Cluster,
        spec: JobSpec,
        bundle: Bundle,
        workdir: Path,
    ) -> Key:
        """Return what the result of a job depends on; raises as `cache_key.key_of` does.

        Parameters
        ----------
        cluster, spec, bundle, workdir
            As `Cluster.submit` is given them.
        """
        digests = FileDigests(self.root / "files", cluster.tell)
        salt = self._salt()
        key = key_of(cluster, spec, bundle, workdir=workdir.absolute(), digests=digests, salt=salt)
        with suppress(OSError):  # they are computed anew next time
            digests.keep()
        return key

    def _salt(self) -> bytes:
        """Return what values of variables are hashed with: without it, nobody can try them out."""
        path = self.root / "salt"
        with suppress(OSError):
            if len(found := read_foreign(path, 64)) == 32:  # noqa: PLR2004 - as written below
                return found
        made = os.urandom(32)
        with suppress(OSError):
            self._make()
            write_first(path, made)
            if len(found := read_foreign(path, 64)) == 32:  # noqa: PLR2004 - as above
                return found
            write_aside(path, made)  # it was spoilt
        return made

    def _make(self) -> None:
        check_home(self.home)
        make_private(self.root)
        self._check()

    def _check(self) -> None:
        """Refuse a folder that somebody else may change: it would choose what is loaded."""
        told = self.root.lstat()
        if not stat.S_ISDIR(told.st_mode) or told.st_uid != os.getuid() or told.st_mode & 0o022:
            raise PermissionError(f"{self.root} is not this user's alone")

    # Looking.

    def lookup(
        self, cluster: Cluster, key: Key, origin: str = "", bundle: Bundle | None = None
    ) -> CacheLookup:
        """Look for a result.

        Parameters
        ----------
        cluster
            Where its job ran.
        key
            What it depends on.
        origin
            What the job is of, to tell what has changed since.
        bundle
            Of the job that is to run.
        """
        path = self._path(key.digest)
        try:
            entry = self._read(path)
        except FileNotFoundError:
            return CacheLookup(None, self.changes(key, origin))
        except (OSError, ValueError) as error:
            return CacheLookup(None, f"what was remembered cannot be read: {error}")
        why = ""
        for job_id, stamps in entry.jobs.items():
            try:
                job = self._job(cluster, job_id, stamps, bundle)
            except _UnusableError as error:
                why = why or str(error)
                continue
            with suppress(OSError):
                if stamps is None:
                    self._seal(entry, job_id)
                os.utime(path)
            return CacheLookup(job)
        return CacheLookup(None, why)

    def _job(
        self,
        cluster: Cluster,
        job_id: str,
        stamps: tuple[Stamp, ...] | None,
        bundle: Bundle | None,
    ) -> Job:
        """Return a job whose result is there and whole.

        Raises
        ------
        _UnusableError
            It is not, with the reason; without one where the job did not succeed.
        """
        job = Job(cluster, job_id)
        try:
            paths = JobPaths(self.home, job_id)
            if paths.root.lstat().st_uid != os.getuid():
                raise _UnusableError(f"the folder of job {job_id} is another user's")
            status = job.status()
            if not status.state.final:
                raise _UnusableError(f"the same runs now, as job {job_id}")
            if status.state is not JobState.SUCCEEDED:
                raise _UnusableError
            if stamps is not None and stamps != _stamps(paths):
                raise _UnusableError(f"the files of job {job_id}, which had this result, changed")
            _check_whole(job, status, bundle)
        except (JobNotFoundError, FileNotFoundError) as error:
            raise _UnusableError(f"job {job_id}, which had this result, was removed") from error
        except (SubmarineError, OSError, ValueError) as error:
            why = clean(str(error))
            raise _UnusableError(f"the result of job {job_id} cannot be used: {why}") from error
        job.remembered = self._words(job)
        return job

    def _words(self, job: Job) -> str:
        name = str(self._spec(job.id).get("name", job.id))
        finished = job.status().finished
        return f"from {_moment(finished.wall) if finished else 'an earlier day'}, job {clean(name)}"

    def _spec(self, job_id: str) -> dict[str, Any]:
        with suppress(OSError, ValueError, TypeError, AttributeError):
            found = json.loads(JobPaths(self.home, job_id).record.read_bytes())["spec"]
            return found if isinstance(found, dict) else {}
        return {}

    def changes(self, key: Key, origin: str) -> str:
        """Return in words what changed since the last run of the same cell; empty where none was.

        Parameters
        ----------
        key
            Of the run that is to come.
        origin
            The cell, as it was noted.
        """
        found = self.all_changes(key, origin)
        more = len(found) - _MOST_CHANGES
        return "; ".join(found[:_MOST_CHANGES]) + (f"; and {more} more" if more > 0 else "")

    def all_changes(self, key: Key, origin: str) -> list[str]:
        """Return each change since the last run of the same cell, in words.

        Parameters
        ----------
        key, origin
            As for `changes`.
        """
        with suppress(OSError, ValueError):
            last = read_foreign(self._last(origin), 64).decode()
            if last != key.digest:
                return key.changes(self._read(self._path(last)).parts)
        return []

    # Noting.

    def note(self, key: Key, job_id: str, caching: Caching, cluster: str, name: str) -> None:
        """Note that a job is to have the result of a key.

        Parameters
        ----------
        key
            What its result depends on.
        job_id
            The job's id.
        caching
            As it was submitted with.
        cluster, name
            The job's.

        Raises
        ------
        OSError
            It cannot be written; the job runs all the same.
        """
        self._make()
        with self._locked():
            jobs: dict[str, tuple[Stamp, ...] | None] = {job_id: None}
            with suppress(OSError, ValueError):
                jobs |= self._read(self._path(key.digest)).jobs
            kept = dict(list(jobs.items())[:_MOST_JOBS])
            self._write(
                Entry(key.digest, name, cluster, caching.origin, time.time(), key.parts, kept)
            )
            if caching.origin:
                write_aside(self._last(caching.origin), key.digest.encode())
            self._shrink(key.digest)

    def _seal(self, entry: Entry, job_id: str) -> None:
        """Note the files of a result with their times and sizes, so that a change is noticed.

        Raises
        ------
        OSError
            They cannot be read, or that cannot be written.
        """
        with self._locked():
            with suppress(ValueError):
                entry = self._read(self._path(entry.key))  # another job may be on it by now
            if job_id in entry.jobs:
                stamps = _stamps(JobPaths(self.home, job_id))
                self._write(
                    Entry(entry.key, entry.name, entry.cluster, entry.origin, entry.used,
                          entry.parts, {**entry.jobs, job_id: stamps})
                )  # fmt: skip

    def _write(self, entry: Entry) -> None:
        data = {
            "version": VERSION,
            "key": entry.key,
            "name": entry.name,
            "cluster": entry.cluster,
            "origin": entry.origin,
            "parts": [part.to_json() for part in entry.parts],
            "jobs": [[job_id, stamps] for job_id, stamps in entry.jobs.items()],
        }
        write_json(self._path(entry.key), data)

    def _shrink(self, kept: str) -> None:
        """Remove the entries that were not used for longest, as far as all take too much room.

        And what a writer that was killed has left under a temporary name.
        """
        for path in self.root.glob(".*"):
            with suppress(OSError):
                if time.time() - path.lstat().st_mtime > _LEFT:
                    path.unlink()
        room = int(load_config().value("cache_limit"))
        for found in sorted(self._files(), key=lambda one: one[1].st_mtime, reverse=True):
            path, told = found
            room -= told.st_size
            if room < 0 and path.stem != kept:
                with suppress(OSError):
                    path.unlink()
        for path in self.root.glob("*.last"):
            with suppress(OSError):
                if not self._path(read_foreign(path, 64).decode(errors="replace")).exists():
                    path.unlink()

    # What is there.

    def entries(self) -> list[Entry]:
        """Return all that is remembered, that which was used last first.

        Entries that cannot be read are passed over: the next run of their key writes them anew.
        """
        found = []
        for path, _ in self._files():
            with suppress(OSError, ValueError):
                found.append(self._read(path))
        return sorted(found, key=lambda entry: -entry.used)

    def size(self) -> int:
        """Return the bytes of all entries."""
        return sum(told.st_size for _, told in self._files())

    def clear(self, jobs: Sequence[str] = ()) -> int:
        """Forget the results of some jobs, or all; the jobs stay on record.

        Parameters
        ----------
        jobs
            Ids; all where empty.

        Returns
        -------
        int
            How many were forgotten.

        Raises
        ------
        OSError
            They cannot be removed.
        """
        if not self.root.exists():
            return 0
        self._check()
        gone = 0
        with self._locked():
            for path, _ in self._files():
                if jobs:
                    try:
                        entry = self._read(path)
                    except (OSError, ValueError):
                        continue
                    if not {*entry.jobs} & {*jobs}:
                        continue
                path.unlink(missing_ok=True)
                gone += 1
            if not jobs:
                for path in self.root.glob("*.last"):
                    path.unlink(missing_ok=True)
        return gone

    def _files(self) -> Iterator[tuple[Path, os.stat_result]]:
        with suppress(OSError):
            for one in list(os.scandir(self.root)):
                if one.name.endswith(".json") and _KEY.fullmatch(one.name[:-5]):
                    with suppress(OSError):
                        yield Path(one.path), one.stat(follow_symlinks=False)

    def _path(self, key: str) -> Path:
        if not _KEY.fullmatch(key):
            raise ValueError(f"no key: {key!r}")
        return self.root / f"{key}.json"

    def _last(self, origin: str) -> Path:
        return self.root / f"{hashlib.sha256(origin.encode(errors='replace')).hexdigest()}.last"

    def _read(self, path: Path) -> Entry:
        """Read an entry, every field checked.

        Raises
        ------
        FileNotFoundError
            There is none.
        OSError
            It cannot be read, or the folder is not this user's alone.
        ValueError
            It is none, or of a later release.
        """
        content = read_foreign(path, _LARGEST)
        self._check()
        used = path.stat().st_mtime
        try:
            data = json.loads(content)
            if data["version"] != VERSION:
                raise ValueError(f"an entry of version {data['version']!r} cannot be read")
            entry = Entry(
                key=str(data["key"]),
                name=clean(str(data["name"])),
                cluster=clean(str(data["cluster"])),
                origin=clean(str(data["origin"])),
                used=used,
                parts=tuple(map(Part.from_json, data["parts"])),
                jobs={_job_id(job_id): _read_stamps(stamps) for job_id, stamps in data["jobs"]},
            )
        except (KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ValueError(f"{path.name} is no entry of the cache") from error
        # Its name is its promise: an entry under another one's name would be a wrong hit.
        if entry.key != path.stem or Key(entry.parts).digest != entry.key:
            raise ValueError(f"the cache entry {path.name} does not match its file name")
        return entry

    @contextmanager
    def _locked(self) -> Iterator[None]:
        descriptor = locks.take(self.root / "lock", wait=_PATIENCE)
        if descriptor is None:
            raise TimeoutError(f"somebody else has held {self.root / 'lock'} for too long")
        try:
            yield
        finally:
            locks.drop(descriptor)


class _UnusableError(Exception):
    """A job that was noted has no result to be used."""


def _check_whole(job: Job, status: JobStatus, bundle: Bundle | None) -> None:
    """Check that what a job left behind is all there, and fits the notebook as it is now.

    Raises
    ------
    OSError, ValueError
        It is not.
    _UnusableError
        It is, and does not fit.
    """
    for task in status.tasks:
        folder = job.cluster.results(job.id, task.task)
        outcome = read_outcome(folder)
        if outcome is None:
            raise FileNotFoundError(f"there is no {folder / 'outcome.json'}")
        for stored in (outcome.result, *outcome.outputs.values()):
            if stored.file is not None:
                (folder / "results" / stored.file).stat()
        went = outcome.home
        if went is None:
            continue
        if went.size and (folder / "results" / FILE).stat().st_size != went.size:
            raise ValueError("it is cut off")
        if bundle is not None and task.task == status.ranked[0].task:
            # What the cell deletes goes from a notebook that has it, and the job told only of names
            # that the notebook had then: what came home was not deleted.
            manifest = read_json(folder.parent.parent / "bundle" / "manifest.json") or {}
            new = {*bundle.manifest.shadows} - {*manifest.get("shadows", ())}
            came = {frame.name for frame in went.frames if frame.kind == "name"}
            if new - came - {*went.defined} - {one.name for one in went.stayed}:
                raise _UnusableError("the notebook has names by now that the earlier run had not")


def _job_id(text: object) -> str:
    if not isinstance(text, str) or not is_job_id(text):
        raise ValueError(f"no job id: {text!r}")
    return text


def _read_stamps(data: object) -> tuple[Stamp, ...] | None:
    if data is None:
        return None
    if not isinstance(data, list):
        raise ValueError("no files of a result")  # noqa: TRY004 - as other bad values
    return tuple((str(path), int(size), int(at)) for path, size, at in data)


def _stamps(paths: JobPaths) -> tuple[Stamp, ...]:
    """Return the files of a job's result: of its bundle, and what its tasks left behind.

    Raises
    ------
    OSError
        One cannot be looked at.
    """
    found = [path for path in paths.bundle.rglob("*") if path.is_file()]
    for task in (paths.root / "tasks").iterdir():
        found += [task / "outcome.json", *(task / "results").glob("*")]
        found += [
            log for log in (task / "stdout", task / "stderr", task / "displays") if log.exists()
        ]
    told = ((path, path.lstat()) for path in sorted(found) if path.exists())
    return tuple(
        (str(path.relative_to(paths.root)), one.st_size, one.st_mtime_ns) for path, one in told
    )


def _moment(wall: float) -> str:
    there = time.localtime(wall)
    same_day = there[:3] == time.localtime()[:3]
    return time.strftime("%H:%M" if same_day else "%Y-%m-%d %H:%M", there)


def submit(
    cluster: Cluster,
    spec: JobSpec,
    bundle: Bundle,
    *,
    workdir: Path,
    caching: Caching | None = None,
) -> Job:
    """Submit a job, or return the one that had its result already.

    Parameters
    ----------
    cluster, spec, bundle, workdir
        As `Cluster.submit` has them.
    caching
        That its result may be remembered; None runs it and remembers nothing.

    Returns
    -------
    Job
        Where it is an earlier one, `Job.remembered` says so in words.

    Raises
    ------
    SubmarineError
        As `Cluster.submit` and `Cache.key` do.
    """
    if caching is None:
        return Job(cluster, cluster.submit(spec, bundle, workdir=workdir))
    cache = Cache(getattr(cluster, "home", None))
    try:
        key = cache.key(cluster, spec, bundle, workdir)
    except (CommandError, UnsupportedError) as error:
        if not caching.where_possible:
            raise
        cluster.tell(f"the result will not be remembered: {error.what}")
        return Job(cluster, cluster.submit(spec, bundle, workdir=workdir))
    if not caching.refresh:
        found = cache.lookup(cluster, key, caching.origin, bundle)
        if found.job is not None:
            return found.job
        if found.why:
            cluster.tell(f"runs again: {found.why}")
    job = Job(cluster, cluster.submit(spec, bundle, workdir=workdir))
    try:
        cache.note(key, job.id, caching, cluster.name, spec.name)
    except (OSError, SubmarineError) as error:
        cluster.tell(f"the result will not be remembered: {error}")
    return job


def forget(jobs: Sequence[str] = ()) -> int:
    """Forget the results of jobs, or all; return how many were forgotten.

    Parameters
    ----------
    jobs
        Ids, ends of ids or names; all where empty.

    Raises
    ------
    JobNotFoundError
        There is no such job; nothing was forgotten then.
    ConfigError
        The folder of what is remembered cannot be used.
    """
    cache = Cache()
    try:
        return cache.clear([find_job(cache.home, one, shown_user()).job_id for one in jobs])
    except OSError as error:
        raise ConfigError(
            f"what is remembered cannot be forgotten: {error.strerror or error}",
            where=str(cache.root),
            fix="see whether that folder is yours alone and its disk has room; else remove it",
        ) from error


def explained(
    cluster: Cluster, spec: JobSpec, bundle: Bundle, workdir: Path, caching: Caching
) -> Iterator[str]:
    """Yield what a result depends on, and whether it is remembered, a line each.

    Parameters
    ----------
    cluster, spec, bundle, workdir, caching
        As `submit` has them.

    Raises
    ------
    SubmarineError
        As `Cache.key`.
    """
    cache = Cache(getattr(cluster, "home", None))
    key = cache.key(cluster, spec, bundle, workdir)
    yield f"the result depends on (key {key.digest[:12]}):"
    yield from (f"  {line}" for line in key.summary())
    found = cache.lookup(cluster, key, caching.origin, bundle)
    if found.job is not None:
        yield f"it is remembered, {found.job.remembered}"
        return
    yield "it is not remembered: the job would run"
    if changes := cache.all_changes(key, caching.origin):
        yield "since the last run:"
        yield from (f"  {line}" for line in changes)
    elif found.why:
        yield f"  {found.why}"
