"""Parts of an environment on their way to HDFS, and what is said of them meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from submarine_engine.clusters.yarn import uploads

if TYPE_CHECKING:
    from submarine_engine.clusters.yarn.hdfs import Hdfs
    from submarine_engine.clusters.yarn.packing import Layer

Tell = Callable[[str], object]
Sent = tuple[str, int]
"""Where it lies in HDFS, and how many bytes were sent for it: 0 where it was there."""

_AT_ONCE = 4
_EVERY = 2.0
_LOOK = 0.1


def send_layers(hdfs: Hdfs, layers: Sequence[Layer], tell: Tell) -> list[Sent]:
    """Bring the layers that are not in HDFS yet there, several at once.

    Parameters
    ----------
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

        return uploads.upload_made(hdfs, layer.key, ".tar.gz", make, uploading.went)

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        sending = [pool.submit(send, layer) for layer in layers]
        _pass_on(said, sending, tell)
    sent = [one.result() for one in sending]
    tell(_in_all(sent))
    return sent


def send_archive(hdfs: Hdfs, file: Path, suffix: str, tell: Tell) -> Sent:
    """Bring an archive of the user's there unless it is; raises as `send_layers`."""
    uploading = Uploading(file.name, tell)
    uploading.begin(file.stat().st_size)
    sent = uploads.send_once(hdfs, file, suffix, uploading.went)
    tell(_in_all([sent]))
    return sent


def send_large(hdfs: Hdfs, bundle: Path, files: Sequence[Path], tell: Tell) -> dict[str, str]:
    """Bring the large files of a job's bundle there unless they are; raises as `send_layers`.

    Parameters
    ----------
    bundle
        The bundle's folder, in which `files` lie.

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
        uploads.send_once(hdfs, file, uploads.LARGE_SUFFIX, uploading.went)
        sent[name] = uploads.digest_of(file)
    return sent


class Uploading:
    """Says that a file goes, and every two seconds how much of it went."""

    def __init__(self, title: str, tell: Tell) -> None:
        self._title = title
        self._tell = tell
        self._size = self._gone = 0
        self._said_at = 0.0

    def begin(self, size: int) -> None:
        """Begin with a file of `size` bytes; nothing is said until the first of them go."""
        self._size, self._gone = size, 0

    def went(self, count: int) -> None:
        """Count bytes that went."""
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
    """Return a number of bytes for people."""
    return f"{size / 1e6:.0f} MB" if size >= 1e7 else f"{size / 1e6:.1f} MB"  # noqa: PLR2004
