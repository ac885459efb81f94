"""What a job asks of Slurm, as the arguments of ``sbatch``."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from submarine_engine.clusters.environment import file_address
from submarine_engine.clusters.slurm.options import NAMED
from submarine_engine.config import load_config

if TYPE_CHECKING:
    from submarine_engine.clusters.slurm.client import Partition
    from submarine_engine.job import JobSpec

WARNED_BEFORE = 60.0
"""Seconds before Slurm ends a job at its time limit at which its tasks are asked to end, unless it
has a ``--grace``: time for a checkpoint. Slurm looks every half a minute, and so is earlier.
"""

_LONGEST_WARNING = 65535  # seconds; sbatch takes no more
_SPARE = 120.0  # seconds: Slurm's limit counts from the nodes on, and comes after our own
_MINUTE = 60

NOTE = "slurm.json"
"""In the job's folder: what was asked of Slurm, written before it is asked."""


def job_name(job_id: str, attempt: int | str) -> str:
    """Return what an attempt of a job is called in Slurm, by which it is found again.

    Parameters
    ----------
    job_id, attempt
        Which.
    """
    return f"submarine-{job_id}.{attempt}"


def disk_path(path: str, option: str) -> Path | None:
    """Return the path that an option names on the shared disk; None for an address elsewhere.

    Parameters
    ----------
    path
        As the user wrote it; a relative one begins at the folder that the job runs in.
    option
        Which, for errors.

    Raises
    ------
    UnsupportedError
        It is a file of another machine.
    """
    here = file_address(path, option)
    return Path(path).expanduser() if here is None and path and "://" not in path else here


def partition_of(spec: JobSpec) -> str | None:
    """Return the partition that a job asks for; None for Slurm's default one.

    Parameters
    ----------
    spec
        The job.
    """
    asked = spec.queue or load_config().value("slurm_partition")
    return str(asked) if asked else None


def asks_for_partitions(spec: JobSpec) -> bool:
    """Whether it matters to a job's `arguments` what partitions there are: who asks, waits.

    Parameters
    ----------
    spec
        The job.
    """
    by_default = partition_of(spec) is None and load_config().value("slurm_partitions")
    return spec.time_limit is not None or bool(by_default)


def _found(spec: JobSpec, partitions: Iterable[Partition]) -> Partition | None:
    """Return the partition of a job; None for one that is not among them."""
    name = partition_of(spec)
    return next(
        (one for one in partitions if one.name == name or (name is None and one.is_default)), None
    )


def longest_of(spec: JobSpec, partitions: Iterable[Partition]) -> float | None:
    """Return the seconds that a job may take in its partition; None for as long as it likes.

    Parameters
    ----------
    spec
        The job.
    partitions
        As `Slurm.partitions` tells them.
    """
    found = _found(spec, partitions)
    return None if found is None else found.longest


def _named(spec: JobSpec, option: str, partitions: Iterable[Partition]) -> str | None:
    """Return an option's value: the job's own, else its partition's, else the one for all."""
    config = load_config()
    partition = partition_of(spec)
    if partition is None and (found := _found(spec, partitions)) is not None:
        partition = found.name
    of_partition = config.value("slurm_partitions").get(partition, {})
    value = spec.options.get(option) or of_partition.get(option) or config.value(f"slurm_{option}")
    return str(value) if value else None


def warned_before(spec: JobSpec) -> int:
    """Return how many seconds before Slurm's time limit a job is asked to end; 0 for not at all.

    Parameters
    ----------
    spec
        The job.
    """
    grace = WARNED_BEFORE if spec.grace is None else spec.grace
    return min(math.ceil(grace), _LONGEST_WARNING)


def _times(spec: JobSpec, longest: float | None) -> list[str]:
    """Return how long Slurm gives the job: a scheduler fills gaps with what says so."""
    if spec.time_limit is None:
        return []
    seconds = spec.time_limit + warned_before(spec) + _SPARE
    seconds = seconds if longest is None else min(seconds, longest)
    return [f"--time={max(1, math.floor(seconds / _MINUTE))}"]


class Part(NamedTuple):
    """Tasks that need the same number of GPUs each, and what each of them needs.

    Parameters
    ----------
    gpus, cores, memory
        Of each task; memory in mebibytes, 0 for Slurm's default.
    tasks
        Which.
    beside
        Tasks without GPUs, which run on the same nodes; what they need is shared out among `tasks`.
    """

    gpus: int
    cores: int
    memory: int
    tasks: tuple[str, ...]
    beside: tuple[str, ...] = ()


def parts(spec: JobSpec) -> list[Part]:
    """Return what a job asks for: more than one part is a heterogeneous job of Slurm's.

    Slurm gives the components of such a job nodes of their own. So tasks without GPUs, as parameter
    servers, are no component: they run beside others.

    Parameters
    ----------
    spec
        The job.
    """
    counts = sorted({role.resources.gpus or 0 for role in spec.roles}, reverse=True)
    found = [_part(spec, count) for count in counts]
    if len(found) == 1 or found[-1].gpus:
        return found
    first, *others, without = found
    share = len(without.tasks) / len(first.tasks)
    first = first._replace(
        cores=first.cores + math.ceil(without.cores * share),
        memory=first.memory and first.memory + math.ceil(without.memory * share),
        beside=without.tasks,
    )
    return [first, *others]


def _part(spec: JobSpec, gpus: int) -> Part:
    roles = [role for role in spec.roles if (role.resources.gpus or 0) == gpus]
    cores = max(role.resources.vcores or 1 for role in roles)
    memory = max(role.resources.memory or 0 for role in roles)
    return Part(gpus, cores, memory, tuple(task for role in roles for task in role.tasks))


def resources(part: Part, kind: str | None) -> list[str]:
    """Return the options, of sbatch as of srun, for the tasks of a part.

    Parameters
    ----------
    part
        Which.
    kind
        The type of GPU.
    """
    words = [f"--ntasks={len(part.tasks)}", f"--cpus-per-task={part.cores}"]
    if part.gpus:
        words.append(f"--gpus-per-task={f'{kind}:' if kind else ''}{part.gpus}")
    if part.memory:
        words.append(f"--mem-per-cpu={math.ceil(part.memory / part.cores)}M")
    return words


def gpu_type(spec: JobSpec, partitions: Iterable[Partition]) -> str | None:
    """Return the type of GPU that a job asks for; None for any.

    Parameters
    ----------
    spec
        The job.
    partitions
        As `arguments` has them.
    """
    return _named(spec, "gpu_type", partitions)


def arguments(spec: JobSpec, name: str, partitions: Sequence[Partition] = ()) -> list[str]:
    """Return what ``sbatch`` is called with for an attempt of a job.

    Parameters
    ----------
    spec
        With as many workers as are asked for.
    name
        What it is called in Slurm, see `job_name`.
    partitions
        As `Slurm.partitions` tells them; none where `asks_for_partitions` says so.
    """
    words = []
    common = [f"--job-name={name}", f"--comment=submarine {spec.name}"]
    common += ["--no-requeue", "--output=/dev/null", "--error=/dev/null", "--chdir=/"]
    if (partition := partition_of(spec)) is not None:
        common.append(f"--partition={partition}")
    for option in NAMED:
        value = _named(spec, option, partitions)
        if value and option != "gpu_type":
            common.append(f"--{option}={value}")
    if nice := spec.options.get("nice"):
        common.append(f"--nice={nice}")
    if spec.options.get("exclusive"):
        common.append("--exclusive")
    common += _times(spec, longest_of(spec, partitions))
    if before := warned_before(spec):  # the batch script hears it, of the first component alone
        words.append(f"--signal=B:USR1@{before}")
    kind = gpu_type(spec, partitions)
    for number, part in enumerate(parts(spec)):
        words += [":"] * bool(number) + common + resources(part, kind)
    return words
