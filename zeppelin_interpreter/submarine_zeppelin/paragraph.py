"""One run of a paragraph: from its text to all that it shows.

Which job it has begun is noted on disk, so that none is submitted twice.
"""

from __future__ import annotations

import hashlib
import re
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Protocol

from submarine_engine.errors import SubmarineError
from submarine_engine.history import default_home, make_private, read_json, write_json
from submarine_engine.job import JobState
from submarine_engine.records import open_job

from submarine_zeppelin.commands import HOME, Action, metadata, translate
from submarine_zeppelin.outputs import (
    JOB_TYPE,
    LEFT_TYPE,
    LIMIT,
    USE_TYPE,
    Outputs,
    zeppelins_words,
)
from submarine_zeppelin.properties import read_properties
from submarine_zeppelin.sessions import LATE_IMPORTS, Kernel, QueuePlace, Session, restarted
from submarine_zeppelin.wire import Events

# Which job a paragraph has begun: on disk, so that none is submitted twice.
#
# ``<home>/zeppelin/<note>/<paragraph>-<user>.json``, for its owner alone, holds the job's id and
# the hash of the code that began it, with all its options: what asks for something else is another
# job.


_PLAIN = re.compile(r"[\w-]{1,100}")


class UserParagraph(Protocol):
    """A paragraph, and who runs it."""

    @property
    def id(self) -> str:
        """Its id in the note."""

    @property
    def note_id(self) -> str:
        """The note's id."""

    @property
    def user(self) -> str:
        """Who runs it: nobody follows the job of another."""


def note_job(paragraph: UserParagraph, code: str, job_id: str) -> None:
    """Note that `paragraph` has begun the job `job_id` by `code`."""
    path = _path(paragraph)
    with suppress(OSError):
        make_private(path.parent)
        write_json(path, {"version": 1, "job": job_id, "code": _hash(code)})


def begun_job(paragraph: UserParagraph, code: str, *, over: bool = False) -> str | None:
    """Return the job that a paragraph has begun by that code; None where it is over.

    Parameters
    ----------
    over
        Whether one that is over counts as well.
    """
    noted = read_json(_path(paragraph)) or {}
    if noted.get("code") != _hash(code):
        return None
    with suppress(SubmarineError, TypeError):
        job = open_job(str(noted.get("job")))
        if over or not job.done():
            return job.id
    return None


def _path(paragraph: UserParagraph) -> Path:
    name = f"{_name(paragraph.id)}-{_hash(paragraph.user)}.json"
    return default_home() / "zeppelin" / _name(paragraph.note_id) / name


def _name(foreign: str) -> str:
    return foreign if _PLAIN.fullmatch(foreign) else _hash(foreign)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


_SETTLES = 1.0
"""Seconds: a Zeppelin that restarts an interpreter cancels its paragraphs first, and jobs go on."""

OWN_LABEL = "Log"
"""What the link to a job's log is called where the cluster has no page of its own for it."""

_BEFORE = [state.value for state in JobState if not state.final]
_LIMIT_KEY = "zeppelin.interpreter.output.limit"


class State(str, Enum):
    """How far a run is, in Zeppelin's words for the status of a job."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    FINISHED = "FINISHED"
    ERROR = "ERROR"
    ABORT = "ABORT"


@dataclass(frozen=True, slots=True, kw_only=True)
class Paragraph:
    """What Zeppelin says of a paragraph that it runs.

    Parameters
    ----------
    interpreter
        The class that runs it: ``submarine_zeppelin.Python``.
    properties
        Its local properties: those of ``%submarine.python(gpu=2)``.
    is_recover
        Whether it ran already when Zeppelin ended, and is only to be looked at again.
    """

    id: str
    note_id: str
    note_name: str = ""
    title: str = ""
    text: str = ""
    interpreter: str = "submarine"
    user: str = "anonymous"
    gui: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)
    is_recover: bool = False


class Run:
    """One run; `go` does it, `join` waits for one that somebody else does.

    Parameters
    ----------
    paragraph
        What is run.
    session
        Whose kernel runs it, in turn.
    events
        Where what it shows is sent meanwhile.
    """

    def __init__(self, paragraph: Paragraph, session: Session, events: Events) -> None:
        self.paragraph = paragraph
        self.state = State.PENDING
        self.delivered = False
        self.answered_at = 0.0
        self.answers = 0  # on their way, which are to reach Zeppelin before the end
        self.progress = 0
        self.gui = paragraph.gui
        self._session = session
        self._events = events
        self._shown = events.shown(paragraph.note_id, paragraph.id)
        limit = session.properties.get(_LIMIT_KEY, "")
        self._limit = int(limit) if limit.isdecimal() else LIMIT
        self.outputs = Outputs(self._shown, self._limit)
        self._over = threading.Event()
        self._ending = threading.Lock()
        self._cancelled = False
        self._cancelled_at = 0.0
        self._leaves = False
        self._sent = False
        self._begun = False
        self._kernel: Kernel | None = None
        self._place: QueuePlace | None = None
        self._order: list[str] = []
        self._code = ""
        self._job_id = ""
        self._left: Mapping[str, Any] = {}
        self._followed = ""
        self._link: tuple[str, str, str] | None = None
        self._waits = ""

    @property
    def over(self) -> bool:
        """Whether it has come to its end."""
        return self._over.is_set()

    @property
    def is_left(self) -> bool:
        """Whether its session is closed: it ends soon, if it has not ended."""
        return self._session.closed

    @property
    def past(self) -> bool:
        """Whether nobody asks for it any more: Zeppelin has its end, and its session is closed."""
        return self.over and self.delivered and self.is_left

    def go(self) -> None:
        """Run the paragraph, in its turn; whatever goes wrong is one of its outputs."""
        try:
            self.state = self._run()
        except SubmarineError as error:
            self._fail(zeppelins_words(str(error)))
        except Exception as error:  # noqa: BLE001 - Zeppelin would send the paragraph again
            self._fail(f"{type(error).__name__}: {error}")
        finally:
            if self._cancelled:
                self.state = State.ABORT
            self._events.over(self._shown)
            self._over.set()

    def join(self) -> None:
        """Wait for the end."""
        self._over.wait()

    def cancel(self) -> None:
        """End it: a job is cancelled, and its GPUs fall free; asked again, it is not waited for."""
        with self._ending:
            self._leaves = self._cancelled
            if not self._cancelled:
                self._cancelled, self._cancelled_at = True, time.monotonic()
            self._end()

    def _end(self) -> None:
        if self._followed:
            return  # whoever follows it looks
        if self._begun and self._kernel is not None:
            self._kernel.interrupt()
        elif self._place is not None:
            self._session.queue.leave(self._place)

    def _begin(self) -> None:
        """Take note that the kernel runs the code, and end what was cancelled until now.

        A kernel that is idle drops an interrupt, and one that makes a cell ready may: so none is
        sent when the kernel takes the code, but at the first sign of life, or look, after that.
        """
        with self._ending:
            self._begun = True
            if self._cancelled:
                self._end()

    def _run(self) -> State:
        paragraph, session = self.paragraph, self._session
        action = self._action()
        self.gui = action.gui or paragraph.gui
        self.outputs = Outputs(self._shown, self._limit, prefixes=action.prefixes)
        for line in action.say:
            self.outputs.say(line)
        if not action.code.strip() and not action.job:
            return State.FINISHED
        if action.beside:
            self.state = State.RUNNING
            self._order = self._listed()
            with session.helpers.kernel() as kernel:
                return self._execute(kernel, action)
        at_once = read_properties(session.properties).at_once if action.is_job else 1
        place = QueuePlace(paragraph.note_id, waits=action.waits, at_once=at_once)
        with session.queue.standing(place):
            # Zeppelin sends the session's next paragraph only once this one runs: nobody is to
            # wait there for what waits here.
            self.state = State.RUNNING
            self._order = self._listed()
            place.label = self._label()
            with self._ending:
                self._place = place
                if self._cancelled:
                    self._end()
            return self._stand(place, action)

    def _stand(self, place: QueuePlace, action: Action) -> State:
        """Do what is to be done in the queue; a job is followed without the kernel."""
        session, state = self._session, State.FINISHED
        if not action.job:
            with session.queue.turn(place, self._tell) as has:
                if not has:
                    return State.ABORT
                session.start_kernel()
                state = self._execute(session.kernel, action)
        job_id = action.job or str(self._left.get("job_id") or "")
        return self._follow(place, job_id) if job_id else state

    def _listed(self) -> list[str]:
        """Return the ids of the note's paragraphs, as far as Zeppelin tells."""
        listed = self._events.paragraphs(self.paragraph.user, self.paragraph.note_id)
        return [one["id"] for one in listed]

    def _label(self) -> str:
        if self.paragraph.title.strip():
            return f"paragraph {' '.join(self.paragraph.title.split())[:60]}"
        if self.paragraph.id in self._order:
            return f"paragraph {self._order.index(self.paragraph.id) + 1}"
        return "a paragraph of this note"

    def _tell(self, words: str) -> None:
        """Say what it waits for; "" takes that away."""
        if words and self._waits:
            self.outputs.update({"text/plain": words}, self._waits)
        elif words:
            self._waits = f"waits-{self.paragraph.id}"
            self.outputs.display({"text/plain": words}, self._waits)
        elif self._waits:
            self.outputs.update({}, self._waits)
            self._waits = ""

    def _execute(self, kernel: Kernel, action: Action) -> State:
        """Let a kernel execute what the paragraph means."""
        told = metadata(action, self.paragraph, self._order, self._session.cluster)
        with self._ending:
            if self._cancelled:
                return State.ABORT
            self._kernel = kernel
        try:
            reply = kernel.run(action.code, told, self._take)
        finally:
            with self._ending:  # from now on an interrupt would hit the next paragraph
                self._begun = self._sent = False
                self._kernel = None
        if reply.get("status") == "ok":
            return State.FINISHED
        if action.defaults and not self._job_id:
            # What was refused may be none of the paragraph's own words.
            properties = ", ".join(action.defaults)
            self.outputs.say(f"from the interpreter's setting: {properties}")
        return State.ERROR

    def _follow(self, place: QueuePlace, job_id: str) -> State:
        """Follow a job to its end, and have the kernel bring home what it leaves behind."""
        with LATE_IMPORTS:  # 0.3 s, of which a paragraph of Python need not know
            from submarine_zeppelin.following import Follower, LeftError  # noqa: PLC0415

        place.job_id = job_id
        with self._ending:
            self._followed, place.left = job_id, False

        job, asked = open_job(job_id), False

        def cancel_if_asked() -> None:
            nonlocal asked
            if self._session.closed or (self._leaves and asked):
                raise LeftError
            settled = self._cancelled and time.monotonic() > self._cancelled_at + _SETTLES
            if settled and not asked:
                asked = True
                with suppress(SubmarineError):
                    job.cancel("the paragraph was cancelled")

        origin = str(self._left.get("origin") or "")
        which = str(self._left.get("logs") or "")
        follower = Follower(job, self._take, cancel_if_asked, origin, which)
        try:
            follower.run()
        except LeftError:
            if self._session.closed:
                raise restarted(": its variables are gone, jobs go on") from None
            return State.ABORT
        with self._ending:
            self._followed = ""
        with self._session.queue.turn(place, self._tell) as has:
            if not has:
                return State.ABORT
            self._session.start_kernel()
            state = self._bring_home(job_id)
        follower.show_last()
        return state

    def _bring_home(self, job_id: str) -> State:
        shown = "" if self._left.get("shown", True) else " --quiet"
        told = metadata(Action(""), self.paragraph, self._order)
        del told["cellId"]  # it is no cell of the note, and changes none of its parts
        reply = self._session.kernel.run(f"{HOME} {job_id}{shown}", told, self._take)
        return State.FINISHED if reply.get("status") == "ok" else State.ERROR

    def _action(self) -> Action:
        """Return what to do: to follow the job that it has begun before, if that still runs."""
        paragraph = self.paragraph
        action = translate(paragraph, self._session.properties, paragraph.gui)
        over = paragraph.is_recover
        self._code = action.code
        job_id = begun_job(paragraph, action.code, over=over)
        if (action.is_job or over) and job_id:
            say = f"it has begun job {job_id} already, which is followed on here"
            return Action("", is_job=True, say=(say,), gui=action.gui, job=job_id)
        if over:
            say = "it ran when the interpreter ended: nobody knows how far it came; run it again"
            return Action("", say=(say,), gui=action.gui)
        return action

    def _take(self, kind: str, content: Mapping[str, Any]) -> None:
        if self._sent and not self._begun:
            self._begin()
        self._sent = self._sent or kind == "execute_input"
        display_id = (content.get("transient") or {}).get("display_id")
        if kind in ("display_data", "execute_result", "update_display_data"):
            self._look_for_job(content["data"])
        if kind == "stream":
            self.outputs.stream(content["name"], content["text"])
        elif kind in ("display_data", "execute_result"):
            self.outputs.display(content["data"], display_id)
        elif kind == "update_display_data" and display_id:
            self.outputs.update(content["data"], display_id)
        elif kind == "clear_output":
            self.outputs.clear(bool(content.get("wait")))
        elif kind == "error":
            self.outputs.error(content["ename"], content["evalue"], content["traceback"])
        self.outputs.tick()

    def _look_for_job(self, bundle: Mapping[str, Any]) -> None:
        left, use = bundle.get(LEFT_TYPE), bundle.get(USE_TYPE)
        if isinstance(use, Mapping):
            self._session.cluster = str(use.get("cluster") or "") or None
        if isinstance(left, Mapping):
            self._left = left
            self._note(str(left.get("job_id") or ""))
        told = bundle.get(JOB_TYPE)
        if not isinstance(told, Mapping):
            return
        job_id = str(told.get("job_id") or "")
        self._note(job_id)
        progress = told.get("progress")
        if isinstance(progress, (int, float)):
            self.progress = max(0, min(100, int(progress * 100)))
        link, label = str(told.get("log_url") or ""), str(told.get("log_label") or OWN_LABEL)
        # The cluster's own page comes first, where it has any, and it may come later than ours.
        ours = link.endswith(f"/jobs/{job_id}/")
        early = ours and label != OWN_LABEL and told.get("state") in _BEFORE
        if not self._link and not early and link.startswith(("http://", "https://")):
            # Zeppelin makes a menu of "Jobs #0, #1" of a second one: the card has what is newest.
            tooltip = f"the log of job {job_id}"
            self._link = (label, tooltip, link)
            self.link_again()

    def link_again(self) -> None:
        """Put the job's link on the paragraph, for a Zeppelin that does not know it."""
        if self._link:
            self._events.link(self._shown, *self._link)

    def _note(self, job_id: str) -> None:
        if job_id and job_id != self._job_id:
            self._job_id = job_id
            note_job(self.paragraph, self._code, job_id)

    def _fail(self, text: str) -> None:
        self.state = State.ERROR
        self.outputs.say(text)
