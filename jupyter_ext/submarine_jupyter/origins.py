"""Where a job was submitted: its notebook and cell, read once from its record."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from submarine_engine.history import JobPaths, read_json

_MOST = 2000
_LONGEST = 400


@dataclass(frozen=True, slots=True)
class Origin:
    """Notebook, the cell as people call it (``In [3]``), and its id; empty where nobody knows."""

    notebook: str = ""
    cell: str = ""
    cell_id: str = ""


_found: OrderedDict[str, Origin] = OrderedDict()


def origin_of(paths: JobPaths) -> Origin:
    """Return where a job comes from; the last ones asked for are remembered."""
    key = str(paths.root)
    if key not in _found:
        _found[key] = _read(paths)
        while len(_found) > _MOST:
            _found.popitem(last=False)
    return _found[key]


def _read(paths: JobPaths) -> Origin:
    record = _json(paths, "record.json")
    manifest = _json(paths, "bundle/manifest.json")
    spec = record.get("spec")
    notebook = spec.get("notebook") if isinstance(spec, dict) else ""
    entry, spans = manifest.get("entry"), manifest.get("lines")
    ours = [
        span
        for span in (spans if isinstance(spans, list) else [])
        if isinstance(span, dict) and span.get("file") == entry
    ]
    last = ours[-1] if ours else {}  # the main cell ends the script
    return Origin(_text(notebook), _text(last.get("cell")), _text(last.get("cell_id")))


def _text(value: object) -> str:
    return value[:_LONGEST] if isinstance(value, str) else ""


def _json(paths: JobPaths, name: str) -> dict[str, Any]:
    try:
        found: object = read_json(paths.root / name)
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
