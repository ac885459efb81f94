"""What lies in HDFS for jobs: named by its content, sent once, removed when nobody uses it."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from submarine_engine.clusters.layers import digest_of
from submarine_engine.clusters.yarn.hdfs import Hdfs
from submarine_engine.history import JobPaths

if TYPE_CHECKING:
    from submarine_engine.clusters.layers import Layer


# What lies in HDFS for jobs: named by its content, sent once, removed when nobody uses it.
#
# ::
#
#     <home in HDFS>/.submarine/          0700
#         cache/<sha256><suffix>          0600: payloads, large values, layers of environments
#         jobs/<job id>/                  outcome.json and results/
#         logs/<job id>/                  what its containers bring, see `log_transport`; gone with
#   its end
#         checkpoints/<job id>/           of jobs that name no folder for them; of all attempts
#         events/<job id>/                what the TensorBoard beside it reads; likewise


Went = Callable[[int], object] | None

LARGE = 1 << 20
"""Bytes from which on a file of a bundle is sent by itself: the next job may have it, too."""

LARGE_SUFFIX = ".file"
_FOLDER = ".submarine"
# Written to this rarely, "touched when used" costs a job nothing.
_FRESH = 24 * 3600.0
# Half an upload belongs to somebody who still writes it, for a while.
_UNFINISHED = 24 * 3600.0


def upload_once(hdfs: Hdfs, data: bytes | Path, suffix: str) -> str:
    """Put content into HDFS unless it is there; one request where it is.

    Parameters
    ----------
    hdfs
        The user's.
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
    """Do as `upload_once`; return the path and how many bytes were sent, 0 where it was there.

    Parameters
    ----------
    hdfs, data, suffix
        As `upload_once` has them.
    went
        Called with the number of bytes of each piece of a file that went; None for nobody.
    """
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
    hdfs
        The user's.
    key
        Hash of what the file is made from, so that it need not be made to be found.
    suffix
        What the name ends in there.
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
    """Return where content of that hash lies.

    Parameters
    ----------
    hdfs
        The user's.
    key
        The content's SHA-256.
    suffix
        What the file's name ends in.
    """
    return f"{hdfs.home}/{_FOLDER}/cache/{key}{suffix}"


def in_cache(hdfs: Hdfs, path: str, size: int | None = None) -> bool:
    """Tell whether a file is there; it counts as used from then on.

    One of another size than `size` is removed.

    Parameters
    ----------
    hdfs
        The user's.
    path
        As `cache_path` gives it.
    size
        In bytes; None where that is not known.
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
    hdfs
        The user's.
    job_id
        The job's id.
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
    """Return the folder of the job `job_id` in `hdfs`.

    Raises
    ------
    JobNotFoundError
        `job_id` cannot be one.
    """
    JobPaths(Path(), job_id)  # refuses what is no id
    return f"{hdfs.home}/{_FOLDER}/jobs/{job_id}"


def checkpoint_folder(hdfs: Hdfs, job_id: str) -> str:
    """Return where in `hdfs` checkpoints of `job_id` lie if it names no ``--checkpoint_path``."""
    return f"{hdfs.home}/{_FOLDER}/checkpoints/{job_id}"


def clean(hdfs: Hdfs, older_than: float, going_on: Collection[str] = ()) -> int:
    """Remove what nobody has used for `older_than` seconds; return how many files and folders.

    Half an upload goes after a day, and so do logs and events of a job at whose end HDFS was away.
    Where HDFS keeps no access times, what counts is when a file was sent.

    Parameters
    ----------
    hdfs
        The user's.
    going_on
        The ids of the jobs that are not over.
    """
    now = time.time()
    removed = 0
    for part in ("cache", "jobs", "checkpoints", "logs", "events"):
        for entry in hdfs.list(f"{hdfs.home}/{_FOLDER}/{part}"):
            left = part in ("logs", "events") or entry.path.endswith(".part")
            limit = min(older_than, _UNFINISHED) if left else older_than
            if now - entry.used > limit and entry.path.rpartition("/")[2] not in going_on:
                hdfs.remove(entry.path)
                removed += 1
    return removed


# Parts of an environment on their way to HDFS, and what is said of them meanwhile.


Tell = Callable[[str], object]
Sent = tuple[str, int]
"""Where it lies in HDFS, and how many bytes were sent for it: 0 where it was there."""

_AT_ONCE = 4
_EVERY = 2.0  # seconds between two lines on one upload: people read them, below a cell
_LOOK = 0.1  # seconds: it waits for the next word; only the end of all uploads is seen by looking


def send_layers(hdfs: Hdfs, layers: Sequence[Layer], tell: Tell) -> list[Sent]:
    """Bring the layers that are not in HDFS yet there, several at once.

    Parameters
    ----------
    hdfs
        The user's.
    layers
        All of the environment's.
    tell
        Called with a sentence whenever there is something to say, from the caller's own thread.

    Raises
    ------
    SubmissionError
        HDFS refuses.
    """
    said: SimpleQueue[str] = SimpleQueue()

    def send(layer: Layer) -> Sent:
        uploading = Uploading(layer.title, said.put)

        def make() -> Path:
            said.put(f"packing {layer.title} ({megabytes(layer.size)}), once")
            made = layer.write()
            uploading.begin(made.stat().st_size)
            return made

        return upload_made(hdfs, layer.key, ".tar.gz", make, uploading.went)

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        sending = [pool.submit(send, layer) for layer in layers]
        _pass_on(said, sending, tell)
    sent = [one.result() for one in sending]
    tell(_in_all(sent))
    return sent


def send_archive(hdfs: Hdfs, file: Path, suffix: str, tell: Tell) -> Sent:
    """Bring an archive of the user's there unless it is; raises as `send_layers`.

    Parameters
    ----------
    hdfs
        The user's.
    file
        The archive, on this machine.
    suffix
        What its name ends in there.
    tell
        Called with how far it is, in words.
    """
    uploading = Uploading(file.name, tell)
    uploading.begin(file.stat().st_size)
    sent = send_once(hdfs, file, suffix, uploading.went)
    tell(_in_all([sent]))
    return sent


def send_large(hdfs: Hdfs, bundle: Path, files: Sequence[Path], tell: Tell) -> dict[str, str]:
    """Bring the large files of a job's bundle there unless they are; raises as `send_layers`.

    Parameters
    ----------
    hdfs
        The user's.
    bundle
        The bundle's folder, in which `files` lie.
    files
        Those that are to be sent.
    tell
        Called with how far it is, in words.

    Returns
    -------
    dict
        The SHA-256 of each, by its path in the bundle.
    """
    sent = {}
    for file in files:
        name = file.relative_to(bundle).as_posix()
        uploading = Uploading(file.stem if name.startswith("values/") else name, tell)
        uploading.begin(file.stat().st_size)
        send_once(hdfs, file, LARGE_SUFFIX, uploading.went)
        sent[name] = digest_of(file)
    return sent


class Uploading:
    """Says that a file goes, and every two seconds how much of it went.

    Parameters
    ----------
    title
        What the file is called, for people.
    tell
        Called with each such sentence.
    """

    def __init__(self, title: str, tell: Tell) -> None:
        self._title = title
        self._tell = tell
        self._size = self._gone = 0
        self._said_at = 0.0

    def begin(self, size: int) -> None:
        """Begin with a file of `size` bytes; nothing is said until the first of them go."""
        self._size, self._gone = size, 0

    def went(self, count: int) -> None:
        """Count `count` bytes that went."""
        if not self._gone:
            self._said_at = time.monotonic()
            self._tell(f"uploading {self._title} ({megabytes(self._size)})")
        self._gone += count
        if time.monotonic() - self._said_at > _EVERY:
            self._said_at = time.monotonic()
            of = f"{megabytes(self._gone)} of {megabytes(self._size)}"
            self._tell(f"uploading {self._title}: {of}")


def _pass_on(said: SimpleQueue[str], sending: Sequence[Future[Sent]], tell: Tell) -> None:
    pending = True
    while pending:
        pending = not all(one.done() for one in sending)
        for say in iter(partial(_next, said, _LOOK if pending else 0.0), ""):
            tell(say)


def _next(said: SimpleQueue[str], patience: float) -> str:
    try:
        return said.get(timeout=patience)
    except Empty:
        return ""


def _in_all(sent: Sequence[Sent]) -> str:
    new = [size for _, size in sent if size]
    if not new:
        return "the environment is in HDFS already, as it was sent before"
    kept = len(sent) - len(new)
    before = f", {kept} of {len(sent)} parts were there already" if kept else ""
    return f"the environment is in HDFS: {megabytes(sum(new))} sent{before}"


def megabytes(size: int) -> str:
    """Return `size`, a number of bytes, for people."""
    return f"{size / 1e6:.0f} MB" if size >= 1e7 else f"{size / 1e6:.1f} MB"  # noqa: PLR2004
