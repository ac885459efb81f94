"""Kubernetes as a backend: what a job may ask for, whose the GPUs are, and what its jobs share."""

from __future__ import annotations

import math
import os
import platform
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from submarine_engine.bundle.modules import ran_by_path
from submarine_engine.clusters import saving
from submarine_engine.clusters.backend import Backend, KeptJob
from submarine_engine.clusters.base import Gpu, GpuShare, node_shares
from submarine_engine.clusters.kubernetes.client import Kubernetes, QuotaError, find_config
from submarine_engine.clusters.kubernetes.environment import (
    check_environment,
    prepare_environment,
)
from submarine_engine.clusters.kubernetes.manifest import (
    JOB,
    OWNER,
    chosen,
    gpu_resource,
    image_of,
    manifests,
    node_labels,
    tolerations_of,
)
from submarine_engine.clusters.kubernetes.noted import pods_of, python_of
from submarine_engine.clusters.kubernetes.quota import refuse_beyond_quota
from submarine_engine.clusters.kubernetes.saving import PodHook
from submarine_engine.clusters.kubernetes.state import KubernetesState, needs
from submarine_engine.clusters.refusals import Largest, completed, refuse_foreign, refuse_larger
from submarine_engine.clusters.saving import FolderTarget, kept_storage
from submarine_engine.config import load_config
from submarine_engine.errors import ClusterError
from submarine_engine.findings import NOTE, Check
from submarine_engine.history import JobPaths, is_job_id, read_json
from submarine_engine.job import JobState

if TYPE_CHECKING:
    import socket

    from submarine_engine.bundle import Bundle
    from submarine_engine.clusters.backend import KeeperFolder
    from submarine_engine.clusters.base import Saved
    from submarine_engine.clusters.kubernetes.request import KubernetesRequest
    from submarine_engine.clusters.kubernetes.state import Node
    from submarine_engine.clusters.saving import SaveRequest
    from submarine_engine.config import Config
    from submarine_engine.job import JobSpec

_INHERITED = ("LANG", "LC_ALL", "TZ", "MPLBACKEND")
"""What tasks have of the submitter's environment: none of it is a secret, or a path."""

_BEGINS_WITHIN = 900.0  # seconds that a pod waits for its job's files, before it ends by itself
_CHECKED = "submarine-check"
_UNSEEN = 1  # GPUs of a node of which nothing can be seen: a worker asks for one
_MEGABYTE = 1 << 20
_SWEEPS_EVERY = 2.0  # seconds between two looks for pods that nobody wants
_GIVES_UP = 30.0  # seconds that a silent cluster is asked for them when none may come any more


class UnseenError(ClusterError):
    """The user's role does not see the cluster's GPUs; jobs need no such role."""


class KubernetesBackend(Backend):
    """Jobs in a namespace of a Kubernetes cluster.

    Parameters
    ----------
    home
        Where jobs are kept, see `default_home`.

    Raises
    ------
    ConfigError
        There is no kubeconfig, or the official client is not installed.
    """

    name = "kubernetes"
    title = "Kubernetes"
    no_gpus = "see `kubectl describe nodes`; a device plugin has to tell of GPUs (nvidia.com/gpu)"
    idle = 5.0  # a keeper keeps nothing warm here

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self.api = Kubernetes()
        self.state = KubernetesState(self.api, home / self.name, self.submit_queue)
        self._swept_at = self._began_at = -math.inf
        self._sweeper = threading.Thread()

    @classmethod
    def configured(cls) -> bool:
        """Return whether there is a kubeconfig."""
        return bool(find_config()) or "KUBERNETES_SERVICE_HOST" in os.environ

    @classmethod
    def checks(cls, config: Config) -> Iterator[Check]:
        """Yield what ``submarine doctor`` says of this cluster: its GPUs, where they can be seen.

        Parameters
        ----------
        config
            The settings.
        """
        try:
            yield from super().checks(config)
        except UnseenError as error:
            backend = cls(Path(config.value("home")))
            backend.api.pods(f"{OWNER}={backend.state.owner}")  # as jobs need it
            yield Check("GPUs", NOTE, error.what, error.fix)

    @property
    def key(self) -> str:
        """What tells one cluster, namespace and user from another."""
        return self.api.fingerprint

    def check(self, spec: JobSpec) -> JobSpec:
        """Refuse what the cluster cannot do, and fill in what was left to it."""
        refuse_foreign(spec)
        check_environment(chosen(spec, "environment"))
        spec = self._filled(spec)
        if spec.queue:
            self.state.kueue.refuse_unknown(spec.queue)
        self._try_out(spec)
        return spec

    def _filled(self, spec: JobSpec) -> JobSpec:
        """Fill in the GPUs that were left open; refuse a task that fits no node at all."""
        nodes = self.state.nodes()
        if nodes is None:  # not ours to know
            return completed(spec, _UNSEEN)
        labels = node_labels(spec)
        rooms = [node.room for node in nodes if node.has(labels)]
        gpus, memory, cores = (
            max((int(room.get(name, 0)) for room in rooms), default=0)
            for name in (gpu_resource(spec), "memory", "cpu")
        )
        # Where no node has the labels, what such a node would have is not known either.
        spec = completed(spec, gpus if rooms else _UNSEEN)
        for role in spec.roles:
            refuse_larger(
                role,
                Largest(gpus, memory // _MEGABYTE, cores),
                "see `kubectl describe nodes`. --gpu_resource names GPUs that are called otherwise",
            )
        return spec

    def _try_out(self, spec: JobSpec) -> None:
        """Have the cluster itself say what is wrong: a quota, its admission, a class."""
        tried = manifests(
            spec.smallest,
            job_id=_CHECKED,
            attempt=1,
            turn=0,
            owner="check",
            launch=self._launch(spec, 30.0),
        )
        seen = set()
        for manifest in tried.values():
            alike = str(manifest["spec"]["containers"][0]["resources"])
            if alike not in seen:
                seen.add(alike)
                try:
                    self.api.create(manifest, dry_run=True)
                except QuotaError as error:  # a job waits for what others have of it now
                    refuse_beyond_quota(error, [pod["spec"] for pod in tried.values()])

    def _launch(self, spec: JobSpec, grace: float) -> dict[str, Any]:
        settings = load_config()
        user = settings.value("kubernetes_user") or self.api.own_user or os.getuid() or 1000
        return {
            "python": settings.value("kubernetes_python"),
            "image": image_of(spec, self.api.own_image),
            "user": user,
            "keep": settings.value("kubernetes_keep"),
            "lease": settings.value("kubernetes_lease"),
            "begins_within": _BEGINS_WITHIN,
            "grace": grace,
        }

    def prepare(
        self,
        spec: JobSpec,
        bundle: Bundle,
        tell: Callable[[str], object],
    ) -> dict[str, Any]:
        """Note which image tasks run in, as whom, and by which Python; pack that if need be."""
        outer = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        launch = self._launch(spec, spec.grace or 0.0)
        del launch["grace"]  # what a job may say last is noted by whoever keeps its record
        beside = ran_by_path(bundle.files)
        environment = prepare_environment(
            chosen(spec, "environment"), self.home / "cache" / "layers", tell
        )
        for note in environment.pop("notes", ()):
            warnings.warn(note, stacklevel=2)
        launch.update(environment)
        return {**launch, "outer": outer, "beside": beside, "here": platform.python_version()}

    def gpus(self, held: Mapping[str, str]) -> list[Gpu]:
        """Return the GPUs of all nodes that jobs may have, and who holds each, as scheduled."""
        nodes, pods = self.state.nodes(), self.api.all_pods()
        if nodes is None or pods is None:
            raise UnseenError(
                "your role does not see the cluster's nodes and pods, and so no GPUs",
                where=f"namespace {self.api.namespace}",
                fix="ask for the ClusterRole that docs/kubernetes.md shows; jobs run without it",
            )
        name = gpu_resource()
        found, labels, tolerations = [], node_labels(), tolerations_of()
        for node in (one for one in nodes if one.has(labels)):
            holders = [
                pod for pod in pods if pod["spec"].get("nodeName") == node.name
                for _ in range(int(needs(pod["spec"])[name]))
            ]  # fmt: skip
            total = int(node.room.get(name, 0))
            barred = _barred(node, tolerations)
            for index in range(total):
                pod = holders[index] if index < len(holders) else None
                found.append(_gpu(node, index, pod, held, barred))
        return found

    def gpu_shares(self) -> list[GpuShare]:
        """Return what every node has of the GPUs."""
        return node_shares(self.gpus({}))

    def save(self, asked: SaveRequest, path: str) -> Saved:
        """Bring the model of a running job to a folder."""
        with closing(PodHook(self.api, asked)) as hook:
            return saving.save(asked, FolderTarget(Path(path)), hook, kept_storage(asked))

    def reach_inside(self, paths: JobPaths, task: str) -> socket.socket | None:
        """Connect to the server beside a task, by its pod."""
        from submarine_engine.clusters.kubernetes.inside import reach  # noqa: PLC0415 - few are gone into

        if (pod := pods_of(paths).get(task)) is None:
            raise ClusterError("it has no pod now", where=f"job {paths.job_id}", fix="ask again")
        return reach(self.api, pod, task, python_of(paths))

    def begin(self, folder: KeeperFolder, stop: threading.Event) -> None:  # noqa: ARG002 - as others need it
        """Delete the pods that former keepers could not."""
        self._begin_sweep()

    def tend(self) -> bool:
        """Look again for pods that nobody wants, as long as one may come late; whether it may.

        A keeper may have been killed, or been told nothing, while the cluster was creating a pod;
        its job may end, or ask for others, before that is there: it would hold its GPUs until it
        ends by itself, as nobody brings it anything.
        """
        lands_until = self.state.lands_until
        is_long_ago = time.monotonic() > lands_until + _GIVES_UP  # the cluster is silent
        if self._swept_at > lands_until or is_long_ago:
            return False
        if not self._sweeper.is_alive() and time.monotonic() - self._began_at > _SWEEPS_EVERY:
            self._begin_sweep()
        return True

    def _begin_sweep(self) -> None:
        self._began_at = time.monotonic()
        self._sweeper = threading.Thread(target=self._sweep, args=(self._began_at,), daemon=True)
        self._sweeper.start()

    def _sweep(self, began: float) -> None:
        """Delete the pods of jobs that are over or are gone, and those that no job has asked for.

        The cluster is asked first: a job notes what its pods are called before they are created.
        """
        with suppress(ClusterError):
            for told in self.api.pods(f"{OWNER}={self.state.owner}"):
                name = told["metadata"]["name"]
                if not is_job_id(job_id := str(told["metadata"]["labels"].get(JOB))):
                    continue  # somebody else has made it
                paths = JobPaths(self.home, job_id)
                with suppress(OSError, ValueError, KeyError, TypeError):
                    summary = read_json(paths.status)
                    is_over = summary is not None and JobState(str(summary["state"])).final
                    if is_over or name not in pods_of(paths).values():
                        self.api.delete(name, grace=1)
            self._swept_at = began

    def request(self, job: KeptJob) -> KubernetesRequest:
        """Return what asks for a job and follows it."""
        from submarine_engine.clusters.kubernetes.request import KubernetesRequest  # noqa: PLC0415 - keepers'

        return KubernetesRequest(self.state, job)

    def give_up(self, paths: JobPaths) -> None:
        """End what the cluster has of a job that cannot be followed."""
        with suppress(ClusterError):
            for told in self.api.pods(f"{OWNER}={self.state.owner},{JOB}={paths.job_id}"):
                self.api.delete(told["metadata"]["name"], grace=1)


def _barred(node: Node, tolerations: Sequence[Mapping[str, Any]]) -> str | None:
    """Return why a node's free GPUs are none for a job of the settings; None where they are."""
    if not node.usable:
        return "nobody: the node takes no pods"
    if not node.takes({}, tolerations):
        return "nobody: the node has taints that --tolerations has to name"
    return None


def _gpu(
    node: Node, index: int, pod: Mapping[str, Any] | None, held: Mapping[str, str],
    barred: str | None,
) -> Gpu:  # fmt: skip
    words = barred
    if pod is not None:
        meta = pod["metadata"]
        words = f"pod {meta['name']} of {meta['namespace']}"
    return Gpu(
        id=f"{node.name}:{index}",
        name=node.gpu_name,
        host=node.name,
        job_id=held.get(pod["metadata"]["name"]) if pod is not None else None,
        holder=words,
    )
