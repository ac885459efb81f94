"""``%%submarine --sweep``: the cell is what each trial runs, with parameters for names it reads."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from submarine_engine import api
from submarine_engine.bundle.model import Cell
from submarine_engine.command import Command
from submarine_engine.command.options import SWEEP
from submarine_engine.errors import CommandError
from submarine_engine.sweeps.found import Found
from submarine_engine.sweeps.plan import objectives_of
from submarine_engine.sweeps.space import Space
from submarine_engine.sweeps.sweeping import sweep

from submarine_magics.workbench import Workbench

_TRIAL = "trial"
_OF_SEARCH = [option.key for option in SWEEP if option.key not in ("sweep", "map")]


def run_sweep(bench: Workbench, command: Command, main: Cell) -> Found:
    """Search with the cell `main`; return what was found.

    Parameters
    ----------
    bench
        The notebook's: its cells, its variables and the cluster in use.
    command
        With ``sweep``, the space, and the options of the search and of each trial's job.
    main
        The cell that runs now.

    Raises
    ------
    CommandError
        The space or an option is not possible, or the cell does not read a name of the space.
    """
    values = command.values
    space = Space.of(values["sweep"])
    given = {name: values[name] for name in _OF_SEARCH if name in values}
    objectives = objectives_of(given.get("minimize"), given.get("maximize"))
    names = [name for name, _ in objectives]
    space.check_names(names_read(main.source), main.label, "name that it reads:")
    cell = replace(main, source=as_function(main, space.names, names))
    options = keywords(bench, command)
    known = {*options, *_OF_SEARCH, "sweep", "detach", "num_workers"} - {"cache"}
    refused = sorted(values.keys() - known)
    if refused:
        raise CommandError(
            f"--{refused[0].replace('_', '-')} is for one job, not for a sweep",
            fix="leave it out",
        )
    return sweep(
        function_of(cell, bench.namespace),
        space,
        **given,
        **options,
        cell=cell,
        wait="detach" not in values,
    )


def keywords(bench: Workbench, command: Command) -> dict[str, Any]:
    """Return the options of a command that each job may have, as calls of the engine take them.

    Parameters
    ----------
    bench
        The notebook's: it knows the cluster where the command names none, and the notebook's name.
    command
        Its options, of whatever kind.
    """
    known = api.job_keywords(command.values.get("cluster") or bench.cluster_name())
    given = {name: value for name, value in command.values.items() if name in known}
    if "env" in given:
        given["env"] = dict(given["env"])
    if "num_workers" in command.values:
        given["workers"] = command.values["num_workers"]
    return {**given, "name": bench.spec(command).name}


def names_read(source: str) -> set[str]:
    """Return the names that some statement of a cell reads, by its `source` in plain Python."""
    nodes = list(ast.walk(ast.parse(source)))
    augmented = {node.target for node in nodes if isinstance(node, ast.AugAssign)}
    return {
        node.id
        for node in nodes
        if isinstance(node, ast.Name) and (isinstance(node.ctx, ast.Load) or node in augmented)
    }


def as_function(cell: Cell, params: Sequence[str], objectives: Sequence[str]) -> str:
    """Return the cell's source as a function of `params`, each statement in its own line.

    It returns what the last expression gives, or else the cell's variables with the names of the
    objectives. Its first line, which is the magic's, is the function's.

    Raises
    ------
    CommandError
        The cell has no such line, or cannot be a function's body.
    """
    given = ", ".join(f"{name!r}: locals().get({name!r})" for name in objectives)
    ends = f"return {{{given}}}"
    if gives_last(cell) and not set(objectives) <= _bound(_parsed(cell)):
        ends = ""
    return function_source(cell, _TRIAL, params, ends, option="--sweep")


def gives_last(cell: Cell) -> bool:
    """Return whether a cell's last statement is an expression."""
    body = _parsed(cell).body
    return bool(body) and isinstance(body[-1], ast.Expr)


def function_source(cell: Cell, name: str, params: Sequence[str], ends: str, *, option: str) -> str:
    """Return the cell's source as the function `name` of `params`.

    Parameters
    ----------
    ends
        Its last statement; empty where it returns what the cell's last expression gives.
    option
        By which people have asked for it.

    Raises
    ------
    CommandError
        The magic has no line of its own, or the cell cannot be a function's body.
    """
    first, newline, _ = cell.source.partition("\n")
    if first.strip() or not newline:
        raise CommandError(
            f"{option} needs its magic above the cell",
            fix=f"begin the cell with %%submarine {option}",
        )
    tree = _parsed(cell)
    lines = cell.source.split("\n")
    if ends:
        lines.append(ends)
    else:
        last = tree.body[-1]
        line = lines[last.lineno - 1].encode()
        at = last.col_offset
        lines[last.lineno - 1] = (line[:at] + b"return " + line[at:]).decode()
    inside = _inside_strings("\n".join(lines))
    body = [line if number in inside or not line.strip() else f"    {line}"
            for number, line in enumerate(lines, 1)]  # fmt: skip
    kind = "async def" if any(_awaits(tree)) else "def"
    body[0] = f"{kind} {name}({', '.join(params)}):"
    source = "\n".join(body)
    try:
        ast.parse(source)
        compile(source, cell.label, "exec", dont_inherit=True)
    except SyntaxError as error:
        raise CommandError(
            f"a cell with {option} runs as a function, and cannot: {error.msg}",
            where=f"{cell.label}, line {error.lineno}",
            fix="put imports of * and what begins with global into another cell",
        ) from None
    return source


def function_of(cell: Cell, namespace: dict[str, Any], name: str = _TRIAL) -> Any:  # noqa: ANN401 - a function
    """Return the function that such a cell defines, as one of the notebook.

    Parameters
    ----------
    cell
        Its source is a function alone, as `function_source` writes it.
    namespace
        What is global to the function: the notebook's variables.
    name
        The function's.
    """
    made: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(cell.source, cell.label, "exec", dont_inherit=True), made)  # noqa: S102 - a def alone
    function = made[name]
    return type(function)(function.__code__, namespace, name)


def _parsed(cell: Cell) -> ast.Module:
    tree = compile(
        cell.source, cell.label, "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    )
    assert isinstance(tree, ast.Module)  # noqa: S101 - for the type checker
    return tree


def _bound(tree: ast.Module) -> set[str]:
    return {
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }


def _awaits(node: ast.AST) -> Iterator[bool]:
    """Yield True for each await of the cell itself."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            continue
        if isinstance(child, (ast.Await, ast.AsyncFor, ast.AsyncWith)):
            yield True
        yield from _awaits(child)


def _inside_strings(source: str) -> set[int]:
    """Return the lines that begin within a string: what they begin with is the string's."""
    inside: set[int] = set()
    begins: list[int] = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        name = tokenize.tok_name[token.type]
        if name.endswith("STRING_START"):
            begins.append(token.start[0])
        elif name.endswith("STRING_END"):
            inside.update(range(begins.pop() + 1, token.end[0] + 1))
        elif name == "STRING":
            inside.update(range(token.start[0] + 1, token.end[0] + 1))
    return inside
