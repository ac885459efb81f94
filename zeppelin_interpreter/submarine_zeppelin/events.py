"""The way back to Zeppelin: what paragraphs show while they run, and their links.

Zeppelin keeps what ``updateOutput`` says, and not what ``appendOutput`` does; mixing the two
repeats lines. So each output is sent as a whole, never more often than its size allows. Pages that
are opened later, and the saved note, show what there was at the last ``checkpointOutput``.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from submarine_zeppelin.message import TEXT, Message
from submarine_zeppelin.wire import IDL, EventServer, RefusedError

_EVERY = 0.1
_RATE = 1_000_000
"""Bytes a second that outputs may take: one of 100 kB is sent ten times a second at most."""

_SAVE_EVERY = 1.0
_AGAIN = 1.0


class Shown:
    """What one paragraph shows now: the `Sink` of its outputs. Never waits, never raises."""

    def __init__(self, events: Events, note_id: str, paragraph_id: str) -> None:
        self.place = note_id, paragraph_id
        self.messages: list[Message] = []
        self.new: set[int] = set()
        self.anew = False
        self.saved_at = 0.0
        self._events = events

    def append(self, index: int, text: str) -> None:
        """Add text to a message of type ``TEXT``."""
        with self._events.lock:
            if index < len(self.messages):
                old = self.messages[index]
                self.messages[index] = Message(TEXT, old.data + text)
                self.new.add(index)
        self._events.wake(self)

    def update(self, index: int, type: str, data: str) -> None:  # noqa: A002 - Zeppelin's word
        """Begin a message, or replace all of it."""
        with self._events.lock:
            self.messages[index : index + 1] = [Message(type, data)]
            self.new.add(index)
        self._events.wake(self)

    def update_all(self, messages: Sequence[Message]) -> None:
        """Replace all messages."""
        with self._events.lock:
            self.messages = list(messages)
            self.anew = True
        self._events.wake(self)


class Events:
    """Sends what is new to Zeppelin, from a thread of its own.

    What was not sent yet is what is newest: a Zeppelin that is slow or away holds nothing up, and
    gets all that there is when it is back.

    Parameters
    ----------
    group
        Id of the interpreter group.
    """

    def __init__(self, group: str) -> None:
        self.group = group
        self.server: EventServer | None = None
        self.lock = threading.Lock()
        self._waiting: dict[tuple[str, str], Shown] = {}
        self._unsaved: dict[tuple[str, str], Shown] = {}
        self._links: dict[tuple[str, str], str] = {}
        self._sending = threading.Lock()
        self._bell = threading.Event()
        threading.Thread(target=self._run, name="events", daemon=True).start()

    def connect(self, host: str, port: int) -> None:
        """Send to that event server from now on."""
        former, self.server = self.server, EventServer(host, port)
        if former is not None:
            former.close()

    def shown(self, note_id: str, paragraph_id: str) -> Shown:
        """Return what takes the outputs of a paragraph that begins to run."""
        return Shown(self, note_id, paragraph_id)

    def wake(self, shown: Shown) -> None:
        """Send what is new of a paragraph, soon."""
        with self.lock:
            self._waiting[shown.place] = shown
        self._bell.set()

    def over(self, shown: Shown) -> None:
        """Send nothing more of a paragraph: its result has all, and must come last."""
        with self.lock:
            self._waiting.pop(shown.place, None)
        if self._sending.acquire(timeout=_AGAIN):
            self._sending.release()
        with self.lock:
            self._unsaved.pop(shown.place, None)

    def link(self, shown: Shown, label: str, tooltip: str, url: str) -> None:
        """Put a job's link on a paragraph."""
        note_id, paragraph_id = shown.place
        told = {
            "noteId": note_id,
            "paraId": paragraph_id,
            "label": label,
            "tooltip": tooltip,
            "jobUrl": url,
        }
        with self.lock:
            self._links[shown.place] = json.dumps(told)
        self._bell.set()

    def paragraphs(self, user: str, note_id: str) -> list[Mapping[str, str]]:
        """Return id and title of a note's paragraphs, in order; empty where nobody tells."""
        with suppress(OSError):
            if self.server is not None:
                found = self.server.call("getParagraphList", user, note_id)
                return [{"id": one.paragraphId, "title": one.paragraphTitle or ""} for one in found]
        return []

    def _run(self) -> None:
        while True:
            self._bell.wait(_SAVE_EVERY if self._unsaved else None)
            self._bell.clear()
            try:
                sent = self._send()
                self._save()
            except OSError:
                time.sleep(_AGAIN)
                self._bell.set()
            else:
                time.sleep(max(_EVERY, sent / _RATE))

    def _send(self) -> int:
        """Send what is new; return how many bytes that were.

        Raises
        ------
        OSError
            Zeppelin does not take it; what was not sent is sent later.
        """
        server = self.server
        if server is None:
            raise OSError("no event server is known yet")
        size = 0
        for place, told in list(self._links.items()):
            with suppress(RefusedError):
                server.call("sendParagraphInfo", self.group, told)
            with self.lock:
                if self._links.get(place) == told:
                    del self._links[place]
        with self.lock:
            waiting = list(self._waiting.values())
        for shown in waiting:
            with self._sending, suppress(RefusedError):  # of a note that was deleted, say
                size += self._send_one(server, shown)
        return size

    def _send_one(self, server: EventServer, shown: Shown) -> int:
        note_id, paragraph_id = shown.place
        with self.lock:
            if self._waiting.pop(shown.place, None) is None:
                return 0  # its result is on its way
            messages, new, anew = list(shown.messages), shown.new, shown.anew
            shown.new, shown.anew = set(), False
        try:
            if anew:
                wire = [IDL.RemoteInterpreterResultMessage(m.type, m.data) for m in messages]
                event = IDL.OutputUpdateAllEvent(note_id, paragraph_id, wire)
                server.call("updateAllOutput", event)
            else:
                for index in sorted(new & set(range(len(messages)))):
                    one = messages[index]
                    event = IDL.OutputUpdateEvent(
                        note_id, paragraph_id, index, one.type, one.data, None
                    )
                    server.call("updateOutput", event)
            with self.lock:
                self._unsaved[shown.place] = shown
        except RefusedError:
            raise
        except OSError:
            with self.lock:
                shown.anew = True
                self._waiting.setdefault(shown.place, shown)
            raise
        return sum(len(message.data) for message in messages)

    def _save(self) -> None:
        """Let Zeppelin save what it was sent, where that is due.

        Raises
        ------
        OSError
            Zeppelin is not there.
        """
        now = time.monotonic()
        with self.lock:
            due = [one for one in self._unsaved.values() if now - one.saved_at >= _SAVE_EVERY]
        for shown in due:
            with self._sending:
                with self.lock:
                    if self._unsaved.pop(shown.place, None) is None:
                        continue  # its result is on its way
                shown.saved_at = now
                with suppress(RefusedError):
                    if self.server is not None:
                        self.server.call("checkpointOutput", *shown.place)
