"""A cell as the user typed it → plain Python, line for line.

IPython's own transformer finds its syntax; what it turns into calls of ``get_ipython()`` is then
written as a person would: ``!ls`` becomes ``subprocess.run("ls", shell=True)``. Lines that only
make sense in a notebook are left out and listed.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Container, Iterator
from dataclasses import replace

from IPython.core.inputtransformer2 import TransformerManager
from submarine_engine.bundle import Dropped
from submarine_engine.command import parse_cell
from submarine_engine.errors import CommandError

from submarine_magics.aligned import (
    Numbered,
    cell_magic,
    cleaned,
    is_plain,
    numbered,
    transformed,
)
from submarine_magics.ipython_calls import IPythonCall, KnownNames, bodies, ipython_calls
from submarine_magics.magic_cells import cell_magic_code
from submarine_magics.magic_lines import (
    RUN_ASIDE,
    WRAPPERS,
    Rewrite,
    line_magic,
    shell_call,
    without_options,
)
from submarine_magics.translation import Problem, Translation

JOBS = ("submarine", "submarine.python")
"""Cell magics whose body does not run in the notebook."""


def translate(
    raw: str,
    *,
    manager: TransformerManager | None = None,
    known: Container[str] = (),
    executed: bool = False,
    compiled: str | None = None,
) -> Translation:
    """Translate a cell.

    Parameters
    ----------
    raw
        What the user typed.
    manager
        The shell's transformer; IPython's standard one where None.
    known
        Names that have a value in the notebook: ``!echo {name}`` is expanded for those and for
        names that the cell itself binds.
    executed
        Whether the cell has run in the notebook: code of ``%%submarine`` and ``%timeit`` has left
        no names there, and is left out.
    compiled
        What IPython made of the cell. It matters for a cell of one line, which may be a magic
        without its ``%`` by what was defined when it ran.

    Returns
    -------
    Translation
        Where the cell does not parse, its source does not either.
    """
    one_line = compiled is not None and "\n" not in raw.strip()
    if is_plain(raw) and not (one_line and "get_ipython" in str(compiled)):
        return Translation(raw)
    work = _Work(manager or TransformerManager(), known, executed=executed)
    if one_line and compiled:
        first = 1 + raw[: len(raw) - len(raw.lstrip())].count("\n")
        work.code(numbered(compiled.strip("\n"), first))
    else:
        work.cell(numbered(raw))
    return work.result()


def _outputs(options: str) -> tuple[str, ...]:
    """Return the variables that the options of ``%%submarine`` name."""
    try:
        spec = parse_cell(options).spec
    except CommandError:
        return ()
    return spec.outputs if spec else ()


class _Work:
    """The translation of one cell as it grows."""

    def __init__(
        self, manager: TransformerManager, known: Container[str], *, executed: bool
    ) -> None:
        self.manager = manager
        self.known = known
        self.executed = executed
        self.lines: dict[int, str] = {}
        self.dropped: list[Dropped] = []
        self.problems: list[Problem] = []
        self.imports: dict[str, None] = {}
        self.numbers: tuple[int, ...] = ()
        self.magic = ""
        self.last = 1

    def result(self) -> Translation:
        source = "\n".join(self.lines.get(number, "") for number in range(1, self.last + 1))
        return Translation(
            source,
            tuple(self.dropped),
            tuple(self.problems),
            tuple(self.imports),
            self.numbers,
            self.magic,
        )

    def cell(self, lines: Numbered) -> None:
        self.last = max(self.last, lines[-1][0])
        try:
            lines = cleaned(lines, self.manager)
            magic = cell_magic(lines)
            if magic is None:
                self.code(transformed(lines, self.manager))
                return
        except SyntaxError:  # shown by whoever parses it
            self.code(lines)
            return
        name, line = magic
        self.magic = self.magic or name
        first, body = lines[0], lines[1:]
        if name in JOBS:
            if body and not (self.executed and name != JOBS[0]):
                self.cell(body)
            if self.executed:
                self.only_results(line)
        elif name in WRAPPERS:
            self.wrapped(name, line, first, body)
        else:
            rewrite, body = cell_magic_code(name, line, body, self.known)
            self.take(first[0], first[1], rewrite)
            self.put([(first[0], rewrite.code or ""), *body])

    def wrapped(self, name: str, line: str, first: tuple[int, str], body: Numbered) -> None:
        if self.executed and name in RUN_ASIDE:
            self.drop(first[0], first[1], f"%%{name} runs its code aside")
            return
        # %%timeit has code that sets up in its own line.
        setup = without_options(name, line) if name == "timeit" else ""
        if setup:
            self.put([(first[0], setup)])
        else:
            self.drop(first[0], first[1], f"%%{name} is a tool of the notebook; its code is kept")
        if body:
            self.cell(body)

    def only_results(self, options: str) -> None:
        """Leave of a cell that ran as a job only that it bound what it brought back."""
        source = self.result().source
        self.lines.clear()
        try:
            body = ast.parse(source).body
        except (SyntaxError, ValueError):
            return
        wanted = _outputs(options)
        for statement in body:
            for target in getattr(statement, "targets", [getattr(statement, "target", None)]):
                for node in ast.walk(target) if target else ():
                    if isinstance(node, ast.Name) and (statement is body[-1] or node.id in wanted):
                        line = f'{node.id} = get_ipython().run_cell_magic("submarine", "", "")'
                        self.put([(statement.lineno, line)])

    def code(self, lines: Numbered) -> None:
        """Take transformed code, its calls of ``get_ipython()`` rewritten."""
        self.numbers = self.numbers or tuple(number for number, _ in lines)
        self.put(lines)
        numbers = [number for number, _ in lines]
        source = "\n".join(text for _, text in lines)
        if "get_ipython" not in source:
            return
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # shown where the cell ran
                tree = ast.parse(source)
        except (SyntaxError, ValueError):
            return
        known = KnownNames(self.known, tree)
        edits = [
            edit
            for body in bodies(tree)
            for edit in self.edits(body, known, numbers, is_module=body is tree.body)
        ]
        for number, start, end, code in sorted(edits, reverse=True):
            line = self.lines[number].encode()
            self.lines[number] = (line[:start] + code.encode() + line[end:]).decode().rstrip()

    def edits(
        self, body: list[ast.stmt], known: Container[str], numbers: list[int], *, is_module: bool
    ) -> Iterator[tuple[int, int, int, str]]:
        """Yield line, first and last column (in bytes) and new text of each call in `body`."""
        left = len(body)
        for statement in body:
            for node, call in ipython_calls(statement):
                alone = isinstance(statement, ast.Expr) and statement.value is node
                number = numbers[node.lineno - 1]
                rewrite = self.rewritten(call, known, alone=alone)
                self.take(number, call.typed, rewrite)
                code = rewrite.code
                if code is None:
                    if not alone:  # the name that it is assigned to keeps the notebook's value
                        continue
                    left -= 1
                    code = "" if is_module or left else "pass"
                yield number, node.col_offset, node.end_col_offset or 0, code

    def rewritten(self, call: IPythonCall, known: Container[str], *, alone: bool) -> Rewrite:
        if call.method != "magic":
            return shell_call(call.method, call.text, known)
        if call.magic in RUN_ASIDE and (self.executed or not alone):
            rewrite = Rewrite(None, f"%{call.magic} runs its code aside")
        elif call.magic in WRAPPERS:
            rewrite = self.unwrapped(call, known)
        else:
            rewrite = line_magic(call.magic, call.text, known)
        if rewrite.code is None and not alone and not rewrite.fix:
            return replace(rewrite, fix="take its value in a cell before, in the notebook")
        return rewrite

    def unwrapped(self, call: IPythonCall, known: Container[str]) -> Rewrite:
        code = without_options(call.magic, call.text)
        inner = translate(code, manager=self.manager, known=known)
        self.imports.update(dict.fromkeys(inner.imports))
        return Rewrite(inner.source.strip() or None, f"%{call.magic} is a tool of the notebook")

    def take(self, number: int, text: str, rewrite: Rewrite) -> None:
        self.imports.update(dict.fromkeys(rewrite.imports))
        if rewrite.code is None:
            self.drop(number, text, rewrite.reason)
            if rewrite.fix:
                self.problems.append(Problem(number, text, rewrite.reason, rewrite.fix))

    def drop(self, number: int, text: str, reason: str) -> None:
        self.dropped.append(Dropped(line=number, text=text, reason=reason))

    def put(self, lines: Numbered) -> None:
        for number, text in lines:
            self.lines[number] = text
            self.last = max(self.last, number)
