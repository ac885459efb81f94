"""What a cluster cannot run, on a real one: told in words with what to do, and nothing is left."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest
from submarine_engine.clusters.kubernetes.client import Kubernetes
from submarine_engine.clusters.kubernetes.manifest import JOB, manifests
from submarine_engine.installer.kubernetes.files import NODE
from submarine_engine.installer.kubernetes.image import PYTHON_IMAGE
from submarine_engine.job import JobSpec, JobState, Resources, Role
from submarine_engine.testing import Place
from submarine_engine.testing.jobs import until

from tests.kubernetes.test_kubernetes_cluster import kubectl, pods
from tests.kubernetes_homes import CLAIM

pytestmark = pytest.mark.long

PATIENCE = 300.0
OF_ARM = 183
"""What an ELF file says whose programs are for 64 bits of ARM."""

POLICY = "admissionregistration.k8s.io/v1"
ADDS_WHAT_IS_NONE = """\
[JSONPatch{op: "add", path: "/spec/containers/0/env/-", value: Object.spec.containers.env{
  name: "KEY", valueFrom: Object.spec.containers.env.valueFrom{
    secretKeyRef: Object.spec.containers.env.valueFrom.secretKeyRef{
      name: "no-such-secret", key: "key"}}}}]
"""


@pytest.fixture
def place(kubernetes_home, kubernetes_folder):
    place = Place("kubernetes", kubernetes_home, kubernetes_folder)
    yield place
    place.clean_up()


def refused(place, job):
    """Return why a job failed, whose code never ran, and which has left nothing."""
    status = job.wait(PATIENCE)
    assert status.state is JobState.FAILED
    until(lambda: not pods(job))
    until(lambda: place.holders() == {})
    assert not [task for task in status.tasks if task.busy]
    return status.reason


def test_an_image_whose_name_is_none_is_refused_at_once(place):
    reason = refused(place, place.submit("1", gpus=1, docker_image="No/Such Name"))
    assert "its image's name is none" in reason
    assert "--docker_image" in reason


def test_a_container_that_its_node_cannot_begin_is_told(place, kubernetes):
    claims = f"{CLAIM}:{kubernetes.shared},{CLAIM}:/proc/data"
    reason = refused(place, place.submit("1", gpus=1, volumes=claims))
    assert "/proc" in reason
    assert "--volumes" in reason


def test_a_python_for_another_processor_is_told(place, monkeypatch):
    program = bytearray(Path(sys.executable).resolve().read_bytes())
    program[18:20] = OF_ARM.to_bytes(2, sys.byteorder)
    python = place.folder / "python-of-arm"
    python.write_bytes(program)
    python.chmod(0o755)
    monkeypatch.setenv("SUBMARINE_KUBERNETES_PYTHON", str(python))
    reason = refused(place, place.submit("1", gpus=1))
    assert "exec format error" in reason
    assert "processor" in reason


@pytest.fixture
def admission(kubernetes_home):
    """Have the cluster add a secret to all pods of jobs, which is not there."""
    rule = {
        "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"],
    }  # fmt: skip
    ours = [{"key": JOB, "operator": "Exists"}]
    policy = {
        "matchConstraints": {
            "resourceRules": [rule], "objectSelector": {"matchExpressions": ours},
        },
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": ADDS_WHAT_IS_NONE}}],
    }  # fmt: skip
    binding = {"policyName": "adds-a-secret"}
    kinds = {"MutatingAdmissionPolicy": policy, "MutatingAdmissionPolicyBinding": binding}
    for kind, spec in kinds.items():
        told = {"apiVersion": POLICY, "kind": kind, "metadata": {"name": "adds-a-secret"},
                "spec": spec}  # fmt: skip
        kubectl("create", "-f", "-", input=json.dumps(told))
    yield
    for kind in kinds:
        kubectl("delete", kind, "adds-a-secret")


def test_a_secret_that_the_cluster_adds_and_has_not_is_told_at_once_and_refused(place, admission):
    until(is_added)  # the server hears of a policy a moment later
    job = place.submit("1", gpus=1)
    until(lambda: "its container cannot be made" in job.status().warning, PATIENCE)
    assert "it is tried for 2 min" in job.status().warning
    reason = refused(place, job)
    assert "no-such-secret" in reason
    assert "ask whoever runs the cluster" in reason


def is_added():
    """Return whether the cluster changes pods by its policy; none is created."""
    launch = {"python": "python3", "image": PYTHON_IMAGE, "user": 1000, "keep": 60.0, "lease": 60.0,
              "begins_within": 60.0, "grace": 0.0}  # fmt: skip
    asked = {"job_id": "tried", "attempt": 1, "turn": 0, "owner": "tried", "launch": launch}
    (manifest,) = manifests(JobSpec(roles=(Role(),)), **asked).values()
    return "no-such-secret" in json.dumps(Kubernetes().create(manifest, dry_run=True))


def quota_used(name):
    return json.loads(kubectl("get", "quota", name, "-o", "json"))["status"].get("used", {})


def test_a_quota_that_is_met_amid_a_jobs_pods_refuses_all_of_it(place):
    """Each of the pods alone would be let in."""
    kubectl("create", "quota", "one", "--hard=requests.nvidia.com/gpu=1")
    try:
        until(lambda: quota_used("one").get("requests.nvidia.com/gpu") == "0", PATIENCE)
        flag = place.folder / "ran"
        roles = (Role(count=2, resources=Resources(gpus=1)),)
        reason = refused(place, place.submit(f"open({str(flag)!r}, 'a')", roles=roles))
        assert "quota" in reason
        assert not flag.exists()
        until(lambda: quota_used("one").get("requests.nvidia.com/gpu") == "0", PATIENCE)
        assert place.submit("'here'", gpus=1).result(PATIENCE) == "here"
    finally:
        kubectl("delete", "quota", "one")


def test_a_quota_that_another_job_uses_is_waited_for_in_words(place):
    kubectl("create", "quota", "two", "--hard=requests.nvidia.com/gpu=2")
    try:
        until(lambda: quota_used("two").get("requests.nvidia.com/gpu") == "0", PATIENCE)
        first, gate = place.hold(gpus=1)
        place.until_running(first)
        roles = (Role(count=2, resources=Resources(gpus=1)),)
        gang = place.submit("'came'", roles=roles)
        until(lambda: "exceeded quota: two" in (gang.status().waiting_reason or ""), PATIENCE)
        until(lambda: quota_used("two").get("requests.nvidia.com/gpu") == "1", PATIENCE)
        assert gang.status().state is JobState.QUEUED
        gate.touch()
        assert first.wait(PATIENCE).state is JobState.SUCCEEDED
        assert gang.result(PATIENCE) == "came"
    finally:
        kubectl("delete", "quota", "two")


SHIFTED = "import time\nreal = time.time\ntime.time = lambda: real() + {shift}\n"


@pytest.mark.parametrize("shift", [-3600, 3600])
def test_clocks_that_are_an_hour_apart_end_no_job(place, monkeypatch, shift):
    """The nodes' clock is a double: their Python tells the time of another hour."""
    folder = place.folder / "venv"
    before = os.umask(0o022)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    os.umask(before)
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "sitecustomize.py").write_text(SHIFTED.format(shift=shift))
    monkeypatch.setenv("SUBMARINE_KUBERNETES_PYTHON", str(folder / "bin/python"))
    # Files of a pod have this machine's times, and one that nobody has come to for long ends.
    monkeypatch.setenv("SUBMARINE_KUBERNETES_KEEP", "3h")
    roles = (Role(count=2, resources=Resources(gpus=1)),)
    job = place.submit("import time\nprint('here', flush=True)\ntime.time()", roles=roles)
    status = job.wait(PATIENCE)
    assert status.state is JobState.SUCCEEDED, status.reason
    assert {task.attempt for task in status.tasks} == {1}
    assert abs(job.result(60) - time.time() - shift) < 1200  # its clock was another one
    for task in status.tasks:
        moments = [task.queued, task.held, task.busy, task.returned, task.released]
        steps = [one.until(later) for one, later in pairwise(moments)]
        assert all(0 <= step < 1200 for step in steps), steps
    until(lambda: place.holders() == {})


FILLS = """\
import os
with open("/submarine/filler", "wb", buffering=0) as file:
    try:
        while file.write(bytes(4096)):
            pass
    except OSError as error:
        print(error, flush=True)
print("x" * 100_000, flush=True)
"""


@pytest.fixture
def small_disk(kubernetes, kubernetes_home):
    """Have the pods of a node write on a disk of 16 MB."""
    first = kubernetes.daemon("node-n1").pid
    # Of its processes, too: `umount` asks /proc for itself.
    inside = ["nsenter", "--target", str(first), "--mount", "--pid", "--"]
    folder = f"{NODE}/kubelet/pods"
    mount = [*inside, "mount", "-t", "tmpfs", "-o", "size=16M", "submarine-test", folder]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("may not mount a small disk here")
    yield "kubernetes.io/hostname=n1", Path(f"/proc/{first}/root{folder}")
    subprocess.run([*inside, "umount", "--lazy", folder], check=True)


def test_on_a_full_disk_of_its_node_a_job_says_so_and_holds_nothing(place, small_disk):
    node, disk = small_disk
    job = place.submit(FILLS, gpus=1, node_selector=node)
    status = job.wait(PATIENCE)
    assert status.state is JobState.FAILED
    assert "space left" in status.reason
    assert {task.attempt for task in status.tasks} == {1}
    until(lambda: not pods(job))
    until(lambda: place.holders() == {})
    until(lambda: shutil.disk_usage(disk).free > 8 << 20)  # its node clears it a moment later
    assert place.submit("'here'", gpus=1, node_selector=node).result(PATIENCE) == "here"
