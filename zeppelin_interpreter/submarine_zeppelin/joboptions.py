"""The options of a paragraph's job, from its setting, its local properties and its own line."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from submarine_engine.command import parse_cell
from submarine_engine.command.options import RUN, find
from submarine_engine.command.values import did_you_mean
from submarine_engine.errors import CommandError

OWN = frozenset({"run", "execute", "part", "isRecover", "saveAs", "interpolate", "form"})
"""Local properties that are no options: ours, and Zeppelin's own."""

_ALIASES = {"gpu": "gpus", "cpu": "cpus", "vcores": "cpus", "workers": "num_workers"}
_IN_ONE = {"gpus", "memory", "cpus"}
_TRUE, _FALSE = ("true", "yes", "on"), ("false", "no", "off")


def is_true(properties: Mapping[str, str], name: str, *, default: bool = False) -> bool:
    """Return a local property that is true or false.

    Raises
    ------
    CommandError
        It is neither.
    """
    value = properties.get(name, "").strip().lower()
    if value in (*_TRUE, *_FALSE):
        return value in _TRUE
    if not value:
        return default
    raise CommandError(f"{name}={value} is neither true nor false", fix=f"write {name}=true")


def local_options(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the options of ``job run`` among a paragraph's local properties, text by key.

    Raises
    ------
    CommandError
        One message that names every property that is none.
    """
    found: dict[str, str] = {}
    unknown = []
    for name, value in properties.items():
        if name in OWN:
            continue
        option = find(_ALIASES.get(name, name), RUN)
        if option is None:
            known = {one.key: one.key for one in RUN} | _ALIASES
            unknown.append(f"{name} ({did_you_mean(name, known).strip() or 'none is like it'})")
        else:
            found[option.key] = value
    if unknown:
        raise CommandError(
            f"no local propert{'y is' if len(unknown) == 1 else 'ies are'} called "
            + ", ".join(unknown),
            fix="`%submarine help job run` lists the options, any of which can be one",
        )
    return found


def as_words(options: Mapping[str, str]) -> list[str]:
    """Return options as words of a command line; a flag that is false gives none."""
    words = []
    for key, value in options.items():
        option = find(f"--{key}", RUN)
        if option is None or not option.is_flag:
            words.append(f"--{key}={value}")
        elif value.strip().lower() in ("", *_TRUE):
            words.append(f"--{key}")
        elif value.strip().lower() not in _FALSE:
            raise CommandError(f"{key}={value} is neither true nor false", fix=f"write {key}=true")
    return words


def merged(words: Sequence[str], *defaults: Mapping[str, str]) -> list[str]:
    """Return a job's words with what they leave open from the defaults, the first of them first.

    Raises
    ------
    CommandError
        The words are not understood, or contradict the defaults.
    """
    command = parse_cell(words)
    if command.spec is None:  # --help
        return list(words)
    given = set(command.values)
    added: list[str] = []
    for options in defaults:
        fresh = {key: value for key, value in options.items() if _open(key, given)}
        added += as_words(fresh)
        given |= set(fresh)
    whole = [*added, *words]
    parse_cell(whole)
    return whole


def joined(words: Sequence[str]) -> str:
    """Return words as one line of a magic.

    Raises
    ------
    CommandError
        One of them has a line of its own.
    """
    if any("\n" in word or "\r" in word for word in words):
        raise CommandError("an option's value is more than one line", fix="write it in one")
    return shlex.join(words)


def _open(key: str, given: set[str]) -> bool:
    """Return whether an option is neither given nor spoken for by another one."""
    if key in _IN_ONE and "worker_resources" in given:
        return False
    if key == "worker_resources" and given & _IN_ONE:
        return False
    if {key, *given} >= {"detach", "wait_job_finish"}:
        return False
    return key not in given
