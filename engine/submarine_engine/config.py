"""The configuration: a file, the environment above it, options above both.

``~/.config/submarine/config.toml`` (below ``$XDG_CONFIG_HOME`` where that is set; another file
where ``$SUBMARINE_CONFIG`` names one) holds one setting a line. Every value remembers where it came
from.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from submarine_engine.command.values import did_you_mean
from submarine_engine.declared import known_settings
from submarine_engine.errors import CommandError, ConfigError
from submarine_engine.settings import PREFIX, Key, parse_toml

DEFAULT = "default"
OPTION = "option"


class Config:
    """Every setting with its value and its origin.

    Parameters
    ----------
    values
        By key: the value, and where it came from: ``default``, the path of the file, the name of
        the environment variable, or ``option``.
    path
        The file that was read, or would be if it were there.
    """

    def __init__(self, values: Mapping[str, tuple[Any, str]], path: Path) -> None:
        self._values = dict(values)
        self.path = path

    def value(self, key: str) -> Any:  # noqa: ANN401 - as the key says
        """Return the value of a setting; `KeyError` where there is no such key."""
        return self._pair(key)[0]

    def origin(self, key: str) -> str:
        """Return where the value of the setting `key` came from; `KeyError` where none is known."""
        return self._pair(key)[1]

    def _pair(self, key: str) -> tuple[Any, str]:
        if key not in self._values:  # of a cluster of somebody else's
            self._values = {**load_config(search=True)._values, **self._values}  # noqa: SLF001 - ours
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)


def config_path() -> Path:
    """Return the path of the configuration's file, whether it is there or not."""
    if named := os.environ.get("SUBMARINE_CONFIG"):
        return Path(named).expanduser().absolute()
    folder = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(folder).expanduser().absolute() / "submarine" / "config.toml"


def load_config(overrides: Mapping[str, object] | None = None, *, search: bool = False) -> Config:
    """Read the configuration as it is now.

    Parameters
    ----------
    overrides
        Values given by options, by key; None leaves a key to the environment and the file.
    search
        Whether to have the settings of all clusters at once, where `Config.value` looks for those
        of somebody else's when it is asked: see `submarine_engine.declared`.

    Raises
    ------
    ConfigError
        The file does not parse, a key is unknown, or a value is not possible.
    """
    path = config_path()
    written = _read_file(path)
    keys = known_settings(search=search)
    if {*written, *(overrides or ())} - keys.keys():
        keys = known_settings(search=True)
    values: dict[str, tuple[Any, str]] = {
        key.name: (key.default(), DEFAULT) for key in keys.values()
    }
    for name, (raw, line) in written.items():
        where = f"{path}, line {line}" if line else str(path)
        values[name] = _checked(_known(name, keys, where), raw, where), str(path)
    # A look into the environment for each of them would be half of what this takes.
    ours = {name for name in os.environ if name.startswith(PREFIX)}
    for key in keys.values():
        if key.variable in ours and (text := os.environ[key.variable]):
            value = _checked(key, text, f"environment variable {key.variable}")
            values[key.name] = value, key.variable
    for name, raw in (overrides or {}).items():
        if raw is not None:
            values[name] = _checked(_known(name, keys, OPTION), raw, f"option {name}"), OPTION
    return Config(values, path)


def _known(name: str, keys: Mapping[str, Key], where: str) -> Key:
    if name not in keys:
        raise ConfigError(
            f"there is no setting {name!r}",
            where=where,
            fix=f"{did_you_mean(name, keys.keys())}settings are {', '.join(keys)}",
        )
    return keys[name]


def _checked(key: Key, raw: object, where: str) -> Any:  # noqa: ANN401 - as the key says
    if isinstance(raw, Path):
        raw = str(raw)
    try:
        return key.read(raw)
    except (CommandError, ValueError) as error:
        why = error.what if isinstance(error, CommandError) else str(error)
        raise ConfigError(
            f"{key.name} cannot be {'what it is' if key.secret else repr(raw)}: {why}",
            where=where,
            fix=f"for example {key.name} = {key.example}",
        ) from error


def _read_file(path: Path) -> dict[str, tuple[object, int]]:
    """Return the file's settings: value and line by key; none where there is no file."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        if os.environ.get("SUBMARINE_CONFIG"):
            raise ConfigError(
                "there is no such file", where=str(path), fix="make it, or unset SUBMARINE_CONFIG"
            ) from None
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable(path, error) from error
    try:
        data = parse_toml(text)
    except ValueError as error:  # a TOMLDecodeError
        raise _unreadable(path, error) from error
    return {name: (value, _line_of(name, text)) for name, value in data.items()}


def _unreadable(path: Path, error: Exception) -> ConfigError:
    why = error.strerror if isinstance(error, OSError) else str(error)
    return ConfigError(
        f"the configuration cannot be read: {why}",
        where=str(path),
        fix="write lines like: grace = 5",
    )


def _line_of(name: str, text: str) -> int:
    """Return the line that sets `name`, 0 where it cannot be told."""
    found = re.search(rf"""^[ \t]*\[?[ \t]*["']?{re.escape(name)}\b""", text, re.MULTILINE)
    return text.count("\n", 0, found.start()) + 1 if found else 0
