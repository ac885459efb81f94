"""A notebook becomes a flow: cells to nodes, what travels between them, and their bundles."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from submarine_runtime.home import containers_of

from submarine_engine.bundle import BuildOptions, Bundle, Cell, build
from submarine_engine.bundle.maincell import take_apart
from submarine_engine.bundle.model import Content, pieces_of
from submarine_engine.bundle.needs import IPYTHONS
from submarine_engine.bundle.values import constant, is_constant
from submarine_engine.command import Command, parse_cell
from submarine_engine.errors import BundleError, CommandError, FlowError, UndefinedNameError
from submarine_engine.flows.analysis import (
    Effects,
    Pending,
    as_in_a_kernel,
    changed,
    constants,
    effects,
    functions_of,
    joined,
    stars_loaded,
)
from submarine_engine.flows.folder import Place, is_address, make_folder, write_file, write_once
from submarine_engine.flows.leases import holder_of, take_left
from submarine_engine.flows.model import (
    ALL_SUCCESS,
    CELL,
    JOB,
    Flow,
    FlowPaths,
    Node,
    Parameter,
    Read,
    name_fault,
)
from submarine_engine.flows.notebook import Notebook, NotebookCell, read_notebook

_ODD = re.compile(r"[^A-Za-z0-9._-]+")
_REFUSED = {
    "sweep": "a sweep is no node of a flow",
    "map": "a map is no node of a flow",
    "dry_run": "--dry-run runs nothing",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowOptions:
    """What a flow is besides its notebook.

    Parameters
    ----------
    name
        The flow's; the notebook's unless given.
    schedule
        Five fields of cron; empty for none.
    given
        Texts of ``--param``, by name: the defaults of this flow's parameters.
    mail
        As `Flow` has it.
    retries, retry_delay, time_limit, notify, cache
        As `Node` has them, for all nodes.
    """

    name: str = ""
    schedule: str = ""
    given: Mapping[str, str] = field(default_factory=dict)
    mail: str = ""
    retries: int = 0
    retry_delay: float | None = None
    time_limit: float | None = None
    notify: tuple[str, ...] = ()
    cache: bool = False


_DEFAULTS = FlowOptions()


def options_of(flow: Flow) -> FlowOptions:
    """Return the options that a flow was built with.

    Parameters
    ----------
    flow
        One that was built of a notebook: its nodes have the same retries, time limit and so on.
    """
    cells = [
        NotebookCell(cell, parameters=cell.number == flow.parameters_cell) for cell in flow.cells
    ]
    own = {one.name: one.default for one in _parameters(cells, flow.notebook)[0]}
    given = {
        one.name: one.default if isinstance(one.default, str) else repr(one.default)
        for one in flow.parameters
        if not _alike(own.get(one.name), one.default)
    }
    first = flow.nodes[0]
    return FlowOptions(
        name=flow.name,
        schedule=flow.schedule,
        given=given,
        mail=flow.mail,
        retries=first.retries,
        retry_delay=first.retry_delay,
        time_limit=first.time_limit,
        notify=first.notify,
        cache=first.cache,
    )


def build_flow(
    notebook: Path,
    folder: Place | None,
    options: FlowOptions = _DEFAULTS,
    tell: Callable[[str], object] = lambda _: None,
) -> Flow:
    """Make a flow of a notebook; nothing of it runs.

    Parameters
    ----------
    notebook
        An ``.ipynb`` file, or a note of Zeppelin's.
    folder
        Where the flow is written, with the bundles that are complete; None writes nothing.
    options
        Its name, schedule, parameters, and what all nodes have.
    tell
        Is told what of the notebook is left out, in words.

    Raises
    ------
    FlowError
        The notebook cannot become a flow: hidden state, two cells of one name, a cycle, a schedule
        that is no line of cron, a sweep.
    CommandError
        Options of a cell, or a parameter, are not possible.
    BundleError
        A cell does not parse, or asks a person.
    SubmarineError
        The folder is a file, or another build writes it; what its storage says.
    """
    found = read_notebook(notebook)
    cells = found.cells
    for words in found.left_out:
        tell(words)
    parameters, number = _parameters(cells, notebook.name)
    chosen = Flow.values_of(parameters, options.given)
    name = options.name or _ODD.sub("-", found.title or notebook.stem).strip("-.") or "flow"
    added = overriding(number, parameters, chosen)
    building = _Building(found, notebook, options, added)
    flow = building.flow(
        name=name,
        notebook=notebook.name,
        cells=tuple(one.cell for one in cells),
        parameters=tuple(replace(one, default=chosen[one.name]) for one in parameters),
        parameters_cell=number,
        schedule=" ".join(options.schedule.split()),
        mail=",".join(one.strip() for one in options.mail.split(",")) if options.mail else "",
        workdir=str(notebook.absolute().parent),
    )
    if folder is not None:
        _write(flow, folder, building)
    return flow


def overriding(
    number: int | None, parameters: Sequence[Parameter], values: Mapping[str, Any]
) -> tuple[int, Cell] | None:
    """Return a cell that binds parameters anew, and behind which cell it stands; None for none.

    Parameters
    ----------
    number
        The cell that binds them.
    parameters
        As that cell says them.
    values
        What they are to be.
    """
    lines = [
        f"{one.name} = {values[one.name]!r}"
        for one in parameters
        if one.name in values and not _alike(one.default, values[one.name])
    ]
    if number is None or not lines:
        return None
    source = "\n".join(lines)
    return number, Cell(number=None, source=source, raw=source, name="parameters of this run")


def _alike(one: object, other: object) -> bool:
    return type(one) is type(other) and repr(one) == repr(other)


def with_cell(cells: Sequence[Cell], added: tuple[int, Cell] | None) -> list[Cell]:
    """Return the cells with one added behind the cell of a number.

    Parameters
    ----------
    cells
        Those of the notebook, in its order.
    added
        The number of the cell that it follows, and the cell; None for none.
    """
    found: list[Cell] = []
    for cell in cells:
        found.append(cell)
        if added is not None and cell.number == added[0]:
            found.append(added[1])
    return found


def _parameters(
    cells: Sequence[NotebookCell], notebook: str
) -> tuple[tuple[Parameter, ...], int | None]:
    tagged = [one.cell for one in cells if one.parameters]
    if not tagged:
        return (), None
    if len(tagged) > 1:
        listed = " and ".join(cell.label for cell in tagged)
        raise FlowError(
            f"{listed} are both tagged `parameters`", where=notebook, fix="leave the tag on one"
        )
    return said_in(tagged[0]), tagged[0].number


def said_in(cell: Cell) -> tuple[Parameter, ...]:
    """Return the parameters that a cell binds, each to a literal.

    Parameters
    ----------
    cell
        The one tagged ``parameters``.
    """
    found = {
        name: Parameter(name=name, default=constant(statement.node, name))
        for statement in take_apart(cell).parsed.statements
        for name in statement.binds
        if is_constant(statement.node, name)
    }
    return tuple(found.values())


@dataclass(slots=True)
class _Unit:
    """Cells that become one node."""

    name: str
    cells: list[int]  # indices
    options: tuple[str, ...] | None = None
    after: tuple[str, ...] = ()
    condition: str = ALL_SUCCESS
    bundle: Bundle | None = None
    needs: tuple[str, ...] = ()
    binds: tuple[str, ...] = ()
    changes: frozenset[str] = frozenset()
    reads: dict[str, _Unit] = field(default_factory=dict)
    holds: dict[str, int] = field(default_factory=dict)  # which version of each name it has
    mentions: frozenset[str] = frozenset()  # lists and dicts that cells write, as text
    leaves: dict[str, None] = field(default_factory=dict)


class _Building:
    def __init__(
        self,
        found: Notebook,
        notebook: Path,
        options: FlowOptions,
        added: tuple[int, Cell] | None,
    ) -> None:
        self.modules: dict[str, Content] = {}
        self.bundles: list[Bundle] = []
        self.found = found.cells
        self.left_out = found.left_out
        self.cells = [one.cell for one in found.cells]
        self.context = with_cell(self.cells, added)
        self.notebook = notebook
        self.options = options
        self.root = notebook.absolute().parent
        self.faults: list[tuple[str, str, str]] = []
        self.effects: list[Effects] = []
        defined: set[str] = set()
        for cell in self.cells:
            self.effects.append(effects(cell, defined))
            for statement in self.effects[-1].statements:
                defined.update(name for name in statement.binds if name in self.effects[-1].defines)

    def flow(self, **about: Any) -> Flow:  # noqa: ANN401 - of `Flow`
        units = self._units()
        self._refuse()
        self._connect(units)
        self._follow_shells(units)
        self._refuse()
        nodes = tuple(map(self._node, units))
        self.bundles = [unit.bundle for unit in units if unit.bundle is not None]
        return Flow(nodes=nodes, **about)

    def _refuse(self) -> None:
        if not self.faults:
            return
        (what, where, fix), *others = self.faults
        what += "".join(f"; {place}: {fault}" for fault, place, _ in others)
        raise FlowError(what, where=f"{self.notebook.name}, {where}", fix=fix)

    # Which cells run together

    def _units(self) -> list[_Unit]:
        units: list[_Unit] = []
        plain: list[int] = []
        for index, one in enumerate(self.found):
            if one.options is not None:
                units += self._plain_units(plain)
                plain = []
                if unit := self._job(index, one):
                    units.append(unit)
            elif self.effects[index].runs:
                plain.append(index)
        units += self._plain_units(plain)
        self._check_names(units)
        return units

    def _job(self, index: int, one: NotebookCell) -> _Unit | None:
        where = f"{one.cell.label}, line 1"
        command = _command(one, self.notebook.name)
        for option, why in _REFUSED.items():
            if option in command.values:
                self.faults.append((why, where, "leave that option out in a flow"))
        if why := _never_remembered(command):
            self.faults.append((why, where, "leave one of the two out"))
        if not self.effects[index].statements:
            return None  # comments alone do nothing, as in a notebook
        name = command.values.get("name") or f"cell-{one.cell.number}"
        words = tuple(_words(one.options or ""))
        return _Unit(
            name=_ODD.sub("-", name),
            cells=[index],
            options=words,
            after=tuple(_ODD.sub("-", each) for each in command.values.get("after", ())),
            condition=command.values.get("condition", ALL_SUCCESS),
        )

    def _plain_units(self, plain: Sequence[int]) -> list[_Unit]:
        """Join plain cells between two jobs that work on one another's values."""
        groups: list[list[int]] = []
        for index in plain:
            uses = self._names_in(index)
            mine = [
                group for group in groups if any(uses & {*self.effects[at].binds} for at in group)
            ]
            groups = [group for group in groups if group not in mine]
            groups.append(sorted([index, *(at for group in mine for at in group)]))
        return [_Unit(f"cell-{self.cells[group[0]].number}", group) for group in sorted(groups)]

    def _names_in(self, index: int) -> set[str]:
        """Return the names that a cell reads or binds, with those of functions that it uses."""
        names, _ = self._used_in(index)
        return names | {*self.effects[index].binds}

    def _used_in(self, index: int) -> tuple[set[str], set[str]]:
        """Return the names that a cell reads, and those that functions it uses bind as global."""
        found: set[str] = set()
        bound: set[str] = set()
        todo = list(self.effects[index].statements)
        functions = {
            name: statement
            for at in range(index + 1)
            for statement in self.effects[at].statements
            for name in statement.binds
            if name in self.effects[at].defines
        }
        while todo:
            reads = todo.pop().reads(lazy=False)
            # What defines a function binds nothing: whoever uses it does.
            bound |= reads.sets
            for name in (*reads.now, *(one for uses in reads.later.values() for one in uses)):
                if name not in found:
                    found.add(name)
                    if name in functions:
                        todo.append(functions[name])
        return found, bound

    def _check_names(self, units: Sequence[_Unit]) -> None:
        seen: dict[str, _Unit] = {}
        for unit in units:
            where = f"{self.cells[unit.cells[0]].label}, line 1"
            if fault := name_fault(unit.name):
                self.faults.append((fault, where, "give the cell another --name"))
            if unit.name in seen:
                first = self.cells[seen[unit.name].cells[0]].label
                what = f"{first} is called {unit.name!r}, too"
                self.faults.append((what, where, "give each cell a --name of its own"))
            seen.setdefault(unit.name, unit)
        for unit in units:
            for name in unit.after:
                if name not in seen:
                    where = f"{self.cells[unit.cells[0]].label}, line 1"
                    there = ", ".join(seen)
                    self.faults.append(
                        (f"--after {name}: no cell is called so", where, f"there are {there}")
                    )

    # What travels

    def _connect(self, units: list[_Unit]) -> None:
        """Find what each unit reads, and from which other."""
        pending: dict[str, _Unit] = {}
        version: dict[str, int] = {}
        functions = functions_of(self.effects)
        by_name = {unit.name: unit for unit in units}
        done = 0
        for order, unit in enumerate(units):
            last = unit.cells[-1]
            self._forget_redefined(range(done, last), pending, unit, units)
            done = max(done, last)
            self._read(unit, pending)
            self._share(unit, pending, version, units)
            after = [by_name[name] for name in unit.after if name in by_name]
            for name in unit.needs:
                unit.reads[name] = pending[name]
            for name in unit.needs:
                self._carry(unit, name, after, version, units)
                unit.holds[name] = version[name]
            changes = self._changes(unit, functions)
            for name in dict.fromkeys((*unit.binds, *sorted(changes))):
                version[name] = unit.holds[name] = order + 1
                pending[name] = unit
            for index in unit.cells:
                for name in self.effects[index].defines:
                    if name not in unit.binds and name not in changes:
                        pending.pop(name, None)
        self._refuse_changed_definitions(units, functions)
        self._refuse_widgets(units)

    def _follow_shells(self, units: Sequence[_Unit]) -> None:
        """Have units follow plain cells above that run commands: what these leave no code tells."""
        for order, unit in enumerate(units):
            known = {one.name: one for one in units[:order]}
            for one in reversed(units[:order]):
                shell = one.options is None and any(self.found[at].shell for at in one.cells)
                if shell and one.name not in _all_followed(unit, known):
                    unit.after = (*unit.after, one.name)

    def _refuse_widgets(self, units: Sequence[_Unit]) -> None:
        """Refuse widgets that another node reads: they live in a notebook's page."""
        modules = {
            name
            for one in self.effects
            for statement in one.statements
            if isinstance(statement.node, (ast.Import, ast.ImportFrom))
            and "ipywidgets" in ast.unparse(statement.node)
            for name in statement.binds
        }
        for unit in units if modules else ():
            for name, source in unit.reads.items():
                for at in source.cells:
                    for statement in self.effects[at].statements:
                        if name in statement.binds and _is_of(statement.node, modules):
                            where = f"{self.cells[at].label}, line {statement.node.lineno}"
                            reader = self.cells[unit.cells[0]].label
                            what = f"`{name}` is a widget, and {reader} reads it: in a flow nobody"
                            fix = "bind its value in a cell tagged `parameters`: --param changes it"
                            self.faults.append((f"{what} is there to set it", where, fix))

    def _share(
        self,
        unit: _Unit,
        pending: dict[str, _Unit],
        version: dict[str, int],
        units: Sequence[_Unit],
    ) -> None:
        """Take a list that a cell writes from a unit whose values may hold it, not anew."""
        written = constants([self.cells[at] for at in range(unit.cells[0])])
        mutable = {
            name for name, value in written.items() if any(True for _ in containers_of(value))
        }
        mine = mutable.intersection(*[set().union(*map(self._names_in, unit.cells))])
        sources = {pending[name].name: pending[name] for name in unit.needs}.values()
        found = {
            name: max(
                (one for one in sources if name in one.mentions), key=units.index, default=None
            )
            for name in sorted(mine - pending.keys())
        }
        shared = {name: one for name, one in found.items() if one is not None}
        for name, source in shared.items():
            pending[name] = source
            version[name] = source.holds[name] = version.get(name, 0) or units.index(source) + 1
        if shared:
            self._read(unit, pending)
        unit.mentions = frozenset(mine).union(*(one.mentions for one in sources))

    def _changes(self, unit: _Unit, functions: Mapping[str, ast.AST]) -> frozenset[str]:
        """Return what a unit changes in place of what it reads, and of lists that cells write."""
        statements = [one for at in unit.cells for one in self.effects[at].statements]
        written = constants([self.cells[at] for at in range(unit.cells[-1] + 1)])
        unit.changes = changed(statements, functions)
        return unit.changes.intersection((*unit.needs, *written))

    def _refuse_changed_definitions(
        self, units: Sequence[_Unit], functions: Mapping[str, ast.AST]
    ) -> None:
        """Refuse to lose what a cell does to a function or a class that a later one uses."""
        for order, unit in enumerate(units):
            for name in sorted(unit.changes.intersection(functions)):
                users = [
                    one
                    for one in units[order + 1 :]
                    if any(name in self._names_in(index) for index in one.cells)
                ]
                if users:
                    where = self.cells[unit.cells[0]].label
                    user = self.cells[users[0].cells[0]].label
                    what = f"it changes `{name}`, which {user} uses: to other nodes definitions go"
                    what += " as their source, without what was done to them"
                    fix = "keep it in a variable that the cell binds, or do both in one cell"
                    self.faults.append((what, where, fix))

    def _forget_redefined(
        self, cells: Iterable[int], pending: dict[str, _Unit], unit: _Unit, units: Sequence[_Unit]
    ) -> None:
        """Leave out values whose names cells in between define anew."""
        for index in cells:
            owner = next((one for one in units if index in one.cells), None)
            if owner is None or owner is unit:
                for name in self.effects[index].defines:
                    pending.pop(name, None)

    def _read(self, unit: _Unit, pending: Mapping[str, _Unit]) -> None:
        cells = [self.cells[index] for index in unit.cells]
        above = context(self.context, [cell.number for cell in cells])
        namespace = {**constants(above), **{name: Pending() for name in pending}}
        # Whatever is wrong with it, later cells find what it binds: each fault is told once.
        by_functions = set[str]().union(*(self._used_in(at)[1] for at in unit.cells))
        names = [name for at in unit.cells for name in self.effects[at].binds]
        unit.binds = tuple(dict.fromkeys((*names, *sorted(by_functions))))
        try:
            bundle = make_bundle(cells, above, namespace, self.root)
        except UndefinedNameError as error:
            self.faults.append((error.what, error.where, self._where_bound(error.what)))
            return
        except (BundleError, FlowError) as error:
            self.faults.append((error.what, error.where, error.fix))
            return
        # Random states, and what no stand-in is for, are as they are when the node runs.
        complete = all(
            value.how == "literal" and value.name not in pending for value in bundle.manifest.values
        )
        self.modules |= {path: bundle.files[path] for path in bundle.manifest.modules}
        unit.bundle = bundle if complete else None
        captured = [value.name for value in bundle.manifest.values if value.name in pending]
        # A function that the cell never calls leaves its global names as they were.
        kept = sorted(by_functions & pending.keys())
        unit.needs = tuple(dict.fromkeys((*captured, *kept)))

    def _where_bound(self, what: str) -> str:
        """Return what to do about a name that no cell above binds."""
        found = re.match(r"`(\w+)`", what)
        name = found[1] if found else ""
        later = [
            cell.label
            for cell, one in zip(self.cells, self.effects, strict=True)
            if name in (*one.binds, *one.defines)
        ]
        if later:
            return f"{later[0]} binds it, below: move that cell up"
        if self.left_out:
            listed = "; ".join(self.left_out)
            return f"no cell of the flow binds it ({listed}): bind it in a Python cell"
        return (
            "no cell of the notebook binds it: its cell may be deleted, or was run elsewhere; write"
            " it again"
        )

    def _carry(
        self,
        unit: _Unit,
        name: str,
        after: Sequence[_Unit],
        version: Mapping[str, int],
        units: Sequence[_Unit],
    ) -> None:
        """Take a value from where others come from that may hold it: what they share stays one."""
        sources = sorted({one.name: one for one in (*unit.reads.values(), *after)}.values(),
                         key=units.index, reverse=True)  # fmt: skip
        holder = next((one for one in sources if _holds(one, name, version[name])), None)
        if holder is not None:
            unit.reads[name] = holder
        unit.reads[name].leaves[name] = None

    def _node(self, unit: _Unit) -> Node:
        return Node(
            name=unit.name,
            kind=CELL if unit.options is None else JOB,
            cells=tuple(self.cells[index].number or 0 for index in unit.cells),
            bundle=unit.bundle.hash if unit.bundle else "",
            options=unit.options or (),
            binds=tuple(sorted(unit.leaves)),
            reads=tuple(
                Read(name=name, node=source.name) for name, source in sorted(unit.reads.items())
            ),
            after=unit.after,
            condition=unit.condition,
            retries=self.options.retries,
            retry_delay=self.options.retry_delay,
            time_limit=self.options.time_limit,
            notify=self.options.notify,
            cache=self.options.cache,
        )


def _holds(unit: _Unit, name: str, version: int) -> bool:
    """Return whether values of a unit may hold that of `name`; then it has it, and hands it on."""
    if name in unit.holds:
        return unit.holds[name] == version
    for source in dict.fromkeys(one.name for one in unit.reads.values()):
        one = next(each for each in unit.reads.values() if each.name == source)
        if _holds(one, name, version):
            unit.reads[name] = one
            unit.holds[name] = version
            one.leaves[name] = None
            return True
    return False


def _all_followed(unit: _Unit, known: Mapping[str, _Unit]) -> set[str]:
    """Return the names of all units that come before one, directly or not."""
    found: set[str] = set()
    todo = [unit]
    while todo:
        one = todo.pop()
        for name in (*one.after, *(source.name for source in one.reads.values())):
            if name in known and name not in found:
                found.add(name)
                todo.append(known[name])
    return found


def _is_of(node: ast.stmt, modules: set[str]) -> bool:
    """Return whether a statement binds what a call of one of some modules has made."""
    value = getattr(node, "value", None)
    function = value.func if isinstance(value, ast.Call) else None
    while isinstance(function, ast.Attribute):
        function = function.value
    return isinstance(function, ast.Name) and function.id in modules


def _words(options: str) -> list[str]:
    from submarine_engine.command.parser import split  # noqa: PLC0415 - as `parse_cell`

    return split(options)


def _command(one: NotebookCell, notebook: str) -> Command:
    try:
        command = parse_cell(one.options or "")
    except CommandError as error:
        raise CommandError(
            error.what, where=f"{notebook}, {one.cell.label}, line 1", fix=error.fix
        ) from None
    if command.spec is None:
        raise CommandError(
            "the cell asks for help, and runs nothing",
            where=f"{notebook}, {one.cell.label}, line 1",
            fix="leave --help out",
        )
    return command


def _never_remembered(command: Command) -> str:
    """Return why no run could do what a cell's own ``--cache`` says; empty where one may."""
    values = command.values
    if not (values.get("cache") or values.get("refresh")):
        return ""
    if values.get("checkpoint_path"):
        return "--cache and --checkpoint_path contradict each other"
    if is_address(values.get("input_path") or ""):
        return "nobody can tell whether an --input_path elsewhere has changed, as --cache has to"
    return ""


def context(cells: Sequence[Cell], numbers: Sequence[int | None]) -> list[Cell]:
    """Return the cells that count as executed before a node: all above its last, but its own.

    Parameters
    ----------
    cells
        All of the notebook, in its order.
    numbers
        Those of the node's own.
    """
    last = max(at for at, cell in enumerate(cells) if cell.number in numbers)
    return [cell for cell in cells[:last] if cell.number is None or cell.number not in numbers]


def make_bundle(
    cells: Sequence[Cell],
    above: Sequence[Cell],
    namespace: Mapping[str, object],
    root: Path,
    options: BuildOptions | None = None,
) -> Bundle:
    """Make the bundle of a node, as the notebook would make it of the cell.

    Parameters
    ----------
    cells
        The node's.
    above
        Those that count as executed.
    namespace
        The values that others have left.
    root
        The notebook's folder; Python files there that the code imports travel along.
    options
        What it depends on besides; plain ones unless given.
    """
    options = replace(options or BuildOptions(), root=root, hidden=tuple(IPYTHONS))
    with stars_loaded([*above, *cells], root):
        bundle = build(joined(cells), above, namespace, options=options)
    return as_in_a_kernel(bundle, cells, above)


def _write(flow: Flow, folder: Place, building: _Building) -> None:
    """Write the flow, what it names first: who reads ``flow.json`` finds it all."""
    paths = FlowPaths(folder)
    if folder.exists() and not folder.is_dir():
        raise FlowError("it is a file, and no folder", where=str(folder), fix="name another one")
    make_folder(folder)
    with _alone(paths):
        make_folder(paths.bundles)
        for bundle in building.bundles:
            write_once(bundle, paths.bundle(bundle.hash))
        for name, content in building.modules.items():
            write_file(paths.modules / name, b"".join(pieces_of(content)))
        make_folder(paths.runs)
        flow.write(folder)


@contextmanager
def _alone(paths: FlowPaths) -> Iterator[None]:
    """Have no other process write the flow's folder meanwhile: it would be of two notebooks."""
    lock = take_left(paths.building)
    if lock is None:
        raise FlowError(
            f"another build of a flow writes this folder{holder_of(paths.building)}",
            where=str(paths.folder),
            fix="wait for its end, or name another folder: --output",
        )
    try:
        yield
    finally:
        lock.drop()
