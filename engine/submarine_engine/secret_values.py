"""The values of a job's ``--secret`` options: where they come from, and which variables they are.

A spec, and so a record, has their names alone. Whoever submits looks the values up, and they reach
the task as variables of its environment by what is private to the job: ``launch.json`` on this
machine, which is gone before the code begins; elsewhere the payload, of a note in the job's folder
that is gone when the job is over.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from submarine_engine.errors import SubmissionError
from submarine_engine.history import read_json, write_json

if TYPE_CHECKING:
    from submarine_engine.job import JobSpec

NOTE = "secret-values.json"
SERVICE = "submarine"
"""What the system's keyring keeps them under."""


def secret_variables(spec: JobSpec) -> dict[str, str]:
    """Return the variables of a job's environment that are secrets, with their values.

    Each comes from this process's environment, else from the system's keyring, which may ask a
    person: who submits a job looks once, and hands on what it has found. They belong into
    what only the job's own user can read: never into a record, an argument list, or the environment
    that a cluster's service is asked for.

    Parameters
    ----------
    spec
        The job.

    Raises
    ------
    SubmissionError
        One message for all that have no value.
    """
    found = {name: secret_value(name) for name in spec.secrets}
    missing = [name for name, value in found.items() if not value]
    if missing:
        keyring = "" if find_spec("keyring") else " (after: pip install keyring)"
        raise SubmissionError(
            f"no value is known for {', '.join(missing)}: it is neither in the environment nor in "
            "the keyring",
            where="--secret",
            fix=f"os.environ['{missing[0]}'] = getpass.getpass() in a cell, or in a terminal: "
            f"keyring set {SERVICE} {missing[0]}{keyring}",
        )
    if bad := [name for name, value in found.items() if value and "\0" in value]:
        raise SubmissionError(
            f"the value of {', '.join(bad)} holds a NUL character, which no environment can",
            where="--secret",
            fix="encode it, for example as base64",
        )
    return {name: value for name, value in found.items() if value}


def note_values(folder: Path, secrets: Mapping[str, str]) -> None:
    """Write the values into a job's folder, for a driver that is another process.

    Parameters
    ----------
    folder
        The job's, as it is staged.
    secrets
        As `secret_variables` gave them.

    Raises
    ------
    OSError
        The disk is full.
    """
    if secrets:
        write_json(folder / NOTE, dict(secrets))


def noted_values(folder: Path) -> dict[str, str]:
    """Return what `note_values` has written; nothing where the job is over or has no secrets.

    Parameters
    ----------
    folder
        The job's.

    Raises
    ------
    OSError, ValueError
        It cannot be read.
    """
    return read_json(folder / NOTE) or {}


def secret_value(name: str) -> str | None:
    """Return a secret of this process's environment, else of the system's keyring; None if none.

    Parameters
    ----------
    name
        The variable's.
    """
    if value := os.environ.get(name):
        return value
    if not find_spec("keyring"):
        return None
    try:
        kept = import_module("keyring").get_password(SERVICE, name)
    except Exception:  # noqa: BLE001 - its backends raise what they like: it has none, it is locked
        return None
    return kept if isinstance(kept, str) else None
