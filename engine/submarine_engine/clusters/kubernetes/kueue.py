"""Kueue, where a cluster has it: its local queues, and what a job waits for in one, in words."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from submarine_engine.amounts import shortened
from submarine_engine.clusters.kubernetes.client import LONGEST_REASON, RefusedError
from submarine_engine.clusters.polled import Polled
from submarine_engine.errors import SubmissionError, UnsupportedError

if TYPE_CHECKING:
    from submarine_engine.clusters.kubernetes.client import Answer, Kubernetes

GROUP = "kueue.x-k8s.io"

EVICTED = "TerminationTarget"
"""The condition of a pod that Kueue ends."""

_HOLDS = 1.0  # seconds for which the answer holds which workloads there are
_MOST_NAMED = 10
_MISSING = re.compile(r"insufficient unused quota for (\S+) in flavor (\S+), (\S+) more needed")
_CLOSED = re.compile(r"Queue (\S+ )?(is stopped|is inactive|doesn't exist)")
_TOO_LARGE = re.compile(r"insufficient quota for (\S+) in flavor")


def is_eviction(condition: Mapping[str, Any] | None) -> bool:
    """Return whether Kueue takes a pod back, which may have its turn again.

    It does that for another one of a higher priority, or since its queue is stopped and drained.
    Who deletes a workload, or says that it shall not be active, ends the job by hand.

    Parameters
    ----------
    condition
        The pod's of the kind `EVICTED`; None for none.
    """
    reason = str((condition or {}).get("reason") or "")
    return reason.startswith("WorkloadEvicted") and "Deactivated" not in reason


class Kueue:
    """Kueue's queues in the namespace of jobs.

    Parameters
    ----------
    api
        The cluster.
    """

    def __init__(self, api: Kubernetes) -> None:
        self._api = api
        self._workloads = Polled(lambda: self._list("workloads"), holds=_HOLDS)

    def refuse_unknown(self, name: str) -> None:
        """Refuse a queue that is not there.

        Parameters
        ----------
        name
            Of the local queue.

        Raises
        ------
        UnsupportedError
            There is none of that name, or no Kueue.
        SubmissionError
            The role does not see queues.
        ClusterError
            The server does not answer.
        """
        try:
            found = self._list("localqueues")
        except RefusedError as error:
            raise SubmissionError(
                error.what,
                where="--queue",
                fix="ask for the role of Kueue's users in this namespace: kueue-batch-user-role",
            ) from error
        if found is None:
            raise UnsupportedError(
                f"the cluster has no Kueue, and so no queue {name!r}",
                where="--queue",
                fix="leave it out: jobs wait for room on the nodes then, first come first served",
            )
        names = sorted(str(one["metadata"]["name"]) for one in found)
        if name not in names:
            some = ", ".join(names[:_MOST_NAMED]) or "it has none (kubectl get localqueues -A)"
            raise UnsupportedError(
                f"Kueue has no queue {name!r} in the namespace {self._api.namespace}",
                where="--queue",
                fix=f"choose one of this namespace: {some}; or leave it out",
            )

    def waiting(self, queue: str, pods: Collection[str]) -> tuple[int, str]:
        """Return how many workloads of the namespace are before a job, and why it waits.

        Parameters
        ----------
        queue
            The local queue's name.
        pods
            The names of the job's pods.

        Raises
        ------
        ClusterError
            The server does not answer, or the role does not see workloads.
        """
        waiting = [one for one in self._workloads.answer() or () if _waits(one, queue)]
        mine = next((one for one in waiting if _owners(one) & set(pods)), None)
        if mine is None:
            return 0, ""
        return sum(_rank(one) < _rank(mine) for one in waiting), reason(mine, queue)

    def _list(self, kind: str) -> list[Answer] | None:
        """Return all of a kind in the namespace; None where Kueue is not there."""
        version = self._api.version_of(GROUP)
        return None if version is None else self._api.custom(GROUP, version, kind)


def reason(workload: Mapping[str, Any], queue: str) -> str:
    """Return why a workload waits, in words.

    Parameters
    ----------
    workload
        As Kueue tells of it.
    queue
        The local queue's name.
    """
    condition = _condition(workload, "QuotaReserved")
    text = shortened(str(condition.get("message") or ""), LONGEST_REASON)
    if not text:
        return f"the queue {queue} has not let it in yet"
    if _CLOSED.search(text):
        return (
            f"the queue {queue} is stopped, or not set up: it lets nothing in until somebody opens"
            f" it (kubectl describe localqueue {queue})"
        )
    if missing := _MISSING.search(text):
        what, flavor, more = missing.groups()
        return f"the quota of the queue {queue} is in use: {more} more of {what} needed ({flavor})"
    if large := _TOO_LARGE.search(text):
        return f"it asks for more of {large[1]} than the queue {queue} ever gives"
    return f"Kueue says: {text}"


def _condition(workload: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    found = workload.get("status", {}).get("conditions") or []
    return next((one for one in found if one.get("type") == kind), {})


def _waits(workload: Mapping[str, Any], queue: str) -> bool:
    spec = workload.get("spec", {})
    return (
        spec.get("queueName") == queue
        and spec.get("active") is not False
        and _condition(workload, "QuotaReserved").get("status") != "True"
        and _condition(workload, "Finished").get("status") != "True"
    )


def _owners(workload: Mapping[str, Any]) -> set[str]:
    owners = workload["metadata"].get("ownerReferences") or []
    return {str(one.get("name")) for one in owners if one.get("kind") == "Pod"}


def _rank(workload: Mapping[str, Any]) -> tuple[int, str, str]:
    """Return where a workload stands in its queue: by priority, then by age."""
    metadata = workload["metadata"]
    priority = int(workload.get("spec", {}).get("priority") or 0)
    return -priority, str(metadata.get("creationTimestamp")), str(metadata.get("uid"))


__all__ = ["EVICTED", "GROUP", "Kueue", "is_eviction", "reason"]
