"""Tables in a kernel: pandas frames and our own listings, as data for Zeppelin's ``TABLE``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from IPython.core.formatters import BaseFormatter
from IPython.core.interactiveshell import InteractiveShell
from submarine_magics.show import Listing
from traitlets import ObjectName, Unicode

from submarine_zeppelin.mime import TABLE_TYPE

ROWS = 1000
"""The most rows of a table that a paragraph shows, as Zeppelin's Python interpreter has it."""


class TableFormatter(BaseFormatter):
    """Gives a table's data: ``columns``, ``rows`` and how many rows there are in ``total``."""

    format_type = Unicode(TABLE_TYPE)
    print_method = ObjectName("_repr_submarine_table_")
    _return_type = dict


def register(shell: InteractiveShell) -> None:
    """Let the shell show frames and listings as tables, beside their other forms."""
    display_formatter: Any = shell.display_formatter
    formatter: Any = TableFormatter(parent=display_formatter)
    for module in ("pandas", "pandas.core.frame"):
        formatter.for_type_by_name(module, "DataFrame", frame_table)
    for module in ("pandas", "pandas.core.series"):
        formatter.for_type_by_name(module, "Series", series_table)
    formatter.for_type(Listing, listing_table)
    display_formatter.formatters[TABLE_TYPE] = formatter


def listing_table(listing: Listing[Any]) -> dict[str, Any] | None:
    """Return a listing as a table; None for an empty one, whose headings alone are better text."""
    if not listing.rows:
        return None
    return {**_table(listing.head, listing.rows), "below": "\n".join(listing.below)}


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
    rows = [(*first, *rest) for first, rest in zip(index, values, strict=True)]
    return _table(columns, rows, len(frame))


def _heading(column: object) -> str:
    return " ".join(map(str, column)) if isinstance(column, tuple) else str(column)


def _table(
    columns: Sequence[object], rows: Iterable[Sequence[object]], total: int | None = None
) -> dict[str, Any]:
    texts = [[str(value) for value in row] for row in rows]
    return {"columns": list(map(str, columns)), "rows": texts, "total": total or len(texts)}
