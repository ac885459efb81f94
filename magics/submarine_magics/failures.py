"""Cells that raised, and cells that do not compile."""

from __future__ import annotations

import warnings

from submarine_engine.bundle import Cell
from submarine_engine.errors import CellSyntaxError


def failed_at(error: BaseException) -> tuple[int, bool]:
    """Return the line at which a cell raised, and whether it is one of its cell magic's body."""
    line, in_body = 1, False
    found = False
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if code.co_name == "<module>" or code.co_name.startswith("<cell line"):
            if code.co_filename.startswith(("<timed", "<magic", "<string")):
                line, in_body = trace.tb_lineno, True
                break
            if not found:
                line, found = trace.tb_lineno, True
        trace = trace.tb_next
    return line, in_body


def check(cell: Cell) -> None:
    """Refuse a cell that cannot be code of a script.

    Raises
    ------
    CellSyntaxError
        It does not compile; also for what only a notebook allows, like ``await`` at its top level.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(cell.source, cell.label, "exec", dont_inherit=True)
    except SyntaxError as error:
        fix = "correct the cell"
        if "await" in (error.msg or "") or "async" in (error.msg or ""):
            fix = "a script cannot await at its top level: write asyncio.run(…)"
        text = f": {error.text.strip()}" if error.text else ""
        raise CellSyntaxError(
            f"{error.msg}{text}", where=f"{cell.label}, line {error.lineno or 1}", fix=fix
        ) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise CellSyntaxError(
            f"the cell cannot be compiled: {error}", where=cell.label, fix="correct the cell"
        ) from None
