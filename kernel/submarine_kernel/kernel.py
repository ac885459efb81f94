"""The kernel: the magics are there from the start, and a cell tagged ``submarine`` is a job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ipykernel.ipkernel import IPythonKernel
from IPython.core.interactiveshell import InteractiveShell
from submarine_magics.notebook import notebook_path
from submarine_magics.workbench import bench_of

from submarine_kernel.tags import NotebookTags, job_options, sent_tags


class SubmarineKernel(IPythonKernel):
    """IPython's kernel with Submarine's magics.

    Works with ipykernel 6.29 to 7.x: what it adds is done before `do_execute` hands the code on,
    so coroutines, subshells and the debugger are ipykernel's own business.
    """

    implementation = "submarine"
    banner = "Submarine (Python): cells that start with %%submarine run as jobs"

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - traitlets' own
        super().__init__(**options)  # type: ignore[no-untyped-call] # ipykernel's
        self._shell: InteractiveShell = self.shell  # type: ignore[assignment] # set by now
        self._shell.run_line_magic("load_ext", "submarine_magics")
        self._notebook: NotebookTags | None = None

    async def do_execute(  # noqa: PLR0913 - ipykernel's signature
        self,
        code: str,
        silent: bool,  # noqa: FBT001 - likewise
        store_history: bool = True,  # noqa: FBT001, FBT002 - likewise
        user_expressions: dict[str, str] | None = None,
        allow_stdin: bool = False,  # noqa: FBT001, FBT002 - likewise
        *,
        cell_meta: Mapping[str, Any] | None = None,
        cell_id: str | None = None,
    ) -> Any:  # noqa: ANN401 - likewise
        """Run a cell: as a job where its tags ask for one, else as IPython does."""
        if not silent:
            code = self._as_job(code, cell_meta)
        return await super().do_execute(  # type: ignore[no-untyped-call] # likewise
            code,
            silent,
            store_history,
            user_expressions,
            allow_stdin,
            cell_meta=cell_meta,
            cell_id=cell_id,
        )

    def _as_job(self, code: str, cell_meta: Mapping[str, Any] | None) -> str:
        if not code.strip() or code.startswith("%%"):  # a cell magic of its own says more
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
