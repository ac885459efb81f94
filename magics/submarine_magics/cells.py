"""The cells that a shell has executed, as it tells by its events."""

from __future__ import annotations

import json
import re
import shlex
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import CodeType
from typing import Any

from IPython.core.interactiveshell import InteractiveShell
from submarine_engine.bundle import Cell
from submarine_engine.bundle.maincell import check_syntax
from submarine_engine.errors import CellSyntaxError

from submarine_magics import frontend
from submarine_magics.translate import Translation, translate

# How far a cell came that raised, or that runs now.


Place = tuple[int, int]
"""A line of a cell, and below a cell magic around it the line of the magic's body, else 0."""

NOWHERE: Place = (0, 0)
"""The place in a cell where there is no cell."""


def failed_at(error: BaseException) -> Place:
    """Return where the cell stood that raised `error`."""
    trace = traceback.walk_tb(error.__traceback__)
    line, body = _place((frame.f_code, line) for frame, line in trace)
    return line or 1, body


def swallowed_at(raw: str, before: object) -> Place | None:
    """Return where the body of a cell magic raised that only showed the error, as IPython 8 does.

    Parameters
    ----------
    raw
        The cell as typed.
    before
        ``sys.last_value`` as it was before the cell ran.
    """
    error = getattr(sys, "last_value", None)
    if error is before or not isinstance(error, BaseException) or not raw.lstrip().startswith("%%"):
        return None
    place = failed_at(error)
    return place if place[1] else None


def running_at(namespace: Mapping[str, object]) -> Place:
    """Return the place to which the cell that runs now has come.

    Parameters
    ----------
    namespace
        The notebook's: by it the frames of cells are told from those of the shell itself.

    Returns
    -------
    Place
        `NOWHERE` where no cell runs.
    """
    stack = reversed(list(traceback.walk_stack(None)))
    return _place((f.f_code, line) for f, line in stack if f.f_globals is namespace)


def _place(places: Iterable[tuple[CodeType, int]]) -> Place:
    """Look at places from the outermost to the innermost."""
    found = 0
    for code, line in places:
        if code.co_name == "<module>" or code.co_name.startswith("<cell line"):
            if code.co_filename.startswith(("<timed", "<magic", "<string")):
                return found, line
            found = found or line
    return found, 0


# Files and other notebooks that ``%run`` has run in the notebook's namespace.


_RUN = re.compile(r"^[ \t]*%run[ \t]+(.+?)[ \t]*$", re.MULTILINE)
_VALUED = ("-N", "-b", "-l", "-s", "-T", "-D")
_LARGEST = 4 * 1024 * 1024


def ran_files(raw: str, expand: Callable[[str], str]) -> Iterator[tuple[str, list[str]]]:
    """Yield the files that a cell has run, each with its code: one piece, or a notebook's cells.

    Files that cannot be read any more are left out: nothing is known of them.

    Parameters
    ----------
    raw
        The cell as typed.
    expand
        Expands ``{name}`` and ``$name`` as IPython does.
    """
    for match in _RUN.finditer(raw):
        try:
            path = _path(expand(match[1]))
            if path is None or path.stat().st_size > _LARGEST:
                continue
            text = path.read_text(encoding="utf-8")
            pieces = _cells(text) if path.suffix == ".ipynb" else [text]
        except (OSError, ValueError, KeyError, TypeError, RuntimeError):
            continue  # the last: there is no such user, or the notebook is nested too deeply
        yield str(path), pieces


def _path(line: str) -> Path | None:
    try:
        words = iter(shlex.split(line))
    except ValueError:
        return None
    for word in words:
        if word in _VALUED:
            next(words, None)
        elif word == "-m":
            return None  # a module: it can be imported, and so travels otherwise
        elif not word.startswith("-"):
            path = Path(word).expanduser()
            return path if path.suffix else path.with_suffix(".py")
    return None


def _cells(text: str) -> list[str]:
    cells = json.loads(text)["cells"]
    code = [cell["source"] for cell in cells if cell["cell_type"] == "code"]
    return ["".join(source) for source in code]


_NO_CELL = "code run without a cell"


@dataclass(slots=True)
class _Run:
    """One execution of a cell."""

    raw: str
    number: int | None
    id: str | None
    file: str | None = None
    compiled: str | None = None
    failed: Place | None = None
    shown: object = None  # the last error that the shell had shown before
    inner: _Run | None = None  # a cell magic's body that ran as a cell of its own
    cell: Cell | None = None


class CellLog:
    """Keeps what was executed, in order, from the shell's first cell on.

    Cells that ran before the log was made come from the shell's own history of its inputs, without
    their ids. Kept are also executions without a number, and those of other notebooks by ``%run``.
    Not kept are cells that did not parse, since nothing of them took effect, and what front ends
    run silently.

    Parameters
    ----------
    shell
        The shell to listen to, until `close`.
    """

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell
        self._runs: list[_Run] = []
        self._running: list[_Run] = []
        self._take_history()
        shell.events.register("pre_run_cell", self._before)
        shell.events.register("post_run_cell", self._after)

    def close(self) -> None:
        """Listen no more."""
        self._shell.events.unregister("pre_run_cell", self._before)
        self._shell.events.unregister("post_run_cell", self._after)

    @property
    def number(self) -> int | None:
        """The execution count of the cell that runs now: its ``In [number]``.

        The shell's own ``execution_count`` is one ahead of it in some releases of IPython.
        """
        return self._running[0].number if self._running else None

    @property
    def label(self) -> str:
        """How the front end calls the cell that runs now; empty where none runs."""
        name = frontend.current.name_of(self._running[0].id) if self._running else ""
        return name or (f"In [{self.number}]" if self.number else "")

    def cells(self) -> list[Cell]:
        """Return what was executed, in order of execution; not the cell that runs now."""
        return [self._cell(run) for run in self._runs]

    def cells_so_far(self) -> list[Cell]:
        """Return what was executed, with the lines of the cell that runs now above where it is."""
        if not self._running:
            return self.cells()
        line = running_at(self._shell.user_ns)
        running = replace(self._running[0], failed=line, cell=None)
        return [*self.cells(), self._cell(running)]

    def translate(self, raw: str, number: int | None = None, id: str | None = None) -> Cell:  # noqa: A002 - the cell's id, as in `Cell`
        """Return a cell that is to run in a job.

        Parameters
        ----------
        raw
            The cell as typed, or the body of the cell magic that runs now: its lines keep the
            numbers that they have in the cell.
        number, id
            Its execution count and id; those of the cell that runs now where `raw` is of it.

        Raises
        ------
        CellSyntaxError
            It does not parse, or holds what no script can hold.
        """
        above = ""
        if running := self._whole(raw):
            above = running.raw[: running.raw.rindex(raw.rstrip("\n"))]
            number, id = running.number or number, running.id or id  # noqa: A001
        translation = self._translated(raw, executed=False)
        shift = above.count("\n")
        cell = _as_cell(_Run(above + raw, number, id), translation, shift)
        for problem in translation.problems:
            raise CellSyntaxError(
                f"`{problem.text}` cannot run in a job: {problem.what}",
                where=f"{cell.label}, line {problem.line + shift}",
                fix=problem.fix,
            )
        check_syntax(cell, may_await=True)
        return cell

    def _whole(self, raw: str) -> _Run | None:
        """Return the run whose cell `raw` is the end of."""
        for run in reversed(self._running):
            if raw.strip() and run.raw.rstrip("\n").endswith(raw.rstrip("\n")):
                return run
        return None

    def _translated(self, raw: str, *, executed: bool, compiled: str | None = None) -> Translation:
        return translate(
            raw,
            manager=self._shell.input_transformer_manager,
            known=self._shell.user_ns,
            executed=executed,
            compiled=compiled,
        )

    def _cell(self, run: _Run) -> Cell:
        if run.cell is None:
            try:
                translation = self._translated(run.raw, executed=True, compiled=run.compiled)
            except Exception:  # noqa: BLE001 - of an extension's transformer, too
                translation = Translation(run.raw)
            run.cell = _as_cell(run, translation, 0)
        return run.cell

    def ran(self, cell: Cell) -> None:
        """Note a cell that took effect here without being executed here: it was a job."""
        run = _Run(cell.raw, cell.number, cell.id, file=cell.file)
        run.cell = cell
        self._runs.append(run)

    # Events

    def _take_history(self) -> None:
        history = self._shell.history_manager
        raws = list(history.input_hist_raw) if history else []
        parsed = list(history.input_hist_parsed) if history else []
        # The last one is the cell that makes this log: its end is still to be told.
        for number in range(1, len(raws) - 1):
            if raws[number].strip():
                compiled = parsed[number] if number < len(parsed) else None
                self._runs.append(_Run(raws[number], number, None, compiled=compiled))
        if raws and raws[-1].strip() and running_at(self._shell.user_ns) != NOWHERE:
            self._running.append(_Run(raws[-1], len(raws) - 1, None))

    def _next_number(self) -> int:
        history = self._shell.history_manager
        return len(history.input_hist_raw) if history else self._shell.execution_count

    def _before(self, info: Any) -> None:  # noqa: ANN401 - IPython's ExecutionInfo
        number = self._next_number() if info.store_history else None
        run = _Run(info.raw_cell, number, getattr(info, "cell_id", None))
        run.shown = getattr(sys, "last_value", None)
        if self._running:
            self._nest(run)
        elif number is None:
            run.file = _NO_CELL
        self._running.append(run)

    def _nest(self, run: _Run) -> None:
        outer = self._running[-1]
        run.number, run.id = outer.number, outer.id
        if outer.raw.rstrip("\n").endswith(run.raw.rstrip("\n")):
            outer.inner = run  # as %%capture does

    def _after(self, result: Any) -> None:  # noqa: ANN401 - IPython's ExecutionResult
        if result is None:  # the shell itself failed: nobody knows how far the cell came
            self._runs += [self._running.pop()] if self._running else []
            return
        info = result.info
        if not info.raw_cell or info.raw_cell.isspace():
            return
        while self._running and self._running[-1].raw != info.raw_cell:
            self._running.pop()
        if self._running:
            run = self._running.pop()
            run.id = run.id or getattr(info, "cell_id", None)
        else:  # its beginning was before this log's
            number = result.execution_count if info.store_history else None
            run = _Run(info.raw_cell, number, getattr(info, "cell_id", None))
        if result.error_before_exec is not None:
            return
        if result.error_in_exec is not None:
            run.failed = failed_at(result.error_in_exec)
        else:
            run.failed = swallowed_at(run.raw, run.shown)
        if self._running and self._running[-1].inner is run:
            return
        run.compiled = self._compiled(run, info)
        for path, pieces in ran_files(run.raw, self._shell.var_expand):
            self._runs += [_Run(piece, run.number, run.id, file=path) for piece in pieces]
        self._runs.append(run)
        self._cell(run)

    def _compiled(self, run: _Run, info: Any) -> str | None:  # noqa: ANN401 - as above
        if "\n" in run.raw.strip():
            return None
        told = getattr(info, "transformed_cell", None)
        if isinstance(told, str):
            return told
        history = self._shell.history_manager
        parsed = history.input_hist_parsed if history else []
        return parsed[run.number] if run.number and run.number < len(parsed) else None


def _as_cell(run: _Run, translation: Translation, shift: int) -> Cell:
    """Return the cell, its lines moved down by `shift`."""
    dropped = tuple(replace(line, line=line.line + shift) for line in translation.dropped)
    return Cell(
        number=run.number,
        source="\n" * shift + translation.source,
        raw=run.raw,
        id=run.id,
        executed=_executed(run, translation),
        dropped=dropped,
        file=run.file,
        imports=translation.imports,
        name=frontend.current.name_of(run.id),
    )


def _executed(run: _Run, translation: Translation) -> int | None:
    """Return how many lines of the cell took effect; None for all of them."""
    failed, numbers = run.failed, translation.numbers
    if failed is None and run.inner is not None and run.inner.failed is not None:
        failed = 1, run.inner.failed[0]
    if failed is None:
        return None
    line, in_body = failed
    if translation.magic:
        if not in_body:
            return 0  # the magic itself failed
        line = in_body
    if numbers and line <= len(numbers):
        line = numbers[line - 1]
    return line - 1
