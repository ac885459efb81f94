"""Parts: named files made of cells, and which cell gives what to which file."""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from submarine_engine.bundle.bindings import bound_names
from submarine_engine.bundle.model import Cell
from submarine_engine.bundle.statements import parse
from submarine_engine.errors import BundleError

MAIN = "main.py"
"""The file that cells without a title join."""

_STEP = re.compile(r"[^\W.-][\w.-]*")
_LONGEST = 200


@dataclass(frozen=True, slots=True)
class Part:
    """A file of the bundle.

    Parameters
    ----------
    title
        Its path, for example ``model.py``; None for ``main.py``.
    cells
        What it is made of, in order.
    """

    title: str | None
    cells: tuple[Cell, ...]

    @property
    def path(self) -> str:
        """Its path relative to the bundle's folder."""
        return MAIN if self.title is None else self.title


def check_title(title: str, where: str = "") -> str:
    """Return `title` where it can name a file of a bundle.

    Raises
    ------
    BundleError
        It does not end in ``.py``, leads out of the bundle, or would hide a module of Python's own.
    """
    steps = title.split("/")
    safe = len(title) <= _LONGEST and all(_STEP.fullmatch(step) for step in steps)
    if not safe or not title.endswith(".py"):
        raise BundleError(
            f"{title!r} cannot name a part",
            where=where,
            fix="name a Python file, model.py or nets/model.py, by letters, digits, '_' and '-'",
        )
    top = steps[0].removesuffix(".py")
    if top in sys.stdlib_module_names and top != "test":
        raise BundleError(
            f"a part {title!r} would hide the module {top} of Python itself from the whole job",
            where=where,
            fix=f"call it otherwise: my_{steps[0]}",
        )
    return title


class PartBook:
    """What the cells gave so far.

    A cell that is run again replaces what it gave, in its place. It is known by its id; where the
    front end tells none, by its text, else by the names that it defines: an edited cell that binds
    the same names is the same cell.
    """

    def __init__(self) -> None:
        self._given: dict[str, tuple[str | None, Cell]] = {}
        self._count = 0

    def add(self, title: str | None, cell: Cell) -> None:
        """Take what `cell` gives to the file `title`; an empty cell only takes back what it gave.

        Raises
        ------
        BundleError
            The title cannot name a part.
        """
        if title is not None:
            check_title(title, cell.label)
        key = self._key(title, cell)
        if cell.source.strip():
            self._given[key] = (title, cell)
        else:
            self._given.pop(key, None)

    def remove(self, cell_id: str) -> None:
        """Take back what the cell of that id gave."""
        self._given.pop(f"id {cell_id}", None)

    def has(self, path: str) -> bool:
        """Return whether there is a part of that path."""
        return any(path == (title or MAIN) for title, _ in self._given.values())

    def keep(self, cell_ids: Collection[str]) -> None:
        """Take back what other cells gave: they are not in the notebook any more."""
        for key in list(self._given):
            if key.startswith("id ") and key[3:] not in cell_ids:
                del self._given[key]

    def clear(self) -> None:
        """Take back everything."""
        self._given.clear()

    def parts(self, order: Sequence[str] = ()) -> list[Part]:
        """Return the parts.

        Parameters
        ----------
        order
            Ids of the notebook's cells from top to bottom, where they are known. Cells that are not
            among them come last; without it, the order is that in which the cells were first run.
        """
        places = {f"id {cell_id}": index for index, cell_id in enumerate(order)}
        files: dict[str | None, list[Cell]] = {}
        for key in sorted(self._given, key=lambda key: places.get(key, len(places))):
            title, cell = self._given[key]
            files.setdefault(None if title == MAIN else title, []).append(cell)
        return [Part(title, tuple(cells)) for title, cells in files.items()]

    def _key(self, title: str | None, cell: Cell) -> str:
        if cell.id:
            return f"id {cell.id}"
        names = _defined(cell)
        for key, (other, known) in self._given.items():
            alike = known.source == cell.source or (names and _defined(known) == names)
            if known.id is None and other == title and alike:
                return key
        self._count += 1
        return f"text {self._count}"


def _defined(cell: Cell) -> frozenset[str]:
    return frozenset(bound_names([statement.node for statement in parse(cell.source).statements]))
