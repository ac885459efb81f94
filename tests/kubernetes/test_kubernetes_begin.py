"""Pods that do not begin, and those that come when nobody wants them any more."""

from __future__ import annotations

import json
import time
from types import SimpleNamespace

import pytest
from submarine_engine.clusters.backend import KeptJob, SubmitQueue
from submarine_engine.clusters.kubernetes.backend import KubernetesBackend
from submarine_engine.clusters.kubernetes.client import Kubernetes
from submarine_engine.clusters.kubernetes.files import pack
from submarine_engine.clusters.kubernetes.manifest import JOB, OWNER
from submarine_engine.clusters.kubernetes.request import KubernetesRequest
from submarine_engine.clusters.kubernetes.state import KubernetesState
from submarine_engine.errors import ClusterError, SubmissionError
from submarine_engine.history import JobPaths
from submarine_engine.job import JobSpec, Resources, Role
from submarine_engine.testing.jobs import until
from submarine_runtime.pod import BEGUN

JOB_ID = "20260101-000000-aaaaa"
REQUEST = "submarine_engine.clusters.kubernetes.request"
BACKEND = "submarine_engine.clusters.kubernetes.backend"


def waiting(reason, *, files=None):
    """Return a pod on a node whose task's container waits, and how its other one is."""
    stuck = {"waiting": {"reason": reason, "message": 'secret "keys" not found'}}
    return {
        "metadata": {"name": "pod-1"},
        "spec": {"nodeName": "n1"},
        "status": {
            "phase": "Pending",
            "containerStatuses": [
                {"name": "task", "state": stuck},
                {"name": "files", "state": files or stuck},
            ],
        },
    }


@pytest.fixture
def request_of_one(server, tmp_path):
    """Give an attempt whose pod is asked for."""
    paths = JobPaths(tmp_path, JOB_ID)
    paths.root.mkdir(parents=True)
    note = {"attempt": 1, "pods": {"worker-0": "pod-1"}, "created": True}
    (paths.root / "kubernetes.json").write_text(json.dumps(note))
    spec = JobSpec(roles=(Role(resources=Resources(gpus=1)),))
    launch = {"python": "python3", "image": "team/model:1"}
    state = KubernetesState(Kubernetes(), tmp_path / "kubernetes", SubmitQueue())
    found = KubernetesRequest(state, KeptJob(paths, spec, launch, {}, 1))
    yield found
    found.close()


@pytest.mark.parametrize("reason", ["InvalidImageName", "ErrImageNeverPull", "ImageInspectError"])
def test_an_image_that_can_never_be_is_refused_at_once(server, request_of_one, reason):
    server.body = {"items": [waiting(reason)]}
    with pytest.raises(SubmissionError, match="cannot begin: its image") as refused:
        request_of_one.ask()
    assert refused.value.where == "team/model:1"
    assert "--docker_image" in refused.value.fix


@pytest.mark.parametrize(
    "case",
    [
        ("CreateContainerConfigError", "cannot be made: secret", "secret"),
        ("CreateContainerError", "cannot be made: secret", "--node_selector"),
        ("CreateContainerError", "cannot be made: secret", "--node_selector", {"running": {}}),
        ("RunContainerError", "cannot be begun: secret", "--volumes"),
        ("ImagePullBackOff", "cannot be pulled: secret", "--pull_secret"),
        ("RegistryUnavailable", "does not answer: secret", "--docker_image"),
    ],
)
def test_what_may_pass_is_told_at_once_and_refused_when_it_does_not(
    server, request_of_one, monkeypatch, case
):
    reason, words, fix, *files = case
    if files:  # the one that has the GPUs may be the one that is not made
        monkeypatch.setattr(KubernetesRequest, "_bring", lambda one, task: one._brought.add(task))
    server.body = {"items": [waiting(reason, files=files[0] if files else None)]}
    assert request_of_one.ask() is None
    assert words in request_of_one.trouble
    assert request_of_one.trouble.endswith("it is tried for 2 min")
    monkeypatch.setattr(f"{REQUEST}._STUCK_FOR", 0.0)
    with pytest.raises(SubmissionError, match=words) as refused:
        until(request_of_one.ask)
    assert fix in refused.value.fix


def test_what_has_passed_is_tried_anew_from_then_on(server, request_of_one, monkeypatch):
    server.body = {"items": [waiting("CreateContainerConfigError")]}
    assert request_of_one.ask() is None
    server.body = {"items": [waiting("ContainerCreating")]}
    until(lambda: request_of_one.ask() is None and not request_of_one.trouble)
    monkeypatch.setattr(f"{REQUEST}._STUCK_FOR", 0.0)
    assert request_of_one.ask() is None


MAKING = waiting("ContainerCreating")
"""A pod on a node of which the cluster knows no more yet."""


def test_files_come_before_the_cluster_says_that_a_pod_runs(
    server, request_of_one, monkeypatch, pods, tmp_path
):
    """Nodes tell so up to a second late."""
    runs = []

    def run(_, name, container, command):
        if not runs:
            raise ClusterError("container not found")
        return pods.open(name, container, command)

    monkeypatch.setattr(Kubernetes, "open", run)
    monkeypatch.setattr(f"{REQUEST}.task_archive", lambda *_: pack({}, {"job/worker-0/": b""}))
    monkeypatch.setattr(f"{REQUEST}.refuse_other_python", lambda *_: None)
    request_of_one._job.launch["python"] = "python"
    server.body = {"items": [MAKING]}
    assert request_of_one.ask() is None
    assert not request_of_one.trouble
    runs.append("its files' container")
    until(lambda: request_of_one.ask() is None and (pods.root / "ready").exists())
    assert request_of_one.ask() is None, "its task may not run: that container has the GPUs"
    (pods.root / "job/worker-0" / BEGUN).touch()
    assert until(request_of_one.ask)["worker-0"].node == "n1"


def test_who_is_tried_in_vain_is_tried_less_and_less_often(server, request_of_one, monkeypatch):
    tries = []

    def refuse(*_):
        tries.append(request_of_one._reach("worker-0").again_after)
        raise ClusterError("container not found")

    monkeypatch.setattr(Kubernetes, "open", refuse)
    server.body = {"items": [MAKING]}
    assert request_of_one.ask() is None
    assert tries == [0.1]
    request_of_one._placed["worker-0"] -= 5
    until(lambda: request_of_one.ask() is None and len(tries) > 1)
    assert 0.5 <= tries[1] <= 1.0
    request_of_one._placed["worker-0"] -= 600
    until(lambda: request_of_one.ask() is None and len(tries) > 2)
    assert tries[2] == 1.0


# Jobs of several that find room in part.


class Nodes:
    """The double of a cluster of two GPUs, whose scheduler gives a node to so many pods."""

    def __init__(self, room, seen):
        self.room, self.seen, self.pods, self.created = room, seen, {}, []

    def answer(self, command, path, body):
        name = path.rpartition("/")[2]
        if command == "POST":
            made = json.loads(body)
            self.pods[made["metadata"]["name"]] = made
            self.created.append(made["metadata"]["name"])
            return 201, made
        if command == "DELETE":
            return 200, self.pods.pop(name, {})
        if path.endswith("/nodes"):
            return (200, {"items": [NODE]}) if self.seen else (403, {"message": "forbidden"})
        if path == "/api/v1/pods":
            return 403, {"message": "forbidden"}
        for number, pod in enumerate(self.pods.values()):
            node = {"nodeName": "n1"} if number < self.room else {}
            pod["spec"] |= node
            pod["status"] = {"phase": "Pending"}
        return 200, {"items": list(self.pods.values())}


NODE = {
    "metadata": {"name": "n1"},
    "status": {
        "allocatable": {"nvidia.com/gpu": "2", "memory": "8Gi", "cpu": "8", "pods": "9"},
        "conditions": [{"type": "Ready", "status": "True"}],
    },
}


@pytest.fixture
def gang(server, tmp_path, monkeypatch):
    """Give what begins an attempt of two tasks of a GPU each on such a cluster, and that."""
    found = []

    def begin(room, *, seen):
        nodes = Nodes(room, seen)
        server.answers = nodes.answer
        paths = JobPaths(tmp_path, JOB_ID)
        paths.root.mkdir(parents=True)
        spec = JobSpec(roles=(Role(count=2, resources=Resources(gpus=1)),))
        queue = SubmitQueue()
        queue.join(JOB_ID)
        state = KubernetesState(Kubernetes(), tmp_path / "kubernetes", queue)
        launch = {"python": "python3", "image": "team/model:1", "user": 1, "keep": 60.0,
                  "lease": 60.0, "begins_within": 60.0, "grace": 0.0}  # fmt: skip
        found.append(KubernetesRequest(state, KeptJob(paths, spec, launch, {}, 1)))
        return nodes, found[-1]

    def refuse(*_):
        raise ClusterError("container not found")

    monkeypatch.setattr(Kubernetes, "open", refuse)
    monkeypatch.setattr(f"{REQUEST}._LOOKS_EVERY", 0.0)
    yield begin
    for one in found:
        one.close()


def names(turn):
    return [f"submarine-{JOB_ID}-1-{turn}-worker-{n}" for n in range(2)]


def asked_for(request, nodes):
    """Have a request go on; return whether its pods are there."""
    assert request.ask() is None
    return len(nodes.pods) == 2


@pytest.mark.parametrize("seen", [True, False], ids=["nodes-seen", "nodes-not-ours-to-know"])
def test_a_gang_of_which_some_find_no_node_is_given_back_whole_and_asked_for_anew(
    gang, monkeypatch, seen
):
    nodes, request = gang(1, seen=seen)
    until(lambda: asked_for(request, nodes))
    assert list(nodes.pods) == names(0)
    for _ in range(3):
        assert request.ask() is None
    assert list(nodes.pods) == names(0), "it is given time to find room"
    monkeypatch.setattr(f"{REQUEST}._BACK_AFTER", 0.0)
    monkeypatch.setattr(f"{REQUEST}._RESTS_FOR", 600.0)
    until(lambda: request.ask() is None and not nodes.pods)
    assert request.waiting()[1].endswith("it waits until all 2 of its tasks find room at once")
    for _ in range(3):  # others may have what it held
        assert request.ask() is None
    assert not nodes.pods
    request._rests_until = 0.0
    nodes.room = 2
    until(lambda: asked_for(request, nodes))
    assert list(nodes.pods) == names(1)
    for _ in range(3):  # all have a node: none is given back, however long its image takes
        assert request.ask() is None
    assert nodes.created == [*names(0), *names(1)]


def test_who_does_not_see_nodes_waits_longer_from_turn_to_turn(gang):
    """Else no cluster that adds nodes for pods which wait would ever have time to do so."""
    _, request = gang(1, seen=False)
    times = []
    for turn in range(8):
        request._note_down(turn=turn)
        times.append(request._patience())
    assert times == [20.0, 40.0, 80.0, 160.0, 320.0, 640.0, 900.0, 900.0]


def test_a_gang_that_is_larger_than_its_cluster_has_the_time_to_add_nodes(gang):
    _, request = gang(1, seen=True)
    assert request._patience() == 20.0
    small = {**NODE, "status": {**NODE["status"], "allocatable": {"nvidia.com/gpu": "1"}}}
    request._state.api.nodes = lambda: [small]
    until(lambda: request._patience() == 900.0)


WEBHOOK = (
    'Internal error occurred: failed calling webhook "mpod.kb.io": failed to call webhook: Post'
    ' "https://kueue-webhook-service.kueue-system.svc:443/mutate--v1-pod": connection refused'
)


def test_a_job_whose_pods_a_webhook_has_to_see_waits_for_it_in_words(gang, server):
    nodes, request = gang(2, seen=True)
    api = request._state.api

    def away(command, path, body):
        if command == "POST":
            return 500, {"message": WEBHOOK}
        return nodes.answer(command, path, body)

    server.answers = away
    until(lambda: request.ask() is None and "webhook" in request.waiting()[1])
    assert "does not answer" in request.waiting()[1]
    assert api.pods("a=b") == [], "all else is answered, and asked at once"
    with pytest.raises(ClusterError, match=r"webhook .* does not answer") as told:
        api.create({"metadata": {"name": "a"}, "spec": {"containers": []}}, dry_run=True)
    assert "the API server" not in told.value.what
    assert told.value.fix
    server.answers = nodes.answer
    request._tried_at = 0.0
    until(lambda: asked_for(request, nodes))
    assert "webhook" not in request.waiting()[1]


# Pods that come late.


@pytest.fixture
def backend(server, tmp_path):
    return KubernetesBackend(tmp_path)


def job_of(home, job_id, state, pods):
    """Note a job with its pods."""
    paths = JobPaths(home, job_id)
    paths.root.mkdir(parents=True)
    paths.status.write_text(json.dumps({"state": state}))
    (paths.root / "kubernetes.json").write_text(json.dumps({"attempt": 1, "pods": pods}))


def pod_of(backend, name, job_id):
    return {"metadata": {"name": name, "labels": {OWNER: backend.state.owner, JOB: job_id}}}


def test_pods_that_come_late_are_deleted_and_no_others(server, backend, tmp_path, monkeypatch):
    runs, over, gone = (f"20260101-000000-{one * 5}" for one in "abc")
    job_of(tmp_path, runs, "running", {"worker-0": "wanted"})
    job_of(tmp_path, over, "cancelled", {"worker-0": "of-the-cancelled"})
    told = {"wanted": runs, "of-a-turn-before": runs, "of-the-cancelled": over, "of-none": gone,
            "of-a-stranger": "../../etc"}  # fmt: skip
    server.body = {"items": [pod_of(backend, name, job_id) for name, job_id in told.items()]}

    def deleted():
        return {path.partition("?")[0].rpartition("/")[2]
                for command, path, _ in server.asked if command == "DELETE"}  # fmt: skip

    monkeypatch.setattr(f"{BACKEND}._SWEEPS_EVERY", 0.05)
    assert not backend.tend(), "nobody waits where every question was answered"
    assert not server.asked
    backend.state.miss_answer()
    until(lambda: backend.tend() and len(deleted()) == 3)
    assert deleted() == {"of-a-turn-before", "of-the-cancelled", "of-none"}
    assert backend.tend(), "one may come still"
    server.asked.clear()
    backend.state.lands_until = time.monotonic()
    until(lambda: not backend.tend())
    assert server.asked, "the last look is after the time when one may come"


def test_a_silent_cluster_keeps_no_keeper(server, backend, monkeypatch):
    server.status, server.body = 500, {"message": "away"}
    backend.state.miss_answer()
    assert backend.tend()
    backend.state.lands_until = time.monotonic()
    until(lambda: server.asked)
    assert backend.tend()
    monkeypatch.setattr(f"{BACKEND}._GIVES_UP", 0.0)
    assert not backend.tend()


@pytest.mark.parametrize(("created", "missed"), [(False, True), (True, False)])
def test_who_follows_a_keeper_that_was_killed_as_it_asked_looks_for_late_pods(
    tmp_path, created, missed
):
    paths = JobPaths(tmp_path, JOB_ID)
    paths.root.mkdir(parents=True)
    note = {"attempt": 1, "pods": {"worker-0": "pod-1"}, "created": created}
    (paths.root / "kubernetes.json").write_text(json.dumps(note))
    api = SimpleNamespace()  # which nobody asks
    state = KubernetesState(api, tmp_path / "kubernetes", SubmitQueue())
    KubernetesRequest(state, KeptJob(paths, JobSpec(roles=(Role(),)), {}, {}, 1))
    assert (state.lands_until > time.monotonic()) is missed
