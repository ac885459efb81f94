"""``gpus``, ``doctor``, ``config show``, ``version`` and ``help``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from submarine_engine import __version__
from submarine_engine.cli import exits
from submarine_engine.cli.output import Output, visible
from submarine_engine.clusters.base import Gpu
from submarine_engine.command.parser import Command, help_text
from submarine_engine.config import load_config
from submarine_engine.settings import KEYS, format_value

if TYPE_CHECKING:
    from submarine_engine.doctor import Check


def gpus(command: Command, output: Output) -> int:
    """List the GPUs and the jobs that hold them."""
    from submarine_engine.clusters import open_cluster  # noqa: PLC0415 - help needs no cluster

    config = load_config({"cluster": command.values.get("cluster")})
    cluster = open_cluster(str(config.value("cluster")))
    found, shares = cluster.gpus(), cluster.gpu_shares()
    if output.json:
        for gpu in found:
            output.data(_gpu_json(gpu))
        for share in shares:
            output.data({share.kind: share.name, "free": share.free, "total": share.total})
        return exits.OK
    if not found:
        fix = "; SUBMARINE_LOCAL_GPUS=N declares some on this machine"
        output.note(f"the cluster has no GPU{fix if cluster.name == 'local' else ''}")
        return exits.OK
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
    return exits.OK


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
    """Check what a job needs on this machine."""
    from submarine_engine.doctor import doctor as check  # noqa: PLC0415 - loads a cluster

    return show_checks(check({"cluster": command.values.get("cluster")}), output)


def show_checks(checks: Iterable[Check], output: Output) -> int:
    """Write findings, one a line; `exits.FAILED` where one of them is bad."""
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
    return exits.FAILED if failed else exits.OK


def config(command: Command, output: Output) -> int:  # noqa: ARG001 - as all verbs
    """Show every setting, its value, and where that came from."""
    settings = load_config()
    if output.json:
        for name in settings:
            value = settings.value(name)
            plain = value if isinstance(value, (int, float, type(None))) else str(value)
            output.data({"key": name, "value": plain, "origin": settings.origin(name)})
        return exits.OK
    rows = [(n, format_value(n, settings.value(n)), settings.origin(n)) for n in KEYS]
    output.table(("setting", "value", "from"), rows)
    there = "" if settings.path.exists() else " (not there)"
    output.note(f"file: {settings.path}{there}")
    return exits.OK


def version(command: Command, output: Output) -> int:  # noqa: ARG001 - as all verbs
    """Say which release this is."""
    if output.json:
        output.data({"version": __version__})
    else:
        output.line(f"submarine {__version__}")
    return exits.OK


def help_(command: Command, output: Output) -> int:
    """Show the help of all verbs, or of one."""
    text = help_text(command.values.get("about", ()))
    if output.json:
        output.data({"help": text})
    else:
        output.out.write(text)
    return exits.OK
