"""Exchanges the messages of driver and task that share no folder: brings some, returns others.

`pod` calls it beside the task; `submarine_engine.clusters` knows by it which messages there are.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress

from submarine_runtime import peer_failed, stacks
from submarine_runtime.call_frames import CALLS, TAKEN, take_in
from submarine_runtime.exchange import HELLO, INSIDE, put

TYPE_CHECKING = False  # as type checkers have it
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

LARGEST = 1 << 16
"""Bytes that a task's message may have. The driver's answer has some 100 for each task."""

LARGEST_OF = {HELLO: LARGEST, stacks.STACKS: stacks.LARGEST, INSIDE: LARGEST}
"""The messages that a task says, and how long each may be."""

SIGNALLED = (stacks.ASK, stacks.ASK_MAIN, peer_failed.ASK)
"""What a task hears of by its machine's kernel."""

_LINE = 100

_PRIVATE = 0o600
"""What the driver tells is the task's alone, also where others may read the folder's logs."""


def exchange(
    folder: str, messages: Mapping[str, bytes], ask: Callable[[str], object] | None = None
) -> dict[str, bytes]:
    """Bring messages to the task of a folder, and return those that it has said.

    Parameters
    ----------
    folder
        The task's.
    messages
        By name, which may lead to a folder below.
    ask
        Has the launcher ask a question of `SIGNALLED`; None where that is written, too.

    Raises
    ------
    OSError
        The folder cannot be written.
    """
    found: dict[str, bytes] = {}
    for name, data in messages.items():
        if name == CALLS:
            found[TAKEN] = b"%d" % take_in(f"{folder}/{CALLS}", data)
            continue
        if name == stacks.ASK:
            stacks.forget_last(folder)
        elif name == stacks.ASK_MAIN and stacks.has_answered(folder):
            continue
        if ask is not None and name in SIGNALLED:
            ask(name)
            continue
        below, _, last = name.rpartition("/")
        put(f"{folder}/{below}" if below else folder, last, data, _PRIVATE)
    for name, most in LARGEST_OF.items():
        with suppress(FileNotFoundError):
            found[name] = _read(f"{folder}/{name}", most)
    if stacks.STACKS in found:
        with suppress(FileNotFoundError):  # whoever runs the task tells it, or the driver knows it
            found[stacks.STACKS] = _read(f"{folder}/{stacks.USED}", _LINE) + found[stacks.STACKS]
    return found


def _read(path: str, most: int) -> bytes:
    """Read what a task wrote: no more than `most` bytes and one; what is no file reads as empty.

    So it is no message.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        with open(os.open(path, flags), "rb") as file:  # noqa: PTH123 - a descriptor
            is_file = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
            return file.read(most + 1) if is_file else b""
    except FileNotFoundError:
        raise
    except OSError:
        return b""
