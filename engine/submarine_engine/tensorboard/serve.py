"""A TensorBoard's process: ``python -m submarine_engine.tensorboard.serve HOME ID LOCK``."""

from __future__ import annotations

import os
import secrets
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from submarine_engine.clusters import cluster_kind, cluster_names
from submarine_engine.clusters.machine import process_stat
from submarine_engine.config import load_config
from submarine_engine.errors import ConfigError, SubmarineError, UnsupportedError
from submarine_engine.history import JobPaths, job_ids, job_user, read_json
from submarine_engine.job import JobState
from submarine_engine.records import open_job
from submarine_engine.tensorboard.auth import Gate
from submarine_engine.tensorboard.board import MOST_JOBS, PREFIX, Board, Files, Selection
from submarine_engine.tensorboard.event_dirs import LinkedFolder, Source, event_folders, job_sources

if TYPE_CHECKING:
    from submarine_engine.clusters.base import ClusterKind
    from submarine_engine.future import Job


def let_fsspec_read(remote: Sequence[Source]) -> None:
    """Let fsspec in this process read `remote`, addresses of the clusters' storages.

    Raises
    ------
    UnsupportedError
        No cluster has such a storage.
    ConfigError, ClusterError
        The one that has cannot be used, or does not answer.
    """
    left = {source.place.partition("://")[0] for source in remote}
    problem: SubmarineError | None = None
    for name in cluster_names():
        try:
            kind = cluster_kind(name)
        except (ConfigError, ImportError) as error:
            problem = problem or (error if isinstance(error, ConfigError) else None)
            continue
        mine = [one.place for one in remote if one.place.startswith(_addresses(kind, left))]
        if mine:
            kind.let_read_events(mine)
            left -= set(kind.event_schemes())
    if left:
        raise problem or UnsupportedError(
            f"no cluster of yours has the storage of {remote[0].place}",
            where="tensorboard",
            fix="install the packages of the cluster that has it",
        )


def _addresses(kind: type[ClusterKind], left: set[str]) -> tuple[str, ...]:
    return tuple(f"{scheme}://" for scheme in kind.event_schemes() if scheme in left)


# A TensorBoard's process: ``python -m submarine_engine.tensorboard.serve HOME ID LOCK``.
#
# It holds no GPU and loads no TensorFlow, listens on loopback alone, and ends by itself some time
# after its last reader, or when its record is gone.


_EVERY = 2.0  # seconds: so soon a new job's events are linked; each look lists the jobs on record
_RELOAD = 5  # seconds between two readings of the event files: TensorBoard's own default
_MOST_REMOTE = 20
_MOST_LOOKED_AT = 5000


def main(arguments: list[str]) -> None:
    """Serve until nobody reads any more.

    Parameters
    ----------
    arguments
        The home of the jobs, the TensorBoard's id, and the number of the descriptor that holds its
        lock.
    """
    home, board_id, lock = Path(arguments[0]), arguments[1], int(arguments[2])
    os.set_inheritable(lock, False)  # what plugins start must not keep it
    os.environ["SUBMARINE_HOME"] = str(home)  # where clusters look for the jobs of this process
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    files = Files(home, board_id)
    board = files.read()
    if board is None:
        return
    sources = Sources(home, board.wanted)
    farm = LinkedFolder(files.links)
    try:
        farm.renew(sources.local())
        remote = sources.remote()
        if remote:
            let_fsspec_read(remote)
        key = secrets.token_urlsafe(24)
        gate, port = launch(farm.root, remote, board_id, key)
        me = process_stat(os.getpid())
        if not files.record.exists():  # it was stopped while it started
            return
        files.write(Board(board.wanted, os.getpid(), me.start if me else 0, port, key))
        idle = load_config().value("tensorboard_idle")
        needed = time.monotonic()
        while files.record.exists() and min(gate.idle, time.monotonic() - needed) < idle:
            if sources.busy():
                needed = time.monotonic()
            time.sleep(min(_EVERY, idle / 4 + 0.01))
            with suppress(OSError):
                farm.renew(sources.local())
    finally:
        farm.remove()


class Sources:
    """Where the events of what a TensorBoard shows lie, as of now.

    Parameters
    ----------
    home
        Where jobs are kept.
    wanted
        What it shows.
    """

    def __init__(self, home: Path, wanted: Selection) -> None:
        self._home = home
        self._wanted = wanted
        self._opened: dict[str, Job] = {}

    def local(self) -> list[Source]:
        """Return the folders of this machine."""
        return [source for source in self._all() if not source.remote]

    def remote(self) -> list[Source]:
        """Return the addresses of HDFS, a few of the newest."""
        found = (source for source in self._all() if source.remote)
        return list(islice(found, _MOST_REMOTE))

    def busy(self) -> bool:
        """Return whether a job that asked for a TensorBoard beside it is not over."""
        return any(map(self._is_beside, self._wanted.jobs))

    def _all(self) -> Iterator[Source]:
        for job_id in self._jobs():
            yield from job_sources(JobPaths(self._home, job_id))
        for place in self._wanted.folders:
            yield Source(place.rstrip("/").rpartition("/")[2] or "root", place)

    def _jobs(self) -> Iterator[str]:
        yield from self._wanted.jobs
        if not self._wanted.everything:
            return
        left = MOST_JOBS
        for job_id in islice(job_ids(self._home), _MOST_LOOKED_AT):
            if self._wanted.user and job_user(self._home, job_id) != self._wanted.user:
                continue
            sources = job_sources(JobPaths(self._home, job_id))
            if any(source.remote or event_folders(Path(source.place)) for source in sources):
                yield job_id
                left -= 1
                if not left:
                    return

    def _is_beside(self, job_id: str) -> bool:
        paths = JobPaths(self._home, job_id)
        with suppress(OSError, ValueError, KeyError, TypeError, SubmarineError):
            record, status = read_json(paths.record), read_json(paths.status)
            if record and status and record["spec"]["tensorboard"]:
                # Its cluster is asked, since a job whose supervisor was killed would never end.
                over = JobState(status["state"]).final
                return not over and not self._job(job_id).status().state.final
        return False

    def _job(self, job_id: str) -> Job:
        if job_id not in self._opened:
            self._opened[job_id] = open_job(job_id)
        return self._opened[job_id]


def launch(folder: Path, remote: list[Source], board_id: str, key: str) -> tuple[Gate, int]:
    """Start TensorBoard in threads of this process; return what counts its readers, and its port.

    Parameters
    ----------
    folder
        With the event files, or links to them.
    remote
        Addresses of event files in HDFS.
    board_id
        The TensorBoard's.
    key
        What a reader's request has to carry.

    Raises
    ------
    Exception
        TensorBoard's own.
    """
    # TensorBoard's own switch for its TensorFlow-free half: that starts at once, and needs no GPU.
    sys.modules["tensorboard.compat.notf"] = ModuleType("tensorboard.compat.notf")
    from tensorboard import default, program  # noqa: PLC0415 - an extra, and slow

    gates: list[tuple[Gate, int]] = []

    class Server(program.WerkzeugServer):  # type: ignore[misc] # TensorBoard is not typed
        def __init__(self, app: Any, flags: Any) -> None:  # noqa: ANN401 - TensorBoard's
            gate = Gate(app, key, f"{PREFIX}/{board_id}")
            super().__init__(gate, flags)
            gates.append((gate, self.server_port))

    os.chdir(folder.parent)
    # Relative, so that no comma or colon of the home's own path is taken for a separator.
    where = ["--logdir", folder.name]
    if remote:
        spec = ",".join([folder.name, *(f"{_run(one.name)}:{one.place}" for one in remote)])
        where = ["--logdir_spec", spec]
    board = program.TensorBoard(plugins=default.get_plugins(), server_class=Server)
    board.configure(
        ["tensorboard", *where, "--host", "127.0.0.1", "--port", "0", "--load_fast", "false",
         "--path_prefix", f"{PREFIX}/{board_id}", "--reload_interval", str(_RELOAD),
         "--reload_multifile", "true", "--window_title", "TensorBoard"],
    )  # fmt: skip
    board.launch()
    return gates[0]


def _run(name: str) -> str:
    return name.replace(":", "_").replace(",", "_")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except SubmarineError as error:
        sys.exit(str(error))
