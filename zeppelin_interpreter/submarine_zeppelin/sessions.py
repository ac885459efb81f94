"""Sessions: each has a kernel, and a queue of the paragraphs that need it."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty
from typing import TYPE_CHECKING, Any

from submarine_engine.clusters.machine import process_stat
from submarine_engine.errors import ClusterError, SubmarineError

from submarine_zeppelin.properties import read_properties

if TYPE_CHECKING:
    from jupyter_client.blocking.client import BlockingKernelClient


# The kernel of one session: an IPython process in which paragraphs run.


EXTENSION = "submarine_zeppelin.kernelside"
LATE_IMPORTS = threading.Lock()
"""Held by a thread that imports what needs IPython, whose modules import one another.

Where two do at once, Python gives one of them the half of a module, sooner than let both wait.
"""

_START = 60.0  # seconds until a kernel answers: on a busy machine its imports take long
_LOOK = 0.1  # seconds between two looks whether it lives, and whether the paragraph was cancelled
_COMPLETION = 2.0  # seconds: who has pressed a key types on without proposals after that
_REPLY = 10.0  # seconds: an interrupt may have cut off the reply, or the word that it is idle
_PREFIX = "submarine-kernel-"
_PROGRAM = """import sys
sys.path.remove("")  # nothing that lies in the working directory hides what a kernel needs
from submarine_kernel.kernel import KernelApp
KernelApp.launch_instance()
"""

Take = Callable[[str, Mapping[str, Any]], None]
"""Takes the type and the content of each message that an execution sends; "" for a mere look."""


class KernelDiedError(ClusterError):
    """The kernel's process is gone; its variables are, too. Jobs go on."""


class Kernel:
    """One kernel; starts with the first use, and anew after its end."""

    def __init__(self) -> None:
        self._manager: Any = None
        self._folder = ""
        self._client: BlockingKernelClient | None = None
        self._starting = threading.Lock()
        self._asking = threading.Lock()

    @property
    def lives(self) -> bool:
        """Whether its process is there."""
        return self._manager is not None and bool(self._manager.is_alive())

    def start(self) -> None:
        """Start it where it does not run.

        Raises
        ------
        ClusterError
            It does not start, or its part of this package does not load.
        """
        with self._starting:
            if self.lives:
                return
            self.close()
            with LATE_IMPORTS:
                import IPython.paths  # noqa: F401, PLC0415 - which the manager's search would import
                from jupyter_client.manager import KernelManager  # noqa: PLC0415 - takes 0.2 s

            # By sockets in a folder of its owner alone: nothing of it listens on a port. Their path
            # is that of the connection's file, and has to be absolute: the kernel runs elsewhere.
            clear_left()
            self._folder = tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-")
            file = str(Path(self._folder, "kernel.json"))
            self._manager = KernelManager(transport="ipc", connection_file=file)
            self._manager.kernel_spec.argv = [
                sys.executable, "-c", _PROGRAM, "-f", "{connection_file}",
            ]  # fmt: skip
            self._manager.start_kernel(env=_environment(), cwd=str(Path.home()))
            client = self._manager.client()
            client.context.rcvhwm = 0  # else ZMQ drops what comes faster than it is read
            client.start_channels()
            try:
                client.wait_for_ready(timeout=_START)
            except RuntimeError as error:
                self.close()
                raise ClusterError(f"the kernel does not start: {error}") from error
            self._client = client
            # Before the lock is let go of: a paragraph that waits for it needs the magics.
            try:
                self._load()
            except SubmarineError:
                self.close()  # the next one begins anew, and is told the same
                raise

    def _load(self) -> None:
        failed: list[str] = []

        def take(kind: str, content: Mapping[str, Any]) -> None:
            if kind == "error":
                failed.append(f"{content.get('ename')}: {content.get('evalue')}")

        self.run(f"%load_ext {EXTENSION}", {}, take, kept=False)
        if failed:
            raise ClusterError(f"the kernel cannot load {EXTENSION}: {failed[0]}")

    def run(
        self, code: str, metadata: Mapping[str, Any], take: Take, *, kept: bool = True
    ) -> Mapping[str, Any]:
        """Execute `code`; return the reply once the kernel is idle again.

        Parameters
        ----------
        metadata
            Of the request, see `commands.metadata`.
        take
            Takes what the kernel sends meanwhile, by its kind; "" now and then where nothing comes.
        kept
            Whether it is one of the notebook's cells.

        Raises
        ------
        KernelDiedError
            The kernel's process ended meanwhile, or was ended.
        """
        client = self._client
        if client is None:  # closed since it was started
            raise self._died(client)
        content = {
            "code": code, "silent": not kept, "store_history": kept, "user_expressions": {},
            "allow_stdin": False, "stop_on_error": False,
        }  # fmt: skip
        message = client.session.msg("execute_request", content)
        message["metadata"] = dict(metadata)
        with self._asking:
            if self._client is not client:  # closed meanwhile
                raise self._died(client)
            client.shell_channel.send(message)
            sent = message["header"]["msg_id"]
            return self._collect(client, sent, take) or self._reply(client, sent, _REPLY)

    def _collect(
        self, client: BlockingKernelClient, sent: str, take: Take
    ) -> Mapping[str, Any] | None:
        """Take all until the kernel is idle; return the reply where that has come instead."""
        replied: Mapping[str, Any] | None = None
        quiet_since, dead = time.monotonic(), False
        while True:
            try:
                message = client.get_iopub_msg(timeout=_LOOK)
                quiet_since = time.monotonic()
            except Empty:
                if dead:
                    raise self._died(client) from None
                if not self.lives:  # its last words may have come since that look
                    dead = True
                    continue
                take("", {})
                if replied is None:  # the reply may overtake the last of what the code showed
                    replied, quiet_since = self._replied(client, sent, 0), time.monotonic()
                elif time.monotonic() > quiet_since + _REPLY:
                    return replied  # what should have come with it does not
                continue
            if self._client is not client:
                raise self._died(client)
            if message["parent_header"].get("msg_id") != sent:
                continue
            kind, content = message["msg_type"], message["content"]
            if kind == "status" and content["execution_state"] == "idle":
                return replied
            take(kind, content)

    def _replied(
        self, client: BlockingKernelClient, sent: str, patience: float
    ) -> Mapping[str, Any] | None:
        with suppress(Empty):
            reply = client.get_shell_msg(timeout=patience)
            if reply["parent_header"].get("msg_id") == sent:
                found: Mapping[str, Any] = reply["content"]
                return found
        return None

    def _reply(self, client: BlockingKernelClient, sent: str, patience: float) -> Mapping[str, Any]:
        # A kernel replies before it is idle; one that was interrupted in between never will.
        until = time.monotonic() + patience
        while self.lives and time.monotonic() < until:
            if found := self._replied(client, sent, _LOOK):
                return found
        if self.lives:
            return {"status": "aborted"}
        if found := self._replied(client, sent, 0):  # of `exit()`, say
            return found
        raise self._died(client)

    def _died(self, client: BlockingKernelClient | None) -> KernelDiedError:
        what = "the kernel ended" if self._client is client else "the interpreter was restarted"
        return KernelDiedError(
            f"{what}: its variables are gone, jobs go on",
            fix="run the paragraphs again that define what is needed",
        )

    def complete(self, code: str, cursor: int) -> tuple[int, list[str]]:
        """Return where the word at the cursor begins, and what it may become.

        Nothing while something runs: a key was pressed, nobody waits for long.

        Parameters
        ----------
        code
            What the paragraph holds.
        cursor
            How many characters of it are before the cursor.
        """
        if not self._asking.acquire(blocking=False):
            return cursor, []
        try:
            client = self._client
            if client is None:
                return cursor, []
            sent = client.complete(code, cursor)
            until = time.monotonic() + _COMPLETION
            with suppress(Empty):
                while time.monotonic() < until:
                    reply = client.get_shell_msg(timeout=_COMPLETION)
                    if reply["parent_header"].get("msg_id") == sent:
                        content = reply["content"]
                        return int(content["cursor_start"]), list(content["matches"])
        finally:
            self._asking.release()
        return cursor, []

    def interrupt(self) -> None:
        """Interrupt what runs, as Jupyter's button does."""
        if self.lives:
            self._manager.interrupt_kernel()

    def close(self) -> None:
        """End its process; jobs go on."""
        client, self._client = self._client, None
        if self._manager is not None:
            with suppress(Exception):
                self._manager.shutdown_kernel(now=True)
        if client is not None:
            with self._asking:  # no socket is closed under a thread that waits for it
                client.stop_channels()
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)


def _environment() -> dict[str, str]:
    """Return the kernel's environment: commands of its paragraphs are those of its Python."""
    own, path = str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)
    if own not in path.split(os.pathsep)[:1]:
        path = f"{own}{os.pathsep}{path}"
    return {**os.environ, "PATH": path}


def clear_left() -> None:
    """Remove the folders of interpreters of this user that were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*-*"):
        owner = folder.name.removeprefix(_PREFIX).partition("-")[0]
        with suppress(OSError):
            mine = folder.lstat().st_uid == os.getuid() and not folder.is_symlink()
            if mine and owner.isdecimal() and process_stat(int(owner)) is None:
                shutil.rmtree(folder)


def restarted(when: str) -> ClusterError:
    """Return what a paragraph says whose session was closed under it; `when` ends the sentence."""
    return ClusterError(f"the interpreter was restarted {when}", fix="run the paragraph again")


# Whose turn it is to use a session's kernel.


_TOLD_AFTER = 1.0
"""Seconds that a paragraph waits before it says what it waits for."""


class QueuePlace:
    """A paragraph's place in the queue of its session.

    Parameters
    ----------
    note
        The note's id: paragraphs of one note keep their order.
    label
        How the paragraph is called: ``paragraph 3``.
    waits
        Whether it waits for what of its note came before it.
    at_once
        How many jobs of its note may run at a time with its own; 1 where it is none.
    """

    def __init__(
        self, note: str, label: str = "a paragraph", *, waits: bool = True, at_once: int = 1
    ) -> None:
        self.note = note
        self.label = label
        self.waits = waits
        self.at_once = at_once
        self.job_id = ""
        """The job that it follows meanwhile, without the kernel."""
        self.wants = False
        self.left = False


class ParagraphQueue:
    """The paragraphs of a session: one at a time has the kernel, first come, first served.

    A paragraph whose job runs has given the kernel back until the job is over. Meanwhile it lets
    the paragraphs of other notes pass, and those of its own that do not wait.
    """

    def __init__(self) -> None:
        self._places: list[QueuePlace] = []
        self._holder: QueuePlace | None = None
        self._closed = False
        self._moved = threading.Condition()

    @contextmanager
    def standing(self, place: QueuePlace) -> Iterator[None]:
        """Have `place` in the queue, at its end, for the time of a ``with``."""
        with self._moved:
            self._places.append(place)
        try:
            yield
        finally:
            with self._moved:
                self._places.remove(place)
                self._moved.notify_all()

    @contextmanager
    def turn(self, place: QueuePlace, tell: Callable[[str], None]) -> Iterator[bool]:
        """Wait for the kernel, and have it; False where the paragraph has left the queue.

        Parameters
        ----------
        place
            That of the paragraph, which stands in the queue.
        tell
            Told what it waits for, in words, and "" once it no longer waits.

        Raises
        ------
        ClusterError
            The session was closed meanwhile: a kernel for it would have nobody to end it.
        """
        has = self._take(place, tell)
        try:
            yield has
        finally:
            with self._moved:
                if self._holder is place:
                    self._holder = None
                self._moved.notify_all()

    def leave(self, place: QueuePlace) -> None:
        """Let the paragraph of `place` wait no longer."""
        with self._moved:
            place.left = True
            self._moved.notify_all()

    def close(self) -> None:
        """Let nobody wait any longer."""
        with self._moved:
            self._closed = True
            self._moved.notify_all()

    def _take(self, place: QueuePlace, tell: Callable[[str], None]) -> bool:
        told = ""
        with self._moved:
            place.wants = True
            try:
                while not self._moved.wait_for(lambda: self._may(place), _TOLD_AFTER):
                    if (words := self._words(place)) != told:
                        told = words
                        tell(words)
            finally:
                place.wants = False
            if not self._closed and not place.left:
                self._holder = place
        if told:
            tell("")
        if self._closed:
            raise restarted("before the paragraph could run")
        return not place.left

    def _may(self, place: QueuePlace) -> bool:
        if self._closed or place.left:
            return True
        if self._holder is not None:
            return False
        for one in self._places:
            if one.wants and self._ahead(one) is None:
                return one is place
        return False

    def _ahead(self, place: QueuePlace) -> QueuePlace | None:
        """Return the paragraph of its own note that one has to wait for."""
        if not place.waits:
            return None
        before = [
            one for one in self._places[: self._places.index(place)] if one.note == place.note
        ]
        jobs = [one for one in before if one.job_id]
        if len(jobs) < place.at_once:
            before = [one for one in before if not one.job_id]
        return before[0] if before else None

    def _words(self, place: QueuePlace) -> str:
        ahead = self._ahead(place)
        if ahead is not None and ahead.job_id:
            return (
                f"waits for {ahead.label}: what its job {ahead.job_id} leaves behind comes home "
                "first. (wait=false among the paragraph's properties lets it run at once)"
            )
        if ahead is not None:
            return f"waits for {ahead.label}"
        holder = self._holder
        if holder is None or holder.note != place.note:
            return "waits: a paragraph of another note runs in the same Python"
        return f"waits for {holder.label}"


class Session:
    """What Zeppelin calls a session: shared by all notes, or of one note or user.

    Parameters
    ----------
    properties
        Those of the interpreter's setting.
    helpers
        Kernels for what needs none of the session's variables.

    Attributes
    ----------
    cluster
        The one that jobs of its kernel go to, where somebody has chosen one there.
    """

    def __init__(self, properties: Mapping[str, str], helpers: Helpers) -> None:
        self.properties = dict(properties)
        self.helpers = helpers
        self.kernel = Kernel()
        self.queue = ParagraphQueue()
        self.cluster: str | None = None
        self.closed = False
        threading.Thread(target=self._start_ahead, name="kernel", daemon=True).start()

    def start_kernel(self) -> None:
        """Start the kernel where it does not run.

        Raises
        ------
        ClusterError
            It does not start, or the session was closed.
        """
        try:
            self.kernel.start()
        except (SubmarineError, OSError, RuntimeError):
            if not self.closed:
                raise
        if self.closed:  # while it was started, which may have failed of that
            self.kernel.close()
            raise restarted("before the paragraph could run") from None

    def close(self) -> None:
        """End the kernel."""
        self.closed = True
        self.queue.close()
        self.kernel.close()

    def _start_ahead(self) -> None:
        with suppress(SubmarineError, OSError):  # the first paragraph tells what is wrong
            self.start_kernel()


class Helpers:
    """Kernels for commands: they hold up no paragraph, and no paragraph holds them up.

    One is kept; where more are asked for at a time, there are more as long as that lasts.
    """

    def __init__(self) -> None:
        self._idle: list[Kernel] = []
        self._lock = threading.Lock()
        self._closed = False

    @contextmanager
    def kernel(self) -> Iterator[Kernel]:
        """Have a kernel, which runs; raises as `Kernel.start` does."""
        with self._lock:
            kernel = self._idle.pop() if self._idle else Kernel()
        kept = False
        try:
            kernel.start()
            yield kernel
        finally:
            with self._lock:
                if not self._idle and not self._closed and kernel.lives:
                    self._idle.append(kernel)
                    kept = True
            if not kept:
                kernel.close()

    def close(self) -> None:
        """End those that nobody has; the others end as they are given back."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for kernel in idle:
            kernel.close()


class Sessions:
    """The sessions of this process, by Zeppelin's ids."""

    def __init__(self) -> None:
        self._sessions: dict[str, Session] = {}
        self._properties: dict[str, Mapping[str, str]] = {}
        self._helpers = Helpers()
        self._lock = threading.Lock()

    def create(self, session_id: str, properties: Mapping[str, str]) -> None:
        """Take the properties of a session, and begin to start its kernel.

        What they say of the environment holds for all of this process: a setting has one.

        Parameters
        ----------
        session_id
            The session.
        properties
            Those of the interpreter's setting, and the limit of outputs.
        """
        os.environ.update(read_properties(properties).environment)
        with self._lock:
            self._properties[session_id] = properties
        self.get(session_id)

    def get(self, session_id: str) -> Session:
        """Return the session `session_id`; begin it where it is not there."""
        with self._lock:
            if session_id not in self._sessions:
                self._sessions[session_id] = Session(
                    self._properties.get(session_id, {}), self._helpers
                )
            return self._sessions[session_id]

    def close(self, session_id: str) -> None:
        """End the session `session_id`; another of the same id begins anew."""
        with self._lock:
            session = self._sessions.pop(session_id, None)
        if session is not None:
            session.close()

    def close_all(self) -> None:
        """End all of them."""
        for session_id in list(self._sessions):
            self.close(session_id)
        self._helpers.close()
