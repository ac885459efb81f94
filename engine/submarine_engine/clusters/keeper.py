"""The keeper: sees every job of a home on one cluster through, and ends when idle.

Kernels, terminals and pages only read what it writes into the jobs' folders, so that a kernel that
dies loses nothing and a hundred readers cost the cluster no more than one.
"""

from __future__ import annotations

import os
import resource
import select
import sys
import threading
import time
import traceback
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from submarine_engine.clusters import locks, open_cluster
from submarine_engine.clusters.backend import KeeperFolder
from submarine_engine.clusters.driver import KeptCluster
from submarine_engine.clusters.job_run import JobRun
from submarine_engine.clusters.machine import reap
from submarine_engine.clusters.store import Journal, add_warning, read_events
from submarine_engine.errors import ConfigError, SubmarineError
from submarine_engine.events import Finished, Waiting
from submarine_engine.history import SPOILT, JobPaths, read_json
from submarine_engine.job import JobState
from submarine_engine.lifecycle import fold
from submarine_engine.records import iter_jobs

if TYPE_CHECKING:
    from submarine_engine.clusters.backend import Backend

_TURN = 0.5  # seconds: whoever wants it sooner rings; this is for a ringer that was killed before
_TRIES = 5  # with pauses of 0.5 s to 8 s: what is not gone after 15 s in all does not pass
_STEADY = 60.0  # seconds after which a trouble is a new one
_FILES = 4096  # of a thousand jobs; no more, since Slurm has its jobs begin with the same limit


class _Rest:
    """What a job's driver rests by: until something happens to the job, or the keeper ends.

    Parameters
    ----------
    ending
        Is set when the keeper ends; all of its jobs' are woken then.
    """

    def __init__(self, ending: threading.Event) -> None:
        self._ending = ending
        self._woken = threading.Event()

    def is_set(self) -> bool:
        """Return whether the keeper ends."""
        return self._ending.is_set()

    def wait(self, timeout: float) -> None:
        """Rest that many seconds, less where it is woken."""
        self._woken.wait(timeout)
        self._woken.clear()

    def wake(self) -> None:
        """End the rest, or the next one where the driver is at work: it looks once more."""
        self._woken.set()


class Keeper:
    """Runs one `JobRun` in a thread for each job that is not over.

    Parameters
    ----------
    backend
        The cluster.
    folder
        The keeper's own, whose lock the caller holds.
    """

    def __init__(self, backend: Backend, folder: KeeperFolder) -> None:
        self._backend = backend
        self._folder = folder
        self._stop = threading.Event()
        self._runs: dict[str, threading.Thread] = {}
        self._rests: dict[str, _Rest] = {}
        self._busy_at = time.monotonic()
        self._troubles: dict[str, str] = {}
        backend.submit_queue.on_turn = self._wake
        backend.begin(folder, self._stop)
        with suppress(FileExistsError):
            os.mkfifo(folder.bell, 0o600)
        # Open for writing too: else each ringer that closes it would be the end of the file.
        self._bell = os.open(folder.bell, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)

    def run(self) -> None:
        """See to jobs until there has been none, and nothing else to tend, for a while."""
        threading.Thread(target=adopt_unhanded, args=(self._folder,), daemon=True).start()
        try:
            self._busy_at = time.monotonic()
            while self._turn():
                reap()
                if select.select([self._bell], [], [], _TURN)[0]:
                    with suppress(BlockingIOError):
                        os.read(self._bell, 4096)
            self._stop.set()
            for rest in self._rests.values():
                rest.wake()
        finally:
            self._backend.end()

    def _turn(self) -> bool:
        """Take up what is new, and tend the rest; return whether there is more to come.

        A disk that cannot be read now ends no keeper: nobody else would see to its jobs.
        """
        try:
            more = self._look()
        except OSError as error:
            self._say("turn", error)
            return True
        self._troubles.pop("turn", None)
        return more

    def _look(self) -> bool:
        try:
            self._folder.root.stat()
        except (FileNotFoundError, NotADirectoryError):  # it was deleted
            return False
        self._take_up()
        if self._tend() or self._runs:
            self._busy_at = time.monotonic()
        is_idle = time.monotonic() - self._busy_at > self._backend.idle
        return not is_idle or bool(self._folder.open_jobs())

    def _say(self, where: str, error: Exception) -> None:
        """Say what went wrong: once, not twice a second."""
        if repr(error) != self._troubles.get(where):
            traceback.print_exc()
        self._troubles[where] = repr(error)

    def _wake(self, job_id: str) -> None:
        """Have a job's driver look now."""
        rest = self._rests.get(job_id)
        if rest is not None:
            rest.wake()

    def _tend(self) -> bool:
        """Maintain what outlives jobs (idle masters, pods); an error here fails no job."""
        try:
            kept = self._backend.tend()
        except Exception as error:  # noqa: BLE001 - a backend raises what it likes
            self._say("tend", error)
            return False
        self._troubles.pop("tend", None)
        return kept

    def _take_up(self) -> None:
        for job_id, thread in list(self._runs.items()):
            if not thread.is_alive():
                del self._runs[job_id], self._rests[job_id]
        fresh = [job_id for job_id in self._folder.open_jobs() if job_id not in self._runs]
        for job_id in fresh:
            rest = self._rests[job_id] = _Rest(self._stop)
            self._backend.submit_queue.join(job_id)
            thread = threading.Thread(target=self._see_through, args=(job_id, rest), name=job_id)
            thread.daemon = True
            try:
                self._folder.take_up(job_id)
                thread.start()
            except RuntimeError:  # the machine starts no more threads now: at a later turn, then
                return
            self._runs[job_id] = thread

    def _see_through(self, job_id: str, rest: _Rest) -> None:
        """See one job through, and have it hold up no other from then on."""
        try:
            self._try(job_id, rest)
        finally:
            self._backend.submit_queue.leave(job_id)

    def _try(self, job_id: str, rest: _Rest) -> None:
        """See one job through; a trouble that passes is tried again, a lasting one ends the job."""
        paths = JobPaths(self._folder.home, job_id)
        problem, attempt = "", 0
        while attempt < _TRIES:
            began = time.monotonic()
            try:
                if not paths.root.exists():
                    over = True
                else:
                    run = JobRun(self._backend, paths, lambda: len(self._runs))
                    with closing(run):
                        over = run.run(rest)
            except Exception as error:  # noqa: BLE001 - one job's trouble is its own
                problem = f"{type(error).__name__}: {error}"
                self._backend.submit_queue.leave(job_id)
                traceback.print_exc()
                if time.monotonic() - began > _STEADY:  # a job of weeks may have many
                    attempt = 0
                self._stop.wait(2.0**attempt / 2)
                attempt += 1
            else:
                if over:
                    self._folder.close(job_id)
                return
        with suppress(SubmarineError, *SPOILT):
            self._backend.give_up(paths)
        end_unwatched(paths, problem)
        self._folder.close(job_id)


def give_back(folder: KeeperFolder, problem: str) -> None:
    """Say to each job what keeps its keeper from beginning.

    Nobody waits for ever for that: a job that no keeper has begun with is over. One that the
    cluster may know of is not, whatever its keeper says.

    Parameters
    ----------
    folder
        The keeper's, with the list of its jobs.
    problem
        Why the keeper cannot begin, in words.
    """
    for job_id in folder.open_jobs():
        paths = JobPaths(folder.home, job_id)
        if folder.is_taken_up(job_id):
            with suppress(*SPOILT):
                leave_to_next(paths, problem)
            continue
        end_unwatched(paths, problem)
        folder.close(job_id)


def end_unwatched(paths: JobPaths, problem: str) -> None:
    """Write that a job is lost to its readers, and why; nothing where it is over.

    Nor where its folder cannot be read or written: no other job waits for that.

    Parameters
    ----------
    paths
        The job's files.
    problem
        What went wrong with its keeper, in words.
    """
    with suppress(*SPOILT):
        record = _read_record(paths)
        if record is None or fold(event for event, _ in read_events(paths.events)[0]).state.final:
            return
        lost = Finished(state=JobState.LOST, reason=f"the job cannot be watched: {problem}")
        with closing(Journal(paths, record)) as journal:
            journal.append_last(lost)


def _read_record(paths: JobPaths) -> dict[str, Any] | None:
    """Return a job's record; of a spoilt one what its summary still has of it."""
    try:
        return read_json(paths.record)
    except SPOILT:
        told: dict[str, Any] = {}
        with suppress(*SPOILT):
            told = read_json(paths.status) or {}
        roles = [{"resources": {"gpus": told.get("gpus", 0)}, "count": 1}]
        return {**told, "spec": {**told, "roles": roles}}


def leave_to_next(paths: JobPaths, problem: str) -> None:
    """Say to the readers of a job that may run what keeps its keeper; the next one goes on with it.

    Whoever looks at the job starts that.

    Parameters
    ----------
    paths
        The job's files.
    problem
        Why the keeper cannot begin, in words.
    """
    record = _read_record(paths)
    status = fold(event for event, _ in read_events(paths.events)[0])
    if record is None or status.state.final:
        return
    why = f"no keeper can begin: {problem}"
    add_warning(paths, f"{why}. What runs of the job runs on; whoever looks at it starts a keeper")
    if any(task.held for task in status.tasks) or status.waiting_reason == why:
        return
    with closing(Journal(paths, record)) as journal:
        journal.append(Waiting(ahead=status.ahead or 0, reason=why))


def adopt_unhanded(folder: KeeperFolder) -> None:
    """Take up jobs whose submitter was killed once they were on record, before it handed them on.

    Whoever looks at such a job does the same.

    Parameters
    ----------
    folder
        The keeper's: jobs of its home and cluster are looked through, and put on its list.
    """
    for summary in iter_jobs(folder.home):
        if summary.cluster == folder.name and not summary.state.final:
            with suppress(OSError, ValueError, AttributeError):
                folder.adopt(JobPaths(folder.home, summary.id))


def main(arguments: list[str]) -> None:
    """Run a keeper by `arguments`: home, cluster, its key, the descriptor of the lock."""
    home, name, key, lock = arguments
    _allow_files()
    folder = KeeperFolder(Path(home), name, key)
    try:
        cluster = open_cluster(name)
        if not isinstance(cluster, KeptCluster):
            raise ConfigError(f"the cluster {name!r} has no keeper")  # noqa: TRY301 - as any trouble
        backend = cluster.backend
        folder = backend.folder(key)  # as who started it knows it: the files may be new meanwhile
        keeper = Keeper(backend, folder)
    except Exception as error:
        give_back(folder, f"{type(error).__name__}: {error}")
        raise
    keeper.run()
    # Whoever has handed a job on meanwhile has seen the lock taken, and started no other keeper.
    locks.drop(int(lock))
    if folder.open_jobs():
        folder.ensure_keeper(os.environ)


def _allow_files() -> None:
    """Let this process have more files open where it may: each job that runs holds some."""
    soft, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = _FILES if most == resource.RLIM_INFINITY else min(_FILES, most)
    with suppress(OSError, ValueError):  # a system that allows less than it says
        if resource.RLIM_INFINITY != soft < files:
            resource.setrlimit(resource.RLIMIT_NOFILE, (files, most))


if __name__ == "__main__":
    main(sys.argv[1:])
