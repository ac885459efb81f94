"""What a front end other than Jupyter's does its own way, told by whoever loads the magics there.

A kernel serves one front end, so there is one of these in a process.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class FrontEnd:
    """How the front end of this kernel shows things and calls them.

    Parameters
    ----------
    widgets
        Whether it shows Jupyter's widgets: without them a card is HTML that is replaced.
    log_type
        MIME type of a message without a view that comes before a job's text; empty for none.
    tables
        Whether it has tables of its own for data frames, made of `submarine_engine.tables.TYPE`.
    white
        Whether its page is white, whatever the system's colours are.
    notebook
        Which notebook it is, where no file tells: no other one has this name.
    title
        What people call it.
    order
        Ids of the notebook's cells from top to bottom, where no file tells.
    names
        How cells are called, by id; the others by their numbers: ``In [3]``.
    """

    widgets: bool = True
    log_type: str = ""
    tables: bool = False
    white: bool = False
    notebook: str = ""
    title: str = ""
    order: tuple[str, ...] = ()
    names: dict[str, str] = field(default_factory=dict)

    def name_of(self, cell_id: str | None) -> str:
        """Return how a cell is called; empty for one that is called by its number."""
        return self.names.get(cell_id or "", "")


current = FrontEnd()
"""That of this process."""
