"""From the values of ``job run`` to a `JobSpec`, and from a spec back to a command line."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from submarine_engine.command.values import format_memory, format_resources
from submarine_engine.errors import CommandError
from submarine_engine.job import NO_OUTPUTS, JobSpec, Resources, Role

_SHORT_FORMS = {"gpus": "gpus", "memory": "memory", "cpus": "vcores"}
# Hadoop Submarine's places in launch commands. The cluster says what a path is over there, so the
# shell of the task fills them in.
_PLACES = {
    "%input_path%": ("input_path", "${SUBMARINE_INPUT_PATH}"),
    "%checkpoint_path%": ("checkpoint_path", "${SUBMARINE_CHECKPOINT_PATH}"),
    "%saved_model_path%": ("saved_model_path", ""),
}
_PLAIN = (
    "queue", "docker_image", "input_path", "checkpoint_path", "tensorboard", "mode", "environment",
    "node_label", "priority", "isolation",
)  # fmt: skip


def build_spec(values: Mapping[str, Any]) -> JobSpec:
    """Return what the values of ``job run`` ask for.

    Raises
    ------
    CommandError
        Values contradict each other, or ask for the impossible.
    """
    _check_waiting(values)
    plain = {key: values[key] for key in _PLAIN if key in values}
    return JobSpec(
        name=values.get("name", "job"),
        roles=(_worker(values), *_parameter_servers(values)),
        quicklinks=_once("--quicklink", values.get("quicklink", ())),
        env=dict(_once("--env", values.get("env", ()))),
        outputs=_outputs(values.get("output", ())),
        **plain,
    )


def _check_waiting(values: Mapping[str, Any]) -> None:
    if "detach" in values and "wait_job_finish" in values:
        raise CommandError(
            "--detach and --wait_job_finish contradict each other", fix="leave one out"
        )


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
    return Role(
        name="worker",
        count=values.get("num_workers", 1),
        resources=_worker_resources(values),
        command=_launch_command(values, "worker_launch_cmd"),
        args=values.get("args", ()),
    )


def _worker_resources(values: Mapping[str, Any]) -> Resources:
    resources: Resources = values.get("worker_resources", Resources())
    for option, name in _SHORT_FORMS.items():
        if option not in values:
            continue
        said = getattr(resources, name)
        if said is not None and said != values[option]:
            raise CommandError(
                f"--{option} and --worker_resources contradict each other: "
                f"{name} is {values[option]} and {said}",
                fix="leave one out",
            )
        resources = replace(resources, **{name: values[option]})
    return resources


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
    for place, (needed, variable) in _PLACES.items():
        if command is None or place not in command:
            continue
        if needed not in values:
            known = "give it" if needed in _PLAIN else "this release has no such option: remove it"
            raise CommandError(
                f"--{option} says {place}, and --{needed} is not given", fix=f"--{needed}: {known}"
            )
        command = command.replace(place, variable)
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
    words = ["job", "run", *_option("name", spec.name)]
    for key in _PLAIN:
        value = getattr(spec, key)
        if key == "mode" and value == "auto":
            continue
        words += [f"--{key}"] if value is True else _option(key, None if value is False else value)
    for key, pairs in (("env", spec.env.items()), ("quicklink", spec.quicklinks)):
        for name, value in pairs:
            words += _option(key, f"{name}={value}")
    for output in spec.outputs:
        words += _option("output", output)
    words += _role_words(roles["worker"], "num_workers", "worker_launch_cmd")
    if "ps" in roles:
        words += _role_words(roles["ps"], "num_ps", "ps_launch_cmd")
    words += [script] if script else []
    if roles["worker"].args:
        words += ["--", *roles["worker"].args]
    return shlex.join(words)


def _role_words(role: Role, count: str, command: str) -> list[str]:
    words = _option(count, role.count) if role.count != 1 or role.name != "worker" else []
    if role.name == "worker":
        resources = role.resources
        memory = None if resources.memory is None else format_memory(resources.memory)
        words += _option("gpus", resources.gpus)
        words += _option("memory", memory)
        words += _option("cpus", resources.vcores)
    else:
        words += _option("ps_resources", format_resources(role.resources) or None)
    return words + _option(command, role.command)


def _option(key: str, value: object) -> list[str]:
    if value is None:
        return []
    text = str(value)
    if text.startswith("-"):  # it looks like an option, so it must hold on to its own
        return [f"--{key}={text}"]
    return [f"--{key}", text]


def job_name(text: str, default: str = "job") -> str:
    """Make a job's name of any text: a file's, a notebook's, a function's.

    Returns
    -------
    str
        What of `text` may stand in a name, 64 characters at most; `default` where nothing may.
    """
    bare = re.sub(r"[^A-Za-z0-9._-]+", "-", text).lstrip("._-")[:64].rstrip("._-")
    return bare or default
