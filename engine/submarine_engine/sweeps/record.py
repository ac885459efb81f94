"""A sweep's own file in its pool's folder: what is asked for, which may change while it runs.

``sweep.json``: the name, plan and space, the jobs that have run it, and what people have asked for
since: more trials, failed ones once more, a pause.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from submarine_engine.clusters import locks
from submarine_engine.errors import JobNotFoundError, SubmarineError
from submarine_engine.history import check_home, read_json, write_json
from submarine_engine.sweeps.plan import Plan
from submarine_engine.sweeps.space import Space

FILE = "sweep.json"
VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRecord:
    """What a sweep is, and what is asked of it.

    Parameters
    ----------
    folder
        The pool's, where the study is.
    name
        What people call it.
    plan, space
        What is searched, and how; choices as the study keeps them.
    objects
        The names whose choices only the workers have.
    checkpoints
        Below which each trial keeps its own; None where nothing is kept.
    again
        Failed trials that are to be tried once more, by number.
    paused
        Whether its trials are to end at their next report, to go on later.
    jobs
        The jobs that have run it, the newest last.
    left
        The one of them that is at its end, and hears nothing more.
    """

    folder: Path
    name: str
    plan: Plan
    space: Space
    objects: tuple[str, ...] = ()
    checkpoints: str | None = None
    again: tuple[int, ...] = ()
    paused: bool = False
    jobs: tuple[str, ...] = field(default=())
    left: str = ""

    @property
    def study_name(self) -> str:
        """What its study is called in the study's file."""
        return f"{self.name} {self.folder.name}"

    def write(self) -> None:
        """Write it anew; raises OSError."""
        data: dict[str, Any] = {
            "version": VERSION,
            "name": self.name,
            "plan": self.plan.to_json(),
            "space": self.space.to_json(),
            "objects": self.objects,
            "checkpoints": self.checkpoints,
            "again": self.again,
            "paused": self.paused,
            "jobs": self.jobs,
            "left": self.left,
        }
        write_json(self.folder / FILE, data)

    @classmethod
    def read(cls, folder: Path) -> SweepRecord:
        """Read the record of the sweep in a pool's folder.

        Parameters
        ----------
        folder
            The pool's.

        Raises
        ------
        JobNotFoundError
            It has none that this release can read.
        """
        path = folder / FILE
        try:
            data = read_json(path)
            if data is not None and data["version"] == VERSION:
                return cls(
                    folder=folder,
                    name=str(data["name"]),
                    plan=Plan.from_json(data["plan"]),
                    space=Space.from_json(data["space"]),
                    objects=tuple(data["objects"]),
                    checkpoints=data["checkpoints"],
                    again=tuple(data["again"]),
                    paused=bool(data["paused"]),
                    jobs=tuple(data["jobs"]),
                    left=str(data.get("left", "")),
                )
        except (OSError, ValueError, KeyError, TypeError, SubmarineError) as error:
            raise JobNotFoundError(
                f"the sweep cannot be read: {error}", where=str(path), fix="begin a new sweep"
            ) from error
        raise JobNotFoundError("there is no sweep, or one of another release", where=str(path))

    def change(self, **given: Any) -> SweepRecord:  # noqa: ANN401 - of its fields
        """Change some fields of what is on disk by now; return that.

        Parameters
        ----------
        given
            Fields, or functions that make them of those that are there.
        """
        with locks.held(self.folder / f"{FILE}.lock"):
            found = SweepRecord.read(self.folder)
            made = {
                name: value(getattr(found, name)) if callable(value) else value
                for name, value in given.items()
            }
            found = replace(found, **made)
            found.write()
        return found

    def leave(self, job: str) -> bool:
        """Note that a job hears nothing more, unless more is asked for by now than is known here.

        Returns
        -------
        bool
            Whether it is noted: who asks from now on has to begin another job.
        """
        with locks.held(self.folder / f"{FILE}.lock"):
            found = SweepRecord.read(self.folder)
            known = self.plan.trials, self.again, self.paused
            if (found.plan.trials, found.again, found.paused) != known:
                return False
            replace(found, left=job).write()
        return True


def iter_sweeps(home: Path) -> Iterator[SweepRecord]:
    """Yield all sweeps on record, the newest first.

    Parameters
    ----------
    home
        Where the jobs are kept.
    """
    check_home(home)
    for path in sorted((home / "pools").glob(f"*/{FILE}"), reverse=True):
        with suppress(JobNotFoundError):  # of another release, or cut off: no other's business
            yield SweepRecord.read(path.parent)


def find_sweep(home: Path, name: str) -> SweepRecord:
    """Return the newest sweep of that name, or the one that a job of that id has run.

    Parameters
    ----------
    home
        Where the jobs are kept.
    name
        As people gave it.

    Raises
    ------
    JobNotFoundError
        There is none.
    """
    names = []
    for record in iter_sweeps(home):
        if name in (record.name, record.folder.name, *record.jobs):
            return record
        names.append(record.name)
    known = ", ".join(dict.fromkeys(names[:5]))
    raise JobNotFoundError(
        f"there is no sweep {name!r:.60}",
        fix=f"the newest are {known}" if known else "begin one: sweep(train, {…}, trials=40)",
    )
