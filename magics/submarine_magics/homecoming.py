"""A job's cell comes home: the notebook is then as if the cell had run right here."""

from __future__ import annotations

import importlib
import re
import sys
import warnings
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import NoReturn

from submarine_engine.bundle import Cell
from submarine_engine.bundle.model import Definition, Manifest
from submarine_engine.config import load_config
from submarine_engine.errors import JobCancelledError, JobFailedError, ResultError
from submarine_engine.future import Job
from submarine_engine.home import THE_VALUE, Homecoming
from submarine_engine.job import JobState
from submarine_engine.results import come_home, load_results

from submarine_magics.card.model import KILLED
from submarine_magics.card.words import visible
from submarine_magics.show import say
from submarine_magics.workbench import Workbench

_MOST_STAYED = 12
_COMPUTED = re.compile(r"\b(?:globals|locals|vars)\(\)")
_MISSED = {
    "NameError": re.compile(r"name '(\w+)' is not defined"),
    "KeyError": re.compile(r"^'(\w+)'$"),
    "UndefinedVariableError": re.compile(r"variable '(\w+)' is not defined"),
}
_EXIT = re.compile(r"(?<![\w.])(?:exit|quit)\(")
_INLINE = "matplotlib_inline.backend_inline"


def bring_home(bench: Workbench, job: Job) -> object:
    """Execute what the job's cell defines, bind what it bound, change what it changed.

    Parameters
    ----------
    bench
        The notebook's: there the variables are bound, and the cell is noted as run.
    job
        Any, over or not: it is waited for.

    Returns
    -------
    object
        What the cell's last expression gave.

    Raises
    ------
    JobFailedError, JobCancelledError, JobLostError, ResultError
        As `Job.results` does; what the cell did until then is home all the same.
    SystemExit
        The cell left so, with its job succeeded: what runs below it is to stop, as in a notebook.
    """
    status = job.wait()
    sent, main, manifest = bench.sent.pop(job.id, (None, None, None))
    definer = _Definer(bench, job, main, manifest)
    home = None
    if status.state is not JobState.LOST:
        bring = partial(
            come_home,
            job.cluster,
            job.id,
            define=definer.define,
            sent=sent,
            namespace=bench.namespace,
            budget=int(load_config().value("return_limit")),
        )
        home = bring()
        if status.failed_task not in ("", status.ranked[0].task):
            error = None
            with suppress(ResultError):  # then its words tell of it
                error = bring(status.failed_task)  # what the task of rank 0 says is noise
            home = replace(home, raised=error.raised if error else None) if home else error
    if home is not None:
        _bind(bench, home, job)
    if home is None or status.state is not JobState.SUCCEEDED:
        return _results(bench, job, home, definer, main)
    definer.note()
    for warning in job.cluster.warnings(job.id):
        say(warning)
    if home.left:
        _leave(main)
    return home.value


def _results(
    bench: Workbench,
    job: Job,
    home: Homecoming | None,
    definer: _Definer,
    main: Cell | None,
) -> object:
    """Take the results of a job that brought nothing home, or raise the error of its end."""
    try:
        results = load_results(job.cluster, job.id, job.status(), home or Homecoming())
    except JobFailedError as error:
        from submarine_magics.debugging import open_by_debug  # noqa: PLC0415 - few cells fail

        definer.note(error)
        error.fix = _not_sent(error, bench, main) + error.fix
        open_by_debug(error, job)
        raise
    except JobCancelledError as error:
        definer.note(error)
        how = "killed" if job.status().reason == KILLED else "cancelled"
        error.what = f"{how}; {_left_behind(home)}"  # the card says why
        error.args = (error.what,)
        raise
    else:
        for warning in results.warnings:
            say(warning)
        bench.shell.push(dict(results.outputs))
        return results.value


def fetch(bench: Workbench, job: Job, names: Sequence[str]) -> None:
    """Bind variables of a job's cell that stayed in the job.

    They share no objects with what has come home before.

    Parameters
    ----------
    bench
        The notebook's, where they are bound.
    job
        It has to be over.
    names
        Of the variables; all of them, or none is bound.

    Raises
    ------
    ResultError
        The job has no such variable, or it cannot be loaded here.
    """
    if not job.done():
        raise ResultError(
            "the job is not over", job_id=job.id, fix=f"%submarine job attach {job.id} follows it"
        )
    home = come_home(
        job.cluster, job.id, define=lambda *_: None, namespace=bench.namespace, budget=sys.maxsize
    )
    found = home.names if home else {}
    missing = [name for name in names if name not in found]
    if missing:
        why = [
            f"`{name}` ({home.stayed[name]})" for name in missing if home and name in home.stayed
        ]
        there = ", ".join(f"`{name}`" for name in sorted(found)) or "nothing"
        raise ResultError(
            f"it has not kept {' or '.join(f'`{name}`' for name in missing)}"
            + (f": {', '.join(why)} cannot be loaded here" if why else ""),
            job_id=job.id,
            fix=f"it has kept {there}",
        )
    bench.shell.push({name: found[name] for name in names})


def _bind(bench: Workbench, home: Homecoming, job: Job) -> None:
    namespace = bench.namespace
    for old, new in home.replaced:
        names = [name for name, value in namespace.items() if value is old]
        for name in names:
            namespace[name] = new
        if shown := [name for name in names if not name.startswith("_")]:
            say(
                f"`{visible(shown[0])}` is a new object now, since its class cannot be changed in "
                "place; other objects may still hold the old one"
            )
    bench.shell.push(dict(home.names))
    for name in home.gone:
        namespace.pop(name, None)
    _show_figures_as_pictures()
    if home.stayed:
        say(_in_one_line(home, job))


def _show_figures_as_pictures() -> None:
    """Load the notebook's backend of matplotlib, as the first figure made here would have."""
    if "matplotlib.figure" not in sys.modules or _INLINE in sys.modules:
        return
    # Asked for by its key, an unset backend would be chosen now.
    if _INLINE in str(dict.get(sys.modules["matplotlib"].rcParams, "backend")):
        with suppress(ImportError):
            importlib.import_module(_INLINE)


def _leave(main: Cell | None) -> NoReturn:
    if main is not None and _EXIT.search(main.source):
        say("`exit()` has ended the cell and its job; the kernel goes on")
    raise SystemExit


def _not_sent(error: JobFailedError, bench: Workbench, main: Cell | None) -> str:
    """Return what to do where the job missed a variable that the notebook has."""
    source = main.source if main else ""
    if error.remote_type == "KeyError" and not _COMPUTED.search(source):
        return ""
    named = _MISSED.get(error.remote_type)
    found = named.search(error.remote_message) if named else None
    if found is None or found[1] not in bench.namespace:
        return ""
    return (
        f"`{found[1]}` is in the notebook, but no code of the cell names it, so the job did not "
        f"get it: add a line with `{found[1]}` to the cell; "
    )


def _left_behind(home: Homecoming | None) -> str:
    """Return in words what of a cancelled cell is in the notebook."""
    if home is None:
        return "it was ended before its variables could come back"
    names = [f"`{visible(name)}`" for name in home.names if not name.startswith("_")]
    listed = ", ".join(names[:_MOST_STAYED])
    if len(names) > _MOST_STAYED:
        listed += f" and {len(names) - _MOST_STAYED} more"
    if not names and not home.changed:
        return "it had changed nothing yet"
    if names and home.changed:
        listed += ", and what it changed in place"
    return f"what it did until then is in the notebook{': ' if names else ''}{listed}"


def _in_one_line(home: Homecoming, job: Job) -> str:
    listed = [
        f"{name} ({why})" if name == THE_VALUE else f"`{visible(name)}` ({visible(why)})"
        for name, why in home.stayed.items()
    ]
    more = len(listed) - _MOST_STAYED
    text = ", ".join(listed[:_MOST_STAYED]) + (f" and {more} more" if more > 0 else "")
    large = " ".join(name for name in home.large if name.isidentifier())
    fetched = f"; fetch with %submarine job fetch {job.id} {large}" if large else ""
    return f"stayed in the job: {text}{fetched}"


class _Definer:
    """Executes the definitions of a job's cell in the notebook."""

    def __init__(self, bench: Workbench, job: Job, main: Cell | None, own: Manifest | None) -> None:
        self._bench = bench
        self._job = job
        self._main = main
        self._own = own
        self._manifest: Manifest | None = None
        self._defined: frozenset[str] = frozenset()

    def define(self, manifest: Manifest, defined: Collection[str]) -> None:
        """Execute what the job came to."""
        # A remembered job's own cell may have had other comments, and its lines other numbers.
        manifest = self._own or manifest
        self._manifest, self._defined = manifest, frozenset(defined)
        came_to = [one for one in manifest.definitions if self._defined.issuperset(one.names)]
        if not came_to:
            return
        name = self._file_name(came_to)
        for definition in came_to:
            self._execute(definition, name)

    def _file_name(self, definitions: Collection[Definition]) -> str:
        """Give the code a name under which tracebacks and `inspect` find its lines."""
        source = self._main.source if self._main else _laid_out(definitions)
        number = (self._main.number if self._main else None) or 0
        return str(self._bench.shell.compile.cache(source, number))

    def _execute(self, definition: Definition, name: str) -> None:
        source = "\n" * (definition.line - 1) + definition.source
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the job has shown them
                # By the shell, which keeps what a cell has imported from the future.
                code = self._bench.shell.compile(source, name, "exec")
                exec(code, self._bench.namespace)  # noqa: S102 - the cell's own definitions
        except Exception as error:  # noqa: BLE001 - an import that only the job's machine has
            names = ", ".join(f"`{one}`" for one in definition.names)
            say(f"{names} could not be defined here: {type(error).__name__}: {visible(str(error))}")

    def note(self, error: JobFailedError | JobCancelledError | None = None) -> None:
        """Note the cell among those that ran, as far as it ran: later jobs need it."""
        if self._manifest is None:
            return
        came_to = [one for one in self._manifest.definitions if self._defined.issuperset(one.names)]
        cell = self._main
        if cell is None or error is not None:
            if not came_to:
                return
            source = _laid_out(came_to)
            number = cell.number if cell else None
            name = cell.name if cell else f"job {self._job.id}"
            base = cell or Cell(number=None, source=source)
            cell = replace(base, source=source, number=number, name=name)
        self._bench.cells.ran(cell)


def _laid_out(definitions: Collection[Definition]) -> str:
    """Return the definitions as source, each at its own line."""
    lines: list[str] = []
    for definition in definitions:
        lines += [""] * (definition.line - 1 - len(lines))
        lines += definition.source.split("\n")
    return "\n".join(lines) + "\n"
