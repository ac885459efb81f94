"""What the grammar is made of: verbs, their arguments and options, as plain data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from submarine_engine.job import JobSpec

if TYPE_CHECKING:
    from typing import Any

TERMINAL = "terminal"
NOTEBOOK = "notebook"
EVERYWHERE = frozenset({TERMINAL, NOTEBOOK})


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of value: how its text is read, and how help calls it.

    Parameters
    ----------
    metavar
        What stands for the value in help.
    read
        Text to value; raises `CommandError`.
    choices
        The only values there are, for completion; empty where there is no such list.
    """

    metavar: str
    read: Callable[[str], Any]
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option of a verb.

    Parameters
    ----------
    name
        As help writes it, without the leading dashes; dashes and underscores mean the same.
    kind
        What its value is; None for a flag.
    short
        One letter that means the same.
    repeat
        Whether it may be given more than once; its value is a tuple then.
    names
        Its value is one name or more: ``-o a,b``, and in a notebook ``-o a b`` too, where no other
        words can follow.
    switch
        A flag that may also be written ``--flag true`` and ``--flag false``.
    group
        The heading that help lists it under.
    surfaces
        Where it has a meaning.
    refused
        Why this release cannot do it, and the way out; empty for an option that works.
    """

    name: str
    help: str
    kind: Kind | None = None
    short: str = ""
    repeat: bool = False
    names: bool = False
    switch: bool = False
    group: str = "Options"
    surfaces: frozenset[str] = EVERYWHERE
    refused: tuple[str, str] | tuple[()] = ()

    @property
    def key(self) -> str:
        """The name in `Command.values`."""
        return self.name.replace("-", "_")

    @property
    def flag(self) -> str:
        """The option as help writes it: ``--dry-run``."""
        return f"--{self.name}" if len(self.name) > 1 else f"-{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """A word of a verb that is no option.

    Parameters
    ----------
    name
        Its name in `Command.values`.
    required
        Whether the verb makes no sense without it.
    repeat
        Whether several may be given; its value is a tuple then.
    """

    name: str
    help: str
    kind: Kind
    required: bool = True
    repeat: bool = False
    surfaces: frozenset[str] = EVERYWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """Something that can be asked for.

    Parameters
    ----------
    path
        The words that name it: ``("job", "run")``.
    summary
        One line for the list of verbs.
    details
        A paragraph or two for the verb's own help.
    examples
        Command lines as typed in a terminal, without the program's name.
    rest
        Help for what may follow ``--``; empty where nothing may.
    """

    path: tuple[str, ...]
    summary: str
    details: str = ""
    arguments: tuple[Argument, ...] = ()
    options: tuple[Option, ...] = ()
    examples: tuple[str, ...] = ()
    rest: str = ""
    surfaces: frozenset[str] = EVERYWHERE

    @property
    def text(self) -> str:
        """The words that name it, as typed."""
        return " ".join(self.path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command line that was understood.

    Parameters
    ----------
    path
        The verb: ``("job", "run")``.
    values
        What was given, by key (``dry_run``): flags are True, repeated options tuples, ``env`` a
        mapping. What was not given is not there.
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
