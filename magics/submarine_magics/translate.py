"""A cell as the user typed it becomes plain Python, line for line."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Container, Iterator
from dataclasses import dataclass, replace

from IPython.core.inputtransformer2 import TransformerManager
from submarine_engine.bundle import Dropped
from submarine_engine.bundle.source import UNREADABLE
from submarine_engine.command import parse_cell
from submarine_engine.errors import CommandError

from submarine_magics.aligned import Numbered, cell_magic, cleaned, is_plain, numbered, transformed
from submarine_magics.magic_lines import (
    INTERACTIVE,
    RUN_ASIDE,
    WRAPPERS,
    Rewrite,
    cell_magic_code,
    interactive,
    line_magic,
    shell_call,
    without_options,
)

# What becomes of a cell that is translated to plain Python.


@dataclass(frozen=True, slots=True)
class Problem:
    """A line that the job needs, and that has no place in a script."""

    line: int
    text: str
    what: str
    fix: str


@dataclass(frozen=True, slots=True)
class Translation:
    """A cell in plain Python.

    Parameters
    ----------
    source
        Line N of it is line N of the cell.
    dropped
        Lines that are left out.
    problems
        Those of them that change what the cell does, had it to run in a job.
    imports
        Import statements that the translation relies on, in no line of the cell.
    numbers
        By the lines of the cell as IPython compiles it (from 0): their numbers in the cell. Empty
        where they are the same.
    magic
        Name of the cell magic around the cell; empty where there is none.
    """

    source: str
    dropped: tuple[Dropped, ...] = ()
    problems: tuple[Problem, ...] = ()
    imports: tuple[str, ...] = ()
    numbers: tuple[int, ...] = ()
    magic: str = ""


# The calls of ``get_ipython()`` in code, as IPython's transformer makes them.


@dataclass(frozen=True, slots=True)
class IPythonCall:
    """What a call of ``get_ipython()`` asks for.

    Parameters
    ----------
    method
        ``magic``, or for the shell ``system`` and ``getoutput``.
    magic
        The magic's name; empty for the shell.
    text
        The rest of the line.
    """

    method: str
    magic: str
    text: str

    @property
    def typed(self) -> str:
        """How a user types it."""
        if self.method == "magic":
            return f"%{self.magic} {self.text}".strip()
        return f"!{self.text}"


class KnownNames:
    """Names that have a value: in the notebook, or by the code of `tree` itself.

    Parameters
    ----------
    outer
        Names that have a value in the notebook.
    tree
        The code: what it binds anywhere counts.
    """

    def __init__(self, outer: Container[str], tree: ast.AST) -> None:
        self.outer = outer
        self.own = set(_bound(tree))

    def __contains__(self, name: object) -> bool:
        return name in self.own or name in self.outer


def bodies(tree: ast.AST) -> Iterator[list[ast.stmt]]:
    """Yield every list of statements in `tree`."""
    for node in ast.walk(tree):
        for field in ("body", "orelse", "finalbody"):
            body = getattr(node, field, None)
            if isinstance(body, list) and body:
                yield body


def ipython_calls(statement: ast.stmt) -> Iterator[tuple[ast.Call, IPythonCall]]:
    """Yield the calls on one line in `statement`, but not those of statements inside it."""
    todo: list[ast.AST] = [statement]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Call) and node.lineno == node.end_lineno:
            call = _ipython_call(node)
            if call is not None:
                yield node, call
                continue
        todo += [
            child
            for child in ast.iter_child_nodes(node)
            if not isinstance(child, (ast.stmt, ast.ExceptHandler, ast.match_case))
        ]


def _bound(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.alias):
            yield (node.asname or node.name).partition(".")[0]


def _ipython_call(node: ast.Call) -> IPythonCall | None:
    function = node.func
    if not isinstance(function, ast.Attribute) or not isinstance(function.value, ast.Call):
        return None
    if getattr(function.value.func, "id", "") != "get_ipython":
        return None
    words = [str(arg.value) for arg in node.args if isinstance(arg, ast.Constant)]
    if node.keywords or len(words) != len(node.args) or not words:
        return None
    return _named(function.attr, words)


def _named(method: str, words: list[str]) -> IPythonCall | None:
    if method in ("system", "getoutput") and len(words) == 1:
        return IPythonCall(method, "", words[0])
    if method == "run_line_magic":
        return IPythonCall("magic", words[0].lstrip("%"), " ".join(words[1:]))
    if method == "magic" and len(words) == 1:
        name, _, line = words[0].partition(" ")
        return IPythonCall("magic", name.lstrip("%"), line.strip())
    return None


# ``%time`` and ``%%time`` in a job: a small class of the script prints what they print.


NAME = "IPythonClock"

CLOCK = f'''class {NAME}:
    """Prints how long code took, as IPython's %time does."""

    started = []

    @classmethod
    def start(cls):
        cls.started.append(cls.now())
        return cls

    @classmethod
    def stop(cls, value=None):
        spent = [b - a for a, b in zip(cls.started.pop(), cls.now())]
        wall, user, system, total = map(cls.text, (*spent, spent[1] + spent[2]))
        print(f"CPU times: user {{user}}, sys: {{system}}, total: {{total}}")
        print(f"Wall time: {{wall}}")
        return value

    @staticmethod
    def now():
        import resource
        import time

        return time.perf_counter(), *resource.getrusage(resource.RUSAGE_SELF)[:2]

    @staticmethod
    def text(seconds):
        import sys

        if seconds < 60:
            seconds = float(f"{{seconds:.3g}}")
            micro = "μs" if str(sys.stdout.encoding).lower().startswith("utf") else "us"
            for unit, factor in (("s", 1), ("ms", 1e3), (micro, 1e6), ("ns", 1e9)):
                if seconds * factor >= 1 or unit == "ns":
                    return f"{{seconds * factor:.3g}} {{unit}}"
        minutes, seconds = divmod(round(seconds), 60)
        hours, minutes = divmod(minutes, 60)
        return f"{{hours}}h " * (hours > 0) + f"{{minutes}}min {{seconds}}s"
'''

START = f"{NAME}.start()"
STOP = f"{NAME}.stop()"

Edit = tuple[int, int, str]
"""Text to insert: at which line (from 1) and column (in bytes) of the source."""


def timed_expression(code: str) -> str | None:
    """Return an expression that gives what `code` gives, timed; None where that is no expression.

    A comment behind it stays there.
    """
    try:
        [statement] = ast.parse(code).body  # a ValueError where there are several
    except UNREADABLE:
        return None
    if not isinstance(statement, ast.Expr):
        return None
    text = ast.get_source_segment(code, statement) or ""
    value = f"({text})" if isinstance(statement.value, ast.Tuple) else text
    return f"{NAME}.start().stop({value}){code[len(text) :]}"


def timed_line(code: str) -> str | None:
    """Return simple statements on one line, timed; None where there is no such line for them.

    Parameters
    ----------
    code
        The statements, as they follow ``%time``.
    """
    try:
        body = ast.parse(code).body
    except UNREADABLE:
        return None
    if not body or "\n" in code or any(_is_compound(node) for node in body):
        return None
    value = _value(body[0])
    if len(body) == 1 and value is not None:
        return _inserted(code, _around(value, f"{NAME}.start().stop("))
    end = body[-1].end_col_offset or 0  # a comment may follow
    return _inserted(code, [(1, 0, f"{START}; "), (1, end, f"; {STOP}")])


def stop_at_end(source: str) -> list[Edit] | None:
    """Return what makes the last statement of a timed cell stop the clock and keep its value.

    Parameters
    ----------
    source
        The cell in plain Python, without its magic.

    Returns
    -------
    list or None
        None where `STOP` is to follow in a line of its own.
    """
    try:
        body = ast.parse(source).body
    except UNREADABLE:
        return []
    last = body[-1] if body else None
    if last is None or (value := _value(last)) is None:
        return None
    if isinstance(last, ast.Expr) and _names_alone(value):
        # A cell's names come home by being shown: the expression stays as it is.
        return [(last.lineno, last.col_offset, f"{STOP}; ")]
    return _around(value, f"{NAME}.stop(")


def _last_future(source: str) -> int:
    """Return the line at which the imports from the future end; 0 where there are none."""
    try:
        body = ast.parse(source).body
    except UNREADABLE:
        return 0
    found = 0
    for index, node in enumerate(body):
        text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            found = node.end_lineno or 0
        elif index or not text:
            break
    return found


def _value(node: ast.stmt) -> ast.expr | None:
    if isinstance(node, (ast.Expr, ast.Assign, ast.AugAssign, ast.AnnAssign)):
        return node.value
    return None


def _names_alone(value: ast.expr) -> bool:
    items = value.elts if isinstance(value, ast.Tuple) else [value]
    return all(isinstance(item, ast.Name) for item in items)


def _is_compound(node: ast.stmt) -> bool:
    return hasattr(node, "body") or isinstance(node, ast.Match)


def _around(value: ast.expr, call: str) -> list[Edit]:
    # Parentheses are not in a node's range, and a tuple may have none.
    bare = isinstance(value, ast.Tuple)
    begin = (value.lineno, value.col_offset, call + "(" * bare)
    return [begin, (value.end_lineno or 0, value.end_col_offset or 0, ")" * (1 + bare))]


def _inserted(line: str, edits: list[Edit]) -> str:
    for _, column, text in sorted(edits, reverse=True):
        line = _replaced(line, column, column, text)
    return line


def _replaced(line: str, start: int, end: int, text: str) -> str:
    """Return `line` with `text` in place of its bytes from `start` to `end`."""
    encoded = line.encode("utf-8", "surrogatepass")
    changed = encoded[:start] + text.encode("utf-8", "surrogatepass") + encoded[end:]
    return changed.decode("utf-8", "surrogatepass")


# A cell as the user typed it → plain Python, line for line.
#
# IPython's own transformer finds its syntax; what it turns into calls of ``get_ipython()`` is then
# written as a person would: ``!ls`` becomes ``subprocess.run("ls", shell=True)``. Lines that only
# make sense in a notebook are left out and listed.


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
            self.wrapped(name, first, body)
        else:
            rewrite, body = cell_magic_code(name, line, body, self.known)
            self.take(first[0], first[1], rewrite)
            self.put([(first[0], rewrite.code or ""), *body])

    def wrapped(self, name: str, first: tuple[int, str], body: Numbered) -> None:
        if name in RUN_ASIDE:
            self.take(first[0], first[1], self.aside(f"%%{name}"))
            return
        if name in INTERACTIVE and not self.executed:
            self.take(first[0], first[1], interactive(f"%%{name}"))
            return
        timed = name == "time" and not self.executed
        if not timed:
            self.drop(first[0], first[1], f"%%{name} is a tool of the notebook; its code is kept")
        if body:
            self.cell(body)
        if timed:
            self.imports[CLOCK] = None
            self.stop_clock()
            self.start_clock(first[0])

    def aside(self, typed: str) -> Rewrite:
        """Return what becomes of code that runs many times and leaves nothing behind."""
        reason = f"{typed} runs its code many times, apart from the notebook"
        fix = "" if self.executed else "time the cell by %%time, or run this one in the notebook"
        return Rewrite(None, reason, fix)

    def start_clock(self, number: int) -> None:
        """Start the clock on the magic's line.

        Imports from the future come first, so they move up by a line: nothing can happen in them.
        """
        future = _last_future(self.result().source)
        for above in range(number, future):
            self.lines[above] = self.lines.get(above + 1, "")
        self.put([(max(number, future), START)])

    def stop_clock(self) -> None:
        """Stop the clock that was started for the cell, with the last of its statements."""
        edits = stop_at_end(self.result().source)
        if edits is None:
            self.put([(self.last + 1, STOP)])
        for number, column, text in sorted(edits or (), reverse=True):
            self.lines[number] = _replaced(self.lines[number], column, column, text)

    def only_results(self, options: str) -> None:
        """Leave of a cell that ran as a job only that it bound what it brought back."""
        source = self.result().source
        self.lines.clear()
        try:
            body = ast.parse(source).body
        except UNREADABLE:
            return
        wanted = _outputs(options)
        for statement in body:
            for target in getattr(statement, "targets", [getattr(statement, "target", None)]):
                for node in ast.walk(target) if target else ():
                    if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Store):
                        continue
                    if statement is body[-1] or node.id in wanted:
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
        except UNREADABLE:
            return
        known = KnownNames(self.known, tree)
        edits = [
            edit
            for body in bodies(tree)
            for edit in self.edits(body, known, numbers, is_module=body is tree.body)
        ]
        for number, start, end, code in sorted(edits, reverse=True):
            self.lines[number] = _replaced(self.lines[number], start, end, code).rstrip()

    def edits(
        self, body: list[ast.stmt], known: Container[str], numbers: list[int], *, is_module: bool
    ) -> Iterator[tuple[int, int, int, str]]:
        """Yield line, first and last column (in bytes) and new text of each call in `body`."""
        left = len(body)
        for statement in body:
            for node, call in ipython_calls(statement):
                alone = isinstance(statement, ast.Expr) and statement.value is node
                number = numbers[node.lineno - 1]
                rewrite = self.rewritten(call, known, alone=alone, is_module=is_module)
                self.take(number, call.typed, rewrite)
                code = rewrite.code
                if code is None:
                    if not alone:  # the name that it is assigned to keeps the notebook's value
                        continue
                    left -= 1
                    code = "" if is_module or left else "pass"
                yield number, node.col_offset, node.end_col_offset or 0, code

    def rewritten(
        self, call: IPythonCall, known: Container[str], *, alone: bool, is_module: bool
    ) -> Rewrite:
        if call.method != "magic":
            return shell_call(call.method, call.text, known)
        if call.magic in RUN_ASIDE:
            rewrite = self.aside(f"%{call.magic}")
        elif call.magic == "run" and (self.executed or not alone):
            # What it has run is among the cells, see `cells`.
            rewrite = Rewrite(None, "it runs another file in the notebook")
        elif call.magic in INTERACTIVE and not self.executed:
            rewrite = interactive(f"%{call.magic}")
        elif call.magic in WRAPPERS:
            timed = call.magic == "time" and not (self.executed and is_module)
            rewrite = self.unwrapped(call, known, timed=timed, alone=alone)
        else:
            rewrite = line_magic(call.magic, call.text, known)
        if rewrite.code is None and not alone and not rewrite.fix:
            return replace(rewrite, fix="take its value in a cell before, in the notebook")
        return rewrite

    def unwrapped(
        self, call: IPythonCall, known: Container[str], *, timed: bool, alone: bool
    ) -> Rewrite:
        text = without_options(call.magic, call.text)
        inner = translate(text, manager=self.manager, known=known)
        code = inner.source.strip()
        code = "" if code.startswith("#") else code  # a comment alone is no statement
        if timed and code:
            with_clock = timed_line(code) if alone else timed_expression(code)
            if with_clock is not None:
                return Rewrite(with_clock, imports=(*inner.imports, CLOCK))
            if not alone:
                what = "only an expression has a value to assign"
                return Rewrite(None, what, "assign below %time: %time x = f()")
        return Rewrite(
            code or None, f"%{call.magic} is a tool of the notebook", imports=inner.imports
        )

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
