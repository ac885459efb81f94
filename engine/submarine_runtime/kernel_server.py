"""Runs a Jupyter kernel as a job: the script of ``submarine notebook kernel`` calls `serve`.

The kernel is a process of its own. Where somebody restarts it, it is begun anew with the same ports
and key, so that its GPUs are kept; once it has not been busy for a while, the job ends. Its ports
and its key are in a file that only the user may read
(`submarine_runtime.notebook_server.private_folder`).
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path
from queue import Empty

from submarine_runtime import progress_file
from submarine_runtime.lean import suppress
from submarine_runtime.notebook_server import (
    KEPT,
    IdleLimit,
    NotebookError,
    private_folder,
    write_private,
)

TYPE_CHECKING = False  # as type checkers have it; the module takes long to import
if TYPE_CHECKING:
    from typing import Any

KERNEL = "kernel.json"
"""``{"version": 1, "starts": 1, "pid": 4711, "connection": {…, as Jupyter's own file}}``."""

AGAIN = "kernel-again"
"""A file that is there while the kernel is to be begun anew."""

RESTART_WITHIN = 10.0
"""Seconds after a kernel has ended by itself in which somebody may begin it anew."""

_LOOK = 0.05  # seconds: somebody who restarts the kernel waits for this look
_GRACE = 2.0  # seconds that a kernel has to end in


def serve(*, idle: float = 0.0) -> str:
    """Run a kernel until it is not used any more, is shut down, or dies.

    Parameters
    ----------
    idle
        Seconds for which it may do nothing; 0 for any time.

    Returns
    -------
    str
        Why it has ended.

    Raises
    ------
    NotebookError
        ipykernel is not installed, or the kernel has died.
    KeyboardInterrupt
        The job was asked to end.
    """
    from importlib.util import find_spec  # noqa: PLC0415 - the first line of others waits for it

    if find_spec("ipykernel") is None:
        raise NotebookError(
            f"the job's Python ({sys.executable}) has no ipykernel: install it there, or give the"
            " kernel an environment that has it"
        )
    ours = all(find_spec(name) for name in ("submarine_kernel", "submarine_magics"))
    place = private_folder()
    kernel = _Kernel(place, "submarine_kernel" if ours else "ipykernel_launcher")
    try:
        return kernel.run_to_end(IdleLimit(idle, place / KEPT))
    finally:
        kernel.end()


class _Kernel:
    """The kernel's process.

    Parameters
    ----------
    place
        The folder of its files.
    module
        What is run.
    """

    def __init__(self, place: Path, module: str) -> None:
        self._told, self._again = place / KERNEL, place / AGAIN
        self._file = place / "connection.json"
        self._module = module
        self._connection: dict[str, Any] = {}
        self._starts, self._told_starts = 0, 0
        self._client: Any = None
        self._busy, self._used = False, time.monotonic()
        for path in (self._told, self._again, self._file):
            path.unlink(missing_ok=True)  # of an attempt before this one
        self._start()

    def _start(self) -> None:
        self._again.unlink(missing_ok=True)
        if self._connection:  # it removes its own file as it ends
            write_private(self._file, self._connection)
        self._busy, self._used = False, time.monotonic()
        self._starts += 1
        self._process = subprocess.Popen(  # noqa: S603 - our own Python
            [sys.executable, "-m", self._module, "-f", str(self._file)],
            env={**os.environ, "JPY_PARENT_PID": str(os.getpid())},  # it ends where this one dies
            start_new_session=True,  # an interrupt of the kernel is for all of its group
        )

    def run_to_end(self, use: IdleLimit) -> str:
        """Stay with it to its end; return why that came."""
        while True:
            code = self._process.poll()
            if self._again.exists():
                self.end()
                self._start()
            elif code == 0 and self._begun_anew():
                self._start()
            elif code == 0:
                return "it was shut down"
            elif code is not None:
                raise NotebookError(f"the kernel has ended ({_how(code)})")
            self._tell()
            self._listen()
            begins = self._told_starts != self._starts
            said = use.note_unused(0.0 if self._busy or begins else time.monotonic() - self._used)
            if said:
                sys.stdout.write(f"{said}\n")
                sys.stdout.flush()
            if said is not None:
                progress_file.say_unused(said)
            if use.over:
                return said or "it was not used"

    def _begun_anew(self) -> bool:
        """Return whether somebody begins it anew: it has ended as if it were shut down."""
        until = time.monotonic() + RESTART_WITHIN
        while time.monotonic() < until and not self._again.exists():
            time.sleep(_LOOK)
        return self._again.exists()

    def _tell(self) -> None:
        """Tell where it listens, once it does: it writes its file when its ports are its own."""
        if self._told_starts == self._starts:
            return
        if not self._connection:
            with suppress(OSError, ValueError):
                self._connection = json.loads(self._file.read_text())
            if not self._connection:
                return
        elif not self._listens():
            return
        if self._client is None:
            self._connect()  # first: else it does not hear that the first cell is busy
        told = {"starts": self._starts, "pid": self._process.pid, "connection": self._connection}
        write_private(self._told, {"version": 1, **told})
        self._told_starts, self._used = self._starts, time.monotonic()

    def _listens(self) -> bool:
        """Return whether it listens again, at the ports that it had before."""
        with suppress(OSError):
            address = ("127.0.0.1", self._connection["shell_port"])
            socket.create_connection(address, timeout=_GRACE).close()
            return True
        return False

    def _connect(self) -> None:
        # It comes with ipykernel, which is the job's own. It takes as long as the kernel to load.
        self._client = import_module("jupyter_client.blocking").BlockingKernelClient()
        self._client.load_connection_info(self._connection)
        self._client.start_channels(shell=False, stdin=False, hb=False, control=False)

    def _listen(self) -> None:
        """Read whether the kernel is busy; wait a moment for its message."""
        if self._client is None:
            time.sleep(_LOOK)
            return
        with suppress(Empty):
            message = self._client.get_iopub_msg(timeout=_LOOK)
            if message["msg_type"] == "status":
                self._busy = message["content"]["execution_state"] == "busy"
            self._used = time.monotonic()

    def end(self) -> None:
        """End it, whatever it does."""
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _how(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    with suppress(ValueError):
        return f"by {signal.Signals(-code).name}"
    return f"by signal {-code}"
