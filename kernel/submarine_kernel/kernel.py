"""The kernel: the magics are there from the start, and with them tagged cells are jobs."""

from __future__ import annotations

from typing import Any

from ipykernel.ipkernel import IPythonKernel
from IPython.core.interactiveshell import InteractiveShell


class SubmarineKernel(IPythonKernel):
    """IPython's kernel with Submarine's magics; works with ipykernel 6.29 to 7.x."""

    implementation = "submarine"
    banner = "Submarine (Python): cells that start with %%submarine run as jobs"

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - traitlets' own
        super().__init__(**options)  # type: ignore[no-untyped-call] # ipykernel's
        shell: InteractiveShell = self.shell  # type: ignore[assignment] # set by now
        shell.run_line_magic("load_ext", "submarine_magics")
