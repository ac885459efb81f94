"""The role that the docs give is enough for jobs on Kubernetes, and no more than that."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from submarine_engine.clusters.kubernetes.client import Kubernetes
from submarine_engine.installer.kubernetes.files import NAMESPACE
from submarine_engine.job import JobState, Resources, Role
from submarine_engine.testing import Place
from submarine_engine.testing.jobs import until

from tests.kubernetes_homes import end_keeper

pytestmark = pytest.mark.long

PATIENCE = 240.0
ROLE = Path(__file__).parents[2] / "docs/kubernetes-role.yaml"
NEEDED = (
    "create pods", "list pods", "delete pods", "get pods --subresource=exec",
    "create pods --subresource=exec", "list events",
)  # fmt: skip
FORBIDDEN = (
    "get secrets", "list secrets", "list nodes", "list pods --all-namespaces", "patch pods",
    "get pods --subresource=log", "create jobs.batch", "create pods -n default",
    "create serviceaccounts --subresource=token", "create rolebindings", "impersonate users",
)  # fmt: skip


def kubectl(config, *words, check=True):
    done = subprocess.run(
        ["kubectl", "--kubeconfig", str(config), *words],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert not check or done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def ana(kubernetes, kubernetes_home, tmp_path):
    """Give the kubeconfig of a service account that has the role alone."""
    admin = kubernetes.kubeconfig
    kubectl(admin, "apply", "-f", str(ROLE))
    kubectl(admin, "create", "serviceaccount", "ana")
    bound = ["--role=submarine", f"--serviceaccount={NAMESPACE}:ana"]
    kubectl(admin, "create", "rolebinding", "ana", *bound)
    config = json.loads(admin.read_text())
    token = kubectl(admin, "create", "token", "ana").strip()
    config["users"] = [{"name": "ana", "user": {"token": token}}]
    config["contexts"][0]["context"]["user"] = "ana"  # jobs are kept apart by who asks for them
    path = tmp_path / "kubeconfig-of-ana"
    path.write_text(json.dumps(config))
    path.chmod(0o600)
    # The server hears of a binding a moment later.
    may = ("auth", "can-i", "list", "events")
    until(lambda: kubectl(path, *may, check=False).strip() == "yes", PATIENCE)
    yield path
    kubectl(admin, "delete", "clusterrolebinding", "ana", "--ignore-not-found")
    kubectl(admin, "delete", "rolebinding/ana", "serviceaccount/ana")


@pytest.fixture
def place(ana, kubernetes_home, kubernetes_folder, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", str(ana))
    place = Place("kubernetes", kubernetes_home, kubernetes_folder)
    yield place
    place.clean_up()
    end_keeper(kubernetes_home)  # its account goes, and the next test's is another of that name


def test_the_role_allows_what_jobs_need_and_nothing_else(ana):
    def can(words):
        return kubectl(ana, "auth", "can-i", *words.split(), check=False).strip()

    assert {words: can(words) for words in NEEDED} == dict.fromkeys(NEEDED, "yes")
    assert {words: can(words) for words in FORBIDDEN} == dict.fromkeys(FORBIDDEN, "no")


def test_jobs_run_by_the_role_alone(place):
    assert place.submit("6 * 7", gpus=1).result(180) == 42
    roles = (Role(count=2, resources=Resources(gpus=1)),)
    assert place.submit("print('here')", roles=roles).wait(180).state is JobState.SUCCEEDED
    assert place.submit("raise ValueError('no')").wait(180).state is JobState.FAILED
    endless = place.submit("import time\ntime.sleep(600)", gpus=1)
    endless.cancel()
    assert endless.wait(180).state is JobState.CANCELLED


def test_a_gang_of_which_one_finds_no_gpu_gives_back_the_other_and_comes_later(kubernetes, place):
    """Its role sees no nodes, so it asks and sees: three of four GPUs are held."""

    def pods_of(job):
        words = ("get", "pods", "-o", "json", "-l", f"submarine/job={job.id}")
        found = json.loads(kubectl(kubernetes.kubeconfig, *words))["items"]
        return {pod["metadata"]["name"]: "nodeName" in pod["spec"] for pod in found}

    def turn(number):
        return [f"submarine-{gang.id}-1-{number}-worker-{n}" for n in range(2)]

    first, gate = place.hold(gpus=3)
    place.until_running(first)
    roles = (Role(count=2, resources=Resources(gpus=1)),)
    gang = place.submit("'came'", roles=roles)
    until(lambda: sorted(pods_of(gang).values()) == [False, True], PATIENCE)
    assert sorted(pods_of(gang)) == turn(0)
    until(lambda: not set(turn(0)) & set(pods_of(gang)), PATIENCE)  # and so the fourth GPU is free
    assert gang.status().state is JobState.QUEUED
    until(lambda: sorted(pods_of(gang)) == turn(1), PATIENCE)
    gate.touch()
    assert first.wait(PATIENCE).state is JobState.SUCCEEDED
    assert gang.result(PATIENCE) == "came"
    assert {task.attempt for task in gang.status().tasks} == {1}


def test_who_holds_the_gpus_is_a_role_of_its_own(kubernetes, place):
    assert Kubernetes().nodes() is None
    assert Kubernetes().all_pods() is None
    bound = ["--clusterrole=submarine-gpus", f"--serviceaccount={NAMESPACE}:ana"]
    kubectl(kubernetes.kubeconfig, "create", "clusterrolebinding", "ana", *bound)
    nodes = until(Kubernetes().nodes, PATIENCE)  # the server hears of a binding a moment later
    assert {node["metadata"]["name"] for node in nodes} == {"n1", "n2"}
    assert Kubernetes().all_pods() is not None
