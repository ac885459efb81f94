"""The parser: words in, a `Command` out, or an error that names the nearest thing there is."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Any

from submarine_engine.command.model import NOTEBOOK, Argument, Command, Option, Verb
from submarine_engine.command.nearest import did_you_mean
from submarine_engine.command.options import COMMON
from submarine_engine.command.spec import build_spec
from submarine_engine.command.verbs import GROUPS, RUN, VERBS, verbs
from submarine_engine.errors import CommandError

_OPTION = re.compile(r"--?[A-Za-z].*", re.DOTALL)
# What a shell takes as it is: quotations, and what a backslash stands before.
_QUOTED = re.compile(r"""'[^']*'|"(?:\\.|[^"\\])*"|\\.""", re.DOTALL)
_SWITCH = {"true": True, "false": False}
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


def find(name: str, options: Sequence[Option]) -> Option | None:
    """Return the option that a word means, None if there is none such.

    One dash or two, dashes or underscores within, it is the same; one letter may be a short form.
    """
    bare = name.lstrip("-")
    if len(bare) == 1 and not name.startswith("--"):
        return next((option for option in options if bare in (option.short, option.key)), None)
    key = bare.replace("-", "_")
    return next((option for option in options if option.key == key), None)


def _take_common(words: list[str]) -> list[str]:
    """Take the options before the verb away from `words`."""
    common = []
    while words and _OPTION.fullmatch(words[0]):
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
    if words[0] not in GROUPS:
        raise _unknown("verb", words[0], _first_words(surface), "submarine help")
    members = [
        verb.path[1] for verb in verbs(surface) if verb.path[0] == words[0] and verb.path[1:]
    ]
    if len(words) == 1 or _OPTION.fullmatch(words[1]):
        raise CommandError(
            f"`{words[0]}` needs a verb",
            fix=f"one of {', '.join(f'{words[0]} {member}' for member in members)}",
        )
    raise _unknown(f"verb `{words[0]} …` called", words[1], members, f"submarine help {words[0]}")


def _unknown(kind: str, word: str, known: Sequence[str], listing: str) -> CommandError:
    hint = did_you_mean(word, known)
    return CommandError(f"there is no {kind} {word!r}", fix=f"{hint}`{listing}` lists them all")


class _Reading:
    """The words of one verb on their way to values."""

    def __init__(self, verb: Verb, words: Sequence[str], surface: str | None) -> None:
        self.verb = verb
        self.words = list(words)
        self.surface = surface
        self.values: dict[str, Any] = {}
        self.loose: list[str] = []
        self.options = (*verb.options, *COMMON)

    def read(self) -> dict[str, Any]:
        while self.words:
            word = self.words.pop(0)
            if word == "--":
                self._take_rest()
            elif _OPTION.fullmatch(word):
                self._take_option(word)
            else:
                self.loose.append(word)
        self._take_arguments()
        return self.values

    def _take_option(self, word: str) -> None:
        name, equals, text = word.partition("=")
        option = find(name, self.options)
        if option is None:
            raise self._unknown_option(name)
        if option.refused:
            why, way_out = option.refused
            raise self._error(f"{option.flag} is refused: {why}", way_out)
        if self.surface is not None and self.surface not in option.surfaces:
            (other,) = option.surfaces
            raise self._error(f"{option.flag} has a meaning only in a {other}", "leave it out")
        if option.kind is None:
            self._put(option, self._flag(option, text if equals else None))
        else:
            self._put(option, self._value(option, text if equals else self._next(option)))

    def _next(self, option: Option) -> str:
        assert option.kind is not None  # noqa: S101 - for the type checker; flags take no value
        if not self.words or self.words[0] == "--" or _OPTION.fullmatch(self.words[0]):
            raise self._error(
                f"{option.flag} needs a value",
                f"write {option.flag} {option.kind.metavar}"
                + (
                    f", or {option.flag}={self.words[0]} if that is the value" if self.words else ""
                ),
            )
        return self.words.pop(0)

    def _flag(self, option: Option, text: str | None) -> bool:
        if option.switch and text is None and self.words and self.words[0].lower() in _SWITCH:
            text = self.words.pop(0)
        if text is None:
            return True
        if not option.switch or text.lower() not in _SWITCH:
            raise self._error(
                f"{option.flag}={text} is not possible: it takes no value", f"write {option.flag}"
            )
        return _SWITCH[text.lower()]

    def _value(self, option: Option | Argument, text: str) -> Any:  # noqa: ANN401 - as its kind
        assert option.kind is not None  # noqa: S101 - for the type checker; flags do not come here
        name = option.flag if isinstance(option, Option) else option.name.upper()
        try:
            return option.kind.read(text)
        except CommandError as error:
            raise CommandError(
                f"{name}: {error.what}", where=self.verb.text, fix=error.fix
            ) from error

    def _put(self, option: Option, value: Any) -> None:  # noqa: ANN401 - as its kind
        if option.repeat:
            self.values[option.key] = (*self.values.get(option.key, ()), value)
        elif option.key in self.values:
            raise self._error(f"{option.flag} is given twice", "give it once")
        else:
            self.values[option.key] = value

    def _take_rest(self) -> None:
        if not self.verb.rest:
            self.loose += self.words
        else:
            self.values["args"] = tuple(self.words)
        self.words = []

    def _take_arguments(self) -> None:
        for argument in self.verb.arguments:
            if self.surface is not None and self.surface not in argument.surfaces:
                continue
            if argument.required and not self.loose:
                raise self._error(f"{argument.name.upper()} is missing", argument.help)
            if argument.repeat:
                self.values[argument.name] = tuple(self._value(argument, w) for w in self.loose)
                self.loose = []
            elif self.loose:
                self.values[argument.name] = self._value(argument, self.loose.pop(0))
        if self.loose:
            hint = "arguments of a script go after --; " if self.verb.rest else ""
            raise self._error(
                f"{self.loose[0]!r} has no meaning here", f"{hint}quote a value that has spaces"
            )

    def _unknown_option(self, name: str) -> CommandError:
        known = {
            option.key: option.flag
            for option in self.options
            if not option.refused and (self.surface is None or self.surface in option.surfaces)
        }
        hint = did_you_mean(name.lstrip("-").replace("-", "_"), known)
        after = ""
        if self.verb.rest and "script" in {argument.name for argument in self.verb.arguments}:
            after = "; arguments of the script go after --" if self.loose else ""
        return self._error(
            f"there is no option {name}", f"{hint}`{self.verb.text} --help` lists them all{after}"
        )

    def _error(self, what: str, fix: str = "") -> CommandError:
        return CommandError(what, where=self.verb.text, fix=fix)


def _read(verb: Verb, words: Sequence[str], surface: str | None) -> Command:
    reading = _Reading(verb, words, surface)
    found = reading.read()
    if verb is not RUN:
        return Command(path=verb.path, values=found)
    try:
        return Command(path=verb.path, values=found, spec=build_spec(found))
    except CommandError as error:
        raise CommandError(error.what, where=error.where or verb.text, fix=error.fix) from error
