"""Answers of Hadoop's daemons, read without trust: any shape, any length, any character.

YARN writes a list of one as an object where its older JSON library does the writing, leaves fields
out between releases, and repeats text of other users (names, diagnostics). Nothing here raises.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

GPU = "yarn.io/gpu"
MEMORY = "memory-mb"
VCORES = "vcores"

Amounts = Mapping[str, int]

_LONGEST = 400


def at(document: object, *keys: str) -> Any:  # noqa: ANN401 - foreign JSON
    """Return what lies in `document` under `keys`, one below the other; None where nothing does."""
    for key in keys:
        if not isinstance(document, Mapping):
            return None
        document = document.get(key)
    return document


def listed(document: object, *keys: str) -> list[Mapping[str, Any]]:
    """Return the objects that `document` has under `keys`: in a list, one alone, or none."""
    found = at(document, *keys)
    if isinstance(found, Mapping):
        return [found]
    if not isinstance(found, list):
        return []
    return [one for one in found if isinstance(one, Mapping)]


def number(value: object, default: int = 0) -> int:
    """Return a whole number from `value`, a number or text; `default` where it is none."""
    if isinstance(value, (int, float, str)):
        try:
            return int(value)
        except (ValueError, OverflowError):
            return default
    return default


def clean_line(value: object, limit: int = _LONGEST) -> str:
    """Return foreign text as one bounded line whose control characters are seen, not obeyed.

    Parameters
    ----------
    value
        What was answered; None gives an empty line.
    limit
        How many characters of it at most; one that is shown as an escape counts as one.
    """
    if value is None:
        return ""
    text = str(value)[: 4 * limit].replace("\n", " ").replace("\t", " ").strip()
    if len(text) > limit:
        text = f"{text[: limit - 2]} …"
    return "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in text)


def amounts(document: object) -> dict[str, int] | None:
    """Return a resource by names: `MEMORY` in MiB, `VCORES`, `GPU` where the scheduler knows it.

    None where the document tells nothing. Resources of Hadoop before 3.0 hold no GPU.
    """
    if not isinstance(document, Mapping):
        return None
    found = {
        str(one.get("name")): number(one.get("value"))
        for one in listed(document, "resourceInformations", "resourceInformation")
    }
    for key, name in (("memory", MEMORY), ("vCores", VCORES)):
        if name not in found and key in document:
            found[name] = number(document[key])
    return found or None


def usage(document: object, kind: str, partition: str | None = None) -> dict[str, int]:
    """Sum one kind (``used``, ``pending``, ``amUsed``, …) of a document's usages by partition.

    Parameters
    ----------
    document
        Holds ``resourceUsagesByPartition``: an application's ``resourceInfo``, a queue's
        ``resources``.
    partition
        Only that node label's; None takes all.
    """
    total: dict[str, int] = {}
    for one in listed(document, "resourceUsagesByPartition"):
        if partition is None or str(one.get("partitionName") or "") == partition:
            total = plus(total, amounts(one.get(kind)) or {})
    return total


def plus(first: Amounts, second: Amounts, times: int = 1) -> dict[str, int]:
    """Return `first` and `times` `second` together.

    Parameters
    ----------
    first, second
        Amounts by their names.
    times
        How often `second` counts.
    """
    return {
        name: first.get(name, 0) + times * second.get(name, 0)
        for name in dict.fromkeys([*first, *second])
    }


def lacking(wanted: Amounts, there: Amounts) -> list[str]:
    """Return the names of what `there` lacks of `wanted`; one that it does not tell is none."""
    return [name for name, value in wanted.items() if value > there.get(name, 0)]


def in_words(resource: Amounts) -> str:
    """Return a resource for people: ``1 GPU, 2048 MiB, 1 vcore``."""
    return ", ".join(_words(resource))


def _words(resource: Amounts) -> Iterator[str]:
    for name in (GPU, MEMORY, VCORES):
        if name in resource:
            yield some(name, resource[name])


def some(name: str, value: int) -> str:
    """Return `value` of the resource `name` for people: ``4 GPUs``, ``512 MiB``."""
    if name == MEMORY:
        return f"{value} MiB"
    unit = {GPU: "GPU", VCORES: "vcore"}.get(name, clean_line(name, 40))
    return f"{value} {unit}" if value == 1 else f"{value} {unit}s"
