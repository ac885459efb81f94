"""What a cluster can never grant, by the figures of its ResourceManager."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from submarine_engine.clusters.yarn.foreign import GPU, MEMORY, VCORES, in_words, plus, some
from submarine_engine.clusters.yarn.nodes import Node, largest, none_up, with_label
from submarine_engine.clusters.yarn.scheduler import Queue, Scheduler
from submarine_engine.errors import ResourcesError, SubmissionError
from submarine_engine.job import JobSpec, Role

MEMORY_DEFAULT = 2048
MASTER_MEMORY = 256

_GPU_FIX = (
    "let the administrator name yarn.io/gpu in resource-types.xml and in "
    "yarn.nodemanager.resource-plugins, and choose the DominantResourceCalculator; or ask for "
    "--gpus 0"
)


@dataclass(frozen=True, slots=True)
class Problem:
    """One reason why the job cannot run; `kind` is the error that it is alone."""

    kind: type[SubmissionError]
    what: str
    where: str
    fix: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What the ResourceManager told; `label` is the node label that the job asks for."""

    scheduler: Scheduler
    nodes: tuple[Node, ...]
    label: str = ""

    @property
    def usable(self) -> tuple[Node, ...]:
        """The nodes that may take the job's containers."""
        return with_label(self.nodes, self.label)

    @property
    def total(self) -> dict[str, int]:
        """What these have in all."""
        total: dict[str, int] = {}
        for node in self.usable:
            total = plus(total, node.total)
        return total

    def most(self, queue: Queue | None) -> Mapping[str, int] | None:
        """Return what the queue may hold of them; None where the scheduler does not tell."""
        if queue is None:
            return None
        return queue.partitions.get(self.label) if self.label else queue.most


def raise_problems(problems: list[Problem]) -> None:
    """Raise one error that tells all `problems`, of the kind of the first; nothing for none."""
    if not problems:
        return
    first = problems[0]
    if len(problems) == 1:
        raise first.kind(first.what, where=first.where, fix=first.fix)
    lines = "".join(f"\n  · {one.where}: {one.what}" for one in problems)
    fixes = dict.fromkeys(one.fix for one in problems if one.fix)
    raise first.kind(
        f"the job cannot run, for {len(problems)} reasons:{lines}",
        where="YARN cluster",
        fix="; ".join(fixes),
    )


def check_resources(spec: JobSpec, queue: Queue | None, found: Found) -> Iterator[Problem]:
    """Yield what the cluster can never grant, `spec` having all its numbers."""
    if not found.usable:
        label = f" and has the label {found.label!r}" if found.label else ""
        what = none_up(found.nodes) if not label else f"no node takes containers{label}"
        yield Problem(ResourcesError, what, "YARN cluster", "see `submarine doctor --cluster yarn`")
        return
    if spec.gpus and not any(GPU in node.total for node in found.nodes):
        what = f"the job asks for {some(GPU, spec.gpus)}, the scheduler accounts no GPUs"
        yield Problem(ResourcesError, what, "YARN cluster", _GPU_FIX)
        return
    total: dict[str, int] = {MEMORY: MASTER_MEMORY, VCORES: 1}
    limit = (queue.largest if queue else None) or {}
    said: set[str] = set()
    for role in spec.roles:
        each = _each(role)
        total = plus(total, each, role.count)
        said.update(_over(each, limit))
        yield from _container(role, each, limit, found)
    for there, whose in _limits(queue, found):
        for name in (name for name in (GPU, MEMORY, VCORES) if name not in said):
            if total.get(name, 0) > there.get(name, total.get(name, 0)):
                yield Problem(
                    ResourcesError,
                    f"the job asks for {some(name, total[name])} in all"
                    f"{'' if name == GPU else ', its application master among them'}; "
                    f"{whose} {some(name, there[name])} at most",
                    "YARN cluster",
                    "ask for fewer or smaller containers, or choose another queue",
                )


def _limits(queue: Queue | None, found: Found) -> Iterator[tuple[Mapping[str, int], str]]:
    most = found.most(queue)
    if queue is not None and most:
        yield most, f"queue {queue.path} may hold"
    if not most or any(most.get(name, 0) > value for name, value in found.total.items()):
        yield found.total, "the nodes that take containers have"


def _each(role: Role) -> dict[str, int]:
    asked = role.resources
    wanted = {MEMORY: asked.memory or MEMORY_DEFAULT, VCORES: asked.vcores or 1}
    return {GPU: asked.gpus, **wanted} if asked.gpus else wanted


def _over(each: Mapping[str, int], limit: Mapping[str, int]) -> list[str]:
    return [name for name, value in each.items() if value > limit.get(name, value)]


def _container(
    role: Role, each: Mapping[str, int], limit: Mapping[str, int], found: Found
) -> Iterator[Problem]:
    """Check one container of a role, and that all of them find a node."""
    where = f"role {role.name}"
    over = _over(each, limit)
    for name in over:
        yield Problem(
            ResourcesError,
            f"one container asks for {some(name, each[name])}, the scheduler gives "
            f"{some(name, limit[name])} at most ({_SETTINGS[name]})",
            where,
            f"ask for {some(name, limit[name])} or less",
        )
    room = sum(node.room(each, node.total) for node in found.usable)
    if over or room >= role.count:
        return
    if room == 0:
        what = f"one container asks for {in_words(each)}; no node has that, the largest is"
        yield Problem(ResourcesError, f"{what} {largest(found.usable)}", where, "ask for less")
    else:
        what = f"{role.count} containers of {in_words(each)} each; the nodes have room for {room}"
        yield Problem(ResourcesError, what, where, "ask for fewer or smaller ones")


_SETTINGS = {
    MEMORY: "yarn.scheduler.maximum-allocation-mb",
    VCORES: "yarn.scheduler.maximum-allocation-vcores",
    GPU: "yarn.resource-types.yarn.io/gpu.maximum-allocation",
}
