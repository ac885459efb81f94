"""The files that a Kubernetes of one's own is begun with: what each daemon is told."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from submarine_engine.installer.kubernetes.image import PAUSE_IMAGE
from submarine_engine.installer.plan import BLOCK, FIRST, declared_gpus

NAMESPACE = "submarine"
"""Where jobs go: pods there have to be of the standard `restricted`."""
SHARED = "shared"
"""The claim of a folder that pods of all nodes see."""
GPU = "nvidia.com/gpu"
GPU_NAMES = "gpus"
"""The file in a node's folder that its device plugin reads: the names of its declared GPUs."""

_PORTS_BEFORE_NODES = 3
_PORTS_OF_A_NODE = 2


@dataclass(frozen=True, slots=True)
class KubernetesPlan:
    """What such a cluster is made of: nodes, GPUs of each, its first port, the version.

    And the number of the user that its pods run as: those of before a number was chosen have 1000.
    """

    nodes: int
    gpus: int
    port: int
    version: str
    user: int = 1000

    @property
    def names(self) -> list[str]:
        """Its nodes."""
        return [f"n{number}" for number in range(1, self.nodes + 1)]

    @property
    def bridge(self) -> str:
        """The network interface that its pods are on."""
        return f"subk8s{self.port}"

    @property
    def subnet(self) -> str:
        """The first three bytes of its pods' addresses, of RFC 2544's, which no site uses."""
        return f"198.18.{(self.port - FIRST) // BLOCK}"

    @property
    def etcd(self) -> str:
        """Where its etcd listens."""
        return f"https://127.0.0.1:{self.port + 1}"

    @property
    def etcd_peer(self) -> str:
        """Where its etcd would listen to others."""
        return f"https://127.0.0.1:{self.port + 2}"

    @property
    def server(self) -> str:
        """The address of its API."""
        return f"https://127.0.0.1:{self.port}"

    def kubelet_port(self, node: str) -> int:
        """Return where the kubelet of a node listens; its health is on the port after it."""
        number = self.names.index(node)
        return self.port + _PORTS_BEFORE_NODES + _PORTS_OF_A_NODE * number

    def cgroup(self, node: str) -> str:
        """Return the control group that a node's containers are in."""
        return f"submarine-k8s-{self.port}-{node}"


def kubeconfig(server: str, authority: str, user: str, token: str, namespace: str = "") -> str:
    """Return a kubeconfig; JSON is YAML.

    Parameters
    ----------
    server
        The address of the API.
    authority
        The certificate of the API server, Base64 of PEM.
    user
        The name of whoever asks.
    token
        By which the server knows that user.
    namespace
        The one that is meant where none is named; empty for the server's default.
    """
    context = {"cluster": "submarine", "user": user}
    if namespace:
        context["namespace"] = namespace
    cluster = {"server": server, "certificate-authority-data": authority}
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "submarine", "cluster": cluster}],
            "users": [{"name": user, "user": {"token": token}}],
            "contexts": [{"name": "submarine", "context": context}],
            "current-context": "submarine",
        },
        indent=1,
    )


def etcd_options(root: Path, plan: KubernetesPlan) -> list[str]:
    """Return etcd's options; whoever comes without the cluster's own certificate is refused.

    Parameters
    ----------
    root
        The cluster's folder.
    plan
        What the cluster is made of.
    """
    pair = [
        f"cert-file={root}/own.crt",
        f"key-file={root}/own.key",
        f"trusted-ca-file={root}/own.crt",
    ]
    return [
        "--name=etcd",
        f"--data-dir={root}/etcd",
        f"--listen-client-urls={plan.etcd}",
        f"--advertise-client-urls={plan.etcd}",
        f"--listen-peer-urls={plan.etcd_peer}",
        f"--initial-advertise-peer-urls={plan.etcd_peer}",
        f"--initial-cluster=etcd={plan.etcd_peer}",
        "--client-cert-auth",
        "--peer-client-cert-auth",
        *(f"--{one}" for one in pair),
        *(f"--peer-{one}" for one in pair),
    ]


def apiserver_options(root: Path, plan: KubernetesPlan) -> list[str]:
    """Return the options of the API server.

    Parameters
    ----------
    root
        The cluster's folder.
    plan
        What the cluster is made of.
    """
    return [
        f"--etcd-servers={plan.etcd}",
        f"--etcd-cafile={root}/own.crt",
        f"--etcd-certfile={root}/own.crt",
        f"--etcd-keyfile={root}/own.key",
        f"--secure-port={plan.port}",
        "--bind-address=127.0.0.1",
        f"--cert-dir={root}/certificates",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-signing-key-file={root}/accounts.key",
        f"--service-account-key-file={root}/accounts.key",
        f"--token-auth-file={root}/tokens.csv",
        "--authorization-mode=Node,RBAC",
        "--anonymous-auth=false",
        "--enable-admission-plugins=NodeRestriction",
        f"--kubelet-client-certificate={root}/own.crt",
        f"--kubelet-client-key={root}/own.key",
        "--kubelet-preferred-address-types=InternalIP",
        "--service-cluster-ip-range=198.19.0.0/24",
        "--endpoint-reconciler-type=none",  # it is on loopback: pods cannot come to it
    ]


def controller_options(root: Path) -> list[str]:
    """Return the options of the controller manager of the cluster in the folder `root`."""
    return [
        f"--kubeconfig={root}/controller-manager.kubeconfig",
        "--leader-elect=false",
        "--secure-port=0",
        "--use-service-account-credentials=true",
        f"--service-account-private-key-file={root}/accounts.key",
        f"--root-ca-file={root}/certificates/apiserver.crt",
    ]


def scheduler_options(root: Path) -> list[str]:
    """Return the options of the scheduler of the cluster in the folder `root`."""
    return [f"--kubeconfig={root}/scheduler.kubeconfig", "--leader-elect=false", "--secure-port=0"]


# A node is a mount and a process namespace of this machine's: whatever its daemons and its pods
# mount, write below /run or start is gone with its first process. Its folder is /run/node in there.


NODE = "/run/node"

# `mount` is told paths relative to the cluster's folder, which may be below what is covered here.
# The first process stays for the orphans of the others: a signal that it ignores, the kernel reaps.
NODE_SCRIPT = """\
cd "$1"
cd "nodes/$2"
mkdir -p log lib try/lower try/upper try/work try/merged
if mount -t overlay -o lowerdir=try/lower,upperdir=try/upper,workdir=try/work overlay try/merged
then umount try/merged; echo overlayfs > snapshotter
else echo native > snapshotter
fi
mount --no-canonicalize --bind log /var/log
cd "$1"
mount -t tmpfs -o mode=0755 tmpfs /run
mkdir /run/node /run/shared /run/addresses
mount --no-canonicalize --bind "nodes/$2" /run/node
mount --no-canonicalize --bind shared /run/shared
mount --no-canonicalize --bind addresses /run/addresses
mount -t tmpfs -o mode=0755 tmpfs /var/lib
trap '' CHLD
exec sleep infinity
"""


def containerd_config(snapshotter: str) -> str:
    """Return the configuration of a node's containerd.

    Parameters
    ----------
    snapshotter
        How it keeps images: ``overlayfs``, or ``native`` where no overlay can be mounted.
    """
    return f"""\
version = 2
root = "{NODE}/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.tracing.processor.v1.otlp"]
[grpc]
  address = "/run/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_IMAGE}"
  restrict_oom_score_adj = true
  stream_server_address = "127.0.0.1"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "{snapshotter}"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{NODE}/cni"
"""


def network_config(plan: KubernetesPlan) -> str:
    """Return what the network plugins are told: one segment for the pods of all nodes.

    Parameters
    ----------
    plan
        What the cluster is made of.
    """
    subnet = plan.subnet
    addresses = {"subnet": f"{subnet}.0/24", "rangeStart": f"{subnet}.10", "gateway": f"{subnet}.1"}
    bridge = {
        "type": "bridge",
        "bridge": plan.bridge,
        "ipam": {
            "type": "host-local",
            "ranges": [[addresses]],
            "routes": [{"dst": "0.0.0.0/0"}],
            "dataDir": "/run/addresses",
        },
    }
    return json.dumps({"cniVersion": "0.4.0", "name": "submarine", "plugins": [bridge]})


def kubelet_config(plan: KubernetesPlan, node: str) -> str:
    """Return the configuration of a node's kubelet.

    Parameters
    ----------
    plan
        What the cluster is made of.
    node
        The node's name, one of `KubernetesPlan.names`.
    """
    port = plan.kubelet_port(node)
    config: dict[str, Any] = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": "127.0.0.1",
        "port": port,
        "healthzPort": port + 1,
        "readOnlyPort": 0,
        "registerNode": False,  # see `node_object`
        # Which GPUs there are is known soon; the cluster is told where that has changed.
        "nodeStatusUpdateFrequency": "2s",
        "nodeStatusReportFrequency": "5m",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": False},
            "x509": {"clientCAFile": f"{NODE}/own.crt"},
        },
        "authorization": {"mode": "AlwaysAllow"},
        "containerRuntimeEndpoint": "unix:///run/containerd.sock",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{plan.cgroup(node)}",
        "cgroupsPerQOS": False,
        "enforceNodeAllocatable": [],
        "failCgroupV1": False,
        "failSwapOn": False,
        "oomScoreAdj": 0,
        # The disk and the memory are this machine's, and not this cluster's to judge.
        "evictionHard": {
            "memory.available": "1Mi",
            "nodefs.available": "0%",
            "nodefs.inodesFree": "0%",
            "imagefs.available": "0%",
        },
        "imageGCHighThresholdPercent": 100,
        "podLogsDir": f"{NODE}/pod-logs",
        "volumePluginDir": f"{NODE}/volume-plugins",
        "resolvConf": "",
    }
    return json.dumps(config, indent=1)


def kubelet_options(node: str) -> list[str]:
    """Return the options of a node's kubelet besides its configuration file."""
    return [
        f"--kubeconfig={NODE}/kubelet.kubeconfig",
        f"--config={NODE}/kubelet.json",
        f"--root-dir={NODE}/kubelet",
        f"--cert-dir={NODE}/kubelet/pki",
        f"--hostname-override={node}",
        # Else it would look for an address of its own, which may not be one of loopback.
        "--cloud-provider=external",
    ]


# What is in the cluster when it is up.


def node_object(node: str) -> dict[str, Any]:
    """Return a node: of one that a kubelet makes by itself a cloud has to say that it is ready."""
    labels = {"kubernetes.io/hostname": node, "kubernetes.io/os": "linux"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node, "labels": labels}}


def gpu_names(plan: KubernetesPlan, node: str) -> str:
    """Return the names of a node's declared GPUs, a line each; no two nodes have the same.

    Parameters
    ----------
    plan
        What the cluster is made of.
    node
        The node's name, one of `KubernetesPlan.names`.
    """
    cards = declared_gpus(plan.nodes * plan.gpus, plan.port)
    first = plan.names.index(node) * plan.gpus
    return "".join(f"{card.uuid}\n" for card in cards[first : first + plan.gpus])


def node_status(node: str) -> dict[str, Any]:
    """Return what is declared of a node: where its kubelet is found."""
    addresses = [
        {"type": "InternalIP", "address": "127.0.0.1"},
        {"type": "Hostname", "address": node},
    ]
    return {"status": {"addresses": addresses}}


def first_objects() -> dict[str, dict[str, Any]]:
    """Return the namespace of jobs and the claim of a shared folder, by their paths."""
    claim = {"namespace": NAMESPACE, "name": SHARED}
    size = {"storage": "1Ti"}
    common = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
    restricted = {"pod-security.kubernetes.io/enforce": "restricted"}
    return {
        f"/api/v1/namespaces/{NAMESPACE}": {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": NAMESPACE, "labels": restricted},
        },
        f"/api/v1/persistentvolumes/{SHARED}": {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": SHARED},
            "spec": {
                **common,
                "capacity": size,
                "claimRef": claim,
                "persistentVolumeReclaimPolicy": "Retain",
                "hostPath": {"path": "/run/shared", "type": "Directory"},
            },
        },
        f"/api/v1/namespaces/{NAMESPACE}/persistentvolumeclaims/{SHARED}": {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": claim,
            "spec": {**common, "volumeName": SHARED, "resources": {"requests": size}},
        },
    }
