"""What Zeppelin asks of an interpreter process, and the process's own log."""

from __future__ import annotations

import json
import os
import re
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

from submarine_engine.history import default_home, make_private

from submarine_zeppelin.paragraph import Paragraph, Run, State
from submarine_zeppelin.peers import is_loopback
from submarine_zeppelin.properties import ELSEWHERE, LINKS_LISTEN
from submarine_zeppelin.sessions import LATE_IMPORTS, Sessions
from submarine_zeppelin.wire import IDL, Events

# The interpreter's own log: Zeppelin reads what a process writes only until it has registered.


_LARGEST = 10_000_000


def log_path(group: str) -> Path:
    """Return where the process of an interpreter group writes: ``<home>/zeppelin/logs/``."""
    name = re.sub(r"[^\w-]+", "-", group, flags=re.ASCII)[:80].strip("-") or "interpreter"
    return default_home() / "zeppelin" / "logs" / f"{name}.log"


def begin_log(group: str) -> None:
    """Let what this process and its children write go there from now on, after what is there.

    One of more than 10 MB is put aside as ``.log.1``. Where the disk refuses, all stays as it is.

    Parameters
    ----------
    group
        The id of the interpreter group, see `log_path`.
    """
    path = log_path(group)
    with suppress(OSError):
        make_private(path.parent)
        if path.exists() and path.stat().st_size > _LARGEST:
            path.replace(path.with_name(f"{path.name}.1"))
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(path, flags, 0o600)
        try:
            for stream in (1, 2):
                os.dup2(descriptor, stream)
        finally:
            os.close(descriptor)


# What Zeppelin asks of an interpreter process: the handler of RemoteInterpreterService.


F = TypeVar("F", bound=Callable[..., Any])
_PORTS = "zeppelin.server.rpc.portRange"
_POLLER = 0.25
"""Seconds that an answer has to reach the field that it is written to, on a busy machine too."""

_ANSWERS_WITHIN, _LOOK = 5.0, 0.005
"""Seconds that a result waits for answers that are being sent, and between two looks."""

_LIMIT = "zeppelin.interpreter.output.limit"
_ADDRESS = "zeppelin.server.addr"
_LOOPBACK = "127.0.0.1"


def errors_as_answers(method: F) -> F:
    """Let a method's errors be answers that Zeppelin understands, and keep them in the log."""

    @wraps(method)
    def answer(*arguments: Any) -> Any:  # noqa: ANN401 - as the method's
        try:
            return method(*arguments)
        except Exception as error:
            traceback.print_exc()
            raise IDL.InterpreterRPCException(f"{type(error).__name__}: {error}") from error

    return answer  # type: ignore[return-value] # the same arguments, the same value


class Service:
    """One interpreter process.

    Parameters
    ----------
    events
        Where paragraphs send what they show; they know where Zeppelin is.
    shut_down
        Ends the process.
    """

    def __init__(self, events: Events, shut_down: Callable[[], None]) -> None:
        self._events = events
        self._shut_down = shut_down
        self._sessions = Sessions()
        self._lock = threading.Lock()
        self._runs: dict[tuple[str, str], Run] = {}
        self._conf: dict[str, str] = {}
        self._answering = threading.local()

    # A process and its sessions

    @errors_as_answers
    def init(self, properties: Mapping[str, str]) -> None:
        """Take `properties`, Zeppelin's own configuration."""
        self._conf = dict(properties or {})
        if not is_loopback(self._conf.get(_ADDRESS, _LOOPBACK)):
            os.environ[ELSEWHERE] = "1"
        first, _, last = self._conf.get(_PORTS, "").partition(":")
        if self._events.server is None and first and first == last and first.isdecimal():
            # One that was started by hand is not told whom to answer.
            self._events.connect(_LOOPBACK, int(first))

    @errors_as_answers
    def createInterpreter(  # noqa: N802 - Zeppelin's word, here and below
        self, group: str, session_id: str, _name: str, properties: Mapping[str, str], _user: str
    ) -> None:
        """Make one of a session's classes: a session has one kernel for all of them.

        Parameters
        ----------
        group
            The id of the interpreter group; empty where it is not told.
        session_id
            The session.
        properties
            Those of the interpreter's setting.
        """
        # One that was started by hand is not told its group before: links are sent by its name.
        self._events.group = group or self._events.group
        limit = {_LIMIT: self._conf[_LIMIT]} if _LIMIT in self._conf else {}
        self._sessions.create(session_id, {**limit, **(properties or {})})
        if os.environ.get(LINKS_LISTEN):
            threading.Thread(target=_serve_links, name="links", daemon=True).start()

    def open(self, _session_id: str, _name: str) -> None:
        """Do nothing: a kernel starts by itself."""

    @errors_as_answers
    def close(self, session_id: str, _name: str) -> None:
        """End the session `session_id`; jobs go on."""
        self._sessions.close(session_id)
        self._forget()

    @errors_as_answers
    def reconnect(self, host: str, port: int) -> None:
        """Answer another Zeppelin from now on: it was started anew, and knows no links.

        Parameters
        ----------
        host, port
            Where the event server of that one listens.
        """
        self._events.connect(host, port)
        with self._lock:
            runs = list(self._runs.values())
        for run in runs:
            run.link_again()

    def shutdown(self) -> None:
        """End the process; jobs go on."""
        self._sessions.close_all()
        self._shut_down()

    # Paragraphs

    def interpret(self, session_id: str, name: str, text: str, context: Any) -> Any:  # noqa: ANN401 - of the wire
        """Run a paragraph to its end.

        Zeppelin sends it again where it gets no answer, three times in all: it is run once.

        Parameters
        ----------
        session_id
            The session.
        name
            The class that runs it.
        text
            The paragraph's text, without the ``%…`` that it begins with.
        context
            Which paragraph of which note, who runs it, and its forms.
        """
        try:
            run, is_new = self._run_of(session_id, _paragraph(name, text, context))
            self._answering.run = run
            if is_new:
                run.go()
            else:
                run.join()
            _let_answers_be_first(run)
            result = _result(run, context)
        except Exception as error:  # noqa: BLE001 - an exception would make Zeppelin send it again
            traceback.print_exc()
            message = IDL.RemoteInterpreterResultMessage("TEXT", f"{type(error).__name__}: {error}")
            gui, note_gui = context.gui or "{}", context.noteGui or "{}"
            config = context.config or "{}"
            return IDL.RemoteInterpreterResult("ERROR", [message], config, gui, note_gui)
        # Not once it is sent: who runs the paragraph anew may be faster than this thread.
        run.delivered = True
        return result

    def answered(self, sent: bool) -> None:  # noqa: FBT001 - as `Listener.serve` calls it
        """Take note that the answer to this thread's call is `sent`, or could not be."""
        if told := getattr(self._answering, "told", None):
            self._told(told, time.monotonic())
        run = getattr(self._answering, "run", None)
        if run is None:
            return
        self._answering.run = None
        run.delivered = sent
        if sent:
            self._events.draw(run.paragraph.note_id, run.paragraph.id)
            if run.past:
                self._forget()

    def _tell(self, run: Run) -> None:
        """Have the end of `run` wait for the answer to this thread's call."""
        with self._lock:
            run.answers += 1
        self._answering.told = run

    def _told(self, run: Run, at: float | None = None) -> None:
        """Let the end of `run` wait no more for that answer, but for a while after it was sent."""
        self._answering.told = None
        with self._lock:
            run.answered_at = at or run.answered_at
            run.answers -= 1

    def _forget(self) -> None:
        """Drop runs that nobody asks for any more, with all that they showed."""
        with self._lock:
            self._runs = {place: run for place, run in self._runs.items() if not run.past}

    def _run_of(self, session_id: str, paragraph: Paragraph) -> tuple[Run, bool]:
        """Return the run of a paragraph, and whether it is a new one."""
        place = paragraph.note_id, paragraph.id
        with self._lock:
            run = self._runs.get(place)
            # Not one that a restart is about to end: it will say so, and run nothing.
            same = run and not run.is_left and _asks(run.paragraph) == _asks(paragraph)
            if run and same and (paragraph.is_recover or not (run.over and run.delivered)):
                run.delivered = False
                return run, False
            run = Run(paragraph, self._sessions.get(session_id), self._events)
            self._runs[place] = run
            return run, True

    @errors_as_answers
    def cancel(self, _session_id: str, _name: str, context: Any) -> None:  # noqa: ANN401
        """End the paragraph of `context`, which runs or waits for its turn."""
        if run := self._find(context):
            self._tell(run)
            run.cancel()

    @errors_as_answers
    def getProgress(self, _session_id: str, _name: str, context: Any) -> int:  # noqa: ANN401, N802
        """Return the percentage of the job of the paragraph of `context`; 0 where it has none."""
        run = self._find(context)
        return run.progress if run else 0

    @errors_as_answers
    def getStatus(self, _session_id: str, job_id: str) -> str:  # noqa: N802
        """Return how far a paragraph is; the next one is sent once this one runs.

        Zeppelin calls the paragraph's id `job_id`.
        """
        with self._lock:
            found = [run for (_, paragraph), run in self._runs.items() if paragraph == job_id]
        if not found:
            return "UNKNOWN"
        run = found[-1]
        if run.answered_at:
            return run.state.value
        self._tell(run)  # before that look: the end may come just after it
        state = run.state
        if state is not State.RUNNING:
            self._told(run)
        return state.value

    def getFormType(self, _session_id: str, _name: str) -> str:  # noqa: N802
        """Return that ``${…}`` in a paragraph is ours to read."""
        return "NATIVE"

    @errors_as_answers
    def completion(
        self, session_id: str, _name: str, text: str, cursor: int, _context: object
    ) -> list[Any]:
        """Return what the word at the cursor may become.

        Parameters
        ----------
        session_id
            The session.
        text
            What the paragraph holds.
        cursor
            How many characters of it are before the cursor.
        """
        kernel = self._sessions.get(session_id).kernel
        begins, matches = kernel.complete(text, cursor)
        typed = text[begins:cursor]
        return [IDL.InterpreterCompletion(match, match, "") for match in matches if match != typed]

    def _find(self, context: Any) -> Run | None:  # noqa: ANN401 - of the wire
        with self._lock:
            return self._runs.get((context.noteId, context.paragraphId))

    # What this interpreter has none of: shared resources, Angular objects, applications

    def resourcePoolGetAll(self) -> list[str]:  # noqa: N802
        """Return no resources."""
        return []

    def resourceGet(self, *_: object) -> bytes:  # noqa: N802
        """Return nothing."""
        return b""

    def resourceRemove(self, *_: object) -> bool:  # noqa: N802
        """Return that there was none."""
        return False

    def resourceInvokeMethod(self, *_: object) -> bytes:  # noqa: N802
        """Return nothing."""
        return b""

    def angularObjectUpdate(self, *_: object) -> None:  # noqa: N802
        """Do nothing."""

    angularObjectAdd = angularObjectRemove = angularRegistryPush = angularObjectUpdate  # noqa: N815

    def loadApplication(self, *_: object) -> Any:  # noqa: ANN401, N802
        """Refuse: there are no Helium applications here."""
        return IDL.RemoteApplicationResult(False, "there are no applications in this interpreter")

    unloadApplication = runApplication = loadApplication  # noqa: N815


def _serve_links() -> None:
    with LATE_IMPORTS:
        from submarine_zeppelin import links  # noqa: PLC0415 - 0.3 s, which Zeppelin need not wait

    links.serve()


def _let_answers_be_first(run: Run) -> None:
    """Wait until what Zeppelin was told before the end of a paragraph has reached it.

    A thread of its own asks how far the paragraph is until that runs. Where the result overtakes
    the answer, it writes RUNNING over FINISHED, and the paragraph runs for ever. Where it overtakes
    the answer to a cancel, Zeppelin takes the paragraph for a failed one.
    """
    until = time.monotonic() + _ANSWERS_WITHIN
    while run.answers and time.monotonic() < until:
        time.sleep(_LOOK)
    if run.answered_at:
        left = run.answered_at + _POLLER - time.monotonic()
        if left > 0:
            time.sleep(left)


def _asks(paragraph: Paragraph) -> tuple[object, ...]:
    """Return what makes two calls for a paragraph one and the same run."""
    return paragraph.text, dict(paragraph.properties), paragraph.user


def _paragraph(name: str, text: str, context: Any) -> Paragraph:  # noqa: ANN401 - of the wire
    local = dict(context.localProperties or {})
    recover = local.pop("isRecover", "") == "true"
    try:
        user = json.loads(context.authenticationInfo or "{}").get("user") or "anonymous"
    except (ValueError, AttributeError):
        user = "anonymous"
    return Paragraph(
        id=context.paragraphId or "",
        note_id=context.noteId or "",
        note_name=context.noteName or "",
        title=context.paragraphTitle or "",
        text=text or "",
        interpreter=name,
        user=str(user),
        gui=context.gui or "",
        properties=local,
        is_recover=recover,
    )


def _result(run: Run, context: Any) -> Any:  # noqa: ANN401 - of the wire
    code = "SUCCESS" if run.state is State.FINISHED else "ERROR"
    messages = [IDL.RemoteInterpreterResultMessage(m.type, m.data) for m in run.outputs.messages()]
    return IDL.RemoteInterpreterResult(
        code, messages, context.config or "{}", run.gui or "{}", context.noteGui or "{}"
    )
