"""The nearest known word, for errors that help."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def did_you_mean(word: str, known: Iterable[str] | Mapping[str, str]) -> str:
    """Return ``"did you mean WORD? "``; empty where nothing known is near.

    Parameters
    ----------
    known
        Words; or, by word, what to propose for it.
    """
    from difflib import get_close_matches  # noqa: PLC0415 - only errors need it

    near = get_close_matches(word, list(known), n=1, cutoff=0.5)
    if not near:
        return ""
    return f"did you mean {known[near[0]] if isinstance(known, Mapping) else near[0]}? "
