"""What clusters declare besides their class: options of jobs, settings and verbs of their own.

It is plain data in a module that loads nothing of the cluster, since help and completion read it at
each key. An entry point of the group ``submarine.options`` names it, by the cluster's own name:
``lab = "our_lab.options:DECLARED"``.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from submarine_engine.errors import UnsupportedError
from submarine_engine.job import JobSpec, OptionInfo, Resources, options_of
from submarine_engine.settings import KEYS, Key

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "submarine.options"
_KINDS = {"name", "path", "count", "memory", "switch"}

# Those that come with Submarine are there without a search through the installed packages.
_BUILT_IN = {
    "kubernetes": "submarine_engine.clusters.kubernetes.options",
    "local": "submarine_engine.clusters.local.options",
    "slurm": "submarine_engine.clusters.slurm.options",
    "yarn": "submarine_engine.clusters.yarn.options",
}
_TAKEN = {"cluster", *(said.name for kind in (JobSpec, Resources) for _, said in options_of(kind))}


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """What one cluster declares.

    Parameters
    ----------
    options
        Options of ``job run``. A job has their values by name, in `JobSpec.options`.
    settings
        Settings of the configuration; the cluster's name should be in theirs.
    verbs
        ``module:name`` of a `submarine_engine.command.grammar.Group` of verbs, to start or end such
        a cluster for one. What does a verb's work is named by its ``run``: ``module:function``.
    """

    options: tuple[OptionInfo, ...] = ()
    settings: tuple[Key, ...] = ()
    verbs: str = ""


def declared(*, search: bool = False) -> dict[str, Declared]:
    """Return what clusters declare, by the cluster's name.

    Parameters
    ----------
    search
        Whether to look among all installed packages, too, which takes some hundredths of a second.
        What a package declares that cannot be used is left out, with a warning.
    """
    found: dict[str, Declared] = {
        name: import_module(module).DECLARED for name, module in _BUILT_IN.items()
    }
    if not search:
        return found
    # Late: this import is slower than all the others.
    from importlib.metadata import entry_points  # noqa: PLC0415

    for point in entry_points(group=GROUP):
        if point.name not in found:
            try:
                found[point.name] = _loaded(point)
            except (ImportError, AttributeError, ValueError) as error:
                warnings.warn(
                    f"the options of the cluster {point.name!r} are left out: {error}",
                    stacklevel=2,
                )
    return found


def _loaded(point: EntryPoint) -> Declared:
    said: object = point.load()
    if not isinstance(said, Declared):
        raise ValueError(f"{point.value} is no `Declared`")  # noqa: TRY004 - as other bad values
    names = [option.name for option in said.options] + [key.name for key in said.settings]
    for name in names:
        if not name.isidentifier() or name in _TAKEN or name in KEYS:
            raise ValueError(f"{point.value}: {name!r} cannot name what only one cluster knows")
    if bad := [each.name for each in said.options if each.kind not in _KINDS or each.repeat]:
        raise ValueError(
            f"{point.value}: {bad[0]} must be given once, a {', '.join(sorted(_KINDS))}"
        )
    return said


def job_options(*, search: bool = False) -> Iterator[tuple[OptionInfo, tuple[str, ...]]]:
    """Yield the options of jobs that clusters declare, each with the clusters that know it.

    Where two declare one of the same name, it is written as the first of them says.

    Parameters
    ----------
    search
        As `declared` has it.
    """
    found: dict[str, tuple[OptionInfo, tuple[str, ...]]] = {}
    for cluster, said in declared(search=search).items():
        for option in said.options:
            first, known = found.get(option.name, (option, ()))
            found[option.name] = first, (*known, cluster)
    yield from found.values()


def find_options(names: Collection[str]) -> dict[str, OptionInfo]:
    """Return those of the named options of jobs that a cluster declares, by name.

    Parameters
    ----------
    names
        The options', without dashes.
    """
    for search in (False, True):
        found = {option.name: option for option, _ in job_options(search=search)}
        if not names - found.keys():
            break
    return {name: found[name] for name in found if name in names}


def known_settings(*, search: bool = False) -> dict[str, Key]:
    """Return every setting there is, by name: those of clusters last.

    Parameters
    ----------
    search
        As `declared` has it.
    """
    ours = [key for said in declared(search=search).values() for key in said.settings]
    return {**KEYS, **{key.name: key for key in ours}}


def check_options(spec: JobSpec, cluster: str) -> None:
    """Refuse options of a job that a cluster does not know, and values that it cannot take.

    Parameters
    ----------
    spec
        The job.
    cluster
        The name of the cluster that it is for.

    Raises
    ------
    UnsupportedError
        Other clusters know the option, which are named.
    CommandError
        A value is not possible.
    """
    if not spec.options:
        return
    said = declared(search=cluster not in _BUILT_IN or bool(spec.options.keys() - _known()))
    own = {option.name: option for option in said.get(cluster, Declared()).options}
    unknown = []
    for name, value in spec.options.items():
        if name in own:
            own[name].check(value)
            continue
        others = [
            (other, option)
            for other, of_other in said.items()
            for option in of_other.options
            if option.name == name
        ]
        if not (others and all(option.passed_over for _, option in others)):
            unknown.append((name, [other for other, _ in others]))
    if unknown:
        words = " and ".join(f"no {name.replace('_', ' ')}" for name, _ in unknown)
        who = sorted({other for _, others in unknown for other in others})
        hint = f", or choose a cluster that knows it: --cluster {' or '.join(who)}" if who else ""
        raise UnsupportedError(
            f"the {cluster} cluster knows {words}",
            where=", ".join(f"--{name}" for name, _ in unknown),
            fix=f"leave it out{hint}",
        )


def _known() -> set[str]:
    return {option.name for said in declared().values() for option in said.options}
