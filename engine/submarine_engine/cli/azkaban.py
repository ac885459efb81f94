"""The verbs of Azkaban: log in, upload a flow, run it there, follow, look, cancel, unschedule."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable
from getpass import getpass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from submarine_engine.cli.output import FAILED, OK, Output, visible
from submarine_engine.command.parser import Command
from submarine_engine.errors import CommandError, ConfigError, UnsupportedError
from submarine_engine.extras import install_extra
from submarine_engine.flows import azkaban
from submarine_engine.flows.folder import is_address, place_of
from submarine_engine.flows.model import Flow
from submarine_engine.flows.reopen import file_of, write_notebook
from submarine_engine.history import default_home
from submarine_engine.secret_values import secret_value

if TYPE_CHECKING:
    from submarine_engine.flows.azkaban_client import Azkaban, Execution, Login, Step

_URL, _USER = "AZKABAN_URL", "AZKABAN_USER"
_PASSWORD, _PASSWORD_FILE = "AZKABAN_PASSWORD", "AZKABAN_PASSWORD_FILE"


def login(command: Command, output: Output) -> int:
    """Open a session, and keep it for the commands to come.

    Parameters
    ----------
    command
        May have ``url`` and ``user``; what it lacks is that of the environment, else of the last
        login.
    output
        Where it is said who is logged in.
    """
    client = _client(output, command.values.get("url"), command.values.get("user"), fresh=True)
    found = client.log_in()
    if output.json:
        output.data({"url": found.url, "user": found.user})
    else:
        output.line(f"{visible(found.user, line=True)} is logged in at {visible(found.url)}")
    return OK


def _archive(named: str) -> tuple[bytes, str]:
    """Return the zip of a flow, which may be one itself, and what people call it."""
    if is_address(named):
        place = place_of(named)
        with TemporaryDirectory() as aside:
            return _read(azkaban.write_as_built(Flow.read(place), place, Path(aside))), str(place)
    path = Path(named).expanduser()
    path = azkaban.write_as_built(Flow.read(path), path, path) if path.is_dir() else path
    return _read(path), str(path)


def upload(command: Command, output: Output) -> int:
    """Put a flow into a project, and on the schedule that it has.

    Parameters
    ----------
    command
        Names the flow: its folder, its address or its zip; may have the project (called as the flow
        unless given), ``replace`` where other flows of it may go, parameters of scheduled runs, and
        whom Azkaban writes to of a failure.
    output
        Where the project's new version is written, and when the flow runs.
    """
    data, archive = _archive(command.values["flow"])
    flow = azkaban.read(data, where=archive)
    project = command.values.get("project", flow.name)
    cron = flow.schedule and azkaban.quartz(flow.schedule)
    given = _parameters(flow, command.values.get("param", ()))
    if given and not cron:
        raise CommandError(
            "--param is for scheduled runs, and the flow names no schedule",
            where="--param",
            fix="build it with --schedule, or give the values to `azkaban run`",
        )
    client = _client(output)
    version = client.upload(
        project,
        data,
        flow=flow.name,
        description=f"{flow.notebook or flow.name}, by submarine flow build",
        replace=bool(command.values.get("replace")),
    )
    if cron:
        mail = command.values.get("mail", flow.mail)
        client.schedule(project, flow.name, cron, given, mail=mail)
    before = None if cron else client.scheduled(project, flow.name)
    if output.json:
        told = {"project": project, "flow": flow.name, "version": version, "schedule": cron or None}
        output.data(told)
        return OK
    output.line(
        f"project {project} has version {version}: {client.login.url}/manager?project={project}"
    )
    if cron:
        output.line(f"it runs by itself at {flow.schedule} (for Azkaban: {cron})")
    elif before:
        output.note(
            f"the flow names no schedule, and Azkaban still runs it at {visible(before[1])}; "
            f"to end that: submarine azkaban unschedule {project}"
        )
    return OK


def run(command: Command, output: Output) -> int:
    """Run a project's flow now, and follow it.

    Parameters
    ----------
    command
        Names the project; may have parameters, whom Azkaban writes to of a failure, how its
        executors call ``submarine``, and ``detach``.
    output
        Where the execution is shown; with ``detach`` its number alone.
    """
    client = _client(output)
    project = command.values["project"]
    flow = azkaban.read(client.download(project), where=f"project {project}")
    given = _parameters(flow, command.values.get("param", ()))
    if "submarine" in command.values:
        given["submarine.command"] = command.values["submarine"]
    number, before = client.execute(
        project, flow.name, given, mail=command.values.get("mail", flow.mail)
    )
    if before:
        output.note(f"execution {number} was asked for before, and runs: nothing was asked anew")
    if command.values.get("detach"):
        if output.json:
            output.data({"execution": number})
        else:
            output.line(str(number))
        return OK
    output.note(f"execution {number}: {client.login.url}/executor?execid={number}")
    return _follow(client, number, output)


def attach(command: Command, output: Output) -> int:
    """Follow on `output` the execution whose number `command` has, from its first line."""
    return _follow(_client(output), _number(command), output)


def status(command: Command, output: Output) -> int:
    """Show on `output` the execution whose number `command` has, with its nodes."""
    found = _client(output).execution(_number(command))
    if output.json:
        output.data(_execution_json(found))
        return OK
    output.line(f"execution {found.id} of {visible(found.project)}: {visible(found.state.lower())}")
    rows = [
        (visible(one.name), visible(one.state.lower()), str(one.attempt + 1), _seconds(one))
        for one in found.steps
    ]
    output.table(("node", "state", "try", "seconds"), rows)
    return OK


def cancel(command: Command, output: Output) -> int:
    """Ask an execution to end.

    Parameters
    ----------
    command
        Has the execution's number.
    output
        Where it is said whether it was asked, or was over already.
    """
    number = _number(command)
    asked = _client(output).cancel(number)
    if output.json:
        output.data({"execution": number, "asked": asked})
    else:
        output.line(f"execution {number} {'asked to end' if asked else 'was over already'}")
    return OK if asked else FAILED


def unschedule(command: Command, output: Output) -> int:
    """Take a project's flows off the schedule.

    Parameters
    ----------
    command
        Names the project.
    output
        Where it is said whether it was on the schedule.
    """
    client = _client(output)
    project = command.values["project"]
    found = [flow for flow in client.flows(project) or () if client.unschedule(project, flow)]
    if output.json:
        output.data({"project": project, "unscheduled": found})
    else:
        output.line(
            f"project {visible(project)} {'is off the schedule' if found else 'was on none'}"
        )
    return OK


def open_(command: Command, output: Output) -> int:
    """Make a notebook of a flow again.

    Parameters
    ----------
    command
        Names the flow: its folder, its address, its zip, else a project at Azkaban; may have
        ``output``, the notebook to write.
    output
        Where the notebook's path is written.
    """
    named = command.values["flow"]
    path = Path(named).expanduser()
    if is_address(named):
        flow = Flow.read(place_of(named))
    elif path.is_dir():
        flow = Flow.read(path)
    elif path.exists():
        flow = azkaban.read(_read(path), where=str(path))
    else:
        flow = azkaban.read(_client(output).download(named), where=f"project {named}")
    target = write_notebook(flow, Path(command.values.get("output", file_of(flow))))
    if output.json:
        output.data({"flow": flow.name, "notebook": str(target), "cells": len(flow.cells)})
    else:
        output.line(visible(str(target)))
    return OK


def _follow(client: Azkaban, number: int, output: Output) -> int:
    from submarine_engine.flows.azkaban_client import ExecutionEvent  # noqa: PLC0415 - needs requests

    try:
        for told in client.follow(number):
            if not isinstance(told, ExecutionEvent):
                ended: Execution = told
                break
            if output.json:
                kind = "state" if told.is_state else "line"
                output.data({"node": told.node, kind: told.text})
            elif told.is_state:
                output.note(f"{visible(told.node)}: {visible(told.text)}")
            else:
                output.line(f"{visible(told.node)} | {visible(told.text, line=True)}")
            output.out.flush()
    except KeyboardInterrupt:
        output.note(f"it goes on; to follow it again: submarine azkaban attach {number}")
        raise
    if output.json:
        output.data(_execution_json(ended))
    else:
        output.note(f"execution {number}: {visible(ended.state.lower())}")
    return OK if ended.state == "SUCCEEDED" else FAILED


def _execution_json(found: Execution) -> dict[str, object]:
    steps = [
        {"node": one.name, "state": one.state, "attempt": one.attempt,
         "started": one.started, "ended": one.ended}
        for one in found.steps
    ]  # fmt: skip
    told = {"execution": found.id, "project": found.project, "flow": found.flow}
    return {**told, "state": found.state, "nodes": steps}


def _seconds(step: Step) -> str:
    if step.started is None or step.ended is None:
        return "-"
    return f"{step.ended - step.started:.1f}"


def _client(
    output: Output, url: str | None = None, user: str | None = None, *, fresh: bool = False
) -> Azkaban:
    try:
        from submarine_engine.flows.azkaban_client import (  # noqa: PLC0415 - help needs no requests
            Azkaban,
            Login,
            LoginFile,
        )
    except ModuleNotFoundError as error:
        raise UnsupportedError(
            f"to talk to Azkaban, {error.name} is needed, and it is not installed",
            fix=install_extra("azkaban"),
        ) from error
    file = LoginFile(default_home())
    kept = None if fresh and url and user else file.read()
    named = Login(url or os.environ.get(_URL, ""), user or os.environ.get(_USER, ""))
    if kept and named.url in ("", kept.url) and named.user in ("", kept.user):
        found = Login(kept.url, kept.user, "" if fresh else kept.session)
    elif (named.url or kept) and (named.user or kept):
        found = Login(
            named.url or (kept.url if kept else ""), named.user or (kept.user if kept else "")
        )
    else:
        raise ConfigError(
            "it is not known which Azkaban is meant, and as whom",
            where="submarine azkaban",
            fix=f"log in: submarine azkaban login URL --user NAME; or set {_URL} and {_USER}",
        )
    return Azkaban(
        found,
        lambda: _ask_password(found, output),
        renewed=file.write,
        folder=default_home() / "azkaban" / "asked",
    )


def _ask_password(login: Login, output: Output) -> str | None:
    """Return the password: of the environment or keyring, of a file, or of who sits here.

    Any verb may send it, once a session is over: so each says first that http is not encrypted.
    """
    parts = urlsplit(login.url)
    if parts.scheme == "http" and parts.hostname not in ("localhost", "127.0.0.1", "::1"):
        output.warning("http:// is not encrypted: whoever listens on the way can read the password")
    if found := secret_value(_PASSWORD):
        return found
    if named := os.environ.get(_PASSWORD_FILE):
        return _password_of(Path(named))
    if sys.stdin is not None and sys.stdin.isatty():
        user, url = visible(login.user, line=True), visible(login.url, line=True)
        return getpass(f"Password of {user} at {url}: ")
    return None


def _password_of(path: Path) -> str:
    try:
        with path.open("rb") as file:
            if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
                raise ConfigError(
                    "others may read the password",
                    where=f"{_PASSWORD_FILE}: {path}",
                    fix=f"chmod 600 {path}",
                )
            return file.read(4096).decode().rstrip("\r\n")
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"the password cannot be read: {error}",
            where=_PASSWORD_FILE,
            fix="name a file of yours",
        ) from None


def _parameters(flow: Flow, pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    given: dict[str, str] = {}
    for name, text in pairs:
        fault = azkaban.unfit(text)
        if not fault and max(text, default="") > "\uffff":
            fault = "it holds a character beyond U+FFFF, which its server does not read"
        if not fault and name in given:
            fault = "it is given twice"
        if fault:
            raise CommandError(
                f"the value cannot go to Azkaban: {fault}",
                where=f"--param {name}",
                fix="write it otherwise, or run the flow here: submarine flow run",
            )
        given[name] = text
    flow.values(given)  # refuses what the notebook does not have
    return given


def _number(command: Command) -> int:
    return int(command.values["execution"])


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CommandError(
            f"{error.strerror or error}",
            where=str(path),
            fix="give a flow's folder, or the zip that `submarine flow build --to azkaban` wrote",
        ) from None
