"""The image that a job's tasks run in, by what the site has: pyxis' options of srun, or apptainer.

All of a task runs in it, what tells of its end too: the image's own Python runs
``launcher.py``, which lies in a folder of this machine that the image is shown.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from submarine_engine.clusters.slurm.options import APPTAINERS, PYXIS
from submarine_engine.config import load_config
from submarine_engine.errors import SubmissionError, UnsupportedError

if TYPE_CHECKING:
    from submarine_engine.clusters.slurm.client import Slurm
    from submarine_engine.job import JobSpec

_UNWRITABLE = frozenset(",:\n")
"""Characters that no path of a list of mounts can hold, for either of the two."""


class Image(NamedTuple):
    """An image, and what runs it.

    Parameters
    ----------
    name
        As the user has it: ``nvcr.io/nvidia/pytorch:24.01-py3``, or the path of a file.
    runner
        ``pyxis``, or the program that is called: ``apptainer``, ``/opt/bin/singularity``.
    python
        The interpreter in it.
    mounts
        Folders of the nodes that it is shown besides those of the job, at the same places.
    """

    name: str
    runner: str
    python: str
    mounts: tuple[str, ...] = ()

    def of_srun(self, seen: Iterable[Path]) -> list[str]:
        """Return the options by which ``srun`` begins tasks in it; none where it is no pyxis'.

        Parameters
        ----------
        seen
            The job's folders.
        """
        if self.runner != PYXIS:
            return []
        shown = ",".join(f"{path}:{path}" for path in self._folders(seen))
        return [f"--container-image={_as_enroot(self.name)}", f"--container-mounts={shown}"]

    def command(self, seen: Iterable[Path], *, gpus: bool) -> list[str]:
        """Return the words before a task's command that run it in the image; none for pyxis.

        Parameters
        ----------
        seen
            The job's folders.
        gpus
            Whether the job has some: the drivers of the node are shown then.
        """
        if self.runner == PYXIS:
            return []
        drivers = ["--nv"] if gpus else []
        folders = ",".join(self._folders(seen))
        return [self.runner, "exec", *drivers, "--bind", folders, _as_apptainer(self.name)]

    def _folders(self, seen: Iterable[Path]) -> list[str]:
        return list(dict.fromkeys([*(check_mount(path, str(path)) for path in seen), *self.mounts]))


def image_of(spec: JobSpec, slurm: Slurm) -> Image | None:
    """Return what a job's tasks run in; None for the nodes' own Python.

    Parameters
    ----------
    spec
        The job.
    slurm
        Its cluster, which is asked for no more than the options of its ``srun``.

    Raises
    ------
    UnsupportedError
        Nothing here runs images.
    SubmissionError
        A folder that it is to be shown cannot be one.
    """
    if not spec.docker_image:
        return None
    config = load_config()
    asked = spec.options.get("mounts") or config.value("slurm_mounts") or ""
    mounts = str(asked).split(",") if asked else ()
    return Image(
        name=spec.docker_image,
        runner=config.value("slurm_containers") or _found(slurm),
        python=config.value("slurm_image_python"),
        mounts=tuple(check_mount(path, "--mounts") for path in mounts),
    )


def check_mount(path: str | Path, where: str) -> str:
    """Return a folder that an image can be shown.

    Parameters
    ----------
    path
        Absolute, of the nodes.
    where
        What has named it.

    Raises
    ------
    SubmissionError
        It is relative, or has a character that ends it in a list of mounts.
    """
    told = str(path)
    if not Path(told).is_absolute() or _UNWRITABLE.intersection(told):
        raise SubmissionError(
            f"an image cannot be shown the folder {told!r}",
            where=where,
            fix="name folders by absolute paths without commas and colons, more after commas: "
            "/data,/scratch",
        )
    return told


def _found(slurm: Slurm) -> str:
    if "--container-image" in slurm.options_of_srun():
        return PYXIS
    # By its path: whoever asks Slurm for the job may have another PATH than who submits it.
    if found := next(filter(None, map(shutil.which, APPTAINERS)), None):
        return found
    raise UnsupportedError(
        "this Slurm has no --container-image (pyxis), and neither apptainer nor singularity is in "
        "PATH here",
        where="--docker_image",
        fix="leave it out: the job runs with this environment's Python, on the shared disk. Where "
        'only the nodes have one, name it: slurm_containers = "apptainer"',
    )


def _as_enroot(name: str) -> str:
    """Return the name as enroot has it: a ``#`` stands behind the registry's host."""
    host, slash, rest = name.partition("/")
    is_host = bool(set(host) & set(".:")) or host == "localhost"
    if host in {".", ".."} or not is_host or not slash or "#" in name or "://" in name:
        return name
    return f"{host}#{rest}"


def _as_apptainer(name: str) -> str:
    """Return the name as apptainer has it: a file or folder, or with the kind of its source."""
    is_path = name.startswith(("/", "./", "../")) or name.endswith((".sif", ".img", ".sqsh"))
    return name if is_path or "://" in name else f"docker://{name}"
