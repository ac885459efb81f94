"""What a sweep is asked to do: its objectives, how it searches, when it gives up; checked at once.

Kept as ``sweep.json`` in the sweep's folder, the space beside it. Nothing here needs Optuna.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from submarine_engine.errors import CommandError
from submarine_engine.sweeps.space import Space

VERSION = 1

SAMPLERS = ("tpe", "random", "grid", "cmaes", "nsgaii")
PRUNERS = ("median", "halving", "hyperband", "none")
MINIMIZE, MAXIMIZE = "minimize", "maximize"

MOST_TRIALS = 100_000
FIRST_FAILURES = 5
"""How many trials in a row, the first ones, may fail before the sweep ends with their error."""

_NAME = re.compile(r"[^\s=,;:]{1,100}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPlan:
    """What a sweep is asked to do.

    Parameters
    ----------
    objectives
        Name and direction (``minimize`` or ``maximize``) of each, one at least.
    trials
        How many there are to be, all together; None for a grid's own number.
    sampler
        How the next parameters are chosen, of `SAMPLERS`.
    pruner
        When a trial is given up for what it reports, of `PRUNERS`.
    seed
        The same one gives the same parameters for the same told values; of its own unless given.
    gpus
        Of each trial.
    tasks
        Of each trial; more than one are a gang.
    max_gpus, min_gpus
        The most that all trials hold together, and the least that they keep when other jobs wait.
    from_log
        Whether values are read from the log, from lines like ``loss: 0.12``.
    first_failures
        How many of the first trials may fail with none in between that does not.

    Raises
    ------
    CommandError
        One of them is not possible, or they do not go together.
    """

    objectives: tuple[tuple[str, str], ...]
    trials: int | None = None
    sampler: str | None = None
    pruner: str = "median"
    seed: int | None = None
    gpus: int | None = None
    tasks: int = 1
    max_gpus: int | None = None
    min_gpus: int = 1
    from_log: bool = False
    first_failures: int = FIRST_FAILURES

    def __post_init__(self) -> None:
        lacks_number = self.trials is None and self.sampler != "grid"
        if not self.objectives:
            more = ", nor how many trials there are to be" if lacks_number else ""
            number = ", and trials=40 (--trials)" if lacks_number else ""
            raise CommandError(
                f"nobody said what the best trial is{more}",
                fix='give minimize="loss" or maximize="accuracy" (--minimize, --maximize), a name '
                f"that is returned or reported{number}",
            )
        self._check_objectives()
        _check_name("sampler", self.sampler, SAMPLERS)
        _check_name("pruner", self.pruner, PRUNERS)
        if lacks_number:
            raise CommandError(
                "nobody said how many trials there are to be",
                fix='give trials=40, or --trials 40; sampler="grid", or --sampler grid, tries all',
            )
        for name, least, most in (
            ("trials", 1, MOST_TRIALS),
            ("seed", 0, 2**32 - 1),
            ("gpus", 0, None),
            ("tasks", 1, None),
            ("max_gpus", 1, None),
            ("min_gpus", 0, None),
            ("first_failures", 1, None),
        ):
            _check_number(name, getattr(self, name), least, most)
        each = self.gpus_each
        if self.max_gpus is not None and self.max_gpus < each:
            raise CommandError(
                f"max_gpus={self.max_gpus} is less than one trial's {each} GPUs",
                fix=f"give max_gpus={each} or more",
            )
        if self.max_gpus is not None and self.min_gpus > self.max_gpus:
            raise CommandError(
                f"min_gpus={self.min_gpus} is more than max_gpus={self.max_gpus}",
                fix="give a least that is at most the most",
            )

    def _check_objectives(self) -> None:
        names = [name for name, _ in self.objectives]
        for name in names:
            if not isinstance(name, str) or not _NAME.fullmatch(name):
                raise CommandError(
                    f"{name!r:.60} is no objective", fix='give the name that is reported: "loss"'
                )
            if names.count(name) > 1:
                raise CommandError(f"{name} is an objective twice", fix="give each once")
        if len(names) > 1 and self.sampler == "cmaes":
            raise CommandError(
                "cmaes searches for one objective", fix="take nsgaii, tpe or random for several"
            )

    @property
    def gpus_each(self) -> int:
        """How many GPUs one trial holds; 1 where that is left open."""
        return (1 if self.gpus is None else self.gpus) * self.tasks

    @property
    def several(self) -> bool:
        """Whether there is more than one objective."""
        return len(self.objectives) > 1

    @property
    def searches_by(self) -> str:
        """The sampler's name: TPE's for one objective, NSGA-II's for several, unless given."""
        return self.sampler or ("nsgaii" if self.several else "tpe")

    @property
    def prunes_by(self) -> str:
        """The pruner's name; trials of several objectives are never pruned."""
        return "none" if self.several else self.pruner

    def total(self, space: Space) -> int:
        """Return how many trials there are to be: never more than a grid has points.

        Parameters
        ----------
        space
            What is searched.

        Raises
        ------
        CommandError
            A grid over it has no end.
        """
        if self.searches_by != "grid":
            return self.trials or 0
        size = space.grid_size()
        return size if self.trials is None else min(size, self.trials)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form, with ``"version"``."""
        return {"version": VERSION, **asdict(self)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> SweepPlan:
        """Build from what `to_json` returned.

        Parameters
        ----------
        data
            What it returned.

        Raises
        ------
        CommandError
            The version is unknown, or a field is not valid.
        """
        if data.get("version") != VERSION:
            raise CommandError(
                f"a sweep of version {data.get('version')!r} cannot be read",
                fix=f"this release reads version {VERSION}: upgrade submarine-notebook",
            )
        names = {each.name for each in fields(cls)}
        given = {key: value for key, value in data.items() if key in names}
        given["objectives"] = tuple((name, way) for name, way in given["objectives"])
        return cls(**given)


def objectives_of(minimize: object, maximize: object) -> tuple[tuple[str, str], ...]:
    """Return name and direction of what was given: a name, or several, for each direction.

    Parameters
    ----------
    minimize, maximize
        ``"loss"``, ``["loss", "size"]``, or ``"loss,size"``; None and empty for none.

    Raises
    ------
    CommandError
        It is neither.
    """
    found: list[tuple[str, str]] = []
    for way, given in ((MINIMIZE, minimize), (MAXIMIZE, maximize)):
        names: Any = given.split(",") if isinstance(given, str) and given else given or ()
        if not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
            raise CommandError(
                f"{way}={given!r:.60} is no name", fix=f'write {way}="loss", what is reported'
            )
        found += [(name.strip(), way) for name in names]
    return tuple(found)


def _check_name(what: str, name: object, known: Sequence[str]) -> None:
    if name is None or name in known:
        return
    near = difflib.get_close_matches(str(name), known, n=1)
    raise CommandError(
        f"{what}={name!r:.40} is unknown",
        fix=f"{f'did you mean {near[0]}? ' if near else ''}there are {', '.join(known)}",
    )


def _check_number(name: str, value: object, least: int, most: int | None) -> None:
    if value is None:
        return
    if (
        isinstance(value, bool)
        or not isinstance(value, int)
        or value < least
        or (most is not None and value > most)
    ):
        ends = f"{least} or more" if most is None else f"from {least} to {most:,}"
        raise CommandError(
            f"{name}={value!r:.40} is not possible: it must be a whole number, {ends}",
            fix=f"give {name} as a number, or leave it out",
        )
