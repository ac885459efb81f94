"""What is asked for, as a file that several programs read and change while a job does it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from submarine_engine.clusters import locks
from submarine_engine.errors import JobNotFoundError, SubmarineError
from submarine_engine.history import SPOILT, read_json, write_json

Kept = TypeVar("Kept", bound="KeptRecord")


class KeptRecord(ABC):
    """A frozen dataclass that is kept as a file in its folder.

    Attributes
    ----------
    FILE
        The file's name.
    VERSION
        Of its form: another release's is not read.
    CALLED
        What it is about, in words.
    ABSENT
        What is said where there is none.
    ANEW
        How to get another one, in words.
    folder
        Where it lies.
    jobs
        The jobs that have done what it asks for, the newest last.
    """

    __slots__ = ()

    FILE: ClassVar[str]
    VERSION: ClassVar[int]
    CALLED: ClassVar[str]
    ABSENT: ClassVar[str]
    ANEW: ClassVar[str]

    folder: Path
    jobs: tuple[str, ...]

    @classmethod
    @abstractmethod
    def from_json(cls: type[Kept], folder: Path, data: Mapping[str, Any]) -> Kept:
        """Build from what `to_json` returned; raises what bad data does.

        Parameters
        ----------
        folder
            Where it lies.
        data
            What `to_json` returned.
        """

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Return the JSON form, without the folder."""

    @classmethod
    def read(cls: type[Kept], folder: Path) -> Kept:
        """Read the record in a folder.

        Parameters
        ----------
        folder
            Where it lies.

        Raises
        ------
        JobNotFoundError
            There is none that this release can read.
        """
        path = folder / cls.FILE
        try:
            data = read_json(path)
            if data is not None and data["version"] == cls.VERSION:
                return cls.from_json(folder, data)
        except (*SPOILT, SubmarineError) as error:
            raise JobNotFoundError(
                f"{cls.CALLED} cannot be read: {error}", where=str(path), fix=cls.ANEW
            ) from error
        raise JobNotFoundError(cls.ABSENT, where=str(path))

    def write(self) -> None:
        """Write it anew; raises OSError."""
        write_json(self.folder / self.FILE, {"version": self.VERSION, **self.to_json()})

    @property
    def lock_of_file(self) -> Path:
        """The lock of who changes it."""
        return self.folder / f"{self.FILE}.lock"

    def change(self: Kept, **given: Any) -> Kept:  # noqa: ANN401 - of its fields
        """Change some fields of what is on disk by now; return that.

        Parameters
        ----------
        given
            Fields, or functions that make them of the record that is there.
        """
        with locks.held(self.lock_of_file):
            found = self.read(self.folder)
            made = {
                name: value(found) if callable(value) else value for name, value in given.items()
            }
            found = replace(found, **made)  # type: ignore[type-var] # each is a dataclass
            found.write()
        return found

    def with_job(self: Kept, job: str, **given: Any) -> Kept:  # noqa: ANN401 - of its fields
        """Note that a job does what is asked for, and change other fields; return what is there.

        Parameters
        ----------
        job
            Its id; one that is noted already stays where it is.
        given
            As `change` has it.
        """
        return self.change(jobs=lambda found: tuple(dict.fromkeys((*found.jobs, job))), **given)
