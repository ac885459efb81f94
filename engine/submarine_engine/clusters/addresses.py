"""Opens the storage of an address: a cluster's, of those that it names, else fsspec's."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from submarine_engine.clusters import cluster_kind, cluster_names
from submarine_engine.clusters.storage import Storage, Stored
from submarine_engine.errors import ClusterError, ConfigError, SubmarineError, UnsupportedError
from submarine_engine.extras import install_extra

_CONTROL = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")


def open_storage(address: str) -> tuple[Storage, str]:
    """Return the storage of an address, and the path that it is there.

    Parameters
    ----------
    address
        ``hdfs://…``, or any that fsspec knows.

    Raises
    ------
    ConfigError
        It is no sound address, or its cluster's configuration cannot be used.
    UnsupportedError
        Nobody knows such addresses, or several machines cannot agree in that storage.
    ClusterError
        The storage does not answer.
    """
    _check(address)
    scheme = address.partition("://")[0]
    for name in cluster_names():
        try:
            kind = cluster_kind(name)
        except (ConfigError, ImportError):  # fsspec may know the address all the same
            continue
        if scheme in kind.event_schemes():
            return kind.open_storage(address)
    return FsspecStorage.open(address)


def _check(address: str) -> None:
    fault = ""
    try:
        parts = urlsplit(address)
        if parts.password is not None:
            fault = "holds a password, which lists of processes would show"
        elif parts.query or parts.fragment or _CONTROL.search(address):
            fault = "holds a ?, a # or a control character"
        elif ".." in parts.path.split("/") or not parts.path.strip("/"):
            fault = "names no folder below the storage's root"
    except ValueError as error:
        fault = f"cannot be read: {error}"
    if fault:
        raise ConfigError(
            f"the address {fault}",
            where=f"{address.partition('://')[0]}://…"
            if "password" in fault
            else f"{address!r:.120}",
            fix="write it as hdfs:///user/ana/nightly.flow; credentials come from the environment",
        )


class FsspecStorage(Storage):
    """What fsspec opens, configured as fsspec has it (``FSSPEC_…``, ``~/.config/fsspec``).

    Parameters
    ----------
    files
        fsspec's file system.
    scheme
        How its addresses begin.
    """

    def __init__(self, files: Any, scheme: str) -> None:  # noqa: ANN401 - fsspec is not typed
        self._files, self._scheme = files, scheme
        if not _creates_alone(files):
            raise UnsupportedError(
                f"{scheme}:// has no exclusive create in fsspec: two runs could take one lock",
                where=f"{scheme}://",
                fix="name a folder in HDFS or an object store that refuses the second, or one on a"
                " path that all machines share; fsspec 2024.10 and newer can ask for it",
            )

    @classmethod
    def open(cls, address: str) -> tuple[FsspecStorage, str]:
        """Return the storage of an address, and the path there; errors as of `open_storage`."""
        scheme = address.partition("://")[0]
        try:
            import fsspec  # noqa: PLC0415 - an extra
        except ImportError as error:
            raise UnsupportedError(
                "fsspec is not installed", where=f"{scheme}://", fix=install_extra("yarn")
            ) from error
        try:
            files, path = fsspec.core.url_to_fs(address)
        except (ValueError, ImportError) as error:
            raise UnsupportedError(
                f"addresses {scheme}:// cannot be opened: {error}",
                where=f"{address:.120}",
                fix="install the package that fsspec names, or use hdfs:// or a shared path",
            ) from error
        except Exception as error:
            raise _foreign(error, address) from error
        return cls(files, scheme), str(path)

    def uri(self, path: str) -> str:
        """Return the address of a path."""
        return str(self._files.unstrip_protocol(path))

    def again(self) -> Storage:
        """Return it: fsspec's file systems may be shared by threads."""
        return self

    def entry(self, path: str) -> Stored | None:
        """Return what lies at a path."""
        with self._talk(path):
            self._files.invalidate_cache()
            try:
                info = self._files.info(path)
            except FileNotFoundError:
                return None
            return Stored(path.rpartition("/")[2], info["type"] == "directory")

    def list(self, folder: str) -> list[Stored]:
        """Return what lies in a folder."""
        with self._talk(folder):
            self._files.invalidate_cache()  # others write there, too
            try:
                found = self._files.ls(folder, detail=True)
            except (FileNotFoundError, NotADirectoryError):
                return []
            entries = ((one["name"].rstrip("/"), one["type"] == "directory") for one in found)
            return sorted(
                (Stored(name.rpartition("/")[2], folder) for name, folder in entries),
                key=lambda one: one.name,
            )

    def read(self, path: str) -> bytes:
        """Return what a file holds."""
        with self._talk(path):
            return bytes(self._files.cat_file(path))

    def get(self, path: str, to: Path) -> None:
        """Bring a file to this machine."""
        with self._talk(path):
            self._files.get_file(path, str(to))

    def write(self, path: str, source: bytes | Path) -> None:
        """Write a file whole."""
        with self._talk(path):
            self._files.makedirs(path.rpartition("/")[0], exist_ok=True)
            if isinstance(source, Path):
                self._files.put_file(str(source), path)
            else:
                self._files.pipe_file(path, source)

    def create(self, path: str, data: bytes) -> bool:
        """Write a file where none is."""
        with self._talk(path):
            self._files.makedirs(path.rpartition("/")[0], exist_ok=True)
            try:
                self._files.pipe_file(path, data, mode="create")
            except FileExistsError:
                return False
            return True

    def remove(self, path: str) -> None:
        """Remove a file or a folder."""
        with self._talk(path):
            self._files.invalidate_cache()
            try:
                self._files.rm(path, recursive=True)
            except FileNotFoundError:
                return

    @contextmanager
    def _talk(self, path: str) -> Iterator[None]:
        try:
            yield
        except (FileNotFoundError, SubmarineError):
            raise
        except Exception as error:  # whatever the library of that storage raises
            raise _foreign(error, self.uri(path)) from error


def _creates_alone(files: Any) -> bool:  # noqa: ANN401 - fsspec is not typed
    """Return whether a file system itself refuses to make a file that is there.

    fsspec's own `pipe_file` looks first and writes then, between which another one may have.
    """
    from fsspec.spec import AbstractFileSystem  # noqa: PLC0415 - an extra

    kind = type(files)
    method = getattr(kind, "_pipe_file", kind.pipe_file)
    return (
        method is not AbstractFileSystem.pipe_file
        and "mode" in inspect.signature(method).parameters
    )


def _foreign(error: Exception, address: str) -> ClusterError:
    text = (str(error).strip().splitlines() or [""])[0]
    return ClusterError(
        f"the storage refuses: {type(error).__name__}: {text:.300}",
        where=address,
        fix="can it be reached from here, and may you write there?",
    )
