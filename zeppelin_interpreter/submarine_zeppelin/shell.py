"""``%submarine.sh``: shell commands in the kernel's process, and how they ended in a line."""

from __future__ import annotations

import codecs
import os
import selectors
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from typing import IO, Any

from IPython.core.interactiveshell import InteractiveShell
from submarine_engine.errors import SubmarineError

_PIECE = 1 << 16
"""Bytes read at once: IPython's own ``%%sh`` takes a hundred, and ten times as long."""

_SETTLES = 0.5  # seconds that an interrupted shell has before the next, harder signal


class ShellError(SubmarineError):
    """A paragraph's shell commands failed; what they wrote is above it."""


def register(shell: InteractiveShell) -> None:
    """Add the cell magic to a kernel's shell."""
    add: Any = shell.register_magic_function  # its type is that of the manager's own method
    add(_run, "cell", "submarine.sh")


def _run(line: str, cell: str) -> None:  # noqa: ARG001 - as magics are called
    """Run the cell by ``sh``; what it writes is shown as it comes.

    Raises
    ------
    ShellError
        The exit status is not 0.
    """
    pipe = subprocess.PIPE
    # The `sh` that is on the notes' PATH.
    with subprocess.Popen(["sh"], stdin=pipe, stdout=pipe, stderr=pipe) as process:  # noqa: S607
        assert process.stdin is not None  # noqa: S101 - for the type checker, here and below
        # From a thread: a shell that reads slowly must not keep back what it writes.
        source = f"{cell}\n".encode("utf-8", "replace")
        writer = threading.Thread(target=_give, args=(process.stdin, source), daemon=True)
        writer.start()
        try:
            _show(process)
            process.wait()
        except KeyboardInterrupt:
            _end(process)
        writer.join(_SETTLES)
    if process.returncode:
        raise ShellError(_told(process.returncode))


def _give(stdin: IO[bytes], source: bytes) -> None:
    with suppress(OSError), stdin:  # it has ended before it read all
        stdin.write(source)


def _show(process: subprocess.Popen[bytes]) -> None:
    """Write what comes to the paragraph's own streams, until both ends are closed."""
    decode = codecs.getincrementaldecoder("utf-8")
    with selectors.DefaultSelector() as selector:
        for pipe, stream in ((process.stdout, sys.stdout), (process.stderr, sys.stderr)):
            assert pipe is not None  # noqa: S101
            selector.register(pipe, selectors.EVENT_READ, (decode("replace"), stream))
        while selector.get_map():
            for key, _ in selector.select():
                decoder, stream = key.data
                data = os.read(key.fd, _PIECE)
                if not data:
                    selector.unregister(key.fileobj)
                stream.write(decoder.decode(data, not data))
                stream.flush()


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a shell that was interrupted: each signal has its time."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        process.send_signal(number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_SETTLES)
            return


def _told(status: int) -> str:
    """Return how a shell ended; a negative status is the number of the signal that ended it."""
    if status >= 0:
        return f"the shell ended with exit status {status}"
    try:
        return f"the shell was ended by {signal.Signals(-status).name}"
    except ValueError:
        return f"the shell was ended by signal {-status}"
