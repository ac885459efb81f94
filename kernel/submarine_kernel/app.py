"""The kernel's process: IPython's own, but it drops no message that nobody has read yet."""

from __future__ import annotations

from typing import Any

from ipykernel.kernelapp import IPKernelApp


class KernelApp(IPKernelApp):
    """Keeps all that a cell prints until it is read.

    ZMQ drops a publisher's messages without a word once a reader is a thousand behind, and a few
    thousand flushed prints are enough for that: lines are lost, and with the last of them, that the
    kernel is idle, whoever waits for it hangs.
    """

    def init_iopub(self, context: Any) -> None:  # noqa: ANN401 - pyzmq's
        """Make the socket for what cells show, without a limit."""
        context.sndhwm = 0  # of the sockets that are made from now on
        super().init_iopub(context)  # type: ignore[no-untyped-call] # ipykernel's
