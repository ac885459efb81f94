"""Values and results of jobs as they are stored: compared and shown, and none is loaded.

They may have been written by the jobs' own code, and nothing of that is run: only those are shown
that are plain (numbers, texts, lists and dicts of such).
"""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import reprlib
import stat
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from submarine_engine.amounts import size
from submarine_engine.bundle.model import Manifest
from submarine_engine.history import read_foreign
from submarine_engine.masking import Masks
from submarine_engine.outcome import Outcome

_PLAIN = 64 << 10
"""Bytes of a value that is shown, where it is plain."""
_MOST_HOME = 1 << 20
_THE_RESULT = "result"


class StoredValue(NamedTuple):
    """A value as it is stored.

    Parameters
    ----------
    type, size, digest
        What it is, how many bytes, and their SHA-256.
    plain
        It itself, in a tuple, where it is made of plain data.
    """

    type: str
    size: int
    digest: str
    plain: tuple[Any] | None

    def same(self, other: Any, /) -> bool:  # noqa: ANN401 - whatever another job has
        """Return whether it is the same value as `other`, as far as that can be told."""
        if not isinstance(other, StoredValue):
            return False
        if self.digest == other.digest:
            return True
        if self.plain is None or other.plain is None:
            return False
        try:  # sets have their members in another order in each process
            return self.plain == other.plain and _of_same_types(self.plain, other.plain)
        except Exception:  # noqa: BLE001 - nested too deeply
            return False

    def shown(self, masks: Masks, /) -> str:
        """Return it in words, without the secrets that `masks` knows."""
        if self.plain is not None:
            with suppress(Exception):  # a number of too many digits, and what else there may be
                return _Short(masks).repr(self.plain[0])
        kind = self.type.rpartition(".")[2]  # a module's name is long, and tells people little
        return f"{kind}, {size(self.size)}" if kind else size(self.size)


def _of_same_types(one: Any, other: Any) -> bool:  # noqa: ANN401 - plain data
    """Return whether equal values are of the same types all through: ``1`` is not ``True``."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        keys = {(type(key), key) for key in one}
        return keys == {(type(key), key) for key in other} and all(
            _of_same_types(value, other[key]) for key, value in one.items()
        )
    if isinstance(one, (set, frozenset)):
        return {(type(member), member) for member in one} == {
            (type(member), member) for member in other
        }
    if isinstance(one, (list, tuple)):
        return all(map(_of_same_types, one, other))
    return True


class _Short(reprlib.Repr):
    """Shortens a value for people; what is masked is the whole text, not what is left of it."""

    def __init__(self, masks: Masks) -> None:
        super().__init__()
        self._masks = masks
        self.maxstring = self.maxother = self.maxlong = 80
        self.maxlist = self.maxtuple = self.maxdict = self.maxset = 8

    def repr_str(self, x: str, level: int) -> str:
        return super().repr_str(self._masks.text(x), level)

    def repr_bytes(self, x: bytes, level: int) -> str:
        return self.repr_instance(self._masks.data(x), level)


class _OnlyPlain(pickle.Unpickler):
    """Loads numbers, texts, lists and dicts, and nothing that would run any code."""

    def find_class(self, module: str, name: str) -> Any:  # noqa: ANN401 - as pickle has it
        raise pickle.UnpicklingError(f"{module}.{name}")


def _plain(content: bytes) -> tuple[Any] | None:
    try:
        return (_OnlyPlain(io.BytesIO(content)).load(),)
    except Exception:  # noqa: BLE001 - whatever there is in place of a pickle
        return None


def _of_files(paths: Sequence[Path], kind: str) -> StoredValue:
    """Return a value that lies in some files, by their contents; raises OSError."""
    digest, length = hashlib.sha256(), 0
    for path in paths:
        status = path.lstat()
        content = _content_of(path, (status.st_mtime_ns, status.st_size, status.st_ino))
        digest.update(content[0])
        length += content[1]
    plain = _plain(read_foreign(paths[0], _PLAIN)) if length <= _PLAIN else None
    return StoredValue(kind, length, digest.hexdigest(), plain)


@lru_cache(maxsize=1024)
def _content_of(path: Path, _stamp: tuple[int, ...]) -> tuple[bytes, int]:
    """Return hash and size of a file; one that stays as it is, is read once for all questions."""
    digest, length = hashlib.sha256(), 0
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor, not a path
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError("it is no file")
        while piece := file.read(1 << 20):
            digest.update(piece)
            length += len(piece)
    return digest.digest(), length


def values_of(bundle: Path, manifest: Manifest) -> dict[str, StoredValue]:
    """Return the values that came with a job's script, by name; none that cannot be read.

    Parameters
    ----------
    bundle
        The folder.
    manifest
        What is in it, as the job's folder says.
    """
    types = {value.name: value.type for value in manifest.values}
    found = {}
    for load in manifest.loads:
        path = bundle / load.path
        blocks = path.with_suffix(".bin")
        kinds = dict.fromkeys(types.get(name, "") for name in load.names)
        with suppress(OSError, ValueError):
            if ".." in Path(load.path).parts:
                continue
            paths = [path, blocks] if blocks.exists() else [path]
            found[", ".join(load.names)] = _of_files(paths, ", ".join(filter(None, kinds)))
    return found


def results_of(outcome: Outcome, folder: Path) -> dict[str, StoredValue]:
    """Return what a task has left behind, by name; none that cannot be read.

    Parameters
    ----------
    outcome
        What it has told of its end.
    folder
        Where its results are.
    """
    found = {}
    for name, value in ((_THE_RESULT, outcome.result), *outcome.outputs.items()):
        with suppress(OSError, ValueError):
            if value.file and value.format == "text":
                text = read_foreign(folder / value.file, _PLAIN)
                shown = (text.decode(errors="replace"),)
                digest = hashlib.sha256(text).hexdigest()
                found[name] = StoredValue(value.type, len(text), digest, shown)
            elif value.file:
                found[name] = _of_files([folder / value.file], value.type)
    with suppress(OSError, ValueError):
        found |= _of_home(outcome, folder)
    return found


def _of_home(outcome: Outcome, folder: Path) -> dict[str, StoredValue]:
    """Return what a notebook's cell has left behind: its frames are one pickle after another."""
    if outcome.home is None:
        return {}
    content = read_foreign(folder / "home.pkl", _MOST_HOME)
    found, begin = {}, 0
    plainly: _OnlyPlain | None = _OnlyPlain(io.BytesIO(content))
    for frame in outcome.home.frames:
        piece = content[begin : frame.end]
        begin = frame.end
        if not piece or frame.end > len(content):
            break
        plain: tuple[Any] | None = None
        if plainly is not None:
            try:
                plain = (plainly.load(),)
            except Exception:  # noqa: BLE001 - what follows may refer to what it lacks
                plainly = None
        if frame.kind in ("name", "value"):
            name = frame.name if frame.kind == "name" else _THE_RESULT
            digest = hashlib.sha256(piece).hexdigest()
            found[name] = StoredValue(frame.type, len(piece), digest, plain)
    return found
