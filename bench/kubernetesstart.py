"""Jobs on Kubernetes beside `kubectl create` and `kubectl logs -f` of the same script."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from kubernetes import client, config
from submarine_engine import JobState
from submarine_engine.installer.kubernetes import KubernetesCluster
from submarine_engine.installer.kubernetes.files import GPU, NAMESPACE
from submarine_engine.installer.kubernetes.image import PYTHON_IMAGE
from submarine_engine.testing.jobs import end_processes_of

from bench.latency import RETURN_NOW
from bench.peers import FIRST_LINE, first_line, own_home, submit
from bench.table import Figure, in_turn

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "7"))
VERSION = os.environ.get("BENCH_KUBERNETES")
"""The cluster's version; the default one unless set."""

PATIENCE = 300.0
PRINT_NOW = "import time\nprint(time.monotonic(), flush=True)\n"
HELD = "status.phase!=Succeeded,status.phase!=Failed"
"""Pods whose GPUs the scheduler counts as taken."""


@contextmanager
def on_kubernetes(folder: Path) -> Iterator[client.CoreV1Api]:
    """Let jobs go to a Kubernetes of their own, of one node with one GPU; give its API."""
    cluster = KubernetesCluster(folder / "own")
    try:
        cluster.up(nodes=1, gpus=1, version=VERSION)
        with own_home(folder / "home") as home:
            os.environ.update(cluster.environment())
            try:
                yield client.CoreV1Api(config.new_client_from_config(str(cluster.kubeconfig)))
            finally:
                end_processes_of(home, patience=30)
    finally:
        cluster.down()


def until_free(api: client.CoreV1Api) -> float:
    """Return when the API server has no pod any more that holds the GPU, on the monotonic clock."""
    end = time.monotonic() + PATIENCE
    while api.list_namespaced_pod(NAMESPACE, field_selector=HELD).items:
        if time.monotonic() > end:
            raise RuntimeError(f"a pod holds the GPU for {PATIENCE:g} s")
        time.sleep(0.005)
    return time.monotonic()


class Kubectl:
    """The peer: a pod of one script, made by hand, and its log.

    Parameters
    ----------
    folder
        Where its manifest is written.
    source
        The script.
    """

    def __init__(self, folder: Path, source: str) -> None:
        self._file = folder / "pod.json"
        container = {
            "name": "main",
            "image": PYTHON_IMAGE,
            "command": ["python3", "-u", "-c", source],
            "resources": {"limits": {GPU: "1"}},
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
            },
        }
        spec = {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "securityContext": {
                "runAsNonRoot": True,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [container],
        }
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "peer"}, "spec": spec}
        self._file.write_text(json.dumps(pod))

    @contextmanager
    def followed(self) -> Iterator[tuple[str, subprocess.Popen[str]]]:
        """Create it; give its first line, and the program that follows its log."""
        subprocess.run(["kubectl", "create", "-f", self._file], check=True, capture_output=True)
        try:
            yield self._follow()
        finally:
            words = ["kubectl", "delete", "--now", "-f", str(self._file)]
            subprocess.run(words, check=True, capture_output=True)

    def _follow(self) -> tuple[str, subprocess.Popen[str]]:
        """Ask for the log until there is one: `kubectl` waits for no container to begin."""
        words = ["kubectl", "logs", "--follow", "peer"]
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            process = subprocess.Popen(
                words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
            assert process.stdout
            if line := process.stdout.readline():
                return line, process
            process.communicate()
            time.sleep(0.05)
        raise RuntimeError(f"the pod has written nothing for {PATIENCE:g} s")


def first(folder: Path) -> Figure:
    """Measure from the request to the first line."""
    peer = Kubectl(folder, FIRST_LINE)

    def ours(api: client.CoreV1Api) -> float:
        until_free(api)
        start = time.monotonic()
        job = submit(FIRST_LINE, gpus=1, cluster="kubernetes")
        seen = first_line(job)
        job.wait()
        return seen - start

    def theirs(api: client.CoreV1Api) -> float:
        until_free(api)
        start = time.monotonic()
        with peer.followed() as (_, process):
            seen = time.monotonic()
            process.communicate()
            return seen - start

    mine, kubectls = _measured(folder, ours, theirs)
    return Figure(
        what="Kubernetes: request → first line",
        target="≤ 1.2 of kubectl",
        unit="s",
        ours=mine,
        peers={"kubectl create, logs -f": kubectls},
    )


def results(folder: Path) -> Figure:
    """Measure from the function's return to its value in the hand of who waits for it."""
    peer = Kubectl(folder, PRINT_NOW)

    def ours(api: client.CoreV1Api) -> float:
        until_free(api)
        returned: float = submit(RETURN_NOW, gpus=1, cluster="kubernetes").result()
        return time.monotonic() - returned

    def theirs(api: client.CoreV1Api) -> float:
        until_free(api)
        with peer.followed() as (line, process):
            process.communicate()
            return time.monotonic() - float(line)

    mine, kubectls = _measured(folder, ours, theirs)
    return Figure(
        what="Kubernetes: return → result",
        target="≤ 0.2 s",
        unit="s",
        ours=mine,
        peers={"kubectl logs -f, to its end": kubectls},
    )


def release(folder: Path) -> Figure:
    """Measure from the return until the API server counts the GPU as free."""
    peer = Kubectl(folder, PRINT_NOW)

    def ours(api: client.CoreV1Api) -> float:
        until_free(api)
        job = submit(RETURN_NOW, gpus=1, cluster="kubernetes")
        while job.status().state is JobState.QUEUED:
            time.sleep(0.002)
        free = until_free(api)
        returned: float = job.result()
        return free - returned

    def theirs(api: client.CoreV1Api) -> float:
        until_free(api)
        with peer.followed() as (line, process):
            free = until_free(api)
            process.communicate()
            return free - float(line)

    mine, kubectls = _measured(folder, ours, theirs)
    return Figure(
        what="Kubernetes: return → GPU free as the API server counts it",
        target="≤ 0.3 s",
        unit="s",
        ours=mine,
        peers={"kubectl create, until its pod has ended": kubectls},
    )


def _measured(folder: Path, *measures: Callable[[client.CoreV1Api], float]) -> list[list[float]]:
    """Take the measures in turn on one Kubernetes."""
    with on_kubernetes(folder) as api:
        return in_turn(ROUNDS, *(partial(measure, api) for measure in measures))
