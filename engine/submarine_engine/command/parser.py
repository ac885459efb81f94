"""The one grammar: words in, a `Command` out, or an error that names the nearest thing there is."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import click

from submarine_engine.command.options import COMMON, NOTEBOOK, TERMINAL, Front, find
from submarine_engine.command.spec import build_spec
from submarine_engine.command.values import did_you_mean
from submarine_engine.command.verbs import GROUPS, OPTION, ROOT, RUN, VERBS, Group, verbs
from submarine_engine.errors import CommandError
from submarine_engine.job import JobSpec

# What a shell takes as it is: quotations, and what a backslash stands before.
_QUOTED = re.compile(r"""'[^']*'|"(?:\\.|[^"\\])*"|\\.""", re.DOTALL)
_HELP = {"--help", "-h", "-help"}
_WIDTH = 94


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command line that was understood.

    Parameters
    ----------
    path
        The verb: ``("job", "run")``.
    values
        What was given, by key (``dry_run``): flags are True, repeated options tuples, ``env``
        pairs. What was not given is not there.
    spec
        What to run, for ``job run``; None otherwise.
    """

    path: tuple[str, ...]
    values: Mapping[str, Any] = field(default_factory=dict)
    spec: JobSpec | None = None

    def named(self, name: str) -> JobSpec:
        """Return the spec, called `name` unless the command line names the job.

        Raises
        ------
        CommandError
            `name` cannot name a job; see `job_name`.
        ValueError
            The command runs no job.
        """
        if self.spec is None:
            raise ValueError(self.path)
        return self.spec if "name" in self.values else replace(self.spec, name=name)


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
    if not words:
        return Command(path=("help",), values={"about": ()})
    common = _take_common(words)
    own = words[: words.index("--")] if "--" in words else words
    if _HELP & {*common, *own}:
        return Command(path=("help",), values={"about": _about(own)})
    return _read(ROOT, words, common, surface)


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
    return _read(RUN, words, (), NOTEBOOK)


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
            first = ", ".join(ROOT.known(Front()))
            raise CommandError(f"{name} comes before a verb", fix=f"begin with a verb: {first}")
        common.append(words.pop(0))
    if "--version" in common:
        common.remove("--version")
        words.insert(0, "version")
    return common


def _about(words: Sequence[str]) -> tuple[str, ...]:
    """Return the longest beginning of `words` that is a verb or a group of verbs."""
    known = {verb.path for verb in VERBS} | {(group,) for group in GROUPS}
    return next((path for n in (2, 1) if (path := tuple(words[:n])) in known), ())


def _read(
    command: click.Command, words: Sequence[str], common: Sequence[str], surface: str | None
) -> Command:
    verb_ends = 2 if words and words[0] in GROUPS else 1
    words = [*words[:verb_ends], *common, *words[verb_ends:]]
    with command.make_context("submarine", words, obj=Front(surface)) as context:
        verb, values = command.invoke(context)
    if verb is not RUN:
        return Command(path=verb.path, values=values)
    try:
        return Command(path=verb.path, values=values, spec=build_spec(values))
    except CommandError as error:
        raise CommandError(error.what, where=error.where or verb.text, fix=error.fix) from error


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
    command: click.Command | None = ROOT
    for word in path:
        command = command.commands.get(word) if isinstance(command, Group) else None
    if command is None:
        known = [verb.text for verb in verbs(surface)] + list(GROUPS)
        word = " ".join(path)
        raise CommandError(
            f"there is no verb {word!r}",
            where="help",
            fix=f"{did_you_mean(word, known)}verbs are {', '.join(known)}",
        )
    formatter = click.HelpFormatter(width=_WIDTH)
    command.format_help(click.Context(command, obj=Front(surface)), formatter)
    return formatter.getvalue()


def complete(
    line: str,
    cursor: int | None = None,
    *,
    jobs: Callable[[], Iterable[str]] = tuple,
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
    from click.shell_completion import ShellComplete  # noqa: PLC0415 - at a key, not at the start

    text = line[:cursor]
    try:
        words = shlex.split(text)
    except ValueError:  # within a quotation
        words = text.split()
    current = words.pop() if words and not text[-1:].isspace() else ""
    asked = ShellComplete(RUN if cell else ROOT, {"obj": Front(surface, jobs)}, "submarine", "")
    found = [item.value for item in asked.get_completions(words, current)]
    name, equals, _ = current.partition("=")
    if equals and name.startswith("-"):  # its value alone was completed
        return [f"{name}={value}" for value in found]
    return found
