"""What the owner of a shared machine lets its users have: a file that root alone may write."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from submarine_engine.amounts import exactly
from submarine_engine.command.values import did_you_mean, format_seconds, read_seconds
from submarine_engine.errors import CommandError, ConfigError, ResourcesError, UnsupportedError
from submarine_engine.job import JobSpec

_LARGEST = 1 << 20
_LARGEST_SHARE = 1000
_UNSET: tuple[object, ...] = (None, (), "", {}, False)


@dataclass(frozen=True, slots=True)
class Policy:
    """What the users of a machine may have.

    Parameters
    ----------
    most_gpus
        How many GPUs one user may hold at a time; None for all.
    longest
        Seconds after which a job is ended, as ``--time_limit`` does; None for never.
    idle
        Seconds for which a job's GPUs may do nothing, or a notebook server be unused, as with
        ``--idle``; None for any time.
    forbidden
        Options that no job may have.
    share
        How much of the machine a user gets where others wait, by name; 1 unless it says otherwise.
    """

    most_gpus: int | None = None
    longest: float | None = None
    idle: float | None = None
    forbidden: tuple[str, ...] = ()
    share: Mapping[str, float] = field(default_factory=dict)

    def share_of(self, user: str) -> float:
        """Return a user's share."""
        return self.share.get(user, 1.0)

    def check(self, spec: JobSpec, where: str) -> JobSpec:
        """Refuse what the policy forbids; return `spec` with the limits that it sets.

        Parameters
        ----------
        where
            The policy's file, for people.

        Raises
        ------
        ResourcesError, UnsupportedError
            The job asks for more, or has an option that is forbidden.
        """
        for name in self.forbidden:
            if _is_given(spec, name):
                raise UnsupportedError(
                    f"the owner of this machine forbids --{name}",
                    where=where,
                    fix="leave it out, or ask who owns the machine",
                )
        if not spec.gpus:
            return spec
        least = spec.smallest.gpus or 0
        if self.most_gpus is not None and least > self.most_gpus:
            raise ResourcesError(
                f"the job asks for {least} GPUs, each user of this machine may hold "
                f"{self.most_gpus} at a time",
                where=where,
                fix=f"ask for fewer: --gpus {self.most_gpus}",
            )
        limit = _within("time_limit", spec.time_limit, self.longest, "a job may take", where)
        idle = spec.idle
        if not spec.serves:  # who serves watches that by itself: for how long is checked before
            idle = _within("idle", idle, self.idle, "GPUs may do nothing for", where)
        return replace(spec, time_limit=limit, idle=idle)


def _own_options() -> dict[str, Field[Any]]:
    """Return the options that give fields of a job their values: field by option."""
    told = ((one.metadata.get("option"), one) for one in fields(JobSpec))
    return {info.name or one.name: one for info, one in told if info}


def _is_given(spec: JobSpec, option: str) -> bool:
    of = _own_options().get(option)
    if of is None:
        return option in spec.options
    value = getattr(spec, of.name)
    return value not in _UNSET and value != of.default


def _within(
    option: str, asked: float | None, most: float | None, what: str, where: str
) -> float | None:
    if most is None:
        return asked
    if asked is None:
        return most
    if asked > most or (option == "idle" and not asked):
        told = exactly(asked) if asked else "0, for never,"
        raise ResourcesError(
            f"--{option} {told} is more than this machine's owner allows: {what} {exactly(most)}",
            where=where,
            fix=f"write --{option} {format_seconds(most)} or less, or leave it out",
        )
    return asked


def read_policy(path: Path) -> Policy:
    """Read the policy in the file `path`.

    Raises
    ------
    ConfigError
        Somebody but root may write the file, it is not there, does not parse, or says what is
        impossible.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise _bad(path, f"cannot be read: {error.strerror}") from error
    try:
        seen = os.fstat(descriptor)
        if seen.st_uid != 0 or not stat.S_ISREG(seen.st_mode) or seen.st_mode & 0o022:
            raise ConfigError(
                "the policy of this machine can be written by others than root",
                where=str(path),
                fix=f"root has to look at it, then: chown root '{path}' && chmod 644 '{path}'",
            )
        text = os.read(descriptor, _LARGEST).decode(errors="replace")
    finally:
        os.close(descriptor)
    if sys.version_info >= (3, 11):
        import tomllib  # noqa: PLC0415 - most have no such file
    else:
        import tomli as tomllib  # noqa: PLC0415 - likewise
    try:
        return _policy(tomllib.loads(text))
    except (tomllib.TOMLDecodeError, ValueError, TypeError, CommandError) as error:
        raise _bad(path, error.what if isinstance(error, CommandError) else str(error)) from error


def _bad(path: Path, why: str) -> ConfigError:
    return ConfigError(
        f"the policy of this machine cannot be used: {why}",
        where=str(path),
        fix="root mends it, or moves what is there away and writes the default: "
        "`submarine machine setup`",
    )


def _policy(told: Mapping[str, Any]) -> Policy:
    names = [one.name for one in fields(Policy)]
    for name in told:
        if name not in names:
            hint = did_you_mean(name, names)
            raise ValueError(f"it has no {name!r}: {hint}there are {', '.join(names)}")
    return Policy(
        most_gpus=_count("most_gpus", told.get("most_gpus")),
        longest=_time("longest", told.get("longest")),
        idle=_time("idle", told.get("idle")),
        forbidden=_options(told.get("forbidden", [])),
        share=_shares(told.get("share", {})),
    )


def _count(name: str, value: object) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{name} must be a whole number from 1 on, not {value!r}")
    return value


def _time(name: str, value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise ValueError(  # noqa: TRY004 - of a file
            f"{name} must be a time such as '12h', not {value!r}"
        )
    seconds = read_seconds(str(value))
    if not seconds:
        raise ValueError(f"{name} must be more than nothing; leave it out for no limit")
    return seconds


def _options(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise ValueError(f"forbidden must be a list of options, not {value!r}")
    from submarine_engine.declared import job_options  # noqa: PLC0415 - rarely needed

    known = {*_own_options(), *(info.name for info, _ in job_options())}
    names = tuple(one.lstrip("-").replace("-", "_") for one in value)
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known)
            raise ValueError(
                f"forbidden names {name!r}, which is no option of jobs. {hint}".strip()
            )
    return names


def _shares(value: object) -> dict[str, float]:
    if not isinstance(value, dict):
        raise ValueError(f"share must be a table of users, not {value!r}")  # noqa: TRY004 - of a file
    for user, share in value.items():
        is_number = isinstance(share, (int, float)) and not isinstance(share, bool)
        if not is_number or not 0 < share <= _LARGEST_SHARE:
            raise ValueError(f"share.{user} must be from 0.001 to {_LARGEST_SHARE}, not {share!r}")
    return {user: float(share) for user, share in value.items()}


TEMPLATE = """\
# What the users of this machine may have. Root alone may write this file; each job is checked
# against it as it is submitted. Take away the # to set a limit.

# most_gpus = 2            # that one user holds at a time
# longest = "12h"          # a job; where it names no --time_limit, this is its limit
# idle = "30m"             # a job whose GPUs do nothing for that long is ended, and a notebook
#                          # server or a kernel that nobody uses
# forbidden = ["secret"]   # options that no job may have

# [share]                  # how much a user gets where others wait; 1 unless it stands here
# alice = 2
"""
"""The file that `setup` writes."""
