"""A Kubernetes of one's own on this machine: etcd, the control plane, and for each node a kubelet.

What it shares with other such clusters is in `MarkedCluster`. A node is a process and mount
namespace, whose first process takes its daemons, pods and mounts with it.
"""

from __future__ import annotations

import base64
import grp
import json
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from submarine_engine.errors import ClusterError, CommandError
from submarine_engine.history import make_private, write_aside
from submarine_engine.installer.cluster import READY_IN, Report, sole_process
from submarine_engine.installer.daemons import end_process, strings_of
from submarine_engine.installer.kubernetes import files
from submarine_engine.installer.kubernetes.api import Api
from submarine_engine.installer.kubernetes.files import KubernetesPlan
from submarine_engine.installer.kubernetes.image import PYTHON_IMAGE, write_image
from submarine_engine.installer.kubernetes.programs import (
    DEFAULT_VERSION,
    DEVICE_PLUGIN,
    build_programs,
    check_version,
    device_plugin,
    programs_folder,
)
from submarine_engine.installer.marked import MarkedCluster, find_program, search_path
from submarine_engine.installer.plan import DEFAULT_COUNT, MOST_GPUS, MOST_NODES

KUBERNETES_NAME = "kubernetes"
"""What a cluster is called unless it is given a name."""

_CLUSTER = "SUBMARINE_KUBERNETES_CLUSTER"
_DAEMON = "SUBMARINE_KUBERNETES_DAEMON"
_CONTROL_PLANE = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
_OF_A_NODE = {
    "node": "sleep", "containerd": "containerd", "gpus": DEVICE_PLUGIN, "kubelet": "kubelet",
}  # fmt: skip
_PACKAGES = {
    "etcd": "etcd-server", "containerd": "containerd", "ctr": "containerd", "runc": "runc",
    "unshare": "util-linux", "nsenter": "util-linux", "setsid": "util-linux",
    "mount": "mount", "ip": "iproute2", "openssl": "openssl", "ldd": "libc-bin",
}  # fmt: skip
_NETWORK_PLUGINS = Path("/usr/lib/cni")
_CGROUPS = Path("/sys/fs/cgroup")

_USERS = range(70_000, 100_000)
"""Numbers of users that systems give to nobody: above people and services, below containers'."""

_SUBORDINATE = (Path("/etc/subuid"), Path("/etc/subgid"))


class KubernetesCluster(MarkedCluster[KubernetesPlan]):
    """A Kubernetes of one's own on this machine, see `OwnCluster`.

    Parameters
    ----------
    home, name
        As `OwnCluster` has them.
    """

    kind = KUBERNETES_NAME
    mark = _CLUSTER
    server = "kube-apiserver"
    plan_type = KubernetesPlan

    def __init__(self, home: Path | None = None, name: str | None = None) -> None:
        super().__init__(home, name)
        self.kubeconfig = self.root / "kubeconfig"
        self.shared = self.root / "shared"

    def environment(self) -> dict[str, str]:
        """Return the variables that let programs find it and its image, and kubectl with them."""
        path = os.environ.get("PATH", os.defpath)
        own = str(self.layout.bin)
        if own not in path.split(os.pathsep):
            path = os.pathsep.join((own, path))
        plan = self.plan
        found = {
            "KUBECONFIG": str(self.kubeconfig),
            "SUBMARINE_KUBERNETES_IMAGE": PYTHON_IMAGE,
            "PATH": path,
        }
        # A copy of the kubeconfig may lie where nothing says whose cluster it is.
        return found if plan is None else {**found, "SUBMARINE_KUBERNETES_USER": str(plan.user)}

    def up(
        self,
        nodes: int | None = None,
        gpus: int | None = None,
        version: str | None = None,
        *,
        report: Report = str,
        timeout: float = READY_IN,
    ) -> KubernetesPlan:
        """Start it, or what of it is not up; return when a pod could run.

        Parameters
        ----------
        nodes, gpus
            How many, and the GPUs of each; one with four, unless given or there already.
        version
            Of Kubernetes, one of `programs.versions`.
        report
            Is told in words what goes on.
        timeout
            Seconds to wait for the daemons, after their programs are there.

        Raises
        ------
        CommandError
            There cannot be so many nodes or GPUs, or the version is not pinned.
        ClusterError
            A program is missing; the cluster is there, of another shape; a daemon ended by itself,
            or was not ready in time.
        """
        wanted = _checked(nodes, gpus, version)
        check_machine()
        with sole_process(self.layout.lock):
            plan = self.plan
            if plan is None:
                self._end()
            elif different := [
                one for one, value in wanted.items() if value not in {None, getattr(plan, one)}
            ]:
                raise ClusterError(
                    f"the cluster {self.name!r} is there already, of other {', '.join(different)}: "
                    f"{plan.nodes} nodes of {plan.gpus} GPUs, Kubernetes {plan.version}",
                    where=str(self.root),
                    fix=f"end it first (`submarine cluster down --name {self.name}`), or give the "
                    "new one a --name",
                )
            version = plan.version if plan else version or DEFAULT_VERSION
            programs = build_programs(version, report=report)
            end = time.monotonic() + timeout
            with self._hold_ports(plan.port if plan else None) as port:
                if plan is None:
                    plan = KubernetesPlan(
                        1 if nodes is None else nodes,
                        DEFAULT_COUNT if gpus is None else gpus,
                        port,
                        version,
                        nobodys_number(),
                    )
                plan = replace(plan, port=port)
                self._write(plan, programs)
                self._start(plan, report, end)
            self._wait(plan, end)
        return plan

    def kill(self, name: str, number: int = signal.SIGKILL) -> None:
        """Send a signal to a daemon and wait until it is gone; `up` starts it again.

        Parameters
        ----------
        name
            The daemon's.
        number
            The signal's.

        Raises
        ------
        CommandError
            The cluster has none of that name.
        """
        if (pid := self.daemon(name).pid) is not None:
            end_process(pid, lambda pid: self._running().get(name) == pid, number)

    def problems(self) -> list[str]:
        """Return what is missing before a pod could run, in words; empty when it could."""
        ended = [f"{one.name} does not run" for one in self.daemons() if one.pid is None]
        plan = self.plan
        if ended or plan is None:
            return ended
        return self._not_ready(plan)

    # What it does: its files.

    def _write(self, plan: KubernetesPlan, programs: Path) -> None:
        """Write its files; written once more they are as they were."""
        for folder in (self.root, self.layout.logs, self.layout.bin, self.root / "addresses"):
            make_private(folder)
        for node in plan.names:
            make_private(self._folder(node) / "cni")
        # Pods are not root's, and what they write there is for those on this machine who see it.
        if not self.shared.exists():
            self.shared.mkdir()
            os.chown(self.shared, plan.user, plan.user)
            self.shared.chmod(0o770)
        kubectl = self.layout.bin / "kubectl"
        with suppress(FileExistsError):
            kubectl.symlink_to(programs / "kubectl")
        if not (self.root / "tokens.csv").exists():
            _make_keys(self.root)
            write_aside(self.root / "tokens.csv", _tokens(plan).encode())
        for node in plan.names:
            folder = self._folder(node)
            shutil.copyfile(self.root / "own.crt", folder / "own.crt")
            (folder / "cni/10-submarine.conflist").write_text(files.network_config(plan))
            (folder / "kubelet.json").write_text(files.kubelet_config(plan, node))
            if not (gpus := folder / files.GPU_NAMES).exists():  # whoever has changed it since
                gpus.write_text(files.gpu_names(plan, node))
        self._write_plan(plan)

    def _write_kubeconfigs(self, plan: KubernetesPlan) -> None:
        """Write who finds the API server how; it has made its certificate as it began."""
        certificate = (self.root / "certificates/apiserver.crt").read_bytes()
        authority = base64.b64encode(certificate).decode()
        for line in (self.root / "tokens.csv").read_text().splitlines():
            token, user, *_ = line.split(",")
            namespace = files.NAMESPACE if user == _ADMIN else ""
            content = files.kubeconfig(plan.server, authority, user, token, namespace)
            write_aside(self._kubeconfig_of(user), content.encode())

    def _kubeconfig_of(self, user: str) -> Path:
        if user == _ADMIN:
            return self.kubeconfig
        name = user.rpartition(":")[2]
        if user.startswith("system:node:"):
            return self._folder(name) / "kubelet.kubeconfig"
        return self.root / f"{name.removeprefix('kube-')}.kubeconfig"

    def _folder(self, node: str) -> Path:
        return self.root / "nodes" / node

    # Its daemons.

    def _start(self, plan: KubernetesPlan, report: Report, end: float) -> None:
        programs = self._programs(plan)
        self._begin("etcd", [_program("etcd"), *files.etcd_options(self.root, plan)], report)
        apiserver = files.apiserver_options(self.root, plan)
        self._begin("kube-apiserver", [programs["kube-apiserver"], *apiserver], report)
        certificate = self.root / "certificates/apiserver.crt"
        self._until(certificate.exists, end, "kube-apiserver")
        self._write_kubeconfigs(plan)
        for node in plan.names:  # unpacking an image takes as long as the API server's start
            self._start_node(plan, node, report, end)
        api = Api(self.kubeconfig)
        self._until(api.ready, end, "kube-apiserver")
        for name, options in (
            ("kube-controller-manager", files.controller_options(self.root)),
            ("kube-scheduler", files.scheduler_options(self.root)),
        ):
            self._begin(name, [programs[name], *options], report)
        for path, content in files.first_objects().items():
            api.apply(path, content)
        for node in plan.names:
            api.apply(f"/api/v1/nodes/{node}", files.node_object(node))
            api.merge(f"/api/v1/nodes/{node}/status", files.node_status(node))
            plugin = [programs[DEVICE_PLUGIN], files.GPU, f"{files.NODE}/{files.GPU_NAMES}"]
            self._begin(f"gpus-{node}", [*self._inside(node), *plugin], report)
            kubelet = [programs["kubelet"], *files.kubelet_options(node)]
            self._begin(f"kubelet-{node}", [*self._inside(node), *kubelet], report)

    def _start_node(self, plan: KubernetesPlan, node: str, report: Report, end: float) -> None:
        self._make_bridge(plan)
        namespaces = ["--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        first = ["sh", "-euc", files.NODE_SCRIPT, "sh", str(self.root), node]
        self._begin(f"node-{node}", [_program("unshare"), *namespaces, *first], report)
        self._until(lambda: f"node-{node}" in self._running(), end, f"node-{node}")
        folder = self._folder(node)
        snapshotter = (folder / "snapshotter").read_text().strip()
        (folder / "containerd.toml").write_text(files.containerd_config(snapshotter))
        config = ["-c", f"{files.NODE}/containerd.toml"]
        self._begin(
            f"containerd-{node}", [*self._inside(node), _program("containerd"), *config], report
        )
        self._until(lambda: self._ctr(node, "version") is not None, end, f"containerd-{node}")
        if not (folder / "has-images").exists():
            self._import_images(plan, node, report)
            (folder / "has-images").touch()

    def _import_images(self, plan: KubernetesPlan, node: str, report: Report) -> None:
        archive = self.root / "images.tar"
        if not archive.exists():
            report("making an image of this machine's Python")
            aside = archive.with_suffix(".aside")
            write_image(aside, plan.user)
            aside.rename(archive)
        with archive.open("rb") as content:
            done = subprocess.run(  # noqa: S603 - containerd's own program
                [*self._ctr_words(node), "images", "import", "-"],
                stdin=content, capture_output=True, text=True, check=False,
            )  # fmt: skip
        if done.returncode:
            raise ClusterError(
                f"containerd of {node} has not taken the image: {done.stderr.strip()}",
                where=str(self.layout.log(f"containerd-{node}")),
                fix="read its log, then say `submarine cluster up kubernetes` again",
            )
        if node == plan.names[-1]:
            archive.unlink()

    def _inside(self, node: str) -> list[str]:
        """Return what comes before a program that is to run in a node's namespaces."""
        first = self._running().get(f"node-{node}")
        return [_program("nsenter"), "--target", str(first), "--mount", "--pid"]

    def _ctr_words(self, node: str) -> list[str]:
        socket = ["--address", "/run/containerd.sock", "--namespace", "k8s.io"]
        return [*self._inside(node), _program("ctr"), *socket]

    def _ctr(self, node: str, *words: str) -> str | None:
        """Return what containerd's own program says; None where it fails."""
        with suppress(OSError, subprocess.TimeoutExpired):
            done = subprocess.run(  # noqa: S603 - containerd's own program
                [*self._ctr_words(node), *words],
                stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30, check=False,
            )  # fmt: skip
            return done.stdout if done.returncode == 0 else None
        return None

    def _begin(self, name: str, words: Sequence[str], report: Report) -> None:
        """Start a daemon that does not run."""
        if name in self._running():
            return
        report(f"starting {name}")
        # The first is gone at once, and init waits for the daemon, not this process.
        at = words.index("--pid") + 1 if words[0] == _program("nsenter") else 0
        words = [*words[:at], _program("setsid"), "--fork", *words[at:]]
        with self.layout.log(name).open("ab") as log:
            subprocess.run(  # noqa: S603 - Kubernetes' own programs
                words,
                # Nothing else of whoever says `up`: secrets, proxies, or a home of other jobs.
                env={
                    "HOME": str(self.root),
                    "PATH": search_path(),
                    _CLUSTER: str(self.root),
                    _DAEMON: name,
                },
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                # Others than root read what a kubelet writes for its pods; the cluster's folder
                # is closed to them.
                umask=0o022,
                check=True,
            )

    def _wait(self, plan: KubernetesPlan, end: float) -> None:
        self._until_running(plan, end)
        self._until(lambda: not self._not_ready(plan), end, "kube-apiserver")

    def _not_ready(self, plan: KubernetesPlan) -> list[str]:
        if not self.kubeconfig.exists() or not (api := Api(self.kubeconfig)).ready():
            return ["the API server does not answer"]
        found = {
            one["metadata"]["name"]: one
            for one in (api.get("/api/v1/nodes") or {}).get("items", [])
        }
        said = []
        for node in plan.names:
            status = found.get(node, {}).get("status", {})
            ready = {one["type"]: one["status"] for one in status.get("conditions", [])}
            if ready.get("Ready") != "True":
                said.append(f"node {node} is not ready")
            elif status.get("allocatable", {}).get(files.GPU, "0") != self._declared_gpus(node):
                said.append(f"node {node} does not have its GPUs yet")
            elif found[node].get("spec", {}).get("taints"):
                said.append(f"node {node} takes no pods yet")
        account = f"/api/v1/namespaces/{files.NAMESPACE}/serviceaccounts/default"
        if not said and api.get(account) is None:
            said.append(f"the namespace {files.NAMESPACE} has no service account yet")
        return said

    def _declared_gpus(self, node: str) -> str:
        """Return how many GPUs a node tells of: who has changed their names has other ones."""
        return str(len((self._folder(node) / files.GPU_NAMES).read_text().split()))

    def _programs(self, plan: KubernetesPlan) -> dict[str, str]:
        found = [*programs_folder(plan.version).iterdir(), device_plugin(plan.version)]
        return {path.name: str(path) for path in found}

    def _names(self, plan: KubernetesPlan) -> list[str]:
        return [*_CONTROL_PLANE, *(f"{kind}-{node}" for node in plan.names for kind in _OF_A_NODE)]

    def _running(self) -> dict[str, int]:
        """Return the pids of its daemons by name."""
        found = {}
        for pid in self._marked():
            words = strings_of(pid, "cmdline")
            program = Path(words[0]).name if words else ""
            marks = dict(one.partition("=")[::2] for one in strings_of(pid, "environ"))
            name = marks.get(_DAEMON, "")
            # What a daemon starts has its marks too, and is another program.
            if program == _OF_A_NODE.get(name.partition("-")[0], name):
                found[name] = pid
        return found

    # Its end, and what it has of the kernel's.

    def _make_bridge(self, plan: KubernetesPlan) -> None:
        """Make the network interface that all pods are on; no packet of theirs goes elsewhere."""
        bridge = plan.bridge
        if not Path("/sys/class/net", bridge).exists():
            _ip("link", "add", bridge, "type", "bridge")
        _ip("address", "replace", f"{plan.subnet}.1/24", "dev", bridge)
        _ip("link", "set", bridge, "up")

    def _end(self) -> None:
        """End all processes of it, each node with its pods first, and remove what is left."""
        plan = self.plan
        for name, pid in self._running().items():
            if name.startswith("node-"):  # the kernel ends all that is in its namespace with it
                end_process(pid, self._is_ours)
        while found := list(self._marked()):
            for pid in found:
                end_process(pid, self._is_ours)
        if plan is not None:
            _remove_cgroups(plan)
            if Path("/sys/class/net", plan.bridge).exists():
                _ip("link", "delete", plan.bridge)
        shutil.rmtree(self.root, ignore_errors=True)


_ADMIN = "admin"


def check_machine() -> None:
    """Refuse a machine on which such a cluster cannot be.

    Raises
    ------
    ClusterError
        A program is missing, or this is not root.
    """
    for name in _PACKAGES:
        _program(name)
    for plugin in ("bridge", "host-local", "loopback"):
        if not (_NETWORK_PLUGINS / plugin).exists():
            raise ClusterError(
                f"the network plugin {plugin} is missing",
                where=str(_NETWORK_PLUGINS),
                fix="install it (on Debian as root: apt-get install containernetworking-plugins)",
            )
    if os.geteuid() != 0:
        raise ClusterError(
            "a kubelet makes namespaces, mounts and control groups: only root can that",
            where="submarine cluster up kubernetes",
            fix="run it as root, on a machine or in a container that may mount",
        )


def running_kubeconfig(home: Path) -> Path | None:
    """Return the kubeconfig of the one Kubernetes of a home that runs; None where none does.

    Parameters
    ----------
    home
        The folder of Submarine's records.
    """
    cluster = KubernetesCluster.running_in(home)
    return None if cluster is None else cluster.kubeconfig


def own_image(kubeconfig: Path) -> str | None:
    """Return the image that the cluster of a kubeconfig has; None where it is not one's own.

    Parameters
    ----------
    kubeconfig
        Any.
    """
    return PYTHON_IMAGE if _plan_of(kubeconfig) is not None else None


def own_user(kubeconfig: Path) -> int | None:
    """Return the number of the user that pods run as there; as `own_image` has it.

    Parameters
    ----------
    kubeconfig
        Any.
    """
    plan = _plan_of(kubeconfig)
    return None if plan is None else plan.user


def _plan_of(kubeconfig: Path) -> KubernetesPlan | None:
    """Return what the cluster of a kubeconfig is made of; None where it is not one's own."""
    if kubeconfig.name != "kubeconfig":
        return None
    with suppress(OSError, ValueError, TypeError):
        told = json.loads(kubeconfig.with_name(f"{KUBERNETES_NAME}.json").read_text())
        return KubernetesPlan(**told)
    return None


def nobodys_number() -> int:
    """Return a number that no user and no group of this machine has, nor a range of theirs.

    Whoever has the number of a pod's user owns what runs in there: nodes are this machine.

    Raises
    ------
    ClusterError
        There is none.
    """
    ranges = [one for file in _SUBORDINATE for one in _subordinate(file)]
    for number in _USERS:
        if any(number in one for one in ranges):
            continue
        with suppress(KeyError):
            pwd.getpwuid(number)
            continue
        with suppress(KeyError):
            grp.getgrgid(number)
            continue
        return number
    raise ClusterError(
        f"each number from {_USERS.start} to {_USERS.stop - 1} is a user's of this machine",
        where="submarine cluster up kubernetes",
        fix="its pods need a number that nobody has: free one, see `getent passwd`",
    )


def _subordinate(file: Path) -> Iterator[range]:
    """Yield the numbers that users may give to containers of theirs."""
    with suppress(OSError):
        for line in file.read_text(errors="replace").splitlines():
            with suppress(ValueError):
                _, first, count = line.split(":")
                yield range(int(first), int(first) + int(count))


def _checked(
    nodes: int | None, gpus: int | None, version: str | None
) -> dict[str, int | str | None]:
    if nodes is not None and not 1 <= nodes <= MOST_NODES:
        raise CommandError(
            f"a cluster of {nodes} nodes is not possible here",
            where="--nodes",
            fix=f"write 1 to {MOST_NODES}",
        )
    if gpus is not None and not 0 <= gpus <= MOST_GPUS:
        raise CommandError(
            f"a node of {gpus} GPUs is not possible here",
            where="--gpus",
            fix=f"write 0 to {MOST_GPUS}",
        )
    if version is not None:
        check_version(version)
    return {"nodes": nodes, "gpus": gpus, "version": version}


def _program(name: str) -> str:
    package = _PACKAGES.get(name, name)
    return find_program(name, f"install it (on Debian as root: apt-get install {package})")


def _tokens(plan: KubernetesPlan) -> str:
    """Return who may come with which token: the administrator, and each daemon as what it is."""
    users = [(_ADMIN, "system:masters")]
    users += [("system:kube-controller-manager", ""), ("system:kube-scheduler", "")]
    users += [(f"system:node:{node}", "system:nodes") for node in plan.names]
    lines = []
    for user, group in users:
        line = f"{secrets.token_hex(32)},{user},{user}"
        lines.append(f'{line},"{group}"\n' if group else f"{line}\n")
    return "".join(lines)


def _make_keys(root: Path) -> None:
    """Make the pair that the daemons know each other by, and the key of service accounts."""
    openssl = _program("openssl")
    pair = [
        "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
        "-days", "3650", "-subj", "/CN=submarine", "-addext", "subjectAltName=IP:127.0.0.1",
        "-addext", "extendedKeyUsage=serverAuth,clientAuth",
        "-keyout", f"{root}/own.key", "-out", f"{root}/own.crt",
    ]  # fmt: skip
    for words in (pair, ["genrsa", "-out", f"{root}/accounts.key", "2048"]):
        subprocess.run([openssl, *words], capture_output=True, umask=0o077, check=True)  # noqa: S603


def _ip(*words: str) -> None:
    done = subprocess.run(  # noqa: S603 - the system's own program
        [_program("ip"), *words], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise ClusterError(
            f"`ip {' '.join(words)}` failed: {done.stderr.strip()}",
            fix="run it where root may change the network, on a machine or in a container",
        )


def _remove_cgroups(plan: KubernetesPlan) -> None:
    """Remove the control groups of its containers; their processes are gone."""
    for node in plan.names:
        name = plan.cgroup(node)
        for top in (_CGROUPS / name, *_CGROUPS.glob(f"*/{name}")):  # of version 2, and of 1
            _remove_cgroup(top)


def _remove_cgroup(top: Path) -> None:
    for folder, _, _ in os.walk(top, topdown=False):
        with suppress(OSError):
            os.rmdir(folder)  # noqa: PTH106 - not a folder of files


__all__ = [
    "KUBERNETES_NAME",
    "KubernetesCluster",
    "KubernetesPlan",
    "check_machine",
    "running_kubeconfig",
]
