"""HDFS as a place that models are saved to, and as one that checkpoints lie in."""

from __future__ import annotations

import secrets
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from submarine_engine.clusters.saving.checkpoints import File
from submarine_engine.clusters.saving.targets import occupied
from submarine_engine.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from submarine_engine.clusters.yarn.hadoop import HadoopConf
    from submarine_engine.clusters.yarn.hdfs import Hdfs


def hdfs_path(path: str, conf: HadoopConf) -> str | None:
    """Return the path in the cluster's HDFS that an ``hdfs:`` address is; None for others.

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
        """Copy a file to this machine."""
        if not self._hdfs().exists(f"{self._path}/{path}"):
            raise FileNotFoundError(path)
        self._hdfs().get(f"{self._path}/{path}", to)

    def is_whole(self, path: str) -> bool:
        """Return whether nobody writes the file: HDFS shows the size of whole blocks alone."""
        return not self._hdfs().is_open(f"{self._path}/{path}")
