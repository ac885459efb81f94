"""Completion: what may stand where the cursor is."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable
from pathlib import Path

from submarine_engine.command import values
from submarine_engine.command.model import Kind, Option, Verb
from submarine_engine.command.options import COMMON
from submarine_engine.command.reading import find
from submarine_engine.command.verbs import RUN, VERBS, verbs

_RESOURCES = ("memory=", "vcores=", "gpu=")

Source = Callable[[], Iterable[str]]


def complete(
    line: str,
    cursor: int | None = None,
    *,
    jobs: Source = tuple,
    cell: bool = False,
    surface: str | None = None,
) -> list[str]:
    """Return what may stand in place of the word that ends at the cursor.

    Parameters
    ----------
    line
        What follows ``submarine``, ``%submarine`` or ``%%submarine``.
    cursor
        Position in `line`; its end where None.
    jobs
        Gives ids and names of jobs; called only where a job may stand.
    cell
        `line` is of ``%%submarine``: options of ``job run`` alone.
    surface
        ``terminal`` or ``notebook``; both where None.

    Returns
    -------
    list of str
        Whole words, in the grammar's order; empty where anything may stand.
    """
    text = line[:cursor]
    words = _words(text)
    current = words.pop() if words and not text[-1:].isspace() else ""
    if cell:
        return _within(RUN, words, current, jobs, surface)
    verb = _verb_of(words)
    if verb is None:
        return _verbs_after(words, current, surface)
    return _within(verb, words[len(verb.path) :], current, jobs, surface)


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:  # within a quotation
        return text.split()


def _verb_of(words: list[str]) -> Verb | None:
    return next((v for v in VERBS if v.path == tuple(words[: len(v.path)])), None)


def _verbs_after(words: list[str], current: str, surface: str | None) -> list[str]:
    depth = len(words)
    following = [
        verb.path[depth]
        for verb in verbs(surface)
        if len(verb.path) > depth and verb.path[:depth] == tuple(words)
    ]
    return _starting(dict.fromkeys(following), current)


def _within(
    verb: Verb, words: list[str], current: str, jobs: Source, surface: str | None
) -> list[str]:
    if "--" in words:
        return []
    options = [
        option
        for option in (*verb.options, *COMMON)
        if not option.refused and (surface is None or surface in option.surfaces)
    ]
    name, equals, begun = current.partition("=")
    if equals and name.startswith("-"):
        option = find(name, options)
        kind = option.kind if option else None
        return [f"{name}={value}" for value in _values(kind, begun, jobs)]
    if words and words[-1].startswith("-"):
        option = find(words[-1], options)
        if option is not None and option.kind is not None:
            return _values(option.kind, current, jobs)
    if current.startswith("-"):
        return _starting(_flags(options, words), current)
    kinds = [argument.kind for argument in verb.arguments]
    return _values(kinds[0], current, jobs) if kinds else []


def _flags(options: Iterable[Option], words: list[str]) -> list[str]:
    """Return what is not given yet, or may be given again."""
    given = {word.partition("=")[0].lstrip("-").replace("-", "_") for word in words}
    return [option.flag for option in options if option.repeat or option.key not in given]


def _values(kind: Kind | None, current: str, jobs: Source) -> list[str]:
    if kind is values.CLUSTER:
        from submarine_engine.clusters import cluster_names  # noqa: PLC0415 - searches packages

        return _starting(cluster_names(), current)
    if kind is values.JOB:
        return _starting(dict.fromkeys(jobs()), current)
    if kind is values.VERB:
        return _starting(dict.fromkeys(verb.path[0] for verb in VERBS), current)
    if kind is values.RESOURCES:
        done, comma, last = current.rpartition(",")
        return [done + comma + resource for resource in _starting(_RESOURCES, last)]
    if kind in (values.SCRIPT, values.PATH):
        return _paths(current)
    return []


def _paths(current: str) -> list[str]:
    folder, _, name = current.rpartition("/")
    base = f"{folder}/" if "/" in current else ""
    try:
        found = sorted(os.scandir(Path(base or ".").expanduser()), key=lambda entry: entry.name)
    except OSError:
        return []
    return [
        base + entry.name + ("/" if entry.is_dir() else "")
        for entry in found
        if entry.name.startswith(name) and (name or not entry.name.startswith("."))
    ]


def _starting(words: Iterable[str], current: str) -> list[str]:
    folded = current.replace("_", "-")
    return [word for word in words if word.replace("_", "-").startswith(folded)]
