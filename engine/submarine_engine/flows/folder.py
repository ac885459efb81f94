"""A flow's folder: on a path of this machine, or at an address that all workers reach.

`Place` is a path in either. What is asked of both is here, once: a path is answered by the file
system, an address by its `Storage`. In a storage no file is ever linked, renamed or locked: it is
made (once, whoever else tries), written whole, read and removed.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeAlias

from submarine_engine import history
from submarine_engine.bundle import Bundle
from submarine_engine.errors import FlowError
from submarine_engine.history import default_home, make_private, write_aside

if TYPE_CHECKING:
    from submarine_engine.clusters.storage import Storage

_MANIFEST = "manifest.json"  # of a bundle: written last, so what has one is whole
_HALF_WRITTEN = 5.0  # seconds that who makes a file may take between its name and its content
_NAP = 0.1  # seconds: it is seldom needed, and each look is a question to a storage
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://")


@dataclass(frozen=True, slots=True)
class RemotePath:
    """A path in a storage, with as much of a `Path` as flows need.

    Parameters
    ----------
    storage
        Which.
    path
        Absolute there.
    """

    storage: Storage = field(repr=False, compare=False)
    path: str

    def __truediv__(self, name: str) -> RemotePath:
        return RemotePath(self.storage, f"{self.path.rstrip('/')}/{name}")

    def __str__(self) -> str:
        return self.storage.uri(self.path)

    @property
    def name(self) -> str:
        """The last part of it."""
        return PurePosixPath(self.path).name

    def exists(self) -> bool:
        """Return whether there is a file or a folder."""
        return self.storage.entry(self.path) is not None

    def is_dir(self) -> bool:
        """Return whether there is a folder."""
        found = self.storage.entry(self.path)
        return found is not None and found.folder

    def read_bytes(self) -> bytes:
        """Return what the file holds; FileNotFoundError where there is none."""
        return self.storage.read(self.path)

    def unlink(self, missing_ok: bool = False) -> None:  # noqa: FBT001, FBT002 - as a `Path` has it
        """Remove the file; with or without `missing_ok` it is no error where there is none."""
        del missing_ok  # a storage minds neither way
        self.storage.remove(self.path)


Place: TypeAlias = Path | RemotePath
"""A file or folder of this machine, or in a storage."""


def is_address(text: str) -> bool:
    """Return whether a text is an address of a storage, and no path of this machine.

    Parameters
    ----------
    text
        ``hdfs:///user/ana/x`` is one; ``train.flow`` and ``file:///data/x`` are not.
    """
    return bool(_ADDRESS.match(text)) and not text.startswith("file://")


def place_of(text: str) -> Place:
    """Return the place that a text names.

    Parameters
    ----------
    text
        A path, or an address: ``hdfs:///user/ana/nightly.flow``.

    Raises
    ------
    ConfigError, UnsupportedError, ClusterError
        As of `open_storage`.
    """
    if not is_address(text):
        return Path(text.removeprefix("file://"))
    from submarine_engine.clusters.addresses import open_storage  # noqa: PLC0415 - of addresses alone

    storage, path = open_storage(text)
    return RemotePath(storage, path)


def address_of(place: Place) -> str:
    """Return what names `place` in every process of this machine, whatever folder it is in."""
    return str(place.resolve()) if isinstance(place, Path) else str(place)


def make_folder(place: Place) -> None:
    """Make the folder `place` for the owner alone; a storage makes it with its first file."""
    if isinstance(place, Path):
        make_private(place)


def read_json(place: Place) -> dict[str, Any] | None:
    """Read the JSON object in the file `place`; None where it is not there.

    Raises
    ------
    OSError, SpoiltFileError, SubmarineError
        As of `history.read_json`; the storage does not answer, or refuses.
    """
    if isinstance(place, Path):
        return history.read_json(place)
    try:
        return history.json_object(place.read_bytes(), str(place))
    except FileNotFoundError:
        return None


def write_json(place: Place, data: Mapping[str, Any]) -> None:
    """Write `data` as JSON to the file `place`, whole or not at all."""
    if isinstance(place, Path):
        history.write_json(place, data)
    else:
        place.storage.write(place.path, _encoded(data))


def create_json(place: Place, data: Mapping[str, Any]) -> dict[str, Any] | None:
    """Write `data` as JSON where no file is; else return what is there: of all who do, one has.

    Parameters
    ----------
    place
        The file.
    data
        What it is to hold.

    Raises
    ------
    ValueError
        What is there is no JSON.
    """
    if isinstance(place, Path):
        if history.write_first(place, _encoded(data)):
            return None
        return history.read_json(place) or {}
    if place.storage.create(place.path, _encoded(data)):
        return None
    limit = time.monotonic() + _HALF_WRITTEN
    while time.monotonic() < limit:  # not every storage has a file whole as soon as it is there
        with suppress(ValueError):
            return read_json(place) or {}
        time.sleep(_NAP)
    return read_json(place) or {}


def _encoded(data: Mapping[str, Any]) -> bytes:
    return json.dumps(data, ensure_ascii=False).encode()


def write_file(place: Place, data: bytes) -> None:
    """Write `data` to the file `place`, with the folders above it, whole or not at all."""
    if isinstance(place, Path):
        make_private(place.parent)
        write_aside(place, data)
    else:
        place.storage.write(place.path, data)


def mark(place: Place) -> None:
    """Make the file `place`, whose being there is all that it says."""
    if isinstance(place, Path):
        make_private(place.parent)
        place.touch(mode=0o600)
    else:
        place.storage.write(place.path, b"")


def folders_in(place: Place) -> list[Place]:
    """Return the folders in the folder `place`; none where it is not there."""
    if isinstance(place, Path):
        return [one for one in place.glob("*") if one.is_dir()]
    return [place / one.name for one in place.storage.list(place.path) if one.folder]


def write_once(bundle: Bundle, place: Place) -> None:
    """Write a bundle so that it is there whole or not at all; one that is there is the same.

    Parameters
    ----------
    bundle
        What to write.
    place
        Its folder, named after its hash, or of one try of a node.
    """
    if isinstance(place, RemotePath):
        _send(bundle, place)
        return
    if place.is_dir():
        return
    aside = place.with_name(f".{place.name}.{os.urandom(6).hex()}")
    try:
        bundle.write(aside)
        aside.rename(place)
    except OSError:
        shutil.rmtree(aside, ignore_errors=True)
        if not place.is_dir():  # else somebody else was quicker, with the same
            raise


def _send(bundle: Bundle, place: RemotePath) -> None:
    if (place / _MANIFEST).exists():
        return
    with TemporaryDirectory() as name:
        aside = Path(name, "bundle")
        bundle.write(aside)
        files = [one for one in sorted(aside.rglob("*")) if one.is_file()]
        for file in sorted(files, key=lambda one: one == aside / _MANIFEST):
            to = place / file.relative_to(aside).as_posix()
            place.storage.write(to.path, file)


@dataclass(slots=True)
class Copies:
    """Folders of a flow on this machine: those that are here as they are, others as copies.

    Close it when they are not needed any more.
    """

    _asides: list[TemporaryDirectory[str]] = field(default_factory=list)

    def of(self, place: Place) -> Path:
        """Return a folder of this machine with what a place holds; an empty one for nothing.

        Parameters
        ----------
        place
            A folder.

        Raises
        ------
        FlowError
            What lies there cannot lie here: names of no file, or more than the disk holds.
        SubmarineError
            The storage does not answer, or refuses.
        """
        if isinstance(place, Path):
            return place
        self._asides.append(aside := TemporaryDirectory())
        target = Path(aside.name, place.name)
        try:
            target.mkdir()
            _bring(place, target)
        except (OSError, ValueError) as error:
            words = error.strerror if isinstance(error, OSError) else str(error)
            raise FlowError(
                f"a folder of the flow cannot be brought here: {words or error}",
                where=str(place),
                fix="see what lies there, and whether this machine's disk is full (df); or build "
                "the flow anew: submarine flow build",
            ) from error
        return target

    def close(self) -> None:
        """Remove the copies."""
        while self._asides:
            with suppress(OSError):
                self._asides.pop().cleanup()


def _bring(place: RemotePath, to: Path) -> None:
    """Copy a folder; OSError or ValueError where this machine has no such names, or no room."""
    folders = [(place, to)]  # in turn: one in the other, there may be thousands
    while folders:
        there, here = folders.pop()
        for one in there.storage.list(there.path):
            # What a storage calls its files is not ours: none leads out of the folder.
            if one.name in ("", ".", "..") or "/" in one.name:
                continue
            if one.folder:
                (here / one.name).mkdir(mode=0o700)
                folders.append((there / one.name, here / one.name))
            else:
                there.storage.get((there / one.name).path, here / one.name)


def beside(place: Place) -> Path:
    """Return a folder of this machine for what belongs to a flow and is only of this machine.

    Processes write their logs there, and jobs run there whose notebook's folder is not here.

    Parameters
    ----------
    place
        A folder of the flow: itself, where it is on this machine.
    """
    if isinstance(place, Path):
        return place.resolve()
    digest = hashlib.sha256(str(place).encode()).hexdigest()[:16]
    return make_private(default_home() / "flows" / f"{place.name}-{digest}")
