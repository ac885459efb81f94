"""What it costs to look at a task once a second: of a core, and of the task's own steps."""

from __future__ import annotations

import mmap
import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from submarine_runtime import sampling

from bench.table import Figure

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "5"))
_WINDOWS = 5
"""Of one round: with the looks and without in turn, so that each has both neighbours."""

_SECONDS = 2.0  # of one window: two looks, one of them with a scan of all processes
_WARM_UP = 3.0
_LIMIT = 0.5  # percent of a core
_TASK = """
import ctypes, mmap, os, signal, struct, sys, time
def end_with(parent):
    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it went before the line above
        os._exit(1)
end_with(int(sys.argv[1]))
me = os.getpid()
for _ in range(8):
    if not os.fork():
        end_with(me)
        while True: time.sleep(0.01)
import numpy as np
file = os.open(sys.argv[2], os.O_RDWR)
told = mmap.mmap(file, mmap.PAGESIZE)
side = np.random.default_rng(0).normal(size=(128, 128))
steps = 0
while True:
    side = np.tanh(side @ side)
    steps += 1
    struct.pack_into("q", told, 0, steps)
"""
"""A training of one core and eight loaders of data, which all end with who started them.

It counts its steps in a page of memory that is read from outside.
"""


class _Training:
    """A training with the process that looks at it, which can be stopped for a while."""

    def __init__(self, pid: int, looks: int, counter: mmap.mmap) -> None:
        self._pid, self._looks, self._counter = pid, looks, counter

    def rates(self, *, watched: bool) -> tuple[float, float, float]:
        """Return steps by second and by second of a processor in a window, and the looks' share."""
        os.kill(self._looks, signal.SIGCONT if watched else signal.SIGSTOP)
        steps, used, looked, began = *self._now(), time.monotonic()
        time.sleep(_SECONDS)
        steps, used, looked = (
            now - before for now, before in zip(self._now(), (steps, used, looked), strict=True)
        )
        return steps / (time.monotonic() - began), steps / used, looked / _SECONDS * 100

    def _now(self) -> tuple[float, float, float]:
        (steps,) = struct.unpack_from("q", self._counter)
        return steps, _used(self._pid), _used(self._looks)


@contextmanager
def _training(folder: Path) -> Iterator[_Training]:
    path = folder / "steps"
    path.write_bytes(bytes(mmap.PAGESIZE))
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as counter:
        task = subprocess.Popen(
            [sys.executable, "-c", _TASK, str(os.getpid()), str(path)],
            env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
            start_new_session=True,
        )
        looks = 0
        try:
            looks = sampling.start([(str(folder), task.pid, "")])
            begun = time.monotonic() + _WARM_UP
            while time.monotonic() < begun or not struct.unpack_from("q", counter)[0]:
                if task.poll() is not None:
                    raise RuntimeError("the training that is looked at has ended: it needs numpy")
                time.sleep(0.1)
            yield _Training(task.pid, looks, counter)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(task.pid, signal.SIGKILL)
            task.wait()
            if looks:
                os.kill(looks, signal.SIGKILL)  # stopped as it may be
                os.waitpid(looks, 0)


def costs(folder: Path) -> list[Figure]:
    """Measure the share of a core that is taken, and the task's steps with and without.

    One process is looked at and not, in short windows in turn, and each window is set beside the
    mean of the one before it and the one after. So a machine that grows slower or faster meanwhile
    does so for both sides, and where the process lies in memory is the same for both.
    """
    with _training(folder) as training:
        found = [
            training.rates(watched=bool(number % 2)) for number in range(ROUNDS * _WINDOWS | 1)
        ]
    shares = [share for _, _, share in found[1::2]]
    return [
        Figure(
            what="a task looked at once a second: of a core",
            target="≤ 0.5 %",
            unit="%",
            ours=shares,
            peers={"the limit": [_LIMIT] * len(shares)},
        ),
        _beside("its steps in a second", [one[0] for one in found]),
        _beside("its steps in a second of a processor", [one[1] for one in found]),
    ]


def _beside(what: str, rates: Sequence[float]) -> Figure:
    """Return the rates of windows, the odd ones looked at, each beside its neighbours' mean."""
    on, off = [], []
    for at in range(1, len(rates) - 1):
        both = rates[at], (rates[at - 1] + rates[at + 1]) / 2
        for side, rate in zip((on, off) if at % 2 else (off, on), both, strict=True):
            side.append(rate)
    return Figure(
        what=what,
        target="≥ 0.995 of without",
        unit="steps/s",
        places=4,
        ours=on,
        peers={"not looked at": off},
    )


def _used(pid: int) -> float:
    """Return how many seconds a process of one thread has run, by ``schedstat`` of proc(5)."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9
