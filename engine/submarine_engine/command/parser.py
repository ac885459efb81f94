"""The one grammar: words in, a `Command` out, or an error that names the nearest thing there is.

``job run`` has a `JobSpec`, too, and a spec gives the command line that means it. Which options a
spec has, `JobSpec` itself says.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import click

from submarine_engine import webhooks
from submarine_engine.command.grammar import OPTION, Group
from submarine_engine.command.options import COMMON, NOTEBOOK, OTHER_ROLES, TERMINAL, Front, find
from submarine_engine.command.values import (
    did_you_mean,
    format_memory,
    format_resources,
    format_seconds,
    format_workers,
)
from submarine_engine.command.verbs import ROOT, RUN, find_verb, verbs
from submarine_engine.declared import find_options
from submarine_engine.errors import CommandError
from submarine_engine.job import NO_OUTPUTS, JobSpec, OptionInfo, Resources, Role, options_of

# What a shell takes as it is: quotations, and what a backslash stands before.
_QUOTED = re.compile(r"""'[^']*'|"(?:\\.|[^"\\])*"|\\.""", re.DOTALL)
_HELP = {"--help", "-h", "-help"}
_WIDTH = 94
# Hadoop Submarine's places in launch commands. The cluster says what a path is over there, so the
# shell of the task fills them in.
_PLACES = {
    "input_path": "${SUBMARINE_INPUT_PATH}",
    "checkpoint_path": "${SUBMARINE_CHECKPOINT_PATH}",
    "saved_model_path": "",
}
_OF_THE_VERB = {"cluster", "detach", "logs"}
"""Options of ``job run`` that say nothing of the job itself."""
_DEFAULTS = {each.name: each.default for each in fields(JobSpec)}
_OF_EVERY_CLUSTER = {"args", *(one.name for one in RUN.params)} - {
    option.key for option in RUN.options if option.clusters
}


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

    Parameters
    ----------
    args
        What follows ``%%submarine``: words, or text with a shell's quoting.

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
    return next((path for n in (2, 1) if find_verb(path := tuple(words[:n]))), ())


def _read(
    command: click.Command, words: Sequence[str], common: Sequence[str], surface: str | None
) -> Command:
    words = list(words)
    if common:  # a word that is no verb of ours has all installed packages looked through
        verb_ends = 2 if isinstance(find_verb(words[:1]), Group) else 1
        words = [*words[:verb_ends], *common, *words[verb_ends:]]
    with command.make_context("submarine", words, obj=Front(surface)) as context:
        verb, values = command.invoke(context)
    if verb is not RUN:
        return Command(path=verb.path, values=values)
    try:
        return Command(path=verb.path, values=values, spec=build_spec(values))
    except CommandError as error:
        raise CommandError(error.what, where=error.where or verb.text, fix=error.fix) from error


def build_spec(values: Mapping[str, Any]) -> JobSpec:
    """Return what the values of ``job run`` ask for.

    Parameters
    ----------
    values
        Of `Command`; what is not there is as `JobSpec` has it.

    Raises
    ------
    CommandError
        Values contradict each other, or ask for the impossible.
    """
    given = {
        name: _spec_value(option, values[option.name])
        for name, option in options_of(JobSpec)
        if option.name in values
    }
    of_cluster = {}
    for name, option in find_options(values.keys() - _OF_EVERY_CLUSTER).items():
        option.check(values[name])
        of_cluster[name] = values[name]
    roles = (_worker(values), *_others(values))
    return JobSpec(roles=roles, options=of_cluster, **given)


def overridden(spec: JobSpec, values: Mapping[str, Any]) -> JobSpec:
    """Return a job's spec with what options of ``job run`` say otherwise.

    Parameters
    ----------
    spec
        What it was.
    values
        Of `Command`. Variables of the environment, secrets and links are added to those that there
        are.

    Raises
    ------
    CommandError
        The two contradict each other, or the spec has roles that the grammar has no options for.
    """
    known = {option.key for option in RUN.options} | find_options(values.keys()).keys()
    given = {name: value for name, value in values.items() if name in known - _OF_THE_VERB}
    if not given:  # also one that no command line says
        return spec
    former = dict(parse(to_command(spec)).values)
    for name in ("env", "quicklink"):
        if name in given:
            pairs = dict((*former.get(name, ()), *_once(f"--{name}", given[name])))
            given[name] = tuple(pairs.items())
    if "secret" in given:
        given["secret"] = tuple(dict.fromkeys((*former.get("secret", ()), *given["secret"])))
    for name in [name for name in former if name.endswith("resources") and name in given]:
        del former[name]
    if "worker_resources" in given:
        for _, option in options_of(Resources):
            former.pop(option.name, None)
    if given.get("gang") and isinstance(workers := former.get("num_workers"), tuple):
        former["num_workers"] = workers[1]
    changed = build_spec({**former, **given})
    return replace(changed, notebook=spec.notebook, asks=spec.asks)


def _spec_value(option: OptionInfo, value: Any) -> Any:  # noqa: ANN401 - as its kind
    """Return an option's value as the spec has it; what is given once must not come again."""
    if option.kind in ("setting", "link"):
        pairs = _once(f"--{option.name}", value)
        return dict(pairs) if option.kind == "setting" else pairs
    if option.kind == "secret":
        return tuple(name for name, _ in _once("--secret", [(name, name) for name in value]))
    return _outputs(value) if option.kind == "variable" else value


def _once(option: str, pairs: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    found: dict[str, str] = {}
    for name, value in pairs:
        if name in found:
            raise CommandError(f"{option} {name} is given twice", fix="give it once")
        found[name] = value
    return tuple(found.items())


def _outputs(names: Sequence[str]) -> tuple[str, ...]:
    found = tuple(name for name, _ in _once("-o", [(name, name) for name in names]))
    [none] = NO_OUTPUTS
    if none in found and found != NO_OUTPUTS:
        raise CommandError(
            "-o none (nothing comes back) and -o NAME contradict each other",
            fix="leave one out; a variable that is called none needs another name to come back",
        )
    return found


def _worker(values: Mapping[str, Any]) -> Role:
    resources: Resources = values.get("worker_resources", Resources())
    for name, option in options_of(Resources):
        if option.name not in values:
            continue
        said, value = getattr(resources, name), values[option.name]
        if said not in (None, value):
            raise CommandError(
                f"--{option.name} and --worker_resources contradict each other: "
                f"{name} is {value} and {said}",
                fix="leave one out",
            )
        resources = replace(resources, **{name: value})
    workers = values.get("num_workers", 1)
    least, count = workers if isinstance(workers, tuple) else (None, workers)
    whole = values.get("gang")
    if whole and least is not None:
        raise CommandError(
            f"--gang all and --num_workers {format_workers(least, count)} contradict each other",
            fix="leave one out",
        )
    if whole is False and least is None and count > 1:
        least = 1
    return Role(
        count=count,
        least=least,
        resources=resources,
        command=_launch_command(values, "worker_launch_cmd"),
        args=values.get("args", ()),
    )


def _others(values: Mapping[str, Any]) -> Iterator[Role]:
    for name, called in OTHER_ROLES.items():
        if count := values.get(f"num_{name}", 0):
            yield Role(
                name=name,
                count=count,
                resources=values.get(f"{name}_resources", Resources()),
                command=_launch_command(values, f"{name}_launch_cmd"),
            )
            continue
        for option in (f"{name}_launch_cmd", f"{name}_resources"):
            if option in values:
                raise CommandError(
                    f"--{option} is given, but there are no {called}s",
                    fix=f"add --num_{name} 1, or leave it out",
                )


def _launch_command(values: Mapping[str, Any], option: str) -> str | None:
    command: str | None = values.get(option)
    for needed, variable in _PLACES.items():
        if command is None or f"%{needed}%" not in command:
            continue
        if needed not in values:
            known = "give it" if variable else "this release has no such option: remove it"
            raise CommandError(
                f"--{option} says %{needed}%, and --{needed} is not given",
                fix=f"--{needed}: {known}",
            )
        command = command.replace(f"%{needed}%", variable)
    return command


def to_command(spec: JobSpec, script: str | None = None) -> str:
    """Return the command line that means `spec`: `parse` gives the same spec again.

    Parameters
    ----------
    script
        The file to run, where the spec itself says no command. ``spec.notebook`` is left out: it
        comes from the front end, not from a command line.

    Raises
    ------
    CommandError
        The spec has roles that the grammar has no options for.
    """
    first, *others = (role.name for role in spec.roles)
    if first != "worker" or others != [name for name in OTHER_ROLES if name in others]:
        raise CommandError(
            f"no command line says roles {', '.join((first, *others))}",
            fix=f"use worker, and after it {', '.join(OTHER_ROLES)}",
        )
    words = ["job", "run"]
    for name, option in options_of(JobSpec):
        value = getattr(spec, name)
        if name == "name" or value != _DEFAULTS[name]:
            words += _words_of(option, value)
    known = find_options(spec.options.keys())
    for name, value in spec.options.items():
        words += _words_of(known[name], value) if name in known else _option(name, value)
    for role in spec.roles:
        words += _role_words(role)
    words += [script] if script else []
    if spec.roles[0].args:
        words += ["--", *spec.roles[0].args]
    return shlex.join(words)


def _words_of(option: OptionInfo, value: Any) -> list[str]:  # noqa: ANN401 - as its kind
    """Return the words that give an option that value."""
    if option.kind == "switch":
        return [f"--{option.name}"] if value else []
    if option.kind == "memory":
        value = None if value is None else format_memory(value)
    if option.kind == "webhook":  # a command is shown, and its reference means the same
        value = None if value is None else webhooks.reference(value)
    if option.kind == "duration":
        value = None if value is None else format_seconds(value)
    if isinstance(value, Mapping):
        value = tuple(value.items())
    each = value if option.repeat else (value,)
    texts = ("=".join(one) if isinstance(one, tuple) else one for one in each)
    return [word for text in texts for word in _option(option.name, text)]


def _role_words(role: Role) -> list[str]:
    if (name := role.name) in OTHER_ROLES:
        words = _option(f"num_{name}", role.count)
        words += _option(f"{name}_resources", format_resources(role.resources) or None)
        return words + _option(f"{name}_launch_cmd", role.command)
    words = _option("num_workers", format_workers(role.least, role.count))
    words = words if role.count != 1 else []
    for name, option in options_of(Resources):
        words += _words_of(option, getattr(role.resources, name))
    return words + _option("worker_launch_cmd", role.command)


def _option(name: str, value: object) -> list[str]:
    if value is None:
        return []
    text = str(value)
    if text.startswith("-"):  # it looks like an option, so it must hold on to its own
        return [f"--{name}={text}"]
    return [f"--{name}", text]


def job_name(text: str, default: str = "job") -> str:
    """Make a job's name of any text: a file's, a notebook's, a function's.

    Returns
    -------
    str
        What of `text` may stand in a name, 64 characters at most; `default` where nothing may.
    """
    bare = re.sub(r"[^A-Za-z0-9._-]+", "-", text).lstrip("._-")[:64].rstrip("._-")
    return bare or default


def help_text(path: Sequence[str] = (), *, surface: str = TERMINAL) -> str:
    """Return the help of a verb, of a group of verbs (``job``), or of all (empty).

    Parameters
    ----------
    path
        The words that name it: ``("job", "run")``.
    surface
        ``terminal`` or ``notebook``: leaves out what has a meaning only in the other.

    Raises
    ------
    CommandError
        There is no such verb.
    """
    command = find_verb(path) if path else ROOT
    if command is None:
        known = [verb.text for verb in verbs(surface)]
        known += [group.text for group in ROOT.commands.values() if isinstance(group, Group)]
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
