"""The user's part of HDFS, by way of WebHDFS: no Java here, nothing of the user's lies open.

`open_hdfs` finds the NameNodes in Hadoop's configuration and asks them. Errors are Hadoop's own
words, with the way out.
"""

from __future__ import annotations

import errno
import json
import math
import os
import re
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import BytesIO, FileIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote, urlencode, urlsplit

from submarine_runtime.checkpoint_hdfs import VARIABLE
from submarine_runtime.delegation import VERSION, read_token

from submarine_engine.clusters.yarn.delegation import Delegation
from submarine_engine.clusters.yarn.hadoop_json import clean_line
from submarine_engine.clusters.yarn.rest import secure_session
from submarine_engine.errors import ClusterError, KerberosError, SubmarineError, SubmissionError
from submarine_engine.extras import install_extra
from submarine_engine.trust import untrusted

if TYPE_CHECKING:
    from submarine_engine.clusters.yarn.hadoop import HadoopConf
    from submarine_engine.clusters.yarn.webfs import QuietWebHDFS


# Where the NameNodes' web addresses stand in Hadoop's configuration.


_PORTS = {"http": 9870, "https": 9871}


@dataclass(frozen=True, slots=True)
class NameNode:
    """A NameNode's web address."""

    host: str
    port: int
    secure: bool

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """The address with its scheme."""
        return f"{'https' if self.secure else 'http'}://{self}"


def name_nodes(conf: HadoopConf) -> tuple[NameNode, ...]:
    """Return the NameNodes of ``fs.defaultFS``, in the configuration's order.

    Keys and defaults are those of Hadoop's ``hdfs-default.xml``: ``dfs.nameservices``,
    ``dfs.ha.namenodes.<service>``, ``dfs.namenode.http-address``, ``dfs.http.policy``.

    Parameters
    ----------
    conf
        Hadoop's configuration.

    Returns
    -------
    tuple of NameNode
        Empty where the default file system is not HDFS.
    """
    try:
        where = urlsplit(conf.default_fs)
        host = where.hostname
    except ValueError:
        return ()
    if where.scheme != "hdfs" or not host:
        return ()
    scheme = "https" if conf.get("dfs.http.policy") == "HTTPS_ONLY" else "http"
    key = f"dfs.namenode.{scheme}-address"
    service = where.netloc
    named = [name.strip() for name in conf.get(f"dfs.ha.namenodes.{service}").split(",")]
    endings = [f".{service}.{name}" for name in named if name]
    found = []
    for ending in endings or [f".{service}", ""]:
        address = conf.get(key + ending)
        if address or (not endings and not ending):
            found.append(_name_node(address, host, scheme))
            if not endings:
                break
    return tuple(found)


def _name_node(address: str, host: str, scheme: str) -> NameNode:
    try:
        parts = urlsplit(f"//{address}")
        named, port = parts.hostname, parts.port
    except ValueError:
        named = port = None
    # 0.0.0.0 says that it listens everywhere, not where it is.
    if not named or named in ("0.0.0.0", "::"):  # noqa: S104 - read, not bound
        named = host
    return NameNode(named, port or _PORTS[scheme], scheme == "https")


# A file that tells how much of it was read.


class CountedFile(FileIO):
    """A file that is read to be sent, as `requests` takes one.

    Parameters
    ----------
    path
        Where it lies on this machine.
    went
        Called with the number of bytes of each piece that was read.
    """

    def __init__(self, path: Path, went: Callable[[int], object] | None) -> None:
        super().__init__(str(path), "rb")
        self._went = went

    def read(self, size: int | None = -1) -> bytes:
        """Read a piece, and tell of it."""
        data = super().read(-1 if size is None else size)
        if self._went is not None and data:
            self._went(len(data))
        return data or b""


def private(path: str, flags: int) -> int:
    """Open a new file at `path` with `flags`, for its owner alone, as `open` wants it."""
    return os.open(path, flags, 0o600)


# What lies in HDFS, as WebHDFS tells it.


@dataclass(frozen=True, slots=True)
class Entry:
    """A file or folder in HDFS.

    Parameters
    ----------
    path
        Absolute, without ``hdfs://``.
    size
        Bytes; 0 for a folder.
    used
        When it was written or last touched, seconds since the epoch.
    modified
        When it was written; of a file that is being written, when that began.
    """

    path: str
    size: int
    used: float
    folder: bool
    modified: float = 0.0


def read_entry(path: str, status: Mapping[str, Any]) -> Entry:
    """Return the entry of a ``FileStatus``.

    Parameters
    ----------
    path
        Where it is, absolute.
    status
        The ``FileStatus``, as WebHDFS gives it.
    """
    used = max(status["accessTime"], status["modificationTime"]) / 1000
    modified = status["modificationTime"] / 1000
    return Entry(path, status["length"], used, status["type"] == "DIRECTORY", modified)


# What HDFS says when it refuses, in its own words, with the way out.


_WAYS_OUT = (
    ("safe mode", "HDFS is read-only for now: wait, or ask its administrator to end safe mode"),
    ("quota", "remove what you no longer need (hdfs dfs -du -h), or have the quota raised"),
    ("could only be written to", "HDFS is full, or none of its DataNodes is up: ask its operator"),
    ("No space", "HDFS is full: remove what you no longer need, or ask its operator"),
    ("Permission denied", "ask HDFS's administrator for this folder, or run as who it belongs to"),
)
_QUERY = re.compile(r"\?op=\S*")  # it may hold a token
_SILENT = "is HDFS up, and can its NameNode and DataNodes be reached from here over HTTP?"


def hdfs_error_words(
    error: Exception, where: str, path: str, kind: type[SubmarineError] | None
) -> SubmarineError:
    """Return our error for one of fsspec's or requests'.

    Parameters
    ----------
    error
        What was raised.
    where
        Which HDFS it is, for people.
    path
        What was asked for, for people.
    kind
        For what HDFS refuses; None for `ClusterError`.
    """
    if (wrong := untrusted(error, where)) is not None:
        return wrong
    response = getattr(error, "response", None)
    if response is None and type(error).__module__.startswith(("requests", "urllib3")):
        return ClusterError(f"no answer: {_line(str(error))}", where=where, fix=_SILENT)
    words = _line(_remote(response) or str(error) or type(error).__name__)
    fix = next((way_out for sign, way_out in _WAYS_OUT if sign.lower() in words.lower()), "")
    if isinstance(error, FileNotFoundError):
        fix = "check the path"
    return (kind or ClusterError)(f"{path}: {words}", where=where, fix=fix or _SILENT)


@contextmanager
def _words_for_this_disk(path: Path) -> Iterator[None]:
    """Say of a file of this machine that it is this disk, not HDFS, that refuses it."""
    try:
        yield
    except OSError as error:
        fix = f"see whether {path.parent} is a folder, and whether you may write there"
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            fix = f"it is this machine's disk that is full, not HDFS: make room (df {path.parent})"
        words = f"{path} cannot be written: {error.strerror or error}"
        # Without its cause: that a folder is not there would read as a file that HDFS has not.
        raise ClusterError(words, where="this machine", fix=fix) from None


def _remote(response: object) -> str:
    """Return the message of a WebHDFS error (``RemoteException``), empty where it is none."""
    try:
        return str(response.json()["RemoteException"]["message"])  # type: ignore[attr-defined]
    except (AttributeError, KeyError, TypeError, ValueError):
        return ""


def _line(text: str) -> str:
    line = (text.strip().splitlines() or [""])[0]
    return clean_line(_QUERY.sub("", line))


# The user's part of HDFS, by way of WebHDFS: no Java here, nothing of the notebook's lies open.


FILE_MODE, FOLDER_MODE = "600", "700"


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
        self._delegation = Delegation(self._token_call)
        self._is_given_away = False
        web.tokens = self._delegation if web.kerb else None
        with self._talk("your home folder"):
            self.home = str(web.ask("GETHOMEDIRECTORY")["Path"]).rstrip("/")

    def close(self) -> None:
        """Close the connections; a token that nobody else was given ends with them."""
        if not self._is_given_away:
            self._delegation.give_back()
        self._web.session.close()

    def uri(self, path: str) -> str:
        """Return the address of `path` for Hadoop's own programs and fsspec: ``hdfs://…``."""
        return f"{self.url}{self._plain(path)}"

    def web_uri(self, path: str) -> str:
        """Return the address of `path` for fsspec where there is no Java: ``webhdfs://…``."""
        return f"webhdfs://{self._nodes[0]}{self._plain(path)}"

    def container_environment(self) -> dict[str, str]:
        """Return what lets a job's fsspec read HDFS as this user (``FSSPEC_…``, see `job_hdfs`)."""
        names = {"delegation": "token", "user.name": "user"}
        told: dict[str, object] = {names[key]: value for key, value in self._identity().items()}
        node = self._nodes[0]
        if node.secure:
            told["use_https"] = True
        here = {"host": node.host, "port": node.port, "default": self.url.partition("://")[2]}
        return {"FSSPEC_WEBHDFS": json.dumps(told), "FSSPEC_HDFS": json.dumps({**told, **here})}

    def runtime_environment(self) -> dict[str, str]:
        """Return what lets the runtime keep checkpoints here as this user (`checkpoint_hdfs`)."""
        default = self.url.partition("://")[2]
        told = {"default": default, "home": self.home, "urls": self.url_for_container("/")}
        return {VARIABLE: json.dumps(told)}

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
        """Return the file at `path`; with `to`, write it there and return nothing of it.

        Raises
        ------
        ClusterError
            HDFS does not give it; or this machine has no room for it, or no folder.
        """
        path = self._plain(path)
        if to is None:
            pieces: list[bytes] = []
            with self._talk(path):
                self._web.read_into(path, pieces.append)
            return b"".join(pieces)
        aside = to.with_name(f"{to.name}.{secrets.token_hex(4)}.part")
        with _words_for_this_disk(to):
            try:
                with open(aside, "xb", opener=private) as file:  # Path.open takes none

                    def write(piece: bytes) -> None:
                        with _words_for_this_disk(to):  # before HDFS's are found for it
                            file.write(piece)

                    with self._talk(path):
                        self._web.read_into(path, write)
                aside.replace(to)
            finally:
                aside.unlink(missing_ok=True)
        return b""

    def read(self, path: str, offset: int, limit: int) -> bytes:
        """Return at most `limit` bytes of the file at `path` from `offset` on.

        Parameters
        ----------
        path
            Absolute, without the address.
        offset, limit
            In bytes.
        """
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
    ) -> bool:
        """Write a file, aside and renamed. Only the user may read it.

        Parameters
        ----------
        source
            The content, or a file of this machine that has it.
        path
            Where it is to be; folders above it that are missing are made.
        replace
            Whether to put it in place of what is there, or to leave that untouched.
        went
            Called with the number of bytes of each piece of a `Path` that went.

        Returns
        -------
        bool
            Whether it is there now; without `replace`, of all that write it at once one is told so.
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
        return renamed

    def make_folder(self, path: str) -> None:
        """Make the folder `path`, and those above it, for the user alone; no-op where it is there.

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
        """Give the file or folder `path` the path `to`; an empty folder of that name gives way."""
        to = self._plain(to)
        how = {"destination": to, "renameoptions": "OVERWRITE"}
        with self._talk(to, write=True):
            self._web.change("RENAME", self._plain(path), **how)

    def is_open(self, path: str) -> bool:
        """Tell whether somebody writes the file `path` (HDFS knows, its size does not show it)."""
        with self._talk(path):
            found = cast("Any", self._web.ask("GET_BLOCK_LOCATIONS", self._plain(path)))
            return bool(found["LocatedBlocks"].get("isUnderConstruction"))

    def touch(self, path: str) -> None:
        """Let the file `path` count as used just now; no-op where HDFS keeps no access times.

        The time of modification stays: YARN takes a file that was changed for another one.
        """
        path = self._plain(path)
        with suppress(SubmissionError), self._talk(path, write=True):
            self._web.change("SETTIMES", path, accesstime=int(time.time() * 1000))

    def remove(self, path: str) -> None:
        """Remove a file, or a folder with what is in it; no-op where nothing is at `path`."""
        path = self._plain(path)
        known = tuple(self._folders)  # at once: another thread may be adding to it
        self._folders = {one for one in known if not f"{one}/".startswith(f"{path}/")}
        with self._talk(path, write=True), suppress(FileNotFoundError):
            self._web.rm(path, recursive=True)

    def url_for_container(self, path: str) -> str:
        """Return where a container GETs the file `path`, without Hadoop's programs.

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
        return {"delegation": self.delegation_token()}

    def delegation_token(self, *, wait: bool = True) -> str:
        """Return the token by which containers ask, of which a quarter of its life is left.

        Empty where HDFS asks for none.

        Parameters
        ----------
        wait
            See `Delegation.current`.

        Raises
        ------
        KerberosError, ClusterError
            There is no ticket to get one by, or HDFS does not answer.
        """
        if not self._web.kerb:
            return ""
        self._is_given_away = True
        return self._delegation.current(wait=wait)

    @property
    def token_life(self) -> float:
        """Seconds in which a token counts at most, however often it is renewed.

        Infinite where HDFS asks for none.

        Raises
        ------
        KerberosError, ClusterError
            As `delegation_token`.
        """
        if not self._web.kerb:
            return math.inf
        self._delegation.current()
        return self._delegation.life

    def token_message(self, token: str) -> bytes:
        """Return what tells a container of a token, see `submarine_runtime.delegation`."""
        named = urlsplit(self.url).netloc
        services = [read_token(token).service.decode(), named, f"ha-hdfs:{named}"]
        told = {"version": VERSION, "token": token, "services": services}
        return json.dumps(told).encode()

    def _token_call(self, op: str, token: str = "") -> object:
        with self._talk("a delegation token"):
            if op == "renew":
                return self._web.renew_delegation_token(token)
            if op == "cancel":
                return self._web.cancel_delegation_token(token)
            return self._web.get_delegation_token()

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
        except (OSError, RuntimeError, ValueError, KeyError, TypeError) as error:
            raise hdfs_error_words(
                error, self.where, path, SubmissionError if write else None
            ) from error


# Where the user's HDFS is: found in Hadoop's configuration, and asked whether it answers.


def open_hdfs(conf: HadoopConf, user: str | None = None) -> Hdfs | None:
    """Return the user's HDFS.

    Parameters
    ----------
    conf
        Hadoop's configuration.
    user
        Default: whom the cluster knows this process as. With Kerberos, the ticket says it.

    Returns
    -------
    Hdfs or None
        None where ``fs.defaultFS`` is no HDFS, or no NameNode answers WebHDFS.

    Raises
    ------
    ClusterError
        The packages for it are not installed, or HDFS does not let the user in.
    """
    nodes = name_nodes(conf)
    if not nodes:
        return None
    try:
        from submarine_engine.clusters.yarn.webfs import QuietWebHDFS  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise ClusterError(
            f"HDFS needs a package that is not installed: {error.name}",
            fix=install_extra("yarn"),
        ) from error
    who = None if conf.kerberos else user or conf.user
    for node in nodes:
        others = tuple(other for other in nodes if other != node)
        with suppress(_NotActiveError):
            return _open(QuietWebHDFS, node, others, conf, who)
    return None


class _NotActiveError(Exception):
    """The NameNode does not answer, or is the standby one."""


def _open(
    kind: type[QuietWebHDFS],
    node: NameNode,
    others: tuple[NameNode, ...],
    conf: HadoopConf,
    user: str | None,
) -> Hdfs:
    web = kind(
        node.host,
        node.port,
        user=user,
        kerberos=conf.kerberos,
        use_https=node.secure,
        session_verify=conf.ca or True,
    )
    if conf.kerberos:
        secure_session(conf, web.session)
    try:
        if others:
            web.ask("GETFILESTATUS", "/")  # a standby NameNode knows the home, and nothing else
        return Hdfs(web, conf.default_fs, (node, *others))
    except (ClusterError, OSError, RuntimeError, json.JSONDecodeError) as error:
        web.session.close()
        if isinstance(error, KerberosError):
            raise
        if (wrong := untrusted(error, f"HDFS at {node}")) is not None:
            raise wrong from error
        if isinstance(error, PermissionError) or isinstance(error.__cause__, PermissionError):
            raise
        raise _NotActiveError from error
