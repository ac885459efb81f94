"""What a controller's workers hold, from when on: the line on the card of a sweep or a map."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from submarine_engine.history import finite

Point = tuple[float, float]

_POINTS = 100
"""Changes that a card can show; twice as many are kept."""
_MOST_READ = 2 * _POINTS + 1


class Holdings:
    """Keeps how many GPUs, or workers, are held.

    Parameters
    ----------
    began
        When that began, in seconds since the epoch; now unless given.
    points
        What is known already: seconds from then on, and how many.
    """

    def __init__(self, began: float | None = None, points: Sequence[Point] = ()) -> None:
        self.began = time.time() if began is None else began
        self._points = list(points)

    @property
    def points(self) -> tuple[Point, ...]:
        """Seconds since it began, and how many were held from then on."""
        return tuple(self._points)

    def note(self, held: int) -> None:
        """Note how many are held from now on; in the long run not each change, but the last."""
        since = round(time.time() - self.began, 1)
        if not self._points or self._points[-1][1] != held:
            self._points.append((since, held))
        if len(self._points) > 2 * _POINTS:
            bins = {
                int(at * _POINTS / max(since, 1e-3)): (at, number) for at, number in self._points
            }
            self._points = list(bins.values())


def parsed_points(pairs: Any) -> tuple[Point, ...]:  # noqa: ANN401 - of a file
    """Return the points that were written; what they hold is checked.

    Parameters
    ----------
    pairs
        Seconds since it began, and how many were held from then on, as a file has them.

    Raises
    ------
    ValueError, TypeError
        They are none.
    """
    points = tuple((finite(x), finite(y)) for x, y in pairs[:_MOST_READ])
    if any(number < 0 for _, number in points):
        raise ValueError("nobody holds less than nothing")
    return points
