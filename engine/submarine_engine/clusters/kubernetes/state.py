"""What is known of a cluster for a moment: its pods and nodes, asked once for all jobs."""

from __future__ import annotations

import calendar
import math
import os
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kubernetes.utils.quantity import parse_quantity

from submarine_engine.amounts import shortened
from submarine_engine.clusters.kubernetes.client import LONGEST_REASON
from submarine_engine.clusters.kubernetes.kueue import EVICTED, Kueue, is_eviction
from submarine_engine.clusters.kubernetes.manifest import FILES_CONTAINER, OWNER, TASK_CONTAINER
from submarine_engine.clusters.polled import WORK, Polled
from submarine_engine.history import make_private, write_first

if TYPE_CHECKING:
    from submarine_engine.clusters.backend import SubmitQueue
    from submarine_engine.clusters.kubernetes.client import Answer, Kubernetes

_SOONEST = 0.03  # seconds between two looks of whoever waits for a pod's next step
_NODES_FOR = 1.0  # seconds for which the answer holds which nodes there are

_LANDS_WITHIN = 75.0
"""Seconds in which the creation of a pod may land whose asker has heard no answer: an API server
gives up a request after 60 s, and this one may have been on its way for a while."""

IMAGE_WORDS = {
    "ErrImagePull": "its image cannot be pulled",
    "ImagePullBackOff": "its image cannot be pulled",
    "ErrImageNeverPull": "its image is not on the node",
    "InvalidImageName": "its image's name is none",
    "ImageInspectError": "its image is broken",
    "RegistryUnavailable": "the registry of its image does not answer",
}
"""What the reasons mean for which an image keeps a container waiting that should run."""

CONTAINER_WORDS = {
    "CreateContainerConfigError": "its container cannot be made",
    "CreateContainerError": "its container cannot be made",
    "RunContainerError": "its container cannot be begun",
}
"""What the others mean, which may pass as those of images may."""

HOPELESS = frozenset({"InvalidImageName", "ErrImageNeverPull", "ImageInspectError"})
"""Those that do not pass."""

OOM_WORDS = "OOMKilled: the task took more memory than it asked for"
"""Of a task that is killed for its memory: people look for the cluster's own word."""

_LOST = frozenset({"Evicted", "Preempting", "Preempted", "NodeLost", "NodeShutdown", "Shutdown",
                   "Terminated", "NodeAffinity", "UnexpectedAdmissionError"})  # fmt: skip
_KEEPS_AWAY = ("NoSchedule", "NoExecute")  # effects of taints
_SCHEDULER_WORDS = (
    ("untolerated taint", "nodes have taints that it does not tolerate (--tolerations)"),
    ("didn't match Pod's node affinity/selector", "no node has the labels of --node_selector"),
    ("Insufficient cpu", "no node has so many processors free"),
    ("Insufficient memory", "no node has so much memory free"),
    ("Too many pods", "its nodes run as many pods as they may"),
    ("persistentvolumeclaim", "a volume claim of its is missing or not bound"),
    ("unbound immediate PersistentVolumeClaims", "a volume claim of its is not bound"),
    ("node(s) were unschedulable", "nodes are cordoned"),
)


class Pod(NamedTuple):
    """A pod as the API server tells of it.

    Parameters
    ----------
    name, phase, node
        As Kubernetes has them; no node yet where empty.
    told
        All of it.
    """

    name: str
    phase: str
    node: str
    told: Answer

    @classmethod
    def read(cls, told: Answer) -> Pod:
        """Read `told`, an item of the API's list of pods."""
        phase = str(told.get("status", {}).get("phase") or "")
        return cls(told["metadata"]["name"], phase, str(told["spec"].get("nodeName") or ""), told)

    @property
    def final(self) -> bool:
        """Whether it holds nothing any more."""
        return self.phase in ("Succeeded", "Failed")

    @property
    def is_out(self) -> bool:
        """Whether it holds nothing, and never will: it is over, or ends before it had a node."""
        return self.final or (self.ending and not self.node)

    @property
    def ending(self) -> bool:
        """Whether somebody has asked for its end."""
        return "deletionTimestamp" in self.told["metadata"]

    @property
    def is_lost(self) -> bool:
        """Whether the cluster ends it by itself: preempted, evicted, its node drained or gone."""
        status = self.told.get("status", {})
        if status.get("reason") in _LOST or self._condition("DisruptionTarget") is not None:
            return True
        return is_eviction(self._condition(EVICTED))

    @property
    def is_gated(self) -> bool:
        """Whether it waits for a queue of the cluster's to let it in."""
        return bool(self.told["spec"].get("schedulingGates"))

    @property
    def scheduled_at(self) -> float:
        """When it was given its node, on the cluster's wall clock; 0 for not yet."""
        found = self._condition("PodScheduled") or {}
        with suppress(ValueError):
            at = str(found.get("lastTransitionTime"))
            return float(calendar.timegm(time.strptime(at, "%Y-%m-%dT%H:%M:%SZ")))
        return 0.0

    def _condition(self, kind: str) -> Mapping[str, Any] | None:
        conditions = self.told.get("status", {}).get("conditions") or []
        true = (one for one in conditions if one.get("status") == "True")
        return next((one for one in true if one.get("type") == kind), None)

    def container(self, name: str) -> tuple[str, Mapping[str, Any]]:
        """Return the state of its container `name` and what belongs to that; "" for none yet."""
        for one in self.told.get("status", {}).get("containerStatuses") or []:
            if one.get("name") == name:
                for state, more in (one.get("state") or {}).items():
                    return state, more or {}
        return "", {}

    @property
    def end_words(self) -> str:
        """What the cluster says of its end; empty where nothing."""
        status = self.told.get("status", {})
        if disrupted := self._condition("DisruptionTarget") or self._condition(EVICTED):
            return _words(disrupted.get("reason"), disrupted.get("message"))
        if status.get("reason"):
            return _words(status["reason"], status.get("message"))
        state, more = self.container(TASK_CONTAINER)
        if state == "terminated" and more.get("reason") == "OOMKilled":
            return OOM_WORDS
        if state == "terminated" and more.get("exitCode") and more.get("message"):
            # The code's own output is in files: this is what kept our program from its end.
            return _words(more.get("reason"), more["message"])
        state, more = self.container(FILES_CONTAINER)
        if state == "terminated" and more.get("exitCode") and more.get("message"):
            return _words("its files are gone", more["message"])  # it says why it did not wait
        return ""

    @property
    def wait_words(self) -> str:
        """Why it does not run yet, in words; empty where it does."""
        if self.node:
            makes = "its node makes its containers" if self.phase == "Pending" else ""
            return self.trouble or makes
        if self.is_gated:
            return "the cluster's queue has not let it in yet"
        conditions = self.told.get("status", {}).get("conditions") or []
        said = next(
            (str(o.get("message")) for o in conditions if o.get("type") == "PodScheduled"), ""
        )
        known = [words for part, words in _SCHEDULER_WORDS if part in said]
        if "Insufficient" in said and "/" in said.partition("Insufficient ")[2].split(" ")[0]:
            known.insert(0, "no node has so many GPUs free")
        said = shortened(said, LONGEST_REASON)
        return "; ".join(known) or (said and f"the scheduler says: {said}")

    @property
    def trouble(self) -> str:
        """What is wrong with its containers so that they wait, in words; empty where nothing."""
        for name in (TASK_CONTAINER, FILES_CONTAINER) if self.node else ():
            state, more = self.container(name)
            reason = str(more.get("reason") or "")
            words = IMAGE_WORDS.get(reason) or CONTAINER_WORDS.get(reason)
            if state == "waiting" and words:
                return _words(words, more.get("message"))
        return ""


def _words(reason: object, message: object) -> str:
    text = shortened(str(message or ""), LONGEST_REASON)
    return f"{reason}: {text}" if text else str(reason or "")


class Node(NamedTuple):
    """A node: what it has of each resource, and which pods come to it."""

    name: str
    usable: bool
    room: Mapping[str, Decimal]
    gpu_name: str
    labels: Mapping[str, str]
    taints: Sequence[Mapping[str, Any]]

    @classmethod
    def read(cls, told: Answer) -> Node:
        """Read `told`, an item of the API's list of nodes."""
        conditions = told.get("status", {}).get("conditions") or []
        ready = any(o.get("type") == "Ready" and o.get("status") == "True" for o in conditions)
        labels = told["metadata"].get("labels") or {}
        spec = told.get("spec", {})
        return cls(
            told["metadata"]["name"],
            ready and not spec.get("unschedulable"),
            read_amounts(told.get("status", {}).get("allocatable") or {}),
            str(labels.get("nvidia.com/gpu.product") or "GPU"),
            labels,
            [one for one in spec.get("taints") or [] if one.get("effect") in _KEEPS_AWAY],
        )

    def has(self, labels: Mapping[str, str]) -> bool:
        """Return whether it has all of these labels."""
        return labels.items() <= self.labels.items()

    def takes(self, labels: Mapping[str, str], tolerations: Sequence[Mapping[str, Any]]) -> bool:
        """Return whether pods come to it, by its labels and its taints.

        Parameters
        ----------
        labels
            That they want of nodes.
        tolerations
            Theirs, as the API has them.
        """
        meets = (any(_tolerates(one, taint) for one in tolerations) for taint in self.taints)
        return self.has(labels) and all(meets)


def _tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    """Return whether a pod with a toleration meets a taint, as the scheduler has it."""
    key, effect = toleration.get("key"), toleration.get("effect")
    if (key and key != taint.get("key")) or (effect and effect != taint.get("effect")):
        return False
    if toleration.get("operator") == "Exists":
        return True
    same = (toleration.get("value") or "") == (taint.get("value") or "")
    return bool(key) and toleration.get("operator") in (None, "Equal") and same


def read_amounts(told: Mapping[str, Any]) -> dict[str, Decimal]:
    """Return quantities as numbers; what is none is left out.

    Parameters
    ----------
    told
        By resource, as Kubernetes writes them: ``500m``, ``2Gi``.
    """
    found = {}
    for name, text in told.items():
        with suppress(ValueError, ArithmeticError):
            found[name] = parse_quantity(text)
    return found


def needs(pod_spec: Mapping[str, Any]) -> Counter[str]:
    """Return how much of each resource a pod takes of its node, as the scheduler counts it.

    Parameters
    ----------
    pod_spec
        Its ``spec``.
    """
    found: Counter[str] = Counter()
    for container in pod_spec.get("containers") or []:
        asked = container.get("resources") or {}
        amounts = {**read_amounts(asked.get("limits") or {}),
                   **read_amounts(asked.get("requests") or {})}  # fmt: skip
        for name, amount in amounts.items():
            found[name] += amount  # type: ignore[assignment] # numbers all the same
    found["pods"] += 1
    return found


class KubernetesState:
    """A cluster as all jobs of a process see it.

    Parameters
    ----------
    api
        Who is asked.
    folder
        Where the id of this home is kept, which its pods carry.
    submit_queue
        The jobs that have not been asked for yet.

    Attributes
    ----------
    lands_until
        Until when, of `time.monotonic`, a pod may come whose creation nobody has seen answered.
    """

    def __init__(self, api: Kubernetes, folder: Path, submit_queue: SubmitQueue) -> None:
        self.api = api
        self.kueue = Kueue(api)
        self.submit_queue = submit_queue
        self.lands_until = -math.inf
        self._folder = folder
        self._pods = Polled(self._ask_pods, soon=lambda _, took: max(took * WORK, _SOONEST))
        self._nodes = Polled(self._ask_nodes, holds=_NODES_FOR, work=0)

    def miss_answer(self) -> None:
        """Note that a pod may be created late, and that nobody may want it then any more."""
        self.lands_until = time.monotonic() + _LANDS_WITHIN

    @property
    def owner(self) -> str:
        """What the pods of this home carry, made once."""
        path = self._folder / "owner"
        with suppress(FileNotFoundError):
            return path.read_text().strip()
        make_private(self._folder)
        write_first(path, os.urandom(8).hex().encode())
        return path.read_text().strip()

    def pods(self, *, since: float = -math.inf, hurry: bool = False) -> dict[str, Pod]:
        """Return the pods of this home by name: one question for all jobs that ask at a time.

        Parameters
        ----------
        since, hurry
            As `Polled.answer` has them.

        Raises
        ------
        ClusterError
            The server does not answer.
        """
        return self._pods.answer(since=since, hurry=hurry)

    def _ask_pods(self) -> dict[str, Pod]:
        found = map(Pod.read, self.api.pods(f"{OWNER}={self.owner}"))
        return {pod.name: pod for pod in found}

    def nodes(self) -> list[Node] | None:
        """Return the nodes, None where they are not ours to know; an answer holds for a second."""
        return self._nodes.answer()

    def _ask_nodes(self) -> list[Node] | None:
        told = self.api.nodes()
        return None if told is None else [Node.read(one) for one in told]

    def free(
        self, labels: Mapping[str, str], tolerations: Sequence[Mapping[str, Any]]
    ) -> dict[str, Counter[str]] | None:
        """Return what each usable node has free; None where that is not ours to know.

        Parameters
        ----------
        labels
            That nodes must have.
        tolerations
            Of the pods that are to come to them.
        """
        nodes, pods = self.nodes(), self.api.all_pods()
        if nodes is None or pods is None:
            return None
        usable = (node for node in nodes if node.usable and node.takes(labels, tolerations))
        free = {node.name: Counter(node.room) for node in usable}
        for pod in pods:
            if (node := pod["spec"].get("nodeName")) in free:
                free[node].subtract(needs(pod["spec"]))
        return free


def fits(pod_specs: Iterable[Mapping[str, Any]], free: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether there is room for pods at once, by what is free on nodes that take them.

    Parameters
    ----------
    pod_specs
        Each one's ``spec``.
    free
        As `KubernetesState.free` tells.
    """
    room = {node: dict(left) for node, left in free.items()}
    for spec in pod_specs:
        wanted = {name: amount for name, amount in needs(spec).items() if amount}
        found = (
            left
            for left in room.values()
            if all(left.get(name, 0) >= amount for name, amount in wanted.items())
        )
        if (place := next(found, None)) is None:
            return False
        for name, amount in wanted.items():
            place[name] -= amount
    return True
