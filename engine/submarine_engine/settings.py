"""Every setting, once: its name, its default, how its text is read, and its help.

Those that only one cluster knows are declared by that cluster: see `Declared`.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from submarine_engine import webhooks
from submarine_engine.command.values import format_size, read_seconds, read_size

_MIB = 1 << 20


PREFIX = "SUBMARINE_"
"""With which the environment variables begin that set something."""


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
    secret
        Whether no error may show a value that is refused.
    """

    name: str
    help: str
    default: Callable[[], Any]
    read: Callable[[Any], Any]
    example: str
    secret: bool = False

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return PREFIX + self.name.upper()


def _default_home() -> Path:
    data = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(data).expanduser().absolute() / "submarine"


def read_path(value: object) -> Path:
    """Return an absolute path, of which ``~`` may be the beginning.

    Parameters
    ----------
    value
        As TOML or the environment has it.
    """
    return Path(read_name(value)).expanduser().absolute()


def read_name(value: object) -> str:
    """Return a text that is not empty.

    Parameters
    ----------
    value
        As TOML or the environment has it.
    """
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise ValueError("it must be a text that is not empty")
    return value


def read_names(value: object) -> tuple[str, ...]:
    """Return names: a list of texts, or one text with commas between them.

    Parameters
    ----------
    value
        As TOML or the environment has it.
    """
    texts = value.split(",") if isinstance(value, str) else value
    if not isinstance(texts, (list, tuple)) or not texts:
        raise ValueError("it must be a list of names")
    names = tuple(read_name(text).strip() for text in texts)
    if len(set(names)) < len(names):
        raise ValueError("it names one twice")
    return names


def _read_any_of(value: object) -> tuple[str, ...]:
    names = read_names(value)
    if "any" in names:
        raise ValueError("`any` stands for those that it names")
    return names


def read_tables(value: object) -> dict[str, dict[str, object]]:
    """Return tables by their names.

    Parameters
    ----------
    value
        Those of TOML, or a text that would be one there, as a variable has it.

    Raises
    ------
    ValueError
        It is no table of tables.
    """
    if isinstance(value, str):
        try:
            value = parse_toml(f"value = {value.strip()}").get("value")
        except ValueError as error:
            raise ValueError(f"it is no table of TOML: {error}") from error
    if not isinstance(value, dict) or not all(isinstance(one, dict) for one in value.values()):
        raise ValueError("it must be a table of tables")
    return value


def parse_toml(text: str) -> dict[str, Any]:
    """Return what a text of TOML says.

    Parameters
    ----------
    text
        The whole of it.

    Raises
    ------
    ValueError
        It is no TOML.
    """
    if sys.version_info >= (3, 11):
        import tomllib  # noqa: PLC0415 - most have no file
    else:
        import tomli as tomllib  # noqa: PLC0415 - likewise
    data: dict[str, Any] = tomllib.loads(text)
    return data


def read_switch(value: object) -> bool:
    """Return whether it is ``true``; else it must be ``false``.

    Parameters
    ----------
    value
        As TOML or the environment has it.
    """
    text = str(value).strip().lower()
    if text not in ("true", "false"):
        raise ValueError("it must be true or false")
    return text == "true"


def read_bytes(value: object) -> int:
    """Return bytes: ``64M``, or a number.

    Parameters
    ----------
    value
        As TOML or the environment has it.
    """
    return read_size(as_text(value))


def read_period(value: object) -> float:
    """Return seconds: ``10m``, or a number.

    Parameters
    ----------
    value
        As TOML or the environment has it.
    """
    return read_seconds(as_text(value))


def read_price(value: object) -> float:
    """Return an amount of money, which is a number of 0 or more.

    Parameters
    ----------
    value
        As TOML or the environment has it.
    """
    price = float(as_text(value))
    if not 0 <= price < math.inf:
        raise ValueError("it must be 0 or more")
    return price


def read_webhook(value: object) -> str:
    """Return an address that is told when jobs have ended, or what stands for it.

    Parameters
    ----------
    value
        As TOML or the environment has it.
    """
    webhooks.check(value)
    return str(value)


def as_text(value: object) -> str:
    """Return a number or a text as text: TOML has both, the environment texts alone.

    Parameters
    ----------
    value
        As TOML or the environment has it.
    """
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
            read=read_name,
            example='"local"',
        ),
        Key(
            name="any_of",
            help="The clusters that `--cluster any` chooses among, in the order of your choice.",
            default=lambda: None,
            read=_read_any_of,
            example='["local", "slurm"]',
        ),
        Key(
            name="any_within",
            help="Seconds within which each of them has to answer.",
            default=lambda: 10.0,
            read=read_period,
            example="10",
        ),
        Key(
            name="home",
            help="The folder that jobs are kept in.",
            default=_default_home,
            read=read_path,
            example='"~/.local/share/submarine"',
        ),
        Key(
            name="capture_limit",
            help="The most that values captured from a notebook may take in a bundle.",
            default=lambda: 64 * _MIB,
            read=read_bytes,
            example='"64M"',
        ),
        Key(
            name="return_limit",
            help="The most that variables of a job's cell may take that come home by themselves.",
            default=lambda: 64 * _MIB,
            read=read_bytes,
            example='"64M"',
        ),
        Key(
            name="cache_limit",
            help="The most that notes of remembered results may take; results stay in their jobs.",
            default=lambda: 64 * _MIB,
            read=read_bytes,
            example='"64M"',
        ),
        Key(
            name="artifacts_limit",
            help="The most of a task's artifacts that comes home; the rest stays with its logs.",
            default=lambda: 10 << 30,
            read=read_bytes,
            example='"10G"',
        ),
        Key(
            name="cell_output_limit",
            help="The most of a job's log that a cell stores; the job's folder has all of it.",
            default=lambda: 1_000_000,
            read=read_bytes,
            example="1000000",
        ),
        Key(
            name="grace",
            help="Seconds from SIGTERM to SIGKILL when a job is cancelled.",
            default=lambda: 5.0,
            read=read_period,
            example="5",
        ),
        Key(
            name="grow_after",
            help="Seconds of room for more workers after which a job of 2:4 goes on with them.",
            default=lambda: 30.0,
            read=read_period,
            example="30",
        ),
        Key(
            name="idle",
            help="For how long a job's GPUs may do nothing until it is saved and ended.",
            default=lambda: None,
            read=read_period,
            example='"30m"',
        ),
        Key(
            name="tensorboard_idle",
            help="Seconds after its last reader for which a TensorBoard goes on.",
            default=lambda: 600.0,
            read=read_period,
            example='"10m"',
        ),
        Key(
            name="save_patience",
            help="Seconds that a job's own function may take to save its model.",
            default=lambda: 300.0,
            read=read_period,
            example='"5m"',
        ),
        Key(
            name="provenance",
            help="Whether a job notes packages, repository and data that it ran with: job rerun.",
            default=lambda: True,
            read=read_switch,
            example="true",
        ),
        Key(
            name="gpu_hour_price",
            help="What an hour of one GPU costs: `submarine usage` then tells costs.",
            default=lambda: None,
            read=read_price,
            example="2.5",
        ),
        Key(
            name="notify",
            help="The webhook that is told when a job has ended, or a secret's name that holds it.",
            default=lambda: None,
            read=read_webhook,
            example='"SLACK_URL"',
            secret=True,
        ),
        Key(
            name="notify_private",
            help="Whether a webhook may be in a private network, or on this machine.",
            default=lambda: False,
            read=read_switch,
            example="true",
        ),
        Key(
            name="terminal_notify",
            help="Whether a terminal that can says on the desktop that its job has ended.",
            default=lambda: True,
            read=read_switch,
            example="false",
        ),
        Key(
            name="user",
            help="Whose jobs these are and are seen, where several share a folder; unset: all.",
            default=lambda: None,
            read=read_name,
            example='"ada"',
        ),
    )
}


def format_value(name: str, value: object) -> str:
    """Return a setting's value for people: sizes with their unit.

    Parameters
    ----------
    name
        The setting's.
    value
        As its `Key.read` returned it.
    """
    if value is None:
        return "unset"
    if KEYS.get(name) and KEYS[name].read is read_bytes:
        return format_size(int(str(value)))
    if isinstance(value, bool):
        return str(value).lower()
    if name == "notify":
        return webhooks.host(str(value))
    if isinstance(value, (tuple, dict)):
        return _format_several(value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def _format_several(value: tuple[Any, ...] | dict[str, dict[str, Any]]) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    held = {n: ", ".join(f"{k} = {v}" for k, v in table.items()) for n, table in value.items()}
    return "; ".join(f"{name}: {table}" for name, table in held.items()) or "unset"
