"""The parser: words in, a `Command` out, or an error that names the nearest thing there is."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from submarine_engine.command.model import NOTEBOOK, Command, Verb
from submarine_engine.command.nearest import did_you_mean
from submarine_engine.command.options import COMMON
from submarine_engine.command.reading import OPTION, Reading, find
from submarine_engine.command.spec import build_spec
from submarine_engine.command.verbs import GROUPS, RUN, VERBS, verbs
from submarine_engine.errors import CommandError

# What a shell takes as it is: quotations, and what a backslash stands before.
_QUOTED = re.compile(r"""'[^']*'|"(?:\\.|[^"\\])*"|\\.""", re.DOTALL)
_HELP = {"--help", "-h", "-help"}


def parse(args: Sequence[str] | str, *, surface: str | None = None) -> Command:
    """Understand a command line.

    Parameters
    ----------
    args
        What follows ``submarine`` or ``%submarine``: words, or text with a shell's quoting.
    surface
        ``terminal`` or ``notebook`` refuses what has a meaning only in the other.

    Returns
    -------
    Command
        ``--help`` anywhere gives the path ``("help",)`` with the words before it in
        ``values["about"]``, whatever else is there.

    Raises
    ------
    CommandError
        A verb, an option or a value is not understood, is missing, or contradicts another.
    """
    words = split(args)
    common = _take_common(words)
    if not words and not common:
        return Command(path=("help",), values={"about": ()})
    if "--version" in common:
        common.remove("--version")
        words.insert(0, "version")
    before = words[: words.index("--")] if "--" in words else words
    if _HELP & {*common, *before}:
        return Command(path=("help",), values={"about": _about(before)})
    verb, rest = _find_verb(words, surface)
    return _read(verb, [*common, *rest], surface)


def parse_cell(args: Sequence[str] | str) -> Command:
    """Understand the options of ``%%submarine``: those of ``job run``, without a script.

    Raises
    ------
    CommandError
        As `parse` does.
    """
    words = split(args)
    if _HELP & set(words):
        return Command(path=("help",), values={"about": RUN.path})
    return _read(RUN, words, NOTEBOOK)


def split(args: Sequence[str] | str) -> list[str]:
    r"""Return the words of `args`; in text, a shell's quoting and ``\`` at a line's end are known.

    Raises
    ------
    CommandError
        A quotation is not closed.
    """
    if not isinstance(args, str):
        return list(args)
    try:
        return shlex.split(_QUOTED.sub(_join_lines, args))
    except ValueError as error:
        raise CommandError(
            f"the command line does not parse: {error}", fix="close the quotation"
        ) from error


def _join_lines(found: re.Match[str]) -> str:
    return "" if found[0] == "\\\n" else found[0]


def _take_common(words: list[str]) -> list[str]:
    """Take the options before the verb away from `words`."""
    common = []
    while words and OPTION.fullmatch(words[0]):
        name = words[0].partition("=")[0]
        if name != "--version" and find(name, COMMON) is None:
            raise CommandError(
                f"{name} comes before a verb",
                fix=f"begin with a verb: {', '.join(_first_words(None))}",
            )
        common.append(words.pop(0))
    return common


def _about(words: Sequence[str]) -> tuple[str, ...]:
    """Return the longest beginning of `words` that is a verb or a group of verbs."""
    known = {verb.path for verb in VERBS} | {(group,) for group in GROUPS}
    for length in (2, 1):
        if tuple(words[:length]) in known:
            return tuple(words[:length])
    return ()


def _first_words(surface: str | None) -> list[str]:
    return list(dict.fromkeys(verb.path[0] for verb in verbs(surface)))


def _find_verb(words: Sequence[str], surface: str | None) -> tuple[Verb, list[str]]:
    if not words:
        raise CommandError("a verb is missing", fix=f"one of {', '.join(_first_words(surface))}")
    for verb in VERBS:
        if verb.path == tuple(words[: len(verb.path)]):
            if surface is not None and surface not in verb.surfaces:
                (other,) = verb.surfaces
                raise CommandError(f"`{verb.text}` has a meaning only in a {other}", fix="")
            return verb, list(words[len(verb.path) :])
    program = "%submarine" if surface == NOTEBOOK else "submarine"
    if words[0] not in GROUPS:
        raise _unknown("verb", words[0], _first_words(surface), f"{program} help")
    members = [
        verb.path[1] for verb in verbs(surface) if verb.path[0] == words[0] and verb.path[1:]
    ]
    if len(words) == 1 or OPTION.fullmatch(words[1]):
        raise CommandError(
            f"`{words[0]}` needs a verb",
            fix=f"one of {', '.join(f'{words[0]} {member}' for member in members)}",
        )
    raise _unknown(f"verb `{words[0]} …` called", words[1], members, f"{program} help {words[0]}")


def _unknown(kind: str, word: str, known: Sequence[str], listing: str) -> CommandError:
    hint = did_you_mean(word, known)
    return CommandError(f"there is no {kind} {word!r}", fix=f"{hint}`{listing}` lists them all")


def _read(verb: Verb, words: Sequence[str], surface: str | None) -> Command:
    reading = Reading(verb, words, surface)
    found = reading.read()
    if verb is not RUN:
        return Command(path=verb.path, values=found)
    try:
        return Command(path=verb.path, values=found, spec=build_spec(found))
    except CommandError as error:
        raise CommandError(error.what, where=error.where or verb.text, fix=error.fix) from error
