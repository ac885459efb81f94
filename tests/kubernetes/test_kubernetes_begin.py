"""Pods that do not begin, and those that come when nobody wants them any more."""

from __future__ import annotations

import errno
import json
import shutil
import time
from contextlib import suppress
from types import SimpleNamespace

import pytest
from submarine_engine.clusters.backend import KeptJob, SubmitQueue
from submarine_engine.clusters.kubernetes.backend import KubernetesBackend
from submarine_engine.clusters.kubernetes.client import Kubernetes
from submarine_engine.clusters.kubernetes.files import pack
from submarine_engine.clusters.kubernetes.manifest import JOB, NOBODY_CAME, OWNER
from submarine_engine.clusters.kubernetes.request import KubernetesRequest
from submarine_engine.clusters.kubernetes.state import KubernetesState
from submarine_engine.errors import ClusterError, SubmissionError
from submarine_engine.history import JobPaths, write_json
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


def listed(items):
    """Return the answer of a list; None for what is not ours to know."""
    return (403, {"message": "forbidden"}) if items is None else (200, {"items": items})


class Nodes:
    """The double of a cluster of two GPUs, whose scheduler gives a node to so many pods.

    Its nodes are `nodes`; `others` are the pods of other people where these are ours to know.
    `refuse` says of a pod to be created why it is not, and `adds` are tolerations that admission
    adds.
    """

    def __init__(self, room, seen, asked):
        self.room, self.seen, self.asked, self.pods, self.created = room, seen, asked, {}, []
        self.nodes, self.others, self.refuse, self.adds = [NODE], None, lambda: None, []

    def answer(self, command, path, body):
        name = path.rpartition("/")[2]
        if command == "POST":
            if refused := self.refuse():
                return refused
            made = json.loads(body)
            made["spec"].setdefault("tolerations", []).extend(self.adds)
            if "dryRun" not in self.asked[-1][1]:
                self.pods[made["metadata"]["name"]] = made
                self.created.append(made["metadata"]["name"])
            return 201, made
        if command == "DELETE":
            return 200, self.pods.pop(name, {})
        if path.endswith("/nodes"):
            return listed(self.nodes if self.seen else None)
        if path == "/api/v1/pods":
            return listed(None if self.others is None else [*self.others, *self.pods.values()])
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
TWO = Role(count=2, resources=Resources(gpus=1))
ONE_TO_FOUR = Role(count=4, least=1, resources=Resources(gpus=1))


@pytest.fixture
def gang(server, tmp_path, monkeypatch):
    """Give what begins an attempt of two tasks of a GPU each on such a cluster, and that."""
    found = []

    def begin(room, *, seen, role=TWO, attempt=1, **options):
        nodes = Nodes(room, seen, server.asked)
        server.answers = nodes.answer
        paths = JobPaths(tmp_path, JOB_ID)
        paths.root.mkdir(parents=True)
        spec = JobSpec(roles=(role,), options=options)
        queue = SubmitQueue()
        queue.join(JOB_ID)
        state = KubernetesState(Kubernetes(), tmp_path / "kubernetes", queue)
        launch = {"python": "python3", "image": "team/model:1", "user": 1, "keep": 60.0,
                  "lease": 60.0, "begins_within": 60.0, "grace": 0.0}  # fmt: skip
        found.append(KubernetesRequest(state, KeptJob(paths, spec, launch, {}, attempt)))
        return nodes, found[-1]

    def refuse(*_):
        raise ClusterError("container not found")

    monkeypatch.setattr(Kubernetes, "open", refuse)
    monkeypatch.setattr(f"{REQUEST}._LOOKS_EVERY", 0.0)
    yield begin
    for one in found:
        one.close()


def names(turn, count=2):
    return [f"submarine-{JOB_ID}-1-{turn}-worker-{n}" for n in range(count)]


def asked_for(request, nodes):
    """Have a request go on; return whether its pods are there."""
    assert request.ask() is None
    return len(nodes.pods) == 2


def until_placed(request, nodes, count):
    """Have a request go on until so many pods have a node; it stands in no line any more then."""

    def placed():
        assert request.ask() is None
        return ["nodeName" in pod["spec"] for pod in nodes.pods.values()] == [True] * count

    until(placed)
    request._state.submit_queue.leave(JOB_ID)


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
    request._note_down(turn=5000)  # a night of turns of which each took a minute
    assert request._patience() == 900.0


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


# What the cluster refuses now and not for good.

BUSY = 'Operation cannot be fulfilled on resourcequotas "team": please try again'


def refused_by_quota(used, limit):
    said = (
        'pods "x" is forbidden: exceeded quota: team, requested: requests.nvidia.com/gpu=1,'
        f" used: requests.nvidia.com/gpu={used}, limited: requests.nvidia.com/gpu={limit}"
    )
    return 403, {"kind": "Status", "reason": "Forbidden", "message": said}


def test_a_conflict_that_is_none_of_names_ends_no_job(gang):
    """A quota that many pods come to at once is busy, and says so by the same status."""
    nodes, request = gang(2, seen=True)
    nodes.refuse = lambda: (409, {"kind": "Status", "reason": "Conflict", "message": BUSY})
    until(lambda: request.ask() is None and "try again" in request.waiting()[1])
    nodes.refuse = lambda: None
    until(lambda: asked_for(request, nodes))
    assert "try again" not in request.waiting()[1]


@pytest.mark.parametrize("attempt", [1, 2])
def test_a_quota_that_others_use_is_waited_for_in_words_and_nothing_is_held_meanwhile(
    gang, monkeypatch, attempt
):
    monkeypatch.setattr(f"{REQUEST}._RESTS_FOR", 0.0)
    nodes, request = gang(2, seen=True, attempt=attempt)
    left = [0]
    nodes.refuse = lambda: refused_by_quota(2, 2) if len(nodes.pods) >= left[0] else None
    until(lambda: request.ask() is None and "exceeded quota: team" in request.waiting()[1])
    assert nodes.created == []
    left[0] = 1  # one of two: it is given back, as somebody else could have it
    until(lambda: request.ask() is None and nodes.created and not nodes.pods)
    until(lambda: request.ask() is None and "exceeded quota: team" in request.waiting()[1])
    left[0] = 2
    until(lambda: asked_for(request, nodes))
    assert "quota" not in request.waiting()[1]


def test_between_two_turns_at_a_quota_a_job_rests_longer_and_longer(gang, monkeypatch):
    """Each turn begins pods and ends them: it would for all of the hours that others take."""
    monkeypatch.setattr(f"{REQUEST}.random.uniform", lambda *_: 1.0)
    nodes, request = gang(2, seen=True)
    nodes.refuse = lambda: refused_by_quota(2, 2) if nodes.pods else None
    for turn, rest in ((0, 5.0), (1, 10.0), (2, 20.0), (9, 60.0)):
        request._note_down(turn=turn)
        request._rests_until = 0.0
        before = time.monotonic()
        until(lambda turn=turn: request.ask() is None and request._note["turn"] > turn)
        assert before <= request._rests_until - rest <= time.monotonic()


def test_what_a_quota_never_gives_ends_a_new_job_and_none_that_has_begun(gang):
    nodes, request = gang(2, seen=True)
    nodes.refuse = lambda: refused_by_quota(1, 1) if nodes.pods else None
    with pytest.raises(SubmissionError, match="quota") as refused:
        until(request.ask)
    assert refused.value.fix
    nodes, request = gang_of_attempt_2(gang, request)
    nodes.refuse = lambda: refused_by_quota(0, 0)
    until(lambda: request.ask() is None and "exceeded quota: team" in request.waiting()[1])


def gang_of_attempt_2(gang, request):
    """Return another attempt of the same job; that quota may be another one by then."""
    shutil.rmtree(request._job.paths.root)
    return gang(2, seen=True, attempt=2)


def test_an_elastic_job_has_as_many_workers_as_its_quota_gives(gang, monkeypatch):
    monkeypatch.setattr(f"{REQUEST}._RESTS_FOR", 0.0)
    nodes, request = gang(4, seen=True, role=ONE_TO_FOUR)
    nodes.nodes, nodes.others = [node_of(4)], []
    nodes.refuse = lambda: refused_by_quota(3, 3) if len(nodes.pods) == 3 else None
    until_placed(request, nodes, 3)
    assert request.room() == 0, "a node has room for a fourth, and the quota has not"
    nodes.refuse = lambda: None
    assert request.room() == 0, "the quota was asked a moment ago"
    monkeypatch.setattr(f"{REQUEST}._ASKS_AGAIN", 0.0)
    request._no_room_until = 0.0
    assert request.room() == 1
    assert len(nodes.pods) == 3


FULL = OSError(errno.ENOSPC, "No space left on device")


class Disk:
    """The double of a disk that is full for the notes that have one of these words."""

    def __init__(self):
        self.word = None
        self.write = write_json

    def __call__(self, path, content):
        if self.word is not None and content.get(self.word):
            raise FULL
        self.write(path, content)


@pytest.fixture
def disk(monkeypatch):
    found = Disk()
    monkeypatch.setattr("submarine_engine.clusters.noted_request.write_json", found)
    return found


def noted(request):
    return json.loads((request._job.paths.root / "kubernetes.json").read_text())


@pytest.mark.parametrize("word", ["pods", "created", "turning", "turn", "given"])
def test_a_full_disk_lets_a_job_wait_in_words(gang, disk, monkeypatch, word):
    """It is not given up: the disk may have room again, and its pods are there."""
    monkeypatch.setattr(f"{REQUEST}._RESTS_FOR", 0.0)
    turns = word in ("turning", "turn")
    nodes, request = gang(1 if turns else 2, seen=True)
    if turns:
        monkeypatch.setattr(f"{REQUEST}._BACK_AFTER", 0.0)
    disk.word = word
    monkeypatch.setattr(KubernetesRequest, "_bring", lambda one, task: one._brought.add(task))
    monkeypatch.setattr(KubernetesRequest, "_has_begun", lambda *_: word == "given")
    until(lambda: request.ask() is None and "No space left" in request.waiting()[1])
    for _ in range(3):
        assert request.ask() is None
    assert "No space left" in request.waiting()[1]
    assert word == "pods" or not noted(request).get(word)
    if word == "pods":
        assert nodes.created == [], "nothing is asked for before it is noted"
    disk.word, nodes.room = None, 2
    if word == "given":
        assert set(until(request.ask)) == {"worker-0", "worker-1"}
        assert noted(request)["given"]
        return
    until(lambda: asked_for(request, nodes) and "No space left" not in request.waiting()[1])


# Which nodes are counted.


def node_of(gpus, *taints, name="n1"):
    """Return a node of so many GPUs with taints, each a key and a value."""
    told = json.loads(json.dumps(NODE))
    told["metadata"]["name"] = name
    told["status"]["allocatable"]["nvidia.com/gpu"] = str(gpus)
    told["spec"] = {
        "taints": [{"key": k, "value": v, "effect": "NoSchedule"} for k, v in taints],
    }
    return told


TEAM_X = ("dedicated", "team-x")
TOLERATES_TEAM_X = {"key": "dedicated", "operator": "Equal", "value": "team-x"}


@pytest.mark.parametrize(
    ("tolerations", "workers", "used"), [({}, 2, "0/2"), ({"tolerations": "dedicated"}, 4, "0/4")]
)
def test_nodes_whose_taints_a_job_does_not_tolerate_are_no_room_for_it(
    gang, tolerations, workers, used
):
    nodes, request = gang(4, seen=True, role=ONE_TO_FOUR, **tolerations)
    nodes.nodes, nodes.others = [node_of(2), node_of(2, TEAM_X, name="n2")], []
    assert request.waiting()[1].startswith(f"{used} GPUs in use")
    until_placed(request, nodes, workers)
    assert request._note["workers"] == workers
    assert request.room() == 0, "it would be ended to grow, and have no more"


def test_the_taint_of_the_gpus_themselves_is_tolerated_where_admission_adds_that(gang):
    """Clouds have such nodes, whose admission adds it to pods that ask for GPUs."""
    nodes, request = gang(4, seen=True, role=ONE_TO_FOUR)
    nodes.nodes, nodes.others = [node_of(3, ("nvidia.com/gpu", "present"))], []
    nodes.adds = [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    until_placed(request, nodes, 3)
    for pod in list(nodes.pods)[1:]:
        del nodes.pods[pod]
    assert until(request.room) == 1


def test_what_a_cluster_lets_its_pods_tolerate_is_known_from_those_that_are_there(gang):
    nodes, request = gang(4, seen=True, role=ONE_TO_FOUR)
    nodes.nodes = [node_of(1), node_of(3, ("nvidia.com/gpu", "present"), TEAM_X, name="n2")]
    nodes.others, nodes.adds = [], [TOLERATES_TEAM_X]
    until_placed(request, nodes, 1)
    assert request.room() == 0, "its admission has not added the other one"
    nodes.nodes[1]["spec"]["taints"].pop(0)
    assert until(request.room) == 3


def test_an_elastic_job_asks_for_no_more_again_than_found_a_node(gang, monkeypatch):
    """What the nodes are told to have free, its pods may not get for a reason of another kind."""
    monkeypatch.setattr(f"{REQUEST}._BACK_AFTER", 0.0)
    monkeypatch.setattr(f"{REQUEST}._RESTS_FOR", 0.0)
    nodes, request = gang(2, seen=True, role=ONE_TO_FOUR)
    nodes.nodes, nodes.others = [node_of(3)], []
    until(lambda: request.ask() is None and len(nodes.created) == 5)
    assert nodes.created == [*names(0, 3), *names(1, 2)]


@pytest.mark.parametrize(("gates", "room"), [([], 0), ([{"name": "kueue.x-k8s.io/admission"}], 2)])
def test_a_pod_that_a_queue_holds_back_waits_for_no_node(gang, gates, room):
    """It may for days, and would keep all jobs from growing."""
    nodes, request = gang(4, seen=True, role=ONE_TO_FOUR)
    nodes.nodes, nodes.others = [node_of(1)], []
    until_placed(request, nodes, 1)
    asks = {"resources": {"requests": {"nvidia.com/gpu": "1"}}}
    spec = {"containers": [asks], "schedulingGates": gates}
    waits = {"metadata": {"name": "theirs"}, "spec": spec}
    nodes.nodes, nodes.others = [node_of(3)], [waits]
    request._state._nodes._newest = None
    assert request.room() == room


# Pods that cannot be reached.


@pytest.mark.parametrize(
    "answer",
    [
        (403, {"kind": "Status", "message": "pods/exec is forbidden: you cannot create it"}),
        (200, b"<html>this proxy knows no WebSockets</html>"),
    ],
    ids=["no-right", "no-websocket"],
)
def test_a_pod_that_cannot_be_reached_is_told_while_it_waits_and_when_it_has_ended(
    server, request_of_one, answer
):
    runs = {"running": {}}
    pod = waiting("PodInitializing", files=runs)

    def answers(_command, path, _body):
        return answer if path.endswith("/exec") else (200, {"items": [pod]})

    server.answers = answers
    assert request_of_one.ask() is None
    words = request_of_one.waiting()[1]
    assert words.count("cannot be reached") == 1
    assert f"status {answer[0]}" in words
    assert "-+-" not in words
    assert ("you cannot create it" in words) is (answer[0] == 403)
    assert "your role needs `create` of pods/exec" in words
    assert request_of_one.ask() is None
    assert request_of_one.waiting()[1] == words, "it stays while it is not tried again"
    ended = {"terminated": {"exitCode": 1, "message": NOBODY_CAME}}
    pod["status"] |= {"phase": "Failed", "containerStatuses": [{"name": "files", "state": ended}]}

    def refused():
        with suppress(ClusterError):
            request_of_one.ask()

    with pytest.raises(SubmissionError, match="cannot be reached") as told:
        until(refused)
    assert "pods/exec" in told.value.fix


def test_what_kept_a_pods_files_from_it_is_forgotten_once_they_are_there(
    server, request_of_one, monkeypatch
):
    server.body = {"items": [waiting("PodInitializing", files={"running": {}})]}
    assert request_of_one.ask() is None
    assert "cannot be reached" in request_of_one.waiting()[1]
    monkeypatch.setattr(KubernetesRequest, "_bring", lambda one, task: one._brought.add(task))
    monkeypatch.setattr(KubernetesRequest, "_has_begun", lambda *_: False)
    assert request_of_one.ask() is None
    assert "cannot be reached" not in request_of_one.waiting()[1]


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
