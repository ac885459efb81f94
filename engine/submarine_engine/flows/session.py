"""The values of a flow, as a notebook's kernel would hold them between two cells.

What a node leaves for others is a bundle, too: the script that makes these values again, with the
definitions that they need, and the files that it loads. Who needs them runs that script.
"""

from __future__ import annotations

import ast
import hashlib
import os
import sys
import types
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from submarine_engine.bundle import BuildOptions, Bundle, Cell, Manifest, build
from submarine_engine.bundle.capture import Capture
from submarine_engine.bundle.model import Sent, pieces_of
from submarine_engine.bundle.needs import IPYTHONS
from submarine_engine.bundle.source import FUNCTIONS
from submarine_engine.bundle.statements import is_guard
from submarine_engine.errors import BundleError, FlowError
from submarine_engine.flows.analysis import carried, constants
from submarine_engine.future import Job
from submarine_engine.history import SPOILT, read_json
from submarine_engine.results import come_home

_DEFINES = (ast.Import, ast.ImportFrom, *FUNCTIONS, ast.ClassDef)
_VALUES = "values of the flow"


@dataclass(slots=True)
class Session:
    """Variables by name, in a module that stands for ``__main__`` while it is open.

    Parameters
    ----------
    cells
        Those of the notebook that count as executed.
    root
        The folder of the notebook's own modules.
    """

    cells: Sequence[Cell]
    root: Path
    module: types.ModuleType = field(default_factory=lambda: types.ModuleType("__main__"))
    done: set[str] = field(default_factory=set)
    stayed: Mapping[str, str] = field(default_factory=dict)

    @property
    def namespace(self) -> dict[str, Any]:
        """The variables."""
        return vars(self.module)

    @contextmanager
    def open(self) -> Iterator[Session]:
        """Stand for ``__main__``, and find the notebook's own modules, until the end."""
        former, path = sys.modules["__main__"], list(sys.path)
        environment = dict(os.environ)
        sys.modules["__main__"] = self.module
        sys.path.insert(0, str(self.root))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the jobs have shown them
                self.namespace.update(constants(self.cells))
                self._set_up()
                yield self
        finally:
            sys.modules["__main__"] = former
            sys.path[:] = path
            for name in os.environ.keys() - environment.keys():
                del os.environ[name]
            os.environ.update(environment)

    def _set_up(self) -> None:
        """Set what cells set for all that follow: seeds, the environment, paths."""
        for code in carried(self.cells):
            with suppress(Exception):  # the job's own run tells
                exec(compile(code, "<settings>", "exec"), {})  # noqa: S102 - the notebook's

    def take(self, folder: Path, wanted: Collection[str], left: Collection[str]) -> None:
        """Bind values that a node has left.

        Parameters
        ----------
        folder
            The bundle that `leave` made.
        wanted
            The names to bind.
        left
            All names that the node has left: what is not wanted is not loaded.

        Raises
        ------
        FlowError
            One cannot be loaded here; it says which, and why.
        """
        try:
            bundle = Manifest.from_json(_manifest(folder))
            tree = ast.parse((folder / bundle.entry).read_text())
        except (*SPOILT, SyntaxError, MemoryError) as error:  # of what nests without end
            raise FlowError(
                f"the values are not there: {error}",
                where=str(folder),
                fix="run the node that leaves them again",
            ) from None
        unwanted = frozenset(left) - frozenset(wanted)
        before = {name: value for name, value in self.namespace.items() if name not in wanted}
        self.namespace["__file__"] = str(folder / bundle.entry)
        for node in tree.body:
            if is_guard(node) or self._is_known(node):
                continue
            names = _bound(node)
            if names and unwanted.issuperset(names):
                continue
            self._execute(node, folder / bundle.entry, ", ".join(sorted(names)))
        for name in unwanted:
            if name in before:
                self.namespace[name] = before[name]

    def define(self, bundle: Bundle, own: Collection[int | None]) -> None:
        """Execute the definitions above a job's cell, as far as they can be here.

        Parameters
        ----------
        bundle
            The job's.
        own
            Numbers of the job's own cells, which are not executed.
        """
        spans = [span for span in bundle.manifest.lines if span.cell_number in own]
        for node in ast.parse(bundle.script).body:
            line = node.lineno
            mine = any(span.line <= line < span.line + span.count for span in spans)
            if not mine and isinstance(node, _DEFINES) and not self._is_known(node):
                with suppress(Exception):  # what comes home says what it lacks
                    self._execute(node, Path(bundle.manifest.entry), "")

    def _is_known(self, node: ast.stmt) -> bool:
        """Return whether the same definition was executed, so that its class stays one."""
        if not isinstance(node, _DEFINES):
            return False
        said = ast.dump(node)
        if said in self.done and all(name in self.namespace for name in _bound(node)):
            return True
        self.done.add(said)
        return False

    def _execute(self, node: ast.stmt, path: Path, names: str) -> None:
        code = compile(ast.Module([node], []), str(path), "exec")
        try:
            exec(code, self.namespace)  # noqa: S102 - what the flow's own jobs have left
        except Exception as error:
            what = f"{type(error).__name__}: {error}"
            raise FlowError(
                f"`{names}` cannot be loaded here: {what}" if names else what,
                where=str(path),
                fix="install what it needs in the environment that runs `submarine flow`",
            ) from error

    def bring_home(self, job: Job, sent: Sent | None) -> None:
        """Bind what a job's cell bound, change what it changed.

        Parameters
        ----------
        job
            One that has succeeded.
        sent
            The objects of this process that it got copies of; None where they are not here.

        Raises
        ------
        ResultError
            What it left cannot be read.
        """
        home = come_home(
            job.cluster,
            job.id,
            define=self._define_own,
            sent=sent,
            namespace=self.namespace,
            budget=sys.maxsize,
        )
        if home is None:
            return
        for old, new in home.replaced:
            for name in [name for name, value in self.namespace.items() if value is old]:
                self.namespace[name] = new
        self.namespace.update(home.names)
        for name in home.gone:
            self.namespace.pop(name, None)
        self.stayed = home.stayed

    def _define_own(self, manifest: Manifest, defined: Collection[str]) -> None:
        for one in manifest.definitions:
            if frozenset(defined).issuperset(one.names):
                source = "\n" * (one.line - 1) + one.source
                with suppress(Exception):  # an import that only the job's machine has
                    exec(compile(source, "<cell>", "exec"), self.namespace)  # noqa: S102 - likewise

    def leave(self, names: Sequence[str], cells: Sequence[Cell], where: str) -> Bundle:
        """Make what others take of this session.

        Parameters
        ----------
        names
            The variables.
        cells
            Those of the node, the last to be executed.
        where
            Which node it is, for an error.

        Raises
        ------
        FlowError
            One is not there, or cannot travel.
        """
        missing = [name for name in names if name not in self.namespace]
        if missing:
            why = [self.stayed[name] for name in missing if name in self.stayed]
            raise FlowError(
                f"`{missing[0]}` is to go on to other nodes, and "
                + (f"could not leave the job: {why[0]}" if why else "the cell has not bound it"),
                where=where,
                fix="make it in the cell that uses it, or turn it into something that pickles",
            )
        main = Cell(number=None, source=f"({', '.join(names)},)", name=_VALUES)
        options = BuildOptions(limit=sys.maxsize, root=self.root, hidden=tuple(IPYTHONS))
        try:
            return build(main, [*self.cells, *cells], self.namespace, options=options)
        except BundleError as error:
            raise FlowError(
                f"a value cannot go on to other nodes: {error.what}",
                where=f"{where}, {error.where}" if error.where else where,
                fix=error.fix,
            ) from error

    def fingerprints(self, names: Sequence[str]) -> dict[str, str]:
        """Return what values are now, so that a change of one shows.

        Parameters
        ----------
        names
            The variables.
        """
        found = {}
        for name in names:
            capture, digest = Capture(limit=sys.maxsize), hashlib.sha256()
            with suppress(BundleError):  # it does not travel, so no other node has it
                capture.add(name, self.namespace.get(name))
                captured = capture.finish()
                digest.update(captured.literals.get(name, "").encode())
                for path in sorted(captured.files):
                    for piece in pieces_of(captured.files[path]):
                        digest.update(piece)
            found[name] = digest.hexdigest()
        return found

    def shared(self, names: Sequence[str], held: Sequence[str]) -> dict[str, list[str]]:
        """Return which values share an object: for each of `names`, those of `held`."""
        capture = Capture(limit=sys.maxsize)
        for name in dict.fromkeys((*names, *held)):
            if name in self.namespace:
                with suppress(BundleError):  # it does not travel, and so is no other's
                    capture.add(name, self.namespace[name])
        found = {}
        for name in names:
            with suppress(KeyError):
                found[name] = sorted(set(capture.shared(name)).intersection(held) - {name})
        return {name: others for name, others in found.items() if others}


def _manifest(folder: Path) -> Mapping[str, Any]:
    found = read_json(folder / "manifest.json")
    if found is None:
        raise FileNotFoundError(f"there is no {folder / 'manifest.json'}")
    return found


def _bound(node: ast.stmt) -> set[str]:
    if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
        return {node.name}
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
    return {
        one.id
        for one in ast.walk(node)
        if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)
    }
