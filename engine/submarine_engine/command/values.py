"""How the text of an option becomes what it means, and what was meant by a word that is unknown.

Memory is Hadoop's: ``G`` and ``M`` are binary units, a bare number is mebibytes. Settings are read
by these functions too, so nothing here needs click.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from fractions import Fraction

from submarine_engine.errors import CommandError
from submarine_engine.job import Resources

_NUMBER = re.compile(r"[0-9]{1,12}")
_SIZE = re.compile(
    r"([0-9]{1,18}(?:\.[0-9]{1,9})?) *(?:([KMGT])(?:iB?|B)?|B)?", re.IGNORECASE | re.ASCII
)
_SECONDS = re.compile(r"([0-9]{1,10}(?:\.[0-9]{1,9})?) *(s|m|h|d)?", re.ASCII)
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
GANGS = ("all", "none")
CONDITIONS = ("all_success", "all_done", "one_failed")
"""When a node of a flow runs, by the ends of those that it follows; the first unless given."""
USAGE_BY = ("user", "notebook", "name", "cluster", "day", "week")
_PERIODS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
# How Hadoop and people spell the three; "yarn.io/gpu" is YARN's own resource type.
_RESOURCES = {
    "memory": "memory", "memory-mb": "memory", "vcores": "vcores", "cpu": "vcores",
    "cpus": "vcores", "gpu": "gpus", "gpus": "gpus", "yarn.io/gpu": "gpus",
}  # fmt: skip


def read_count(text: str) -> int:
    """Return the whole number, 0 or more, that `text` is.

    Raises
    ------
    CommandError
        It is none.
    """
    if not _NUMBER.fullmatch(text):
        raise CommandError(f"{text!r} is not possible", fix="give a whole number, 0 or more")
    return int(text)


def read_workers(text: str) -> int | tuple[int, int]:
    """Return how many workers `text` says: ``4``, or the fewest and the most, ``2:4``.

    Raises
    ------
    CommandError
        It is no number, nor two that make sense.
    """
    few, colon, most = text.partition(":")
    if not colon:
        return read_count(text)
    fix = "write the fewest and the most, for example 2:4, or one number"
    if not _NUMBER.fullmatch(few) or not _NUMBER.fullmatch(most):
        raise CommandError(f"{text!r} is not possible", fix=fix)
    if not 0 < int(few) <= int(most):
        raise CommandError(
            f"{text!r} is not possible: the first is the fewest, 1 or more, the second the most",
            fix=fix,
        )
    return int(few) if int(few) == int(most) else (int(few), int(most))


def read_gang(text: str) -> bool:
    """Return True where `text` is ``all`` (workers begin all together), False where it is ``none``.

    Raises
    ------
    CommandError
        It is neither ``all`` nor ``none``.
    """
    if text not in GANGS:
        raise CommandError(f"{text!r} is not possible", fix=f"write {GANGS[0]} or {GANGS[1]}")
    return text == GANGS[0]


def read_condition(text: str) -> str:
    """Return when a node of a flow runs: `text` itself, one of `CONDITIONS`.

    Raises
    ------
    CommandError
        It is none of `CONDITIONS`.
    """
    return _one_of(text, CONDITIONS)


def read_by(text: str) -> str:
    """Return a group of the usage table by its word: `text` itself, one of `USAGE_BY`.

    Raises
    ------
    CommandError
        It is none of `USAGE_BY`.
    """
    return _one_of(text, USAGE_BY)


def _one_of(text: str, possible: Sequence[str]) -> str:
    if text not in possible:
        raise CommandError(f"{text!r} is not possible", fix=f"write one of {', '.join(possible)}")
    return text


def format_workers(least: int | None, most: int) -> str:
    """Return a number of workers as `read_workers` reads it.

    Parameters
    ----------
    least
        The fewest to begin with; None where all begin together.
    most
        How many there are to be.
    """
    return str(most) if least is None else f"{least}:{most}"


def read_ports(text: str) -> tuple[int, int | None]:
    """Read from `text` a task's port, after a colon that of this machine: ``8888``, ``8888:9000``.

    Raises
    ------
    CommandError
        It is none.
    """
    port, colon, local = text.partition(":")
    with suppress(ValueError):
        found = int(port), int(local) if colon else None
        if 0 < found[0] < 1 << 16 and 0 <= (found[1] or 0) < 1 << 16:
            return found
    raise CommandError(
        f"{text!r} is no port", fix="write 8888, or 8888:9000 to have it at port 9000 here"
    )


def read_size(text: str, *, default_unit: str = "") -> int:
    """Return bytes: ``64M``, ``1.5G``, ``1GiB``; units are binary.

    Parameters
    ----------
    text
        A number with ``K``, ``M``, ``G``, ``T`` or none of them.
    default_unit
        The unit of a number that has none; bytes where empty.

    Raises
    ------
    CommandError
        It is no size, or not a whole number of bytes.
    """
    found = _SIZE.fullmatch(text.strip())
    if not found:
        raise CommandError(f"{text!r} is not a size", fix="write a number and K, M, G or T: 8G")
    size = Fraction(found[1]) * _UNITS.get((found[2] or default_unit).upper(), 1)
    if size.denominator != 1:
        raise CommandError(f"{text!r} is not a whole number of bytes", fix="write fewer digits")
    return int(size)


def format_size(size: int) -> str:
    """Return `size`, in bytes, as `read_size` reads it, by the largest unit that keeps it exact."""
    for unit in ("T", "G", "M", "K"):
        if size and size % _UNITS[unit] == 0:
            return f"{size // _UNITS[unit]}{unit}"
    return str(size)


def read_memory(text: str) -> int:
    """Return the mebibytes of `text`: ``8G``, ``8GB``, ``8192M``, ``8192``, ``1.5G``.

    Raises
    ------
    CommandError
        It is no amount of memory, or less than, or no whole number of, mebibytes.
    """
    fix = "write for example 8G, 512M, or a number of mebibytes"
    try:
        size = read_size(text, default_unit="M")
    except CommandError as error:
        raise CommandError(f"memory={text} is not an amount of memory", fix=fix) from error
    if size < _UNITS["M"] or size % _UNITS["M"]:
        raise CommandError(f"memory={text} is not a whole number of mebibytes", fix=fix)
    return size // _UNITS["M"]


def format_memory(mebibytes: int) -> str:
    """Return `mebibytes` as `read_memory` reads them."""
    return format_size(mebibytes * _UNITS["M"])


def read_resources(text: str) -> Resources:
    """Return what one container gets by `text`: ``memory=8G,vcores=2,gpu=2``.

    Hadoop's other spellings are known too: ``memory-mb=8192,vcores=2,yarn.io/gpu=2``.

    Raises
    ------
    CommandError
        A resource is unknown, given twice, or its amount is not possible.
    """
    found: dict[str, int] = {}
    for part in text.strip().removeprefix("[").removesuffix("]").split(","):
        key, equals, amount = (piece.strip() for piece in part.partition("="))
        name = _RESOURCES.get(key.lower())
        if name is None or not equals:
            raise CommandError(
                f"{part.strip()!r} is not a resource", fix="write memory=8G,vcores=2,gpu=2"
            )
        if name in found:
            raise CommandError(f"{key} is given twice", fix="give each resource once")
        found[name] = read_memory(amount) if name == "memory" else _amount(name, key, amount)
    return Resources(**found)


def _amount(name: str, key: str, text: str) -> int:
    least = 0 if name == "gpus" else 1
    if not _NUMBER.fullmatch(text) or int(text) < least:
        raise CommandError(
            f"{key}={text} is not possible", fix=f"give a whole number, {least} or more"
        )
    return int(text)


def format_resources(resources: Resources) -> str:
    """Return `resources` as `read_resources` reads them; empty where the cluster decides all."""
    parts = []
    if resources.memory is not None:
        parts.append(f"memory={format_memory(resources.memory)}")
    if resources.vcores is not None:
        parts.append(f"vcores={resources.vcores}")
    if resources.gpus is not None:
        parts.append(f"gpu={resources.gpus}")
    return ",".join(parts)


def read_seconds(text: str) -> float:
    """Return the seconds of `text`: ``90``, ``1.5s``, ``10m``, ``2h``, ``1d``.

    Raises
    ------
    CommandError
        It is no length of time.
    """
    found = _SECONDS.fullmatch(text.strip())
    if not found:
        raise CommandError(
            f"{text!r} is not a length of time", fix="write seconds, or for example 10m or 2h"
        )
    return float(found[1]) * _PERIODS[found[2] or ""]


def format_seconds(seconds: float) -> str:
    """Return `seconds` as `read_seconds` reads them, by the largest unit that keeps them whole."""
    for unit in ("d", "h", "m"):
        if seconds and seconds % _PERIODS[unit] == 0:
            return f"{seconds / _PERIODS[unit]:.0f}{unit}"
    return f"{seconds:.9f}".rstrip("0").rstrip(".") + "s"


def read_pair(text: str) -> tuple[str, str]:
    """Return `text`, which is ``NAME=VALUE``, as a pair.

    Raises
    ------
    CommandError
        There is no ``=``, or nothing before it.
    """
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise CommandError(f"{text!r} is not of the form NAME=VALUE", fix="write NAME=VALUE")
    return name, value


def read_text(text: str) -> str:
    """Return `text` itself.

    Raises
    ------
    CommandError
        It is blank.
    """
    if not text.strip():
        raise CommandError("the value is empty", fix="leave the option out, or give it a value")
    return text


def did_you_mean(word: str, known: Iterable[str] | Mapping[str, str]) -> str:
    """Return ``"did you mean WORD? "``; empty where nothing known is near.

    Parameters
    ----------
    word
        What was written.
    known
        Words; or, by word, what to propose for it.
    """
    from difflib import get_close_matches  # noqa: PLC0415 - only errors need it

    near = get_close_matches(word, list(known), n=1, cutoff=0.5)
    if not near:
        return ""
    return f"did you mean {known[near[0]] if isinstance(known, Mapping) else near[0]}? "
