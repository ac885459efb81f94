"""Files and other notebooks that ``%run`` has run in the notebook's namespace."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

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
        path = _path(expand(match[1]))
        try:
            if path is None or path.stat().st_size > _LARGEST:
                continue
            text = path.read_text(encoding="utf-8")
            pieces = _cells(text) if path.suffix == ".ipynb" else [text]
        except (OSError, ValueError, KeyError, TypeError):
            continue
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
