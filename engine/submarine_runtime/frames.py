"""Writes the pickle that goes back to the notebook, in frames that one pickler writes.

`home` writes the changes of a cell by it. Each frame can be read where those before it could be;
what cannot be pickled is left out of a frame, and noted.
"""

from __future__ import annotations

import os
import sys

from submarine_runtime.definitions import is_definition, is_own
from submarine_runtime.lean import mode_in, standard, suppress, type_name
from submarine_runtime.memory import BLOCK, PIECE, is_pristine, is_the_same, say_the_same

TYPE_CHECKING = False  # as type checkers have it; the module takes long to import

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, Protocol

    class Origins(Protocol):
        """Knows what came from the notebook, and where to: `submarine_runtime.home.Home`."""

        bundle: str
        namespace: dict[str, Any]

        def key_of(self, obj: object, /) -> tuple[Any, ...] | None:
            """Return what the notebook knows `obj` by; None where it does not."""

        def view(self, obj: object, /) -> Any:  # noqa: ANN401 - as pickle's reducers
            """Reduce an array that shares its memory with one that goes home, or is there."""

        def at_home(self, value: object, /) -> bool:
            """Return whether the notebook has this function or class under its own name."""


FILE = "home.pkl"


class Frames:
    """The file of frames; each can be read where those before it could be.

    Parameters
    ----------
    home
        Knows what the notebook has, to which the pickles only refer.
    results
        The folder for the file; it is made with the first frame.
    """

    def __init__(self, home: Origins, results: str) -> None:
        self._home = home
        self._results = results
        self._path = f"{results}/{FILE}"
        self._file: Any = None
        self._pickler: Any = None
        self._memo: dict[int, Any] = {}  # the pickler's, as of the last frame that was written
        self._frames: list[dict[str, Any]] = []
        self._stayed: list[dict[str, Any]] = []

    def add(self, kind: str, name: str, value: object) -> bool:
        """Write a frame; note that it stayed where it cannot be pickled.

        Parameters
        ----------
        kind
            What is in it: ``made``, ``states``, ``attributes``, ``module``, ``settings``, ``name``,
            ``value`` or ``error``.
        name
            Of what it is: a variable, a file of values, an attribute; empty where that needs none.
        value
            What is pickled.
        """
        error = self._dump(value)
        if error is None:
            self._frames.append(
                {"kind": kind, "name": name, "type": type_name(value), "end": self._file.tell(),
                 "memo": len(self._memo)}
            )  # fmt: skip
            return True
        if kind in ("name", "value", "module"):
            self.stay(name, value[-1] if kind == "module" else value, error)  # type: ignore[index]
        return False

    def add_all(self, kind: str, name: str, items: list[Any]) -> None:
        """Write a frame of many items; those that cannot be pickled stay.

        Parameters
        ----------
        kind, name
            As of `add`.
        items
            The frame's list; no frame is written for none.
        """
        if not items or self.add(kind, name, items):
            return
        good = []
        called = value_name(name)
        for item in items:
            error = self._try(item)
            if error is None:
                good.append(item)
            else:
                good += self._parts(item, called, error)
        self.add(kind, name, good)

    def _parts(self, item: Any, name: str, why: str) -> list[Any]:  # noqa: ANN401 - as `_states` has
        """Return an object's state without the attributes that cannot be pickled."""
        content = item[2] if len(item) == 3 else None  # noqa: PLR2004 - (what, kind, state)
        state = content[0] if isinstance(content, tuple) and item[1] == "state" else None
        if not isinstance(state, dict):
            self.stay(name, content, why)
            return []
        kept = {}
        for key, value in state.items():
            error = self._try(value)
            if error is None:
                kept[key] = value
            else:
                self.stay(f"{name}.{key}" if isinstance(key, str) else name, value, error)
        return [(item[0], "some", (kept, *content[1:]))]  # type: ignore[index]

    def stay(self, name: str, value: object, why: str) -> None:
        """Note that a value stays in the job.

        Parameters
        ----------
        name
            What the user knows it by.
        value
            What stays; only its type is noted.
        why
            The reason, in words.
        """
        self._stayed.append({"name": name, "type": type_name(value), "why": why})

    def finish(self) -> dict[str, Any]:
        """Put the file into its place, and return what is in it."""
        size = 0
        if self._file is not None:
            size = self._file.tell()
            self._file.close()
            os.replace(f"{self._path}.new", self._path)  # noqa: PTH105 - pathlib is slow
        return {"frames": self._frames, "stayed": self._stayed, "size": size}

    def discard(self) -> None:
        """Remove what was written."""
        with suppress(OSError):
            if self._file is not None:
                self._file.close()
                os.unlink(f"{self._path}.new")  # noqa: PTH108 - pathlib is slow

    def _open(self) -> None:
        os.makedirs(self._results, mode=0o700, exist_ok=True)  # noqa: PTH103 - as above
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        descriptor = os.open(f"{self._path}.new", flags, mode_in(self._results))
        self._file = _File(open(descriptor, "wb"))  # noqa: PTH123, SIM115 - closed by `finish`
        self._pickler = _pickler(self._home, self._file)

    def _dump(self, value: object) -> str | None:
        """Write a pickle; return why it cannot be written, with nothing of it left."""
        if self._file is None:
            self._open()
        at = self._file.tell()
        error = self._attempt(self._pickler, value)
        if error is None:
            self._memo = self._pickler.memo.copy()
        else:
            self._file.back_to(at)
            self._pickler = _pickler(self._home, self._file)
            self._pickler.memo = self._memo
        return error

    def _attempt(self, pickler: Any, value: object) -> str | None:  # noqa: ANN401 - a pickler
        try:
            pickler.dump(value)
        except BaseException as error:  # noqa: BLE001 - a foreign __reduce__ raises what it likes
            if self._file.error is not None:
                raise self._file.error from None
            return said(error)
        return None

    def _try(self, value: object) -> str | None:
        """Return why a value cannot be pickled; None where it can."""
        nothing = _File(open(os.devnull, "wb"))  # noqa: PTH123, SIM115 - closed below
        try:
            return self._attempt(_pickler(self._home, nothing), value)
        finally:
            nothing.close()


class _File:
    """A file that keeps its own error apart from those of what is pickled."""

    def __init__(self, file: Any) -> None:  # noqa: ANN401 - a file
        self._file = file
        self.error: OSError | None = None
        self.tell = file.tell
        self.close = file.close

    def write(self, data: Any) -> int:  # noqa: ANN401 - any buffer
        try:
            return self._file.write(data)  # type: ignore[no-any-return]
        except OSError as error:
            self.error = error
            raise

    def back_to(self, position: int) -> None:
        """Forget all that was written from `position` on."""
        self._file.flush()
        self._file.seek(position)
        self._file.truncate()


def is_small(buffer: Any) -> bool:  # noqa: ANN401 - a PickleBuffer
    """Return whether the block `buffer` stands in the pickle itself."""
    return bool(buffer.raw().nbytes < BLOCK)


class Comparer:
    """A file that only compares: it raises where what is written differs from another file.

    Parameters
    ----------
    file
        The other file, open to be read from where it is to be compared.
    blocks
        The large blocks beside that file, as they were sent; None where there are none.
    came
        The same blocks, as the job's values were loaded with them; empty for none.
    """

    def __init__(
        self,
        file: Any,  # noqa: ANN401
        blocks: Iterator[memoryview] | None,
        came: list[memoryview],
    ) -> None:
        self._file = file
        self._blocks = blocks
        self._came = iter(came)

    def block(self, buffer: Any) -> bool:  # noqa: ANN401 - a PickleBuffer
        """Compare the large block `buffer` with the one that came; a small one is in the stream."""
        view = buffer.raw()
        if self._blocks is None or view.nbytes < BLOCK:
            return True
        block, came = next(self._blocks), next(self._came)
        if not (is_the_same(came, view) and is_pristine(came)) and not say_the_same(block, view):
            raise ValueError("different")
        return False

    def is_at_end(self) -> bool:
        """Return whether nothing came that has not been compared."""
        return self._blocks is None or next(self._blocks, None) is None

    def write(self, data: Any) -> int:  # noqa: ANN401 - any buffer
        """Compare `data` with the next bytes; raises ``ValueError`` where they differ."""
        view = memoryview(data).cast("B")
        for at in range(0, len(view), PIECE):
            piece = view[at : at + PIECE]
            if self._file.read(len(piece)) != piece.tobytes():
                raise ValueError("different")
        return len(view)


def comparing(pickle: Any) -> Any:  # noqa: ANN401 - modules and classes of pickle
    """Return the class of picklers that write values as they came from the notebook.

    Parameters
    ----------
    pickle
        The standard library's module.
    """
    from submarine_runtime.frameworks import ROOTS, reduced  # noqa: PLC0415 - where values came

    if not any(root in sys.modules for root in ROOTS):
        return pickle.Pickler

    class Comparing(pickle.Pickler):  # type: ignore[misc]
        def reducer_override(self, obj: object) -> Any:  # noqa: ANN401 - as pickle has it
            return NotImplemented if is_definition(obj) else reduced(obj)

    return Comparing


def _pickler(home: Origins, file: _File) -> Any:  # noqa: ANN401 - a pickler
    """Return a pickler that refers to what the notebook has; what has no name goes by value."""
    pickle = standard("pickle", home.bundle)
    from submarine_runtime.byvalue import ByValue  # noqa: PLC0415 - only where something goes home
    from submarine_runtime.frameworks import reduced  # noqa: PLC0415 - likewise

    class HomePickler(ByValue, pickle.Pickler):  # type: ignore[misc, name-defined]
        namespace = home.namespace

        def persistent_id(self, obj: object) -> tuple[Any, ...] | None:
            return home.key_of(obj) or (self.globals_of(obj) if type(obj) is dict else None)

        def reducer_override(self, obj: object) -> Any:  # noqa: ANN401 - as pickle has it
            if not is_definition(obj):
                found = home.view(obj) or reduced(obj)
                if found is not NotImplemented:
                    return found
            return self.by_value(obj)

        def by_name(self, obj: Any) -> bool:  # noqa: ANN401 - a function or a class
            return home.at_home(obj) if is_own(obj) else super().by_name(obj)

    return HomePickler(file, 5)


class ClosedFile:
    """Stands for a closed file, as ``with open(…) as file`` leaves it behind."""

    def __init__(self, file: Any) -> None:  # noqa: ANN401 - any of io's
        self._told = getattr(file, "name", ""), getattr(file, "mode", "r")

    def __reduce__(self) -> tuple[Any, ...]:
        name, mode = self._told
        name = name if isinstance(name, (str, bytes, int)) else ""
        return closed_file, (name, mode if isinstance(mode, str) else "r")


def closed_file(name: str | bytes | int, mode: str) -> Any:  # noqa: ANN401 - any of io's
    """Return a file that is closed, as if it had been opened by `name` with `mode` once."""
    import io  # noqa: PLC0415 - where it is loaded

    reads = "r" in mode
    raw = io.FileIO(os.devnull, "r" if reads else "w")
    raw.name = name
    file: Any = io.BufferedReader(raw) if reads else io.BufferedWriter(raw)
    if "b" not in mode:
        file = io.TextIOWrapper(file)
        file.mode = mode
    file.close()
    return file


class Content:
    """Is pickled as an array's content alone: the array itself is in the notebook."""

    def __init__(self, array: Any) -> None:  # noqa: ANN401 - an array of numpy
        self._array = array

    def __reduce_ex__(self, protocol: Any) -> Any:  # noqa: ANN401 - as pickle has it
        return self._array.__reduce_ex__(protocol)


class CallOnLoad:
    """Is pickled as a call, which is made where the pickle is loaded.

    Parameters
    ----------
    function, args
        What is called there, and with what.
    """

    def __init__(self, function: Callable[..., object], args: tuple[object, ...]) -> None:
        self._call = function, args

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return self._call


def said(error: BaseException) -> str:
    """Return an error in one line."""
    from submarine_runtime.failure import message  # noqa: PLC0415 - only where something failed

    return f"{type(error).__name__}: {message(error)}"[:300]


def value_name(path: str) -> str:
    """Return of what the file of values `path` is the value."""
    return path.rpartition("/")[2].removesuffix(".pkl")
