"""The keeper: sees every job of a home on one YARN cluster through, and ends when idle.

Kernels, terminals and pages only read what it writes into the jobs' folders, so that a kernel that
dies loses nothing and a hundred readers cost the cluster no more than one.
"""

from __future__ import annotations

import os
import select
import sys
import threading
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

from submarine_engine.clusters.machine import reap
from submarine_engine.clusters.store import Journal
from submarine_engine.clusters.yarn import uploads
from submarine_engine.clusters.yarn.allocator import has_master, take_master
from submarine_engine.clusters.yarn.application import MASTER_MEMORY
from submarine_engine.clusters.yarn.driver import KeeperFolder
from submarine_engine.clusters.yarn.hadoop import ConfFolder, read_conf
from submarine_engine.clusters.yarn.job_run import JobRun
from submarine_engine.clusters.yarn.log_transport import Channel
from submarine_engine.clusters.yarn.masters import keep_app_timeouts, lives, yield_capacity
from submarine_engine.clusters.yarn.scheduler import master_fits
from submarine_engine.clusters.yarn.services import Services
from submarine_engine.config import load_config
from submarine_engine.errors import SubmarineError
from submarine_engine.events import Finished
from submarine_engine.history import JobPaths, read_json
from submarine_engine.job import JobSpec, JobState


def heed_wishes(services: Services) -> None:
    """Begin with what notebooks wish for; returns at once."""
    for path in services.folder.wishes.glob("*.json"):
        content = read_json(path)
        with suppress(OSError):
            path.unlink()
        if content is not None:
            arguments = (services, content)
            threading.Thread(target=_fulfil, args=arguments, daemon=True).start()


def _fulfil(services: Services, content: dict[str, Any]) -> None:
    """Start the master of a notebook where it has none and the queue has room; else the driver."""
    launch = content["launch"]
    try:
        spec = JobSpec.from_json(content["spec"])
        warm = services.logs.choice().channel is not Channel.AFTER
        gone = not lives(services.session(launch))
        if not warm or gone or not master_fits(services.rm, spec.queue, MASTER_MEMORY):
            services.driver.start()  # the job will be an application of its own
        elif not has_master(services, spec, launch):
            services.masters.give(take_master(services, spec, launch))
        _ = services.hdfs  # the job asks for it: found out once
    except SubmarineError as error:
        sys.stderr.write(f"nothing is made ready ahead: {error}\n")


_TURN = 0.5
_TRIES = 5
_KEPT = 30 * 24 * 3600.0


class Keeper:
    """Runs one `JobRun` in a thread for each job that is not over."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._folder = services.folder
        self._stop = threading.Event()
        self._watches: dict[str, threading.Thread] = {}
        with suppress(FileExistsError):
            os.mkfifo(self._folder.bell, 0o600)
        # Open for writing too: else each ringer that closes it would be the end of the file.
        self._bell = os.open(self._folder.bell, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)

    def run(self, idle: float) -> None:
        """See to jobs until there has been none, and no warm master, for `idle` seconds."""
        services = self._services
        given = (services.masters, services.rm, self._stop)
        threading.Thread(target=yield_capacity, args=given, daemon=True).start()
        lifelines = (services.masters, services.rm, idle, self._stop)
        threading.Thread(target=keep_app_timeouts, args=lifelines, daemon=True).start()
        busy_at = time.monotonic()
        while self._folder.root.exists():
            self._take_up()
            if self._services.masters.tend() or self._watches:
                busy_at = time.monotonic()
            elif time.monotonic() - busy_at > idle and not self._folder.open_jobs():
                return
            self._services.load = len(self._watches)
            reap()
            if select.select([self._bell], [], [], _TURN)[0]:
                with suppress(BlockingIOError):
                    os.read(self._bell, 4096)
        self._stop.set()

    def _take_up(self) -> None:
        heed_wishes(self._services)
        for job_id, thread in list(self._watches.items()):
            if not thread.is_alive():
                del self._watches[job_id]
        for job_id in self._folder.open_jobs():
            if job_id not in self._watches:
                self._services.submit_queue.join(job_id)
                thread = threading.Thread(target=self._watch, args=(job_id,), name=job_id)
                thread.daemon = True
                self._watches[job_id] = thread
                thread.start()

    def _watch(self, job_id: str) -> None:
        """See one job through; a trouble that passes is tried again, a lasting one ends the job."""
        paths = JobPaths(self._folder.home, job_id)
        problem = ""
        for attempt in range(_TRIES):
            try:
                over = not paths.root.exists() or JobRun(self._services, paths).run(self._stop)
            except Exception as error:  # noqa: BLE001, PERF203 - one job's trouble is its own
                problem = f"{type(error).__name__}: {error}"
                self._services.submit_queue.leave(job_id)
                traceback.print_exc()
                self._stop.wait(2.0**attempt / 2)
            else:
                if over:
                    self._close(job_id)
                return
        self._give_up(paths, problem)
        self._close(job_id)

    def _give_up(self, paths: JobPaths, problem: str) -> None:
        noted = read_json(paths.root / "yarn.json") or {}
        if noted.get("mode") == "cold" and noted.get("app_id"):
            with suppress(SubmarineError):
                self._services.rm.kill(noted["app_id"])
        end_unwatched(paths, problem)

    def _close(self, job_id: str) -> None:
        with suppress(OSError):
            (self._folder.open / job_id).unlink()


def end_unwatched(paths: JobPaths, problem: str) -> None:
    """Write that a job is lost to its readers, and why."""
    record = read_json(paths.record)
    if record is None:
        return
    journal = Journal(paths, record)
    with suppress(OSError):
        lost = Finished(state=JobState.LOST, reason=f"the job cannot be watched: {problem}")
        journal.append_last(lost)
    journal.close()


def clean_up(services: Services) -> None:
    """Remove from HDFS what no job of the user has used for a long time."""
    with suppress(SubmarineError):
        if services.hdfs is not None:
            uploads.clean(services.hdfs, _KEPT, services.folder.open_jobs())


def main(arguments: list[str]) -> None:
    """Run a keeper: home, Hadoop's configuration, its fingerprint, the descriptor of the lock."""
    home, hadoop, fingerprint, _ = arguments
    conf = read_conf(ConfFolder(Path(hadoop), "HADOOP_CONF_DIR"))
    conf.fingerprint = fingerprint  # as who started it knows it: the files may be new meanwhile
    config = load_config()
    idle = config.value("yarn_idle")
    try:
        lease, logs = config.value("yarn_lease"), config.value("yarn_logs")
        services = Services(Path(home), conf, idle=idle, lease=lease, logs=logs)
    except Exception as error:
        # Nobody waits for ever for a keeper that cannot begin.
        folder = KeeperFolder(Path(home), conf)
        for job_id in folder.open_jobs():
            end_unwatched(JobPaths(folder.home, job_id), f"{type(error).__name__}: {error}")
            (folder.open / job_id).unlink(missing_ok=True)
        raise
    threading.Thread(target=clean_up, args=(services,), daemon=True).start()
    try:
        Keeper(services).run(idle)
    finally:
        services.masters.close()
        services.driver.close()


if __name__ == "__main__":
    main(sys.argv[1:])
