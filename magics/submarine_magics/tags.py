"""What a cell's tags ask for, and how they come to be known.

JupyterLab and Notebook 7 send the cell's metadata, tags included, with every execution. nbclient
(and with it papermill, nbval and ``jupyter execute``) sends nothing: there the tags are read from
the notebook's file, where the kernel knows which one it is, by the cell's source.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

TAG = "submarine"


def job_options(tags: object) -> str | None:
    """Return the options of the job that `tags` ask for; None where they ask for none.

    A cell tagged ``submarine`` is a job. Options follow a colon, in the same tag or in more of
    them (JupyterLab splits tags at spaces): ``submarine:--gpus=2``, ``submarine:--name=mnist``.
    """
    if not isinstance(tags, list):
        return None
    found = False
    options = []
    for tag in tags:
        if not isinstance(tag, str):
            continue
        name, _, rest = tag.partition(":")
        if name.strip() == TAG:
            found = True
            options.append(rest.strip())
    return " ".join(option for option in options if option) if found else None


def sent_tags(cell_meta: Mapping[str, Any] | None) -> object:
    """Return the tags that came with an execution; None where the front end sends none of any cell.

    JupyterLab puts the cell's own metadata beside its ``cellId``, ``deletedCells`` and
    ``recordTiming`` (``CodeCell.execute`` of @jupyterlab/cells): a cell without tags has none then.
    VS Code's notebook model nests the metadata once more.
    """
    if not cell_meta:
        return None
    nested = cell_meta.get("metadata")
    if isinstance(nested, Mapping) and "tags" in nested:
        return nested["tags"]
    return cell_meta.get("tags", [] if "deletedCells" in cell_meta else None)


class NotebookTags:
    """The tags in a notebook's file, by the source of the cell; read again when it changes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._changed: int | None = None
        self._tags: dict[str, object] = {}

    def of(self, source: str) -> object:
        """Return the tags of the code cell with that source, None where there is none such.

        A file that cannot be read has no cells: it may be gone, or be half written.
        """
        try:
            changed = self.path.stat().st_mtime_ns
            if changed != self._changed:
                self._tags = _read(self.path)
                self._changed = changed
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            return None
        return self._tags.get(source.strip())


def _read(path: Path) -> dict[str, object]:
    tags: dict[str, object] = {}
    for cell in json.loads(path.read_bytes())["cells"]:
        if cell["cell_type"] == "code":
            source = cell["source"]
            text = source if isinstance(source, str) else "".join(source)
            # Of cells alike, one that asks for a job speaks for all: it must not run here unasked.
            if job_options(tags.get(text.strip())) is None:
                tags[text.strip()] = cell["metadata"].get("tags", [])
    return tags
