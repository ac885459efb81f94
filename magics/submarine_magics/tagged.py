"""In a kernel that has the magics, a cell tagged ``submarine`` is a job.

The kernel is asked to execute a cell by `do_execute`; what is done here comes before that, so that
coroutines, subshells and the debugger are ipykernel's own business (6.29 to 7.x).
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Any, Protocol

from IPython.core.interactiveshell import InteractiveShell

from submarine_magics.aligned import lines_above
from submarine_magics.notebook import notebook_path
from submarine_magics.tags import NotebookTags, job_options, sent_tags
from submarine_magics.workbench import bench_of


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
    """Take back what `honour_tags` did."""
    kernel = getattr(shell, "kernel", None)
    if isinstance(getattr(kernel, "do_execute", None), TaggedCells):
        del kernel.do_execute  # type: ignore[union-attr] # the class's own is there again
