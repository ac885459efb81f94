"""Help, made of the grammar: nothing is written twice."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

from submarine_engine.command.model import NOTEBOOK, TERMINAL, Argument, Option, Verb
from submarine_engine.command.nearest import did_you_mean
from submarine_engine.command.options import COMMON
from submarine_engine.command.verbs import GROUPS, VERBS, verbs
from submarine_engine.errors import CommandError

_WIDTH = 92
_INDENT = 30
_PROGRAMS = {TERMINAL: "submarine", NOTEBOOK: "%submarine"}


def help_text(path: Sequence[str] = (), *, surface: str = TERMINAL) -> str:
    """Return the help of a verb, of a group of verbs (``job``), or of all (empty).

    Parameters
    ----------
    surface
        ``terminal`` or ``notebook``: leaves out what has a meaning only in the other.

    Raises
    ------
    CommandError
        There is no such verb.
    """
    path = tuple(path)
    if not path:
        return _overview(surface)
    if len(path) == 1 and path[0] in GROUPS:
        return _group(path[0], surface)
    for verb in VERBS:
        if verb.path == path:
            return _verb(verb, surface)
    known = [verb.text for verb in verbs(surface)] + list(GROUPS)
    word = " ".join(path)
    raise CommandError(
        f"there is no verb {word!r}",
        where="help",
        fix=f"{did_you_mean(word, known)}verbs are {', '.join(known)}",
    )


def _overview(surface: str) -> str:
    program = _PROGRAMS[surface]
    known = verbs(surface)
    lines = ["Train on GPUs: run code as a job, follow it, get its result.", ""]
    if surface == NOTEBOOK:
        lines += [
            "%%submarine [options of job run]     run this cell as a job",
            "%%submarine.python [TITLE.py]        give a part of a script, for `job run`",
        ]
    lines += [f"{program} VERB [options]", "", "Verbs", *_rows((v.text, v.summary) for v in known)]
    lines += ["", f"`{program} help VERB`, or --help after it, says more."]
    if surface == TERMINAL:
        lines += [f"`{program} --version` says which release this is."]
    return "\n".join(lines) + "\n"


def _group(group: str, surface: str) -> str:
    members = [verb for verb in verbs(surface) if verb.path[0] == group]
    lines = [GROUPS[group], "", f"{_PROGRAMS[surface]} {group} VERB [options]", "", "Verbs"]
    return "\n".join([*lines, *_rows((verb.text, verb.summary) for verb in members)]) + "\n"


def _verb(verb: Verb, surface: str) -> str:
    arguments = [argument for argument in verb.arguments if surface in argument.surfaces]
    lines = [verb.summary, "", f"{_PROGRAMS[surface]} {usage(verb, arguments)}"]
    for paragraph in verb.details.split("\n\n") if verb.details else ():
        lines += ["", *textwrap.wrap(paragraph, _WIDTH)]
    if arguments or verb.rest:
        rows = [(argument.name.upper(), argument.help) for argument in arguments]
        rows += [("-- ARGUMENTS", verb.rest)] if verb.rest else []
        lines += ["", "Arguments", *_rows(rows)]
    for group, members in _grouped(verb, surface).items():
        lines += ["", group, *_rows((signature(option), option.help) for option in members)]
    if refused := [option.flag for option in verb.options if option.refused]:
        lines += ["", "Known of Hadoop Submarine, and refused with the reason"]
        lines += textwrap.wrap(
            ", ".join(refused), _WIDTH, initial_indent="  ", subsequent_indent="  "
        )
    if verb.examples and surface == TERMINAL:
        lines += ["", "Examples", *(f"  submarine {example}" for example in verb.examples)]
    return "\n".join(lines) + "\n"


def _grouped(verb: Verb, surface: str) -> dict[str, list[Option]]:
    groups: dict[str, list[Option]] = {}
    for option in (*verb.options, *COMMON):
        if surface in option.surfaces and not option.refused:
            groups.setdefault(option.group, []).append(option)
    return groups


def usage(verb: Verb, arguments: Sequence[Argument]) -> str:
    """Return how the verb is called: ``job show [options] JOB``."""
    words = [verb.text, "[options]"]
    for argument in arguments:
        word = argument.name.upper() + (" …" if argument.repeat else "")
        words.append(word if argument.required else f"[{word}]")
    return " ".join([*words, "[-- ARGUMENTS]"] if verb.rest else words)


def signature(option: Option) -> str:
    """Return how the option is written: ``-o, --output NAME``."""
    text = f"-{option.short}, {option.flag}" if option.short else option.flag
    return f"{text} {option.kind.metavar}" if option.kind else text


def _rows(rows: Iterable[tuple[str, str]]) -> list[str]:
    lines = []
    for left, right in rows:
        wrapped = [" " * _INDENT + line for line in textwrap.wrap(right, _WIDTH - _INDENT)]
        if len(left) <= _INDENT - 4:
            wrapped[0] = f"  {left:<{_INDENT - 2}}{wrapped[0].lstrip()}"
        else:
            wrapped.insert(0, f"  {left}")
        lines += wrapped
    return lines
