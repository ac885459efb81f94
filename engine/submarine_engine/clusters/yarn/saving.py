"""Asking a job on YARN for its model: a signal there, and the way of its logs back."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from submarine_engine.clusters import saving
from submarine_engine.clusters.datapaths import file_address
from submarine_engine.clusters.saved import Saved
from submarine_engine.clusters.saving import notes
from submarine_engine.clusters.saving.checkpoints import FolderStorage, Storage
from submarine_engine.clusters.saving.notes import Note
from submarine_engine.clusters.yarn.channel import LogChannel
from submarine_engine.clusters.yarn.hdfs import open_hdfs
from submarine_engine.clusters.yarn.hdfslogs import Channel
from submarine_engine.clusters.yarn.hdfssaving import HdfsStorage, HdfsTarget, hdfs_path
from submarine_engine.clusters.yarn.unpacking import unpack
from submarine_engine.config import load_config
from submarine_engine.errors import ClusterError, SaveError, UnsupportedError
from submarine_engine.history import JobPaths, read_json

if TYPE_CHECKING:
    from submarine_engine.clusters.yarn.hadoop import HadoopConf
    from submarine_engine.clusters.yarn.hdfs import Hdfs
    from submarine_engine.clusters.yarn.mirrorlog import LogSource
    from submarine_engine.clusters.yarn.rest import ResourceManager
    from submarine_engine.lifecycle import JobStatus

_SIGNAL = "OUTPUT_THREAD_DUMP"  # SIGQUIT; the others that YARN can send end a container
_AGAIN = 20.0
"""Seconds after which a signal counts as lost: it comes with a heartbeat of the node's."""

_LOOK = 0.1
_LARGEST_NOTE = 1 << 22
_ARRIVAL = 120.0


def save_yarn(asked: saving.Asked, path: str, conf: HadoopConf, rm: ResourceManager) -> Saved:
    """Bring the model of a running job to a folder of this machine or of HDFS.

    Nobody but who asks takes part in it: the keeper, and other readers, go on meanwhile.
    """
    files = _Opened(conf)
    kept = (read_json(asked.paths.record) or {}).get("spec", {}).get("checkpoint_path")
    try:
        storage = _storage(kept, files) if kept else None
        target: saving.Target
        if (there := hdfs_path(path, conf)) is not None:
            target = HdfsTarget(files(), there, asked.paths.root)
        else:
            target = saving.FolderTarget(_here(path))
        wanted = load_config().value("yarn_logs")
        channel = LogChannel(conf, rm, files.or_none, wanted)
        with closing(_Signalled(asked.paths, asked.status, rm, channel)) as hook:
            return saving.save(asked, target, hook, storage)
    finally:
        files.close()


def _here(path: str) -> Path:
    if (here := file_address(path, "save to")) is not None:
        return here
    if "://" in path:
        raise UnsupportedError(
            f"a model can be brought to this machine and to this cluster's HDFS, not to {path}",
            where="save to",
            fix="name a folder, or hdfs:///PATH, and bring it on from there",
        )
    return Path(path).absolute()


def _storage(kept: str, files: _Opened) -> Storage | None:
    with suppress(UnsupportedError):  # in another HDFS, or on another machine
        if (there := hdfs_path(kept, files.conf)) is not None:
            return HdfsStorage(files, there)
        if (here := file_address(kept, "--checkpoint_path")) is not None:
            return FolderStorage(here)
    return None  # what it means is known to the job's own code alone


class _Opened:
    """The user's HDFS, opened when it is needed."""

    def __init__(self, conf: HadoopConf) -> None:
        self.conf = conf
        self._hdfs: Hdfs | None = None

    def __call__(self) -> Hdfs:
        hdfs = self.or_none()
        if hdfs is None:
            raise ClusterError(
                "HDFS does not answer",
                where=self.conf.default_fs,
                fix="see `submarine doctor --cluster yarn`",
            )
        return hdfs

    def or_none(self) -> Hdfs | None:
        self._hdfs = self._hdfs or open_hdfs(self.conf)
        return self._hdfs

    def close(self) -> None:
        if self._hdfs is not None:
            self._hdfs.close()


class _Signalled:
    """The way to the function of a task in a container."""

    def __init__(
        self,
        paths: JobPaths,
        status: Callable[[], JobStatus],
        rm: ResourceManager,
        channel: LogChannel,
    ) -> None:
        self._paths = paths
        self._status = status
        self._rm = rm
        self._channel = channel
        self._sources: dict[str, LogSource] = {}

    def close(self) -> None:
        """Close the ways to the containers."""
        for source in self._sources.values():
            source.close()

    @property
    def unseen(self) -> str:
        """Why no function can be seen from here."""
        choice = self._channel.choice()
        if choice.channel is Channel.AFTER:
            return f"its containers cannot be reached from here: {choice.why}"
        return ""

    def find(self) -> str | None:
        """Return the task that has a function."""
        for task in saving.in_order(self._status()):
            found = self._source(task)
            if found is not None and self._note(found) is not None:
                return task
        return None

    def ask(self, task: str, folder: Path, until: float) -> None:
        """Have its files written there, packed, and brought here."""
        source = self._source(task)
        before = self._note(source) if source else None
        if source is None or before is None:
            raise notes.ended(self._paths.job_id)
        if before.state == "saving":
            raise notes.busy(before, self._paths.job_id)
        note = self._wait(source, before, until)
        if note.state == "failed":
            raise notes.failed(note, self._paths.job_id, self._paths.task(task).root)
        self._bring(source, note, folder)

    def _wait(self, source: LogSource, before: Note, until: float) -> Note:
        ring_at = 0.0
        while True:
            note = self._note(source) or before
            heard = note.number != before.number
            if heard and note.state != "saving":
                return note
            self._expect_alive()
            now = time.monotonic()
            if now > until:
                job_id = self._paths.job_id
                raise notes.hangs(job_id) if heard else notes.unheard(job_id)
            if not heard and now >= ring_at:
                self._rm.signal(source.container, _SIGNAL)
                ring_at = now + _AGAIN
            time.sleep(_LOOK)

    def _bring(self, source: LogSource, note: Note, folder: Path) -> None:
        names = [f"save.{number:04d}" for number in range(len(note.pieces))]
        wanted = dict(zip(names, note.pieces, strict=True))
        until = time.monotonic() + _ARRIVAL
        while wanted.items() - source.sizes().items():  # by HDFS they come one after the other
            self._expect_alive()
            if time.monotonic() > until:
                raise SaveError(
                    "the saved model does not arrive: it is in the container's log folder, and "
                    "what brings its files here does not bring it",
                    job_id=self._paths.job_id,
                    fix="see `submarine doctor --cluster yarn`",
                )
            time.sleep(_LOOK)
        try:
            unpack(source.read, wanted, note.sha256, folder)
        except ClusterError:
            self._expect_alive()
            raise
        self._channel.forget(self._paths.job_id, source.container, names)

    def _expect_alive(self) -> None:
        if self._status().state.final:
            raise notes.ended(self._paths.job_id)

    def _source(self, task: str) -> LogSource | None:
        noted = read_json(self._paths.root / "yarn.json") or {}
        found = noted.get("containers", {}).get(task)
        if not found:
            return None
        container, node = str(found[0]), str(found[1])
        if container not in self._sources:
            self._sources[container] = self._channel.source(self._paths.job_id, container, node)
        return self._sources[container]

    def _note(self, source: LogSource) -> Note | None:
        size = source.sizes().get(notes.NOTE)
        if size is None:
            return None
        try:  # it may be replaced meanwhile, by a longer or a shorter one
            return notes.read_note(source.read(notes.NOTE, 0, min(size, _LARGEST_NOTE)))
        except ClusterError:
            self._expect_alive()
            return None
