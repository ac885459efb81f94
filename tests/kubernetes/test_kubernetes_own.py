"""A real Kubernetes of one's own: pods run on it, it comes back from kills, it leaves nothing."""

from __future__ import annotations

import json
import os
import pwd
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from submarine_engine.cli import main
from submarine_engine.errors import ClusterError
from submarine_engine.installer.kubernetes import KubernetesCluster, files
from submarine_engine.installer.kubernetes.image import PYTHON_IMAGE
from submarine_engine.installer.kubernetes.programs import versions
from submarine_engine.testing.jobs import until

from tests.kubernetes_homes import declare_gpus
from tests.kubernetes_own import require_kubernetes

pytestmark = pytest.mark.long

PATIENCE = 180.0


def kubectl(cluster, *words, given=None, check=True):
    done = subprocess.run(
        ["kubectl", *words],
        env={**os.environ, **cluster.environment()},
        input=given,
        capture_output=True,
        text=True,
        check=False,
    )
    assert not check or done.returncode == 0, done.stderr
    return done.stdout if check else done.stderr


def logged(cluster, name):
    """Return what a pod has written; nothing before its container has begun: that is an error."""
    environment = {**os.environ, **cluster.environment()}
    words = ["kubectl", "logs", name]
    return subprocess.run(words, env=environment, capture_output=True, check=False).stdout.decode()


def pod(name, code, **more):
    """Return a pod of the standard `restricted` that runs some Python."""
    container = {
        "name": "main",
        "image": PYTHON_IMAGE,
        "command": ["python3", "-c", code],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        **more,
    }
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": files.NAMESPACE},
            "spec": {
                "restartPolicy": "Never",
                "automountServiceAccountToken": False,
                "terminationGracePeriodSeconds": 1,
                "securityContext": {
                    "runAsNonRoot": True,
                    "seccompProfile": {"type": "RuntimeDefault"},
                },
                "volumes": [
                    {"name": "shared", "persistentVolumeClaim": {"claimName": files.SHARED}}
                ],
                "containers": [container],
            },
        }
    )


def phase(cluster, name):
    return kubectl(cluster, "get", "pod", name, "-o", "jsonpath={.status.phase}")


def gpus(count):
    return {"resources": {"limits": {files.GPU: str(count)}}}


@pytest.fixture(scope="module")
def both_nodes(kubernetes):
    """Have both nodes have GPUs: of the jobs' tests one alone has."""
    names = kubernetes.root / "nodes/n2" / files.GPU_NAMES
    before = len(names.read_text().split())
    declare_gpus(kubernetes, "n2", 4)
    yield kubernetes
    declare_gpus(kubernetes, "n2", before)


@pytest.fixture
def emptied(kubernetes, both_nodes):
    yield kubernetes
    kubectl(kubernetes, "delete", "pods", "--all", "--grace-period=0", "--force")


def test_pods_run_on_all_nodes_see_each_other_and_one_folder(emptied):
    code = (
        "import os, socket\n"
        "own = socket.gethostbyname(socket.gethostname())\n"
        "print(os.getuid(), own, flush=True)\n"
        "server = socket.create_server(('', 8000))\n"
        "open('/shared/{0}', 'w').write(own)\n"
        "server.accept()\n"
    )
    mounts = {"volumeMounts": [{"name": "shared", "mountPath": "/shared"}]}
    for name in ("one", "two"):  # three GPUs each: no node has room for both
        kubectl(
            emptied, "apply", "-f", "-", given=pod(name, code.format(name), **mounts, **gpus(3))
        )
    until(lambda: {"one", "two"} <= {one.name for one in emptied.shared.iterdir()}, PATIENCE)
    nodes = kubectl(emptied, "get", "pods", "-o", "jsonpath={.items[*].spec.nodeName}")
    assert sorted(nodes.split()) == ["n1", "n2"]
    said = until(lambda: len(found := logged(emptied, "one").split()) == 2 and found, PATIENCE)
    user, address = said
    assert user == str(emptied.plan.user)
    with pytest.raises(KeyError):  # nobody of this machine owns what runs in there
        pwd.getpwuid(int(user))
    call = f"import socket\nsocket.create_connection(({address!r}, 8000), 30)\n"
    kubectl(emptied, "apply", "-f", "-", given=pod("three", call, **gpus(1)))
    until(lambda: phase(emptied, "one") == phase(emptied, "three") == "Succeeded", PATIENCE)
    too_many = pod("four", "1", **gpus(5))
    kubectl(emptied, "apply", "-f", "-", given=too_many)
    until(lambda: "Insufficient nvidia.com/gpu" in kubectl(emptied, "get", "events"), PATIENCE)


def test_pods_are_told_which_gpus_they_have(emptied):
    code = "import os, time\nprint(os.environ.get('NVIDIA_VISIBLE_DEVICES'), flush=True)\n"
    for name, count in (("one", 3), ("two", 1), ("none", 0)):
        given = json.loads(pod(name, f"{code}time.sleep(999)", **gpus(count)))
        given["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "n1"}
        kubectl(emptied, "apply", "-f", "-", given=json.dumps(given))
    told = {}
    for name in ("one", "two", "none"):
        told[name] = until(lambda name=name: logged(emptied, name), PATIENCE).strip()
    assert told["none"] == "None"
    seen = sorted((told["one"] + "," + told["two"]).split(","))
    assert seen == files.gpu_names(emptied.plan, "n1").split()


def test_a_pod_with_privileges_is_refused(emptied):
    root = json.loads(pod("root", "1"))
    root["spec"]["securityContext"]["runAsNonRoot"] = False
    told = kubectl(emptied, "apply", "-f", "-", given=json.dumps(root), check=False)
    assert 'violates PodSecurity "restricted' in told


def test_more_memory_than_a_pod_may_have_ends_it(emptied):
    limits = {"resources": {"limits": {"memory": "64Mi"}}}
    kubectl(emptied, "apply", "-f", "-", given=pod("fat", "b'x' * 10**9", **limits))
    reason = "jsonpath={.status.containerStatuses[0].state.terminated.reason}"
    until(lambda: kubectl(emptied, "get", "pod", "fat", "-o", reason) == "OOMKilled", PATIENCE)


def test_the_verbs_show_and_write(kubernetes, capsys, monkeypatch):
    monkeypatch.setenv("SUBMARINE_HOME", str(kubernetes.layout.root.parents[1]))
    name = ["--name", kubernetes.name]
    assert main(["cluster", "status", *name]) == 0
    told = capsys.readouterr().out
    assert f"2 nodes, 4 GPUs each, declared, Kubernetes {kubernetes.plan.version}" in told
    assert main(["cluster", "env", *name]) == 0
    told = capsys.readouterr().out.splitlines()
    assert f"export KUBECONFIG={kubernetes.kubeconfig}" in told
    assert f'export PATH={kubernetes.layout.bin}:"$PATH"' in told
    assert main(["cluster", "logs", "kubelet-n1", *name]) == 0
    assert capsys.readouterr().out
    assert main(["cluster", "up", "kubernetes", "--nodes", "3"]) != 0
    assert "there already, of other nodes: 2 nodes of 4 GPUs" in capsys.readouterr().err


def test_strangers_on_this_machine_are_refused(kubernetes):
    plan = kubernetes.plan
    curl = ["curl", "--insecure", "--silent"]
    code = ["--output", os.devnull, "--write-out", "%{http_code}"]
    for port in (plan.port, plan.kubelet_port("n1")):
        asked = [*curl, *code, f"https://127.0.0.1:{port}/pods"]
        assert subprocess.run(asked, capture_output=True, check=False).stdout == b"401"
    etcd = subprocess.run([*curl, f"{plan.etcd}/version"], capture_output=True, check=False)
    assert etcd.returncode != 0
    assert kubernetes.root.stat().st_mode & 0o777 == 0o700
    for path in (
        kubernetes.kubeconfig,
        kubernetes.root / "tokens.csv",
        kubernetes.root / "own.key",
    ):
        assert path.stat().st_mode & 0o777 == 0o600
    tokens = [line.split(",")[0] for line in (kubernetes.root / "tokens.csv").read_text().split()]
    shown = b""
    for one in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended since
            shown += one.read_bytes()
    logs = b"".join(one.read_bytes() for one in kubernetes.layout.logs.iterdir())
    assert not [one for one in tokens if one.encode() in shown or one.encode() in logs]


@pytest.mark.parametrize(
    "killed",
    [
        ["kubelet-n1"], ["containerd-n1"], ["kube-apiserver"], ["etcd"],
        ["kube-controller-manager", "kube-scheduler"], ["gpus-n1"],
    ],
)  # fmt: skip
def test_a_pod_outlives_the_daemons(emptied, killed):
    flag = emptied.shared / f"end-{killed[0]}"
    code = (
        "import os, time\n"
        "print('begun', flush=True)\n"
        f"while not os.path.exists('/shared/{flag.name}'):\n"
        "    time.sleep(0.1)\n"
        "print('ended')"
    )
    mounts = {"volumeMounts": [{"name": "shared", "mountPath": "/shared"}]}
    given = json.loads(pod("lasting", code, **mounts, **gpus(4)))
    given["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "n1"}
    kubectl(emptied, "apply", "-f", "-", given=json.dumps(given))
    until(lambda: logged(emptied, "lasting") == "begun\n", PATIENCE)
    for name in killed:
        emptied.kill(name)
        assert f"{name} does not run" in emptied.problems()
    emptied.up()
    until(lambda: not emptied.problems(), PATIENCE)  # a node first tells that it is not ready yet
    flag.touch()
    until(lambda: phase(emptied, "lasting") == "Succeeded", PATIENCE)
    assert kubectl(emptied, "logs", "lasting") == "begun\nended\n"
    restarts = "jsonpath={.status.containerStatuses[0].restartCount}"
    assert kubectl(emptied, "get", "pod", "lasting", "-o", restarts) == "0"


def test_a_node_that_was_lost_comes_back(emptied):
    kubectl(
        emptied, "apply", "-f", "-", given=pod("lost", "import time\ntime.sleep(999)", **gpus(4))
    )
    until(lambda: phase(emptied, "lost") == "Running", PATIENCE)
    node = kubectl(emptied, "get", "pod", "lost", "-o", "jsonpath={.spec.nodeName}")
    emptied.kill(f"node-{node}")  # as by the loss of its power: all of it is gone at once
    gone = {one.name for one in emptied.daemons() if one.pid is None}
    assert gone == {f"{kind}-{node}" for kind in ("node", "containerd", "gpus", "kubelet")}
    emptied.up()
    until(lambda: phase(emptied, "lost") == "Failed", PATIENCE)
    kubectl(emptied, "delete", "pod", "lost")
    kubectl(emptied, "apply", "-f", "-", given=pod("next", "print('here')", **gpus(4)))
    until(lambda: phase(emptied, "next") == "Succeeded", PATIENCE)


def left_in_the_kernel(plan, root):
    """Return what is there of a cluster: processes, mounts, interfaces, control groups."""
    found = [str(one) for one in Path("/sys/class/net").glob(f"{plan.bridge}*")]
    groups = {plan.cgroup(node) for node in plan.names}
    for top, names, _ in os.walk("/sys/fs/cgroup"):  # where those of other pods come and go
        found += [f"{top}/{name}" for name in names if name in groups]
    for process in Path("/proc").glob("[0-9]*"):
        try:
            told = (process / "environ").read_bytes() + (process / "cmdline").read_bytes()
            mounts = (process / "mounts").read_bytes()
        except OSError:
            continue
        if bytes(root) in told + mounts and process.name != str(os.getpid()):
            found.append(told.decode())
    return found


def interfaces():
    """Return this machine's, but for bridges and what is on one: other tests' clusters have them.

    What a pod has left is on none, since the bridge of its cluster is gone.
    """
    return {
        one.name
        for one in Path("/sys/class/net").iterdir()
        if not any((one / kind).exists() for kind in ("bridge", "master"))
    }


@pytest.mark.parametrize("version", versions())
def test_up_and_down_leave_nothing_with_pods_or_without(tmp_path, version):
    require_kubernetes(version)
    before = interfaces()
    cluster = KubernetesCluster(tmp_path)
    try:
        plan = cluster.up(nodes=1, gpus=2, version=version)
        assert cluster.up() == plan, "what is up stays as it is"
        code = "import time\nprint('here', flush=True)\ntime.sleep(999)"
        kubectl(cluster, "apply", "-f", "-", given=pod("lasting", code, **gpus(2)))
        until(lambda: phase(cluster, "lasting") == "Running", PATIENCE)
        assert kubectl(cluster, "version", "-o", "json").count(f'"v{version}"') == 2
        assert left_in_the_kernel(plan, cluster.root), "the test sees what is there"
        with pytest.raises(ClusterError, match="of other gpus"):
            cluster.up(gpus=3)
    finally:
        assert cluster.down()
    until(lambda: not left_in_the_kernel(plan, cluster.root))
    until(lambda: interfaces() <= before)
    assert not list(tmp_path.iterdir())
