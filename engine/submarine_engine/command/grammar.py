"""What a verb and a group of verbs are: click's commands, with words and help of our own."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from submarine_engine.command.options import (
    COMMON,
    EVERYWHERE,
    NOTEBOOK,
    TERMINAL,
    Argument,
    Front,
    Option,
    find,
    items,
    starting,
)
from submarine_engine.command.values import did_you_mean
from submarine_engine.errors import CommandError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


PROGRAMS = {None: "submarine", TERMINAL: "submarine", NOTEBOOK: "%submarine"}
OPTION = re.compile(r"--?[A-Za-z].*", re.DOTALL)
_SWITCH = {"true": True, "false": False}
_COLUMN = 28
_FOUND = "submarine.found"
"""Where a context has the options that were found by a search alone."""


class Verb(click.Command):
    """Something that can be asked for.

    Parameters
    ----------
    text
        The words that name it, as typed: ``job run``.
    summary
        One line for the list of verbs.
    parameters
        Its options and arguments, but for those of all verbs.
    details
        A paragraph or two for the verb's own help.
    examples
        Command lines as typed in a terminal, without the program's name.
    rest
        Help for what may follow ``--``; empty where nothing may.
    after
        What that is, in words.
    surfaces
        Where it has a meaning.
    run
        What does it in a terminal: ``module:function``, which is loaded when it is asked for; a
        module that begins with a dot is one of `submarine_engine.cli`.
    of_clusters
        Gives all options of it that only some clusters know. It takes a search, so it is called for
        help and completion, and for an option that is not known without it.
    """

    def __init__(  # noqa: PLR0913 - a declaration, each part by its name
        self,
        text: str,
        summary: str,
        *parameters: Option | Argument,
        details: str = "",
        examples: Sequence[str] = (),
        rest: str = "",
        after: str = "arguments of the script",
        surfaces: frozenset[str] = EVERYWHERE,
        run: str = "",
        of_clusters: Callable[[], list[Option]] = list,
    ) -> None:
        self.of_clusters = of_clusters
        self.text = text
        self.path = tuple(text.split())
        self.summary = summary
        self.examples = examples
        self.rest = rest
        self.after = after
        self.surfaces = surfaces
        self.run = run
        self.options = [one for one in parameters if isinstance(one, Option)]
        self.arguments = [one for one in parameters if isinstance(one, Argument)]
        super().__init__(
            self.path[-1],
            params=[*parameters, *COMMON],
            help=details,
            short_help=summary,
            add_help_option=False,
            context_settings={"allow_extra_args": True},
        )

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return what has a meaning where `ctx` is, with the options that were found for it."""
        return [one for one in (*self.params, *ctx.meta.get(_FOUND, ())) if ctx.obj.sees(one)]

    def _all_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return `get_params`, with the options of all clusters there are."""
        found = self.of_clusters()
        replaced = {one for one in self.options if one.clusters} if found else set()
        every = [*(one for one in self.params if one not in replaced), *found]
        return [one for one in every if ctx.obj.sees(one)]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take the words `args` into `ctx`, which click reads as `_Words` writes them."""
        words = _Words(self, ctx, args)
        try:
            loose = super().parse_args(ctx, words.plain())
        except click.MissingParameter as missing:
            argument = missing.param
            assert isinstance(argument, Argument)  # noqa: S101 - options can be left out
            raise self.error(f"{argument.flag} is missing", argument.help or "") from missing
        if loose and not ctx.resilient_parsing:
            hint = f"{self.after} go after --; " if self.rest else ""
            raise self.error(
                f"{loose[0]!r} has no meaning here", f"{hint}quote a value that has spaces"
            )
        if words.rest is not None:
            ctx.params["args"] = tuple(words.rest)
        return loose

    def invoke(self, ctx: click.Context) -> tuple[Verb, dict[str, Any]]:
        """Return what `ctx` was given, by key: several words as a tuple, which may be empty."""
        given = click.core.ParameterSource.COMMANDLINE
        return self, {
            name: value
            for name, value in ctx.params.items()
            if name == "args"
            or ctx.get_parameter_source(name) is given
            or any(one.name == name and one.nargs < 0 for one in self.arguments)
        }

    def error(self, what: str, fix: str = "") -> CommandError:
        """Return an error about this verb: `what` is wrong, and the `fix`, empty for none."""
        return CommandError(what, where=self.text, fix=fix)

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the verb's own help to `formatter`, for the front end of `ctx`."""
        shown: list[Any] = self._all_params(ctx)
        arguments = [one for one in shown if isinstance(one, Argument)]
        formatter.write(f"{self.summary}\n\n{PROGRAMS[ctx.obj.surface]} {self._usage(arguments)}\n")
        if self.help:
            formatter.write_paragraph()
            formatter.write_text(self.help)
        groups = {"Arguments": [(one.flag, one.help or "") for one in arguments]}
        if self.rest:
            groups["Arguments"].append(("-- ARGUMENTS", self.rest))
        for option in shown:
            if isinstance(option, Option) and not option.hidden:
                groups.setdefault(option.group, []).append((option.signature, option.help or ""))
        for heading, rows in groups.items():
            if rows:
                _section(formatter, heading, rows)
        if refused := [option.flag for option in self.options if option.hidden]:
            formatter.write("\nKnown of Hadoop Submarine, and refused with the reason\n")
            with formatter.indentation():
                formatter.write_text(", ".join(refused))
        if self.examples and ctx.obj.surface != NOTEBOOK:
            formatter.write("\nExamples\n")
            for example in self.examples:
                formatter.write(f"  submarine {example}\n")

    def _usage(self, arguments: Sequence[Argument]) -> str:
        words = [self.text, "[options]"]
        for argument in arguments:
            word = argument.flag + (" …" if argument.nargs < 0 else "")
            words.append(word if argument.required else f"[{word}]")
        return " ".join([*words, "[-- ARGUMENTS]"] if self.rest else words)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the options that are not given yet, or may be given again.

        Parameters
        ----------
        ctx
            What was given so far, and who asks.
        incomplete
            The word at the cursor; only one that begins with a dash is completed.
        """
        if not incomplete.startswith("-") or "args" in ctx.params:
            return []
        given = click.core.ParameterSource.COMMANDLINE
        cluster = ctx.params.get("cluster")
        flags = (
            option.flag
            for option in self._all_params(ctx)
            if isinstance(option, Option)
            and not option.hidden
            and (option.multiple or ctx.get_parameter_source(option.key) is not given)
            and (cluster is None or cluster in (option.clusters or (cluster,)))
        )
        return items(starting(flags, incomplete))


class _Words:
    """The words of a verb on their way to click, which knows one spelling of an option alone.

    Whatever looks like an option is one, never another's value: so nothing is taken for something
    else in silence, and each error can name the nearest option there is.
    """

    def __init__(self, verb: Verb, ctx: click.Context, words: Sequence[str]) -> None:
        self.verb = verb
        self.found: list[Option] = ctx.meta.setdefault(_FOUND, [])
        self.front: Front = ctx.obj
        self.lenient = ctx.resilient_parsing
        self.options = [*verb.options, *COMMON]
        self.given: dict[Option, str] = {}
        end = words.index("--") if "--" in words else len(words)
        self.words, after = list(words[:end]), list(words[end + 1 :])
        self.rest = after if verb.rest and end < len(words) else None
        self.loose = [] if verb.rest else after

    def plain(self) -> list[str]:
        """Return the options, each with its value in one word, then the other words."""
        found, loose = [], []
        while self.words:
            word = self.words.pop(0)
            if not OPTION.fullmatch(word):
                loose.append(word)
                continue
            try:
                found += self._option(word, loose)
            except CommandError:
                if not self.lenient:
                    raise
        return [*found, "--", *loose, *self.loose]

    def _option(self, word: str, loose: Sequence[str]) -> list[str]:
        name, equals, text = word.partition("=")
        option = find(name, [*self.options, *self.found])
        if option is None:
            option = find(name, self.verb.of_clusters())
            if option is None:
                raise self._unknown(name, loose)
            self.found.append(option)
        if option.refused:
            why, way_out = option.refused
            raise self.verb.error(f"{option.flag} is refused: {why}", way_out)
        if not self.front.sees(option):
            (other,) = option.surfaces
            raise self.verb.error(f"{option.flag} has a meaning only in a {other}", "leave it out")
        if option.is_flag:
            return [self._once(option, self._flag(option, name, text if equals else None))]
        texts = self._texts(option, text if equals else self._next(option))
        return [f"{self._once(option, option.flag)}={each}" for each in texts]

    def _once(self, option: Option, flag: str) -> str:
        for other, before in self.given.items():
            if other is option and before == flag and not option.multiple:
                raise self.verb.error(f"{flag} is given twice", "give it once")
            both = {option.key, other.key}
            if (other is option and before != flag) or both & {option.against, other.against}:
                what = f"{before} and {flag} contradict each other"
                raise self.verb.error(what, "leave one out")
        self.given[option] = flag
        return flag

    def _flag(self, option: Option, name: str, text: str | None) -> str:
        on, off = option.flag, f"--no-{option.name}"
        if "no" in re.split("[-_]", name) and option.switch:
            on, off = off, on
        elif option.switch and text is None and self.words and self.words[0].lower() in _SWITCH:
            text = self.words.pop(0)
        if text is None:
            return on
        if not option.switch or text.lower() not in _SWITCH:
            raise self.verb.error(f"{on}={text} is not possible: it takes no value", f"write {on}")
        return on if _SWITCH[text.lower()] else off

    def _next(self, option: Option) -> str:
        if self.words and not OPTION.fullmatch(self.words[0]):
            return self.words.pop(0)
        fix = f"write {option.flag} {option.type.name}"
        if self.words:
            fix += f", or {option.flag}={self.words[0]} if that is the value"
        raise self.verb.error(f"{option.flag} needs a value", fix)

    def _texts(self, option: Option, text: str) -> list[str]:
        """Return the values that an option was given: one, but for those that take names."""
        if not option.names:
            return [text]
        words = [text]
        while self.front.surface == NOTEBOOK and self.words and not self.words[0].startswith("-"):
            words.append(self.words.pop(0))
        return [name for word in words for name in word.split(",") if name] or [text]

    def _unknown(self, name: str, loose: Sequence[str]) -> CommandError:
        known = {
            key: option.flag
            for option in (*self.options, *self.verb.of_clusters())
            if not option.hidden and self.front.sees(option)
            for key in (option.key, *option.meant_by)
        }
        hint = did_you_mean(name.lstrip("-").replace("-", "_"), known)
        after = f"; {self.verb.after} go after --" if self.verb.rest and loose else ""
        program = PROGRAMS[self.front.surface]
        return self.verb.error(
            f"there is no option {name}",
            f"{hint}`{program} {self.verb.text} --help` lists them all{after}",
        )


class Group(click.Group):
    """Verbs with a first word in common; all of them, where it has no word of its own.

    Parameters
    ----------
    text
        Its word, as typed.
    summary
        One sentence.
    verbs
        Those that it begins with, if any.
    of_clusters
        Gives the groups of clusters that do not come with Submarine, by word. It takes a search, so
        it is called for help and completion, and for a word that is not known without it.
    usual
        The verb that is meant where the first word is none; empty for none.
    """

    def __init__(
        self,
        text: str,
        summary: str,
        *verbs: Verb,
        of_clusters: Callable[[], Mapping[str, Group]] = dict,
        usual: str = "",
    ) -> None:
        self.text = text
        self.usual = usual
        self.summary = summary
        self.of_clusters = of_clusters
        super().__init__(text, add_help_option=False, no_args_is_help=False)
        for verb in verbs:
            self.add_command(verb)

    def members(self) -> dict[str, click.Command]:
        """Return all that it has, by word."""
        return {**self.of_clusters(), **self.commands}

    def find(self, word: str) -> Verb | Group | None:
        """Return the verb or group that a word names."""
        command = self.commands.get(word) or self.of_clusters().get(word)
        return command if isinstance(command, (Verb, Group)) else None

    def known(self, front: Front) -> list[str]:
        """Return the words that may come next."""
        found = ((name, verbs_of(command)) for name, command in self.members().items())
        return [name for name, verbs in found if any(map(front.sees, verbs))]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take the words of a verb."""
        missing = not args or args[0] == "--" or OPTION.fullmatch(args[0])
        if missing and not ctx.resilient_parsing:
            prefix = f"{self.text} " if self.text else ""
            verbs = ", ".join(f"{prefix}{name}" for name in self.known(ctx.obj))
            what = f"`{self.text}` needs a verb" if self.text else "a verb is missing"
            raise CommandError(what, fix=f"one of {verbs}")
        ctx.allow_interspersed_args = False
        ctx.ignore_unknown_options = True
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the verb or group that the first word names, and the other words."""
        word, *rest = args
        command = self.find(word)
        if command is None and self.usual and not ctx.resilient_parsing:
            word, rest = self.usual, args
            command = self.find(word)
        front: Front = ctx.obj
        elsewhere = isinstance(command, Verb) and not front.sees(command)
        if ctx.resilient_parsing and (command is None or elsewhere):
            return word, click.Command(word), []  # of which nothing can be completed
        if command is None:
            kind = f"verb `{self.text} …` called" if self.text else "verb"
            listing = f"{PROGRAMS[front.surface]} help {self.text}".rstrip()
            raise CommandError(
                f"there is no {kind} {word!r}",
                fix=f"{did_you_mean(word, self.known(front))}`{listing}` lists them all",
            )
        if elsewhere:
            [verb] = verbs_of(command)
            [other] = verb.surfaces
            raise CommandError(f"`{verb.text}` has a meaning only in a {other}", fix="")
        return word, command, rest

    def invoke(self, ctx: click.Context) -> tuple[Verb, dict[str, Any]]:
        """Return the verb that was asked for, and what it was given, by key."""
        found: tuple[Verb, dict[str, Any]] = super().invoke(ctx)
        return found

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of its verbs."""
        surface = ctx.obj.surface
        program = f"{PROGRAMS[surface]} {self.text}".rstrip()
        formatter.write(f"{self.summary}\n\n")
        if not self.text and surface == NOTEBOOK:
            formatter.write("%%submarine [options of job run]     run this cell as a job\n")
            formatter.write("%%submarine.python [TITLE.py]        give a part of a script, for ")
            formatter.write("`job run`\n")
        formatter.write(f"{program} VERB [options]\n")
        shown = [verb for verb in verbs_of(self) if ctx.obj.sees(verb)]
        _section(formatter, "Verbs", [(verb.text, verb.summary) for verb in shown])
        if not self.text:
            formatter.write(f"\n`{program} help VERB`, or --help after it, says more.\n")
            if surface != NOTEBOOK:
                formatter.write(f"`{program} --version` says which release this is.\n")

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the words that may come next."""
        return items(starting(self.known(ctx.obj), incomplete))


def verbs_of(command: click.Command) -> Iterator[Verb]:
    """Yield `command` where it is a verb, or all verbs of a group."""
    if isinstance(command, Verb):
        yield command
    elif isinstance(command, Group):
        for member in command.members().values():
            yield from verbs_of(member)


def _section(formatter: click.HelpFormatter, heading: str, rows: Sequence[tuple[str, str]]) -> None:
    """Write rows below a heading, their second column where that of all sections is."""
    formatter.write(f"\n{heading}\n")
    with formatter.indentation():
        for row in rows:
            formatter.write_dl([(row[0].ljust(_COLUMN), row[1])], _COLUMN, 2)
