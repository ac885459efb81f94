"""What the cells of a notebook do to each other: which run, what each reads, binds and changes.

What a cell reads is what its bundle would capture (`submarine_engine.bundle`): the bundle is made
with stand-ins for the values that other cells compute, and what it captures of them, it reads.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import re
import sys
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from submarine_engine.bundle import settings
from submarine_engine.bundle.model import Bundle, Cell, LineSpan
from submarine_engine.bundle.source import FUNCTIONS, Kind, scope_names
from submarine_engine.bundle.statements import Statement, parse
from submarine_engine.bundle.values import constant, is_constant
from submarine_engine.errors import FlowError

_DEFINITIONS = (ast.Import, ast.ImportFrom, *FUNCTIONS, ast.ClassDef)
# What they set goes with every job: their statements do, or what they have come to.
_CARRIED = re.compile(r"os\.environ\b|sys\.path\b")
_MODULES = ("os", "sys", "str")
# Methods that change their object although their value is used: `history = model.fit(x)`.
_CHANGING = re.compile(
    r"(?:partial_)?fit(?:_transform|_predict|_resample)?|train(?:_\w+)?|learn|update(?:_\w+)?|pop"
    r"|popitem|popleft|setdefault|append|extend|add|insert|remove|discard|clear|sort|reverse|step"
    r"|load_state_dict|load_weights|reset\w*|set_\w+|register\w*|push|put|write\w*|\w+_",
)
# Functions of libraries that change what they are given.
_GIVEN = frozenset({"shuffle", "heappush", "heappop", "heapify", "insort", "setattr", "delattr"})


class Pending:
    """Stands for a value that another node of the flow will have computed."""


@dataclass(frozen=True, slots=True)
class Effects:
    """What a cell's own statements do.

    Parameters
    ----------
    runs
        Whether it does anything but define: then it is, or is in, a node.
    binds
        Names that it leaves with values that it has computed.
    defines
        Names that its definitions bind, or that it deletes: no value of them is left.
    statements
        All of them.
    """

    runs: bool
    binds: tuple[str, ...]
    defines: tuple[str, ...]
    statements: tuple[Statement, ...]


def effects(cell: Cell, defined: Collection[str]) -> Effects:
    """Tell definitions from what runs.

    Parameters
    ----------
    cell
        In plain Python that parses.
    defined
        Names that definitions of cells above bind.
    """
    known = set(defined)
    runs, binds, defines = False, dict[str, None](), dict[str, None]()
    statements = tuple(parse(cell.source).statements)
    for statement in statements:
        if _only_defines(statement, known):
            known.update(statement.binds)
            defines.update(dict.fromkeys(statement.binds))
            for name in statement.binds:
                binds.pop(name, None)
            continue
        runs = True
        for name, kind in statement.binds.items():
            (defines if kind is Kind.DELETE else binds)[name] = None
            (binds if kind is Kind.DELETE else defines).pop(name, None)
    return Effects(runs, tuple(binds), tuple(defines), statements)


def _only_defines(statement: Statement, defined: Collection[str]) -> bool:
    node = statement.node
    if isinstance(node, (*_DEFINITIONS, ast.Pass)):
        return True
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return True
    names = list(statement.binds)
    if names and isinstance(node, (ast.Assign, ast.AnnAssign)):
        return all(is_constant(node, name) for name in names)
    return _sets(node, defined)


def _sets(node: ast.stmt, defined: Collection[str]) -> bool:
    """Return whether a statement sets what goes along with every job, or adds to a definition."""
    target = settings.target_of(node)
    if target is None:
        return False
    root, rest = target
    if root in defined and isinstance(node, ast.Assign):
        return not rest or _adds(node, root)
    text = ast.unparse(node)
    if _CARRIED.match(text):
        return _is_literal(node)
    return settings.is_setting(".".join((root, *rest)), {root}) or bool(settings.seeded(text))


def _adds(node: ast.Assign, root: str) -> bool:
    """Return whether it is ``Net.forward = forward``."""
    target = node.targets[0]
    return isinstance(target, ast.Attribute) and ast.unparse(target.value) == root


def _is_literal(node: ast.stmt) -> bool:
    """Return whether it reads no variable of the notebook."""
    return all(one.id in _MODULES for one in ast.walk(node) if isinstance(one, ast.Name))


def changed(statements: Sequence[Statement], functions: Mapping[str, ast.AST]) -> frozenset[str]:
    """Return the names of what the code of a cell changes in place, as far as it shows.

    Parameters
    ----------
    statements
        The cell's own.
    functions
        The notebook's functions and classes by name: what they change of what they are given, and
        of the notebook's variables, counts for who calls them.
    """
    found: set[str] = set()
    for statement in statements:
        node: ast.AST = statement.node
        if statement is statements[-1] and isinstance(node, ast.Expr):
            node = node.value  # its value is shown: `df.head()`
        found |= _changes(node, functions, frozenset())
    return frozenset(found)


_MOST_CALLS = 8


def _changes(node: ast.AST, functions: Mapping[str, ast.AST], within: frozenset[str]) -> set[str]:
    """Return the names whose objects the code changes; `within` are the functions on the way."""
    found: set[str] = set()
    for one in ast.walk(node):
        if isinstance(one, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Delete, ast.For)):
            targets = one.targets if isinstance(one, (ast.Assign, ast.Delete)) else [one.target]
            for target in targets:
                for part in ast.walk(target):
                    if isinstance(part, (ast.Attribute, ast.Subscript)):
                        found |= _root(part)
                    elif isinstance(one, ast.AugAssign) and isinstance(part, ast.Name):
                        found.add(part.id)
        elif isinstance(one, ast.Expr) and isinstance(one.value, ast.Call):
            found |= _done_to(one.value)
        if isinstance(one, ast.Call):
            found |= _of_call(one, functions, within)
    return found


def _done_to(call: ast.Call) -> set[str]:
    """Return the names that a call is for, whose value nobody takes: ``model.reset()``."""
    function = call.func
    if isinstance(function, ast.Attribute):
        return _root(function)
    return set()


def _of_call(call: ast.Call, functions: Mapping[str, ast.AST], within: frozenset[str]) -> set[str]:
    function = call.func
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    if isinstance(function, ast.Attribute):
        found = set[str]()
        if _CHANGING.fullmatch(function.attr):
            found |= _root(function.value)
        if function.attr in _GIVEN:
            found |= set[str]().union(*map(_root, given))
        return found
    if not isinstance(function, ast.Name):
        return set()
    if function.id in _GIVEN:
        return set[str]().union(*map(_root, given))
    body = functions.get(function.id)
    if body is None or function.id in within or len(within) > _MOST_CALLS:
        return set()
    inner = _changes(body, functions, within | {function.id})
    if not isinstance(body, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return inner  # a class: what it does to what it is given is its objects' own
    return _passed(call, body, inner)


def _passed(
    call: ast.Call, body: ast.FunctionDef | ast.AsyncFunctionDef, inner: set[str]
) -> set[str]:
    """Return what is changed for the caller: arguments whose parameters are, and variables."""
    parameters = [one.arg for one in (*body.args.posonlyargs, *body.args.args)]
    every = {*parameters, *(one.arg for one in body.args.kwonlyargs)}
    found = inner - every
    for value, name in zip(call.args, parameters, strict=False):
        if name in inner:
            found |= _root(value)
    for keyword in call.keywords:
        if keyword.arg in inner:
            found |= _root(keyword.value)
    return found


def _root(node: ast.AST) -> set[str]:
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Starred)):
        node = node.value
    if isinstance(node, ast.Name) and not hasattr(builtins, node.id):
        return {node.id}
    return set()


def functions_of(cells: Iterable[Effects]) -> dict[str, ast.AST]:
    """Return the functions and classes that `cells` define, the last of each name."""
    return {
        name: statement.node
        for one in cells
        for statement in one.statements
        if isinstance(statement.node, (*FUNCTIONS, ast.ClassDef))
        for name in statement.binds
    }


def carried(cells: Iterable[Cell], *, seeds: bool = True) -> Iterator[str]:
    """Yield what `cells` set for all that follow, each as code that runs by itself.

    Those are variables of the environment, folders of modules, and, with `seeds`, the seeds of
    random numbers.
    """
    imports: dict[str, str] = {}
    for cell in cells:
        if not (_CARRIED.search(cell.source) or "seed" in cell.source or "import" in cell.source):
            continue
        for statement in parse(cell.source).statements:
            node = statement.node
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                imports.update(dict.fromkeys(statement.binds, ast.unparse(node)))
                continue
            text = ast.unparse(node) if isinstance(node, (ast.Expr, ast.Assign)) else ""
            path = bool(_CARRIED.match(text)) and _is_literal(node)
            if path or (seeds and isinstance(node, ast.Expr) and settings.seeded(text)):
                names = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
                yield "\n".join([*(imports[name] for name in names & imports.keys()), text])


@contextmanager
def stars_loaded(cells: Iterable[Cell], root: Path) -> Iterator[None]:
    """Have the modules whose names cells import by a star loaded: nothing else tells these names.

    Parameters
    ----------
    cells
        Those that count as executed, and the one to come.
    root
        The notebook's folder; modules from there are forgotten at the end.

    Raises
    ------
    FlowError
        One cannot be imported here.
    """
    before, path = set(sys.modules), list(sys.path)
    sys.path.insert(0, str(root))
    try:
        for cell in cells:
            if "*" not in cell.source:
                continue
            for statement in parse(cell.source).statements:
                for module in statement.reads(lazy=False).stars:
                    _load(module, f"{cell.label}, line {statement.node.lineno}")
        yield
    finally:
        sys.path[:] = path
        for name in sys.modules.keys() - before:
            if Path(getattr(sys.modules[name], "__file__", None) or "/").is_relative_to(root):
                del sys.modules[name]


def _load(module: str, where: str) -> None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the job's own run shows them
            importlib.import_module(module)
    except Exception as error:
        raise FlowError(
            f"which names `from {module} import *` binds cannot be told here:"
            f" {type(error).__name__}: {error}",
            where=where,
            fix="name in the cell what it imports, or install the module here",
        ) from error


# Several plain cells that run as one node.


def joined(cells: Sequence[Cell]) -> Cell:
    """Return `cells` one below the other, as one that goes by the number of the first."""
    if len(cells) == 1:
        return cells[0]
    imports = dict.fromkeys(line for cell in cells for line in cell.imports)
    return replace(
        cells[0],
        source="\n".join(cell.source.rstrip("\n") for cell in cells),
        raw="",
        dropped=(),
        imports=tuple(imports),
    )


def constants(cells: Sequence[Cell]) -> dict[str, object]:
    """Return the literals that names are bound to when `cells` have run, as a kernel has them.

    Names that anything else binds later are left out.
    """
    found: dict[str, object] = {}
    for cell in cells:
        for statement in parse(cell.source).statements:
            for name in statement.binds:
                found.pop(name, None)
                if is_constant(statement.node, name):
                    found[name] = constant(statement.node, name)
    return found


def as_in_a_kernel(bundle: Bundle, cells: Sequence[Cell], above: Sequence[Cell]) -> Bundle:
    """Return the bundle of `joined` cells as a kernel that has run those above would make it.

    Each line is at the cell that it is of, and names are known that the kernel would have.

    Parameters
    ----------
    bundle
        Of all cells as one.
    cells
        The job's own cells, joined.
    above
        The cells before them.
    """
    nodes = [one.node for cell in cells for one in parse(cell.source).statements]
    bound, _ = scope_names(nodes)
    known = {name for cell in above for one in parse(cell.source).statements for name in one.binds}
    shadows = tuple(sorted(bound.intersection((*known, *bundle.manifest.shadows))))
    lines = bundle.manifest.lines
    if len(cells) > 1:
        owners = list(_owners(cells))
        lines = tuple(part for span in lines for part in _split(span, cells[0].number, owners))
    return replace(
        bundle, manifest=replace(bundle.manifest, lines=lines, shadows=shadows), _hash=[]
    )


def _owners(cells: Sequence[Cell]) -> Iterator[tuple[Cell, int]]:
    """Yield for each line of joined cells its cell, and its number there."""
    for cell in cells:
        for number, _ in enumerate(cell.source.rstrip("\n").split("\n"), 1):
            yield cell, number


def _split(
    span: LineSpan, number: int | None, owners: Sequence[tuple[Cell, int]]
) -> Iterator[LineSpan]:
    if span.cell_number != number:
        yield span
        return
    for offset in range(span.count):
        at = span.cell_line + offset - 1
        if at >= len(owners):
            return
        cell, line = owners[at]
        yield LineSpan(
            file=span.file,
            line=span.line + offset,
            count=1,
            cell=cell.label,
            cell_id=cell.id,
            cell_number=cell.number,
            cell_line=line,
        )
