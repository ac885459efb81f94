"""`map` and `Executor` in a real kernel: the notebook's own functions, classes and errors."""

from __future__ import annotations

HEAD = """
from submarine_magics import Executor, map

scale = 3

class Point:
    def __init__(self, x):
        self.x = x

class OddError(ValueError):
    pass
"""
SCORE = """def score(point):
    if point.x % 2:
        raise OddError(point.x)
    return Point(point.x * scale)
"""


def test_a_map_gives_the_notebooks_own_classes_and_errors_at_the_cell(kernel):
    kernel.run(HEAD)
    kernel.run(SCORE)
    kernel.run("found = map(score, [Point(n) for n in range(4)], gpus=0).wait()")
    assert kernel.value(
        "[(n, type(one) is Point, one.x) for n, one in found.results().items()]"
    ) == ("[(0, True, 0), (2, True, 6)]")
    assert kernel.value("[isinstance(one, OddError) for one in found.failed.values()]") == (
        "[True, True]"
    )
    ran = kernel.run("for one in found: pass")
    assert "OddError: 1" in ran.error
    assert "line 3" in ran.error
    assert "raise OddError(point.x)" in ran.error
    # As of now, not as of the first one.
    kernel.run("scale = 5")
    assert kernel.value("[one.x for one in map(score, [Point(2)], gpus=0)]") == "[10]"
    kernel.run("ex = Executor(gpus=0, max_workers=1)")
    assert kernel.value("[one.x for one in ex.map(score, [Point(2), Point(4)])]") == "[10, 20]"
    kernel.run("ex.shutdown()")
