"""The verbs of notebook servers: start, list, open, keep, stop."""

from __future__ import annotations

import os
import tempfile
import webbrowser
from html import escape
from pathlib import Path

from submarine_engine.cli.listing import job_row
from submarine_engine.cli.output import INTERRUPTED, OK, Output, code_of_job, visible
from submarine_engine.command.parser import Command
from submarine_engine.errors import CommandError, JobFailedError
from submarine_engine.events import Moment
from submarine_engine.inside import Forward
from submarine_engine.kernels import write_kernelspec
from submarine_engine.notebooks import (
    NotebookServer,
    await_server,
    open_notebook,
    running,
    server_of,
    submit,
)
from submarine_engine.notebooks import keep as keep_all
from submarine_engine.notebooks import stop as stop_all


def start(command: Command, output: Output) -> int:
    """Start a notebook server; wait until it can be used unless told to detach.

    Parameters
    ----------
    command
        Has the options of the server and of its job; ``within`` is how many seconds it may wait for
        its GPUs.
    output
        Where the job's id is written, and what it waits for.
    """

    def say(text: str) -> None:
        output.note(visible(text, line=True))

    values = command.values
    job = submit(values, say)
    told = {"job": job.id, "cluster": job.cluster.name}
    if values.get("detach"):
        if output.json:
            output.data(told)
        else:
            output.line(job.id)
        return OK
    output.note(f"job {job.id}")
    try:
        server = await_server(job, values.get("within"), say)
    except KeyboardInterrupt:
        output.note(f"left; it goes on: submarine notebook open {job.id}")
        return INTERRUPTED
    except JobFailedError as error:  # the job's own code, as `job run` has it
        output.error(error)
        return code_of_job(job.status())
    if output.json:
        output.data({**told, "port": server.port, "path": server.proxy_path})
        return OK
    output.line(job.id)
    output.note(f"open it here: submarine notebook open {job.id}")
    output.note(f"in Jupyter it is at …{server.proxy_path}")
    return OK


def list_(command: Command, output: Output) -> int:  # noqa: ARG001 - as all verbs
    """List on `output` the notebook servers that run; `command` says nothing."""
    found = running()
    if output.json:
        for one in found:
            output.data(one.to_json())
        return OK
    if not found:
        output.note("no notebook runs; submarine notebook start begins one")
        return OK
    now = Moment.now()
    rows = [job_row(one, now) for one in found]
    output.table(("id", "name", "state", "gpus", "age", "elapsed", "cluster"), rows)
    return OK


def open_(command: Command, output: Output) -> int:
    """Have a notebook server on this machine until it is over, or an interrupt comes.

    Parameters
    ----------
    command
        Names the job of the server; ``no_browser`` says that no browser is started.
    output
        Where the address of the page that opens it is written.
    """
    job = open_notebook(command.values["job"])
    try:
        server = server_of(job)
        forwarded = Forward(
            job.cluster,
            job.id,
            server.port,
            0,
            failed=lambda text: output.note(visible(text, line=True)),
        )
    except KeyboardInterrupt:
        return INTERRUPTED
    with tempfile.TemporaryDirectory(prefix="submarine-") as folder:
        page = _page(Path(folder), server, forwarded.port)
        try:
            if output.json:
                told = {"job": job.id, "local": forwarded.port, "page": str(page)}
                output.data(told)
            else:
                output.line(page.as_uri())
                output.out.flush()
                output.note(f"leads to http://127.0.0.1:{forwarded.port}; Ctrl-C ends it")
            if not command.values.get("no_browser") and not output.json:
                webbrowser.open(page.as_uri())
            forwarded.serve()
        except KeyboardInterrupt:
            return INTERRUPTED
        finally:
            forwarded.close()
    return OK


def _page(folder: Path, server: NotebookServer, port: int) -> Path:
    """Write the page that logs a browser in: its file is this user's alone, as the token is.

    A browser's arguments, which others see, hold the file's path alone. So does Jupyter itself.
    """
    address = f"http://127.0.0.1:{port}{server.path}?token={server.token}"
    path = folder / "notebook.html"
    text = (
        '<!doctype html><meta charset="utf-8"><title>Notebook</title>'
        '<meta name="referrer" content="no-referrer">'
        f'<meta http-equiv="refresh" content="0;url={escape(address)}">'
        f'<a href="{escape(address)}">Open the notebook</a>'
    )
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:  # noqa: PTH123 - a descriptor
        file.write(text)
    return path


def keep(command: Command, output: Output) -> int:
    """Use the notebook servers that `command` names, so that they go on, and say so on `output`."""
    for job_id in keep_all(command.values["jobs"]):
        if output.json:
            output.data({"job": job_id})
        else:
            output.line(f"{job_id} goes on")
    return OK


def stop(command: Command, output: Output) -> int:
    """Ask notebook servers to end.

    Parameters
    ----------
    command
        Names their jobs.
    output
        Where it is said of each whether it was asked, or was over already.
    """
    for job_id, asked in stop_all(command.values["jobs"]):
        if output.json:
            output.data({"job": job_id, "asked": asked})
        else:
            output.line(f"{job_id} {'is being stopped' if asked else 'was over already'}")
    return OK


def install_kernel(command: Command, output: Output) -> int:
    """Write the kernelspec of kernels that run as jobs with these options.

    Parameters
    ----------
    command
        Has the options of each kernel's job, and the word ``install`` as ``what``.
    output
        Where the kernel's name is written.
    """
    values = dict(command.values)
    if (what := values.pop("what")) != "install":
        raise CommandError(
            f"a kernel cannot be {what!r}", fix="write: submarine notebook kernel install --gpus 1"
        )
    path = write_kernelspec(values)
    if output.json:
        output.data({"name": path.name, "folder": str(path)})
    else:
        output.line(path.name)
        output.note(f"notebooks of this machine can choose it; it is in {path}")
    return OK
