"""Many calls of one function, by workers that stay: what maps, executors and sweeps are made of."""

from __future__ import annotations

from submarine_engine.pool.calls import DONE, LAST, WAIT, Answer, Call, End, Nothing, Source
from submarine_engine.pool.pool import GivenUpError, Pool, Workers

__all__ = [
    "DONE", "LAST", "WAIT", "Answer", "Call", "End", "GivenUpError", "Nothing", "Pool", "Source",
    "Workers",
]  # fmt: skip
