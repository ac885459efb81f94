"""The words of one verb become values, by the options and arguments that it declares."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from submarine_engine.command.model import NOTEBOOK, Argument, Option, Verb
from submarine_engine.command.nearest import did_you_mean
from submarine_engine.command.options import COMMON
from submarine_engine.errors import CommandError

OPTION = re.compile(r"--?[A-Za-z].*", re.DOTALL)
_SWITCH = {"true": True, "false": False}


def find(name: str, options: Sequence[Option]) -> Option | None:
    """Return the option that a word means, None if there is none such.

    One dash or two, dashes or underscores within, it is the same; one letter may be a short form.
    """
    bare = name.lstrip("-")
    if len(bare) == 1 and not name.startswith("--"):
        return next((option for option in options if bare in (option.short, option.key)), None)
    key = bare.replace("-", "_")
    return next((option for option in options if option.key == key), None)


class Reading:
    """The words of one verb on their way to values.

    Parameters
    ----------
    surface
        Refuses what has a meaning only elsewhere; None refuses nothing.
    """

    def __init__(self, verb: Verb, words: Sequence[str], surface: str | None) -> None:
        self.verb = verb
        self.words = list(words)
        self.surface = surface
        self.values: dict[str, Any] = {}
        self.loose: list[str] = []
        self.options = (*verb.options, *COMMON)

    def read(self) -> dict[str, Any]:
        """Return the values by key.

        Raises
        ------
        CommandError
            A word is not understood, is missing, or is one too many.
        """
        while self.words:
            word = self.words.pop(0)
            if word == "--":
                self._take_rest()
            elif OPTION.fullmatch(word):
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
            texts = self._texts(option, text if equals else self._next(option))
            for each in texts:
                self._put(option, self._value(option, each))

    def _texts(self, option: Option, text: str) -> list[str]:
        """Return the values that an option was given: one, but for those that take names."""
        if not option.names:
            return [text]
        words = [text]
        while self.surface == NOTEBOOK and self.words and not self.words[0].startswith("-"):
            words.append(self.words.pop(0))
        return [name for word in words for name in word.split(",") if name] or [text]

    def _next(self, option: Option) -> str:
        assert option.kind is not None  # noqa: S101 - for the type checker; flags take no value
        if not self.words or self.words[0] == "--" or OPTION.fullmatch(self.words[0]):
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
        program = "%submarine" if self.surface == NOTEBOOK else "submarine"
        return self._error(
            f"there is no option {name}",
            f"{hint}`{program} {self.verb.text} --help` lists them all{after}",
        )

    def _error(self, what: str, fix: str = "") -> CommandError:
        return CommandError(what, where=self.verb.text, fix=fix)
