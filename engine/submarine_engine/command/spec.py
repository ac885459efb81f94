"""From the values of ``job run`` to a `JobSpec`, and from a spec back to a command line.

What an option's value is called in the spec, and which options there are, `JobSpec` says.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from submarine_engine.command.values import format_memory, format_resources
from submarine_engine.errors import CommandError
from submarine_engine.job import NO_OUTPUTS, JobSpec, OptionInfo, Resources, Role, options_of

# Hadoop Submarine's places in launch commands. The cluster says what a path is over there, so the
# shell of the task fills them in.
_PLACES = {
    "input_path": "${SUBMARINE_INPUT_PATH}",
    "checkpoint_path": "${SUBMARINE_CHECKPOINT_PATH}",
    "saved_model_path": "",
}
_DEFAULTS = {each.name: each.default for each in fields(JobSpec)}


def build_spec(values: Mapping[str, Any]) -> JobSpec:
    """Return what the values of ``job run`` ask for.

    Raises
    ------
    CommandError
        Values contradict each other, or ask for the impossible.
    """
    if "detach" in values and "wait_job_finish" in values:
        raise CommandError(
            "--detach and --wait_job_finish contradict each other", fix="leave one out"
        )
    given = {
        field: _spec_value(option, values[option.name])
        for field, option in options_of(JobSpec)
        if option.name in values
    }
    return JobSpec(roles=(_worker(values), *_parameter_servers(values)), **given)


def _spec_value(option: OptionInfo, value: Any) -> Any:  # noqa: ANN401 - as its kind
    """Return an option's value as the spec has it; what is given once must not come again."""
    if option.kind in ("setting", "link"):
        pairs = _once(f"--{option.name}", value)
        return dict(pairs) if option.kind == "setting" else pairs
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
            "-o none says that nothing is to come back, and -o names variables",
            fix="leave one out; a variable that is called none needs another name to come back",
        )
    return found


def _worker(values: Mapping[str, Any]) -> Role:
    resources: Resources = values.get("worker_resources", Resources())
    for field, option in options_of(Resources):
        if option.name not in values:
            continue
        said, value = getattr(resources, field), values[option.name]
        if said not in (None, value):
            raise CommandError(
                f"--{option.name} and --worker_resources contradict each other: "
                f"{field} is {value} and {said}",
                fix="leave one out",
            )
        resources = replace(resources, **{field: value})
    return Role(
        count=values.get("num_workers", 1),
        resources=resources,
        command=_launch_command(values, "worker_launch_cmd"),
        args=values.get("args", ()),
    )


def _parameter_servers(values: Mapping[str, Any]) -> tuple[Role, ...]:
    if values.get("num_ps", 0) == 0:
        for option in ("ps_launch_cmd", "ps_resources"):
            if option in values:
                raise CommandError(
                    f"--{option} is given, but there are no parameter servers",
                    fix="add --num_ps 1, or leave it out",
                )
        return ()
    return (
        Role(
            name="ps",
            count=values["num_ps"],
            resources=values.get("ps_resources", Resources()),
            command=_launch_command(values, "ps_launch_cmd"),
        ),
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
    roles = {role.name: role for role in spec.roles}
    if tuple(roles) not in (("worker",), ("worker", "ps")):
        raise CommandError(
            f"no command line says roles {', '.join(roles)}", fix="use worker, and ps after it"
        )
    words = ["job", "run"]
    for field, option in options_of(JobSpec):
        value = getattr(spec, field)
        if field == "name" or value != _DEFAULTS[field]:
            words += _words_of(option, value)
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
    if isinstance(value, Mapping):
        value = tuple(value.items())
    each = value if option.repeat else (value,)
    texts = ("=".join(one) if isinstance(one, tuple) else one for one in each)
    return [word for text in texts for word in _option(option.name, text)]


def _role_words(role: Role) -> list[str]:
    if role.name == "ps":
        words = _option("num_ps", role.count)
        words += _option("ps_resources", format_resources(role.resources) or None)
        return words + _option("ps_launch_cmd", role.command)
    words = _option("num_workers", role.count) if role.count != 1 else []
    for field, option in options_of(Resources):
        words += _words_of(option, getattr(role.resources, field))
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
