"""Tables in a kernel: pandas frames and our own listings, as data for Zeppelin's ``TABLE``."""

from __future__ import annotations

from typing import Any

from IPython.core.formatters import BaseFormatter
from IPython.core.interactiveshell import InteractiveShell
from submarine_engine.tables import add_frames, table
from submarine_magics.show import Listing
from traitlets import ObjectName, Unicode

from submarine_zeppelin.mime import TABLE_TYPE


class TableFormatter(BaseFormatter):
    """Gives a table's data: ``columns``, ``rows`` and how many rows there are in ``total``."""

    format_type = Unicode(TABLE_TYPE)
    print_method = ObjectName("_repr_submarine_table_")
    _return_type = dict


def register(shell: InteractiveShell) -> None:
    """Let the shell show frames and listings as tables, beside their other forms."""
    display_formatter: Any = shell.display_formatter
    formatter: Any = TableFormatter(parent=display_formatter)
    add_frames(formatter)
    formatter.for_type(Listing, listing_table)
    display_formatter.formatters[TABLE_TYPE] = formatter


def listing_table(listing: Listing[Any]) -> dict[str, Any] | None:
    """Return a listing as a table; None for an empty one, whose headings alone are better text."""
    if not listing.rows:
        return None
    return {**table(listing.head, listing.rows), "below": "\n".join(listing.below)}
