"""Checkpoints in HDFS, by WebHDFS and the standard library alone, for `checkpoints`.

A file is written to this machine first, and brought to HDFS when it is whole; what is read is
brought here first, and checked as it is read. The variable `VARIABLE` says as which user to ask,
and which NameNodes there are.
"""

from __future__ import annotations

import os
import sys
import time

from submarine_runtime import delegation, lean
from submarine_runtime.checkpoint_files import ASIDE_LIVES, Folder, NewFile
from submarine_runtime.lean import standard, suppress

TYPE_CHECKING = False  # as type checkers have it; the module takes long to import
if TYPE_CHECKING:
    from typing import Any, BinaryIO

VARIABLE = "SUBMARINE_HDFS"
"""JSON: ``default``, the file system's host and port; ``home``, the user's folder; ``urls``, the
root by WebHDFS with who asks in the query, separated by spaces (those of an HA pair).
"""

_TIMEOUT = 30  # seconds without a byte: then the other NameNode of an HA pair is asked
_HOPS = 3
_LONGEST = 400
_GONE = 404
_DONE = (200, 201)
_FOUND = range(300, 400)


class HdfsFolder(Folder):
    """A folder in the cluster's HDFS.

    Parameters
    ----------
    address
        ``hdfs://host:port/path`` or ``hdfs:///path``; or a path, below the user's home where it is
        relative.

    Raises
    ------
    ValueError
        It is in another HDFS, or this job was not told how to reach one.
    """

    look = 2.0
    wait = 0.3

    def __init__(self, address: str) -> None:
        told = lean.loads(os.environ.get(VARIABLE, "") or "{}")
        scheme, _, rest = address.rpartition("://")
        host, _, path = rest.partition("/") if scheme else ("", "", f"{told.get('home')}/{address}")
        if not told or host not in ("", told["default"]):
            known = f"; this job reaches hdfs://{told['default']}" if told else ""
            raise ValueError(
                f"checkpoints cannot be kept in {address}{known}: give --checkpoint_path a folder "
                "of this cluster's HDFS (hdfs:///user/me/run), or one that all nodes see "
                "(file:///shared/run)"
            )
        # No file of the user's by that name comes first, here and in what imports it below.
        _module("http.client")
        from submarine_runtime.ship import WebFolder  # noqa: PLC0415 - its modules take long

        path = "/".join(filter(None, path.split("/")))
        self._urls = str(told["urls"]).split()
        self._root = f"/{path}"
        self._home = str(told["home"])
        self._web = WebFolder(str(told["urls"]), path)
        self._owners: dict[str, str] = {}
        self._copies: dict[str, str] = {}
        self._begun: set[str] = set()
        super().__init__(f"hdfs://{told['default']}/{path}")

    # Asking the NameNode.

    def _ask(self, method: str, name: str, **query: str) -> bytes:
        """Return the answer of whichever NameNode is active.

        Raises
        ------
        FileNotFoundError
            There is no such file.
        OSError
            HDFS refuses, in its own words; or none answers.
        """
        path = f"{self._root}/{name}".rstrip("/")
        said: OSError | None = None
        for _ in self._urls:
            try:
                return _exchange(method, self._url(path, **query))
            except (FileNotFoundError, NotADirectoryError):  # noqa: PERF203 - at most two
                raise
            except OSError as error:
                said = said or error
                self._urls.append(self._urls.pop(0))  # of an HA pair the other is active
        raise said or OSError("no NameNode is known")

    def _url(self, path: str, **query: str) -> str:
        quote = _module("urllib.parse").quote
        address, _, who = self._urls[0].partition("?")
        who = delegation.renewed(who)
        mine = [f"{key}={quote(value, safe='')}" for key, value in query.items()]
        mine += [pair for pair in who.split("&") if pair and not pair.startswith("op=")]
        return f"{address.rstrip('/')}{quote(path)}?{'&'.join(mine)}"

    def _statuses(self, name: str) -> list[dict[str, Any]]:
        try:
            answer = lean.loads(self._ask("GET", name, op="LISTSTATUS").decode())
        except FileNotFoundError:
            return []
        found: list[dict[str, Any]] = answer["FileStatuses"]["FileStatus"]
        # Asked for a file, HDFS lists that file by an empty name.
        return [one for one in found if one["pathSuffix"]]

    # As `Folder` has it.

    def names(self, name: str = "") -> dict[str, int]:
        """Return the sizes of what lies there by name; nothing where it is no folder."""
        found = {}
        for one in self._statuses(name):
            there = one["pathSuffix"]
            self._owners[f"{name}/{there}" if name else there] = one["owner"]
            found[there] = one["length"] if one["type"] == "FILE" else -1
        return found

    def read(self, name: str) -> bytes | None:
        """Return a small file's content; None where there is none."""
        with suppress(FileNotFoundError):
            return self._ask("GET", name, op="OPEN")
        return None

    def opened(self, name: str) -> BinaryIO:
        """Bring a file here once, and open it; PermissionError where it is another user's."""
        if name not in self._copies:
            copy = _new_path()
            from submarine_runtime.webhdfs import fetch  # noqa: PLC0415 - only to go on

            urls = []
            for _ in self._urls:
                urls.append(self._url(f"{self._root}/{name}", op="OPEN"))
                self._urls.append(self._urls.pop(0))
            fetch(" ".join(urls), copy)
            self._copies[name] = copy
        self.expect_own(name)
        return open(self._copies[name], "rb")  # noqa: PTH123 - pathlib is slow

    def tidy(self) -> None:
        """Remove what was copied to read it."""
        while self._copies:
            with suppress(OSError):
                os.unlink(self._copies.popitem()[1])  # noqa: PTH108 - as above

    def new(self, name: str) -> NewFile:
        """Make a file that is brought to HDFS when it is closed."""
        return _HdfsFile(self, name)

    def bring(self, path: str, name: str) -> None:
        """Write the file `path` of this machine to HDFS as `name`, below the folder."""
        with open(path, "rb") as file:  # noqa: PTH123 - as above
            self._web.create(name, file)

    def make(self, name: str) -> None:
        """Make a folder, and those above it; no-op where it is there."""
        self._ask("PUT", name, op="MKDIRS", permission="700")

    def put_in_place(self, aside: str, name: str) -> None:
        """Give a folder another name, for good."""
        # With this option HDFS refuses where something lies there; without, it moves into that.
        there = f"{self._root}/{name}"
        self._ask("PUT", aside, op="RENAME", destination=there, renameoptions="OVERWRITE")

    def remove(self, name: str) -> None:
        """Remove what lies there, as far as that can be done."""
        with suppress(OSError):
            self._ask("DELETE", name, op="DELETE", recursive="true")

    def is_cut(self, aside: str) -> bool:
        """Tell whether nobody writes that checkpoint any more: another job of the same path may."""
        job = os.environ.get("SUBMARINE_JOB_ID")
        if job and f".{job}." in aside:
            return True  # of a former attempt
        made = [one["modificationTime"] for one in self._statuses("") if one["pathSuffix"] == aside]
        return bool(made) and time.time() - made[0] / 1000 > ASIDE_LIVES

    def expect_own(self, name: str) -> None:
        """Refuse what another user has put there: whoever loads a pickle runs it.

        Raises
        ------
        PermissionError
            It is another user's.
        """
        owner = self._owners.get(name)
        if owner is None:
            told = lean.loads(self._ask("GET", name, op="GETFILESTATUS").decode())
            owner = self._owners[name] = told["FileStatus"]["owner"]
        if owner != self._home.rpartition("/")[2]:
            raise PermissionError(
                f"{self.where}/{name} belongs to {owner}, and to load a checkpoint is to run what "
                "is in it: give another --checkpoint_path, or a copy of it where you trust it"
            )

    def tell(self, name: str, line: str) -> None:
        """Add a line to a file that others read."""
        data = f"{line}\n".encode()
        if name not in self._begun:
            self._begun.add(name)
            try:
                self._ask("GET", name, op="GETFILESTATUS")
            except FileNotFoundError:
                self._web.create(name, data)
                return
        self._web.append(name, data)

    def hear(self, name: str, since: int = 0) -> str:
        """Return the whole lines of such a file from a byte on; none where there are none yet."""
        try:
            told = lean.loads(self._ask("GET", name, op="GETFILESTATUS").decode())
            if told["FileStatus"]["length"] <= since:  # to read there would be an error
                return ""
            data = self._ask("GET", name, op="OPEN", offset=str(since))
        except FileNotFoundError:
            return ""
        lines, end, _ = data.rpartition(b"\n")
        return (lines + end).decode("ascii")

    def free(self) -> str:
        """Return how much room there is, in words."""
        return "see hdfs dfs -df"


class _HdfsFile(NewFile):
    """A new file that lies here until it is whole."""

    def __init__(self, folder: HdfsFolder, name: str) -> None:
        self._folder = folder
        self._name = name
        self._here = _new_path()
        super().__init__(self._here)

    def __exit__(self, kind: object = None, *_: object) -> None:
        """Bring it to HDFS, unless it is not whole."""
        try:
            super().__exit__()
            if kind is None:
                self._folder.bring(self._here, self._name)
        finally:
            os.unlink(self._here)  # noqa: PTH108 - as above


def _new_path() -> str:
    """Return a name in the folder for temporary files, which YARN gives each container."""
    folder = os.environ.get("TMPDIR") or _module("tempfile").gettempdir()
    return f"{folder}/.submarine-checkpoint-{os.urandom(8).hex()}"


def _module(name: str) -> Any:  # noqa: ANN401 - a module
    standard(name, "")  # of one in a package it returns the package
    return sys.modules[name]


def _exchange(method: str, url: str, hops: int = _HOPS) -> bytes:
    client = _module("http.client")
    parse = _module("urllib.parse")
    from submarine_runtime.webhdfs import connect  # noqa: PLC0415 - its modules take long

    where = parse.urlsplit(url)
    connection = connect(where, timeout=_TIMEOUT)
    try:
        connection.request(method, f"{where.path}?{where.query}")
        answer = connection.getresponse()
        there = answer.getheader("Location")
        if answer.status in _FOUND and there and hops:
            return _exchange(method, parse.urljoin(url, there), hops - 1)
        body: bytes = answer.read()
        if answer.status not in _DONE:
            raise _error_of(answer.status, body)
    except client.HTTPException as error:
        raise OSError(f"{where.netloc}: {error or type(error).__name__}") from error
    else:
        return body
    finally:
        connection.close()


def _error_of(status: int, body: bytes) -> OSError:
    """Return the error that HDFS means."""
    words, name = body[:_LONGEST].decode("utf-8", "replace"), ""
    with suppress(ValueError, KeyError, TypeError, RecursionError):
        told = lean.loads(body.decode())["RemoteException"]
        words, name = str(told["message"]).partition("\n")[0], str(told["exception"])
    if status == _GONE:
        return FileNotFoundError(2, words)
    if name in ("FileAlreadyExistsException", "ParentNotDirectoryException"):
        return NotADirectoryError(20, words)
    return OSError(f"{status} {words}")
