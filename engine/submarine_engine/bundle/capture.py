"""The values that a job takes along, and the lines of the script that load them.

Small plain values are written into the script, all others are pickled beside it.
"""

from __future__ import annotations

import threading
import types
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import NoReturn

from submarine_runtime.lean import type_name

from submarine_engine.bundle.executed import Import
from submarine_engine.bundle.model import Blocks, CapturedValue, Cell, Content
from submarine_engine.bundle.pickling import (
    Packed,
    PickleTrace,
    pack,
    refuse_value,
    refused_words,
    unpack,
)
from submarine_engine.bundle.secrets import is_secret, secret_texts
from submarine_engine.bundle.secrets import shown as secret_shown
from submarine_engine.bundle.source import LINE, literal
from submarine_engine.errors import CannotTravelError, CaptureTooLargeError

# The values that a job takes along: written into the script, or pickled beside it.
#
# Functions and classes of the notebook travel as source in the script, and values refer to them by
# name. Only what has no such name goes by value: lambdas, and what a function has defined.


LIMIT = 64 * 1024 * 1024
"""Bytes that all values of a job together may take, unless configured otherwise."""

PATIENCE = 5.0
"""Seconds of capturing after which people are told what it is at."""

_LISTED = 10


@dataclass(frozen=True, slots=True)
class Load:
    """A file of pickled values, and the variables that it fills.

    Parameters
    ----------
    path
        Relative to the bundle's folder: ``values/model.pkl``.
    names
        One name: the file holds its value. Several: the file holds the tuple of their values, which
        have objects in common (an optimizer has its model's parameters) that must stay one.
    definitions
        Functions and classes of the notebook that must be defined before the file is loaded.
    opaque
        Whether it takes cloudpickle to load it.
    spaces
        Whether functions in it read the variables of the script, or of a module.
    mapped
        Whether it has large blocks, which lie in a file of their own.
    """

    path: str
    names: tuple[str, ...]
    definitions: frozenset[str]
    opaque: bool = False
    spaces: bool = False
    mapped: bool = False

    @property
    def blocks(self) -> str:
        """Path of the file with its large blocks."""
        return f"{self.path.removesuffix('.pkl')}.bin"


@dataclass(frozen=True, slots=True)
class Captured:
    """Everything that was captured.

    Parameters
    ----------
    files
        Content by path; one file for each of `loads`.
    values
        For the manifest, in the order in which they were added.
    literals
        Source of an expression by name, laid out to follow ``NAME = ``.
    loads
        What fills which names; names with a literal are in none.
    modules
        Modules that the pickles refer to; those beside the notebook have to travel.
    patches
        Modules to import before the values are loaded: they have patched classes of them.
    sent
        The objects that the job gets copies of, those that can change: by path, then by their
        number in the pickle's memo.
    secrets
        Names of variables, and the texts in them that are secrets.
    codes
        The code of the functions that go by value.
    """

    files: dict[str, Content]
    values: list[CapturedValue]
    literals: dict[str, str]
    loads: tuple[Load, ...] = ()
    modules: tuple[str, ...] = ()
    patches: tuple[str, ...] = ()
    sent: dict[str, dict[int, object]] = field(default_factory=dict)
    secrets: tuple[tuple[str, str], ...] = ()
    codes: frozenset[types.CodeType] = frozenset()


@dataclass(slots=True)
class _Entry:
    name: str
    value: object
    cell: str
    source: str | None
    packed: Packed
    watch: PickleTrace
    secret: bool
    group: list[str] = field(default_factory=list)


class Notice:
    """Says what is being captured where that takes long: a foreign ``__reduce__`` may hang.

    Parameters
    ----------
    tell
        Is called with one line, from another thread; None says nothing.
    """

    def __init__(self, tell: Callable[[str], object] | None) -> None:
        self.now = ""
        self._tell = tell
        self._timer = threading.Timer(PATIENCE, self._say)
        self._timer.daemon = True

    def __enter__(self) -> None:
        if self._tell:
            self._timer.start()

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()

    def _say(self) -> None:
        if self.now and self._tell:
            self._tell(f"still capturing {self.now}; interrupt to stop")


class Capture:
    """Collects the values of one job.

    Parameters
    ----------
    limit
        Bytes that all values together may take in the bundle.
    by_value
        Names of functions and classes that go by value, since no statement makes them.
    notice
        Says what takes long.
    """

    def __init__(
        self,
        limit: int = LIMIT,
        by_value: Collection[str] = (),
        notice: Notice | None = None,
    ) -> None:
        self._notice = notice
        self._by_value = frozenset(by_value)
        self._limit = limit
        self._room = limit
        self._entries: dict[str, _Entry] = {}
        self._owners: dict[int, str] = {}

    def add(self, name: str, value: object, cell: Cell | str = "") -> frozenset[str]:
        """Take the value of the variable `name` as it is now; `cell` bound it last.

        Parameters
        ----------
        name
            The variable's.
        value
            What it holds.
        cell
            The cell, or where else it was bound, in words.

        Returns
        -------
        frozenset of str
            Functions and classes of the notebook that the value refers to by name.

        Raises
        ------
        CannotTravelError
            It cannot leave this process; the error says where in the value, and the way out.
        """
        if name not in self._entries:
            if self._notice:
                self._notice.now = f"`{name}` ({type_name(value)})"
            label = cell.label if isinstance(cell, Cell) else cell
            packed, watch = self._pack(name, value, label)
            secret = is_secret(name, value)
            source = None if secret else literal(value, f"{name} = ")
            entry = _Entry(name, value, label, source, packed, watch, secret, [name])
            self._entries[name] = entry
            self._join(entry)
        return frozenset(self._entries[name].watch.names)

    def reads(self, name: str) -> frozenset[str]:
        """Return the variables that functions in the value of `name` read when they are called."""
        return frozenset(self._entries[name].watch.reads)

    def modules(self, name: str) -> frozenset[str]:
        """Return the modules that the value of `name` refers to."""
        watch = self._entries[name].watch
        return frozenset(watch.modules | watch.patches)

    def objects(self) -> set[int]:
        """Return the ids of all objects of the values that have an identity."""
        return {key for entry in self._entries.values() for key in entry.watch.objects}

    def shared(self, name: str) -> tuple[str, ...]:
        """Return the names of all values that have an object in common with that of `name`."""
        return tuple(self._entries[name].group)

    def finish(self) -> Captured:
        """Return what was captured.

        Raises
        ------
        CaptureTooLargeError
            It exceeds the limit; the error lists the values, largest first.
        """
        files: dict[str, Content] = {}
        literals: dict[str, str] = {}
        loads: list[Load] = []
        sent: dict[str, dict[int, object]] = {}
        size = 0
        for entry in self._entries.values():
            if entry.group[0] != entry.name:
                continue
            if entry.source is not None and len(entry.group) == 1:
                literals[entry.name] = entry.source
                continue
            packed, watch = self._pack_group(entry)
            size += packed.size
            if packed.data is None or size > self._limit:
                self._refuse_size()
            load = Load(
                f"values/{entry.name}.pkl",
                tuple(entry.group),
                self._names(entry.group),
                watch.opaque,
                watch.spaces,
                bool(packed.blocks),
            )
            files[load.path] = packed.data
            if packed.blocks:
                files[load.blocks] = Blocks(packed.blocks)
            sent[load.path] = watch.memo
            loads.append(load)
        used = {name for load in loads for name in load.names}
        watches = [self._entries[name].watch for name in used]
        patches = set[str]().union(*(watch.patches for watch in watches))
        modules = patches.union(*(watch.modules for watch in watches))
        values = [_summary(entry, literals) for entry in self._entries.values()]
        return Captured(
            files,
            values,
            literals,
            tuple(loads),
            tuple(sorted(modules)),
            tuple(sorted(patches)),
            sent,
            tuple(
                (entry.name, text)
                for entry in self._entries.values()
                if entry.secret
                for text in secret_texts(entry.name, entry.value)
            ),
            frozenset().union(*(watch.codes for watch in watches)),
        )

    def _names(self, group: Iterable[str]) -> frozenset[str]:
        return frozenset().union(*(self._entries[name].watch.names for name in group))

    def _pack(self, name: str, value: object, cell: str) -> tuple[Packed, PickleTrace]:
        watch = PickleTrace(by_value=self._by_value)
        try:
            packed = pack(value, self._limit, watch)
        except Exception as error:  # noqa: BLE001 - a foreign __reduce__ raises what it likes
            refuse_value(name, value, cell, watch.last, error)
        if packed.data is not None:
            try:
                unpack(packed)
            except Exception as error:
                raise CannotTravelError(
                    f"`{name}` ({type_name(value)}) can be pickled, but not loaded again: "
                    f"{refused_words(error)}",
                    where=cell,
                    fix="make it inside the job, or give its class a __reduce__ that works",
                ) from error
            if packed.size > self._room:
                packed = Packed(None, packed.size, exact=True)
            else:
                self._room -= packed.size
        return packed, watch

    def _join(self, entry: _Entry) -> None:
        """Put `entry` into one group with every value that it has an object in common with."""
        for key in entry.watch.objects:
            owner = self._entries[self._owners.setdefault(key, entry.name)]
            if owner.group is not entry.group:
                order = [*owner.group, *entry.group]
                merged = [name for name in self._entries if name in order]
                for name in merged:
                    self._entries[name].group = merged

    def _pack_group(self, entry: _Entry) -> tuple[Packed, PickleTrace]:
        if len(entry.group) == 1 and (
            entry.packed.data is not None or entry.packed.size > self._limit
        ):
            return entry.packed, entry.watch
        members = tuple(self._entries[name].value for name in entry.group)
        watch = PickleTrace(by_value=self._by_value)
        packed = pack(members if len(members) > 1 else members[0], self._limit, watch)
        return packed, watch

    def _refuse_size(self) -> NoReturn:
        large = sorted(self._entries.values(), key=lambda entry: -entry.packed.size)
        sizes = [human(entry.packed.size) for entry in large]
        total = human(sum(entry.packed.size for entry in large))
        lines = [
            f"  {entry.name}: {'' if entry.packed.exact else 'more than '}{size}, "
            f"{type_name(entry.value)}{', ' + entry.cell if entry.cell else ''}"
            for entry, size in zip(large[:_LISTED], sizes[:_LISTED], strict=True)
        ]
        if len(large) > _LISTED:
            lines.append(f"  and {len(large) - _LISTED} smaller ones")
        raise CaptureTooLargeError(
            f"the values that the job takes along need {total}, "
            f"and {human(self._limit)} may travel:\n" + "\n".join(lines),
            fix="load the data inside the job, from --input_path; or raise the limit: "
            "capture_limit in config.toml, or SUBMARINE_CAPTURE_LIMIT",
            values=[_summary(entry, {}) for entry in large],
            limit=self._limit,
        )


def human(size: int) -> str:
    """Return a size in bytes for people: ``64 MiB``."""
    power = min(3, max(0, size.bit_length() - 1) // 10)
    unit = ("bytes", "KiB", "MiB", "GiB")[power]
    return f"{size / 1024**power:,.1f}".removesuffix(".0") + f" {unit}"


def _summary(entry: _Entry, literals: dict[str, str]) -> CapturedValue:
    source = literals.get(entry.name)
    return CapturedValue(
        name=entry.name,
        cell=entry.cell,
        type=secret_shown(entry.value) if entry.secret else type_name(entry.value),
        size=entry.packed.size if source is None else len(source.encode()),
        how="literal" if source else "cloudpickle" if entry.watch.opaque else "pickle",
    )


# The lines of a script that load the values that travel beside it.


# In a child of multiprocessing the script is imported as __mp_main__, and __main__ is not yet it.
_UNPICKLER = '''\
class {unpickler}({pickle}.Unpickler):
    """Finds the notebook's functions and classes in this script, by whatever name it runs."""

    def find_class(self, module, name):
        return super().find_class(__name__ if module == "__main__" else module, name)
{spaces}

'''

_SPACES = """
    # What functions without a name read: the variables of this script, or those of a module.
    def persistent_load(self, space):
        return vars({find}(space[1])) if space[1:] else globals()
"""

_BLOCKS = '''\
def {blocks}(file):
    """Yield the large blocks beside a file of values, mapped into memory."""
    with file.with_suffix(".bin").open("rb") as blocks:
        sizes = [int(size) for size in blocks.readline().split()]
        at = blocks.tell()
        data = memoryview({mmap}(blocks.fileno(), 0, access={copy}))
    for size in sizes:
        at += -at % 64
        yield data[at : at + size]
        at += size


'''

_LOAD_MAPPED = '''\
def {load}(path):
    """Load values of the notebook from a file beside this script."""
    path = {path}(__file__).parent / path
    blocks = {blocks}(path) if path.with_suffix(".bin").exists() else ()
    with path.open("rb") as file:
        return {call}
'''

_LOAD = '''\
def {load}(path):
    """Load values of the notebook from a file beside this script."""
    with ({path}(__file__).parent / path).open("rb") as file:
        return {call}
'''


@dataclass(frozen=True, slots=True)
class Loading:
    """How a script loads its values, under names that nothing else in it has.

    Parameters
    ----------
    refers
        Whether a value refers to functions or classes of the script.
    spaces
        Whether functions in the values read variables of the script, or of modules.
    mapped
        Whether values have large blocks, in files of their own.
    """

    refers: bool
    spaces: bool
    mapped: bool
    pickle: str
    path: str
    load: str
    unpickler: str
    find: str
    blocks: str
    mmap: str
    copy: str

    @classmethod
    def among(cls, loads: Collection[Load], taken: Collection[str]) -> Loading:
        """Choose the names for the files `loads`; `taken` holds those of the script."""
        return cls(
            refers=any(load.definitions or load.opaque for load in loads),
            spaces=any(load.spaces for load in loads),
            mapped=any(load.mapped for load in loads),
            pickle=free_name("pickle", taken),
            path=free_name("Path", taken),
            load=free_name("load_values", taken),
            unpickler=free_name("NotebookUnpickler", taken),
            find=free_name("import_module", taken),
            blocks=free_name("mapped_blocks", taken),
            mmap=free_name("mmap", taken),
            copy=free_name("ACCESS_COPY", taken),
        )

    def imports(self) -> tuple[Import, ...]:
        """Return what the lines need."""
        found = [
            Import("pickle", asname=self.pickle if self.pickle != "pickle" else None),
            Import("pathlib", "Path", asname=self.path if self.path != "Path" else None),
        ]
        if self.spaces:
            renamed = self.find if self.find != "import_module" else None
            found.append(Import("importlib", "import_module", asname=renamed))
        if self.mapped:
            for name, called in (("mmap", self.mmap), ("ACCESS_COPY", self.copy)):
                found.append(Import("mmap", name, asname=called if called != name else None))
        return tuple(found)

    def helper(self) -> list[str]:
        """Return the lines of the function that loads a file."""
        given = "file, buffers=blocks" if self.mapped else "file"
        call = (
            f"{self.unpickler}({given}).load()" if self.refers else f"{self.pickle}.load({given})"
        )
        names = {"load": self.load, "path": self.path, "call": call, "blocks": self.blocks}
        source = (_LOAD_MAPPED if self.mapped else _LOAD).format(**names)
        if self.mapped:
            source = _BLOCKS.format(blocks=self.blocks, mmap=self.mmap, copy=self.copy) + source
        if self.refers:
            spaces = _SPACES.format(find=self.find) if self.spaces else ""
            names = {"unpickler": self.unpickler, "pickle": self.pickle, "spaces": spaces}
            source = _UNPICKLER.format(**names) + source
        return source.splitlines()

    def line(self, load: Load) -> list[str]:
        """Return the statement that loads the file of `load`, as lines."""
        names = ", ".join(load.names)
        line = f'{names} = {self.load}("{load.path}")'
        if len(line) <= LINE:
            return [line]
        if len(load.names) == 1:
            return [f"{names} = {self.load}(", f'    "{load.path}"', ")"]
        return [
            "(",
            *(f"    {name}," for name in load.names),
            f') = {self.load}("{load.path}")',
        ]


def free_name(name: str, taken: Collection[str]) -> str:
    """Return `name`, or where it is taken, one that is like it."""
    while name in taken:
        name = f"_{name}"
    return name
