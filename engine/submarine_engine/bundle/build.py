"""From executed cells, or the call of a function, to a bundle.

A cell that only defines is executed in the notebook, too; one that asks a person is refused, since
a job has no keyboard.
"""

from __future__ import annotations

import ast
import builtins
import difflib
import functools
import inspect
import keyword
import linecache
import platform
import re
import sys
import types
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

from submarine_runtime.home import containers_of
from submarine_runtime.lean import type_name

from submarine_engine.bundle import settings
from submarine_engine.bundle.capture import LIMIT, Capture, Loading, Notice, free_name
from submarine_engine.bundle.executed import Executed, Import, Position, importable
from submarine_engine.bundle.maincell import MainCell, take_apart, too_deep
from submarine_engine.bundle.model import (
    Bundle,
    Cell,
    CompiledCode,
    Definition,
    Dropped,
    LoadedFile,
    MadeAgain,
    Manifest,
    Sent,
    module_name,
)
from submarine_engine.bundle.modules import ModuleValue, travelling_modules
from submarine_engine.bundle.needs import (
    Builtin,
    Defined,
    Imported,
    Needs,
    NeedsPlainError,
    NeedsSourceError,
    NeedsValueError,
    Origins,
)
from submarine_engine.bundle.pickling import refuse_together
from submarine_engine.bundle.script import (
    IPYTHON_SYNTAX,
    THE_CALL,
    Script,
    ScriptPlan,
    compose,
    plan,
)
from submarine_engine.bundle.secrets import declared, is_secret
from submarine_engine.bundle.source import FUNCTIONS, LINE, lambda_source, literal, scope_names
from submarine_engine.bundle.statements import Statement
from submarine_engine.bundle.values import assigned_names, is_constant, is_literal
from submarine_engine.errors import BundleError, CannotTravelError, UndefinedNameError

# What of a main cell is executed in the notebook, too: it defines, and has no other effect.


_DEFINITIONS = (ast.Import, ast.ImportFrom, *FUNCTIONS, ast.ClassDef)


def definitions(main: MainCell) -> tuple[Definition, ...]:
    """Return the statements of the main cell that define what later cells need, in their order.

    Imports, functions and classes, and literal constants that one of them reads. One that reads, as
    it runs, a name that the cell computes (a default, a base class, a decorator) is left out: what
    it made comes home as a value.
    """
    lazy = sys.version_info >= (3, 14) or any(map(_asks_for_lazy, main.parsed.statements))
    computed: dict[str, int] = {}
    for statement in main.parsed.statements:
        for name in statement.binds:
            computed[name] = computed.get(name, 0) + 1
    found: list[tuple[Statement, Definition]] = []
    for statement in main.parsed.statements:
        made = {name for one, _ in found for name in one.binds}
        owner = _adds_a_literal(statement, made)
        if not ((_defines(statement) or owner) and statement.alone):
            continue
        if any(name in computed for name in statement.reads(lazy=lazy).now):
            continue
        lines = main.parsed.text(statement)
        lines = [line for line in lines if line[0] >= statement.first]
        source = "\n".join(line for _, line in lines)
        names = (owner,) if owner else tuple(statement.binds)
        found.append((statement, Definition(line=statement.first, source=source, names=names)))
        for name in statement.binds:
            computed[name] -= 1
            if not computed[name]:
                del computed[name]
    read = {name for one, _ in found for name in one.reads(lazy=lazy).now}
    return tuple(
        definition
        for one, definition in found
        if isinstance(one.node, _DEFINITIONS) or read.intersection(definition.names)
    )


def _adds_a_literal(statement: Statement, made: Collection[str]) -> str:
    """Return of which definition a statement sets an attribute: ``register.seen = []``."""
    node = statement.node
    if not isinstance(node, ast.Assign) or len(node.targets) != 1:
        return ""
    target = node.targets[0]
    if not isinstance(target, ast.Attribute) or not isinstance(target.value, ast.Name):
        return ""
    return target.value.id if target.value.id in made and is_literal(node.value) else ""


def _defines(statement: Statement) -> bool:
    if isinstance(statement.node, _DEFINITIONS):
        return True
    names = assigned_names(statement.node)
    return bool(names) and all(is_constant(statement.node, name) for name in names or ())


def _asks_for_lazy(statement: Statement) -> bool:
    node = statement.node
    if not isinstance(node, ast.ImportFrom) or node.module != "__future__":
        return False
    return any(alias.name == "annotations" for alias in node.names)


# Calls that ask a person: refused before the job is submitted where nobody could answer them.


_ANSWER = "ask in the notebook, in a cell above, and use the answer here"
_LOOK = "leave it out, or debug that code in the notebook: without %%submarine it stops there"
_ASKS = {
    "builtins.input": _ANSWER,
    "getpass.getpass": _ANSWER,
    "builtins.breakpoint": _LOOK,
    "pdb.set_trace": _LOOK,
    "pdb.post_mortem": _LOOK,
    "pdb.pm": _LOOK,
    "ipdb.set_trace": _LOOK,
    "IPython.embed": _LOOK,
    "IPython.core.debugger.set_trace": _LOOK,
    "code.interact": _LOOK,
}


def refuse_questions(needs: Needs, rest: Sequence[Statement], *, answered: bool) -> None:
    """Raise for calls that ask a person, in the main cell and in the definitions that it needs.

    Parameters
    ----------
    rest
        The statements that the main cell runs.
    answered
        Whether somebody waits for the job and is asked there: a debugger is refused all the same.

    Raises
    ------
    BundleError
        There are such calls; it names each with its cell and line.
    """
    executed = needs.origins.executed
    statements = [(executed.cell(at), executed.statement(at)) for at in sorted(needs.sources)]
    statements += [(needs.cell, statement) for statement in rest]
    own = _imported([statement.node for statement in rest])
    found = dict.fromkeys(
        (typed, fix, f"{cell.label}, line {line}")
        for cell, statement in statements
        for typed, fix, line in _questions(needs, statement, own)
        if not (answered and fix == _ANSWER)
    )
    if not found:
        return
    (first, fix, where), *others = found
    what = f"`{first}` asks a person, and a job has nobody to ask"
    if others:
        listed = ", ".join(f"`{typed}` ({place})" for typed, _, place in others)
        what += f"; so {'does' if len(others) == 1 else 'do'} {listed}"
    raise BundleError(what, where=where, fix=fix)


def _questions(
    needs: Needs, statement: Statement, own: Mapping[str, Import]
) -> Iterator[tuple[str, str, int]]:
    """Yield the calls in a statement that ask: as typed, the way out, and the line.

    `own` are the imports of what the main cell runs.
    """
    calls = [node for node in ast.walk(statement.node) if isinstance(node, ast.Call)]
    if not calls:
        return
    reads = statement.reads(lazy=needs.lazy)
    of_module = set(reads.now).union(*reads.later.values())
    local = _imported([statement.node])
    for call in sorted(calls, key=lambda call: (call.lineno, call.col_offset)):
        typed = _dotted(call.func)
        root, dot, below = typed.partition(".")
        if root not in of_module:
            meant = _path(local.get(root))
        elif root in needs.main.maybe:
            meant = _path(own.get(root))
        else:
            meant = _meaning(needs, root)
        if fix := _ASKS.get(meant + dot + below):
            yield f"{typed}()", fix, call.lineno


def _meaning(needs: Needs, name: str) -> str:
    """Return the dotted name of what `name` is in the notebook; empty where it is its own."""
    origin = needs.origins.of(name)
    if isinstance(origin, Builtin):
        return f"builtins.{name}"
    return _path(origin.imports[0]) if isinstance(origin, Imported) else ""


def _path(item: Import | None) -> str:
    if item is None:
        return ""
    if item.name is not None:
        return f"{item.module}.{item.name}"
    return item.module if item.asname else item.module.partition(".")[0]


def _imported(nodes: Sequence[ast.stmt]) -> dict[str, Import]:
    """Return the imports anywhere in statements by the names that they bind."""
    found = [
        Import(alias.name, None, alias.asname)
        if isinstance(node, ast.Import)
        else Import(node.module or "", alias.name, alias.asname)
        for statement in nodes
        for node in ast.walk(statement)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in node.names
    ]
    return {item.binds: item for item in found}


def _dotted(node: ast.expr) -> str:
    """Return ``a.b.c`` for an expression that is nothing else; empty for all others."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(names)]) if isinstance(node, ast.Name) else ""


# From executed cells to a bundle.


ENTRY = "script.py"

_MOST_HINTS = 3
_WRITTEN = (list, dict, set, tuple)


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildOptions:
    """What a bundle depends on besides the code and its variables.

    Parameters
    ----------
    limit
        Bytes that all captured values together may take.
    root
        The notebook's folder; Python files there that the code imports travel along.
    tell
        Is told, from another thread, which value takes long, and what a cell that goes through all
        names does not get.
    answered
        Whether somebody waits for the job and answers what its code asks.
    changes
        What was set on modules beside the notebook since they were imported: the module, the class
        in it or nothing, the name, the value.
    held
        Likewise, all that they hold: what a value of the notebook shares stays one object.
    secrets
        Variables of the environment that are secrets: what they hold never becomes text of it.
    hidden
        Names that IPython hides among the builtins, where the cells are of a notebook whose kernel
        is not here: ``display``.
    """

    limit: int = LIMIT
    root: Path | None = None
    tell: Callable[[str], object] | None = None
    answered: bool = False
    changes: Sequence[ModuleValue] = ()
    held: Sequence[ModuleValue] = ()
    secrets: Collection[str] = ()
    hidden: Collection[str] = ()


_PLAIN = BuildOptions()


def build(
    main: Cell,
    cells: Sequence[Cell],
    namespace: Mapping[str, object],
    *,
    options: BuildOptions = _PLAIN,
    outputs: Sequence[str] = (),
) -> Bundle:
    """Make one training script of the cell `main` and what it needs from the others.

    Parameters
    ----------
    main
        The cell that becomes the job. It has not run here.
    cells
        The cells that were executed, in that order, without `main`.
    namespace
        The notebook's variables as they are now.
    options
        What else it goes by, such as the limit of values, the notebook's folder, and who is told.
    outputs
        Names of the script that are wanted back besides its result: they have to be defined.

    Returns
    -------
    Bundle
        The same input gives the same bytes.

    Raises
    ------
    CellSyntaxError
        The cell does not parse.
    UndefinedNameError
        A name that is needed is defined nowhere.
    CannotTravelError
        A value that is needed cannot leave this process.
    CaptureTooLargeError
        The values exceed the limit.
    BundleError
        The cell is empty, or a Python file beside the notebook cannot travel.
    """
    with declared(options.secrets):
        return _build(main, cells, namespace, options, outputs)


def _build(
    main: Cell,
    cells: Sequence[Cell],
    namespace: Mapping[str, object],
    options: BuildOptions,
    outputs: Sequence[str],
) -> Bundle:
    part = take_apart(main)
    cells = [*_of_translation([*cells, main]), *cells]
    package = namespace.get("__package__")
    executed = Executed(
        [*cells, main], part.leading, package=package if isinstance(package, str) else ""
    )
    as_source: dict[str, frozenset[str]] = {}
    by_value: set[str] = set()
    again: list[MadeAgain] = []
    while True:
        origins = Origins(executed, namespace, len(cells), as_source, by_value, options.hidden)
        try:
            notice = Notice(options.tell)
            with notice:
                capture = Capture(options.limit, by_value, notice)
                found = _plan(part, executed, origins, capture, options=options, outputs=outputs)
            found = replace(found, seeks=_seeks(again, origins))
            written = _written(found, namespace)
        except NeedsSourceError as need:
            as_source[need.name] = need.refers
            executed.decorate()  # they fill what its statement makes
            again += [need.again] if need.again else []
        except NeedsValueError as need:
            by_value.add(need.name)
        except NeedsPlainError as need:
            for position, decorators in need.decorators.items():
                executed.leave_out(position, decorators)
        except RecursionError:
            raise too_deep(main) from None
        else:
            if options.tell:
                for line in found.left:
                    options.tell(line)
            bundle = _bundle(found, executed, part, options.root, written=written, again=again)
            made = {one.name: namespace[one.name] for one in again}
            bound, _ = scope_names([one.node for one in part.parsed.statements])
            returns = bundle.manifest.returns
            shadows = tuple(sorted(bound.intersection(namespace))) if returns else ()
            return replace(
                bundle,
                manifest=replace(bundle.manifest, shadows=shadows),
                sent=replace(bundle.sent, again=made),
            )


def _seeks(again: Sequence[MadeAgain], origins: Origins) -> dict[Position, str]:
    """Return what moves files that are opened again to where the notebook has them."""
    found = {}
    for made in again:
        origin = origins.of(made.name)
        if made.place and isinstance(origin, Defined):
            found[origin.position] = f"{made.name}.seek({made.place})"
    return found


def _written(found: ScriptPlan, namespace: Mapping[str, object]) -> dict[str, object]:
    """Return the values with lists, dicts or sets in them that the script writes out."""
    loaded = {name for load in found.captured.loads for name in load.names}
    return {
        name: namespace[name]
        for name in sorted(found.names - loaded, key=str)
        if type(namespace.get(name)) in _WRITTEN
        and any(True for _ in containers_of(namespace[name]))
    }


def _of_translation(cells: Sequence[Cell]) -> list[Cell]:
    """Return a first cell with the imports that IPython's syntax needs as plain Python."""
    lines = sorted({line for cell in cells for line in cell.imports})
    return [Cell(number=None, source="\n".join(lines), file=IPYTHON_SYNTAX)] if lines else []


def _plan(  # noqa: PLR0913 - what a plan is made of
    part: MainCell,
    executed: Executed,
    origins: Origins,
    capture: Capture,
    *,
    options: BuildOptions,
    outputs: Sequence[str],
) -> ScriptPlan:
    root = options.root
    lazy = "annotations" in executed.futures() or sys.version_info >= (3, 14)
    needs = Needs(origins, capture, part.reads(lazy=lazy), part.cell, lazy=lazy)
    index = len(executed.cells) - 1
    needs.follow([(index, number) for number in range(part.leading)], outputs)
    _refuse_missing(needs, executed)
    refuse_questions(needs, part.rest, answered=options.answered)
    if needs.refused:
        raise refuse_together(needs.refused)
    needs.follow_settings()
    if needs.refused:
        raise refuse_together(needs.refused)
    said = settings.sources_before(executed.cells[:-1])
    states = settings.random_states(said, needs.used())
    name = free_name(settings.STATES, origins.known())
    if states:
        needs.keep(name, states)
    paths = settings.added_paths(said, root)
    found = [*options.changes, *needs.shared(options.held)]
    while found and root is not None:
        travel = _modules_of([("imports", needs.import_lines())], root, paths)
        names = set(map(module_name, travel))
        found = [one for one in found if one[0] in names]
        needs.follow_modules(found)
        found = needs.shared(options.held) if found else []
    head = settings.head_lines(paths, settings.changed_environment(said))
    return replace(
        plan(needs),
        head=tuple(head),
        paths=tuple(paths),
        states=(name, tuple(states)) if states else None,
        left=needs.left(),
        held={
            **needs.held,
            **{name: kept.value for name, kept in needs.kept.items() if "." in name},
        },
    )


def _refuse_missing(needs: Needs, executed: Executed) -> None:
    """Raise for names that are defined nowhere, all of them at once."""
    index = len(executed.cells) - 1
    stars = [*needs.main.stars, *(name for (at, _), name in executed.stars() if at == index)]
    modules = [sys.modules.get(name) for name in stars]
    if None in modules:
        return  # nobody knows what that import will bring
    missing = {
        name: place
        for name, place in needs.missing.items()
        if name not in needs.sets and not any(hasattr(module, name) for module in modules)
    }
    if not missing:
        return
    (first, where), *others = missing.items()
    what = f"`{first}` is not defined"
    if where.value:
        what += f", and the value of `{where.value}` was made by it"
    if others:
        listed = ", ".join(f"`{name}` ({place})" for name, place in others)
        what += f", nor {'is' if len(others) == 1 else 'are'} {listed}"
    known = needs.origins.known()
    near = [difflib.get_close_matches(name, known, n=1) for name in missing]
    meant = ", ".join(f"`{names[0]}`" for names in near[:_MOST_HINTS] if names)
    define = "define it in this cell, or in one that was run before"
    raise UndefinedNameError(
        what,
        where=str(where) if where.cell else "",
        fix=f"did you mean {meant}? Else {define}" if meant else define,
    )


def _bundle(  # noqa: PLR0913 - what a bundle is made of
    found: ScriptPlan,
    executed: Executed,
    part: MainCell,
    root: Path | None,
    *,
    written: Mapping[str, object],
    again: Sequence[MadeAgain],
) -> Bundle:
    script = compose(found, executed, part, ENTRY)
    modules = _modules(script, found, root)
    if modules:
        entry = ENTRY
        while entry in modules:
            entry = f"notebook_{entry}"
        local = {Path(name).parts[0].removesuffix(".py") for name in modules}
        script = compose(found, executed, part, entry, local)
    used = {item[0] for item in found.items if isinstance(item, tuple)}
    used |= {item.position[0] for item in found.imports if item.position}
    dropped: list[tuple[str, Dropped]] = []
    for index, cell in enumerate(executed.cells):
        if index in used or cell is part.cell:
            dropped += [(cell.label, line) for line in cell.dropped]
    loads = found.captured.loads
    loaded = {name for load in loads for name in load.names}
    held = {name: value for name, value in found.held.items() if name not in loaded}
    written = {**written, **held}
    seeded = {*(found.states[1] if found.states else ()), *settings.seeded(part.cell.source)}
    returns = part.cell.file is None
    manifest = Manifest(
        entry=script.entry,
        python=platform.python_version(),
        lines=script.spans(),
        values=tuple(found.captured.values),
        dropped=tuple(dropped),
        modules=tuple(modules),
        loader=Loading.among(loads, found.names).load if loads else "",
        loads=tuple(LoadedFile(path=load.path, names=load.names) for load in loads),
        definitions=definitions(part) if returns else (),
        returns=returns,
        random=tuple(settings.source_of(name) for name in sorted(seeded)) if returns else (),
        literals=tuple(written),
        binds=tuple(dict.fromkeys(name for one in part.parsed.statements for name in one.binds))
        if returns
        else (),
        again=tuple(again),
        sets=_set_on_libraries(found, executed, part, modules) if returns else (),
        compiled=tuple(_compiled(found.captured.codes, executed.cells)),
    )
    files = {script.entry: script.text.encode(), **found.captured.files, **modules}
    if any(load.opaque for load in loads):
        files = {**_cloudpickle(), **files}
    sent = Sent(found.captured.sent, written)
    return Bundle(files=files, manifest=manifest, sent=sent, secrets=found.captured.secrets)


def _compiled(codes: Iterable[types.CodeType], cells: Sequence[Cell]) -> Iterator[CompiledCode]:
    """Yield the code that a cell shows, the last one of those that show the same."""
    for code in sorted(codes, key=lambda one: (one.co_filename, one.co_firstlineno)):
        first, last = code.co_firstlineno, _last_line(code)
        lines = [
            line.rstrip("\n") for line in linecache.getlines(code.co_filename)[first - 1 : last]
        ]
        for cell in reversed(cells if any(lines) else ()):
            # IPython compiles a cell without the empty lines that it begins with.
            above = len(cell.raw) - len(cell.raw.lstrip("\n"))
            for text, shift in ((cell.source, 0), (cell.raw, above)):
                if text.split("\n")[first - 1 + shift : last + shift] == lines:
                    break
            else:
                continue
            yield CompiledCode(
                file=code.co_filename,
                line=first,
                source="\n".join(lines),
                cell=cell.label,
                cell_id=cell.id,
                cell_number=cell.number,
                cell_line=first + shift,
            )
            break


def _last_line(code: types.CodeType) -> int:
    inner = (_last_line(one) for one in code.co_consts if isinstance(one, types.CodeType))
    return max((*(line or 0 for _, _, line in code.co_lines()), *inner), default=0)


def _set_on_libraries(
    found: ScriptPlan, executed: Executed, part: MainCell, modules: Mapping[str, bytes]
) -> tuple[str, ...]:
    """Return the attributes of imported modules, and of classes in them, that the code sets."""
    nodes = [statement.node for statement in part.parsed.statements]
    nodes += [executed.statement(item).node for item in found.items if isinstance(item, tuple)]
    typed = {one for node in nodes for one in settings.attributes_set(node)}
    typed |= {name for name in found.held if all(map(str.isidentifier, name.split(".")))}
    imports = {**{item.binds: item for item in found.imports}, **_imported(nodes)}
    own = {*settings.KEPT_APART, *(path.partition("/")[0].removesuffix(".py") for path in modules)}
    paths = set()
    for dotted in typed:
        root, _, rest = dotted.partition(".")
        path = _path(imports.get(root))
        if path and path.partition(".")[0] not in own:
            paths.add(f"{path}.{rest}")
    return tuple(sorted(paths))


def _modules(script: Script, found: ScriptPlan, root: Path | None) -> dict[str, bytes]:
    if root is None:
        return {}
    referred = "".join(f"import {name}\n" for name in found.captured.modules)
    sources = [(script.entry, script.text), ("values", referred)]
    return _modules_of(sources, root, found.paths)


def _modules_of(
    sources: Sequence[tuple[str, str]], root: Path, paths: Sequence[str]
) -> dict[str, bytes]:
    modules = travelling_modules(sources, root)
    for path in paths:
        # Where the job cannot see that folder, what it imports from there lies beside the script.
        more = [(name, content.decode("utf-8", "replace")) for name, content in modules.items()]
        with suppress(BundleError):  # the job may find it in its own place
            modules = {**travelling_modules([*sources, *more], Path(path)), **modules}
    return modules


def _cloudpickle() -> dict[str, bytes]:
    """Return the files of cloudpickle: the job's Python may be without it."""
    folder = Path(str(find_spec("cloudpickle").origin)).parent  # type: ignore[union-attr]
    return {f"cloudpickle/{file.name}": file.read_bytes() for file in sorted(folder.glob("*.py"))}


# A function call as a job: the script ends in the call, written as a person would write it.


_WIDTH = LINE - 4  # the call stands in a block
_HISTORY = re.compile(r"_+|_i?\d+|_i+|In|Out")


def build_call(  # noqa: PLR0913 - what a call is made from, each by its name
    function: Callable[..., object],
    args: Sequence[object],
    kwargs: Mapping[str, object],
    cells: Sequence[Cell],
    namespace: Mapping[str, object],
    *,
    options: BuildOptions = _PLAIN,
) -> Bundle:
    """Make one training script that ends in ``function(*args, **kwargs)``.

    Parameters
    ----------
    function
        A function or a class of the notebook or of a module, a method, a `functools.partial`, a
        callable value, a lambda. One that a function has made travels by value.
    args, kwargs
        Small ones are written out, what has a name goes by that name, others travel as values.
    cells, namespace, options
        As for `build`.

    Raises
    ------
    CannotTravelError
        The function has no source to travel by, or a value cannot leave this process.
    UndefinedNameError, CaptureTooLargeError, BundleError
        As for `build`.
    """
    call = _Call(cells, namespace)
    with declared(options.secrets):
        source = call.source(function, args, kwargs)
    main = Cell(number=None, source=source, file=THE_CALL)
    try:
        known = {**namespace, **call.values}
        return build(main, cells, known, options=options)
    except CannotTravelError as error:
        error.where = error.where or THE_CALL
        raise


class _Call:
    """Writes a call, and collects the values that it needs under names of its own."""

    def __init__(self, cells: Sequence[Cell], namespace: Mapping[str, object]) -> None:
        self.namespace = namespace
        self.values: dict[str, object] = {}
        self._imports: dict[str, None] = {}
        self._before: list[str] = []
        self._taken: set[str] = set()
        self._executed = Executed(cells)
        self._names: dict[int, list[str]] = {}
        for name, value in namespace.items():
            if name.isidentifier() and not _HISTORY.fullmatch(name):
                self._names.setdefault(id(value), []).append(name)

    def source(
        self, function: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object]
    ) -> str:
        """Return the source of a cell that makes the call."""
        while isinstance(function, functools.partial):
            args = (*function.args, *args)
            kwargs = {**function.keywords, **kwargs}
            function = function.func
        called = self.called(function)
        given = [
            self.value(value, hint)
            for value, hint in zip(args, _hints(function, len(args)), strict=True)
        ]
        odd = {}
        for name, value in kwargs.items():
            if name.isidentifier() and not keyword.iskeyword(name):
                given.append(f"{name}={self.value(value, name)}")
            else:
                odd[name] = value
        if odd:
            given.append(f"**{self.value(odd, 'options')}")
        line = _laid_out(called, given)
        if inspect.iscoroutinefunction(function):
            self._imports["import asyncio"] = None
            line = f"asyncio.run({called}({', '.join(given)}))"
        return "\n".join([*self._imports, *self._before, line])

    def called(self, function: Callable[..., object]) -> str:
        """Return an expression for what is called."""
        name = getattr(function, "__name__", type(function).__name__)
        if known := self.known(function, name):
            return known
        if isinstance(function, types.MethodType):
            owner = function.__self__
            kind = owner if isinstance(owner, type) else type(owner)
            return f"{self.value(owner, kind.__name__.lower())}.{function.__name__}"
        if imported := self.imported(function):
            return imported
        if not isinstance(function, (types.FunctionType, type)):
            return self.value(function, name.lower())
        if isinstance(function, types.FunctionType) and name == "<lambda>":
            return self.written(function) or self.value(function, "function")
        if "<locals>" in function.__qualname__:
            return self.value(function, name)  # no name leads to it: it travels by value
        raise CannotTravelError(
            f"`{name}` is another {type_name(function)} now: it was defined again",
            where=THE_CALL,
            fix="pass the one that has the name now",
        )

    def written(self, function: types.FunctionType) -> str | None:
        """Write out a lambda; None where its source is not all of it."""
        source = lambda_source(function)
        if source is None or function.__code__.co_freevars:
            return None
        name = self.free("function")
        self._before.append(f"{name} = {source}")
        return name

    def value(self, value: object, hint: str) -> str:
        """Return an expression for a value that the call is given."""
        simple = isinstance(value, (int, float, complex, str, bytes, tuple, type(None)))
        known = self.known(value, hint)
        secret = is_secret(hint, value)
        if secret and not (known and is_secret(known, value)):
            known = self.free(hint)
            self.values[known] = value
        if known and (secret or not simple):
            return known
        written = literal(value)
        if written is not None and "\n" not in written and len(written) <= _WIDTH // 2:
            return written
        if known:
            return known
        if isinstance(value, types.ModuleType):
            self._imports[f"import {value.__name__}"] = None
            return value.__name__
        if isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)) and (
            imported := self.imported(value)
        ):
            return imported
        name = self.free(hint)
        self.values[name] = value
        return name

    def known(self, value: object, hint: str) -> str | None:
        """Return the name that the notebook has for `value`, `hint` if it is one of them."""
        names = self._names.get(id(value), [])
        public = [name for name in names if not name.startswith("_")]
        return hint if hint in names else next(iter([*public, *names]), None)

    def imported(self, value: object) -> str | None:
        """Import `value` from its module, and return how it is called then."""
        home = importable(value)
        if home is None:
            return None
        module, qualname = home
        if module == "builtins" and qualname not in self.namespace:
            return qualname
        top, _, rest = qualname.partition(".")
        name = top
        plain = f"from {module} import {top}"
        if plain not in self._imports and self._means_something(top):
            name = self.free(top)
            self._imports[f"{plain} as {name}"] = None
        else:
            self._imports[plain] = None
            self._taken.add(top)
        return f"{name}.{rest}" if rest else name

    def free(self, hint: str) -> str:
        """Return a name that means nothing yet, like `hint`."""
        base = re.sub(r"\W", "_", hint).strip("_") or "value"
        name, count = base, 1
        while not name.isidentifier() or self._means_something(name):
            count += 1
            name = f"{base}_{count}" if base.isidentifier() else f"value_{count}"
        return name

    def _means_something(self, name: str) -> bool:
        return (
            name in self.namespace
            or name in self.values
            or name in self._taken
            or hasattr(builtins, name)
            or keyword.iskeyword(name)
            or self._executed.last(name) is not None
        )


def _hints(function: Callable[..., object], count: int) -> list[str]:
    """Return what the positional arguments are called by the function."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # builtins do not tell
        parameters = []
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [parameter.name for parameter in parameters if parameter.kind in positional]
    return [*names, *["argument"] * count][:count]


def _laid_out(called: str, given: Sequence[str]) -> str:
    """Return the call as ``ruff format`` leaves it, inside a block."""
    flat = ", ".join(given)
    line = f"{called}({flat})"
    if len(line) <= _WIDTH:
        return line
    if len(flat) + 4 <= _WIDTH:
        return f"{called}(\n    {flat}\n)"
    return "\n".join([f"{called}(", *(f"    {argument}," for argument in given), ")"])
