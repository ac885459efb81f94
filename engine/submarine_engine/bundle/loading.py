"""The lines of a script that load the values that travel beside it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from submarine_engine.bundle.capture import Load
from submarine_engine.bundle.imports import Import
from submarine_engine.bundle.literals import LINE

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
        """Choose the names; `taken` holds those of the script."""
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
        """Return the statement that loads a file."""
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
