"""The model of a job on YARN: asked for by a message, and home by the way of its logs."""

from __future__ import annotations

import secrets
import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from submarine_engine.clusters import saving
from submarine_engine.clusters.base import Saved
from submarine_engine.clusters.environment import file_address
from submarine_engine.clusters.packed import unpack
from submarine_engine.clusters.saving import File, FolderStorage, Note, Storage, occupied
from submarine_engine.clusters.yarn import uploads
from submarine_engine.clusters.yarn.hdfs import open_hdfs
from submarine_engine.clusters.yarn.log_transport import Channel, LogTransport
from submarine_engine.config import load_config
from submarine_engine.errors import ClusterError, SaveError, UnsupportedError
from submarine_engine.history import read_json
from submarine_engine.job import JobState

if TYPE_CHECKING:
    from collections.abc import Iterator

    from submarine_engine.clusters.log_mirror import LogSource
    from submarine_engine.clusters.yarn.hadoop import HadoopConf
    from submarine_engine.clusters.yarn.hdfs import Hdfs
    from submarine_engine.clusters.yarn.rest import ResourceManager


# HDFS as a place that models are saved to, and as one that checkpoints lie in.


def hdfs_path(path: str, conf: HadoopConf) -> str | None:
    """Return the path in the cluster's HDFS that an ``hdfs:`` address is; None for others.

    Parameters
    ----------
    path
        An address, or a path of this machine.
    conf
        Hadoop's configuration.

    Raises
    ------
    UnsupportedError
        It is in another HDFS.
    """
    try:
        parts, ours = urlsplit(path), urlsplit(conf.default_fs)
    except ValueError:
        return None
    if parts.scheme != "hdfs":
        return None
    if ours.scheme != "hdfs" or parts.netloc not in ("", ours.netloc):
        raise UnsupportedError(
            f"{path} is not in this cluster's storage, {conf.default_fs}",
            where="path",
            fix="write hdfs:///PATH for the HDFS of the cluster",
        )
    return "/" + unquote(parts.path).strip("/")


class HdfsTarget:
    """A folder in HDFS that a model is brought to, by way of a folder of this machine.

    Parameters
    ----------
    hdfs
        The user's.
    path
        Absolute, in HDFS.
    local
        A folder of this machine with room for it.
    """

    def __init__(self, hdfs: Hdfs, path: str, local: Path) -> None:
        self._hdfs = hdfs
        self._path = path
        self._local = local
        self._here: Path | None = None
        above, _, name = path.rpartition("/")
        self._above = above
        self._aside = f"{above}/.{name[:100]}.{secrets.token_hex(4)}.part"

    @property
    def name(self) -> str:
        """The folder's address."""
        return self._hdfs.uri(self._path)

    def begin(self) -> Path:
        """Make a folder beside the one that is meant, and one here; HDFS refuses now or never."""
        found = self._hdfs.entry(self._path)
        if found is not None and (not found.folder or self._hdfs.list(self._path)):
            raise occupied(self.name)
        self._here = Path(tempfile.mkdtemp(prefix="saving-", dir=self._local))
        self._hdfs.make_folder(self._aside)
        return self._here

    def commit(self) -> None:
        """Bring the files there, and give the folder its name."""
        if self._here is None:
            return
        for path in sorted(self._here.rglob("*")):
            to = f"{self._aside}/{path.relative_to(self._here).as_posix()}"
            if path.is_file():
                self._hdfs.put(path, to)
            elif path.is_dir():
                self._hdfs.make_folder(to)
        self._hdfs.rename(self._aside, self._path)

    def discard(self) -> None:
        """Remove what is not in its place."""
        if self._here is not None:
            shutil.rmtree(self._here, ignore_errors=True)
            self._here = None
            self._hdfs.remove(self._aside)


class HdfsStorage:
    """A checkpoint path in HDFS.

    Parameters
    ----------
    hdfs
        Opens HDFS; asked only where no function saves the model.
    path
        Absolute, in HDFS.
    """

    def __init__(self, hdfs: Callable[[], Hdfs], path: str) -> None:
        self._hdfs = hdfs
        self._path = path

    @property
    def name(self) -> str:
        """The folder's address."""
        return self._hdfs().uri(self._path)

    def files(self) -> list[File]:
        """Return all files below it."""
        return list(self._below(self._path))

    def _below(self, folder: str) -> Iterator[File]:
        for entry in self._hdfs().list(folder):
            if entry.folder:
                yield from self._below(entry.path)
            else:
                relative = entry.path.removeprefix(f"{self._path}/")
                yield File(relative, entry.size, entry.modified)

    def get(self, path: str, to: Path) -> None:
        """Copy the file `path`, named from the folder on, to the file `to` of this machine."""
        if not self._hdfs().exists(f"{self._path}/{path}"):
            raise FileNotFoundError(path)
        self._hdfs().get(f"{self._path}/{path}", to)

    def is_whole(self, path: str) -> bool:
        """Tell whether nobody writes the file `path`: HDFS shows the size of whole blocks alone."""
        return not self._hdfs().is_open(f"{self._path}/{path}")


# Asking a job on YARN for its model: a message there, and the way of its logs back.


_LOOK = 0.1  # seconds: each look is a question to a node, or to HDFS
_ARRIVAL = 120.0  # seconds for the files by way of HDFS, where they come one after the other


def save_yarn(asked: saving.SaveRequest, path: str, conf: HadoopConf, rm: ResourceManager) -> Saved:
    """Bring the model of a running job to a folder of this machine or of HDFS.

    Nobody but who asks takes part in it: the keeper, and other readers, go on meanwhile.

    Parameters
    ----------
    asked
        Whose model, and how long it may take.
    path
        A path of this machine, or an address in HDFS.
    conf
        Hadoop's configuration.
    rm
        The ResourceManager.
    """
    files = _Opened(conf)
    kept = (read_json(asked.paths.record) or {}).get("spec", {}).get("checkpoint_path")
    try:
        target: saving.Target
        if (there := hdfs_path(path, conf)) is not None:
            target = HdfsTarget(files(), there, asked.paths.root)
        else:
            target = saving.FolderTarget(_here(path))
        wanted = load_config().value("yarn_logs")
        channel = LogTransport(conf, rm, files.or_none, wanted)
        with closing(_Packed(asked, channel)) as hook:
            storage = _storage(kept, files) if kept else _own_storage(asked, files, hook)
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


def _own_storage(asked: saving.SaveRequest, files: _Opened, hook: _Packed) -> Storage | None:
    """Return where a job without ``--checkpoint_path`` keeps its checkpoints, once it has some.

    HDFS is asked only where no function saves the model, and of a job that runs: what does not is
    refused by `saving.save`.
    """
    state = asked.status().state
    if not (state is JobState.RUNNING or (state is JobState.STARTING and hook.unseen)):
        return None
    if asked.of_code or (not hook.unseen and hook.find() is not None):
        return None
    hdfs = files.or_none()
    if hdfs is None:
        return None
    place = uploads.checkpoint_folder(hdfs, asked.paths.job_id)
    return HdfsStorage(files, place) if hdfs.exists(place) else None


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


class _Packed:
    """The way to the function of a task in a container."""

    def __init__(self, asked: saving.SaveRequest, channel: LogTransport) -> None:
        self._asked = asked
        self._paths = asked.paths
        self._status = asked.status
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
        if source is None:
            raise saving.ended(self._paths.job_id)

        def read() -> Note | None:
            time.sleep(_LOOK)  # it is asked of a node, or of HDFS
            return self._note(source)

        note = saving.wait_for(self._asked, task, read, until, folder)
        self._bring(source, note, folder)

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
            raise saving.ended(self._paths.job_id)

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
        size = source.sizes().get(saving.NOTE)
        if size is None:
            return None
        try:  # it may be replaced meanwhile, by a longer or a shorter one
            return saving.read_note(source.read(saving.NOTE, 0, min(size, saving.LARGEST_NOTE)))
        except ClusterError:
            self._expect_alive()
            return None
