"""What is on disk of a TensorBoard, in ``<home>/tensorboards/``.

=============  =================================================================
``<id>.json``  what it shows, and where it listens, see `Board`
``<id>.lock``  flock held by its process as long as it lives
``<id>.log``   its own output
``<id>/``      what it reads: links to folders of events
=============  =================================================================
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from submarine_engine.clusters import locks, machine
from submarine_engine.errors import CommandError
from submarine_engine.history import read_json, write_json
from submarine_engine.tensorboard.wanted import Wanted

PREFIX = "/submarine/tensorboards"

_ID = re.compile(r"[0-9a-f]{16}")
_VERSION = 1
_OLD = 30 * 86400.0


@dataclass(frozen=True, slots=True)
class Board:
    """A TensorBoard as its record says.

    Parameters
    ----------
    wanted
        What it shows.
    pid, start
        Its process, and when that began in clock ticks of this boot; 0 while there is none.
    port
        Where it listens on 127.0.0.1; 0 until it does.
    key
        What each request has to show, see `submarine_engine.tensorboard.gate`.
    """

    wanted: Wanted
    pid: int = 0
    start: int = 0
    port: int = 0
    key: str = ""

    @property
    def id(self) -> str:
        """Its id."""
        return self.wanted.id

    @property
    def path(self) -> str:
        """Where it lies: on its own port, and below the base URL of Jupyter's server."""
        return f"{PREFIX}/{self.id}/"

    @property
    def address(self) -> str:
        """Its address for a browser on this machine, with the key; empty while it is not up."""
        return f"http://127.0.0.1:{self.port}{self.path}?key={self.key}" if self.port else ""


class Files:
    """The files of one TensorBoard.

    Raises
    ------
    CommandError
        `board_id` is not of the form of such an id: it never leads out of `home`.
    """

    def __init__(self, home: Path, board_id: str) -> None:
        if not _ID.fullmatch(board_id):
            raise CommandError(
                f"{board_id!r} is no id of a TensorBoard", fix="see `submarine tensorboard --list`"
            )
        self.root = home / "tensorboards"
        self.record = self.root / f"{board_id}.json"
        self.lock = self.root / f"{board_id}.lock"
        self.log = self.root / f"{board_id}.log"
        self.links = self.root / board_id

    def write(self, board: Board) -> None:
        """Write the record; whoever holds the lock does."""
        live = {"pid": board.pid, "start": board.start, "port": board.port, "key": board.key}
        told = {"version": _VERSION, "id": board.id, "shows": board.wanted.to_json()}
        live_now = live if board.pid else None
        write_json(self.record, {**told, "boot": machine.boot_id(), "live": live_now})

    def read(self) -> Board | None:
        """Return what the record says; None where there is none, or it is of a later release."""
        with suppress(OSError, ValueError, KeyError, TypeError):
            data = read_json(self.record)
            if data and data["version"] == _VERSION:
                return Board(Wanted.from_json(data["shows"]), **(data["live"] or {}))
        return None

    def live(self) -> Board | None:
        """Return it where its process lives and listens."""
        if not self.record.exists() or locks.is_free(self.lock):
            return None
        board = self.read()
        return board if board and board.port else None


def ids(home: Path) -> Iterator[str]:
    """Yield the ids on record, those first that were started last."""
    folder = home / "tensorboards"
    with suppress(FileNotFoundError):
        found = [path for path in folder.glob("*.json") if _ID.fullmatch(path.stem)]
        yield from (path.stem for path in sorted(found, key=_written, reverse=True))


def sweep(home: Path) -> None:
    """Remove what is left of those that nobody has asked for in a month."""
    for board_id in list(ids(home)):
        files = Files(home, board_id)
        if time.time() - _written(files.record) > _OLD and locks.is_free(files.lock):
            for path in (files.record, files.log, files.lock):
                path.unlink(missing_ok=True)


def _written(path: Path) -> float:
    with suppress(OSError):
        return path.stat().st_mtime
    return 0.0
