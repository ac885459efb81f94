"""``%%submarine --map files=data/*.csv``: the cell runs once for each file, as calls of a map."""

from __future__ import annotations

import glob
from dataclasses import replace
from keyword import iskeyword
from pathlib import Path
from typing import TYPE_CHECKING, Any

from submarine_engine.errors import CommandError
from submarine_engine.job import NO_OUTPUTS
from submarine_engine.pool.mapping import map as map_calls

from submarine_magics.launching import follow
from submarine_magics.show import say
from submarine_magics.sweeping import function_of, function_source, gives_last, keywords, names_read

if TYPE_CHECKING:
    from submarine_engine.bundle.model import Cell
    from submarine_engine.command import Command

    from submarine_magics.workbench import Workbench

_CALL = "call"


def run_map(bench: Workbench, command: Command, main: Cell, *, shown: bool) -> object:
    """Run the cell `main` once for each file; bring home what the calls gave.

    Parameters
    ----------
    bench
        The notebook's, where what comes home is bound.
    command
        With ``map``, and the options of each call's job.
    main
        The cell that runs now.
    shown
        Whether the notebook shows the cell's value.

    Returns
    -------
    object
        The values of the cell's last expression, in the order of the files; None unless `shown`,
        or where variables are brought home instead. With ``--detach`` the `Mapped`.

    Raises
    ------
    CommandError
        The files or an option are not possible, or the cell does not read the name.
    JobFailedError
        A call failed: its own error, once all that the others gave is at home.
    """
    values = command.values
    name, files = files_of(values["map"])
    if name not in names_read(main.source):
        raise CommandError(
            f"the cell does not read {name}, which is to be another file in each call",
            where=f"--map {values['map']}",
            fix=f"use {name} in the cell: it is the path of one file",
        )
    options = keywords(bench, command)
    refused = sorted(values.keys() - options.keys() - _OWN)
    if refused:
        raise CommandError(f"--{refused[0].replace('_', '-')} is not for a map", fix="leave it out")
    outputs = bench.spec(command).outputs
    outputs = () if outputs == NO_OUTPUTS else outputs
    cell = as_call(main, name, outputs)
    if "max_gpus" in values:
        options["max_gpus"] = values["max_gpus"]
    function = function_of(cell, bench.namespace, _CALL)
    found = map_calls(function, files, cell=cell, shown="detach" in values, **options)
    if "detach" in values:
        return found
    assert found.job is not None  # noqa: S101 - for the type checker: it was submitted
    follow(found.job)
    found.wait()
    results = found.results()
    given = [results.get(index) for index in range(len(files))]
    bench.shell.push(
        {one: [None if told is None else told[one] for told in given] for one in outputs}
    )
    if failed := found.failed:
        first = min(failed)
        rest = f"open_job({found.job.id!r}).result()"
        say(
            f"{len(failed)} of {len(files)} calls failed, the first for {files[first]}; what the"
            f" others gave: {rest}.results(), and to try again: {rest}.retry_failed()"
        )
        raise failed[first]
    return given if shown and not outputs else None


_OWN = {"map", "max_gpus", "num_workers", "detach", "output"}


def files_of(told: str) -> tuple[str, list[str]]:
    """Return name and files, in their order, of the word `told`: ``files=data/*.csv``.

    Raises
    ------
    CommandError
        It is nothing like that, or there is no such file.
    """
    name, equals, pattern = told.partition("=")
    name, pattern = name.strip(), pattern.strip()
    if not equals or not name.isidentifier() or iskeyword(name) or not pattern:
        raise CommandError(
            f"--map {told} is not NAME=FILES",
            fix="write a name that the cell reads, and a pattern: --map path=data/*.csv",
        )
    # As a shell has it: relative where the pattern is, and what begins with a dot is hidden.
    files = sorted(glob.glob(str(Path(pattern).expanduser()), recursive=True))  # noqa: PTH207
    if not files:
        raise CommandError(
            f"there is no file {pattern}",
            where=f"--map {told}",
            fix=f"see what there is: it is looked for in {Path.cwd()}",
        )
    return name, files


def as_call(cell: Cell, name: str, outputs: tuple[str, ...]) -> Cell:
    """Return the cell as the function of `name` that each call runs.

    Raises
    ------
    CommandError
        It binds a variable of `outputs` nowhere, or cannot be a function's body.
    """
    ends = "" if gives_last(cell) and not outputs else f"return {_dict_of(outputs)}"
    source = function_source(cell, _CALL, (name,), ends, option="--map")
    made: Any = function_of(replace(cell, source=source), {}, _CALL)
    bound = {*made.__code__.co_varnames, *made.__code__.co_cellvars}
    for one in outputs:
        if one not in bound:
            raise CommandError(
                f"the cell does not bind {one}, which is to come home from each call",
                where=f"-o {one}",
                fix=f"bind it in the cell, or leave -o {one} out",
            )
    return replace(cell, source=source)


def _dict_of(names: tuple[str, ...]) -> str:
    return f"{{{', '.join(f'{name!r}: {name}' for name in names)}}}" if names else "None"
