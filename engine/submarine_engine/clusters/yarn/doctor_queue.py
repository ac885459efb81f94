"""The doctor's look at the queue that jobs go to, and at the GPUs."""

from __future__ import annotations

from collections.abc import Iterator

from submarine_engine.clusters.yarn import gpus as inventory
from submarine_engine.clusters.yarn.access import refusal
from submarine_engine.clusters.yarn.doctor_cluster import Asked
from submarine_engine.clusters.yarn.foreign import GPU, MEMORY, VCORES, in_words
from submarine_engine.clusters.yarn.limits import MASTER_MEMORY
from submarine_engine.clusters.yarn.queues import masters_that_fit
from submarine_engine.clusters.yarn.scheduler import read_scheduler
from submarine_engine.doctor import BAD, NOTE, OK, Check


def queue(asked: Asked) -> Iterator[Check]:
    """Check that the queue is there, runs, and takes this user's jobs."""
    manager = asked.manager()
    scheduler = read_scheduler(manager.get("/ws/v1/cluster/scheduler"))
    found = scheduler.find(asked.queue)
    names = ", ".join(leaf.path.removeprefix("root.") for leaf in scheduler.leaves[:10])
    fix = f"choose another with --queue: {names}" if names else "choose another with --queue"
    if found is None:
        verdict = BAD if scheduler.strict else NOTE
        yield Check("queue", verdict, f"the ResourceManager does not tell of {asked.queue!r}", fix)
    elif found.state not in ("", "RUNNING"):
        yield Check("queue", BAD, f"{found.path} takes no jobs: it is {found.state}", fix)
    elif words := refusal(manager, asked.conf, found):
        yield Check("queue", BAD, words, fix)
    else:
        most = f", at most {in_words(found.most)}" if found.most else ""
        waiting = f", {found.pending} waiting to start" if found.pending else ""
        counted = f"; applications: {found.applications}{waiting}" if found.most else ""
        yield Check("queue", OK, f"{found.path}{most}{counted}")


def gpus(asked: Asked) -> Iterator[Check]:
    """Check that the scheduler accounts GPUs, and that the queue may hold some."""
    found = [node for node in asked.nodes() if node.up]
    if found and not any(GPU in node.total for node in found):
        yield Check(
            "GPUs",
            NOTE,
            f"the scheduler accounts none, but {', '.join(sorted({*found[0].total}))}",
            "name yarn.io/gpu in resource-types.xml and yarn.nodemanager.resource-plugins, and "
            "let yarn.scheduler.capacity.resource-calculator be the DominantResourceCalculator",
        )
        return
    shares = inventory.gpu_shares(asked.manager())
    parts = [f"{one.kind} {one.name} {one.free} of {one.total} free" for one in shares[:8]]
    if not parts:
        yield Check("GPUs", NOTE, "no node has one", "see yarn.nodemanager.resource-plugins there")
        return
    mine = asked.found()
    if mine is not None and mine.most is not None and not mine.most.get(GPU):
        yield Check("GPUs", NOTE, f"queue {mine.path} may hold none", "choose another with --queue")
    yield Check("GPUs", OK, f"known to the scheduler: {', '.join(parts)}")


def masters(asked: Asked) -> Iterator[Check]:
    """Check how many warm application masters the queue has room for."""
    title, found = "application masters", asked.found()
    if found is None or found.am_limit is None:
        yield Check(title, OK, "the scheduler tells no limit")
        return
    limit = {name: found.am_limit[name] for name in (MEMORY, VCORES) if name in found.am_limit}
    fits = masters_that_fit(found, MASTER_MEMORY, asked.conf.user)
    what = f"queue {found.path} gives them {in_words(limit)}"
    if fits:
        yield Check(title, OK, f"{what}: room for {fits} warm ones beside others' jobs")
        return
    yield Check(
        title,
        NOTE,
        f"{what}: none to spare for a warm one, so every job starts an application of its own",
        "raise yarn.scheduler.capacity.maximum-am-resource-percent",
    )
