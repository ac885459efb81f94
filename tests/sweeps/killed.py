"""Runs a sweep's controller in this process, and kills it with -9 at one of its steps.

``killed.py POOL STEP MOMENT N``: at the N-th time that it comes to STEP (a word to the ``study``,
the ``journal``, a worker's ``frame``, the ``summary`` of its card), ``before`` it, with ``half`` of
it written, or ``after``.
"""

from __future__ import annotations

import sys

from submarine_engine.pool import journal, workers
from submarine_engine.pool.controller import control
from submarine_engine.sweeps import study
from submarine_engine.sweeps.summary import Summary

from tests.pool.killed import Kill


def main(pool, step="", moment="", number="0"):
    kill = Kill(step, moment, int(number))
    places = ((study, "append", "study"), (journal, "_append", "journal"),
              (workers, "append", "frame"))  # fmt: skip
    for module, name, what in places:
        plain = getattr(module, name)

        def patched(descriptor, data, plain=plain, what=what):
            data = bytes(data)
            return kill.come_to(
                what,
                lambda: plain(descriptor, data),
                lambda: plain(descriptor, data[: max(1, len(data) // 2)]),
            )

        setattr(module, name, patched)
    write = Summary.write
    Summary.write = lambda *args: kill.come_to(
        "summary", lambda: write(*args), lambda: (args[1] / ".sweep.json.half").write_text("{")
    )
    control(pool)


if __name__ == "__main__":
    main(*sys.argv[1:])
