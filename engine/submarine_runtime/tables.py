"""Data frames as plain rows, for front ends that have tables of their own; `shell` calls it."""

from __future__ import annotations

TYPE_CHECKING = False  # as type checkers have it; the module takes long to import
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

TYPE = "application/vnd.submarine.table+json"
"""A table: ``columns`` and ``rows`` of texts, and how many rows there are in ``total``."""

ROWS = 1000
"""The most rows of a table that are told, as Zeppelin's Python interpreter has it."""


def add_frames(formatter: Any) -> None:  # noqa: ANN401 - IPython's
    """Let a formatter of IPython's tell pandas' frames and series; imports no pandas."""
    for module in ("pandas", "pandas.core.frame"):
        formatter.for_type_by_name(module, "DataFrame", frame_table)
    for module in ("pandas", "pandas.core.series"):
        formatter.for_type_by_name(module, "Series", series_table)


def series_table(series: Any) -> dict[str, Any]:  # noqa: ANN401 - pandas' own
    """Return a series as a table of its index and its values."""
    return frame_table(series.to_frame())


def frame_table(frame: Any) -> dict[str, Any]:  # noqa: ANN401 - pandas' own
    """Return a frame's first rows as a table, its index before them where that says anything."""
    head = frame.head(ROWS)
    if type(head.index).__name__ != "RangeIndex" or head.index.name is not None:
        names = [name if name is not None else "index" for name in head.index.names]
        index = [value if isinstance(value, tuple) else (value,) for value in head.index]
    else:
        names, index = [], [()] * len(head)
    columns = [*names, *(_heading(column) for column in head.columns)]
    values = head.astype(object).where(head.notna(), "").itertuples(index=False, name=None)
    rows = [(*first, *rest) for first, rest in zip(index, values)]  # noqa: B905 - of one frame
    return table(columns, rows, len(frame))


def table(
    columns: Sequence[object], rows: Iterable[Sequence[object]], total: int | None = None
) -> dict[str, Any]:
    """Return rows below their headings, all as text.

    Parameters
    ----------
    columns
        The headings.
    rows
        The rows to show, each with a value for each heading.
    total
        How many rows there are; unless given, those that are shown.
    """
    texts = [[str(value) for value in row] for row in rows]
    return {"columns": list(map(str, columns)), "rows": texts, "total": total or len(texts)}


def _heading(column: object) -> str:
    return " ".join(map(str, column)) if isinstance(column, tuple) else str(column)
