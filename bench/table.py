"""What was measured, and one table of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

HEADER = ("figure", "target", "ours", "beside", "theirs", "ratio min", "median", "max")


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One figure, measured several times, each time beside its peers.

    Parameters
    ----------
    target
        What it should be, in words.
    unit
        ``s``, ``ms``, ``kB``, ``MB`` or ``MB/s``.
    ours
        One value a round.
    peers
        Values of the same rounds, by the peer's name.
    places
        Decimals of the ratios.
    """

    what: str
    target: str
    unit: str
    ours: Sequence[float]
    peers: Mapping[str, Sequence[float]]
    places: int = 2

    def rows(self) -> Iterable[tuple[str, ...]]:
        """Return the table's rows: one a peer, ratios taken round by round."""
        what, target, ours = self.what, self.target, f"{median(self.ours):.3g} {self.unit}"
        for name, theirs in self.peers.items():
            ratios = [our / their for our, their in zip(self.ours, theirs, strict=True)]
            shown = [
                f"{value:.{self.places}f}" for value in (min(ratios), median(ratios), max(ratios))
            ]
            yield what, target, ours, name, f"{median(theirs):.3g} {self.unit}", *shown
            what = target = ours = ""


def in_turn(rounds: int, *measures: Callable[[], float]) -> list[list[float]]:
    """Take the measures in turn, round by round, so that a busy machine is as busy for each.

    Returns
    -------
    list of list of float
        For each measure its values, one a round; a first round is not counted.
    """
    values: list[list[float]] = [[] for _ in measures]
    for number in range(rounds + 1):
        for measure, found in zip(measures, values, strict=True):
            value = measure()
            if number:
                found.append(value)
    return values


def markdown(figures: Iterable[Figure]) -> str:
    """Return the table, aligned for the terminal and good as Markdown too."""
    rows = [HEADER, *(row for figure in figures for row in figure.rows())]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADER))]

    def line(row: Sequence[str]) -> str:
        cells = [
            cell.ljust(width) if column < 5 and column != 2 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        return f"| {' | '.join(cells)} |"

    rule = f"|{'|'.join('-' * (width + 2) for width in widths)}|"
    return "\n".join([line(rows[0]), rule, *map(line, rows[1:])])
