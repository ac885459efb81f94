"""From executed cells to a bundle."""

from __future__ import annotations

import difflib
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from submarine_runtime.home import containers_of

from submarine_engine.bundle import settings
from submarine_engine.bundle.bindings import scope_names
from submarine_engine.bundle.capture import LIMIT, Capture, Notice
from submarine_engine.bundle.compose import compose
from submarine_engine.bundle.definitions import definitions
from submarine_engine.bundle.executed import Executed, Position
from submarine_engine.bundle.loading import Loading, free_name
from submarine_engine.bundle.maincell import MainCell, take_apart, too_deep
from submarine_engine.bundle.model import (
    Bundle,
    Cell,
    Dropped,
    LoadedFile,
    MadeAgain,
    Manifest,
    Sent,
)
from submarine_engine.bundle.modules import travelling_modules
from submarine_engine.bundle.needs import Needs, NeedsSourceError, NeedsValueError
from submarine_engine.bundle.origins import Defined, Origins
from submarine_engine.bundle.plan import Plan, plan
from submarine_engine.bundle.questions import refuse_questions
from submarine_engine.bundle.refusals import together
from submarine_engine.bundle.script import IPYTHON_SYNTAX, Script
from submarine_engine.errors import BundleError, UndefinedNameError

ENTRY = "script.py"

_MOST_HINTS = 3
_WRITTEN = (list, dict, set, tuple)


def build(  # noqa: PLR0913 - what a bundle is made from, each by its name
    main: Cell,
    cells: Sequence[Cell],
    namespace: Mapping[str, object],
    *,
    outputs: Sequence[str] = (),
    limit: int = LIMIT,
    root: Path | None = None,
    tell: Callable[[str], object] | None = None,
    answered: bool = False,
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
    outputs
        Names of the script that are wanted back besides its result: they have to be defined.
    limit
        Bytes that all captured values together may take.
    root
        The notebook's folder; Python files there that the code imports travel along.
    tell
        Is told, from another thread, which value takes long.
    answered
        Whether somebody waits for the job and answers what its code asks.

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
        The values exceed `limit`.
    BundleError
        The cell is empty, or a Python file beside the notebook cannot travel.
    """
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
        origins = Origins(executed, namespace, len(cells), as_source)
        try:
            notice = Notice(tell)
            with notice:
                capture = Capture(limit, by_value, notice)
                found = _plan(
                    part, executed, origins, capture, outputs=outputs, root=root, answered=answered
                )
            found = replace(found, seeks=_seeks(again, origins))
            written = _written(found, namespace)
        except NeedsSourceError as need:
            as_source[need.name] = need.refers
            again += [need.again] if need.again else []
        except NeedsValueError as need:
            by_value.add(need.name)
        except RecursionError:
            raise too_deep(main) from None
        else:
            bundle = _bundle(found, executed, part, root, written=written, again=again)
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


def _written(found: Plan, namespace: Mapping[str, object]) -> dict[str, object]:
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
    outputs: Sequence[str],
    root: Path | None,
    answered: bool,
) -> Plan:
    lazy = "annotations" in executed.futures() or sys.version_info >= (3, 14)
    needs = Needs(origins, capture, part.reads(lazy=lazy), part.cell, lazy=lazy)
    index = len(executed.cells) - 1
    needs.follow([(index, number) for number in range(part.leading)], outputs)
    _refuse_missing(needs, executed)
    refuse_questions(needs, part.rest, answered=answered)
    if needs.refused:
        raise together(needs.refused)
    needs.follow_settings()
    if needs.refused:
        raise together(needs.refused)
    said = settings.sources_before(executed.cells[:-1])
    states = settings.random_states(said, needs.used())
    name = free_name(settings.STATES, origins.known())
    if states:
        needs.keep(name, states)
    paths = settings.added_paths(said, root)
    head = settings.head_lines(paths, settings.changed_environment(said))
    return replace(
        plan(needs),
        head=tuple(head),
        paths=tuple(paths),
        states=(name, tuple(states)) if states else None,
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
    found: Plan,
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
    )
    files = {script.entry: script.text.encode(), **found.captured.files, **modules}
    if any(load.opaque for load in loads):
        files = {**_cloudpickle(), **files}
    sent = Sent(found.captured.sent, written)
    return Bundle(files=files, manifest=manifest, sent=sent)


def _modules(script: Script, found: Plan, root: Path | None) -> dict[str, bytes]:
    if root is None:
        return {}
    referred = "".join(f"import {name}\n" for name in found.captured.modules)
    sources = [(script.entry, script.text), ("values", referred)]
    modules = travelling_modules(sources, root)
    for path in found.paths:
        # Where the job cannot see that folder, what it imports from there lies beside the script.
        more = [(name, content.decode("utf-8", "replace")) for name, content in modules.items()]
        with suppress(BundleError):  # the job may find it in its own place
            modules = {**travelling_modules([*sources, *more], Path(path)), **modules}
    return modules


def _cloudpickle() -> dict[str, bytes]:
    """Return the files of cloudpickle: the job's Python may be without it."""
    folder = Path(str(find_spec("cloudpickle").origin)).parent  # type: ignore[union-attr]
    return {f"cloudpickle/{file.name}": file.read_bytes() for file in sorted(folder.glob("*.py"))}
