"""The provisioner of Jupyter's that a kernelspec of ``submarine notebook kernel`` names.

Jupyter starts, watches over, restarts and ends kernels through it, and they run as jobs.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

from jupyter_client.connect import KernelConnectionInfo
from jupyter_client.provisioning.provisioner_base import KernelProvisionerBase
from submarine_engine.errors import SubmarineError
from submarine_engine.job import JobState
from submarine_engine.kernels import RemoteKernel
from tornado.web import HTTPError
from traitlets import List, Unicode

_UNAVAILABLE = 503
_LOOK = 0.1  # seconds: Jupyter waits for this when it shuts a kernel down; a look reads a file


class SubmarineProvisioner(KernelProvisionerBase):
    """A kernel as a job; a restart begins it anew in the same job, which keeps its GPUs.

    Attributes
    ----------
    words
        Options of ``submarine notebook kernel``.
    """

    words = List(Unicode(), help="Options of `submarine notebook kernel`.").tag(config=True)

    _kernel: RemoteKernel | None = None
    _mourned = ""
    """The job whose end was told: a page shows only that its kernel is gone."""

    _down = False
    """Whether the kernel was asked to end so that it can be begun anew."""

    @property
    def has_process(self) -> bool:
        """Whether there is a kernel."""
        return self._kernel is not None

    async def poll(self) -> int | None:
        """Return how the kernel has ended; None while it runs."""
        if self._kernel is None or self._down:
            return 0
        status = await asyncio.to_thread(self._kernel.job.status)
        if not status.state.final:
            return None
        if not getattr(self.parent, "shutting_down", False):
            self._leave_dead()
            if self._mourned != self._kernel.job.id:
                self._mourned = self._kernel.job.id
                why = status.reason or status.state.value
                self.log.warning("the kernel's job %s is over: %s", self._mourned, why)
        return 0 if status.state is JobState.SUCCEEDED else 1

    def _leave_dead(self) -> None:
        """Have Jupyter say that the kernel is gone, and begin no other by itself.

        It would be another job, which waits in the queue, and has another key than pages know. And
        one that nobody has used is not to take a GPU again.
        """
        restarter = getattr(self.parent, "_restarter", None)
        if restarter is not None:
            restarter.restart_limit = 0

    async def wait(self) -> int | None:
        """Wait until the kernel has ended."""
        while (code := await self.poll()) is None:  # noqa: ASYNC110 - another process ends it
            await asyncio.sleep(_LOOK)
        return code

    async def send_signal(self, signum: int) -> None:
        """Send the kernel a signal; its interrupts are messages."""
        if self._kernel is not None and signum:
            await self._do(self._kernel.signal, signum)

    async def kill(self, restart: bool = False) -> None:  # noqa: ARG002, FBT001, FBT002 - Jupyter's
        """Kill the kernel; `cleanup` ends its job: of a restart Jupyter may say nothing here."""
        if self._kernel is not None and not self._down:
            self._down = True
            await self._do(self._kernel.kill)

    async def terminate(self, restart: bool = False) -> None:  # noqa: FBT001, FBT002 - Jupyter's
        """Kill the kernel: a job that ends has its own grace."""
        await self.kill(restart)

    async def shutdown_requested(self, restart: bool = False) -> None:  # noqa: FBT001, FBT002 - Jupyter's
        """Give the GPUs back at once where the kernel is not begun anew."""
        if self._kernel is None:
            return
        if restart:
            self._down = True
        else:
            await self._do(self._kernel.close, "the kernel was shut down")

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:  # noqa: ANN401 - Jupyter's
        """Leave the command alone: what runs is the job's."""
        prepared: dict[str, Any] = await super().pre_launch(cmd=self.kernel_spec.argv, **kwargs)
        return prepared

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> KernelConnectionInfo:  # noqa: ANN401, ARG002 - Jupyter's
        """Begin the kernel's job, or the kernel anew in the job that it has.

        Raises
        ------
        tornado.web.HTTPError
            It did not start; the page shows why.
        """
        folder = Path(kwargs.get("cwd") or Path.cwd())
        # As Jupyter's server tells kernels.
        notebook = (kwargs.get("env") or {}).get("JPY_SESSION_NAME")
        try:
            if self._kernel is not None and self._down:
                await asyncio.to_thread(self._begin_anew, folder, notebook)
            else:
                await asyncio.to_thread(self._begin, folder, notebook)
        except SubmarineError as error:
            raise HTTPError(_UNAVAILABLE, f"{error}") from error
        finally:
            self._down = False
        return self.connection_info

    def _begin(self, folder: Path, notebook: str | None) -> None:
        if self._kernel is not None:
            self._kernel.close("the kernel was begun anew")
        self._kernel = None
        kernel = RemoteKernel(self.words, folder, self.log.info, notebook)
        try:
            self.connection_info = cast("KernelConnectionInfo", kernel.connect())
        except BaseException:
            kernel.close("the kernel did not start")
            raise
        self._kernel = kernel
        restarter = getattr(self.parent, "_restarter", None)
        if restarter is not None:
            restarter.restart_limit = type(restarter).restart_limit.default_value

    def _begin_anew(self, folder: Path, notebook: str | None) -> None:
        assert self._kernel is not None  # noqa: S101 - for the type checker
        if self._kernel.job.done():  # it has ended meanwhile
            self._begin(folder, notebook)
        else:
            self._kernel.restart()

    async def cleanup(self, restart: bool = False) -> None:  # noqa: FBT001, FBT002 - Jupyter's
        """End the job where it goes on."""
        if self._kernel is not None and not restart:
            await self._do(self._kernel.close, "the kernel was shut down")
            self._kernel = None

    def get_shutdown_wait_time(self, recommended: float = 5.0) -> float:
        """Return how long a kernel has to end: its job may be told on another machine."""
        return max(recommended, 10.0)

    async def _do(self, function: Any, *given: Any) -> None:  # noqa: ANN401 - of any kind
        """Call what may block; that the job is over already is no error."""
        try:
            await asyncio.to_thread(function, *given)
        except SubmarineError as error:
            self.log.info("%s", error)
