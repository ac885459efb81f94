"""The verbs that go into a running job: exec, shell, forward."""

from __future__ import annotations

import os
import stat
import sys
from contextlib import suppress
from typing import Any

from submarine_engine.cli.output import INTERRUPTED, OK, Output, visible
from submarine_engine.command.parser import Command
from submarine_engine.inside import (
    Forward,
    Session,
    command_words,
    raw_terminal,
    run,
    terminal,
)
from submarine_engine.records import open_job


def exec_(command: Command, output: Output) -> int:
    """Run a program inside a job; return its exit code.

    Parameters
    ----------
    command
        Names the job; has the program with its arguments as ``args``, and may have the task, else
        that of rank 0.
    output
        Where the program's stdout and stderr go; programs get both as JSON at its end.
    """
    words = command_words(command.values.get("args", ()))
    job, task = open_job(command.values["job"]), command.values.get("task")
    source = _stdin()
    if output.json:
        found = run(job.cluster, job.id, words, task=task)
        output.data({
            "job": job.id,
            "code": found.returncode,
            "stdout": found.stdout.decode(errors="replace"),
            "stderr": found.stderr.decode(errors="replace"),
        })  # fmt: skip
        return found.returncode
    session = Session(job.cluster, job.id, {"argv": words}, task)
    try:
        return session.follow(output.raw, source)
    finally:
        session.close()


def _stdin() -> int | None:
    """Return what a program can read here; None where this command was started without."""
    with suppress(OSError, ValueError, AttributeError):
        descriptor = sys.stdin.fileno()
        # Of a terminal that is another command's, a read would stop this one.
        if not os.isatty(descriptor) or os.tcgetpgrp(descriptor) == os.getpgrp():
            stat.S_IFMT(os.fstat(descriptor).st_mode)
            return descriptor
    return None


def shell(command: Command, output: Output) -> int:
    """Open a shell inside a job, with this terminal as its own; return its exit code.

    Parameters
    ----------
    command
        Names the job; may have the task, else that of rank 0, and a program in place of a shell as
        ``args``.
    output
        Where the bytes of the shell go.
    """
    asked: dict[str, Any] = {"terminal": terminal()}
    if words := command.values.get("args", ()):
        asked["argv"] = command_words(words)
    job = open_job(command.values["job"])
    session = Session(job.cluster, job.id, asked, command.values.get("task"))
    try:
        with raw_terminal() as resized:
            return session.follow(output.raw, sys.stdin.fileno(), keys=resized)
    finally:
        session.close()


def forward(command: Command, output: Output) -> int:
    """Have a port of a job here until the job is over, or an interrupt comes.

    Parameters
    ----------
    command
        Names the job and the port, with that of this machine, None for the same where it is free;
        may have the task, else that of rank 0.
    output
        Where the address on this machine is written.
    """
    port, local = command.values["port"]
    job = open_job(command.values["job"])
    forwarded = Forward(
        job.cluster,
        job.id,
        port,
        local,
        command.values.get("task"),
        lambda text: output.note(visible(text, line=True)),
    )
    try:
        told = {"job": job.id, "task": forwarded.task, "port": port, "local": forwarded.port}
        if output.json:
            output.data(told)
        else:
            output.line(f"127.0.0.1:{forwarded.port}")
            output.out.flush()
            output.note(f"leads to port {port} of {forwarded.task}; Ctrl-C ends it")
            named = f"{forwarded.task}:{port}" if command.values.get("task") else port
            output.note(f"in Jupyter it is at …/submarine/proxy/{job.id}/{named}/")
        forwarded.serve()
    except KeyboardInterrupt:
        return INTERRUPTED
    finally:
        forwarded.close()
    return OK
