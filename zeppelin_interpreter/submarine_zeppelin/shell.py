"""``%submarine.sh``: shell commands in the kernel's process, and how they ended in a line."""

from __future__ import annotations

import signal
import subprocess
from typing import Any

from IPython.core.interactiveshell import InteractiveShell
from submarine_engine.errors import SubmarineError


class ShellError(SubmarineError):
    """A paragraph's shell commands failed; what they wrote is above it."""


def register(shell: InteractiveShell) -> None:
    """Add the cell magic to a kernel's shell."""

    def run(line: str, cell: str) -> None:
        """Run the cell by ``sh``; what it writes is shown as it comes.

        Raises
        ------
        ShellError
            The exit status is not 0.
        """
        try:
            shell.run_cell_magic("sh", line, cell)
        except subprocess.CalledProcessError as error:
            # IPython's own frames would tell nobody a thing, and hide the output above them.
            raise ShellError(_told(error.returncode)) from None

    add: Any = shell.register_magic_function  # its type is that of the manager's own method
    add(run, "cell", "submarine.sh")


def _told(status: int | None) -> str:
    """Return how a shell ended; a negative status is the number of the signal that ended it."""
    if status is None:
        return "the shell was killed"
    if status >= 0:
        return f"the shell ended with exit status {status}"
    try:
        return f"the shell was ended by {signal.Signals(-status).name}"
    except ValueError:
        return f"the shell was ended by signal {-status}"
