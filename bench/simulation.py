"""A cluster whose tasks are no programs: what drives a job is measured without what it drives.

A `SimulatedBackend` gives each task a folder at once. `play` writes into all folders what the
runtimes of so many tasks would: hellos, a line and the progress at each step, outcomes. So the
driver speaks its real protocol with real files, and another process pays for their making. What is
not simulated is the way to a far machine: that is the cost of a cluster, not of the driver.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from submarine_engine.clusters import locks
from submarine_engine.clusters.backend import (
    Allocated,
    AllocatedByTask,
    Backend,
    Counted,
    KeptJob,
    Request,
)
from submarine_engine.clusters.driver import KeptCluster
from submarine_engine.clusters.exchange import exchange_files
from submarine_engine.clusters.keeper import Keeper
from submarine_engine.clusters.log_mirror import FolderSource
from submarine_engine.history import make_private, read_json, write_json
from submarine_runtime.exchange import PORTS

if TYPE_CHECKING:
    from submarine_engine.clusters.base import Gpu
    from submarine_engine.clusters.exchange import Messages
    from submarine_engine.job import JobSpec

_ENDED = "ended.json"  # what a cluster lists of its containers, in one answer
_SIGNALS = "signals"
_LOOK = 0.02
_TERM, _KILL = 143, 137  # as a shell tells these ends
_PATIENCE = 120.0


class SimulatedBackend(Backend):
    """A cluster that gives whatever is asked for, and runs nothing."""

    name = "simulated"
    title = "The simulated cluster"
    idle = 1.0

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self._has_had_a_job = False

    def tend(self) -> bool:
        """Stay until the first job has come, however slow who submits it is."""
        return not self._has_had_a_job

    def check(self, spec: JobSpec) -> JobSpec:
        """Take any job, without GPUs."""
        roles = (replace(r, resources=replace(r.resources, gpus=0)) for r in spec.roles)
        return replace(spec, roles=tuple(roles))

    def gpus(self, held: Mapping[str, str]) -> list[Gpu]:  # noqa: ARG002 - there are none
        """Return that there are none."""
        return []

    def request(self, job: KeptJob) -> Request:
        """Return what follows the folders of a job's tasks."""
        self._has_had_a_job = True
        return SimulatedRequest(job, self.home / "simulated" / job.paths.job_id)


class SimulatedRequest(Request):
    """A job whose containers are folders that `play` fills."""

    def __init__(self, job: KeptJob, folder: Path) -> None:
        self._folder = folder
        tasks = job.spec.tasks
        self._given = {
            t: Allocated(f"simulated/{t}", f"node-{n // 8}") for n, t in enumerate(tasks)
        }

    def ask(self) -> AllocatedByTask:
        """Make the folders, and give all of them."""
        if not self._folder.exists():
            staged = self._folder.with_name(f".{self._folder.name}")
            for task in self._given:
                make_private(staged / task)
            staged.rename(self._folder)
        return self._given

    def count(self) -> Counted:
        """Count as held what has not ended."""
        ended = (read_json(self._folder / _ENDED) or {"tasks": ()})["tasks"]
        held = {one.id for task, one in self._given.items() if task not in ended}
        return Counted(held, over=not held)

    def signal(self, container: str, *, kill: bool) -> None:
        """Tell the player that a task is to end."""
        self._tell(container.partition("/")[2], kill=kill)

    def withdraw(self) -> None:
        """Tell it that all are."""
        for task in self._given:
            self._tell(task, kill=True)

    def _tell(self, task: str, *, kill: bool) -> None:
        with (self._folder / _SIGNALS).open("a") as file:
            file.write(f"{task} {_KILL if kill else _TERM} {time.time()}\n")

    def exchange(self, messages: Mapping[str, Messages]) -> Mapping[str, Messages]:
        """Bring messages to the folders, and theirs back."""
        return {t: exchange_files(self._folder / t, messages.get(t, {})) for t in self._given}

    def source(self, container: Allocated) -> FolderSource:
        """Return a task's folder."""
        return FolderSource(container.id, self._folder / container.id.partition("/")[2])

    def waiting(self) -> tuple[int, str]:
        """Return that nothing is waited for."""
        return 0, ""

    def close(self) -> None:
        """Do nothing: nothing was opened."""


# What the tasks of a job would write.


class Player:
    """Writes what the runtimes of a job's tasks write, each at its own moment of a step.

    Parameters
    ----------
    folder
        The job's, of the simulated cluster.
    steps
        How many each task does.
    every
        Seconds of a step.
    failing
        A task that fails; empty for none.
    at
        After so many steps.
    """

    def __init__(
        self, folder: Path, steps: int, every: float = 1.0, failing: str = "", at: int = 1
    ) -> None:
        self._folder = folder
        self._steps = steps
        self._every = every
        self._failing = failing
        self._at = at
        self._ended: dict[str, int] = {}
        self._heard = 0

    def run(self) -> None:
        """Play the job from its containers to its end."""
        _until(self._folder.exists)
        tasks = sorted(path.name for path in self._folder.iterdir())
        self._greet(tasks)
        begun = time.monotonic()
        for task in tasks:
            self._put(task, "started.json", {"at": _now(), "gpus": []})
        order = [
            (begun + self._every * (step + number / len(tasks)), step, task)
            for step in range(self._steps)
            for number, task in enumerate(tasks)
        ]
        for due, step, task in order:
            self._hear()  # also where the steps are behind their time
            while (rest := due - time.monotonic()) > 0 and len(self._ended) < len(tasks):
                time.sleep(min(rest, _LOOK))
                self._hear()
            if len(self._ended) == len(tasks):
                return
            if task not in self._ended:
                self._step(task, step)
        self._hear()
        for task in tasks:
            self._end(task, 0)
        self._list()

    def _greet(self, tasks: list[str]) -> None:
        """Say hello for each task, and wait until the gate opens; a task alone has none."""
        if len(tasks) == 1:
            return
        for task in tasks:
            hello = {"version": 1, "job_id": self._folder.name, "task": task, "attempt": 1}
            place = {"host": "node", "network": "", "ports": list(range(1, PORTS + 1))}
            self._put(task, "hello.json", {**hello, **place})
        for task in tasks:
            _until((self._folder / task / "answer.json").exists)

    def _step(self, task: str, step: int) -> None:
        with (self._folder / task / "stdout").open("a") as log:
            log.write(f"step {step + 1}/{self._steps} of {task} - loss: {1 / (step + 1):.4f}\n")
        self._put(task, "progress.json", {"fraction": (step + 1) / self._steps, "message": ""})
        if task == self._failing and step + 1 == self._at:
            self._end(task, 1)
            self._list()

    def _end(self, task: str, code: int) -> None:
        """End a task by itself; nothing where it has ended."""
        if task in self._ended:
            return
        outcome: dict[str, Any] = {
            "version": 1,
            "kind": "raised" if code else "returned",
            "returned_at": _now(),
            "exit_code": code,
            "python": "simulated",
            "result": {"format": "none", "type": "NoneType", "size": 0, "warning": None},
            "outputs": {},
        }
        if code:
            error = {"type": "ValueError", "module": "builtins", "message": "of the simulation"}
            outcome["error"] = error
        self._put(task, "outcome.json", outcome)
        self._leave(task, code)

    def _leave(self, task: str, code: int) -> None:
        (self._folder / task / "exit").write_text(str(code))
        self._ended[task] = code

    def _hear(self) -> None:
        """End the tasks that were signalled, as processes without a handler end."""
        signals = self._folder / _SIGNALS
        if not signals.exists() or signals.stat().st_size == self._heard:
            return
        lines = signals.read_text().splitlines(keepends=True)
        whole = [line for line in lines if line.endswith("\n")]
        self._heard = sum(map(len, whole))
        for line in whole:
            task, code, _ = line.split()
            if task not in self._ended:
                self._leave(task, int(code))
        self._list()

    def _list(self) -> None:
        write_json(self._folder / _ENDED, {"tasks": self._ended})

    def _put(self, task: str, name: str, data: Mapping[str, Any]) -> None:
        folder = self._folder / task
        aside = folder / f".{name}"
        aside.write_text(json.dumps(data))
        aside.replace(folder / name)


def _now() -> list[float]:
    return [time.time(), time.monotonic()]


def _until(holds: Any) -> None:  # noqa: ANN401 - whatever can be asked
    limit = time.monotonic() + _PATIENCE
    while not holds():
        if time.monotonic() > limit:
            raise RuntimeError("the driver of the simulated job does not go on")
        time.sleep(_LOOK)


# A keeper of its own, which is measured from outside.


@contextmanager
def keeper(home: Path) -> Iterator[tuple[KeptCluster, int]]:
    """Give the simulated cluster of a home, and the process of its keeper."""
    backend = SimulatedBackend(home)
    folder = backend.folder()
    folder.make()
    environment = {**os.environ, "SUBMARINE_HOME": str(home)}
    command = [sys.executable, "-m", "bench.simulation", "keep", str(home)]
    with subprocess.Popen(command, env=environment) as process:
        try:
            _until(lambda: folder.lives() or process.poll() is not None)
            yield KeptCluster(backend), process.pid
            process.wait(_PATIENCE)  # it ends when it has been idle
        finally:
            process.kill()


def player(home: Path, job_id: str, *words: str) -> subprocess.Popen[bytes]:
    """Start a process that plays a job's tasks; `words` as `Player` has them."""
    folder = home / "simulated" / job_id
    return subprocess.Popen([sys.executable, "-m", "bench.simulation", "play", str(folder), *words])


def main(words: list[str]) -> None:
    """Be a keeper, or a player."""
    if words[0] == "keep":
        backend = SimulatedBackend(Path(words[1]))
        folder = backend.folder()
        lock = locks.take(folder.lock, wait=_PATIENCE)  # who looks at it holds it for a moment
        assert lock is not None
        Keeper(backend, folder).run()
        locks.drop(lock)
    else:
        folder, steps, every, *failing = words[1:]
        name, at = failing or ("", "1")
        Player(Path(folder), int(steps), float(every), name, int(at)).run()


if __name__ == "__main__":
    main(sys.argv[1:])
