"""What another user of the machine, and an account of another namespace, can do to a job."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from submarine_engine.clusters.kubernetes.client import Kubernetes
from submarine_engine.clusters.kubernetes.manifest import JOB
from submarine_engine.errors import ClusterError
from submarine_engine.installer.kubernetes.files import NAMESPACE
from submarine_engine.job import JobState
from submarine_engine.testing import Place
from submarine_engine.testing.jobs import until

from tests.kernel.test_secret_scan import NOBODY
from tests.kubernetes.test_kubernetes_cluster import WAITS, pods
from tests.kubernetes.test_kubernetes_role import ROLE, kubectl

pytestmark = pytest.mark.long

ELSEWHERE = "elsewhere"
ASKS = """
import json, os, socket, ssl, sys
"localhost".encode("idna")  # its modules may lie where the other user cannot read
os.setgroups([]); os.setgid({uid}); os.setuid({uid})
context = ssl._create_unverified_context()
found = {{}}
for port in json.loads(sys.argv[1]):
    for path in ("/healthz", "/api/v1/pods", "/api/v1/namespaces/{namespace}/secrets", "/pods",
                 "/metrics", "/logs/", "/runningpods/", "/v3/kv/range", "/debug/pprof/"):
        for secure in (True, False):
            try:
                plain = socket.create_connection(("127.0.0.1", port), 10)
                wire = context.wrap_socket(plain) if secure else plain
                wire.sendall(f"GET {{path}} HTTP/1.0\\r\\nHost: localhost\\r\\n\\r\\n".encode())
                said = wire.recv(100)
                wire.close()
            except OSError:  # it wants a certificate, or nobody listens
                continue
            words = said.split()
            if words and words[0].startswith(b"HTTP/"):
                found[f"{{port}} {{path}} {{secure}}"] = int(words[1])
killed = []
for pid in map(int, json.loads(sys.argv[2])):
    try:
        os.kill(pid, 0)
    except (PermissionError, ProcessLookupError):  # or it has ended by itself
        continue
    killed.append(pid)
print(json.dumps([found, killed]))
"""


@pytest.fixture
def place(kubernetes_home, kubernetes_folder):
    place = Place("kubernetes", kubernetes_home, kubernetes_folder)
    yield place
    place.clean_up()


@pytest.fixture
def eve(kubernetes, kubernetes_home, tmp_path):
    """Give the kubeconfig of an account that has our role, in another namespace."""
    admin = kubernetes.kubeconfig
    kubectl(admin, "create", "namespace", ELSEWHERE)
    kubectl(admin, "apply", "-n", ELSEWHERE, "-f", str(ROLE))
    kubectl(admin, "create", "serviceaccount", "eve", "-n", ELSEWHERE)
    bound = ["--role=submarine", f"--serviceaccount={ELSEWHERE}:eve"]
    kubectl(admin, "create", "rolebinding", "eve", "-n", ELSEWHERE, *bound)
    config = json.loads(admin.read_text())
    token = kubectl(admin, "create", "token", "eve", "-n", ELSEWHERE).strip()
    config["users"] = [{"name": "eve", "user": {"token": token}}]
    config["contexts"][0]["context"]["user"] = "eve"
    path = tmp_path / "kubeconfig-of-eve"
    path.write_text(json.dumps(config))
    path.chmod(0o600)
    # The server hears of a binding a moment later.
    may = ("auth", "can-i", "create", "pods", "-n", ELSEWHERE)
    until(lambda: kubectl(path, *may, check=False).strip() == "yes")
    yield path
    kubectl(admin, "delete", "namespace", ELSEWHERE, "--wait=false")


@pytest.fixture
def running(place):
    """Give a job that waits for its gate, and its pod."""
    flag, gate = place.folder / "runs", place.folder / "gate"
    job = place.submit(WAITS.format(flag=str(flag), gate=str(gate)) + "7\n", gpus=1)
    place.until_running(job, flag)
    (pod,) = pods(job)
    yield job, pod
    gate.touch()


def test_an_account_of_another_namespace_reads_ends_and_forges_nothing(
    place, running, eve, monkeypatch
):
    job, pod = running
    name, labels = pod["metadata"]["name"], pod["metadata"]["labels"]
    with monkeypatch.context() as as_eve:
        as_eve.setenv("KUBECONFIG", str(eve))
        api = Kubernetes()
        assert api.namespace == NAMESPACE
        for ask in (
            lambda: api.pods(f"{JOB}={job.id}"),
            lambda: api.delete(name, grace=0),
            lambda: api.open(name, "files", ["cat", "/submarine/job/worker-0/launch.json"]),
        ):
            with pytest.raises(ClusterError) as refused:
                ask()
            assert "orbidden" in refused.value.what or "you may not" in refused.value.what
        assert api.events(name) == []
    # A pod of hers that says to be this job's is none of it, and is let alone.
    twin = {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "labels": labels},
        "spec": {"nodeSelector": {"kubernetes.io/hostname": "none"}, "containers": [
            {"name": "task", "image": pod["spec"]["containers"][0]["image"]}]},
    }  # fmt: skip
    done = subprocess.run(
        ["kubectl", "--kubeconfig", str(eve), "create", "-n", ELSEWHERE, "-f", "-"],
        input=json.dumps(twin), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (place.folder / "gate").touch()
    assert job.result(180) == 7
    assert job.wait(180).state is JobState.SUCCEEDED
    until(lambda: not pods(job))
    listed = kubectl(eve, "get", "pods", "-n", ELSEWHERE, "-o", "json")
    assert [one["metadata"]["name"] for one in json.loads(listed)["items"]] == [name]


def test_another_user_of_the_machine_asks_no_daemon_and_ends_no_process(kubernetes, running):
    plan = kubernetes.plan
    ports = list(range(plan.port, plan.kubelet_port(plan.names[-1]) + 2))
    pids = [one.pid for one in kubernetes.daemons()]
    tasks = [int(path.parent.name) for path in Path("/proc").glob("[0-9]*/cmdline")
             if b"/submarine/lib/submarine_runtime" in _read(path)]  # fmt: skip
    assert tasks
    program = ASKS.format(uid=NOBODY, namespace=NAMESPACE)
    words = [sys.executable, "-c", program, json.dumps(ports), json.dumps([*pids, *tasks])]
    done = subprocess.run(words, capture_output=True, text=True, check=True, cwd="/")
    answers, killed = json.loads(done.stdout)
    assert killed == []
    assert answers  # it does ask
    told = {asked for asked, status in answers.items() if status < 400}
    assert {asked.split()[1] for asked in told} <= {"/healthz"}


def _read(path):
    try:
        return path.read_bytes()
    except OSError:  # it has ended meanwhile
        return b""
