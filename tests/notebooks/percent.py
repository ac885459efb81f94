r"""Notebooks as text that reviews well: the "percent" format, one Python file.

``# %%`` begins a cell, ``# %% [markdown]`` one of words, ``# %% tags=["heavy"]`` one with tags.
What is no Python stands behind a comment mark, as jupytext has it: ``# %%time``, ``# !ls``,
``# %matplotlib inline``. Lines before the first cell are words for the reader, and promises for the
comparison:

    # stays: lock, worker            these names stay in the job, which says so in one line
    # says: kept .* as it was        a line of ours that a job's cell may show besides
    # once: <style>.*fastprogress.*  HTML that a library displays once in a process
    # varies: search\..*time.*       paths of facts that no two plain runs have alike either

Tags: ``heavy`` becomes a job; ``heavy-below`` likewise, with the magic below the cell's first line;
``raises`` ends with an exception, also as a plain cell; ``interrupt`` is interrupted once it has
written something.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

_MARK = re.compile(r"^# %%(?P<rest>$| .*)", re.MULTILINE)
_MAGIC = re.compile(r"^(\s*)# (?=(%{1,2}[a-z]|!\S))", re.MULTILINE)
_PROMISE = re.compile(r"^# (stays|says|once|varies): (.*)$", re.MULTILINE)
TAGS = {"heavy", "heavy-below", "raises", "interrupt"}


@dataclass(frozen=True)
class NotebookCell:
    """A code cell: its source, and what its tags say."""

    source: str
    tags: frozenset[str] = frozenset()

    @property
    def heavy(self) -> bool:
        return bool(self.tags & {"heavy", "heavy-below"})

    def as_job(self, magic: str = "%%submarine") -> str:
        """Return the source as a user would write it to have it run as a job."""
        first, _, rest = self.source.partition("\n")
        if "heavy-below" in self.tags:
            return f"{first}\n{magic}\n{rest}"
        return f"{magic}\n{self.source}"


@dataclass(frozen=True)
class Notebook:
    """Cells, and what differs between their two ways to run by promise."""

    cells: tuple[NotebookCell, ...]
    stays: frozenset[str] = frozenset()
    says: tuple[str, ...] = ()
    varies: tuple[str, ...] = ()
    once: tuple[str, ...] = ()

    def excuses(self, path: str) -> bool:
        """Return whether the fact at a path may differ."""
        name = re.split(r"[.\[<{(]", path, maxsplit=1)[0]
        return name in self.stays or any(re.fullmatch(v, path) for v in self.varies)


def read(path: Path) -> Notebook:
    """Read a notebook from its text.

    Raises
    ------
    ValueError
        A tag is not known, or no cell is heavy.
    """
    text = path.read_text()
    marks = [*_MARK.finditer(text)]
    ends = [*(mark.start() for mark in marks[1:]), len(text)]
    cells = []
    for mark, end in zip(marks, ends, strict=True):
        kind = mark["rest"].strip()
        if kind.startswith("[markdown]"):
            continue
        tags = frozenset(json.loads(kind.partition("tags=")[2] or "[]"))
        if unknown := tags - TAGS:
            raise ValueError(f"{path.name}: no such tag: {', '.join(sorted(unknown))}")
        source = _MAGIC.sub(r"\1", text[mark.end() : end].strip("\n"))
        cells.append(NotebookCell(source, tags))
    if not any(cell.heavy for cell in cells):
        raise ValueError(f"{path.name}: no cell is heavy")
    promises = _PROMISE.findall(text[: marks[0].start()])
    stays = [name for key, names in promises if key == "stays" for name in names.split(", ")]
    says, varies, once = (
        tuple(pattern for key, pattern in promises if key == kind)
        for kind in ("says", "varies", "once")
    )
    return Notebook(tuple(cells), frozenset(stays), says, varies, once)
