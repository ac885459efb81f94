"""The folder and the files of a job on the machine that it is submitted from.

What every cluster promises of them: the folder that it is submitted from is there, and so is an
input that is named as a file of this machine (``file:/…``); the folder of a checkpoint is made.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from submarine_engine.errors import SubmissionError, UnsupportedError

if TYPE_CHECKING:
    from submarine_engine.job import JobSpec

Reader = Callable[[str, str], Path | None]
"""Returns the file of this machine that a path is, by the option that has it; None for others."""


def file_address(path: str, option: str) -> Path | None:
    """Return the path of a ``file:`` address; None where `path` is something else.

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
