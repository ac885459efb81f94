"""A function call as a job: which keywords are the job's, and what is asked for."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from submarine_engine.bundle import Bundle, Cell, build_call
from submarine_engine.errors import CommandError
from submarine_engine.job import (
    RESOURCES_GROUP,
    JobSpec,
    OptionInfo,
    Resources,
    Role,
    options_of,
)

if TYPE_CHECKING:
    from submarine_engine.clusters.base import Cluster

OPTIONS = (
    "cluster",
    *(said.name for kind in (Resources, JobSpec) for _, said in options_of(kind) if said.keyword),
)
"""Keywords of `launch` and `submit` that say how the job runs; all others are the function's."""

_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedCall:
    """A call that is ready to be submitted.

    Parameters
    ----------
    cluster
        As it was given; None for the configured one.
    """

    spec: JobSpec
    bundle: Bundle
    cluster: Cluster | str | None


def prepare_call(  # noqa: PLR0913 - as `build_call` has them, each by its name
    function: Callable[..., Any],
    args: Sequence[object],
    keywords: Mapping[str, Any],
    *,
    cells: Sequence[Cell],
    namespace: Mapping[str, object],
    root: Path | None,
    limit: int,
    answered: bool = False,
) -> PreparedCall:
    """Make spec and bundle of ``function(*args, **keywords)``; nothing is asked of a cluster.

    Parameters
    ----------
    keywords
        The function's, and the job's (`OPTIONS`), as they were given.
    cells, namespace, root, limit, answered
        As for `submarine_engine.bundle.build`.

    Raises
    ------
    CommandError
        An option is not possible, or the function has a parameter of that name.
    BundleError
        The function or what it needs cannot travel.
    """
    if not callable(function):
        raise CommandError(
            f"{function!r} is no function", fix="give the function, then its arguments: f, 1, 2"
        )
    options = {name: keywords[name] for name in OPTIONS if keywords.get(name) is not None}
    _refuse_ambiguous(function, options)
    kwargs = {name: value for name, value in keywords.items() if name not in OPTIONS}
    spec = _spec(function, options)
    bundle = build_call(
        function, args, kwargs, cells, namespace, limit=limit, root=root, answered=answered
    )
    spec = replace(spec, asks=answered)
    return PreparedCall(spec=spec, bundle=bundle, cluster=options.get("cluster"))


def _refuse_ambiguous(function: Callable[..., Any], options: Mapping[str, object]) -> None:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # builtins do not tell
        return
    bound = function.keywords if isinstance(function, functools.partial) else {}
    for parameter in parameters:
        name = parameter.name
        if (
            name in options
            and name not in bound
            and parameter.kind
            not in (
                parameter.VAR_KEYWORD,
                parameter.VAR_POSITIONAL,
                parameter.POSITIONAL_ONLY,
            )
        ):
            called = getattr(function, "__name__", "the function")
            raise CommandError(
                f"`{name}` is an option of the job and a parameter of {called}, too",
                where=f"{name}={options[name]!r}",
                fix=f"bind the parameter first: functools.partial({called}, {name}=…)",
            )


def _spec(function: Callable[..., Any], options: Mapping[str, Any]) -> JobSpec:
    while isinstance(function, functools.partial):
        function = function.func
    called = _NOT_IN_A_NAME.sub("-", getattr(function, "__name__", "")).strip("-._")
    resources = Resources(**_fields(Resources, options))
    given = {"name": called[:64] or "job", **_fields(JobSpec, options)}
    return JobSpec(roles=(Role(resources=resources),), **given)


def _fields(kind: type, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that keywords give a value; an empty text gives none."""
    return {
        field: _value(said, options[said.name])
        for field, said in options_of(kind)
        if said.name in options and options[said.name] != ""
    }


def _value(said: OptionInfo, value: Any) -> Any:  # noqa: ANN401 - as its kind
    if said.kind == "memory" and not isinstance(value, int):
        from submarine_engine.command.values import read_memory  # noqa: PLC0415 - seldom

        return read_memory(str(value))
    if said.group == RESOURCES_GROUP:  # `Resources` looks at its own numbers
        return value
    check = {"count": _number, "setting": _environment}.get(said.kind, _text)
    return check(said.name, value)


def _text(name: str, value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, Path):
        return str(value)
    raise CommandError(f"{name}={value!r} is no text", fix=f"give {name} as a string")


def _number(name: str, value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise CommandError(f"{name}={value!r} is no whole number", fix=f"give {name} as 0, 1, 2, …")


def _environment(name: str, value: object) -> dict[str, str]:
    fix = f'write {name}={{"KEY": "VALUE"}}'
    if not isinstance(value, Mapping):
        raise CommandError(f"{name}={value!r} is no mapping", fix=fix)
    for key, text in value.items():
        if not isinstance(key, str) or not isinstance(text, str):
            raise CommandError(f"{name}={{{key!r}: {text!r}}} is no text", fix=fix)
    return dict(value)
