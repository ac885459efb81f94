"""Runs XGBoost's tracker in rank 0, and tells the workers where it is; `job.xgboost` calls it.

XGBoost binds a tracker to a port that is free, and not twice to the same. So rank 0 keeps the port
that the job has for XGBoost, and tells whoever asks there where the tracker of training N listens;
who comes before rank 0 asks again.
"""

from __future__ import annotations

import importlib
import os
import socket
import threading
import time
from contextlib import suppress
from typing import Any

PATIENCE = 300.0
"""Seconds that a worker waits for rank 0 to begin a training; XGBoost itself waits as long for the
last worker.
"""

_LOOPBACK = "127.0.0.1"
_EVERY = 0.1  # seconds between two questions of a worker: hundreds of them ask one rank 0
_MOST = 500
"""Who may be asking at once; more are sent away, and ask again."""
_LONGEST_CALL = 10.0  # seconds: who connects and says nothing gives its place to others


class Trackers:
    """Rank 0's: a tracker for each training, and a thread that says where the newest listens.

    Parameters
    ----------
    world
        How many workers there are.
    host, port
        Where to say it, if there is anybody else. Where the workers meet at 127.0.0.1, no other
        machine is listened to: a tracker has no password.

    Raises
    ------
    OSError
        The port is taken.
    """

    def __init__(self, world: int, host: str, port: int) -> None:
        self._world = world
        near = world == 1 or host == _LOOPBACK
        self._listens = _LOOPBACK if near else "0.0.0.0"  # noqa: S104 - workers are elsewhere
        self._ports: list[int] = []
        self._newest: Any = None
        self._room = threading.BoundedSemaphore(_MOST)
        if world > 1:
            server = socket.create_server((self._listens, port), backlog=world)
            threading.Thread(
                target=self._serve, args=(server,), daemon=True, name="submarine-xgboost"
            ).start()

    def begin(self) -> int:
        """Start the tracker of the next training, once the last one is through; return its port."""
        tracker_type = importlib.import_module("xgboost.tracker").RabitTracker
        if self._newest is not None:
            self._newest.wait_for()
        # Their ranks are those of the job.
        tracker = tracker_type(n_workers=self._world, host_ip=self._listens, sortby="task")
        tracker.start()
        self._newest = tracker
        self._ports.append(int(tracker.worker_args()["dmlc_tracker_port"]))
        return self._ports[-1]

    def _serve(self, server: socket.socket) -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:  # the caller left, or too many files are open: it passes
                time.sleep(_EVERY)
                continue
            if not self._room.acquire(blocking=False):
                connection.close()
                continue
            # One each: whoever connects and says nothing would have all workers wait.
            try:
                threading.Thread(target=self._tell, args=(connection,), daemon=True).start()
            except RuntimeError:  # the machine starts no more threads now; who asks asks again
                self._room.release()
                connection.close()

    def _tell(self, connection: socket.socket) -> None:
        try:
            with connection, suppress(OSError, ValueError):
                connection.settimeout(_LONGEST_CALL)
                number = int(connection.recv(20))
                if 0 <= number < len(self._ports):
                    connection.sendall(b"%d" % self._ports[number])
        finally:
            self._room.release()


_own: list[Trackers] = []
_begun = 0


def arguments(rank: int, world: int, host: str, port: int) -> dict[str, Any]:
    """Return what ``xgboost.collective.CommunicatorContext`` takes for the next training.

    Parameters
    ----------
    rank, world
        Which of how many workers this is.
    host, port
        Rank 0's host, and the port that it has for this.

    Raises
    ------
    RuntimeError
        Rank 0 does not come, or cannot be reached; at rank 0, the port is taken.
    """
    global _begun  # noqa: PLW0603 - trainings of this process
    found = _begin(world, host, port) if rank == 0 else _ask(_begun, host, port)
    _begun += 1
    return {
        "dmlc_communicator": "rabit",
        "dmlc_tracker_uri": host,
        "dmlc_tracker_port": found,
        "dmlc_task_id": f"{rank:06}",  # sorted as text
    }


def _begin(world: int, host: str, port: int) -> int:
    try:
        if not _own:
            _own.append(Trackers(world, host, port))
        return _own[0].begin()
    except OSError as error:
        raise RuntimeError(
            f"{_me()}: no worker can ask for XGBoost's tracker at port {port}:"
            f" {error.strerror or error}"
        ) from error


def _ask(number: int, host: str, port: int) -> int:
    until = time.monotonic() + PATIENCE
    while True:
        try:
            with socket.create_connection((host, port), timeout=_LONGEST_CALL) as connection:
                connection.sendall(b"%d" % number)
                if told := connection.recv(20):
                    return int(told)
                why = "it has begun no such training"
        except ConnectionRefusedError:
            why = "it has not called job.xgboost()"
        except (OSError, ValueError) as error:
            why = f"{error}: is there a firewall between the two?"
        if time.monotonic() > until:
            raise RuntimeError(
                f"{_me()}: rank 0 at {host}:{port} has not answered within {PATIENCE:g} s: {why}"
            )
        time.sleep(_EVERY)


def _me() -> str:
    return f"{os.environ.get('SUBMARINE_TASK', 'this task')} on {os.uname().nodename}"
