"""What the local cluster can do, checked before anything is asked for."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from submarine_engine.clusters import machine
from submarine_engine.clusters.base import Gpu, gpu_checks
from submarine_engine.clusters.environment import file_address, refuse_reserved
from submarine_engine.clusters.local.gpus import DECLARATION, Inventory
from submarine_engine.errors import ResourcesError, UnsupportedError
from submarine_engine.extras import install_extra
from submarine_engine.findings import BAD, OK, Check
from submarine_engine.job import JobSpec, Resources

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from submarine_engine.config import Config

_WHERE = "local cluster"


def check_spec(spec: JobSpec, found: Inventory) -> JobSpec:
    """Refuse what this machine cannot do; return `spec` with its number of GPUs.

    Parameters
    ----------
    spec
        What is asked for.
    found
        What this machine has.

    Raises
    ------
    UnsupportedError, ResourcesError
        As `Cluster.check` says.
    """
    if not sys.platform.startswith("linux"):
        raise UnsupportedError(
            f"the local cluster needs Linux, this is {sys.platform}",
            where=_WHERE,
            fix="choose another cluster, or run the notebook in a Linux container",
        )
    _check_kind(spec)
    refuse_reserved(spec.env)
    for label, path in (("input", spec.input_path), ("checkpoint", spec.checkpoint_path)):
        if path is not None:
            local_path(path, f"--{label}_path")
    there = len(found.devices)
    roles = [
        replace(role, resources=replace(role.resources, gpus=min(role.usual_gpus, there)))
        if role.resources.gpus is None
        else role
        for role in spec.roles
    ]
    spec = replace(spec, roles=tuple(roles))
    _check_gpus(spec, found)
    for role in spec.roles:
        _check_resources(role.resources)
    return spec


def _check_kind(spec: JobSpec) -> None:
    if spec.docker_image is not None:
        raise UnsupportedError(
            f"the local cluster runs no containers: docker image {spec.docker_image!r}",
            where="--docker_image",
            fix="leave it out: the job runs in this notebook's own Python environment",
        )
    if spec.queue not in (None, "default"):
        raise UnsupportedError(
            f"the local cluster has one queue, no {spec.queue!r}",
            where="--queue",
            fix="leave it out, or write --queue default",
        )
    if spec.tensorboard:
        from submarine_engine.tensorboard.board import check_installed  # noqa: PLC0415 - rare

        check_installed()


def _check_gpus(spec: JobSpec, found: Inventory) -> None:
    spec = spec.smallest  # the most may be more than there are: they are never had then
    asked, there = spec.gpus or 0, len(found.devices)
    if asked > there:
        has = f"this machine has {there}" if there else "this machine has none"
        if not there:
            less = "leave --gpus out to run on the CPU"
        elif (tasks := len(spec.tasks)) == 1:
            less = f"ask for fewer: --gpus {there}"
        else:  # --gpus is what each task gets: one GPU or none may still be too many together
            has = f"its {tasks} tasks together, {has}"
            less = "ask for fewer tasks, or fewer GPUs for each (--gpus 0 runs them on the CPU)"
        raise ResourcesError(
            f"the job asks for {_some(asked)}, {has}"
            + (f" ({found.problem})" if found.problem else ""),
            where=_WHERE,
            fix=f"{less}; or declare GPUs that cannot be found: "
            f"set {DECLARATION}={asked} before the notebook starts",
        )


def _check_resources(asked: Resources) -> None:
    for name, amount, unit, total in (
        ("memory", asked.memory, " MiB", machine.memory()),
        ("vcores", asked.vcores, "", machine.vcores()),
    ):
        if amount is not None and amount > total:
            raise ResourcesError(
                f"the job asks for {name}={amount}{unit}, this machine has {total}{unit}",
                where=_WHERE,
                fix=f"ask for {total}{unit} or less, or leave {name} out",
            )


def _some(gpus: int) -> str:
    return f"{gpus} GPU" if gpus == 1 else f"{gpus} GPUs"


def local_path(path: str, option: str) -> Path:
    """Return the path that an option names, which may be a ``file:`` address.

    Raises
    ------
    UnsupportedError
        It is an address of another kind, for example ``hdfs://``.
    """
    if (here := file_address(path, option)) is not None:
        return here
    if "://" in path:
        raise UnsupportedError(
            f"the local cluster reads and writes files of this machine, not {path}",
            where=option,
            fix="give a path of this machine, or choose a cluster that has that storage",
        )
    return Path(path).expanduser()


NO_GPUS = "SUBMARINE_LOCAL_GPUS=N declares GPUs that cannot be found"
"""What to do on a machine whose GPUs are not found, see `ClusterKind.no_gpus`."""

NOT_KNOWN = "other users' jobs are not known"
"""What is true of a machine that `submarine machine setup` has not made a shared one."""


def local_checks(gpus: Sequence[Gpu], config: Config) -> Iterator[Check]:
    """Yield what ``submarine doctor`` says of this machine's GPUs.

    Parameters
    ----------
    gpus
        Those that were found, or are declared.
    config
        The settings, one of which may declare them.
    """
    (check,) = gpu_checks(gpus, NO_GPUS)
    if config.value("local_gpus") is not None:
        how = f"declared by {config.origin('local_gpus')}"
        check = replace(check, verdict=OK, fix="")
    else:
        how = "found through NVML" if gpus else _nvml_problem()
    yield replace(check, what=f"{check.what}; {how}")
    if gpus:
        yield _sharing()


def _sharing() -> Check:
    from submarine_engine.clusters.local.shared import shared_machine  # noqa: PLC0415 - seldom

    title = "other users"
    shared = shared_machine()
    if shared is None:
        return Check(
            title,
            OK,
            f"this machine is not set up to be shared: {NOT_KNOWN}, and may be given the same GPUs",
            "where others have jobs here, root runs `submarine machine setup`",
        )
    shared.policy()
    if not shared.is_member:
        what = f"the GPUs are shared by the group {shared.group}, which you are no member of"
        return Check(title, BAD, what, f"usermod -aG {shared.group} USER, then log in anew")
    held, waiting = shared.held(), shared.waiting()
    users = len({lease.uid for lease in held} | {waiter.uid for waiter in waiting})
    what = f"one queue for the group {shared.group}: {len(held)} GPUs held, {users} users with jobs"
    return Check(title, OK, what)


def _nvml_problem() -> str:
    try:
        import pynvml  # noqa: PLC0415 - an optional extra
    except ImportError:
        return f"NVML is not installed: {install_extra('gpu')}"
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return f"NVML does not answer: {error}"
    pynvml.nvmlShutdown()
    return "NVML finds none"
