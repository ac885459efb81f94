"""TensorBoards: what each shows makes its id; one is started for all of the user's processes.

What is on disk of one lies in ``<home>/tensorboards/``: where it listens, and the lock that its
process holds. A job may have one attached when it is submitted.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from submarine_engine.clusters import locks
from submarine_engine.clusters.machine import has_mark, process_stat, reap, spawn_detached
from submarine_engine.clusters.store import add_warning
from submarine_engine.errors import ClusterError, CommandError, SubmarineError, UnsupportedError
from submarine_engine.extras import install_extra
from submarine_engine.history import (
    JobPaths,
    find_job,
    make_private,
    read_json,
    shown_user,
    write_json,
)

# What a TensorBoard is to show: jobs, all jobs, folders; and the id that this makes.


MOST_JOBS = 200
"""Jobs that one TensorBoard shows; of all jobs, the newest that wrote events."""

_MOST_FOLDERS = 20
_LONGEST = 4096
_REMOTE = ("hdfs", "webhdfs")


@dataclass(frozen=True, slots=True)
class Selection:
    """What a TensorBoard shows.

    Parameters
    ----------
    jobs
        Ids, sorted.
    everything
        All jobs of the user, those to come too.
    folders
        Absolute folders of this machine, or ``hdfs://`` and ``webhdfs://`` addresses.
    user
        Whose jobs, where several people share a home; None for all.
    """

    jobs: tuple[str, ...] = ()
    everything: bool = False
    folders: tuple[str, ...] = ()
    user: str | None = None

    @property
    def id(self) -> str:
        """The TensorBoard's id: the same for the same content."""
        content = json.dumps([self.jobs, self.everything, self.folders, self.user])
        return hashlib.sha256(content.encode()).hexdigest()[:16]

    @property
    def words(self) -> str:
        """What it shows, for people."""
        told = ["all jobs"] if self.everything else list(self.jobs)
        return ", ".join([*told, *self.folders])

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {
            "jobs": list(self.jobs),
            "all": self.everything,
            "folders": list(self.folders),
            "user": self.user,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Selection:
        """Build from `data`, which `to_json` returned."""
        return cls(tuple(data["jobs"]), data["all"], tuple(data["folders"]), data["user"])


def select(
    home: Path,
    jobs: Sequence[str] = (),
    *,
    everything: bool = False,
    folders: Sequence[str] = (),
    begin: Path | None = None,
) -> Selection:
    """Check what is asked for; all jobs where nothing is.

    Parameters
    ----------
    home
        Where jobs are kept.
    jobs
        As people name them: id, end of the id, or name.
    everything
        Whether all jobs are shown, those to come too; not with `jobs`.
    folders
        Folders of this machine, or addresses in HDFS.
    begin
        Where relative folders begin; the current folder unless given.

    Raises
    ------
    JobNotFoundError
        There is no such job, or it is another user's.
    CommandError
        A folder is not there, or too many are named.
    """
    if jobs and everything:
        raise CommandError("--all and jobs contradict each other", fix="leave one out")
    if len(jobs) > MOST_JOBS or len(folders) > _MOST_FOLDERS:
        raise CommandError(
            f"one TensorBoard shows at most {MOST_JOBS} jobs and {_MOST_FOLDERS} folders",
            where="tensorboard",
            fix="name fewer, or take --all",
        )
    user = shown_user()
    found = sorted({find_job(home, job, user).job_id for job in jobs})
    places = sorted({_folder(text, begin or Path.cwd()) for text in folders})
    everything = everything or not (found or places)
    return Selection(tuple(found), everything, tuple(places), user)


def _folder(text: str, begin: Path) -> str:
    scheme = urlsplit(text).scheme if "://" in text else ""
    if not text or len(text) > _LONGEST or any(char < " " for char in text):
        raise CommandError(f"{text[:100]!r} is no folder", where="--logdir", fix="name a folder")
    if scheme in _REMOTE:
        if "," in text:
            raise CommandError(
                "an address with a comma cannot be told to TensorBoard",
                where="--logdir",
                fix="name the folder above it",
            )
        return text.rstrip("/")
    if scheme not in ("", "file"):
        raise CommandError(
            f"TensorBoard reads files of this machine and of HDFS here, not {scheme}://",
            where="--logdir",
            fix="name a folder, or an address hdfs://…",
        )
    path = begin / Path(text.removeprefix("file://")).expanduser()
    if not path.is_dir():
        raise CommandError(
            f"there is no folder {path}",
            where="--logdir",
            fix="name the folder that the job writes its events to, or a job",
        )
    return str(path.absolute())


# What is on disk of a TensorBoard, in ``<home>/tensorboards/``.
#
# =============  =================================================================
# ``<id>.json``  what it shows, and where it listens, see `Board`
# ``<id>.lock``  flock held by its process as long as it lives
# ``<id>.log``   its own output
# ``<id>/``      what it reads: links to folders of events
# =============  =================================================================


PREFIX = "/submarine/tensorboards"

_ID = re.compile(r"[0-9a-f]{16}")
_VERSION = 1
_OLD = 30 * 86400.0  # seconds: its address in a notebook opens it again until then


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
        What each request has to show, see `submarine_engine.tensorboard.auth`.
    """

    wanted: Selection
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

    Parameters
    ----------
    home
        Where jobs are kept.
    board_id
        The TensorBoard's.

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
        """Write `board` as the record; whoever holds the lock does."""
        live = {"pid": board.pid, "start": board.start, "port": board.port, "key": board.key}
        told = {"version": _VERSION, "id": board.id, "shows": board.wanted.to_json()}
        write_json(self.record, {**told, "live": live if board.pid else None})

    def read(self) -> Board | None:
        """Return what the record says; None where there is none, or it is of a later release."""
        with suppress(OSError, ValueError, KeyError, TypeError):
            data = read_json(self.record)
            if data and data["version"] == _VERSION:
                return Board(Selection.from_json(data["shows"]), **(data["live"] or {}))
        return None

    def remove_links(self) -> None:
        """Remove the links, which stay where its process was killed."""
        shutil.rmtree(self.links, ignore_errors=True)

    def live(self) -> Board | None:
        """Return it where its process lives and listens."""
        if not self.record.exists() or locks.is_free(self.lock):
            return None
        board = self.read()
        # Its lock may be another's, who begins it anew, and the record still of the former one.
        found = process_stat(board.pid) if board and board.port else None
        return board if found and board and found.start == board.start else None


def ids(home: Path) -> Iterator[str]:
    """Yield the ids on record in `home`, those first that were started last."""
    folder = home / "tensorboards"
    with suppress(FileNotFoundError):
        found = [path for path in folder.glob("*.json") if _ID.fullmatch(path.stem)]
        yield from (path.stem for path in sorted(found, key=_written, reverse=True))


def sweep(home: Path) -> None:
    """Remove from `home` what is left of those that nobody has asked for in a month."""
    for board_id in list(ids(home)):
        files = Files(home, board_id)
        if time.time() - _written(files.record) > _OLD and locks.is_free(files.lock):
            for path in (files.record, files.log, files.lock):
                path.unlink(missing_ok=True)
            files.remove_links()


def _written(path: Path) -> float:
    with suppress(OSError):
        return path.stat().st_mtime
    return 0.0


# Whether TensorBoard is installed: an extra, and loaded late.


def check_installed() -> None:
    """Refuse where TensorBoard is not installed.

    Raises
    ------
    UnsupportedError
        It is not.
    """
    try:
        there = find_spec("tensorboard") is not None and find_spec("tensorboard.program")
    except (ImportError, ValueError):
        there = None
    if not there:
        raise UnsupportedError(
            "TensorBoard is not installed in this Python",
            where=sys.executable,
            fix=install_extra("tensorboard"),
        )


# TensorBoards: started once for all of the user's processes, found by id, ended.
#
# One whose process has ended, by itself when nobody has read for a while, is started again by
# whoever asks for it next: the id stays, the port changes.


MARK = "SUBMARINE_TENSORBOARD"
"""Environment variable of a TensorBoard's process: its id."""

_PATIENCE = 60.0  # seconds: its imports take some, and many where the drive is slow
_ENDS_WITHIN = 10.0  # seconds: what the process of one that was deleted takes to end, and more
_BETWEEN = 0.05  # seconds: a person waits, and a look reads one small file
_WORDS = 400
_HIDDEN = ("JPY_", "PYDEVD", "IPYKERNEL_", "JUPYTERHUB_", "MPLBACKEND", "SUBMARINE_DRIVER")


class NoTensorBoardError(CommandError, LookupError):
    """There is no such TensorBoard, or it is another user's."""


def start_board(home: Path, wanted: Selection) -> Board:
    """Start a TensorBoard where none runs of that content; return at once.

    Parameters
    ----------
    home
        Where jobs are kept.
    wanted
        What it is to show.

    Raises
    ------
    UnsupportedError
        TensorBoard is not installed.
    ClusterError
        The machine can start no more processes, or the home cannot be written.
    """
    check_installed()
    files = Files(home, wanted.id)
    try:
        make_private(files.root)
        lock = locks.take(files.lock)
        if lock is None and files.read() is None:  # it was deleted, and its process is about to end
            lock = locks.take(files.lock, wait=_ENDS_WITHIN)
        if lock is None:
            return files.read() or Board(wanted)
        try:
            files.write(Board(wanted))
            sweep(home)
            files.log.unlink(missing_ok=True)
            arguments = [str(home), wanted.id, str(lock)]
            program = [sys.executable, "-m", "submarine_engine.tensorboard.serve", *arguments]
            spawn_detached(program, _environment(wanted.id, home), log=files.log, keep=[lock])
        finally:
            locks.drop(lock)
    except OSError as error:
        raise ClusterError(
            f"TensorBoard cannot be started: {error.strerror or error}",
            where=str(files.root),
            fix="make room there, or let SUBMARINE_HOME name a folder of yours with room",
        ) from error
    return Board(wanted)


def wait_for_board(home: Path, wanted: Selection) -> Board:
    """Start a TensorBoard, and wait until it listens.

    Parameters
    ----------
    home
        Where jobs are kept.
    wanted
        What it is to show.

    Raises
    ------
    UnsupportedError, ClusterError
        As `start_board`; or it ended as it began, in its own last words, or does not come in time.
    """
    until = time.monotonic() + _PATIENCE
    tried = False
    while time.monotonic() < until:
        board = poll_board(home, wanted, tried=tried)
        tried = True
        if board is not None:
            return board
        time.sleep(_BETWEEN)
    raise ClusterError(
        f"TensorBoard does not listen after {_PATIENCE:g} s",
        where=str(Files(home, wanted.id).log),
        fix="try again: it may be slow on a busy machine",
    )


def poll_board(home: Path, wanted: Selection, *, tried: bool) -> Board | None:
    """Return a TensorBoard that listens; start it where it does not run, and return None.

    Parameters
    ----------
    home
        Where jobs are kept.
    wanted
        What it shows.
    tried
        Whether the caller has started it already: then one that has ended since is an error.

    Raises
    ------
    UnsupportedError, ClusterError
        As `wait_for_board`.
    """
    files = Files(home, wanted.id)
    if board := files.live():
        return board
    if locks.is_free(files.lock):
        if tried and (words := _last_words(files.log)):
            raise ClusterError(
                f"TensorBoard ended as it began: {words}",
                where=str(files.log),
                fix="see that file for the whole of it",
            )
        start_board(home, wanted)
    return None


def find_board(home: Path, board_id: str) -> Board:
    """Return a TensorBoard of the user's by its id; its port is 0 where it does not listen.

    Parameters
    ----------
    home
        Where jobs are kept.
    board_id
        Its id, as its address and ``--list`` have it.

    Raises
    ------
    CommandError
        There is none, or it is another user's.
    """
    files = Files(home, board_id)
    board = files.live()
    if board is None and (noted := files.read()):
        board = Board(noted.wanted)
    user = shown_user()
    if board is None or (user is not None and board.wanted.user != user):
        raise NoTensorBoardError(
            f"there is no TensorBoard {board_id}", fix="open one: submarine tensorboard JOB"
        )
    return board


def list_boards(home: Path) -> list[Board]:
    """Return the user's TensorBoards in `home` that run, those first that were started last."""
    user = shown_user()
    live = (Files(home, board_id).live() for board_id in ids(home))
    return [board for board in live if board and user in (None, board.wanted.user)]


def stop_board(home: Path, board_id: str) -> bool:
    """End the TensorBoard of `home` whose id is `board_id`, and forget it; return whether it ran.

    Raises
    ------
    CommandError
        As `find_board`.
    """
    board = find_board(home, board_id)
    files = Files(home, board_id)
    ran = not locks.is_free(files.lock)
    files.record.unlink(missing_ok=True)  # its process sees that, too
    if ran and board.pid:
        _end(board)
    files.log.unlink(missing_ok=True)
    files.remove_links()
    return ran


def _environment(board_id: str, home: Path) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith(_HIDDEN)}
    return {**kept, MARK: board_id, "SUBMARINE_HOME": str(home), "CUDA_VISIBLE_DEVICES": ""}


def _last_words(log: Path) -> str:
    try:
        lines = log.read_text(errors="replace").strip().splitlines()
    except OSError:
        return ""
    return lines[-1][:_WORDS] if lines else ""


def _end(board: Board) -> None:
    """Send SIGTERM to a TensorBoard's own process: looked at again once its pidfd is held."""
    try:
        descriptor = os.pidfd_open(board.pid)
    except OSError:
        return
    try:
        seen = process_stat(board.pid)
        if seen and seen.start == board.start and has_mark(board.pid, MARK, board.id):
            with suppress(OSError):
                signal.pidfd_send_signal(descriptor, signal.SIGTERM)
    finally:
        os.close(descriptor)
        reap()


# What a command line asks of TensorBoards, the same in a terminal and in a notebook.


def open_selected(home: Path, values: Mapping[str, Any]) -> Selection:
    """Return what the `values` of ``tensorboard`` want to see in `home`; raises as `select`."""
    return select(
        home,
        values.get("jobs", ()),
        everything="all" in values,
        folders=[str(folder) for folder in values.get("logdir", ())],
    )


def stop_selected(home: Path, values: Mapping[str, Any]) -> list[Board]:
    """End the TensorBoards that the values of ``tensorboard --stop`` name; return those.

    Words may be jobs, whose TensorBoard is ended, or ids as ``--list`` shows them.

    Parameters
    ----------
    home
        Where jobs are kept.
    values
        As of `Command`: ``jobs``, ``all`` and ``logdir``; without any of them, all that run are
        ended.

    Raises
    ------
    CommandError, JobNotFoundError
        A word names neither; or what it names is not open.
    """
    if "list" in values:
        raise CommandError("--list and --stop contradict each other", fix="leave one out")
    running = {board.id: board for board in list_boards(home)}
    words = list(values.get("jobs", ()))
    picked = [running[word] for word in words if word in running]
    rest = {**values, "jobs": [word for word in words if word not in running]}
    if rest["jobs"] or "all" in values or "logdir" in values:
        board_id = open_selected(home, rest).id
        if board_id not in running:
            raise CommandError(
                "no such TensorBoard is open", fix="see `submarine tensorboard --list`"
            )
        picked.append(running[board_id])
    elif not words:
        picked = list(running.values())
    for board in picked:
        stop_board(home, board.id)
    return picked


# The TensorBoard that a job asks for by ``--tensorboard``, started when it is submitted.


def attach(home: Path, paths: JobPaths) -> None:
    """Start a TensorBoard over one job; what goes wrong becomes a warning of the job, no more.

    Parameters
    ----------
    home
        Where jobs are kept.
    paths
        The job's.
    """
    try:
        start_board(home, Selection((paths.job_id,), user=shown_user()))
    except (SubmarineError, OSError) as error:
        with suppress(OSError):
            add_warning(paths, f"no TensorBoard beside the job: {error}")


def attached_address(home: Path, job_id: str) -> str | None:
    """Return where on this machine a TensorBoard over just that job listens; None where none does.

    Asks nobody: it is called often.

    Parameters
    ----------
    home
        Where jobs are kept.
    job_id
        The job's.
    """
    with suppress(SubmarineError, OSError):
        board = Files(home, Selection((job_id,), user=shown_user()).id).live()
        return board.address if board else None
    return None
