"""Notebook servers as jobs: begun, found, and how to get to them.

Such a job runs `submarine_runtime.notebook_server`. Where it listens and its token are in a file
of the task's, which is read through `submarine_engine.inside`: on another machine by TLS, and only
by who may go into the job.
"""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from submarine_runtime.notebook_server import KEPT, SERVER
from submarine_runtime.saving import PLACE

from submarine_engine import inside
from submarine_engine.api import waiting_words
from submarine_engine.bundle.model import Bundle, Manifest
from submarine_engine.clusters.choice import cluster_for
from submarine_engine.command.parser import build_spec
from submarine_engine.config import load_config
from submarine_engine.errors import CommandError, JobError, SubmarineError
from submarine_engine.future import Job
from submarine_engine.job import JobSpec, JobState
from submarine_engine.records import JobSummary, list_jobs, open_job, record_of

NOTEBOOK, KERNEL = "notebook", "kernel"
"""`JobSpec.serves` of a notebook server, and of a kernel alone (`submarine_engine.kernels`)."""

_LOOK = 0.1  # seconds: a server takes some to begin, and a person waits for it
IDLE = 3600.0
"""Seconds without use after which a server ends unless said otherwise."""

_MOST_PORT = 65535
_OWN = {"idle", "dir", "port", "within", "detach", "cluster"}


@dataclass(frozen=True, slots=True, kw_only=True)
class NotebookServer:
    """Where a notebook server listens, inside its job.

    Parameters
    ----------
    job
        The job's id.
    port
        On loopback of the task's host.
    token
        Who shows it may do all that the job's user may.
    path
        Of its page.
    """

    job: str
    port: int
    token: str = field(repr=False)
    path: str = "/lab"

    @property
    def proxy_path(self) -> str:
        """Its page below the address of a Jupyter server with our extension."""
        return f"/submarine/proxy/{self.job}/{self.port}{self.path}"


def submit(
    values: Mapping[str, Any],
    tell: Callable[[str], object],
    cluster: str | None = None,
    workdir: Path | None = None,
) -> Job:
    """Submit a notebook server.

    Parameters
    ----------
    values
        Of ``notebook start``, as `submarine_engine.command.Command` has them.
    tell
        Is told, in words, what takes long.
    cluster
        Where, unless the values say; the configured one for None.
    workdir
        Where relative paths begin, and where its notebooks are; the current folder for None.

    Raises
    ------
    CommandError
        A value is not possible.
    SubmissionError, ClusterError
        The cluster refuses the job.
    """
    here = workdir or Path.cwd()
    own = _own(values, here)
    if cluster is not None:
        values = {"cluster": cluster, **values}
    return submit_server(NOTEBOOK, "notebook_server", values, own, tell, here)


def spec_of(kind: str, values: Mapping[str, Any]) -> JobSpec:
    """Return what a server asks for; `kind` is its name unless the values have one.

    Raises
    ------
    CommandError
        A value is not possible.
    """
    spec = build_spec({key: value for key, value in values.items() if key not in _OWN})
    # What its GPUs do says nothing of who uses it: it watches that by itself.
    spec = replace(spec, idle=0.0, serves=kind, post_mortem="off")
    return spec if "name" in values else replace(spec, name=kind)


def submit_server(  # noqa: PLR0913, PLR0917 - what is to run, and where
    kind: str,
    module: str,
    values: Mapping[str, Any],
    own: Mapping[str, Any],
    tell: Callable[[str], object],
    workdir: Path,
    notebook: str | None = None,
) -> Job:
    """Submit a job whose script is a call of a module's ``serve``.

    Parameters
    ----------
    kind
        As `JobSpec.serves`.
    module
        Of `submarine_runtime`.
    values
        Options of the job, by key; `own` are the call's arguments.
    tell
        Is told, in words, what takes long.
    workdir
        Where relative paths begin.
    notebook
        As `JobSpec.notebook`.

    Raises
    ------
    CommandError, SubmissionError, ClusterError
        As `submit`.
    """
    asked = values.get("idle")
    # Where the cluster limits --idle, that holds for how long the server may be unused.
    spec = replace(spec_of(kind, values), notebook=notebook, idle=asked, serves=None)
    config = load_config({"cluster": values.get("cluster")})
    where, spec = cluster_for(str(config.value("cluster")), spec, tell)
    where.tell = tell
    most = where.check(replace(spec, secrets=())).idle  # these are looked up by `submit`, once
    if asked is None and most is not None:
        own = {**own, "idle": min(IDLE, most)}
    spec = replace(spec, idle=0.0, serves=kind)
    return Job(where, where.submit(spec, _bundle(module, own), workdir=workdir))


def _own(values: Mapping[str, Any], here: Path) -> dict[str, Any]:
    """Return the arguments of `submarine_runtime.notebook_server.serve`."""
    port, folder = values.get("port", 0), values.get("dir")
    if not 0 <= port <= _MOST_PORT:
        raise CommandError(f"{port} is no port", where="--port", fix="leave it out for any")
    if folder is not None:
        if "://" in folder:
            raise CommandError(
                f"{folder} is no folder of a machine: notebooks are files in a folder",
                where="--dir",
                fix="name a folder that the cluster's machines have, too; without --dir the"
                " notebook's files come home as the job's artifacts",
            )
        folder = str(here.absolute() / Path(folder).expanduser())
    return {
        "idle": float(values.get("idle", IDLE)),
        "folder": folder,
        "here": str(here.absolute()),
        "port": port,
    }


def _bundle(module: str, own: Mapping[str, Any]) -> Bundle:
    words = ", ".join(f"{key}={value!r}" for key, value in own.items())
    script = f"from submarine_runtime.{module} import serve\n\nserve({words})\n"
    manifest = Manifest(entry="script.py", python=platform.python_version())
    return Bundle(files={"script.py": script.encode()}, manifest=manifest)


def running() -> list[JobSummary]:
    """Return the notebook servers and kernels that are not over, newest first."""
    kinds = {NOTEBOOK, KERNEL}
    return [one for one in list_jobs() if not one.state.final and _serves(one.id) in kinds]


def _serves(job_id: str) -> str | None:
    found: str | None = record_of(job_id).get("spec", {}).get("serves")
    return found


def open_notebook(name: str, kinds: Collection[str] = (NOTEBOOK,)) -> Job:
    """Return the job of a notebook server.

    Parameters
    ----------
    name
        As of `open_job`.
    kinds
        What it may serve.

    Raises
    ------
    JobNotFoundError
        There is no such job.
    CommandError
        It is another job.
    """
    job = open_job(name)
    if _serves(job.id) not in kinds:
        raise CommandError(
            f"job {job.id} serves no notebooks",
            fix="submarine notebook list shows those that do; submarine job list all jobs",
        )
    return job


def stop(names: Iterable[str]) -> list[tuple[str, bool]]:
    """Ask notebook servers or kernels to end; return the id of each job, and whether it was asked.

    Parameters
    ----------
    names
        An id, the end of one or a name for each, as `open_notebook` takes it.

    Raises
    ------
    JobNotFoundError, CommandError
        As `open_notebook`, before any is asked.
    """
    found = [open_notebook(name, {NOTEBOOK, KERNEL}) for name in names]
    return [(job.id, job.cancel("the notebook was stopped")) for job in found]


def keep(names: Iterable[str]) -> list[str]:
    """Use notebook servers or kernels: the time after which they end unused begins anew.

    Parameters
    ----------
    names
        An id, the end of one or a name for each, as `open_notebook` takes it.

    Returns
    -------
    list of str
        The id of each job.

    Raises
    ------
    JobNotFoundError, CommandError
        As `open_notebook`, before any is used.
    JobError
        One is over, or does not run yet.
    """
    found = [open_notebook(name, {NOTEBOOK, KERNEL}) for name in names]
    for job in found:
        done = inside.run(job.cluster, job.id, ["sh", "-c", f"touch {in_private_folder(KEPT)}"])
        if done.returncode:
            raise JobError(
                "it cannot be kept: its folder cannot be written",
                job_id=job.id,
                fix=f"use it, so that it stays: submarine notebook open {job.id}",
            )
    return [job.id for job in found]


def is_notebook(job: Job) -> bool:
    """Return whether a job serves notebooks."""
    return _serves(job.id) == NOTEBOOK


def server_of(job: Job, *, wait: bool = True) -> NotebookServer:
    """Return where a job's notebook server is.

    Parameters
    ----------
    job
        Its job.
    wait
        Whether to wait until it is there.

    Raises
    ------
    JobError
        The job does not run, or ends meanwhile; or it serves nothing yet.
    KeyboardInterrupt
        It was interrupted.
    """
    place = in_private_folder(SERVER)
    waits = f"until test -s {place}; do sleep 0.1; done; " if wait else ""
    done = inside.run(job.cluster, job.id, ["sh", "-c", f"{waits}cat {place}"])
    if done.returncode and wait:
        raise KeyboardInterrupt
    if done.returncode:
        raise JobError("it serves no notebooks yet", job_id=job.id, fix="ask when it does")
    try:
        told = json.loads(done.stdout)
        port, token, path = told["port"], told["token"], told["path"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise unreadable(job) from error
    words = isinstance(token, str) and token.isascii() and token.isalnum() and path == "/lab"
    if not isinstance(port, int) or not 0 < port <= _MOST_PORT or not words:
        raise unreadable(job)
    return NotebookServer(job=job.id, port=port, token=token, path=path)


def in_private_folder(name: str) -> str:
    """Return what a shell inside a task takes for the file `name` of `private_folder`."""
    return f'"${{{PLACE}:-$SUBMARINE_TASK_DIR}}/{name}"'


def unreadable(job: Job) -> JobError:
    """Return the error of a job that tells of itself what nobody understands."""
    return JobError(
        "what it says of its server cannot be read",
        job_id=job.id,
        fix=f"it may be of another release: submarine notebook stop {job.id}, and start one anew",
    )


def await_server(
    job: Job, within: float | None = None, tell: Callable[[str], object] = lambda _: None
) -> NotebookServer:
    """Wait until a notebook server can be used.

    Parameters
    ----------
    job
        Its job.
    within
        Seconds that it may take to get its GPUs; the job is cancelled then. None for any time.
    tell
        Is told what the job waits for, when that changes.

    Raises
    ------
    JobError
        It has no GPU in time, or ends: the job's own error where its code has failed.
    """
    await_running(job, within, tell)
    try:
        return server_of(job)
    except JobError:
        job.wait(30.0)  # it has failed to start; that is said by the job itself
        raise_ended(job)
        raise


def await_running(
    job: Job, within: float | None = None, tell: Callable[[str], object] = lambda _: None
) -> None:
    """Wait until a job runs.

    Parameters
    ----------
    job, within, tell
        As of `await_server`.

    Raises
    ------
    JobError
        It does not run in time, and is cancelled; or it has ended.
    """
    said, began = "", time.monotonic()
    while True:
        status = job.status()
        if status.state is JobState.RUNNING:
            return
        if status.state.final:
            raise_ended(job)
        waits = waiting_words(status)
        if waits not in ("", said):
            tell(f"waiting: {waits}")
            said = waits
        if within is not None and time.monotonic() - began > within:
            job.cancel(f"it did not start within {within:g} s")
            what = waits or status.state.value
            raise JobError(
                f"it did not start within {within:g} s ({what}), and was cancelled",
                job_id=job.id,
                fix="ask for fewer GPUs or another queue, or wait longer (--within 1h);"
                " submarine gpus shows who has them",
            )
        time.sleep(_LOOK)


def raise_ended(job: Job) -> None:
    """Raise what a job that is over says of its end."""
    error = job.exception()
    if isinstance(error, SubmarineError):
        raise error
    status = job.status()
    raise JobError(
        f"it ended before it served anything ({status.reason or status.state.value})",
        job_id=job.id,
        fix=f"its log says more: submarine job logs {job.id}",
    ) from error
