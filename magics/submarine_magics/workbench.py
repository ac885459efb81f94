"""What the magics of one shell share: the executed cells, the parts, the cluster in use."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from IPython.core.interactiveshell import InteractiveShell
from submarine_engine.bundle import BuildOptions, Bundle, Cell, PartBook
from submarine_engine.bundle.model import Manifest, Sent
from submarine_engine.bundle.own_modules import OwnModules
from submarine_engine.clusters import open_cluster
from submarine_engine.clusters.base import Cluster
from submarine_engine.clusters.choice import cluster_for
from submarine_engine.command import Command, job_name
from submarine_engine.config import DEFAULT, load_config
from submarine_engine.errors import CaptureTooLargeError, SubmarineError
from submarine_engine.future import Job
from submarine_engine.job import JobSpec

from submarine_magics import frontend
from submarine_magics.card.words import visible_lines
from submarine_magics.cell_view import Interrupt
from submarine_magics.cells import CellLog
from submarine_magics.frontend import display_settings, notebook_path
from submarine_magics.reading import can_read
from submarine_magics.show import ask, say

_T = TypeVar("_T")
_LONGEST = 4000
_EDITED = (
    "edited since the notebook imported it: {}; the job runs it as it is now, and so does the"
    " notebook after importlib.reload"
)


class Workbench:
    """The state behind the magics.

    Parameters
    ----------
    shell
        The shell whose cells become jobs.

    Attributes
    ----------
    modules
        The notebook's own modules.
    bundle
        The last one made.
    sent
        Of each job whose cell is still to come home: the objects of this kernel that it got copies
        of, the cell, and what the cell's own bundle says of it.
    tagged
        Source of the last cell that a tag made a job, the magic's line not counted.
    """

    def __init__(self, shell: InteractiveShell) -> None:
        self.shell = shell
        self.cells = CellLog(shell)
        self.modules = OwnModules(self.cells.cells_so_far())
        shell.events.register("post_run_cell", lambda _: self.modules.note())
        self.parts = PartBook()
        self.cluster_in_use: str | None = None
        self.bundle: Bundle | None = None
        self.sent: dict[str, tuple[Sent, Cell | None, Manifest]] = {}
        self.tagged = ""
        self._agreed = 0

    @property
    def namespace(self) -> dict[str, Any]:
        """The notebook's variables."""
        namespace: dict[str, Any] = self.shell.user_ns
        return namespace

    def cluster_name(self, wanted: str | None = None) -> str:
        """Return the name of the cluster `wanted`, else of that in use, else the configured one."""
        return str(load_config({"cluster": wanted or self.cluster_in_use}).value("cluster"))

    def cluster(self, wanted: str | None = None) -> Cluster:
        """Open the cluster that `cluster_name` names for `wanted`."""
        return open_cluster(self.cluster_name(wanted))

    def cluster_for(self, command: Command, spec: JobSpec) -> tuple[Cluster, JobSpec]:
        """Open a command's cluster for a job, chosen for it where it may be any of several.

        Parameters
        ----------
        command
            Its ``cluster``; without one that in use, or the configured one.
        spec
            What the job is to be.

        Raises
        ------
        ConfigError, SubmissionError, ClusterError
            As `submarine_engine.clusters.choice.cluster_for`.
        """
        return cluster_for(self.cluster_name(command.values.get("cluster")), spec, say)

    def _capture_limit(self, command: Command | None) -> tuple[int, bool]:
        """Return the most that captured values may take, and whether somebody has chosen that."""
        config = load_config()
        limit: int = config.value("capture_limit")
        if config.origin("capture_limit") != DEFAULT:
            return limit, True
        try:
            room = self.cluster(command.values.get("cluster") if command else None).room()
        except SubmarineError:
            return limit, True  # it is told where the cluster is asked for the job
        return (limit, True) if room is None else (room, False)

    def within_limit(
        self,
        make: Callable[[BuildOptions], _T],
        command: Command | None = None,
        *,
        answered: bool,
    ) -> _T:
        """Return what `make` gives for the limit of captured values, asking where it is too low.

        Who has agreed to so much is not asked for as much again.

        Parameters
        ----------
        make
            Builds what is wanted; raises CaptureTooLargeError.
        command
            Whose cluster may set the limit; None for the notebook's.
        answered
            Whether the job can ask the person in front of the cell.

        Raises
        ------
        CaptureTooLargeError
            The values are larger, and the answer is no, or nobody can answer.
        """
        limit, chosen = self._capture_limit(command)
        options = BuildOptions(
            limit=max(limit, self._agreed) if chosen else limit,
            root=Path.cwd(),
            tell=say,
            answered=answered,
            changes=self.modules.changes(),
            held=self.modules.held(),
        )
        try:
            return make(options)
        except CaptureTooLargeError as error:
            if not chosen:  # more has no room
                raise
            question = f"{visible_lines(error.what, _LONGEST)}\nSend them all the same? [y/N] "
            if (ask(self.shell, question) or "").strip().lower() not in ("y", "yes"):
                raise
            # What was not counted to its end may be twice that.
            self._agreed = 2 * sum(value.size for value in error.values)
        return make(replace(options, limit=sys.maxsize))

    def answers(self, command: Command | None = None) -> bool:
        """Return whether a job that the running cell waits for can ask the person there.

        Parameters
        ----------
        command
            Whose cluster the job runs on; None for the notebook's.
        """
        try:
            cluster = self.cluster(command.values.get("cluster") if command else None)
        except SubmarineError:
            return False  # as above
        return cluster.asks and can_read(self.shell)

    def this_cell(self, body: str) -> Cell:
        """Return the cell that runs now, of which `body` is what follows its magic.

        Raises
        ------
        CellSyntaxError
            It does not parse, or holds what no script can hold.
        """
        cell = self.cells.translate(body, self.cells.number)
        return _without_first_line(cell) if body.strip() == self.tagged else cell

    def origin(self) -> str:
        """Where a job of the cell that runs now comes from, in words."""
        return self.cells.label

    def spec(self, command: Command) -> JobSpec:
        """Return what to run: named after the notebook unless the command says a name."""
        path = notebook_path(self.namespace)
        name = path.stem if path else frontend.current.title.rpartition("/")[2]
        return self.from_here(command.named(job_name(name)))

    def get_ready(self, *, chosen: bool = True) -> None:
        """Let the cluster begin with what the first job will wait for, in a thread of its own.

        Parameters
        ----------
        chosen
            Whether somebody has just chosen it; else it has to be in the configuration.
        """
        try:
            config = load_config({"cluster": self.cluster_in_use})
        except SubmarineError:  # the first job tells it
            return
        if chosen or config.origin("cluster") != DEFAULT:
            arguments = (config.value("cluster"), self.notebook)
            threading.Thread(
                target=_get_ready, args=arguments, name="submarine: get ready", daemon=True
            ).start()

    def from_here(self, spec: JobSpec) -> JobSpec:
        """Say in `spec` which notebook it comes from, and how that one shows things.

        One whose file nobody tells is one, too.
        """
        env = {**display_settings(), **spec.env}
        return replace(spec, notebook=self.notebook, env=env)

    @property
    def notebook(self) -> str:
        """Which notebook this is: its file, else what the front end calls it."""
        path = notebook_path(self.namespace)
        return str(path) if path else frontend.current.notebook or "notebook"

    def submit(
        self,
        cluster: Cluster,
        bundle: Bundle,
        submit: Callable[[], Job],
        interrupt: Interrupt | None = None,
    ) -> Job:
        """Submit by `submit`, and say what there is to be said of it.

        An interrupt that is held meanwhile is heeded where a step takes long.

        Parameters
        ----------
        cluster
            Where `submit` has the job run: it tells what it does by this cell.
        bundle
            What the job runs.
        submit
            Submits it.
        interrupt
            Of the cell; None where none is held.
        """

        def tell(text: str) -> None:
            say(text)
            if interrupt is not None and interrupt.pending:
                raise KeyboardInterrupt

        cluster.tell = tell
        job = submit()
        again = bundle.manifest.made_again
        if again and not job.remembered:
            say(visible_lines(again, _LONGEST))
        if (edited := self.modules.edited(bundle.manifest.modules)) and not job.remembered:
            # The notebook itself goes on with what it has imported, as Python does.
            say(visible_lines(_EDITED.format(", ".join(edited)), _LONGEST))
        return job


def _get_ready(cluster: str, notebook: str) -> None:
    with suppress(Exception):  # the first job tells what is wrong
        open_cluster(cluster).get_ready(notebook)


def _without_first_line(cell: Cell) -> Cell:
    """Return the cell with its lines numbered without the magic that was put above it."""
    dropped = tuple(replace(line, line=line.line - 1) for line in cell.dropped)
    source = cell.source.removeprefix("\n")
    return replace(cell, source=source, raw=cell.raw.partition("\n")[2], dropped=dropped)


_BENCHES: WeakKeyDictionary[InteractiveShell, Workbench] = WeakKeyDictionary()


def bench_of(shell: InteractiveShell) -> Workbench:
    """Return the workbench of a shell, a new one at the first time."""
    if shell not in _BENCHES:
        _BENCHES[shell] = Workbench(shell)
    return _BENCHES[shell]
