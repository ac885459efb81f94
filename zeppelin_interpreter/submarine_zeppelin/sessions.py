"""Sessions: each has a kernel, and runs its paragraphs one after another."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from submarine_engine.errors import ClusterError, SubmarineError

from submarine_zeppelin.kernel import Kernel
from submarine_zeppelin.properties import read_properties


class Session:
    """What Zeppelin calls a session: shared by all notes, or of one note or user.

    Parameters
    ----------
    properties
        Those of the interpreter's setting.
    """

    def __init__(self, properties: Mapping[str, str]) -> None:
        self.properties = dict(properties)
        self.kernel = Kernel()
        self.closed = False
        self._line: deque[object] = deque()
        self._moved = threading.Condition()
        threading.Thread(target=self._start_ahead, name="kernel", daemon=True).start()

    @contextmanager
    def turn(self, who: object) -> Iterator[None]:
        """Wait until all that came before is over; Zeppelin sends paragraphs side by side.

        Raises
        ------
        ClusterError
            The session was closed meanwhile: a kernel for it would have nobody to end it.
        """
        with self._moved:
            self._line.append(who)
            self._moved.wait_for(lambda: self._line[0] is who)
        try:
            self._refuse_closed()
            yield
        finally:
            with self._moved:
                self._line.remove(who)
                self._moved.notify_all()

    def start_kernel(self) -> None:
        """Start the kernel where it does not run; raises as `turn` and `Kernel.start` do."""
        self.kernel.start()
        if self.closed:  # while it was started
            self.kernel.close()
            self._refuse_closed()

    def close(self) -> None:
        """End the kernel."""
        self.closed = True
        self.kernel.close()

    def _refuse_closed(self) -> None:
        if self.closed:
            raise ClusterError(
                "the interpreter was restarted before the paragraph could run",
                fix="run the paragraph again",
            )

    def _start_ahead(self) -> None:
        with suppress(SubmarineError, OSError):  # the first paragraph tells what is wrong
            self.start_kernel()


class Sessions:
    """The sessions of this process, by Zeppelin's ids."""

    def __init__(self) -> None:
        self._sessions: dict[str, Session] = {}
        self._properties: dict[str, Mapping[str, str]] = {}
        self._lock = threading.Lock()

    def create(self, session_id: str, properties: Mapping[str, str]) -> None:
        """Take the properties of a session, and begin to start its kernel.

        What they say of the environment holds for all of this process: a setting has one.
        """
        os.environ.update(read_properties(properties).environment)
        with self._lock:
            self._properties[session_id] = properties
        self.get(session_id)

    def get(self, session_id: str) -> Session:
        """Return a session; begin it where it is not there."""
        with self._lock:
            if session_id not in self._sessions:
                self._sessions[session_id] = Session(self._properties.get(session_id, {}))
            return self._sessions[session_id]

    def close(self, session_id: str) -> None:
        """End a session; another of the same id begins anew."""
        with self._lock:
            session = self._sessions.pop(session_id, None)
        if session is not None:
            session.close()

    def close_all(self) -> None:
        """End all of them."""
        for session_id in list(self._sessions):
            self.close(session_id)
