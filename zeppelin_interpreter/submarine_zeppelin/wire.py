"""The wire between Zeppelin and its interpreter: Thrift on sockets, and events back."""

from __future__ import annotations

import errno
import json
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import thriftpy2
from submarine_engine.errors import ConfigError
from thriftpy2.protocol import TBinaryProtocolFactory
from thriftpy2.thrift import TClient, TException, TProcessor
from thriftpy2.transport import TBufferedTransportFactory, TMemoryBuffer, TSocket

from submarine_zeppelin.calls import BadCallError, Calls
from submarine_zeppelin.outputs import TEXT, Message
from submarine_zeppelin.peers import Callers


def log(text: str) -> None:
    """Write the line `text` into the interpreter's log, which Zeppelin keeps."""
    sys.stderr.write(f"submarine: {text}\n")
    sys.stderr.flush()


# The wire between Zeppelin and its interpreter: Thrift's strict binary protocol on plain sockets.
#
# ``zeppelin.thrift`` beside this file says what goes over it.


IDL: Any = thriftpy2.load(
    str(Path(__file__).with_name("zeppelin.thrift")), module_name="submarine_zeppelin_thrift"
)
"""The structs and services of ``zeppelin.thrift``."""

PROTOCOL = TBinaryProtocolFactory(strict_read=True, strict_write=True)
TRANSPORT = TBufferedTransportFactory()
_BACKLOG = 128
_PATIENCE = 5_000  # milliseconds
_LONGEST_LINE = 500
_PAUSE = 0.05  # seconds: accept() fails again at once while too many files are open


class RefusedError(OSError):
    """Zeppelin answers that it cannot do what it was asked: asking again is of no use."""


class Listener:
    """A socket that listens on one address, for Zeppelin's calls.

    Parameters
    ----------
    host
        The one address to listen on.
    ports
        ``first:last``, as Zeppelin's ``zeppelin.interpreter.rpc.portRange`` has it; either may be
        missing, and ``:`` is any.

    Raises
    ------
    ConfigError
        No port of the range is free, or it is no range.
    """

    def __init__(self, host: str, ports: str = ":") -> None:
        self.host = host
        self._socket = _bind(host, ports)
        self._socket.listen(_BACKLOG)
        self.port: int = self._socket.getsockname()[1]

    def serve(
        self,
        handler: object,
        answered: Callable[[bool], None],
        refusal: Callable[[socket.socket], str],
    ) -> None:
        """Answer calls in threads of their own, until `close`; returns at once.

        Parameters
        ----------
        handler
            What does the calls: a method for each of the service, see `IDL`.
        answered
            Called in the thread of a call once its answer has been sent, or could not be: it says.
        refusal
            Says of a new connection why it is refused, "" where it is not; an `OSError` means that
            it is gone.
        """
        processor = TProcessor(IDL.RemoteInterpreterService, handler)
        work = (processor, answered, refusal)
        threading.Thread(target=self._accept, args=work, name="accept", daemon=True).start()

    def close(self) -> None:
        """Take no more calls."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _accept(self, *work: Any) -> None:  # noqa: ANN401 - passed on
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError as error:
                if error.errno in (errno.EBADF, errno.EINVAL):  # it was closed
                    return
                time.sleep(_PAUSE)  # too many files are open, or the caller left: it passes
                continue
            try:
                threading.Thread(target=_answer, args=(client, *work), daemon=True).start()
            except RuntimeError:  # the machine starts no more threads now
                client.close()


def _answer(
    client: socket.socket,
    processor: Any,  # noqa: ANN401 - thriftpy2's
    answered: Callable[[bool], None],
    refusal: Callable[[socket.socket], str],
) -> None:
    """Answer the calls of one connection; whatever breaks it ends nothing else."""
    try:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        why = refusal(client)
    except OSError:
        client.close()
        return
    if why:
        log(why)
        client.close()
        return
    transport = TRANSPORT.get_transport(TSocket(sock=client))
    answers = PROTOCOL.get_protocol(transport)
    calls = Calls(client)
    try:
        while True:
            call = PROTOCOL.get_protocol(TMemoryBuffer(calls.next()))
            client.settimeout(None)  # an answer may be taken slowly
            sent = False
            try:
                processor.process(call, answers)
                sent = True
            finally:
                answered(sent)
    except (OSError, EOFError):  # the caller left
        pass
    except BadCallError as error:
        log(f"a call cannot be read: {error}")
    except Exception as error:  # noqa: BLE001 - of the library, or what it is handed: whatever it is
        log(f"a call cannot be answered: {type(error).__name__}: {error}"[:_LONGEST_LINE])
    finally:
        with suppress(OSError):
            transport.close()


class EventServer:
    """Zeppelin's RemoteInterpreterEventService; one call at a time, from any thread.

    Parameters
    ----------
    host, port
        Where it listens.
    """

    def __init__(self, host: str, port: int) -> None:
        self.address = host, port
        self._lock = threading.Lock()
        self._client: Any = None

    def call(self, method: str, *arguments: object) -> Any:  # noqa: ANN401 - as the method has it
        """Call a method of the service, and return what it returns.

        Parameters
        ----------
        method
            Its name.
        arguments
            As the service has them, see `IDL`.

        Raises
        ------
        RefusedError
            Zeppelin answers that it cannot.
        OSError
            It does not answer.
        """
        with self._lock:
            try:
                if self._client is None:
                    self._client = self._connect()
                return getattr(self._client, method)(*arguments)
            except IDL.InterpreterRPCException as error:
                raise RefusedError(f"Zeppelin says: {error.errorMessage}") from error
            except (OSError, EOFError, TException) as error:
                self._close()
                raise OSError(f"Zeppelin does not answer at {self.address}: {error}") from error

    def close(self) -> None:
        """Close the connection; the next call opens another."""
        with self._lock:
            self._close()

    def _connect(self) -> Any:  # noqa: ANN401 - thriftpy2's
        host, port = self.address
        transport = TRANSPORT.get_transport(TSocket(host, port, socket_timeout=_PATIENCE))
        transport.open()
        return TClient(IDL.RemoteInterpreterEventService, PROTOCOL.get_protocol(transport))

    def _close(self) -> None:
        if self._client is not None:
            with suppress(OSError):
                self._client.close()
            self._client = None


def address_towards(host: str, port: int) -> str:
    """Return the one address of this machine that leads to Zeppelin.

    Where Zeppelin runs on the same machine that is a loopback address.

    Parameters
    ----------
    host, port
        Where Zeppelin listens.

    Raises
    ------
    OSError
        Nobody listens there.
    """
    with socket.create_connection((host, port), timeout=_PATIENCE / 1000) as connection:
        found: str = connection.getsockname()[0]
        return found


def _bind(host: str, ports: str) -> socket.socket:
    first, _, last = ports.partition(":")
    try:
        lowest = int(first or 0)
        highest = int(last or (65535 if lowest else 0))
    except ValueError:
        raise ConfigError(f"{ports!r} is no range of ports", fix="write FIRST:LAST") from None
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for port in range(lowest, highest + 1):
        listening = socket.socket(family, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, port))
        except (OSError, OverflowError):
            listening.close()
        else:
            return listening
    raise ConfigError(
        f"no port of {ports} is free on {host}",
        fix="give zeppelin.interpreter.rpc.portRange a wider range",
    )


# The way back to Zeppelin: what paragraphs show while they run, and their links.
#
# Zeppelin keeps what ``updateOutput`` says, and not what ``appendOutput`` does; mixing the two
# repeats lines. So each output is sent as a whole, never more often than its size allows. Pages
# that are opened later, and the saved note, show what there was at the last ``checkpointOutput``.


_EVERY = 0.1  # seconds between two sendings: Zeppelin passes each on to all its pages
_RATE = 1_000_000
"""Bytes a second that outputs may take: one of 100 kB is sent ten times a second at most."""

_SAVE_EVERY = 1.0  # seconds between two checkpoints: Zeppelin writes the whole note for each
_AGAIN = 1.0  # seconds until a Zeppelin that was away is tried again
_CALL_TAKES = 3 * _PATIENCE / 1000
"""Seconds after which a call is over: another thread's before it, its connection, its answer."""

_DRAW_AFTER = 0.5, 3.0
"""Seconds after its result until a page is to draw a paragraph: on a busy machine, too."""


class ParagraphSink:
    """What one paragraph shows now: the `Sink` of its outputs. Never waits, never raises.

    Parameters
    ----------
    events
        What sends it.
    note_id, paragraph_id
        Which paragraph of which note.
    """

    def __init__(self, events: Events, note_id: str, paragraph_id: str) -> None:
        self.place = note_id, paragraph_id
        self.messages: list[Message] = []
        self.new: set[int] = set()
        self.anew = False
        self.link = ""
        # Not before Zeppelin knows that it runs: with that its new page would show what is saved,
        # and go on to show it, above the outputs of the run before, to the end.
        self.saved_at = time.monotonic()
        self.over = False
        self._events = events

    def append(self, index: int, text: str) -> None:
        """Add text to a message of type ``TEXT``.

        Parameters
        ----------
        index
            Which message, from 0; nothing is done where it has not begun.
        text
            What is added.
        """
        with self._events.lock:
            if index < len(self.messages):
                old = self.messages[index]
                self.messages[index] = Message(TEXT, old.data + text)
                self.new.add(index)
        self._events.wake(self)

    def update(self, index: int, type: str, data: str) -> None:  # noqa: A002 - Zeppelin's word
        """Begin message `index`, or replace all of it, by `data` of `type`."""
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
    callers
        Who may call this process: whom the events go to may.
    """

    def __init__(self, group: str, callers: Callers) -> None:
        self.group = group
        self._callers = callers
        self.server: EventServer | None = None
        self.lock = threading.Lock()
        self._waiting: dict[tuple[str, str], ParagraphSink] = {}
        self._unsaved: dict[tuple[str, str], ParagraphSink] = {}
        self._newest: dict[tuple[str, str], ParagraphSink] = {}
        self._links: dict[tuple[str, str], str] = {}
        self._draw: list[tuple[float, tuple[str, str]]] = []
        self._under_way: ParagraphSink | None = None
        self._sent = threading.Condition(self.lock)
        self._bell = threading.Event()
        threading.Thread(target=self._run, name="events", daemon=True).start()

    def connect(self, host: str, port: int) -> None:
        """Send to the event server at `host` and `port` from now on."""
        if told := self._callers.zeppelin_is_at(host, port):
            log(told)
        former, self.server = self.server, EventServer(host, port)
        if former is not None:
            former.close()

    def shown(self, note_id: str, paragraph_id: str) -> ParagraphSink:
        """Return what takes the outputs of `paragraph_id` in `note_id`, which begins to run."""
        shown = ParagraphSink(self, note_id, paragraph_id)
        with self.lock:
            # A run that the interpreter's restart is ending shows nothing above the next one.
            if former := self._newest.get(shown.place):
                self._let_go(former)
            self._newest[shown.place] = shown
        return shown

    def _let_go(self, shown: ParagraphSink) -> None:
        """Send nothing more of `shown`; for who holds the lock."""
        shown.over = True
        for every in (self._waiting, self._unsaved, self._newest):
            if every.get(shown.place) is shown:
                del every[shown.place]

    def wake(self, shown: ParagraphSink) -> None:
        """Send what is new of the paragraph of `shown`, soon."""
        with self.lock:
            if not shown.over:
                self._waiting[shown.place] = shown
        self._bell.set()

    def over(self, shown: ParagraphSink) -> None:
        """Send nothing more of the paragraph of `shown`: its result has all, and must come last."""
        with self.lock:
            self._let_go(shown)
            self._sent.wait_for(lambda: self._under_way is not shown, _CALL_TAKES)

    def link(self, shown: ParagraphSink, label: str, tooltip: str, url: str) -> None:
        """Put a job's link on a paragraph.

        Parameters
        ----------
        shown
            What takes the paragraph's outputs, see `shown`.
        label
            What the link reads.
        tooltip
            What is shown while a pointer is on it.
        url
            Where it leads to.
        """
        note_id, paragraph_id = shown.place
        told = {
            "noteId": note_id,
            "paraId": paragraph_id,
            "label": label,
            "tooltip": tooltip,
            "jobUrl": url,
        }
        with self.lock:
            shown.link = self._links[shown.place] = json.dumps(told)
        self._bell.set()

    def draw(self, note_id: str, paragraph_id: str) -> None:
        """Have pages draw what a paragraph shows, once Zeppelin has told them its result.

        The new page of Zeppelin takes a result without drawing it: it does at the next message
        about the paragraph, whatever that says.

        Parameters
        ----------
        note_id, paragraph_id
            Which paragraph of which note.
        """
        now = time.monotonic()
        with self.lock:
            self._draw += [(now + after, (note_id, paragraph_id)) for after in _DRAW_AFTER]
        self._bell.set()

    def paragraphs(self, user: str, note_id: str) -> list[Mapping[str, str]]:
        """Return id and title of a note's paragraphs, in order; empty where nobody tells.

        Parameters
        ----------
        user
            Who asks: a note may not be for all to read.
        note_id
            The note.
        """
        with suppress(OSError):
            if self.server is not None:
                found = self.server.call("getParagraphList", user, note_id)
                return [{"id": one.paragraphId, "title": one.paragraphTitle or ""} for one in found]
        return []

    def _run(self) -> None:
        while True:
            self._bell.wait(self._pause())
            self._bell.clear()
            try:
                sent = self._send()
                self._save()
                self._have_drawn()
            except OSError:
                time.sleep(_AGAIN)
                self._bell.set()
            else:
                time.sleep(max(_EVERY, sent / _RATE))

    def _pause(self) -> float | None:
        """Return how long to wait for something new; None for as long as that takes."""
        with self.lock:
            pauses = [max(0.0, due - time.monotonic()) for due, _ in self._draw]
        return min([*pauses, *([_SAVE_EVERY] if self._unsaved else [])], default=None)

    def _have_drawn(self) -> None:
        """Send what says nothing new of the paragraphs that are to be drawn now.

        Raises
        ------
        OSError
            Zeppelin is not there; its pages draw what they show when they are opened again.
        """
        now = time.monotonic()
        with self.lock:
            due = {place for when, place in self._draw if when <= now}
            self._draw = [(when, place) for when, place in self._draw if when > now]
        for note_id, paragraph_id in due:
            with suppress(RefusedError):
                if self.server is not None:
                    told = json.dumps({"noteId": note_id, "paraId": paragraph_id})
                    self.server.call("sendParagraphInfo", self.group, told)

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
            with self._telling(shown), suppress(RefusedError):  # of a note that was deleted, say
                size += self._send_one(server, shown)
        return size

    @contextmanager
    def _telling(self, shown: ParagraphSink) -> Iterator[None]:
        """Tell Zeppelin of the paragraph of `shown`: its end waits for that, see `over`."""
        with self.lock:
            self._under_way = shown
        try:
            yield
        finally:
            with self.lock:
                self._under_way = None
                self._sent.notify_all()

    def _send_one(self, server: EventServer, shown: ParagraphSink) -> int:
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
                if shown.link:  # which goes with all that was shown
                    server.call("sendParagraphInfo", self.group, shown.link)
            else:
                for index in sorted(new & set(range(len(messages)))):
                    one = messages[index]
                    event = IDL.OutputUpdateEvent(
                        note_id, paragraph_id, index, one.type, one.data, None
                    )
                    server.call("updateOutput", event)
            with self.lock:
                if not shown.over:
                    self._unsaved[shown.place] = shown
        except RefusedError:
            raise
        except OSError:
            with self.lock:
                shown.anew = True
                if not shown.over:
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
            with self._telling(shown):
                with self.lock:
                    if self._unsaved.pop(shown.place, None) is None:
                        continue  # its result is on its way
                shown.saved_at = now
                with suppress(RefusedError):
                    if self.server is not None:
                        self.server.call("checkpointOutput", *shown.place)
