"""In a kernel that has the magics, a cell tagged ``submarine`` is a job."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Mapping
from pathlib import Path
from typing import Any, Protocol

from IPython.core.interactiveshell import InteractiveShell
from submarine_engine.command.tags import job_options

from submarine_magics.aligned import lines_above
from submarine_magics.frontend import notebook_path
from submarine_magics.workbench import bench_of

# What a cell's tags ask for, and how they come to be known.
#
# JupyterLab and Notebook 7 send the cell's metadata, tags included, with every execution. nbclient
# (and with it papermill, nbval and ``jupyter execute``) sends nothing: there the tags are read from
# the notebook's file, where the kernel knows which one it is, by the cell's source.


def sent_tags(cell_meta: Mapping[str, Any] | None) -> object:
    """Return the tags that came with an execution; None where the front end sends none of any cell.

    JupyterLab puts the cell's own metadata beside its ``cellId``, ``deletedCells`` and
    ``recordTiming`` (``CodeCell.execute`` of @jupyterlab/cells): a cell without tags has none then.
    VS Code's notebook model nests the metadata once more.

    Parameters
    ----------
    cell_meta
        The cell's metadata, as the front end sends it; None where it sends none.
    """
    if not cell_meta:
        return None
    nested = cell_meta.get("metadata")
    if isinstance(nested, Mapping) and "tags" in nested:
        return nested["tags"]
    return cell_meta.get("tags", [] if "deletedCells" in cell_meta else None)


class NotebookTags:
    """The tags in a notebook's file, by the source of the cell; read again when it changes.

    Parameters
    ----------
    path
        The file, which need not be there.
    """

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


# In a kernel that has the magics, a cell tagged ``submarine`` is a job.
#
# The kernel is asked to execute a cell by `do_execute`; what is done here comes before that, so
# that coroutines, subshells and the debugger are ipykernel's own business (6.29 to 7.x).


class _Execute(Protocol):
    def __call__(
        self,
        code: str,
        silent: bool,  # noqa: FBT001 - ipykernel's signature
        store_history: bool = ...,  # noqa: FBT001 - likewise
        user_expressions: dict[str, str] | None = ...,
        allow_stdin: bool = ...,  # noqa: FBT001 - likewise
        **about: Any,  # noqa: ANN401 - likewise
    ) -> Awaitable[Any]: ...


class TaggedCells:
    """Stands before a kernel's `do_execute`, and gives tagged cells their magic.

    Parameters
    ----------
    shell
        The kernel's shell.
    execute
        The kernel's own `do_execute`.
    """

    def __init__(self, shell: InteractiveShell, execute: _Execute) -> None:
        self._shell = shell
        self.execute = execute
        self._notebook: NotebookTags | None = None

    def __call__(
        self,
        code: str,
        silent: bool,  # noqa: FBT001 - ipykernel's signature
        store_history: bool = True,  # noqa: FBT001, FBT002 - likewise
        user_expressions: dict[str, str] | None = None,
        allow_stdin: bool = False,  # noqa: FBT001, FBT002 - likewise
        **about: Any,  # noqa: ANN401 - likewise: cell_meta and cell_id, and what comes to be
    ) -> Awaitable[Any]:
        """Run a cell: as a job where its tags ask for one, else as IPython does."""
        if not silent:
            code = self._as_job(code, about.get("cell_meta"))
        return self.execute(
            code, silent, store_history, user_expressions, allow_stdin=allow_stdin, **about
        )

    def _as_job(self, code: str, cell_meta: Mapping[str, Any] | None) -> str:
        lines = code.splitlines()
        above = lines_above(lines)
        if not code.strip() or lines[above].startswith("%%"):  # a magic of its own says more
            return code
        tags = sent_tags(cell_meta)
        if tags is None:
            tags = self._tags_in_file(code)
        options = job_options(tags)
        if options is None:
            return code
        bench_of(self._shell).tagged = code.strip()
        return f"%%submarine {options}\n{code}"

    def _tags_in_file(self, code: str) -> object:
        path = notebook_path(self._shell.user_ns)
        if path is None:
            return None
        if self._notebook is None or self._notebook.path != path:
            self._notebook = NotebookTags(path)
        return self._notebook.of(code)


def honour_tags(shell: InteractiveShell) -> None:
    """Make tagged cells jobs from the next cell on; does nothing where no kernel runs the shell."""
    kernel = getattr(shell, "kernel", None)
    execute = getattr(kernel, "do_execute", None)
    if execute is not None and not isinstance(execute, TaggedCells):
        kernel.do_execute = TaggedCells(shell, execute)  # type: ignore[union-attr] # it has one


def ignore_tags(shell: InteractiveShell) -> None:
    """Take back what `honour_tags` did to the kernel of `shell`."""
    kernel = getattr(shell, "kernel", None)
    if isinstance(getattr(kernel, "do_execute", None), TaggedCells):
        del kernel.do_execute  # type: ignore[union-attr] # the class's own is there again
