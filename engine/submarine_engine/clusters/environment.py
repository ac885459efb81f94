"""What a job gets of the machine that it is submitted from: variables, folder and files.

The environment is the user's own, without the notebook's machinery; paths are resolved against the
notebook's folder.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from submarine_runtime import displays
from submarine_runtime.rendezvous import NONE, READS, VARIABLES, chosen

from submarine_engine.errors import SubmissionError, UnsupportedError
from submarine_engine.history import TaskPaths

if TYPE_CHECKING:
    from submarine_engine.job import JobSpec


# The folder and the files of a job on the machine that it is submitted from.
#
# What every cluster promises of them: the folder that it is submitted from is there, and so is an
# input that is named as a file of this machine (``file:/…``); the folder of a checkpoint is made.


Reader = Callable[[str, str], Path | None]
"""Returns the file of this machine that a path is, by the option that has it; None for others."""


def file_address(path: str, option: str) -> Path | None:
    """Return the path of a ``file:`` address; None where `path` is something else.

    Parameters
    ----------
    path
        What the user gave: a path or an address.
    option
        What it was given by, for the error.

    Raises
    ------
    UnsupportedError
        It is a file of another machine.
    """
    try:
        parts = urlsplit(path)
    except ValueError:
        return None
    if parts.scheme != "file":
        return None
    if parts.netloc not in ("", "localhost"):
        raise UnsupportedError(
            f"{path} is a file of another machine, {parts.netloc}",
            where=option,
            fix="write file:///PATH for a file that this machine sees",
        )
    return Path(unquote(parts.path))


def resolve_paths(spec: JobSpec, workdir: Path, read: Reader) -> tuple[Path | None, Path | None]:
    """Return those of the input and checkpoint paths that lie on this machine.

    Parameters
    ----------
    spec
        The job.
    workdir
        Where relative ones begin.
    read
        Which paths do.

    Raises
    ------
    SubmissionError
        `workdir` or the input is not there, or the checkpoint's folder cannot be made.
    """
    if not workdir.is_dir():
        raise SubmissionError(f"there is no folder {workdir}", where="workdir", fix="make it")
    source = target = None
    if spec.input_path and (here := read(spec.input_path, "--input_path")) is not None:
        source = workdir / here
        if not source.exists():
            raise SubmissionError(
                f"there is no file or folder {source}",
                where="--input_path",
                fix=f"relative paths begin at {workdir}",
            )
    if spec.checkpoint_path and (here := read(spec.checkpoint_path, "--checkpoint_path")):
        target = workdir / here
        try:
            target.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SubmissionError(
                f"the folder {target} cannot be made: {error.strerror}",
                where="--checkpoint_path",
                fix="give a folder that you may write",
            ) from error
    return source, target


def keeps_checkpoints(source: str) -> bool:
    """Tell whether a script asks its job to keep checkpoints (``job.steps``, ``job.restore``).

    Parameters
    ----------
    source
        The script's text.
    """
    if "submarine_runtime" not in source:
        return False
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except (SyntaxError, ValueError, RecursionError):
        return False  # the job will say so
    jobs = {
        name.asname or name.name
        for node in nodes
        if isinstance(node, ast.ImportFrom) and node.module == "submarine_runtime"
        for name in node.names
        if name.name == "job"
    }
    return any(
        isinstance(node, ast.Attribute)
        and node.attr in ("steps", "restore")
        and isinstance(node.value, ast.Name)
        and node.value.id in jobs
        for node in nodes
    )


# The Python that a job runs in, as ``--environment`` names it.


ARCHIVES = (".tar.gz", ".tgz", ".tar", ".zip")
"""What an archive of an environment is called."""

_OPTION = "--environment"


def environment_kind(wanted: str, kinds: str, place: str) -> str:
    """Return what ``--environment`` names.

    Parameters
    ----------
    wanted
        Its value.
    kinds
        What may be written there, in words.
    place
        What has the interpreter whose path is given, in words: every node, the image.

    Returns
    -------
    str
        ``same``, ``pack``, ``archive``, or ``python`` for the path of an interpreter.

    Raises
    ------
    SubmissionError
        It names no environment.
    """
    if wanted in ("same", "pack"):
        return wanted
    if wanted.lower().endswith(ARCHIVES):
        return "archive"
    if wanted.startswith("/") and Path(wanted).name.startswith("python"):
        return "python"
    fix = f"write {_OPTION} with one of: {kinds}"
    if Path(wanted).expanduser().is_dir():
        fix = (
            f"if {place} has this folder: {_OPTION} {wanted.rstrip('/')}/bin/python; else make "
            "an archive of it with venv-pack or conda-pack and name that"
        )
    raise SubmissionError(f"{wanted!r} is no environment", where=_OPTION, fix=fix)


# The environment that a job gets: the user's own, without the notebook's machinery.


FIGURES = displays.FIGURES
"""Variable that tells a job how its notebook has figures drawn."""

TABLES = displays.TABLES
"""Variable that tells a job that its notebook shows data frames as tables of its own."""

_OF_A_JOB = (
    "SUBMARINE_JOB_ID",
    "SUBMARINE_TASK",
    "SUBMARINE_TASK_DIR",
    "SUBMARINE_INPUT_PATH",
    "SUBMARINE_CHECKPOINT_PATH",
    "SUBMARINE_HDFS",
    "SUBMARINE_LOGDIR",
    "SUBMARINE_OUTPUT_PATH",
    "SUBMARINE_ATTEMPT",
    "SUBMARINE_DRIVER",
)
_OF_NOTEBOOKS = ("JPY_", "PYDEVD", "IPYKERNEL_", "JUPYTERHUB_API_TOKEN")
_THREAD_COUNTS = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)


def job_environment(  # noqa: PLR0913 - each is one thing that the job can ask for
    outer: Mapping[str, str],
    wanted: Mapping[str, str],
    *,
    job_id: str,
    task: TaskPaths,
    vcores: int | None = None,
    input_path: Path | str | None = None,
    checkpoint_path: Path | str | None = None,
) -> dict[str, str]:
    """Return a task's environment, all but the GPUs, which are not granted yet.

    Parameters
    ----------
    outer
        The submitter's environment.
    wanted
        What the job's spec asks for; it wins over `outer`.
    job_id
        The job's id.
    task
        The task's files.
    vcores
        Limits the threads of numerical libraries, where neither of the two says otherwise.
    input_path, checkpoint_path
        As `resolve_paths` gave them; None where there is none.
    """
    environment = {
        key: value
        for key, value in outer.items()
        if key not in _OF_A_JOB and not key.startswith(_OF_NOTEBOOKS)
    }
    if "MPLBACKEND" in environment:
        environment["MPLBACKEND"] = drawing_backend(environment["MPLBACKEND"])
    environment.update(wanted)
    if vcores is not None:
        environment = {**thread_limits(vcores), **environment}
    environment["SUBMARINE_JOB_ID"] = job_id
    environment["SUBMARINE_TASK"] = task.root.name
    environment["SUBMARINE_TASK_DIR"] = str(task.root)
    environment["SUBMARINE_LOGDIR"] = str(task.logdir)
    environment["SUBMARINE_OUTPUT_PATH"] = str(task.artifacts)
    environment["PYTHONUNBUFFERED"] = "1"
    if input_path is not None:
        environment["SUBMARINE_INPUT_PATH"] = str(input_path)
    if checkpoint_path is not None:
        environment["SUBMARINE_CHECKPOINT_PATH"] = str(checkpoint_path)
    return environment


def drawing_backend(outer: str) -> str:
    """Return the backend of matplotlib in a job for `outer`, the submitter's.

    A notebook's draws into the notebook, by the job's displays; other modules are of programs that
    are not there.

    Parameters
    ----------
    outer
        The value of ``MPLBACKEND``.
    """
    if not outer.startswith("module://"):
        return outer
    notebook = any(name in outer for name in ("inline", "ipympl", "nbagg"))
    return displays.INLINE if notebook else "Agg"


def thread_limits(vcores: int) -> dict[str, str]:
    """Return what keeps numerical libraries to so many threads.

    Parameters
    ----------
    vcores
        How many.
    """
    return dict.fromkeys(_THREAD_COUNTS, str(vcores))


def gpu_environment(gpus: Sequence[str]) -> dict[str, str]:
    """Return what shows a task exactly the GPUs granted, none for none.

    Parameters
    ----------
    gpus
        Their ids.
    """
    return {"CUDA_VISIBLE_DEVICES": ",".join(gpus)}


def refuse_reserved(wanted: Mapping[str, str], option: str = "--env") -> None:
    """Refuse variables that the cluster itself sets.

    Parameters
    ----------
    wanted
        What was given, by name.
    option
        What they were given by.

    Raises
    ------
    UnsupportedError
        `wanted` holds one.
    """
    for key, value in wanted.items():
        if "\0" in value:
            raise UnsupportedError(
                f"the value of {key} holds a NUL character, which no environment can",
                where=option,
                fix="leave it out",
            )
        if key == "CUDA_VISIBLE_DEVICES":
            raise UnsupportedError(
                "CUDA_VISIBLE_DEVICES is set by the cluster, to the GPUs that it grants",
                where=option,
                fix="leave it out and ask for GPUs: --gpus N",
            )
        if key in _OF_A_JOB:
            raise UnsupportedError(
                f"{key} is set by the cluster", where=option, fix="choose another name"
            )


def refuse_rendezvous(spec: JobSpec) -> None:
    """Refuse variables that tell a job's tasks of each other: they are set as the tasks begin.

    Parameters
    ----------
    spec
        What the user asked for. A job of one task may have them, and one whose user sets them.

    Raises
    ------
    UnsupportedError
        One of them is given.
    """
    if len(spec.tasks) == 1 or spec.framework == NONE:
        return
    given = {**dict.fromkeys(spec.env, "--env"), **dict.fromkeys(spec.secrets, "--secret")}
    if not (taken := sorted(given.keys() & set(VARIABLES))):
        return
    ours = {name for framework in chosen(spec.framework) for name in READS[framework]}
    if strange := [name for name in taken if name not in ours]:
        [other] = (framework for framework, names in READS.items() if strange[0] in names)
        raise UnsupportedError(
            f"{', '.join(strange)}: read by {other}, and --framework {spec.framework} is given",
            where=given[strange[0]],
            fix=f"leave it out, or write --framework {other}, auto (all) or none (your own)",
        )
    raise UnsupportedError(
        f"{', '.join(taken)}: each task of a job of several gets its own as it begins",
        where=given[taken[0]],
        fix="leave it out, or write --framework none and set them all yourself",
    )
