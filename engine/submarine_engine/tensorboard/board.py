"""TensorBoards: started once for all of the user's processes, found by id, ended.

One whose process has ended, by itself when nobody has read for a while, is started again by whoever
asks for it next: the id stays, the port changes.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

from submarine_engine.clusters import locks
from submarine_engine.clusters.processes import has_mark, reap, spawn, stat
from submarine_engine.errors import ClusterError, CommandError
from submarine_engine.history import make_private, shown_user
from submarine_engine.tensorboard.installed import check_installed
from submarine_engine.tensorboard.record import Board, Files, ids, sweep
from submarine_engine.tensorboard.wanted import Wanted

MARK = "SUBMARINE_TENSORBOARD"
"""Environment variable of a TensorBoard's process: its id."""

_PATIENCE = 60.0
_BETWEEN = 0.05
_WORDS = 400
_HIDDEN = ("JPY_", "PYDEVD", "IPYKERNEL_", "JUPYTERHUB_", "MPLBACKEND", "SUBMARINE_DRIVER")


class NoTensorBoardError(CommandError, LookupError):
    """There is no such TensorBoard, or it is another user's."""


def start(home: Path, wanted: Wanted) -> Board:
    """Start a TensorBoard where none runs of that content; return at once.

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
        if lock is None:
            return files.read() or Board(wanted)
        try:
            sweep(home)
            files.write(Board(wanted))
            files.log.unlink(missing_ok=True)
            arguments = [str(home), wanted.id, str(lock)]
            program = [sys.executable, "-m", "submarine_engine.tensorboard.serve", *arguments]
            spawn(program, _environment(wanted.id, home), log=files.log, keep=[lock])
        finally:
            locks.drop(lock)
    except OSError as error:
        raise ClusterError(
            f"TensorBoard cannot be started: {error.strerror or error}",
            where=str(files.root),
            fix="make room there, or let SUBMARINE_HOME name a folder of yours with room",
        ) from error
    return Board(wanted)


def wait(home: Path, wanted: Wanted, seconds: float = _PATIENCE) -> Board:
    """Start a TensorBoard, and wait until it listens.

    Raises
    ------
    UnsupportedError, ClusterError
        As `start`; or it ended as it began, in its own last words, or does not come in time.
    """
    until = time.monotonic() + seconds
    tried = False
    while time.monotonic() < until:
        board = poll(home, wanted, tried=tried)
        tried = True
        if board is not None:
            return board
        time.sleep(_BETWEEN)
    raise ClusterError(
        f"TensorBoard does not listen after {seconds:g} s",
        where=str(Files(home, wanted.id).log),
        fix="try again: it may be slow on a busy machine",
    )


def poll(home: Path, wanted: Wanted, *, tried: bool) -> Board | None:
    """Return a TensorBoard that listens; start it where it does not run, and return None.

    Parameters
    ----------
    tried
        Whether the caller has started it already: then one that has ended since is an error.

    Raises
    ------
    UnsupportedError, ClusterError
        As `wait`.
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
        start(home, wanted)
    return None


def find_board(home: Path, board_id: str) -> Board:
    """Return a TensorBoard of the user's by its id; its port is 0 where it does not listen.

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


def boards(home: Path) -> list[Board]:
    """Return the user's TensorBoards that run, those first that were started last."""
    user = shown_user()
    live = (Files(home, board_id).live() for board_id in ids(home))
    return [board for board in live if board and user in (None, board.wanted.user)]


def stop(home: Path, board_id: str) -> bool:
    """End a TensorBoard and forget it; whether it ran.

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
        seen = stat(board.pid)
        if seen and seen.start == board.start and has_mark(board.pid, MARK, board.id):
            with suppress(OSError):
                signal.pidfd_send_signal(descriptor, signal.SIGTERM)
    finally:
        os.close(descriptor)
        reap()
