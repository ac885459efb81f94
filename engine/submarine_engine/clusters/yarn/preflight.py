"""What the ResourceManager would refuse or never grant, said before anything is asked of it."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

from submarine_engine.clusters.datapaths import file_address
from submarine_engine.clusters.environment import refuse_reserved
from submarine_engine.clusters.yarn.access import refusal
from submarine_engine.clusters.yarn.foreign import GPU, MEMORY
from submarine_engine.clusters.yarn.limits import (
    MEMORY_DEFAULT,
    Found,
    Problem,
    check_resources,
    raise_problems,
)
from submarine_engine.clusters.yarn.nodes import read_nodes
from submarine_engine.clusters.yarn.paths import path_problems, storage_problem
from submarine_engine.clusters.yarn.scheduler import DEFAULT, Queue, Scheduler, read_scheduler
from submarine_engine.errors import UnsupportedError
from submarine_engine.job import JobSpec, Resources, Role
from submarine_engine.tensorboard.installed import check_installed

if TYPE_CHECKING:
    from submarine_engine.clusters.yarn.hadoop import HadoopConf
    from submarine_engine.clusters.yarn.rest import ResourceManager

_NO_GPU = ("ps", "tensorboard")
_OF_YARN = ("CONTAINER_ID", "LOCAL_DIRS", "LOG_DIRS", "HADOOP_TOKEN_FILE_LOCATION")
_OF_YARN_PREFIXES = ("NM_", "SKEIN_", "SUBMARINE_PAYLOAD")


def check_spec(spec: JobSpec, conf: HadoopConf, rm: ResourceManager) -> JobSpec:
    """Refuse what this cluster cannot run; return `spec` with every role's resources filled in.

    GPUs left open become one where the queue has any (none for ``ps`` and ``tensorboard``), memory
    2 GiB, vcores one. Memory is rounded up as the scheduler will round it.

    Raises
    ------
    UnsupportedError, ResourcesError, SubmissionError
        With every problem that can be found at once.
    ClusterError
        The ResourceManager does not answer, or HDFS where a path of it is given.
    """
    with ThreadPoolExecutor(1) as aside:
        nodes = aside.submit(rm.get, "/ws/v1/cluster/nodes")
        scheduler = read_scheduler(rm.get("/ws/v1/cluster/scheduler"))
        label = spec.node_label or ""
        found = Found(scheduler=scheduler, nodes=read_nodes(nodes.result()), label=label)
    wanted = spec.queue or DEFAULT
    queue = found.scheduler.find(wanted)
    storage = storage_problem(conf)
    problems = [
        *([storage] if storage else ()),
        *_environment(spec),
        *_addresses(spec),
        *_tensorboard(spec),
        *_queue(wanted, queue, found),
    ]
    if queue is not None and not problems:
        words = refusal(rm, conf, queue)
        if words:
            fix = f"choose another with --queue{_others(found.scheduler, queue)}, or ask for access"
            problems.append(Problem(UnsupportedError, words, f"queue {queue.name}", fix))
    spec = fill(spec, queue, found, _step(conf))
    problems += check_resources(spec, queue, found)
    problems += path_problems(spec, conf)
    raise_problems(problems)
    return spec


def _environment(spec: JobSpec) -> Iterator[Problem]:
    try:
        refuse_reserved(spec.env)
    except UnsupportedError as error:
        yield Problem(UnsupportedError, error.what, error.where, error.fix)
    for key in spec.env:
        if key in _OF_YARN or key.startswith(_OF_YARN_PREFIXES):
            what = f"{key} is set in every container by YARN or by Submarine"
            yield Problem(UnsupportedError, what, "--env", "choose another name")


def _addresses(spec: JobSpec) -> Iterator[Problem]:
    yield from _address(spec.input_path, "--input_path")
    yield from _address(spec.checkpoint_path, "--checkpoint_path")


def _address(path: str | None, option: str) -> Iterator[Problem]:
    try:
        file_address(path or "", option)
    except UnsupportedError as error:
        yield Problem(UnsupportedError, error.what, error.where, error.fix)


def _tensorboard(spec: JobSpec) -> Iterator[Problem]:
    if not spec.tensorboard:
        return
    if spec.mode == "warm":
        what = "a TensorBoard beside a job is a container of the job's own application"
        yield Problem(UnsupportedError, what, "--mode", "leave --mode warm out, or --tensorboard")
    try:
        check_installed()
    except UnsupportedError as error:
        yield Problem(UnsupportedError, error.what, "--tensorboard", error.fix)


def _queue(wanted: str, queue: Queue | None, found: Found) -> Iterator[Problem]:
    where, scheduler = "--queue", found.scheduler
    if queue is None:
        if scheduler.strict:
            same = [leaf.path for leaf in scheduler.leaves if leaf.path.endswith(f".{wanted}")]
            fix = (
                f"write --queue {' or '.join(same)}"
                if same
                else f"its queues are {_all(scheduler)}"
            )
            what = f"the ResourceManager has no queue {wanted!r}"
            yield Problem(UnsupportedError, what, where, fix)
        return
    if not queue.leaf and not queue.makes_children and scheduler.kind == "capacity":
        below = [one.path for one in scheduler.leaves if one.path.startswith(f"{queue.path}.")]
        what = f"queue {queue.path} only holds other queues"
        yield Problem(UnsupportedError, what, where, f"choose one of {', '.join(below[:10])}")
    elif queue.state and queue.state != "RUNNING":
        what = f"queue {queue.path} takes no jobs: the ResourceManager says it is {queue.state}"
        fix = f"choose another with --queue{_others(scheduler, queue)}, or wait until it is started"
        yield Problem(UnsupportedError, what, where, fix)
    if found.label and queue.labels and not {"*", found.label} & set(queue.labels):
        what = f"queue {queue.path} may not use nodes labelled {found.label!r}"
        fix = f"its labels are {', '.join(queue.labels)}"
        yield Problem(UnsupportedError, what, "--node_label", fix)


def _all(scheduler: Scheduler) -> str:
    names = [queue.path.removeprefix("root.") for queue in scheduler.leaves[:10]]
    more = len(scheduler.leaves) - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "")


def _others(scheduler: Scheduler, queue: Queue) -> str:
    names = [one.path for one in scheduler.leaves if one != queue and one.state in ("", "RUNNING")]
    return f" ({', '.join(names[:5])})" if names else ""


def fill(spec: JobSpec, queue: Queue | None, found: Found, step: int) -> JobSpec:
    """Return `spec` with numbers for what was left to the cluster.

    Parameters
    ----------
    step
        Mebibytes that the scheduler rounds memory up to a multiple of.
    """
    most = found.most(queue)
    there = found.total if most is None else most
    gpus = min(1, there.get(GPU, 0), found.total.get(GPU, 0))
    largest = (queue.largest if queue else None) or {}
    memory = min(MEMORY_DEFAULT, largest.get(MEMORY, MEMORY_DEFAULT))
    return replace(spec, roles=tuple(_filled(role, gpus, memory, step) for role in spec.roles))


def _filled(role: Role, gpus: int, memory: int, step: int) -> Role:
    asked = role.resources
    if role.name in _NO_GPU:
        gpus = 0
    memory = asked.memory or memory
    return replace(
        role,
        resources=Resources(
            gpus=gpus if asked.gpus is None else asked.gpus,
            memory=-(-memory // step) * step,
            vcores=asked.vcores or 1,
        ),
    )


def _step(conf: HadoopConf) -> int:
    text = conf.get("yarn.scheduler.minimum-allocation-mb")
    # Without the ResourceManager's own figure none is assumed: it rounds by itself.
    return max(1, int(text)) if text.isdecimal() else 1
