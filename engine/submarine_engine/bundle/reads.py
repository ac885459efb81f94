"""What code reads of its module: which names, when, and what is bound by then. Plain data."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Use:
    """A name of the module that is read.

    Parameters
    ----------
    line
        Where it is read first without being bound.
    hard
        Whether the code fails where nobody defines it. Not so in annotations that are never
        evaluated, under ``except NameError``, and for what an earlier branch may have bound.
    bound
        Names that the statements before have bound for certain, at every one of the places.
    """

    line: int
    hard: bool
    bound: frozenset[str]


@dataclass(slots=True)
class Reads:
    """What a sequence of module-level statements reads.

    Parameters
    ----------
    now
        Names read while the statements run.
    later
        Names read by functions when they are called, by the name of the function or class of this
        scope that they belong to; ``""`` for lambdas. ``bound`` is as of the definition.
    bound
        Names that are bound for certain once the statements have run.
    maybe
        Names that may be.
    sets
        Names that functions bind here by a ``global`` declaration.
    stars
        Modules whose names a star import binds.
    """

    now: dict[str, Use] = field(default_factory=dict)
    later: dict[str, dict[str, Use]] = field(default_factory=dict)
    bound: frozenset[str] = frozenset()
    maybe: frozenset[str] = frozenset()
    sets: frozenset[str] = frozenset()
    stars: tuple[str, ...] = ()
