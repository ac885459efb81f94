"""Which notebook this kernel belongs to: best effort, by what the front ends tell."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from submarine_magics import frontend


def notebook_path(namespace: Mapping[str, object]) -> Path | None:
    """Return the notebook's file, None where nobody tells.

    Told by, in this order: ``SUBMARINE_NOTEBOOK``; VS Code, which sets ``__vsc_ipynb_file__`` in
    the kernel's namespace; Jupyter's server, which sets ``JPY_SESSION_NAME`` for the kernel; the
    command line of the process that started the kernel (``papermill in.ipynb out.ipynb``,
    ``jupyter execute``, ``pytest --nbval``), where it names exactly one notebook that exists first.

    Parameters
    ----------
    namespace
        The kernel's user namespace.
    """
    told = (
        os.environ.get("SUBMARINE_NOTEBOOK"),
        namespace.get("__vsc_ipynb_file__"),
        os.environ.get("JPY_SESSION_NAME"),
    )
    for path in told:
        if isinstance(path, str) and path.endswith(".ipynb"):
            return Path(path).absolute()
    return _from_parent()


def cell_order(namespace: Mapping[str, object]) -> list[str]:
    """Return the ids of the notebook's cells from top to bottom, as it was saved last.

    What the front end says itself comes first. Empty where the file is not known, is half written,
    or has no ids (before nbformat 4.5).
    """
    if frontend.current.order:
        return list(frontend.current.order)
    path = notebook_path(namespace)
    try:
        cells = json.loads(path.read_bytes())["cells"] if path else []
        return [cell["id"] for cell in cells if isinstance(cell["id"], str)]
    except (OSError, ValueError, LookupError, TypeError):
        return []


def _from_parent() -> Path | None:
    """Look at the parent's arguments, by Linux's ``/proc``."""
    if not sys.platform.startswith("linux"):
        return None
    parent = Path("/proc", str(os.getppid()))
    try:
        words = parent.joinpath("cmdline").read_bytes().split(b"\0")
        folder = parent.joinpath("cwd").readlink()
    except OSError:
        return None
    for word in words:
        name = os.fsdecode(word).partition("::")[0]  # pytest's FILE::CELL
        if name.endswith(".ipynb") and (folder / name).is_file():
            return folder / name
    return None
