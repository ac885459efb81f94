"""The verbs about the machine and what is beside jobs: GPUs, TensorBoards, Zeppelin."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from submarine_engine import __version__
from submarine_engine.cli.output import FAILED, OK, Output, visible
from submarine_engine.clusters.base import Gpu
from submarine_engine.command.parser import Command, help_text
from submarine_engine.config import load_config
from submarine_engine.errors import UnsupportedError
from submarine_engine.extras import install_extra
from submarine_engine.history import default_home
from submarine_engine.settings import format_value

if TYPE_CHECKING:
    from submarine_engine.findings import Check
    from submarine_engine.tensorboard import Board


def gpus(command: Command, output: Output) -> int:
    """List the GPUs and the jobs that hold them.

    Parameters
    ----------
    command
        May have the cluster, ``any`` for several; the configured one unless given.
    output
        Where the tables are written, one a cluster.
    """
    # imported late: help needs no cluster
    from submarine_engine.clusters.choice import as_ours, clusters_of  # noqa: PLC0415

    config = load_config({"cluster": command.values.get("cluster")})
    names = clusters_of(str(config.value("cluster")))
    if len(names) == 1:
        _gpus_of(names[0], output)
        return OK
    code = OK
    for name in names:
        if not output.json:
            output.line(f"{visible(name, line=True)}:")
        try:
            _gpus_of(name, output, {"cluster": name})
        except Exception as error:  # noqa: BLE001 - the others are shown all the same
            output.error(as_ours(name, error))
            code = FAILED
    return code


def _gpus_of(name: str, output: Output, of: Mapping[str, str] = MappingProxyType({})) -> None:
    """List the GPUs of one cluster; `of` says in JSON which one that is, of several."""
    from submarine_engine.clusters import open_cluster  # noqa: PLC0415 - as above

    cluster = open_cluster(name)
    found, shares = cluster.gpus(), cluster.gpu_shares()
    if output.json:
        for gpu in found:
            output.data({**of, **_gpu_json(gpu)})
        for share in shares:
            part = {share.kind: share.name, "free": share.free, "total": share.total}
            output.data({**of, **part})
        return
    if not found:
        output.note("; ".join(filter(None, ("the cluster has no GPU", cluster.no_gpus))))
        return
    rows = [
        (
            gpu.id,
            gpu.name,
            gpu.host,
            f"{gpu.memory} MiB" if gpu.memory else "-",
            visible(gpu.held_words, line=True),
        )
        for gpu in found
    ]
    output.table(("gpu", "name", "host", "memory", "job"), rows)
    if shares:
        output.line()
        output.table(
            ("part", "name", "free", "total"),
            [(share.kind, share.name, str(share.free), str(share.total)) for share in shares],
        )


def _gpu_json(gpu: Gpu) -> dict[str, str | int | None]:
    facts = {
        "id": gpu.id,
        "name": gpu.name,
        "host": gpu.host,
        "memory": gpu.memory,
        "job": gpu.job_id,
    }
    return facts if gpu.holder is None else {**facts, "holder": gpu.holder, "queue": gpu.queue}


def doctor(command: Command, output: Output) -> int:
    """Check what a job needs on this machine.

    Parameters
    ----------
    command
        May have the cluster that is looked at; the configured one unless given.
    output
        Where the findings are written.
    """
    from submarine_engine.doctor import doctor as check  # noqa: PLC0415 - loads a cluster

    return show_checks(check({"cluster": command.values.get("cluster")}), output)


def show_checks(checks: Iterable[Check], output: Output) -> int:
    """Write the findings of `checks` to `output`, one a line; `FAILED` where one of them is bad."""
    failed = False
    marks = {
        "ok": output.style("ok  ", "green"),
        "note": output.style("note", "yellow"),
        "bad": output.style("BAD ", "red"),
    }
    for found in checks:
        failed |= found.verdict == "bad"
        if output.json:
            output.data(found.to_json())
            continue
        output.line(f"{marks[found.verdict]}  {found.title}: {visible(found.what, line=True)}")
        if found.fix:
            output.line(f"      → {visible(found.fix, line=True)}")
    return FAILED if failed else OK


def config(command: Command, output: Output) -> int:  # noqa: ARG001 - as all verbs
    """Show every setting on `output`, its value, and its origin; `command` says nothing."""
    settings = load_config(search=True)
    if output.json:
        for name in settings:
            value = settings.value(name)
            plain = list(value) if isinstance(value, tuple) else value
            plain = plain if isinstance(plain, (int, float, list, dict, type(None))) else str(value)
            if name == "notify" and value is not None:
                plain = format_value(name, value)
            output.data({"key": name, "value": plain, "origin": settings.origin(name)})
        return OK
    rows = [(n, format_value(n, settings.value(n)), settings.origin(n)) for n in settings]
    output.table(("setting", "value", "from"), rows)
    there = "" if settings.path.exists() else " (not there)"
    output.note(f"file: {settings.path}{there}")
    return OK


def version(command: Command, output: Output) -> int:  # noqa: ARG001 - as all verbs
    """Say on `output` which release this is; `command` says nothing."""
    if output.json:
        output.data({"version": __version__})
    else:
        output.line(f"submarine {__version__}")
    return OK


def help_(command: Command, output: Output) -> int:
    """Show the help of all verbs, or of one.

    Parameters
    ----------
    command
        May have the words of a verb, or of a group of verbs, as ``about``; all are shown unless
        given.
    output
        Where the text is written.
    """
    text = help_text(command.values.get("about", ()))
    if output.json:
        output.data({"help": text})
    else:
        output.out.write(text)
    return OK


def tensorboard(command: Command, output: Output) -> int:
    """Open a TensorBoard and write its address; or list those that run, or end them.

    Parameters
    ----------
    command
        Has what is shown: jobs, ``all``, folders as ``logdir``; or ``list``, or ``stop`` for those
        that these name.
    output
        Where the address is written, which holds the key, or the list.
    """
    from submarine_engine.tensorboard import list_boards, wait_for_board  # noqa: PLC0415 - as for `cluster`
    from submarine_engine.tensorboard.board import open_selected, stop_selected  # noqa: PLC0415

    home = default_home()
    if "stop" in command.values:
        stopped = stop_selected(home, command.values)
        for board in stopped:
            _write_board(output, board, f"{board.id} ended: {board.wanted.words}")
        if not stopped:
            output.note("no TensorBoard runs")
    elif "list" in command.values:
        for board in list_boards(home):
            _write_board(output, board, f"{board.id}  {board.address}  {board.wanted.words}")
    else:
        wanted = open_selected(home, command.values)
        output.note(f"TensorBoard over {wanted.words}")
        board = wait_for_board(home, wanted)
        _write_board(output, board, board.address)
        output.note(
            "The address is yours alone: it holds the key. It opens on this machine; from another, "
            f"bring its port here first: ssh -L {board.port}:127.0.0.1:{board.port} …"
        )
    return OK


def _write_board(output: Output, board: Board, text: str) -> None:
    if output.json:
        told = {"id": board.id, "address": board.address, "port": board.port, "pid": board.pid}
        output.data({**told, **board.wanted.to_json()})
    else:
        output.line(text)


def zeppelin_install(command: Command, output: Output) -> int:
    """Put the interpreter into a Zeppelin.

    Parameters
    ----------
    command
        May have Zeppelin's folder, else that of ``ZEPPELIN_HOME``, and the Python that notes run
        on, else this one.
    output
        Where it is said what was written, and what is to be done next.
    """
    ours = _module("install")
    zeppelin = ours.find_zeppelin(command.values.get("zeppelin_home"))
    python = ours.install(zeppelin, command.values.get("python"))
    if output.json:
        output.data({"folder": str(zeppelin.folder), "python": python})
        return OK
    output.line(f"Zeppelin {zeppelin.told_release} has the interpreter %submarine now:")
    output.line(f"  {zeppelin.folder}")
    output.line(f"  notes run on {python}")
    if zeppelin.aside.exists():
        output.line(f"  the one that was there is kept in {zeppelin.aside}")
    output.line("\nRestart Zeppelin: bin/zeppelin-daemon.sh restart")
    return OK


def zeppelin_uninstall(command: Command, output: Output) -> int:
    """Take the interpreter out of a Zeppelin.

    Parameters
    ----------
    command
        May have Zeppelin's folder, else that of ``ZEPPELIN_HOME``.
    output
        Where it is said whether it was there.
    """
    ours = _module("install")
    zeppelin = ours.find_zeppelin(command.values.get("zeppelin_home"))
    there = ours.uninstall(zeppelin)
    if output.json:
        output.data({"folder": str(zeppelin.folder), "was_there": there})
    else:
        gone = "is gone; restart Zeppelin" if there else "was not there"
        output.line(f"The interpreter in {zeppelin.folder} {gone}.")
    return OK


def zeppelin_doctor(command: Command, output: Output) -> int:
    """Check a Zeppelin's interpreter.

    Parameters
    ----------
    command
        May have Zeppelin's folder, else that of ``ZEPPELIN_HOME``.
    output
        Where the findings are written.
    """
    zeppelin = _module("install").find_zeppelin(command.values.get("zeppelin_home"))
    return show_checks(_module("install").checks(zeppelin), output)


def _module(name: str) -> Any:  # noqa: ANN401 - a module is typed by what it holds
    """Load what the engine does without: front ends are no part of it."""
    try:
        return import_module(f"submarine_zeppelin.{name}")
    except ModuleNotFoundError as error:
        raise UnsupportedError(
            f"Submarine's interpreter for Zeppelin is not installed here: there is no {error.name}",
            fix=install_extra("zeppelin"),
        ) from error
