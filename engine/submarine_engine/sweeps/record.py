"""A sweep's own file in its pool's folder: what is asked for, which may change while it runs.

``sweep.json``: the name, plan and space, the jobs that have run it, and what people have asked for
since: more trials, failed ones once more, a pause.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from submarine_engine.clusters import locks
from submarine_engine.errors import JobNotFoundError
from submarine_engine.history import check_home
from submarine_engine.kept_record import KeptRecord
from submarine_engine.sweeps.plan import SweepPlan
from submarine_engine.sweeps.space import Space
from submarine_engine.typed_fields import typed_fields

FILE = "sweep.json"
VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRecord(KeptRecord):
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

    FILE: ClassVar[str] = FILE
    VERSION: ClassVar[int] = VERSION
    CALLED: ClassVar[str] = "the sweep"
    ABSENT: ClassVar[str] = "there is no sweep, or one of another release"
    ANEW: ClassVar[str] = "begin a new sweep"

    folder: Path
    name: str
    plan: SweepPlan
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

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form, without the folder."""
        return {
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

    @classmethod
    def from_json(cls, folder: Path, data: Mapping[str, Any]) -> SweepRecord:
        """Build from what `to_json` returned.

        Parameters
        ----------
        folder
            The pool's.
        data
            What `to_json` returned.
        """
        given = typed_fields(cls, data)
        plan, space = SweepPlan.from_json(data["plan"]), Space.from_json(data["space"])
        return cls(**{**given, "folder": folder, "plan": plan, "space": space})

    def leave(self, job: str) -> bool:
        """Note that a job hears nothing more, unless more is asked for by now than is known here.

        Returns
        -------
        bool
            Whether it is noted: who asks from now on has to begin another job.
        """
        with locks.held(self.lock_of_file):
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
