"""Kueue on the tests' own Kubernetes: its real controller, as a process beside the other daemons.

The program and the manifests of a release are what whoever runs the tests has laid into a folder:
`kueue` and `manifests.yaml`. Where there is none, these tests are skipped.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from submarine_engine.installer.kept import cache_folder
from submarine_engine.installer.kubernetes.files import GPU, NAMESPACE
from submarine_engine.testing.jobs import until

FOLDER = "SUBMARINE_TEST_KUEUE"
"""The variable that names the folder; `kueue` in the cache of Submarine's programs unless set."""

PATIENCE = 180.0
_WANTED = {"Namespace", "CustomResourceDefinition", "ClusterRole"}
_HOOKS = {"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"}
_SYSTEM = "kueue-system"
_FLAVOR = "any-node"
_TEAMS = ("team", "other")
_LIMITS = {"cpu": "64", "memory": "256Gi", "pods": "100"}


class Kueue:
    """Kueue's controller, and the queues that it serves.

    Parameters
    ----------
    kubernetes
        The cluster.
    folder
        Of the program and its manifests.
    work
        Of its keys, configuration and log.
    """

    def __init__(self, kubernetes, folder: Path, work: Path) -> None:
        self._kubernetes = kubernetes
        self._folder = folder
        self._work = work
        self._process: subprocess.Popen | None = None
        self._port, self._health = _free_ports(2)

    def kubectl(self, *words: str, given: str | None = None, check: bool = True) -> str:
        """Run ``kubectl`` as who runs the cluster; return what it says."""
        done = subprocess.run(
            ["kubectl", *words],
            env={**os.environ, **self._kubernetes.environment()},
            input=given,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )
        assert not check or done.returncode == 0, done.stderr
        return done.stdout

    def apply(self, *objects: object) -> None:
        """Have objects be there as they are given."""
        given = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
        words = ("apply", "--server-side", "--force-conflicts", "-f", "-")
        self.kubectl(*words, given=given)

    def start(self) -> None:
        """Start it on a cluster that knows nothing of it; return when it can be asked."""
        self._make_keys()
        read = list(yaml.safe_load_all((self._folder / "manifests.yaml").read_text()))
        mine = [one for one in read if one["kind"] in _WANTED]
        for one in mine:
            if hook := one.get("spec", {}).get("conversion", {}).get("webhook"):
                hook["clientConfig"] = self._client("/convert")
        self.apply(*mine)
        kinds = ("--for=condition=Established", "crd", "--all", f"--timeout={PATIENCE:.0f}s")
        self.kubectl("wait", *kinds)
        self.begin()
        self.apply(*(self._hooks(one) for one in read if one["kind"] in _HOOKS))
        until(self._takes_queues, PATIENCE)

    def begin(self) -> None:
        """Start its controller, once the cluster has its kinds; return when it can be asked."""
        config = self._work / "config.yaml"
        config.write_text(json.dumps(self._config()))
        # Its metrics want a certificate in this place, whether anybody reads them or not.
        script = 'mount -t overlay -o "lowerdir=$1:/etc" overlay /etc && exec "$2" --config "$3"'
        etc = self._work / "etc"
        words = ["unshare", "--mount", "sh", "-euc", script, "sh"]
        with (self._work / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*words, str(etc), str(self._folder / "kueue"), str(config)],
                env={"PATH": os.environ["PATH"], "KUBECONFIG": str(self._kubernetes.kubeconfig)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        until(self._is_ready, PATIENCE)

    def kill(self) -> None:
        """Kill its controller: its webhooks answer nobody any more, and `begin` starts it anew."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(PATIENCE)

    def stop(self) -> None:
        """End it, and have the cluster ask it nothing any more."""
        for kind in _HOOKS:
            names = self.kubectl("get", kind, "-o", "name", check=False).split()
            for name in (one for one in names if "kueue" in one):
                self.kubectl("delete", name, check=False)
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(PATIENCE)

    def set_queue(
        self, name: str, gpus: int, *, stopped: str = "None", preempts: bool = True
    ) -> None:
        """Have a ClusterQueue of that many GPUs be there."""
        amounts = [{"name": one, "nominalQuota": most} for one, most in _LIMITS.items()]
        amounts.append({"name": GPU, "nominalQuota": str(gpus)})
        policy = "LowerPriority" if preempts else "Never"
        flavor = {"name": _FLAVOR, "resources": amounts}
        group = {"coveredResources": [one["name"] for one in amounts], "flavors": [flavor]}
        self.apply(
            {
                **_of_kueue("ClusterQueue", name),
                "spec": {
                    "namespaceSelector": {},
                    "stopPolicy": stopped,
                    "preemption": {"withinClusterQueue": policy},
                    "resourceGroups": [group],
                },
            }
        )

    def set_local(self, name: str, queue: str, namespace: str = NAMESPACE) -> None:
        """Have a LocalQueue be there."""
        local = _of_kueue("LocalQueue", name)
        local["metadata"]["namespace"] = namespace
        self.apply({**local, "spec": {"clusterQueue": queue}})

    def workloads(self) -> list[dict]:
        """Return what it knows of."""
        words = ("get", "workloads.kueue.x-k8s.io", "-n", NAMESPACE, "-o", "json")
        return json.loads(self.kubectl(*words))["items"]

    def log(self) -> str:
        """Return what it has said."""
        return (self._work / "log").read_text(errors="replace")

    def _is_ready(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self.log()[-2000:]
        url = f"http://127.0.0.1:{self._health}/readyz"
        done = subprocess.run(["curl", "--silent", "--fail", url], capture_output=True, check=False)
        return done.returncode == 0

    def _takes_queues(self) -> bool:
        """Have a flavor of all nodes be there, which its own webhook has to let in."""
        try:
            self.apply({**_of_kueue("ResourceFlavor", _FLAVOR), "spec": {}})
        except AssertionError:  # its webhooks do not answer yet
            return False
        return True

    def _client(self, path: str) -> dict:
        authority = base64.b64encode((self._work / "tls.crt").read_bytes()).decode()
        return {"url": f"https://127.0.0.1:{self._port}{path}", "caBundle": authority}

    def _hooks(self, one: dict) -> dict:
        """Return a configuration of webhooks that finds it here, for what it is to look at."""
        kept = []
        for hook in one["webhooks"]:
            rules = hook["rules"][0]
            if rules["apiGroups"] == [""] or rules["apiGroups"] == ["kueue.x-k8s.io"]:
                hook["clientConfig"] = self._client(hook["clientConfig"]["service"]["path"])
                kept.append(hook)
        return {**one, "webhooks": kept}

    def _config(self) -> dict:
        return {
            "apiVersion": "config.kueue.x-k8s.io/v1beta2",
            "kind": "Configuration",
            "namespace": _SYSTEM,
            "health": {"healthProbeBindAddress": f"127.0.0.1:{self._health}"},
            "metrics": {"bindAddress": "0"},
            "webhook": {"host": "127.0.0.1", "port": self._port, "certDir": str(self._work)},
            "leaderElection": {"leaderElect": False},
            "internalCertManagement": {"enable": False},
            "integrations": {"frameworks": ["pod"]},
            "featureGates": {"VisibilityOnDemand": False},
        }

    def _make_keys(self) -> None:
        pair = [
            "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
            "-nodes", "-days", "30", "-subj", "/CN=kueue", "-addext",
            "subjectAltName=IP:127.0.0.1", "-keyout", f"{self._work}/tls.key",
            "-out", f"{self._work}/tls.crt",
        ]  # fmt: skip
        subprocess.run(pair, check=True, capture_output=True)
        metrics = self._work / "etc/kueue/metrics/certs"
        metrics.mkdir(parents=True)
        for name in ("tls.key", "tls.crt"):
            (metrics / name).write_bytes((self._work / name).read_bytes())


def _of_kueue(kind: str, name: str) -> dict:
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": kind,
        "metadata": {"name": name},
    }


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def find_kueue() -> Path | None:
    """Return the folder of Kueue's program and manifests; None where there is none."""
    folder = Path(os.environ.get(FOLDER) or cache_folder() / "kueue")
    return (
        folder if (folder / "kueue").is_file() and (folder / "manifests.yaml").is_file() else None
    )


@pytest.fixture(scope="module")
def kueue(kubernetes, home_on_kubernetes, tmp_path_factory) -> Iterator[Kueue]:
    """Give Kueue with the queue `team` of two GPUs."""
    folder = find_kueue()
    if folder is None:
        pytest.skip(f"Kueue is not here: lay a release's program and manifests where {FOLDER} says")
    site = Kueue(kubernetes, folder, tmp_path_factory.mktemp("kueue"))
    try:
        site.start()
        yield site
    finally:
        site.stop()
