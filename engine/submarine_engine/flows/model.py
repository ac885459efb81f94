"""What a flow is, as plain validated data, and the folder that holds it.

A flow's folder can lie on a path that all workers share, or at an address that they reach: whoever
has it can run any node::

    flow.json                    this flow: its cells, its nodes, and what travels between them
    bundles/<sha256>/            the bundles that nodes run, each once
    modules/                     Python files beside the notebook that its cells import
    runs/<run>/<node>/           what a node of a run has come to, and the values that it left
"""

from __future__ import annotations

import ast
import hashlib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any
from urllib.parse import quote

from submarine_engine import webhooks
from submarine_engine.bundle.model import Cell, Dropped
from submarine_engine.command.values import CONDITIONS, did_you_mean
from submarine_engine.errors import CommandError, FlowError
from submarine_engine.flows.folder import Place, make_folder, read_json, write_json

FORMAT = 1
"""The format of ``flow.json`` that is written, and the only one that is read."""

JOB = "job"
CELL = "cell"
KINDS = (JOB, CELL)

ALL_SUCCESS, ALL_DONE, ONE_FAILED = CONDITIONS

# What folders, Airflow's task ids and Azkaban's node names can all be.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
# Azkaban calls the flow itself so: a node of that name would hide all others.
_KEPT = "ROOT"
_DIGEST = re.compile(r"[0-9a-f]{64}")
_MOST_RETRIES = 1000
_LONGEST_RUN = 250
_LONGEST_FOLDER = 120
_CONTROL = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A name whose value a run may choose: papermill's ``parameters`` cell binds it.

    Parameters
    ----------
    default
        A literal: None, a truth value, a number, text, or lists, tuples, dicts and sets of these.
    """

    name: str
    default: Any = None

    def read(self, text: str) -> Any:  # noqa: ANN401 - a literal of the default's type
        """Return the value that a text means: text as it is where the default is text.

        Parameters
        ----------
        text
            As people write it: ``2026-11-22``, ``0.01``, ``[1, 2]``.

        Raises
        ------
        CommandError
            It is no literal, or one of another type than the default.
        """
        if isinstance(self.default, str):
            return text
        try:
            value = ast.literal_eval(text.strip())
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            value = text
        kind = type(self.default)
        if kind is float and type(value) is int:
            value = float(value)
        if self.default is not None and type(value) is not kind:
            raise CommandError(
                f"{text!r:.80} is no value of parameter {self.name!r}",
                where=f"--param {self.name}",
                fix=f"write a value like its default, which is {self.default!r:.80}",
            )
        return value

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form; the default as Python writes it, since tuples are no JSON."""
        return {"name": self.name, "default": repr(self.default)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Parameter:
        """Build from what `to_json` returned.

        Parameters
        ----------
        data
            What `to_json` returned.
        """
        return cls(name=str(data["name"]), default=ast.literal_eval(data["default"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """A value that travels on an edge: variable `name`, as node `node` leaves it."""

    name: str
    node: str

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {"name": self.name, "node": self.node}


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One step of a flow: a cell that is a job, or plain cells that run together.

    Parameters
    ----------
    name
        Letters, digits and ``. _ -``, 64 at most; once in a flow, and not ``ROOT``.
    kind
        ``job``: a cell with ``%%submarine``. ``cell``: plain cells, run here and without a GPU.
    cells
        Numbers of the flow's cells that it runs, in their order; a job is one cell.
    bundle
        SHA-256 of the bundle that it runs, in the flow's folder; empty where values of other nodes
        belong to the bundle, so that it is made when they are there.
    options
        Words behind ``%%submarine``, for a job.
    binds
        Names that it leaves for other nodes.
    reads
        The values that it gets from other nodes, by name.
    after
        Nodes that it follows without a value from them.
    condition
        When it runs, by the ends of all nodes that it follows: ``all_success``, ``all_done`` or
        ``one_failed``.
    retries
        How often it is run once more after a failure, by whoever runs the flow.
    retry_delay
        Seconds between a failure and the next try; None for as whoever runs the flow has it.
    time_limit
        Seconds that one try may take; None for no limit.
    notify
        Names of secrets that hold the addresses of webhooks, which are told of its end.
    cache
        Whether it is not run where its result is remembered: its code, the values that it reads,
        the parameters and files are the same; a cell may say so for itself, too.
    """

    name: str
    kind: str = JOB
    cells: tuple[int, ...] = ()
    bundle: str = ""
    options: tuple[str, ...] = ()
    binds: tuple[str, ...] = ()
    reads: tuple[Read, ...] = ()
    after: tuple[str, ...] = ()
    condition: str = ALL_SUCCESS
    retries: int = 0
    retry_delay: float | None = None
    time_limit: float | None = None
    notify: tuple[str, ...] = ()
    cache: bool = False

    @property
    def follows(self) -> tuple[str, ...]:
        """The nodes that it follows, each once: for their values, then those of `after`."""
        return tuple(dict.fromkeys((*(read.node for read in self.reads), *self.after)))

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        data = {one.name: getattr(self, one.name) for one in fields(self)}
        data["reads"] = [read.to_json() for read in self.reads]
        return {key: list(one) if isinstance(one, tuple) else one for key, one in data.items()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Node:
        """Build from what `to_json` returned.

        Parameters
        ----------
        data
            What `to_json` returned.
        """
        _only(data, {one.name for one in fields(cls)}, "a node")
        texts = {key: _texts(data.get(key, ()), key) for key in _TEXTS}
        return cls(
            name=_text(data["name"], "name"),
            kind=_text(data.get("kind", JOB), "kind"),
            cells=tuple(_whole(one, "cells") for one in data.get("cells", ())),
            bundle=_text(data.get("bundle", ""), "bundle"),
            reads=tuple(
                Read(name=_text(one["name"], "reads"), node=_text(one["node"], "reads"))
                for one in data.get("reads", ())
            ),
            condition=_text(data.get("condition", ALL_SUCCESS), "condition"),
            retries=_whole(data.get("retries", 0), "retries"),
            retry_delay=data.get("retry_delay"),
            time_limit=data.get("time_limit"),
            cache=data.get("cache") is True,
            **texts,
        )

    def faults(self) -> Iterable[str]:
        """Yield what is wrong with it by itself, in words."""
        if fault := name_fault(self.name):
            yield fault
        yield from self._kind_faults()
        for name in (*self.binds, *(read.name for read in self.reads)):
            if not name.isidentifier():
                yield f"{name!r:.80} is no name of a variable"
        if len({read.name for read in self.reads}) < len(self.reads):
            yield "it gets a variable from two nodes"
        if self.condition not in CONDITIONS:
            listed = ", ".join(CONDITIONS)
            yield f"there is no condition {self.condition!r:.40}: conditions are {listed}"
        elif self.condition != ALL_SUCCESS and not self.follows:
            yield f"its condition is {self.condition}, and it follows no node"
        if not 0 <= self.retries <= _MOST_RETRIES:
            yield f"retries={self.retries!r} is not from 0 to {_MOST_RETRIES}"
        if self.time_limit is not None and not _is_time(self.time_limit):
            yield f"time_limit={self.time_limit!r} is no length of time in seconds"
        if self.retry_delay is not None and not _is_time(self.retry_delay):
            yield f"retry_delay={self.retry_delay!r} is no length of time in seconds"
        yield from filter(None, map(_webhook_fault, self.notify))

    def _kind_faults(self) -> Iterable[str]:
        if self.kind not in KINDS:
            yield f"there is no kind {self.kind!r:.40}: kinds are {' and '.join(KINDS)}"
        if not self.cells or (self.kind == JOB and len(self.cells) > 1):
            yield f"it has {len(self.cells)} cells, and a {self.kind} has one"
        if self.kind == CELL and self.options:
            yield "plain cells have no options"
        if self.bundle and not _DIGEST.fullmatch(self.bundle):
            yield f"{self.bundle!r:.80} is no hash of a bundle"


def _is_time(value: object) -> bool:
    right = isinstance(value, (int, float)) and not isinstance(value, bool)
    return right and 0 < value < math.inf  # type: ignore[operator] # NaN fails, too


def _webhook_fault(address: str) -> str:
    try:
        webhooks.check(address)
    except CommandError as error:
        return error.what
    if webhooks.is_address(address):
        return "a webhook's address is a secret: give the name of a secret that holds it"
    return ""


def name_fault(name: str) -> str:
    """Return in words why a node cannot have the `name`; empty where it can."""
    if not _NAME.fullmatch(name):
        return (
            f"{name!r:.80} cannot name a node: a name has letters, digits and . _ -, begins with a"
            " letter or digit, and has 64 characters at most"
        )
    if name == _KEPT:
        return f"no node can be called {_KEPT}: Azkaban calls the whole flow so"
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """A notebook's cells as nodes.

    Parameters
    ----------
    name
        As a node's name.
    notebook
        The name of the notebook's file, for people.
    cells
        All cells with code, in the notebook's order, numbered as a fresh kernel that runs them all
        would. Nodes name them by these numbers.
    parameters
        What a run may choose; the cell that binds them is `parameters_cell`.
    parameters_cell
        Number of the cell tagged ``parameters``; None where there is none.
    schedule
        When it runs by itself: five fields of cron; empty for never.
    mail
        Addresses that the scheduler writes to when a node has failed, parted by commas.
    workdir
        The notebook's folder, where relative paths begin; where it is not there, the flow's.
    nodes
        In the notebook's order; `order` has one that runs.

    Raises
    ------
    FlowError
        It is not sound: a cycle, an unknown node or cell, two nodes of one name, a name that no
        scheduler takes, a schedule that is no cron line. It lists all that is wrong.
    """

    name: str
    notebook: str = ""
    cells: tuple[Cell, ...] = ()
    parameters: tuple[Parameter, ...] = ()
    parameters_cell: int | None = None
    schedule: str = ""
    mail: str = ""
    workdir: str = ""
    nodes: tuple[Node, ...] = ()
    _order: list[Node] = field(default_factory=list, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        faults = list(dict.fromkeys(self._faults()))
        if not faults:
            faults = list(self._sort())
        if faults:
            (first, where), *others = faults
            what = first + "".join(f"; {place}: {fault}" for fault, place in others)
            raise FlowError(what, where=where, fix="mend the notebook, and build the flow anew")

    def _faults(self) -> Iterable[tuple[str, str]]:
        flow = f"flow {self.name!r:.80}"
        if not _NAME.fullmatch(self.name):
            what = f"{self.name!r:.80} cannot name a flow: a name has letters, digits and . _ -"
            yield f"{what}, and begins with a letter or digit", "--name"
        if self.schedule and (fault := cron_fault(self.schedule)):
            yield fault, "--schedule"
        if self.mail and (fault := mail_fault(self.mail)):
            yield fault, "--mail"
        if not self.nodes:
            yield "there is no node: no cell of the notebook has anything to run", flow
        if len({cell.number for cell in self.cells}) < len(self.cells):
            yield "two cells have one number", flow
        yield from self._node_faults()
        yield from self._unknown()
        yield from self._unbound()
        for parameter in self.parameters:
            if not parameter.name.isidentifier():
                yield f"{parameter.name!r:.80} is no name of a variable", "parameters"
            elif not _is_literal(parameter.default):
                yield f"the default of {parameter.name} is no literal", "parameters"

    def _node_faults(self) -> Iterable[tuple[str, str]]:
        numbers = {cell.number for cell in self.cells}
        names: set[str] = set()
        for node in self.nodes:
            where = f"node {node.name!r:.80}"
            for fault in node.faults():
                yield fault, where
            if node.name in names:
                yield "two nodes have this name", where
            names.add(node.name)
            for number in node.cells:
                if number not in numbers:
                    yield f"there is no cell {number!r}", where

    def _unknown(self) -> Iterable[tuple[str, str]]:
        names = [node.name for node in self.nodes]
        for node in self.nodes:
            for name in node.follows:
                if name not in names:
                    yield (
                        f"it follows {name!r:.80}, and there is no such node",
                        (f"node {node.name!r:.80}"),
                    )

    def _unbound(self) -> Iterable[tuple[str, str]]:
        left = {node.name: set(node.binds) for node in self.nodes}
        for node in self.nodes:
            for read in node.reads:
                if read.node in left and read.name not in left[read.node]:
                    yield (
                        f"it reads `{read.name}` of {read.node}, which does not leave it",
                        (f"node {node.name!r:.80}"),
                    )

    def _sort(self) -> Iterable[tuple[str, str]]:
        """Fill `_order`; yield the cycle where there is one."""
        waiting = {node.name: set(node.follows) for node in self.nodes}
        by_name = {node.name: node for node in self.nodes}
        while waiting:
            ready = next((name for name in waiting if not waiting[name] & waiting.keys()), None)
            if ready is None:
                circle = _cycle({name: sorted(waiting[name] & waiting.keys()) for name in waiting})
                listed = " → ".join(circle)
                yield f"nodes wait for each other: {listed}", f"node {circle[0]!r}"
                return
            self._order.append(by_name[ready])
            del waiting[ready]

    @property
    def order(self) -> tuple[Node, ...]:
        """The nodes so that each comes after all that it follows; else as in the notebook."""
        return tuple(self._order)

    def node(self, name: str) -> Node:
        """Return a node by its name.

        Parameters
        ----------
        name
            The node's.

        Raises
        ------
        FlowError
            There is none of that name.
        """
        for node in self.nodes:
            if node.name == name:
                return node
        meant = did_you_mean(name, [node.name for node in self.nodes])
        raise FlowError(
            f"there is no node {name!r:.80}",
            where=f"flow {self.name}",
            fix=f"{meant}See its nodes: submarine flow show FOLDER",
        )

    def followers(self, name: str) -> tuple[str, ...]:
        """Return all nodes that come after a node, directly or not, in their order.

        Parameters
        ----------
        name
            The node's.
        """
        found = {name}
        for node in self.order:
            if found.intersection(node.follows):
                found.add(node.name)
        return tuple(node.name for node in self.order if node.name in found - {name})

    def values(self, given: Mapping[str, str]) -> dict[str, Any]:
        """Return the value of each parameter in one run.

        Parameters
        ----------
        given
            Texts of ``--param``, by name; others have their defaults.

        Raises
        ------
        CommandError
            There is no such parameter, or a value is of another type than its default.
        """
        return self.values_of(self.parameters, given)

    @staticmethod
    def values_of(parameters: Sequence[Parameter], given: Mapping[str, str]) -> dict[str, Any]:
        """Return the values of parameters, as `values` does.

        Parameters
        ----------
        parameters
            Those that there are.
        given
            As for `values`.
        """
        known = {parameter.name: parameter for parameter in parameters}
        for name in given:
            if name not in known:
                there = ", ".join(known) or "none"
                raise CommandError(
                    f"the notebook has no parameter {name!r:.80}",
                    where=f"--param {name:.80}",
                    fix=f"it has {there}: those that its cell tagged `parameters` binds",
                )
        values = {name: one.default for name, one in known.items()}
        return values | {name: known[name].read(text) for name, text in given.items()}

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form, with ``"format"``."""
        return {
            "format": FORMAT,
            "name": self.name,
            "notebook": self.notebook,
            "schedule": self.schedule,
            "mail": self.mail,
            "workdir": self.workdir,
            "parameters": [one.to_json() for one in self.parameters],
            "parameters_cell": self.parameters_cell,
            "nodes": [node.to_json() for node in self.nodes],
            "cells": [_cell_to_json(cell) for cell in self.cells],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any], *, where: str = "flow.json") -> Flow:
        """Build from what `to_json` returned.

        Parameters
        ----------
        data
            What `to_json` returned.
        where
            What people call the file that it is from.

        Raises
        ------
        FlowError
            It is of another format, lacks something, or is not sound.
        """
        if not isinstance(data, Mapping) or data.get("format") != FORMAT:
            form = data.get("format") if isinstance(data, Mapping) else None
            raise FlowError(
                f"a flow of format {form!r:.40} cannot be read: this release reads {FORMAT}",
                where=where,
                fix="build it anew with this release, or read it with the one that wrote it",
            )
        try:
            cell = data.get("parameters_cell")
            return cls(
                name=_text(data["name"], "name"),
                notebook=_text(data.get("notebook", ""), "notebook"),
                cells=tuple(map(_cell_from_json, data.get("cells", ()))),
                parameters=tuple(map(Parameter.from_json, data.get("parameters", ()))),
                parameters_cell=None if cell is None else _whole(cell, "parameters_cell"),
                schedule=_text(data.get("schedule", ""), "schedule"),
                mail=_text(data.get("mail", ""), "mail"),
                workdir=_text(data.get("workdir", ""), "workdir"),
                nodes=tuple(map(Node.from_json, data["nodes"])),
            )
        except FlowError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError, SyntaxError) as error:
            missing = isinstance(error, KeyError)
            what = f"it lacks {error}" if missing else f"it is no flow: {error}"
            raise FlowError(what, where=where, fix="build it anew: submarine flow build") from None

    def write(self, folder: Place) -> Place:
        """Write ``flow.json``, aside and renamed.

        Parameters
        ----------
        folder
            The flow's; made where it is missing, with mode 0700.

        Returns
        -------
        Place
            The file.
        """
        paths = FlowPaths(folder)
        make_folder(folder)
        write_json(paths.flow, self.to_json())
        return paths.flow

    @classmethod
    def read(cls, folder: Place) -> Flow:
        """Read what `write` wrote.

        Parameters
        ----------
        folder
            The flow's.

        Raises
        ------
        FlowError
            There is none, or it is not sound.
        """
        path = FlowPaths(folder).flow
        try:
            data = read_json(path)
        except (OSError, ValueError) as error:
            raise FlowError(
                f"it cannot be read: {error}", where=str(path), fix="build it: submarine flow build"
            ) from None
        if data is None:
            raise FlowError(
                "there is no flow.json, so this is no flow's folder",
                where=str(folder),
                fix="make one: submarine flow build NOTEBOOK --output FOLDER",
            )
        return cls.from_json(data, where=str(path))


@dataclass(frozen=True, slots=True)
class FlowPaths:
    """Every file of a flow, named once.

    Parameters
    ----------
    folder
        The flow's.
    """

    folder: Place

    @property
    def flow(self) -> Place:
        """What the flow is."""
        return self.folder / "flow.json"

    @property
    def bundles(self) -> Place:
        """The folder of its bundles."""
        return self.folder / "bundles"

    def bundle(self, digest: str) -> Place:
        """Return the folder of the bundle whose hash is `digest`, 64 hexadecimal digits."""
        if not _DIGEST.fullmatch(digest):
            raise FlowError(f"{digest!r:.80} is no hash of a bundle", where=str(self.folder))
        return self.bundles / digest

    @property
    def modules(self) -> Place:
        """The folder of Python files beside the notebook that its cells import."""
        return self.folder / "modules"

    @property
    def building(self) -> Place:
        """Held by the process that builds it."""
        return self.folder / "building"

    @property
    def runs(self) -> Place:
        """The folder of its runs."""
        return self.folder / "runs"

    def run(self, run: str) -> Place:
        """Return the folder of the run whose id is `run`."""
        return self.runs / run_folder(run)

    def cancelled(self, run: str) -> Place:
        """Return what is there where the run whose id is `run` was asked to end as it was run."""
        return self.run(run) / "cancelled"

    def node(self, run: str, node: str) -> Place:
        """Return the folder of the node of name `node` in the run whose id is `run`."""
        if fault := name_fault(node):
            raise FlowError(fault, where=str(self.folder))
        return self.run(run) / node


def run_folder(run: str) -> str:
    """Return the name of the folder of a run, whatever a scheduler calls the run.

    Letters, digits and ``_ . - ~`` stay as they are, all else is quoted as in addresses; a long
    name ends in a digest of it all, so that two runs never share a folder.

    Parameters
    ----------
    run
        Any scheduler's: ``scheduled__2026-11-22T02:00:00+00:00``.

    Raises
    ------
    FlowError
        It is empty, too long, or holds control characters.
    """
    if not run or len(run) > _LONGEST_RUN or _CONTROL.search(run):
        raise FlowError(
            f"{run!r:.80} is no id of a run",
            where="--run",
            fix=f"give 1 to {_LONGEST_RUN} characters, none of them a control character",
        )
    name = quote(run, safe="")
    if name.startswith("."):  # neither hidden, nor the folder itself or the one above
        name = f"%2E{name[1:]}"
    if len(name) > _LONGEST_FOLDER:
        digest = hashlib.sha256(run.encode()).hexdigest()[:16]
        # "%%" is in no quoted text, so no other run has such a name.
        name = f"{name[: _LONGEST_FOLDER - 18]}%%{digest}"
    return name


_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FIELDS: tuple[tuple[str, int, int, tuple[str, ...]], ...] = (
    ("minute", 0, 59, ()),
    ("hour", 0, 23, ()),
    ("day of the month", 1, 31, ()),
    ("month", 1, 12, _MONTHS),
    ("day of the week", 0, 7, _DAYS),
)
_PART = re.compile(r"(?:\*|(\w+)(?:-(\w+))?)(?:/(\d{1,4}))?")


def cron_fault(schedule: str) -> str:
    """Return in words why a schedule is no line of cron; empty where it is one.

    Five fields: minute, hour, day of the month, month, day of the week. Each is ``*``, a number, a
    range ``1-5``, with a step ``*/15``, or a list of these; months and days have English names.

    Parameters
    ----------
    schedule
        For example ``0 2 * * *``.
    """
    words = schedule.split()
    if len(words) != len(_FIELDS) or _CONTROL.search(schedule):
        return (
            f"{schedule!r:.80} is no line of cron: it has {len(words)} fields, and five are needed"
            " (minute, hour, day of the month, month, day of the week), as in 0 2 * * *"
        )
    for word, (called, least, most, names) in zip(words, _FIELDS, strict=True):
        for part in word.split(","):
            if fault := _part_fault(part, least, most, names):
                return f"{schedule!r:.80} is no line of cron: {called} {part!r:.40} {fault}"
    return ""


_ADDRESS = re.compile(r"[\w.!#$%&'*+/=?^`|~-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63})*", re.ASCII)


def mail_fault(mail: str) -> str:
    """Return in words why nobody can write to these addresses; empty where one can.

    Parameters
    ----------
    mail
        Addresses, parted by commas.
    """
    for one in mail.split(","):
        if not _ADDRESS.fullmatch(one.strip()):
            return f"{one.strip()!r:.80} is no address of mail: write ana@example.com"
    return ""


def _part_fault(part: str, least: int, most: int, names: tuple[str, ...]) -> str:
    found = _PART.fullmatch(part)
    if found is None:
        return "is no number, range or step"
    ends = []
    for text in (found[1], found[2]):
        if text is None:
            continue
        if text.lower() in names:
            ends.append(names.index(text.lower()) + (least if names is _MONTHS else 0))
        elif text.isascii() and text.isdigit() and least <= int(text) <= most:
            ends.append(int(text))
        else:
            return f"is not from {least} to {most}"
    if len(ends) > 1 and ends[0] > ends[1]:
        return "ends before it begins"
    if found[3] is not None and int(found[3]) == 0:
        return "has a step of nothing"
    return ""


def _cycle(follows: Mapping[str, list[str]]) -> list[str]:
    """Return nodes that wait for each other, the first one again at the end."""
    path = [next(iter(follows))]
    while True:
        # Each of them waits for another one of them: else it had been ready.
        behind = follows[path[-1]][0]
        if behind in path:
            return [*path[path.index(behind) :], behind][::-1]
        path.append(behind)


def _is_literal(value: object) -> bool:
    try:
        ast.literal_eval(repr(value))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return False
    return True


_TEXTS = ("options", "binds", "after", "notify")


def _only(data: Mapping[str, Any], known: set[str], what: str) -> None:
    if unknown := sorted(data.keys() - known):
        raise ValueError(f"{what} has no {unknown[0]!r:.40}")


def _text(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{what} is {value!r:.40}, and has to be text")
    return value


def _texts(value: object, what: str) -> tuple[str, ...]:
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"{what} is {value!r:.40}, and has to be a list")
    return tuple(_text(one, what) for one in value)


def _whole(value: object, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{what} is {value!r:.40}, and has to be a whole number")
    return value


def _cell_to_json(cell: Cell) -> dict[str, Any]:
    return {
        "number": cell.number,
        "id": cell.id,
        "name": cell.name,
        "raw": cell.raw,
        "source": cell.source,
        "imports": list(cell.imports),
        "dropped": [[one.line, one.text, one.reason] for one in cell.dropped],
    }


def _cell_from_json(data: Mapping[str, Any]) -> Cell:
    identity = data.get("id")
    return Cell(
        number=_whole(data["number"], "a cell's number"),
        id=None if identity is None else _text(identity, "a cell's id"),
        name=_text(data.get("name", ""), "a cell's name"),
        raw=_text(data["raw"], "a cell's text"),
        source=_text(data["source"], "a cell's source"),
        imports=_texts(data.get("imports", ()), "a cell's imports"),
        dropped=tuple(
            Dropped(line=_whole(line, "a line"), text=_text(text, "text"), reason=str(reason))
            for line, text, reason in data.get("dropped", ())
        ),
    )
