"""The user's part of HDFS, by way of WebHDFS: no Java here, nothing of the notebook's lies open."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote, urlencode

from submarine_engine.clusters.yarn.countedfile import CountedFile, private
from submarine_engine.clusters.yarn.hdfsentry import Entry, read_entry
from submarine_engine.clusters.yarn.hdfserrors import said
from submarine_engine.clusters.yarn.namenodes import NameNode
from submarine_engine.errors import ClusterError, SubmarineError, SubmissionError

if TYPE_CHECKING:
    from submarine_engine.clusters.yarn.webfs import QuietWebHDFS

FILE_MODE, FOLDER_MODE = "600", "700"
_TOKEN_LIFE = 6 * 3600.0


class Hdfs:
    """Files in HDFS, as one user.

    Every method raises `ClusterError` where HDFS does not answer, and `SubmissionError` with HDFS's
    own words where it refuses to write. Paths are absolute, with or without ``hdfs://…``.

    Parameters
    ----------
    web
        The NameNode that answered.
    url
        ``fs.defaultFS``, as in ``hdfs://host:8020``.
    nodes
        Every NameNode that may answer a container, this one first.
    """

    def __init__(self, web: QuietWebHDFS, url: str, nodes: tuple[NameNode, ...]) -> None:
        self._web = web
        self._nodes = nodes
        self.url = url.rstrip("/")
        self.where = f"HDFS at {nodes[0]}"
        self._folders: set[str] = set()
        self._token = ("", 0.0)
        with self._talk("your home folder"):
            self.home = str(web.ask("GETHOMEDIRECTORY")["Path"]).rstrip("/")

    def close(self) -> None:
        """Close the connections."""
        self._web.session.close()

    def uri(self, path: str) -> str:
        """Return the address of `path` for Hadoop's own programs and fsspec: ``hdfs://…``."""
        return f"{self.url}{self._plain(path)}"

    def web_uri(self, path: str) -> str:
        """Return the address of `path` for fsspec where there is no Java: ``webhdfs://…``."""
        return f"webhdfs://{self._nodes[0]}{self._plain(path)}"

    def container_environment(self) -> dict[str, str]:
        """Return what lets fsspec in a job read HDFS as this user (``FSSPEC_…``, see `jobhdfs`)."""
        names = {"delegation": "token", "user.name": "user"}
        told: dict[str, object] = {names[key]: value for key, value in self._identity().items()}
        node = self._nodes[0]
        if node.secure:
            told["use_https"] = True
        here = {"host": node.host, "port": node.port, "default": self.url.partition("://")[2]}
        return {"FSSPEC_WEBHDFS": json.dumps(told), "FSSPEC_HDFS": json.dumps({**told, **here})}

    def entry(self, path: str) -> Entry | None:
        """Return what lies at `path`; None where there is nothing."""
        path = self._plain(path)
        with self._talk(path):
            try:
                status = self._web.ask("GETFILESTATUS", path)["FileStatus"]
            except FileNotFoundError:
                return None
        return read_entry(path, cast("Mapping[str, Any]", status))

    def exists(self, path: str) -> bool:
        """Tell whether there is a file or folder at `path`."""
        return self.entry(path) is not None

    def size(self, path: str) -> int | None:
        """Return the bytes of the file at `path`; None where there is none."""
        found = self.entry(path)
        return None if found is None or found.folder else found.size

    def list(self, folder: str) -> list[Entry]:
        """Return what lies in `folder`, by name; nothing where it is not there."""
        folder = self._plain(folder)
        with self._talk(folder):
            try:
                answer = cast("Any", self._web.ask("LISTSTATUS", folder))
            except FileNotFoundError:
                return []
        entries = answer["FileStatuses"]["FileStatus"]
        # Asked for a file, HDFS lists that file by an empty name.
        return [read_entry(f"{folder}/{one['pathSuffix']}".rstrip("/"), one) for one in entries]

    def get(self, path: str, to: Path | None = None) -> bytes:
        """Return the file at `path`; with `to`, write it there and return nothing of it."""
        path = self._plain(path)
        with self._talk(path):
            if to is None:
                pieces: list[bytes] = []
                self._web.read_into(path, pieces.append)
                return b"".join(pieces)
            aside = to.with_name(f"{to.name}.{secrets.token_hex(4)}.part")
            try:
                with open(aside, "xb", opener=private) as file:  # Path.open takes none
                    self._web.read_into(path, file.write)
                aside.replace(to)
            finally:
                aside.unlink(missing_ok=True)
        return b""

    def read(self, path: str, offset: int, limit: int) -> bytes:
        """Return at most `limit` bytes of the file at `path` from `offset` on."""
        path = self._plain(path)
        with self._talk(path):
            return self._web.read_some(path, offset, limit)

    def put(
        self,
        source: bytes | Path,
        path: str,
        *,
        replace: bool = True,
        went: Callable[[int], object] | None = None,
    ) -> None:
        """Write a file, aside and renamed. Only the user may read it.

        Parameters
        ----------
        replace
            Whether to put it in place of what is there, or to leave that untouched.
        went
            Called with the number of bytes of each piece of a `Path` that went.
        """
        path = self._plain(path)
        folder, _, name = path.rpartition("/")
        aside = f"{folder}/.{name}.{secrets.token_hex(4)}.part"
        self.make_folder(folder)
        try:
            with self._talk(path, write=True):
                if isinstance(source, Path):
                    with CountedFile(source, went) as file:
                        self._web.create(aside, file, FILE_MODE)
                else:
                    self._web.create(aside, BytesIO(source), FILE_MODE)
                how = {"renameoptions": "OVERWRITE"} if replace else {}
                renamed = self._web.change("RENAME", aside, destination=path, **how)
        except BaseException:
            with suppress(SubmarineError):
                self.remove(aside)
            raise
        if not renamed:
            self.remove(aside)

    def make_folder(self, path: str) -> None:
        """Make a folder, and those above it, for the user alone; no-op where it is there.

        The home and what is above it, which others pass through, get HDFS's own default.
        """
        path = self._plain(path)
        if path in self._folders:
            return
        if f"{path}/".startswith(f"{self.home}/") and self.home not in self._folders:
            with self._talk(path, write=True):
                self._web.change("MKDIRS", self.home)
            self._folders.add(self.home)
        with self._talk(path, write=True):
            self._web.change("MKDIRS", path, permission=FOLDER_MODE)
        self._folders.add(path)

    def rename(self, path: str, to: str) -> None:
        """Give a file or folder another name; an empty folder of that name gives way."""
        to = self._plain(to)
        how = {"destination": to, "renameoptions": "OVERWRITE"}
        with self._talk(to, write=True):
            self._web.change("RENAME", self._plain(path), **how)

    def is_open(self, path: str) -> bool:
        """Tell whether somebody is writing the file (HDFS knows, its size does not show it)."""
        with self._talk(path):
            found = cast("Any", self._web.ask("GET_BLOCK_LOCATIONS", self._plain(path)))
            return bool(found["LocatedBlocks"].get("isUnderConstruction"))

    def touch(self, path: str) -> None:
        """Let the file count as used just now; no-op where HDFS keeps no access times.

        The time of modification stays: YARN takes a file that was changed for another one.
        """
        path = self._plain(path)
        with suppress(SubmissionError), self._talk(path, write=True):
            self._web.change("SETTIMES", path, accesstime=int(time.time() * 1000))

    def remove(self, path: str) -> None:
        """Remove a file, or a folder with what is in it; no-op where there is nothing."""
        path = self._plain(path)
        self._folders = {one for one in self._folders if not f"{one}/".startswith(f"{path}/")}
        with self._talk(path, write=True), suppress(FileNotFoundError):
            self._web.rm(path, recursive=True)

    def url_for_container(self, path: str) -> str:
        """Return where a container GETs the file, without Hadoop's programs.

        One address for each NameNode, the active one's first, for `submarine_runtime.webhdfs`.
        """
        pars = {"op": "OPEN", **self._identity()}
        return " ".join(
            f"{node.url}/webhdfs/v1{quote(self._plain(path))}?{urlencode(pars)}"
            for node in self._nodes
        )

    def _identity(self) -> dict[str, str]:
        """Return what says to HDFS who asks; with Kerberos a token, which only HDFS takes."""
        if not self._web.kerb:
            return {"user.name": str(self._web.user)}
        token, since = self._token
        if time.monotonic() - since > _TOKEN_LIFE or not token:
            with self._talk("a delegation token"):
                self._token = token, _ = self._web.get_delegation_token(), time.monotonic()
        return {"delegation": token}

    def _plain(self, path: str) -> str:
        plain = path.removeprefix(self.url) if "://" in path else path
        if not plain.startswith("/") or "://" in plain:
            raise ClusterError(
                f"{path!r} is no path of this file system", where=self.where, fix="begin with /"
            )
        return plain.rstrip("/") or "/"

    @contextmanager
    def _talk(self, path: str, *, write: bool = False) -> Iterator[None]:
        try:
            yield
        except (SubmarineError, FileExistsError):
            raise
        except (OSError, RuntimeError, ValueError, KeyError) as error:
            raise said(error, self.where, path, SubmissionError if write else None) from error
