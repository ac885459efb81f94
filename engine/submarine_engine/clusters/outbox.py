"""Webhooks that are still to be told of a job's end, of all jobs of a home.

The intent is on disk first: whoever writes a job's end makes ``<home>/webhooks/due/<job id>``
before that, and starts a process that sends (`submarine_engine.notify`), which holds the file's
lock and removes it when it is through. So nothing waits for a webhook, and what a kill has left is
sent by the next one that sends.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from submarine_engine import webhooks
from submarine_engine.errors import CommandError, SubmissionError
from submarine_engine.history import is_job_id, make_private, write_aside

if TYPE_CHECKING:
    from submarine_engine.history import JobPaths
    from submarine_engine.job import JobSpec

NOTIFIED = "notified.json"
"""In a job's folder: what came of it."""

_SENDER = Path(__file__).resolve().parents[1] / "notify.py"


def accept(spec: JobSpec, home: Path) -> JobSpec:
    """Return a job with the reference of the webhook that it is to tell, which is kept in `home`.

    That is the setting's where the job names none; a job that works for another one tells nobody.

    Parameters
    ----------
    spec
        The job; ``notify`` may be an address, a secret's name or a reference.
    home
        Where all jobs are kept, and addresses with them.

    Raises
    ------
    SubmissionError
        No address is known for what it names, or it cannot be kept.
    CommandError
        What is kept as a secret is no address.
    """
    named = spec.notify
    if spec.parent or named == webhooks.NONE:
        return spec
    if named is None:
        from submarine_engine.config import load_config  # noqa: PLC0415 - as others need it

        named = load_config().value("notify")
    if named is None or named == webhooks.NONE:
        return spec
    if webhooks.is_secret(named):
        named = _of_secret(named)
    if webhooks.is_address(named):
        try:
            make_private(home)
            return replace(spec, notify=keep(home, named))
        except OSError as error:
            raise SubmissionError(
                f"the webhook cannot be kept: {error.strerror or error}",
                where=str(home / "webhooks"),
                fix="make room there, or leave --notify out",
            ) from error
    if find(home, named) is None:
        raise SubmissionError(
            f"the webhook {named} is not known here",
            where="--notify",
            fix="give its address, or the name of a secret that holds it; or --notify none",
        )
    return replace(spec, notify=named)


def keep(home: Path, address: str) -> str:
    """Keep an address in the home of the jobs, for its owner alone; return its reference.

    Raises
    ------
    OSError
        The disk is full.
    """
    named = webhooks.reference(address)
    path = _kept(home, named)
    if not path.exists():
        make_private(path.parent)
        write_aside(path, address.encode())
    return named


def find(home: Path, named: str) -> str | None:
    """Return the address that the reference `named` stands for; None where `home` keeps none."""
    if not webhooks.is_reference(named):
        return None
    with suppress(OSError, ValueError, CommandError):
        address = _kept(home, named).read_text(encoding="ascii")
        webhooks.check_address(address)
        if webhooks.reference(address) == named:
            return address
    return None


def _kept(home: Path, named: str) -> Path:
    return home / "webhooks" / named.rpartition("#")[2]


def _of_secret(name: str) -> str:
    from submarine_engine.secret_values import SERVICE, secret_value  # noqa: PLC0415 - as above

    address = (secret_value(name) or "").strip()
    if not address:
        raise SubmissionError(
            f"no value is known for {name}: it is neither in the environment nor in the keyring",
            where="--notify",
            fix=f"set the variable {name} to the webhook's address, or in a terminal: "
            f"keyring set {SERVICE} {name}",
        )
    try:
        webhooks.check_address(address)
    except CommandError as error:
        raise CommandError(error.what, where=f"--notify {name}", fix=error.fix) from None
    return address


def note(paths: JobPaths, record: Mapping[str, Any]) -> bool:
    """Note that a job's end is to be told; return whether it is.

    Done again, it changes nothing.

    Parameters
    ----------
    paths
        The job's files.
    record
        The content of its ``record.json``.
    """
    spec = record.get("spec") or {}
    if spec.get("parent") or spec.get("notify") in (None, webhooks.NONE):
        return False
    entry = entry_of(paths)
    with suppress(OSError):  # a full disk: who sends needs no note but after a kill
        make_private(entry.parent)
        os.close(os.open(entry, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    return True


def start(paths: JobPaths) -> None:
    """Start the process that tells of the end of the job at `paths`.

    Nothing happens where the machine can start none.
    """
    from submarine_engine.clusters.machine import spawn_detached  # noqa: PLC0415 - few need it

    home = paths.root.parents[1]
    # No word of it names the webhook: arguments are for everybody to read.
    arguments = [sys.executable, "-I", str(_SENDER), str(home), paths.job_id]
    environment = {**os.environ, "SUBMARINE_HOME": str(home)}
    with suppress(OSError):
        make_private(home / "webhooks")
        spawn_detached(arguments, environment, log=home / "webhooks" / "log", keep=())


def entry_of(paths: JobPaths) -> Path:
    """Return the file that says that the end of the job at `paths` is still to be told."""
    return paths.root.parents[1] / "webhooks" / "due" / paths.job_id


def due(home: Path) -> Iterator[str]:
    """Yield the ids of jobs of `home` whose end is still to be told, the oldest first."""
    with suppress(OSError):
        yield from filter(is_job_id, sorted(os.listdir(home / "webhooks" / "due")))  # noqa: PTH208 - names
