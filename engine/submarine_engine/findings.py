"""What a check of the surroundings found: one finding a line, each with the way out."""

from __future__ import annotations

from dataclasses import asdict, dataclass

OK, NOTE, BAD = "ok", "note", "bad"


@dataclass(frozen=True, slots=True)
class Check:
    """One finding.

    Parameters
    ----------
    title
        What was looked at.
    verdict
        ``ok``; ``note``: jobs run, but something may surprise; ``bad``: jobs cannot run.
    what
        What was found.
    fix
        The way out; empty where nothing is to be done.
    """

    title: str
    verdict: str
    what: str
    fix: str = ""

    def to_json(self) -> dict[str, str]:
        """Return the JSON form: the fields."""
        return asdict(self)
