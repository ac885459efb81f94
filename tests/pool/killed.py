"""Runs a pool in this process, and kills it with -9 at one of its steps.

``killed.py POOL STEP MOMENT N``: at the N-th time that it comes to STEP (``journal ended``,
``frame call``, ``submit``), ``before`` it, with ``half`` of it written, or ``after``.
"""

from __future__ import annotations

import os
import signal
import sys

from submarine_engine.clusters.local import LocalCluster
from submarine_engine.pool import journal, workers
from submarine_engine.pool.controller import control


def kind_of(data):
    line = data[:4000].partition(b"\n")[0]
    return line.split(b'"kind": "', 1)[1].split(b'"', 1)[0].decode() if b'"kind": "' in line else ""


class Kill:
    def __init__(self, step, moment, number):
        self.step, self.moment, self.left = step, moment, number

    def come_to(self, step, do, half=None):
        if step != self.step or (left := self.left - 1) < 0:
            return do()
        self.left = left
        if left:
            return do()
        if self.moment == "half":
            half()
        elif self.moment == "after":
            do()
        os.kill(os.getpid(), signal.SIGKILL)
        return None


def main(pool, step="", moment="", number="0"):
    kill = Kill(step, moment, int(number))
    for module, name, what in ((journal, "_append", "journal"), (workers, "append", "frame")):
        plain = getattr(module, name)

        def patched(descriptor, data, plain=plain, what=what):
            data = bytes(data)
            return kill.come_to(
                f"{what} {kind_of(data)}".strip(),
                lambda: plain(descriptor, data),
                lambda: plain(descriptor, data[: max(1, len(data) // 2)]),
            )

        setattr(module, name, patched)
    submit = LocalCluster.submit
    LocalCluster.submit = lambda *args, **more: kill.come_to(
        "submit", lambda: submit(*args, **more)
    )
    control(pool)


if __name__ == "__main__":
    main(*sys.argv[1:])
