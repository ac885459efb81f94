"""``%%submarine``: the cell becomes a job; its value and its variables come back."""

from __future__ import annotations

import ast
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from IPython.core.displayhook import DisplayHook
from IPython.display import Code
from submarine_engine import cache
from submarine_engine.bundle import BuildOptions, Bundle, build, build_parts
from submarine_engine.bundle.model import Cell
from submarine_engine.cache import Caching
from submarine_engine.command import Command, parse_cell
from submarine_engine.command.values import CONDITIONS
from submarine_engine.errors import BundleError, CommandError
from submarine_engine.future import Job
from submarine_engine.interrupts import noted
from submarine_engine.job import NO_OUTPUTS, JobState
from submarine_engine.logs import FIRST, check_task
from submarine_engine.records import open_job

from submarine_magics import frontend
from submarine_magics.card.words import visible, visible_lines
from submarine_magics.cell_view import Interrupt, follow_job
from submarine_magics.frontend import cell_order
from submarine_magics.homecoming import bring_home
from submarine_magics.magic_lines import VALUELESS
from submarine_magics.show import say, show, show_help
from submarine_magics.workbench import Workbench

if TYPE_CHECKING:
    from types import FrameType

_LONGEST = 1000
_COMMANDS = ("!", "%pip ", "%uv ", "%ls", "%cd ")
_CELL_MAGIC = re.compile(r"\s*%%(\w+)")
_CAPTURE = re.compile(r"(\s*)%%capture[ \t]*([^\n]*)\n")


def run_cell(bench: Workbench, line: str, body: str) -> object:
    """Run a cell as a job, as ``%%submarine LINE`` over BODY asks for.

    Parameters
    ----------
    bench
        The notebook's: its cells, its variables and the cluster in use.
    line
        What follows the magic.
    body
        What stands below its line.

    Returns
    -------
    object
        What the cell's last expression gave, for the shell to display; None where the last
        statement is none, or ends in ``;``. With ``--detach`` the `Job`, with ``--dry-run`` the
        script.
    """
    command = parse_cell(line)
    if command.spec is None:
        show_help(command)
        return None
    _refuse_timeit()
    wait_for_others(command)
    if below := _CAPTURE.match(body):
        # What %%capture keeps is what this cell would show, card and all. The empty line stands
        # for the magic's own, so that lines keep their numbers.
        empty = "\n" * (1 + below[1].count("\n"))
        inner = f"%%submarine {line}\n{empty}{body[below.end() :]}"
        return bench.shell.run_cell_magic("capture", below[2], inner)
    main = bench.this_cell(body)
    if body.strip() and not main.dropped and not ast.parse(main.source).body:
        return None  # comments alone do nothing, as in a plain cell
    # Imported late: a kernel that starts loads neither pools nor sweeps.
    if "sweep" in command.values:
        from submarine_magics.sweeping import run_sweep  # noqa: PLC0415

        return run_sweep(bench, command, main)
    if "map" in command.values:
        from submarine_magics.mapping import run_map  # noqa: PLC0415

        return run_map(bench, command, main, shown=gives_value(main.source, body))
    outputs = () if command.spec.outputs == NO_OUTPUTS else command.spec.outputs
    secrets = command.spec.secrets
    answered = "detach" not in command.values and bench.answers(command)

    def make(options: BuildOptions) -> Bundle:
        options = replace(options, secrets=secrets)
        return build(main, bench.cells.cells(), bench.namespace, options=options, outputs=outputs)

    bundle = bench.within_limit(make, command, answered=answered)
    return run_bundle(bench, command, bundle, main=main, shown=gives_value(main.source, body))


def _refuse_timeit() -> None:
    """Raise where ``%%timeit`` above the cell would make it a job many times over."""
    frame: FrameType | None = sys._getframe()  # noqa: SLF001 - the only way to see who calls
    while frame:
        if frame.f_code.co_filename.startswith("<magic-timeit>"):
            raise CommandError(
                "%%timeit would submit a job for each run of the cell",
                fix="use %%time, which times one job",
            )
        frame = frame.f_back


def run_parts(bench: Workbench, command: Command) -> object:
    """Merge the parts given so far and run them, as ``%submarine job run`` asks for.

    Parameters
    ----------
    bench
        The notebook's, which has the parts.
    command
        The options of the job.
    """
    if many := [one for one in ("sweep", "map") if one in command.values]:
        raise CommandError(
            f"a {many[0]} runs one cell, and no parts",
            fix=f"write %%submarine --{many[0]} above the cell",
        )
    wait_for_others(command)
    return run_bundle(bench, command, parts_bundle(bench, command))


def wait_for_others(command: Command) -> None:
    """Wait for the jobs that ``--after`` in `command` names, each the newest of its name.

    Raises
    ------
    JobNotFoundError
        There is no such job.
    CommandError
        They have ended so that this one is not to run.
    """
    names = command.values.get("after", ())
    states = {}
    for name in names:
        job = open_job(name)
        if not job.done():
            say(f"waiting for {visible(name)} ({job.id})")
        states[name] = job.wait().state
    condition = command.values.get("condition", CONDITIONS[0])
    bad = [name for name in names if states[name] is not JobState.SUCCEEDED]
    if bad and condition == CONDITIONS[0]:
        raise CommandError(
            f"it is to run after {visible(bad[0])}, which has {states[bad[0]].value}",
            where="--after",
            fix="run that cell again, or write --condition all_done",
        )
    if names and not bad and condition == CONDITIONS[2]:
        raise CommandError(
            f"it is to run where one of {visible(', '.join(names))} has failed, and none has",
            where="--condition",
            fix="leave --condition out to run it now",
        )


def parts_bundle(bench: Workbench, command: Command | None = None) -> Bundle:
    """Merge the parts given so far; where there are none, take the files that commands name.

    Parameters
    ----------
    bench
        The notebook's, which has the parts.
    command
        That is to run them; None where the script is only looked at.

    Raises
    ------
    BundleError
        None was given, and the roles have no commands that say what runs.
    """
    parts = bench.parts.parts(cell_order(bench.namespace))
    spec = command.spec if command else None
    if not parts and spec and all(role.command is not None for role in spec.roles):
        from submarine_engine.cli.run import read_program  # noqa: PLC0415 - rare, and large

        return read_program(None, spec, Path.cwd()).bundle
    if not parts:
        raise BundleError(
            "there is no part to run", fix="begin a cell with %%submarine.python, and run it"
        )
    launch = command.values.get("worker_launch_cmd") if command else None
    return build_parts(parts, command=launch, root=Path.cwd(), cells=bench.cells.cells())


def run_bundle(
    bench: Workbench,
    command: Command,
    bundle: Bundle,
    *,
    main: Cell | None = None,
    shown: bool = True,
) -> object:
    """Submit a bundle and do with its job as the command says; `main` is the cell that it is of.

    Parameters
    ----------
    bench
        The notebook's: its cells, its variables and the cluster in use.
    command
        What is to be done with the job, and what it is.
    bundle
        What it runs.
    main
        The cell that it is of; None for parts.
    shown
        Whether the notebook shows the cell's value: else None is returned for it.
    """
    bench.bundle = bundle
    spec = bench.spec(command)
    # Where cells have no ids, one is told from others by what it binds.
    cell = (main.id or main.name or ", ".join(bundle.manifest.binds)) if main else spec.name
    caching = Caching.of(command.values, f"{spec.notebook} {cell}" if cell else "")
    if "dry_run" in command.values:
        if caching:
            _explain(bench, command, bundle, caching)
        return Code(bundle.script, language="python")
    which = command.values.get("logs")
    if "detach" not in command.values:
        check_task(which, spec.each_rank_a_task().tasks)
        spec = replace(spec, asks=bench.answers(command))
    cluster, spec = bench.cluster_for(command, spec)

    def submit(interrupt: Interrupt | None = None) -> Job:
        def place() -> Job:
            # Relative paths mean in the job what they mean in the kernel now.
            return cache.submit(cluster, spec, bundle, workdir=Path.cwd(), caching=caching)

        job = bench.submit(cluster, bundle, place, interrupt)
        bench.sent[job.id] = bundle.sent, main, bundle.manifest
        return job

    if "detach" in command.values:
        return submit()
    with noted(Interrupt()) as interrupt:
        job = submit(interrupt)
        if frontend.current.leave:
            if job.remembered:
                say(f"the result is {job.remembered}; with --refresh the cell runs again")
            frontend.current.leave(job, shown=shown, origin=bench.origin(), which=which or FIRST)
            return None
        follow_job(job, interrupt, origin=bench.origin(), which=which or FIRST)
    value = bring_home(bench, job)
    return value if shown else None


def _explain(bench: Workbench, command: Command, bundle: Bundle, caching: Caching) -> None:
    """Say what the cell's result depends on, and whether it is remembered."""
    cluster, spec = bench.cluster_for(command, bench.spec(command))
    lines = cache.explained(cluster, spec, bundle, Path.cwd(), caching)
    show("\n".join(visible_lines(line, _LONGEST) for line in lines))  # it was asked for


def add_part(bench: Workbench, line: str, body: str) -> None:
    """Take a cell as a piece of a file, as ``%%submarine.python LINE`` over BODY asks for.

    Parameters
    ----------
    bench
        The notebook's, which keeps the parts.
    line
        The title of the file, or nothing.
    body
        What stands below that line.

    Raises
    ------
    CommandError
        The line is more than one title.
    BundleError
        The cell does not parse, or the title cannot name a file.
    """
    words = line.split()
    if len(words) > 1:
        raise CommandError(
            f"{line.strip()!r} is not a title", fix="write %%submarine.python TITLE.py, or no title"
        )
    bench.parts.add(words[0] if words else None, bench.this_cell(body))


def gives_value(source: str, raw: str = "") -> bool:
    """Return whether a notebook would show the value of the cell's last statement.

    Parameters
    ----------
    source
        The cell in plain Python.
    raw
        What the user typed: of a command of the shell (``!ls``), of a program (``%%bash``) and of
        a file (``%%writefile``) no value is shown.
    """
    if (raw.strip().splitlines() or [""])[-1].lstrip().startswith(_COMMANDS):
        return False
    if _program_or_file(raw):
        return False
    if DisplayHook.semicolon_at_end_of_expression(source):
        return False
    body = ast.parse(source).body
    if body and isinstance(body[-1], ast.If):  # if __name__ == "__main__":
        body = body[-1].body
    return bool(body) and isinstance(body[-1], ast.Expr)


def _program_or_file(raw: str) -> bool:
    """Return whether cell magics above `raw` (``%%time`` may be one) make it no Python."""
    for line in raw.splitlines():
        magic = _CELL_MAGIC.match(line)
        if magic and magic[1] in VALUELESS:
            return True
        if line.strip() and not magic:
            return False
    return False
