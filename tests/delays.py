"""Delays what a process does, now and then, at the places where it meets others.

A busy machine does the same, more rarely: a thread begins late, a signal comes late, a folder
changes while it is looked at. A test that fails of that is green by luck, or shows a race of ours.

`scripts/delayed` has each process of an environment import this while the tests run: those of jobs,
too, but for supervisors, which begin with `python -S`. The moments differ each time. It imports
nothing that takes long.
"""

from __future__ import annotations

import _posixsubprocess
import _thread
import os
import time

OFTEN = {
    "kill": 0.5, "killpg": 0.5, "link": 0.2, "replace": 0.12, "rename": 0.12, "ftruncate": 0.1,
    "fsync": 0.05, "listdir": 0.02, "scandir": 0.02, "unlink": 0.02,
}  # fmt: skip
"""How often a function of `os` is delayed, before it or after it."""

FORKS = THREADS = 0.3
"""How often a process or a thread begins late."""

LONGEST = 0.9  # seconds: short beside what the engine waits for, long beside what it looks at

_sleep = time.sleep  # not that of a test which counts sleeps
_start = _thread.start_new_thread


class _Dice:
    """Numbers from 0 to 1 that differ in each process and run; `random` takes long to import."""

    def __init__(self) -> None:
        self._state = time.perf_counter_ns() ^ os.getpid() << 20

    def __call__(self) -> float:
        # A linear congruential generator with Knuth's constants; a fork goes on differently.
        step = self._state * 6364136223846793005 + 1442695040888963407 + time.perf_counter_ns()
        self._state = step & (1 << 64) - 1
        return (self._state >> 33) / (1 << 31)


dice = _Dice()


def delayed(function, often):
    """Return a function that does the same, and sleeps before or after it as often as is said."""

    def later(*args, **more):
        at = dice()
        if at < often / 2:
            _sleep(dice() * LONGEST)
        try:
            return function(*args, **more)
        finally:
            if at > 1 - often / 2:
                _sleep(dice() * LONGEST)

    for name in ("__name__", "__qualname__", "__module__", "__doc__"):
        setattr(later, name, getattr(function, name))
    for able in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks):
        if function in able:  # `shutil` looks whether it may trust them
            able.add(later)
    return later


def begin() -> None:
    """Delay from now on in this process, and in its forks."""
    for name, often in OFTEN.items():
        setattr(os, name, delayed(getattr(os, name), often))
    _posixsubprocess.fork_exec = delayed(_posixsubprocess.fork_exec, FORKS)
    _thread.start_new_thread = _thread.start_new = late_thread


def late_thread(function, args=(), more=None):
    """Start a thread, which now and then does nothing at first."""
    pause = dice() * LONGEST if dice() < THREADS else 0

    def late(*args, **more):
        if pause:
            _sleep(pause)
        return function(*args, **more)

    return _start(late, args, more or {})
