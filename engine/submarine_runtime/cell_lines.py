"""Tells which cell and line a line of the job's script came from.

Tracebacks (`failure`) and warnings (`task`) name cells by it. The bundle's manifest says which
lines are whose; it is read when the first place is asked for.
"""

from __future__ import annotations

from submarine_runtime import lean
from submarine_runtime.lean import standard, suppress

TYPE_CHECKING = False  # as type checkers have it; the module takes long to import
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class CellLines:
    """Knows which line of which cell a line of a bundle is.

    Parameters
    ----------
    bundle
        The bundle's folder.
    """

    def __init__(self, bundle: str) -> None:
        self._bundle = bundle
        self._manifest: dict[str, Any] | None = None

    @property
    def manifest(self) -> dict[str, Any]:
        """The bundle's manifest; empty where it cannot be read."""
        if self._manifest is None:
            self._manifest = {}
            path = f"{self._bundle}/manifest.json"
            with suppress(OSError, ValueError), open(path, encoding="utf-8") as file:  # noqa: PTH123 - pathlib takes long to import
                self._manifest = dict(lean.loads(file.read()))
        return self._manifest

    def place(self, file: str, line: int) -> str | None:
        """Return the place as a traceback in the notebook names it; None where it is no cell's.

        Parameters
        ----------
        file
            As a frame's code names it: a path, or the name of code that came compiled.
        line
            Its number in that file, from 1 on.
        """
        file = file.removeprefix(f"{self._bundle}/")
        with suppress(KeyError, TypeError, ValueError):
            for span in self.manifest["lines"]:
                if span["file"] == file and span["line"] <= line < span["line"] + span["count"]:
                    return _named(span["cell"], span["cell_line"] + line - span["line"])
            for code in self.manifest.get("compiled", ()):
                if code["file"] == file and 0 <= line - code["line"] <= code["source"].count("\n"):
                    return _named(code["cell"], code["cell_line"] + line - code["line"])
            if file in self.manifest["modules"]:
                return f"{file}:{line}"
        return None

    def give_sources(self) -> None:
        """Let `linecache` know the lines of code that came compiled, as the notebook does."""
        cache: dict[str, Any] = standard("linecache", self._bundle).cache
        with suppress(KeyError, TypeError, ValueError):
            for code in self.manifest.get("compiled", ()):
                size, time, known, name = cache.get(code["file"], (0, None, [], code["file"]))
                if time is not None:  # a file that is there
                    continue
                lines = [f"{line}\n" for line in code["source"].split("\n")]
                first, last = code["line"] - 1, code["line"] - 1 + len(lines)
                known = [*known, *["\n"] * (last - len(known))]
                known[first:last] = lines
                cache[code["file"]] = size + 1, time, known, name


_known: dict[str, CellLines] = {}


def cell_lines(bundle: str) -> CellLines:
    """Return the one that knows the lines of a bundle, with `linecache` knowing those it needs."""
    if bundle not in _known:
        _known[bundle] = CellLines(bundle)
        _known[bundle].give_sources()
    return _known[bundle]


def warning_text(plain: Callable[[Any], str], message: Any, bundle: str) -> str:  # noqa: ANN401 - a WarningMessage
    """Return the text of a warning with the cell and its line for the script's file and line.

    Parameters
    ----------
    plain
        What Python makes of it.
    message
        The warning, with its ``filename`` and ``lineno``.
    bundle
        The folder of the bundle that runs.
    """
    place = cell_lines(bundle).place(message.filename, message.lineno)
    text = plain(message)
    there = f"{message.filename}:{message.lineno}: "
    if place is None or not text.startswith(there):
        return text
    return f"{place}: {text.removeprefix(there)}"


def _named(cell: str, line: int) -> str:
    if cell.startswith("In ["):
        return f"Cell In[{cell[4:]}, line {line}"
    if cell == "this cell":
        return f"This cell, line {line}"
    return f"{cell}:{line}"
