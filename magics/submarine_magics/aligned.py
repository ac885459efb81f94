"""IPython's own transformation of a cell, with the line that each line comes from.

IPython drops leading empty lines and joins continued lines of a command, so that the lines of what
it makes are not those of the cell. Here each keeps its number.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import cast

from IPython.core.inputtransformer2 import TransformerManager
from submarine_engine.bundle.source import code_lines

Numbered = list[tuple[int, str]]
"""Lines with their numbers in the cell as the user typed it, counted from 1."""

_Transform = Callable[[list[str]], list[str]]

_MOST_STEPS = 500

# Where none of this is in a cell, IPython leaves it as it is. Only a quick look: it may err by
# finding too much.
_MAYBE_IPYTHON = re.compile(
    r"""\A\s                        # indented or empty first line
    | ^\s*(?:[%!?/,;]|>>>|In\ ?\[)  # escaped commands, prompts
    | =\s*[%!]                      # assigned ones
    | \?\s*$                        # help
    | get_ipython
    | \r(?!\n)                      # alone it ends a line, which ^ does not know""",
    re.MULTILINE | re.VERBOSE,
)

JOB_MAGIC = re.compile(r"%%submarine(\.\w+)?(\s|$)")
"""The first line of a cell that one of our cell magics takes."""

_CELL_MAGIC = re.compile(r"%%(\S+)[ \t]*(.*)")


def is_plain(raw: str) -> bool:
    """Return whether `raw` has no IPython syntax at all, by a quick look."""
    return not _MAYBE_IPYTHON.search(raw)


def numbered(raw: str, first: int = 1) -> Numbered:
    """Split `raw` into lines, as Python does; the first of them is number `first`."""
    return list(enumerate(code_lines(raw), first))


def cleaned(lines: Numbered, manager: TransformerManager) -> Numbered:
    """Take off what is not code, by `manager`: leading empty lines, common indentation, prompts."""
    for transform in manager.cleanup_transforms:
        lines = _applied(cast("_Transform", transform), lines)
    return lines


def cell_magic(lines: Numbered) -> tuple[str, str] | None:
    """Return name and line of the cell magic that `lines` begin with; None where there is none."""
    match = _CELL_MAGIC.match(lines[0][1]) if lines else None
    if match is None or match[1].endswith("?"):
        return None
    return match[1], match[2].strip()


def lines_above(lines: Sequence[str]) -> int:
    """Return how many comments and empty lines stand above one of our cell magics, if one is."""
    for count, line in enumerate(lines):
        if line.strip() and not line.lstrip().startswith("#"):
            return count if JOB_MAGIC.match(line) else 0
    return 0


def transformed(lines: Numbered, manager: TransformerManager) -> Numbered:
    """Turn IPython's syntax within cleaned lines into calls of ``get_ipython()``, by `manager`.

    Raises
    ------
    SyntaxError
        As IPython's transformers do.
    """
    for transform in manager.line_transforms:  # extensions may have added some
        lines = _applied(cast("_Transform", transform), lines)
    for _ in range(_MOST_STEPS):
        step = [True]

        def one_more(texts: list[str], step: list[bool] = step) -> list[str]:
            step[0], texts = manager.do_one_token_transform(texts)
            return texts

        lines = _applied(one_more, lines)
        if not step[0]:
            break
    return lines


def _applied(transform: _Transform, lines: Numbered) -> Numbered:
    before = [f"{text}\n" for _, text in lines]
    after = transform(list(before))
    if len(after) == len(before):
        numbers: Sequence[int] = [number for number, _ in lines]
    else:
        numbers = _numbers([number for number, _ in lines], before, after)
    return list(zip(numbers, ("".join(after)).removesuffix("\n").split("\n"), strict=False))


def _numbers(numbers: list[int], before: list[str], after: list[str]) -> list[int]:
    """Return the numbers of `after`, of which some lines were taken out of `before`."""
    top = 0
    while top < min(len(before), len(after)) and before[top] == after[top]:
        top += 1
    bottom = 0
    while bottom < min(len(before), len(after)) - top and before[-1 - bottom] == after[-1 - bottom]:
        bottom += 1
    if bottom == len(after):  # empty lines at the top are gone
        return numbers[len(numbers) - len(after) :]
    end = len(numbers) - bottom
    changed = len(after) - top - bottom
    middle = [numbers[min(top + step, max(top, end - 1))] for step in range(changed)]
    return [*numbers[:top], *middle, *numbers[end:]]
