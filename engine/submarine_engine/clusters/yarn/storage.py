"""The cluster's HDFS as a storage that machines share files by."""

from __future__ import annotations

from pathlib import Path

from submarine_engine.clusters.storage import Storage, Stored
from submarine_engine.clusters.yarn.hadoop import HadoopConf
from submarine_engine.clusters.yarn.hdfs import Hdfs, open_hdfs
from submarine_engine.clusters.yarn.saving import hdfs_path
from submarine_engine.errors import ClusterError, SubmarineError, UnsupportedError


class HdfsFiles(Storage):
    """The user's HDFS; files are for the user alone.

    Parameters
    ----------
    hdfs
        Opened.
    conf
        How it is opened once more.
    """

    def __init__(self, hdfs: Hdfs, conf: HadoopConf) -> None:
        self._hdfs, self._conf = hdfs, conf

    @classmethod
    def open(cls, address: str, conf: HadoopConf) -> tuple[HdfsFiles, str]:
        """Return the storage of an address, and the path there.

        Parameters
        ----------
        address
            ``hdfs://…``
        conf
            Where HDFS is.

        Raises
        ------
        UnsupportedError
            It is in another HDFS.
        ClusterError
            HDFS does not answer.
        """
        path = hdfs_path(address, conf)
        if path is None:
            raise UnsupportedError(
                f"{address:.120} is not read and written here",
                where="webhdfs://",
                fix="write hdfs:///PATH for the HDFS of the cluster",
            )
        return cls(_opened(conf), conf), path

    def uri(self, path: str) -> str:
        """Return the address of a path."""
        return self._hdfs.uri(path)

    def again(self) -> Storage:
        """Return the same HDFS by connections of its own."""
        return HdfsFiles(_opened(self._conf), self._conf)

    def entry(self, path: str) -> Stored | None:
        """Return what lies at a path."""
        found = self._hdfs.entry(path)
        return None if found is None else Stored(path.rpartition("/")[2], found.folder)

    def list(self, folder: str) -> list[Stored]:
        """Return what lies in a folder."""
        found = self._hdfs.list(folder)
        return [Stored(one.path.rpartition("/")[2], one.folder) for one in found]

    def read(self, path: str) -> bytes:
        """Return what a file holds."""
        try:
            return self._hdfs.get(path)
        except SubmarineError as error:
            raise _missing(error) from error

    def get(self, path: str, to: Path) -> None:
        """Bring a file to this machine."""
        try:
            self._hdfs.get(path, to)
        except SubmarineError as error:
            raise _missing(error) from error

    def write(self, path: str, source: bytes | Path) -> None:
        """Write a file whole."""
        self._hdfs.put(source, path)

    def create(self, path: str, data: bytes) -> bool:
        """Write a file where none is: HDFS renames nothing onto what is there."""
        return self._hdfs.put(data, path, replace=False)

    def remove(self, path: str) -> None:
        """Remove a file or a folder."""
        self._hdfs.remove(path)


def _missing(error: SubmarineError) -> Exception:
    """Return Python's own error for a file that is not there, else the error."""
    cause = error.__cause__
    return FileNotFoundError(str(error)) if isinstance(cause, FileNotFoundError) else error


def _opened(conf: HadoopConf) -> Hdfs:
    hdfs = open_hdfs(conf)
    if hdfs is None:
        raise ClusterError(
            "HDFS does not answer",
            where=conf.default_fs,
            fix="see `submarine doctor --cluster yarn`, or name a folder of this machine",
        )
    return hdfs
