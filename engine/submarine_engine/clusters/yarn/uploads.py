"""What lies in HDFS for jobs: named by its content, sent once, removed when nobody uses it.

::

    <home in HDFS>/.submarine/          0700
        cache/<sha256><suffix>          0600: payloads, large values, layers of environments
        jobs/<job id>/                  outcome.json and results/
        logs/<job id>/                  what its containers bring, see `channel`; gone with its end
        events/<job id>/                what the TensorBoard beside it reads; likewise
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Collection
from functools import lru_cache
from pathlib import Path

from submarine_engine.clusters.yarn.hdfs import Hdfs
from submarine_engine.history import JobPaths

Went = Callable[[int], object] | None

LARGE = 1 << 20
"""Bytes from which on a file of a bundle is sent by itself: the next job may have it, too."""

LARGE_SUFFIX = ".file"
_FOLDER = ".submarine"
_PIECE = 1 << 20
# Written to this rarely, "touched when used" costs a job nothing.
_FRESH = 24 * 3600.0
# Half an upload belongs to somebody who still writes it, for a while.
_UNFINISHED = 24 * 3600.0


def upload_once(hdfs: Hdfs, data: bytes | Path, suffix: str) -> str:
    """Put content into HDFS unless it is there; one request where it is.

    Parameters
    ----------
    data
        Bytes, or a file.
    suffix
        What the name ends in, as in ``.tar.gz``: YARN unpacks an archive by it.

    Returns
    -------
    str
        The path, absolute; the file is the user's alone.

    Raises
    ------
    SubmissionError
        HDFS refuses, in its own words; nothing is left behind.
    """
    return send_once(hdfs, data, suffix)[0]


def send_once(hdfs: Hdfs, data: bytes | Path, suffix: str, went: Went = None) -> tuple[str, int]:
    """Do as `upload_once`; return the path and how many bytes were sent, 0 where it was there."""
    size = data.stat().st_size if isinstance(data, Path) else len(data)
    path = cache_path(hdfs, digest_of(data), suffix)
    if in_cache(hdfs, path, size):
        return path, 0
    hdfs.put(data, path, replace=False, went=went)
    return path, size


def upload_made(
    hdfs: Hdfs, key: str, suffix: str, make: Callable[[], Path], went: Went = None
) -> tuple[str, int]:
    """Put into HDFS what `make` makes, unless something of that key is there.

    Parameters
    ----------
    key
        Hash of what the file is made from, so that it need not be made to be found.
    make
        Writes the file and returns where; called only if it is needed. The file is removed.
    went
        Called with the number of bytes of each piece of it that went.

    Returns
    -------
    path : str
        Where it lies in HDFS.
    sent : int
        Bytes that were sent for it: 0 where it was there.
    """
    path = cache_path(hdfs, key, suffix)
    # Uploads are renamed when they are whole, so what is there is whole.
    if in_cache(hdfs, path):
        return path, 0
    made = make()
    try:
        hdfs.put(made, path, replace=False, went=went)
        return path, made.stat().st_size
    finally:
        made.unlink()


def cache_path(hdfs: Hdfs, key: str, suffix: str) -> str:
    """Return where content of that hash lies."""
    return f"{hdfs.home}/{_FOLDER}/cache/{key}{suffix}"


def in_cache(hdfs: Hdfs, path: str, size: int | None = None) -> bool:
    """Tell whether a file is there; it counts as used from then on.

    One of another size than `size` is removed.
    """
    entry = hdfs.entry(path)
    if entry is None:
        return False
    if entry.folder or size not in (None, entry.size):
        hdfs.remove(path)
        return False
    if time.time() - entry.used > _FRESH:
        hdfs.touch(path)
    return True


def keep_results(hdfs: Hdfs, job_id: str, task: Path) -> str:
    """Copy what a task left behind to HDFS, where it outlives this machine.

    Called by the keeper once the container is gone: no GPU waits for HDFS.

    Parameters
    ----------
    task
        The folder with ``outcome.json`` and ``results/``.

    Returns
    -------
    str
        The folder in HDFS.
    """
    folder = job_folder(hdfs, job_id)
    kept = [task / "outcome.json", *sorted((task / "results").glob("*"))]
    for file in kept:
        if file.is_file():
            hdfs.put(file, f"{folder}/{file.relative_to(task).as_posix()}")
    return folder


def job_folder(hdfs: Hdfs, job_id: str) -> str:
    """Return the folder of a job in HDFS.

    Raises
    ------
    JobNotFoundError
        `job_id` cannot be one.
    """
    JobPaths(Path(), job_id)  # refuses what is no id
    return f"{hdfs.home}/{_FOLDER}/jobs/{job_id}"


def clean(hdfs: Hdfs, older_than: float, going_on: Collection[str] = ()) -> int:
    """Remove what nobody has used for `older_than` seconds; return how many files and folders.

    Half an upload goes after a day, and so do logs and events of a job at whose end HDFS was away.
    Where HDFS keeps no access times, what counts is when a file was sent.

    Parameters
    ----------
    going_on
        The ids of the jobs that are not over.
    """
    now = time.time()
    removed = 0
    for part in ("cache", "jobs", "logs", "events"):
        for entry in hdfs.list(f"{hdfs.home}/{_FOLDER}/{part}"):
            left = part in ("logs", "events") or entry.path.endswith(".part")
            limit = min(older_than, _UNFINISHED) if left else older_than
            if now - entry.used > limit and entry.path.rpartition("/")[2] not in going_on:
                hdfs.remove(entry.path)
                removed += 1
    return removed


def digest_of(data: bytes | Path) -> str:
    """Return the SHA-256 of bytes, or of a file, in hexadecimal."""
    if isinstance(data, bytes):
        return hashlib.sha256(data).hexdigest()
    status = data.stat()
    return _digest_of_file(data.absolute(), status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=64)
def _digest_of_file(path: Path, _size: int, _changed: int) -> str:
    """Read a file once for as long as it stays as it is: archives are of gigabytes."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
    return digest.hexdigest()
