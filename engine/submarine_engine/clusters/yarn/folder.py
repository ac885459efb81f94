"""The keeper's folder: one for each home and Hadoop configuration, and how one is woken."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from submarine_engine.clusters import locks
from submarine_engine.clusters.processes import spawn
from submarine_engine.history import make_private, write_json

if TYPE_CHECKING:
    from submarine_engine.clusters.yarn.hadoop import HadoopConf

_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "grpc_proxy")


class KeeperFolder:
    """Where a keeper has its lock, its bell, and the list of jobs that are not over.

    ::

        <home>/yarn/<fingerprint>/
            keeper.lock     flock held by the keeper as long as it lives
            keeper.log      its own stderr
            bell            named pipe: who submits or cancels rings here
            open/<job id>   an empty file for each job that is not over
            wishes/         what notebooks would have ready for their first job, see `ahead`
            masters.json    applications that are kept warm
            skein/          skein's certificates, and the address of its driver

    Parameters
    ----------
    home
        Where all jobs are kept.
    conf
        The cluster's configuration.
    """

    def __init__(self, home: Path, conf: HadoopConf) -> None:
        self.home = home
        self.conf = conf
        self.root = home / "yarn" / conf.fingerprint
        self.lock = self.root / "keeper.lock"
        self.log = self.root / "keeper.log"
        self.bell = self.root / "bell"
        self.open = self.root / "open"
        self.wishes = self.root / "wishes"
        self.masters = self.root / "masters.json"
        self.skein = self.root / "skein"

    def make(self) -> None:
        """Make the folder, for its owner alone.

        Raises
        ------
        OSError
            It cannot be made.
        """
        for folder in (self.root, self.open, self.wishes, self.skein):
            make_private(folder)

    def open_jobs(self) -> list[str]:
        """Return the ids of the jobs that are not over, oldest first."""
        found = []
        with suppress(FileNotFoundError):
            for path in self.open.iterdir():
                with suppress(FileNotFoundError):  # it is over just now
                    found.append((path.stat().st_mtime_ns, path.name))
        return [job_id for _, job_id in sorted(found)]

    def ring(self) -> None:
        """Wake the keeper; nothing where none listens."""
        with suppress(OSError):
            descriptor = os.open(self.bell, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                os.write(descriptor, b"!")
            finally:
                os.close(descriptor)

    def ensure_keeper(self) -> None:
        """Start a keeper where none lives, and wake the one that does.

        Raises
        ------
        OSError
            The machine can start no more processes, or the folder cannot be written.
        """
        self.make()
        lock = locks.take(self.lock)
        if lock is None:
            self.ring()
            return
        try:
            arguments = [str(self.home), str(self.conf.folder), self.root.name, str(lock)]
            module = "submarine_engine.clusters.yarn.keeper"
            spawn(
                [sys.executable, "-m", module, *arguments],
                keeper_environment(os.environ, self),
                log=self.log,
                keep=[lock],
            )
        finally:
            locks.drop(lock)


def keeper_environment(outer: Mapping[str, str], folder: KeeperFolder) -> dict[str, str]:
    """Return the environment of a keeper, and so of skein's driver.

    Without proxies: gRPC would look for this machine's own driver behind them.
    """
    environment = {key: value for key, value in outer.items() if key.lower() not in _PROXIES}
    environment.update(folder.conf.environment)
    environment["HADOOP_CONF_DIR"] = str(folder.conf.folder)
    environment["SKEIN_CONFIG"] = str(folder.skein)
    return environment


def read_masters(folder: KeeperFolder) -> list[dict[str, Any]]:
    """Return what a former keeper noted of its warm masters."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        noted: list[dict[str, Any]] = json.loads(folder.masters.read_bytes())["masters"]
        return noted
    return []


def write_masters(folder: KeeperFolder, masters: list[dict[str, Any]]) -> None:
    """Note the warm masters for a keeper that comes after a kill."""
    with suppress(OSError):
        write_json(folder.masters, {"version": 1, "masters": masters})
