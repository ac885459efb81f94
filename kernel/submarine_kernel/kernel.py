"""The kernel: the magics are there from the start, and with them tagged cells are jobs."""

from __future__ import annotations

from typing import Any

from ipykernel.ipkernel import IPythonKernel
from ipykernel.kernelapp import IPKernelApp
from IPython.core.interactiveshell import InteractiveShell


class SubmarineKernel(IPythonKernel):
    """IPython's kernel with Submarine's magics; works with ipykernel 6.29 to 7.x.

    Parameters
    ----------
    options
        Those of ipykernel's kernel.
    """

    implementation = "submarine"
    banner = "Submarine (Python): cells that start with %%submarine run as jobs"

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - traitlets' own
        super().__init__(**options)  # type: ignore[no-untyped-call] # ipykernel's
        shell: InteractiveShell = self.shell  # type: ignore[assignment] # set by now
        shell.run_line_magic("load_ext", "submarine_magics")


class KernelApp(IPKernelApp):
    """The kernel's process: IPython's own, but it keeps all that a cell prints until it is read.

    ZMQ drops a publisher's messages without a word once a reader is a thousand behind, and a few
    thousand flushed prints are enough for that: lines are lost, and with the last of them, that the
    kernel is idle, whoever waits for it hangs.
    """

    def init_iopub(self, context: Any) -> None:  # noqa: ANN401 - pyzmq's
        """Make the socket for what cells show, without a limit."""
        context.sndhwm = 0  # of the sockets that are made from now on
        super().init_iopub(context)  # type: ignore[no-untyped-call] # ipykernel's
