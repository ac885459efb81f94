"""How a supervisor sleeps: until a child ends, a signal comes, or somebody rings its bell."""

from __future__ import annotations

import os
import select
import signal
from contextlib import suppress
from pathlib import Path

_ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Wake:
    """What a supervisor waits for.

    Parameters
    ----------
    bell
        Where to make the named pipe. Where none can be made (some network file systems), the
        supervisor looks at ``cancel.json`` at each of its turns anyhow.
    """

    def __init__(self, bell: Path) -> None:
        self.asked_to_end = False
        self._signals, sender = os.pipe()
        for end in (self._signals, sender):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(sender, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, *_ENDING):
            signal.signal(number, lambda *_: None)
        self._poll = select.poll()
        self._poll.register(self._signals, select.POLLIN)
        self._bell: int | None = None
        with suppress(OSError):
            os.mkfifo(bell, 0o600)
        with suppress(OSError):
            # Open for writing too: else each ringer that closes it would be the end of the file.
            self._bell = os.open(bell, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
            self._poll.register(self._bell, select.POLLIN)

    def wait(self, seconds: float) -> None:
        """Sleep until something happens, `seconds` at most."""
        ready = [descriptor for descriptor, _ in self._poll.poll(max(0, int(seconds * 1000)))]
        if self._signals in ready:
            numbers = os.read(self._signals, 4096)
            self.asked_to_end = self.asked_to_end or any(s in numbers for s in _ENDING)
        if self._bell in ready:
            with suppress(OSError):
                os.read(self._bell, 4096)
