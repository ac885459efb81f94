"""What a bundle is made from, and what it is: plain data."""

from __future__ import annotations

import errno
import hashlib
import json
import pickle
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from submarine_engine.typed_fields import typed_fields

MANIFEST_VERSION = 1
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """A line of a cell that has no place in a script (``%matplotlib inline``)."""

    line: int
    text: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A cell as it was executed.

    Parameters
    ----------
    number
        The execution count, as in ``In [3]``; None for a cell that was not executed (a part).
    source
        Plain Python: IPython's syntax is already translated, line for line.
    raw
        What the user typed.
    id
        The notebook's cell id, where the front end tells it.
    executed
        How many lines took effect: all of them (None), or those above the line that raised.
    dropped
        Lines of `raw` that the translation left out.
    file
        For code that comes from a file, not from a notebook: its path.
    imports
        Import statements that the translation relies on and that are in no line: ``!ls`` becomes a
        call of ``subprocess``.
    name
        How the front end calls it, where it does not count executions.
    """

    number: int | None
    source: str
    raw: str = ""
    id: str | None = None
    executed: int | None = None
    dropped: tuple[Dropped, ...] = ()
    file: str | None = None
    imports: tuple[str, ...] = ()
    name: str = ""

    @property
    def label(self) -> str:
        """How people call it: ``In [3]``, the file, its name, or ``this cell``."""
        if self.file or self.name:
            return self.file or self.name
        return f"In [{self.number}]" if self.number is not None else "this cell"


@dataclass(frozen=True, slots=True, kw_only=True)
class LineSpan:
    """`count` lines of a file of the bundle that come from a cell, line for line.

    Lines are counted from 1.
    """

    file: str
    line: int
    count: int
    cell: str
    cell_id: str | None
    cell_number: int | None
    cell_line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledCode:
    """Code of a cell that travels as it was compiled, in a function within a value.

    Parameters
    ----------
    file, line
        Where its own tracebacks place it: a name that the notebook gave the cell, and its first
        line there, from 1.
    source
        Its lines.
    cell, cell_id, cell_number, cell_line
        As in `LineSpan`.
    """

    file: str
    line: int
    source: str
    cell: str
    cell_id: str | None
    cell_number: int | None
    cell_line: int

    @property
    def span(self) -> LineSpan:
        """The lines of its file that come from the cell."""
        return LineSpan(
            file=self.file,
            line=self.line,
            count=self.source.count("\n") + 1,
            cell=self.cell,
            cell_id=self.cell_id,
            cell_number=self.cell_number,
            cell_line=self.cell_line,
        )

    @property
    def lines(self) -> list[str]:
        """The lines of its file, those before it empty."""
        return [""] * (self.line - 1) + self.source.split("\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedValue:
    """A value that travels with the job.

    Parameters
    ----------
    cell
        Label of the cell that bound it last; empty where unknown.
    type
        The type's qualified name.
    size
        Bytes in the bundle.
    how
        ``literal`` (written into the script), ``pickle`` (a file under ``values/``), or
        ``cloudpickle`` (likewise, with code in it that the script does not show).
    """

    name: str
    cell: str
    type: str
    size: int
    how: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeAgain:
    """A value that cannot travel, and that the job makes again by the statement that made it.

    Parameters
    ----------
    cell
        Label of the cell with the statement.
    type
        The type's qualified name.
    place
        Of a file that was read from: where the job reads on.
    """

    name: str
    cell: str
    type: str
    place: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A statement of the main cell that is executed in the notebook, too: a definition, an import.

    Parameters
    ----------
    line
        Its first line in the cell.
    source
        Its lines.
    names
        What it binds.
    """

    line: int
    source: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedFile:
    """A file of values beside the script, and the variables that it fills.

    Parameters
    ----------
    path
        Relative to the bundle's folder.
    names
        One name: the file holds its value. Several: it holds the tuple of theirs.
    """

    path: str
    names: tuple[str, ...]


def module_name(path: str) -> str:
    """Return what a Python file beside the script is imported as; empty where it cannot be.

    Parameters
    ----------
    path
        Relative to the script's folder, with ``/`` between its steps.
    """
    parts = path.removesuffix(".py").split("/")
    if parts[-1] == "__init__":
        parts.pop()
    return ".".join(parts) if all(map(str.isidentifier, parts)) else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What is in a bundle and where it came from.

    Parameters
    ----------
    loader
        The script's function that loads a file of values; empty where there is none.
    loads
        The files that it loads.
    definitions
        What of the main cell is executed in the notebook as well.
    returns
        Whether what the main cell binds and changes goes back to a notebook.
    literals
        The variables with lists, dicts or sets in them that the script writes out.
    binds
        The names that the main cell's own statements bind.
    shadows
        Names that it binds, if only for an exception's handler, and that the notebook has too.
    random
        The random states that go back: the module of each, and its functions to get and set it.
    again
        What the job makes again, since it could not travel.
    sets
        Attributes of libraries that the code sets, by their dotted names.
    compiled
        Code of cells that is in no file of the bundle: that of functions within values.
    """

    entry: str
    python: str
    lines: tuple[LineSpan, ...] = ()
    values: tuple[CapturedValue, ...] = ()
    dropped: tuple[tuple[str, Dropped], ...] = ()
    modules: tuple[str, ...] = ()
    loader: str = ""
    loads: tuple[LoadedFile, ...] = ()
    definitions: tuple[Definition, ...] = ()
    returns: bool = False
    literals: tuple[str, ...] = ()
    binds: tuple[str, ...] = ()
    shadows: tuple[str, ...] = ()
    random: tuple[tuple[str, str, str], ...] = ()
    again: tuple[MadeAgain, ...] = ()
    sets: tuple[str, ...] = ()
    compiled: tuple[CompiledCode, ...] = ()

    @property
    def made_again(self) -> str:
        """One line for people on what the job makes again; empty where that is nothing."""
        if not self.again:
            return ""
        listed = ", ".join(f"`{made.name}` ({made.cell})" for made in self.again)
        return f"made again in the job: {listed}"

    def home(self) -> dict[str, Any] | None:
        """Return what the runtime has to know to bring a cell home; None where nobody waits."""
        if not self.returns:
            return None
        defined = [name for definition in self.definitions for name in definition.names]
        return {
            "loader": self.loader,
            "literals": list(self.literals),
            "defines": defined,
            "binds": list(self.binds),
            "shadows": list(self.shadows),
            "random": [list(source) for source in self.random],
            "again": [made.name for made in self.again],
            "sets": list(self.sets),
            "modules": [dotted for path in self.modules if (dotted := module_name(path))],
        }

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form, with ``"version"``."""
        return {
            "version": MANIFEST_VERSION,
            "entry": self.entry,
            "python": self.python,
            "lines": [_fields(span) for span in self.lines],
            "values": [_fields(value) for value in self.values],
            "dropped": [{"cell": cell, **_fields(line)} for cell, line in self.dropped],
            "modules": list(self.modules),
            "loader": self.loader,
            "loads": [_fields(load) for load in self.loads],
            "definitions": [_fields(definition) for definition in self.definitions],
            "returns": self.returns,
            "literals": list(self.literals),
            "binds": list(self.binds),
            "shadows": list(self.shadows),
            "random": [list(source) for source in self.random],
            "again": [_fields(made) for made in self.again],
            "sets": list(self.sets),
            "compiled": [_fields(code) for code in self.compiled],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Manifest:
        """Build from what `to_json` returned.

        Parameters
        ----------
        data
            What `to_json` returned.

        Raises
        ------
        ValueError, KeyError, TypeError
            The version is unknown, or something has no place in a manifest.
        """
        if not isinstance(data, Mapping) or data.get("version") != MANIFEST_VERSION:
            version = data.get("version") if isinstance(data, Mapping) else None
            raise ValueError(f"a manifest of version {version!r:.40} cannot be read")
        dropped = data["dropped"]
        compiled = _every(CompiledCode, data.get("compiled", ()))
        if any(not 0 < code.line <= _MOST_LINES for code in compiled):
            raise ValueError("compiled code has no place in its file")
        given = typed_fields(cls, {name: data[name] for name in _PLAIN if name in data})
        if any(len(source) != len(_RANDOM) for source in given.get("random", ())):
            raise ValueError("'random' is not of its type")
        loads = _every(LoadedFile, data.get("loads", ()))
        for path in (data["entry"], *(load.path for load in loads)):
            _inside(path)
        return cls(
            **given,
            lines=_every(LineSpan, data["lines"]),
            values=_every(CapturedValue, data["values"]),
            dropped=tuple(
                (_text(line["cell"]), one)
                for line, one in zip(dropped, _every(Dropped, dropped), strict=True)
            ),
            loads=loads,
            definitions=_every(Definition, data.get("definitions", ())),
            again=_every(MadeAgain, data.get("again", ())),
            compiled=compiled,
        )

    def origin(self, file: str, line: int) -> tuple[LineSpan, int] | None:
        """Return the span that holds `line` of `file`, and the line in its cell; None if ours.

        Parameters
        ----------
        file
            A file of the bundle, relative to it, or that of a `CompiledCode`.
        line
            Counted from 1.
        """
        for span in (*self.lines, *(code.span for code in self.compiled)):
            if span.file == file and span.line <= line < span.line + span.count:
                return span, span.cell_line + line - span.line
        return None


_MOST_LINES = 1 << 24
"""Lines of the longest file whose code is shown: those before it are made up, as empty ones."""

_RANDOM = ("module", "get", "set")
_PLAIN = ("entry", "python", "modules", "loader", "returns", "literals", "binds", "shadows",
          "random", "sets")  # fmt: skip
"""The fields of a manifest that are no dataclasses of their own."""


def _every(kind: type[_T], data: Any) -> tuple[_T, ...]:  # noqa: ANN401 - of a document
    """Return the dataclasses of a list in a document; ValueError or TypeError where it is none."""
    if not isinstance(data, (list, tuple)):
        raise TypeError(f"there is no list of {kind.__name__}")
    return tuple(kind(**typed_fields(kind, one)) for one in data)


def _text(data: Any) -> str:  # noqa: ANN401 - likewise
    if not isinstance(data, str):
        raise TypeError("it is no text")
    return data


def _fields(data: Any) -> dict[str, Any]:  # noqa: ANN401 - any of the dataclasses above
    return {name: getattr(data, name) for name in data.__slots__}


@dataclass(frozen=True, slots=True)
class Sent:
    """The objects of this process that a job gets copies of, so that its changes find them.

    Parameters
    ----------
    objects
        By the path of the file that they travel in, then by their number in its pickle's memo.
    literals
        Values that are written into the script, by name.
    again
        What the job makes again, by name.
    """

    objects: Mapping[str, Mapping[int, object]] = field(default_factory=dict)
    literals: Mapping[str, object] = field(default_factory=dict)
    again: Mapping[str, object] = field(default_factory=dict)


class Blocks:
    """The content of a file of large blocks: a line of their sizes, then each at a multiple of 64.

    Parameters
    ----------
    buffers
        The blocks; they stay where they are until they are written.
    """

    def __init__(self, buffers: Iterable[pickle.PickleBuffer]) -> None:
        self._views = [buffer.raw() for buffer in buffers]

    def __len__(self) -> int:
        return sum(map(len, self.pieces()))

    def pieces(self) -> Iterator[memoryview]:
        """Yield the content piece by piece."""
        head = (" ".join(str(view.nbytes) for view in self._views) + "\n").encode()
        yield memoryview(head)
        at = len(head)
        for view in self._views:
            yield memoryview(bytes(-at % _ALIGNED))
            yield view
            at += -at % _ALIGNED + view.nbytes


_ALIGNED = 64

_MANIFEST = "manifest.json"

Content = bytes | Blocks
"""What a file of a bundle holds: large blocks are not copied into one piece."""


def pieces_of(content: Content) -> Iterator[bytes | memoryview]:
    """Yield a file's content piece by piece."""
    if isinstance(content, Blocks):
        yield from content.pieces()
    else:
        yield content


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """One training script with everything that travels with it.

    Parameters
    ----------
    files
        Content by POSIX path relative to the bundle's folder; the entry script is one of them.
    sent
        What of this process the values are copies of; no part of what is written.
    secrets
        Names and texts of the secrets among the values, to be masked in logs; likewise.
    """

    files: Mapping[str, Content]
    manifest: Manifest
    sent: Sent = field(default_factory=Sent, repr=False, compare=False)
    secrets: tuple[tuple[str, str], ...] = field(default=(), repr=False, compare=False)
    _hash: list[str] = field(default_factory=list, repr=False, compare=False)

    @property
    def script(self) -> str:
        """The entry script's text."""
        return self.source(self.manifest.entry)

    def source(self, path: str) -> str:
        """Return a file's text.

        Parameters
        ----------
        path
            One of `files`.
        """
        return b"".join(pieces_of(self.files[path])).decode(errors="replace")

    @property
    def hash(self) -> str:
        """SHA-256 over all files and the manifest, in hexadecimal: same input, same hash."""
        if not self._hash:
            digest = hashlib.sha256()
            for path in sorted(self.files):
                content = self.files[path]
                digest.update(f"{path}\0{len(content)}\0".encode())
                for piece in pieces_of(content):
                    digest.update(piece)
            digest.update(json.dumps(self.manifest.to_json(), sort_keys=True).encode())
            self._hash.append(digest.hexdigest())
        return self._hash[0]

    @classmethod
    def read(cls, folder: Path) -> Bundle:
        """Read what `write` wrote.

        Parameters
        ----------
        folder
            The bundle's.

        Raises
        ------
        OSError, ValueError, KeyError, TypeError
            It is not there, or is none of a bundle.
        """
        manifest = Manifest.from_json(_read_manifest(folder / _MANIFEST))
        files = {
            path.relative_to(folder).as_posix(): path.read_bytes()
            for path in sorted(folder.rglob("*"))
            if path.is_file() and path != folder / _MANIFEST
        }
        named = (manifest.entry, *(load.path for load in manifest.loads))
        if absent := [path for path in named if path not in files]:
            raise ValueError(f"there is no {absent[0]!r:.100} in it")
        return cls(files=files, manifest=manifest)

    def write(self, folder: Path) -> None:
        """Write all files and ``manifest.json`` into `folder`, for the owner alone.

        Parameters
        ----------
        folder
            Made where it is missing, with mode 0700.

        Raises
        ------
        OSError
            The disk is full or `folder` cannot be written.
        ValueError
            A path would lead out of `folder`.
        """
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for name, content in self.files.items():
            target = folder / _inside(name)
            target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            _write_private(target, content)
        manifest = json.dumps(self.manifest.to_json(), indent=1, ensure_ascii=False)
        _write_private(folder / _MANIFEST, manifest.encode())


def _read_manifest(path: Path) -> Any:  # noqa: ANN401 - of JSON
    if path.exists() and not path.is_file():  # no pipe is waited for
        raise OSError(errno.EINVAL, "it is no file", str(path))
    try:
        return json.loads(path.read_bytes())
    except RecursionError as error:
        raise ValueError("its manifest nests too deeply") from error


def _inside(name: str) -> PurePosixPath:
    """Return the path of a bundle's file; ValueError where it would lead out of its folder."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts:
        raise ValueError(f"{name!r:.100} is no path inside a bundle")
    return path


def _write_private(path: Path, content: Content) -> None:
    path.touch(mode=0o600)
    with path.open("wb") as file:
        for piece in pieces_of(content):
            file.write(piece)
