"""What the kernel of a Zeppelin session has beside Submarine's magics: an IPython extension."""

from __future__ import annotations

import codecs
import os
import selectors
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any

from IPython.core.formatters import BaseFormatter
from IPython.core.interactiveshell import InteractiveShell
from IPython.display import display
from submarine_engine.bundle import Part, PartBook
from submarine_engine.errors import BundleError, SubmarineError
from submarine_engine.future import Job
from submarine_engine.interrupts import Interrupts, noted
from submarine_engine.records import JobSummary, list_jobs, open_job, record_of
from submarine_engine.tables import add_frames, table
from submarine_magics import frontend
from submarine_magics.homecoming import bring_home
from submarine_magics.show import Listing, answer, say
from submarine_magics.verbs import job_table, run_line
from submarine_magics.workbench import Workbench, bench_of
from traitlets import ObjectName, Unicode

from submarine_zeppelin.links import lead_elsewhere
from submarine_zeppelin.outputs import LEFT_TYPE, LOG_TYPE, TABLE_TYPE, USE_TYPE

if TYPE_CHECKING:
    from submarine_engine.sweeps.found import Found

# ``%submarine.sh``: shell commands in the kernel's process, and how they ended in a line.


_PIECE = 1 << 16
"""Bytes read at once: IPython's own ``%%sh`` takes a hundred, and ten times as long."""

_SETTLES = 0.5  # seconds that an interrupted shell has before the next, harder signal


class ShellError(SubmarineError):
    """A paragraph's shell commands failed; what they wrote is above it."""


def register_shell(shell: InteractiveShell) -> None:
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
        raise ShellError(_how_it_ended(process.returncode))


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


def _how_it_ended(status: int) -> str:
    """Return how a shell ended; a negative status is the number of the signal that ended it."""
    if status >= 0:
        return f"the shell ended with exit status {status}"
    try:
        return f"the shell was ended by {signal.Signals(-status).name}"
    except ValueError:
        return f"the shell was ended by signal {-status}"


# Tables in a kernel: pandas frames and our own listings, as data for Zeppelin's ``TABLE``.


class TableFormatter(BaseFormatter):
    """Gives a table's data: ``columns``, ``rows`` and how many rows there are in ``total``."""

    format_type = Unicode(TABLE_TYPE)
    print_method = ObjectName("_repr_submarine_table_")
    _return_type = dict


def register_tables(shell: InteractiveShell) -> None:
    """Let the shell show frames and listings as tables, beside their other forms."""
    display_formatter: Any = shell.display_formatter
    formatter: Any = TableFormatter(parent=display_formatter)
    add_frames(formatter)
    formatter.for_type(Listing, listing_table)
    # By its name: a session that runs no sweep does not load them.
    formatter.for_type_by_name("submarine_engine.sweeps.found", "Found", sweep_table)
    display_formatter.formatters[TABLE_TYPE] = formatter


def listing_table(listing: Listing[Any]) -> dict[str, Any] | None:
    """Return a listing as a table; None for an empty one, whose headings alone are better text."""
    if not listing.rows:
        return None
    return {**table(listing.head, listing.rows), "below": "\n".join(listing.below)}


def sweep_table(found: Found) -> dict[str, Any] | None:
    """Return the trials `found` as a table, which the page can sort; None where there are none."""
    heads, rows = found.table()
    return {**table(heads, rows), "below": repr(found)} if rows else None


# What the kernel of a Zeppelin session has beside Submarine's magics: an IPython extension.
#
# Each ``execute_request`` says in its metadata whose paragraph it is (`commands.metadata`).


_NOBODY = ("", "anonymous")
_LONGEST = 60
_NEWEST = 200


class NoteParts(PartBook):
    """The parts of a note: what its executed paragraphs gave.

    Attributes
    ----------
    broken
        Paragraphs whose last text is no Python, by id: what they are called.
    """

    def __init__(self) -> None:
        super().__init__()
        self.broken: dict[str, str] = {}

    def parts(self, order: Sequence[str] = ()) -> list[Part]:
        """Return the parts.

        Raises
        ------
        BundleError
            A paragraph that belongs to them does not parse: the script would lack it.
        """
        if self.broken:
            raise BundleError(
                f"{', '.join(self.broken.values())}: no Python, and the script would lack it",
                fix="correct it and run it again, or delete it",
            )
        return super().parts(order)


class Note:
    """What the kernel knows of the note that it serves.

    Parameters
    ----------
    bench
        That of the kernel's shell; its parts become those of the note.
    """

    def __init__(self, bench: Workbench) -> None:
        self._bench = bench
        self._parts = NoteParts()
        bench.parts = self._parts
        self._user = os.environ.get("SUBMARINE_USER")
        self._cluster = bench.cluster_in_use

    def before(self, info: Any) -> None:  # noqa: ANN401 - IPython's ExecutionInfo
        """Take what the request says of its paragraph, before that is executed.

        Parameters
        ----------
        info
            What IPython says of what it will execute.
        """
        parent = self._bench.shell.kernel.get_parent()  # type: ignore[attr-defined] # a kernel's
        told = parent.get("metadata", {}).get("submarine")
        cell_id = getattr(info, "cell_id", None)
        if not isinstance(told, Mapping) or info.raw_cell != parent["content"]["code"]:
            return
        self._take_user(told.get("user"))
        if "cluster" in told:
            self._bench.cluster_in_use = self._cluster = told["cluster"] or None
        frontend.current.leave = _leave if told.get("leaves") is True else None
        frontend.current.title = _line(told.get("note"))
        frontend.current.notebook = f"{frontend.current.title} ({_line(told.get('id'))})".strip()
        if cell_id:
            self._take_order(told.get("order"))
            self._name(cell_id, _line(told.get("heading")))
            self._take_part(cell_id, info.raw_cell, told)

    def after(self, result: Any) -> None:  # noqa: ANN401 - IPython's ExecutionResult
        """Tell what has changed; help where a paragraph imports a part, a file only in the job.

        Parameters
        ----------
        result
            What IPython says of how it ended.
        """
        frontend.current.leave = None
        if self._cluster != self._bench.cluster_in_use:
            self._cluster = self._bench.cluster_in_use
            display({USE_TYPE: {"cluster": self._cluster}}, raw=True)
        error = getattr(result, "error_in_exec", None)
        name = getattr(error, "name", None)
        if isinstance(error, ModuleNotFoundError) and name:
            path = name.replace(".", "/") + ".py"
            if self._parts.has(path):
                say(
                    f"{path} is a file of the job, not of this process. A paragraph that imports "
                    "it is begun with %submarine.python(execute=false), which gives it to the job "
                    "alone"
                )

    def lines(self, _: str, cell: str) -> None:
        """Do the commands in `cell`, one a line, and show what each returns."""
        for line in filter(None, map(str.strip, cell.split("\n"))):
            group, _, word = line.partition(" ")
            value = self._own(word) if group == "note" else run_line(self._bench, line)
            if value is not None:
                display(value)

    def home(self, line: str) -> object:
        """Bring home the job in `line`, which its paragraph has followed; return its value.

        Where ``--quiet`` stands behind its id, the value is None: it is not to be shown.
        """
        job_id, _, quiet = line.strip().partition(" ")
        value = bring_home(self._bench, open_job(job_id))
        return None if quiet else value

    def _take_user(self, user: object) -> None:
        """Submit and see jobs as that user from now on; without a log-in, as the setting says."""
        if not isinstance(user, str) or user in _NOBODY:
            user = self._user
        if user is None:
            os.environ.pop("SUBMARINE_USER", None)
        else:
            os.environ["SUBMARINE_USER"] = user

    def _take_order(self, order: object) -> None:
        if isinstance(order, list) and order:
            frontend.current.order = tuple(map(str, order))
            self._parts.keep(frontend.current.order)
            for gone in set(self._parts.broken) - set(frontend.current.order):
                del self._parts.broken[gone]

    def _name(self, cell_id: str, heading: str) -> None:
        order = frontend.current.order
        name = heading or (str(order.index(cell_id) + 1) if cell_id in order else "")
        frontend.current.names[cell_id] = f"paragraph {name}" if name else ""

    def _take_part(self, cell_id: str, raw: str, told: Mapping[str, object]) -> None:
        self._parts.broken.pop(cell_id, None)
        if not told.get("part"):
            if not raw.startswith("%%submarine.python"):  # that one says itself what it gives
                self._parts.remove(cell_id)
            return
        title = told.get("title")
        try:
            cell = self._bench.this_cell(raw)
            self._parts.add(title if isinstance(title, str) else None, cell)
        except SubmarineError:
            self._parts.remove(cell_id)
            name = frontend.current.name_of(cell_id) or "a paragraph"
            self._parts.broken[cell_id] = name

    def _own(self, word: str) -> object:
        if word == "dashboard":
            display(job_table(_jobs_of(frontend.current.notebook)))
            display(run_line(self._bench, "gpus"))
            answer("`%submarine help` lists all commands")
        elif word == "clean":
            self._parts.clear()
            self._parts.broken.clear()
        elif word == "stop":
            _stop(frontend.current.notebook)
        return None


def heed_interrupts(shell: InteractiveShell) -> None:
    """Let an interrupt that comes just before a cell's code be that of the cell.

    IPython says of it that a callback has failed, and runs the cell all the same; whoever cancels a
    paragraph in Zeppelin presses no second time.

    Parameters
    ----------
    shell
        The kernel's.
    """
    events: Any = shell.events
    trigger = events.trigger

    def heeding(event: str, *arguments: Any, **more: Any) -> None:  # noqa: ANN401 - passed on
        if not event.startswith("pre_"):
            trigger(event, *arguments, **more)
            return
        with noted(Interrupts()) as interrupts:
            trigger(event, *arguments, **more)
        if interrupts.pending:
            raise KeyboardInterrupt

    events.trigger = heeding


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Make the shell that of a Zeppelin session; loads Submarine's magics, too."""
    heed_interrupts(shell)
    frontend.current.widgets = False
    frontend.current.log_type = LOG_TYPE
    frontend.current.tables = True
    frontend.current.white = True
    frontend.current.colours = False
    lead_elsewhere()
    assert shell.extension_manager is not None  # noqa: S101 - for the type checker
    shell.extension_manager.load_extension("submarine_magics")
    note = Note(bench_of(shell))
    shell.events.register("pre_run_cell", note.before)
    shell.events.register("post_run_cell", note.after)
    register: Any = shell.register_magic_function  # its type is that of the manager's own method
    register(note.lines, "cell", "submarine.lines")
    register(note.home, "line", "submarine.home")
    register_shell(shell)
    register_tables(shell)


def _leave(job: Job, *, shown: bool, origin: str, which: str) -> None:
    """Give a job to the paragraph, which follows it without the kernel."""
    told = {"job_id": job.id, "shown": shown, "origin": origin, "logs": which}
    display({LEFT_TYPE: told}, raw=True)


def _line(text: object) -> str:
    """Return text from outside as one short line."""
    shown = "".join(letter if letter.isprintable() else " " for letter in str(text or ""))
    return " ".join(shown.split())[:_LONGEST]


def _stop(notebook: str) -> None:
    """Cancel the jobs of a notebook that are not over."""
    running = [job for job in _jobs_of(notebook) if not job.state.final]
    for job in running:
        open_job(job.id).cancel("asked for by JOB_STOP")
        answer(f"job {job.id} is being cancelled")
    if not running:
        answer("no job of this note is running")


def _jobs_of(notebook: str) -> list[JobSummary]:
    """Return the newest jobs that a notebook has submitted."""
    jobs = list_jobs(limit=_NEWEST)
    return [job for job in jobs if record_of(job.id).get("spec", {}).get("notebook") == notebook]
