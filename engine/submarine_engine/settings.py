"""Every setting, once: its name, its default, how its text is read, and its help."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from submarine_engine.command.values import format_size, read_count, read_seconds, read_size

_MIB = 1 << 20
_MOST_GPUS = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One setting there is.

    Parameters
    ----------
    default
        Its value unless set; called, for a default that depends on the environment.
    read
        Text, or a value from TOML, to the value; raises `CommandError` or `ValueError`.
    example
        A value as one would write it, for the docs.
    """

    name: str
    help: str
    default: Callable[[], Any]
    read: Callable[[Any], Any]
    example: str

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return f"SUBMARINE_{self.name.upper()}"


def _default_home() -> Path:
    data = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(data).expanduser().absolute() / "submarine"


def _read_path(value: object) -> Path:
    return Path(_read_name(value)).expanduser().absolute()


def _read_name(value: object) -> str:
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise ValueError("it must be a text that is not empty")
    return value


def _read_way(value: object) -> str:
    if value not in ("auto", "nodes", "hdfs", "after"):
        raise ValueError("it must be auto, nodes, hdfs or after")
    return str(value)


def _read_switch(value: object) -> bool:
    text = str(value).strip().lower()
    if text not in ("true", "false"):
        raise ValueError("it must be true or false")
    return text == "true"


def _read_size(value: object) -> int:
    return read_size(_as_text(value))


def _read_seconds(value: object) -> float:
    return read_seconds(_as_text(value))


def _read_gpus(value: object) -> int:
    count = read_count(_as_text(value).strip())
    if count > _MOST_GPUS:
        raise ValueError(f"it must be a whole number from 0 to {_MOST_GPUS}")
    return count


def _as_text(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise ValueError("it must be a number or a text")  # noqa: TRY004 - as for other bad values
    return str(value)


KEYS = {
    key.name: key
    for key in (
        Key(
            name="cluster",
            help="The cluster that jobs go to unless one is named.",
            default=lambda: "local",
            read=_read_name,
            example='"local"',
        ),
        Key(
            name="home",
            help="The folder that jobs are kept in.",
            default=_default_home,
            read=_read_path,
            example='"~/.local/share/submarine"',
        ),
        Key(
            name="capture_limit",
            help="The most that values captured from a notebook may take in a bundle.",
            default=lambda: 64 * _MIB,
            read=_read_size,
            example='"64M"',
        ),
        Key(
            name="return_limit",
            help="The most that variables of a job's cell may take that come home by themselves.",
            default=lambda: 64 * _MIB,
            read=_read_size,
            example='"64M"',
        ),
        Key(
            name="cell_output_limit",
            help="The most of a job's log that a cell stores; the job's folder has all of it.",
            default=lambda: 1_000_000,
            read=_read_size,
            example="1000000",
        ),
        Key(
            name="grace",
            help="Seconds from SIGTERM to SIGKILL when a job is cancelled.",
            default=lambda: 5.0,
            read=_read_seconds,
            example="5",
        ),
        Key(
            name="hadoop_conf_dir",
            help="The folder of YARN's configuration, unless HADOOP_CONF_DIR names one.",
            default=lambda: None,
            read=_read_path,
            example='"/etc/hadoop/conf"',
        ),
        Key(
            name="imports_ahead",
            help="Whether a process without a GPU imports ahead what a notebook's jobs import.",
            default=lambda: True,
            read=_read_switch,
            example="false",
        ),
        Key(
            name="imports_idle",
            help="Seconds after the last job for which such a process goes on.",
            default=lambda: 600.0,
            read=_read_seconds,
            example='"10m"',
        ),
        Key(
            name="local_gpus",
            help="GPUs of the local cluster, where they cannot be found; unset: NVML says.",
            default=lambda: None,
            read=_read_gpus,
            example="4",
        ),
        Key(
            name="tensorboard_idle",
            help="Seconds after its last reader for which a TensorBoard goes on.",
            default=lambda: 600.0,
            read=_read_seconds,
            example='"10m"',
        ),
        Key(
            name="save_patience",
            help="Seconds that a job's own function may take to save its model.",
            default=lambda: 300.0,
            read=_read_seconds,
            example='"5m"',
        ),
        Key(
            name="user",
            help="Whose jobs these are and are seen, where several share a folder; unset: all.",
            default=lambda: None,
            read=_read_name,
            example='"ada"',
        ),
        Key(
            name="yarn_ahead",
            help="Whether a notebook's application on YARN starts ahead of its first job.",
            default=lambda: True,
            read=_read_switch,
            example="false",
        ),
        Key(
            name="yarn_idle",
            help="Seconds after which a notebook's warm application on YARN ends, once idle.",
            default=lambda: 900.0,
            read=_read_seconds,
            example='"15m"',
        ),
        Key(
            name="yarn_lease",
            help="Seconds that a job waits on for GPUs of YARN after its notebook has died.",
            default=lambda: 30.0,
            read=_read_seconds,
            example='"1m"',
        ),
        Key(
            name="yarn_logs",
            help="The way of logs on YARN: nodes, hdfs, after (the end), or auto: what works here.",
            default=lambda: "auto",
            read=_read_way,
            example='"hdfs"',
        ),
        Key(
            name="yarn_python",
            help="The Python interpreter on YARN's nodes; unset: this one's path.",
            default=lambda: None,
            read=_read_name,
            example='"/usr/bin/python3"',
        ),
    )
}


def format_value(name: str, value: object) -> str:
    """Return a setting's value for people: sizes with their unit."""
    if value is None:
        return "unset"
    if name in ("capture_limit", "return_limit", "cell_output_limit"):
        return format_size(int(str(value)))
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)
