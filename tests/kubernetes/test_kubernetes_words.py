"""What is asked of Kubernetes, what its words mean, and what is refused before it is asked."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kubernetes.config import incluster_config
from submarine_engine.amounts import shortened
from submarine_engine.clusters.kubernetes import client
from submarine_engine.clusters.kubernetes.backend import KubernetesBackend
from submarine_engine.clusters.kubernetes.client import (
    Kubernetes,
    QuotaError,
    RefusedError,
    TakenError,
    refusal,
)
from submarine_engine.clusters.kubernetes.kueue import Kueue, reason
from submarine_engine.clusters.kubernetes.manifest import (
    manifests,
    read_pairs,
    read_tolerations,
    read_volumes,
)
from submarine_engine.clusters.kubernetes.noted import python_of
from submarine_engine.clusters.kubernetes.quota import refuse_beyond_quota
from submarine_engine.clusters.kubernetes.state import Node, Pod, fits, needs
from submarine_engine.clusters.polled import Polled
from submarine_engine.config import load_config
from submarine_engine.errors import (
    ClusterError,
    CommandError,
    ConfigError,
    ResourcesError,
    SubmissionError,
    UnsupportedError,
)
from submarine_engine.findings import NOTE
from submarine_engine.history import JobPaths, make_private
from submarine_engine.job import JobSpec, Resources, Role

from tests.certificates import certificate
from tests.jobs import LIMIT
from tests.kubernetes.conftest import StandInServer, kubeconfig

LAUNCH = {
    "python": "python3", "image": "ours:1", "user": 1000, "keep": 60.0, "lease": 60.0,
    "begins_within": 60.0, "grace": 10.0,
}  # fmt: skip


def made(spec, **more):
    named = {"job_id": "20260101-000000-abcde", "attempt": 2, "turn": 0, "owner": "me"}
    return manifests(spec, **{**named, "launch": LAUNCH, **more})


def test_pods_keep_to_the_restricted_standard_and_hold_no_secret():
    spec = JobSpec(roles=(Role(resources=Resources(gpus=2, vcores=3, memory=512)),),
                   env={"TOKEN": "hunter2"}, secrets=("KEY",), name="mnist")  # fmt: skip
    pod = made(spec)["worker-0"]
    assert pod["metadata"]["name"] == "submarine-20260101-000000-abcde-2-0-worker-0"
    assert "hunter2" not in json.dumps(pod)
    told = pod["spec"]
    assert told["securityContext"]["runAsNonRoot"] is True
    assert told["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert told["automountServiceAccountToken"] is False
    assert told["restartPolicy"] == "Never"
    for container in told["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        }
    task, files = told["containers"]
    assert task["resources"]["requests"] == {"cpu": "3", "memory": "512Mi", "nvidia.com/gpu": "2"}
    assert task["resources"]["limits"] == {"memory": "512Mi", "nvidia.com/gpu": "2"}
    assert "nvidia.com/gpu" not in files["resources"]["limits"]
    assert needs(told)["nvidia.com/gpu"] == 2


def test_options_reach_the_pods():
    options = {
        "service_account": "training", "node_selector": "gpu=a100,zone=b",
        "tolerations": "gpu:NoSchedule,team=x", "priority_class": "low",
        "pull_secret": "one,two", "volumes": "data:/data", "gpu_resource": "amd.com/gpu",
    }  # fmt: skip
    roles = Role(name="ps", resources=Resources(gpus=0)), Role(resources=Resources(gpus=1))
    spec = JobSpec(roles=roles, options=options, queue="team")
    pods = made(spec)
    told = pods["worker-0"]["spec"]
    assert told["nodeSelector"] == {"gpu": "a100", "zone": "b"}
    assert told["tolerations"] == [
        {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"},
        {"key": "team", "operator": "Equal", "value": "x"},
    ]
    assert (told["serviceAccountName"], told["priorityClassName"]) == ("training", "low")
    assert told["imagePullSecrets"] == [{"name": "one"}, {"name": "two"}]
    assert told["volumes"][1]["persistentVolumeClaim"] == {"claimName": "data"}
    assert told["containers"][0]["volumeMounts"][1]["mountPath"] == "/data"
    assert told["containers"][0]["resources"]["limits"] == {"amd.com/gpu": "1"}
    assert pods["ps-0"]["spec"]["containers"][0]["resources"]["limits"] == {}
    labels = [pod["metadata"]["labels"] for pod in pods.values()]
    assert {one["kueue.x-k8s.io/queue-name"] for one in labels} == {"team"}
    assert len({one["kueue.x-k8s.io/pod-group-name"] for one in labels}) == 1
    notes = [pod["metadata"]["annotations"] for pod in pods.values()]
    assert {one["kueue.x-k8s.io/pod-group-total-count"] for one in notes} == {"2"}
    assert {one["kueue.x-k8s.io/retriable-in-group"] for one in notes} == {"false"}


@pytest.mark.parametrize(
    ("why", "lost"),
    [
        ("WorkloadEvictedDueToPreempted", True),
        ("WorkloadEvictedDueToClusterQueueStopped", True),
        ("WorkloadEvicted", True),  # as Kueue before 0.14 says it
        ("WorkloadEvictedDueToDeactivated", False),  # somebody has said that it shall not run
        ("WorkloadDeleted", False),
    ],
)
def test_what_kueue_takes_back_is_begun_again_and_what_somebody_ends_is_not(why, lost):
    condition = {"type": "TerminationTarget", "status": "True", "reason": why, "message": "so"}
    pod = pod_of(phase="Running", conditions=[condition])
    assert (pod.is_lost, pod.end_words) == (lost, f"{why}: so")


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (lambda text: read_pairs(text, "node_selector"), "gpu"),
        (lambda text: read_pairs(text, "node_selector"), "=a100"),
        (read_tolerations, "gpu:Never"),
        (read_tolerations, ":NoSchedule"),
        (read_volumes, "data"),
        (read_volumes, "data:relative"),
        (read_volumes, "../x:/data"),
        (read_volumes, "data:/submarine/job"),
        (read_volumes, "data:/"),
    ],
)
def test_what_is_no_option_is_refused_with_a_way_out(read, text):
    with pytest.raises(CommandError) as refused:
        read(text)
    assert refused.value.fix
    assert read("") in ({}, [])


def pod_of(**status):
    spec = {"containers": [{"name": "task"}, {"name": "files"}], **status.pop("spec", {})}
    return Pod.read({"metadata": {"name": "p", **status.pop("meta", {})}, "spec": spec,
                     "status": status})  # fmt: skip


def unscheduled(message):
    return pod_of(phase="Pending", conditions=[
        {"type": "PodScheduled", "status": "False", "message": message}])  # fmt: skip


@pytest.mark.parametrize(
    ("pod", "words"),
    [
        (unscheduled("0/2 nodes are available: 2 Insufficient nvidia.com/gpu."), "GPUs free"),
        (unscheduled("0/2 nodes are available: 2 Insufficient amd.com/gpu."), "GPUs free"),
        (unscheduled("0/2 nodes are available: 2 Insufficient memory."), "so much memory free"),
        (unscheduled("0/2 nodes are available: 2 Insufficient cpu."), "many processors free"),
        (unscheduled("0/2 nodes are available: 2 Too many pods."), "as many pods as they may"),
        (unscheduled("0/1 nodes: 1 node(s) had untolerated taint {a: b}"), "--tolerations"),
        (unscheduled("0/2 nodes are available: 2 node(s) were unschedulable."), "are cordoned"),
        (
            unscheduled("0/2 nodes: 2 node(s) didn't match Pod's node affinity/selector."),
            "no node has the labels of --node_selector",
        ),
        (
            unscheduled('0/2 nodes: persistentvolumeclaim "data" not found.'),
            "a volume claim of its is missing or not bound",
        ),
        (
            unscheduled("0/2 nodes: pod has unbound immediate PersistentVolumeClaims."),
            "a volume claim of its is not bound",
        ),
        (
            unscheduled("0/2 nodes: 1 Insufficient nvidia.com/gpu, 1 Insufficient cpu, "
                        "1 node(s) were unschedulable."),
            "so many GPUs free; no node has so many processors free; nodes are cordoned",
        ),
        (unscheduled("something new"), "the scheduler says: something new"),
        (pod_of(phase="Pending", spec={"schedulingGates": [{"name": "x"}]}), "not let it in"),
        (
            pod_of(phase="Pending", spec={"nodeName": "n"}, containerStatuses=[
                {"name": "task", "state": {"waiting": {
                    "reason": "ImagePullBackOff", "message": "Back-off\n pulling"}}}]),
            "its image cannot be pulled: Back-off pulling",
        ),
        (pod_of(), ""),
    ],
)  # fmt: skip
def test_why_a_pod_waits_is_told_in_words(pod, words):
    assert words in pod.wait_words
    assert bool(pod.wait_words) is bool(words)


LONG = (
    'Back-off pulling image "registry.example/team/model:1": ErrImagePull: failed to pull and'
    ' unpack image "registry.example/team/model:1": failed to resolve reference'
    ' "registry.example/team/model:1": failed to do request: Head'
    ' "https://registry.example/v2/team/model/manifests/1": dial tcp: lookup registry.example on'
    " 10.0.0.2:53: no such host"
)


def test_what_is_said_of_an_image_at_length_keeps_its_words_and_its_cause():
    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": LONG}}
    pod = pod_of(
        phase="Pending",
        spec={"nodeName": "n"},
        containerStatuses=[{"name": "task", "state": waiting}],
    )
    begin, gap, end = pod.trouble.partition(" … ")
    assert gap
    assert begin.startswith('its image cannot be pulled: Back-off pulling image "registry.example/')
    assert end.endswith("dial tcp: lookup registry.example on 10.0.0.2:53: no such host")
    assert all(f" {word} " in f" {LONG} " for word in end.split())
    assert begin.split()[-1] in LONG.split()
    assert pod.trouble == pod.wait_words
    assert pod_of(phase="Pending", spec={"nodeName": "n"}).trouble == ""


@given(st.text(), st.integers(10, 60))
def test_what_is_shortened_is_its_beginning_and_its_end(text, longest):
    line, short = " ".join(text.split()), shortened(text, longest)
    assert len(short) <= longest
    if len(line) <= longest:
        assert short == line
    else:
        begin, _, end = short.partition(" … ")
        assert line.startswith(begin)
        assert line.endswith(end)


def test_how_a_pod_ended_is_told_in_words():
    killed = {"terminated": {"reason": "OOMKilled", "exitCode": 137}}
    assert "OOMKilled" in pod_of(containerStatuses=[{"name": "task", "state": killed}]).end_words
    evicted = pod_of(phase="Failed", reason="Evicted", message="low on\n disk")
    assert (evicted.is_lost, evicted.end_words) == (True, "Evicted: low on disk")
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    preempted = pod_of(phase="Running", conditions=[condition])
    assert (preempted.is_lost, preempted.end_words) == (True, "PreemptionByScheduler")
    left = {"terminated": {"exitCode": 1, "message": "nobody has looked after this job"}}
    alone = pod_of(phase="Failed", containerStatuses=[{"name": "files", "state": left}])
    assert alone.end_words == "its files are gone: nobody has looked after this job"
    by_hand = pod_of(phase="Running", meta={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    assert (by_hand.is_lost, by_hand.ending, by_hand.final) == (False, True, False)


def test_a_pod_that_tells_nothing_is_read():
    pod = Pod.read({"metadata": {"name": "p"}, "spec": {}})
    assert (pod.phase, pod.node, pod.scheduled_at, pod.container("task")) == ("", "", 0.0, ("", {}))
    condition = {
        "type": "PodScheduled",
        "status": "True",
        "lastTransitionTime": "1970-01-01T00:01:00Z",
    }
    assert pod_of(conditions=[condition]).scheduled_at == 60.0


def test_all_pods_of_a_job_fit_at_once_or_it_waits():
    spec = JobSpec(roles=(Role(count=3, resources=Resources(gpus=3)),))
    pods = [pod["spec"] for pod in made(spec).values()]
    node = {"nvidia.com/gpu": Decimal(4), "cpu": Decimal(8), "memory": Decimal(1 << 34),
            "pods": Decimal(50)}  # fmt: skip
    assert not fits(pods, {"a": node, "b": node})
    assert fits(pods, {"a": node, "b": node, "c": node})
    assert node["nvidia.com/gpu"] == 4
    assert not fits(pods[:1], {"a": {**node, "pods": Decimal(0)}})


def test_a_node_that_is_cordoned_or_not_ready_takes_no_pods():
    told = {"metadata": {"name": "n"}, "spec": {}, "status": {
        "allocatable": {"cpu": "500m", "memory": "1Ki", "x": "nonsense"},
        "conditions": [{"type": "Ready", "status": "True"}]}}  # fmt: skip
    node = Node.read(told)
    assert (node.usable, node.room) == (True, {"cpu": Decimal("0.5"), "memory": 1024})
    assert not Node.read({**told, "spec": {"unschedulable": True}}).usable
    assert not Node.read({**told, "status": {}}).usable


@pytest.mark.parametrize(
    ("taint", "tolerations", "comes"),
    [
        ("dedicated=team-x:NoSchedule", "", False),
        ("dedicated=team-x:NoExecute", "other", False),
        ("dedicated=team-x:PreferNoSchedule", "", True),
        ("dedicated=team-x:NoSchedule", "dedicated", True),
        ("dedicated=team-x:NoSchedule", "dedicated=team-x", True),
        ("dedicated=team-x:NoSchedule", "dedicated=team-y", False),
        ("dedicated=team-x:NoSchedule", "dedicated:NoSchedule", True),
        ("dedicated=team-x:NoSchedule", "dedicated=team-x:NoExecute", False),
        ("dedicated:NoExecute", "dedicated:NoExecute", True),
    ],
)
def test_a_node_takes_pods_that_tolerate_its_taints(taint, tolerations, comes):
    label, _, effect = taint.partition(":")
    key, _, value = label.partition("=")
    told = {"key": key, "effect": effect, **({"value": value} if value else {})}
    node = Node.read({"metadata": {"name": "n"}, "spec": {"taints": [told]}})
    assert node.takes({}, read_tolerations(tolerations)) is comes
    all_of_them = {"operator": "Exists"}  # as admission may add it
    assert node.takes({}, [all_of_them])
    assert not node.takes({"gpu": "a100"}, [all_of_them])


@pytest.mark.parametrize(
    ("status", "said", "words"),
    [
        (401, "Unauthorized", "expired"),
        (403, 'pods "x" is forbidden: exceeded quota: q, requested: pods=1', "quota"),
        (403, 'pods "x" is forbidden: violates PodSecurity "restricted"', "admission"),
        (403, 'admission webhook "w" denied the request: no', "admission"),
        (403, 'pods is forbidden: User "u" cannot create resource "pods"', "may not"),
        (404, 'namespaces "gone" not found', "no namespace"),
        (403, "no new content in namespace x because it is being terminated", "removed"),
        (422, "spec.x: Invalid value", "refuses"),
    ],
)  # fmt: skip
def test_what_the_server_refuses_is_told_with_a_way_out(status, said, words):
    error = refusal(status, said, "gone")
    assert words in error.what
    assert error.fix
    assert error.status == status


@pytest.mark.parametrize("launch", [None, "{}", '{"python": null}'])
def test_a_job_that_does_not_tell_its_python_is_no_program_called_none(launch, tmp_path):
    paths = JobPaths(tmp_path, "20260101-000000-aaaaa")
    make_private(paths.root)
    path = paths.root / "launch.json"
    if launch is not None:
        path.write_text(launch)
    with pytest.raises(ClusterError, match="which Python its pods have") as told:
        python_of(paths)
    assert told.value.where == str(path)
    assert told.value.fix
    path.write_text('{"python": "python3"}')
    assert python_of(paths) == "python3"


def test_pods_are_asked_for_in_the_contexts_namespace(server):
    server.body = {"kind": "PodList", "items": [{"metadata": {"name": "a"}, "spec": {}}]}
    api = Kubernetes()
    assert api.namespace == "research"
    assert [pod["metadata"]["name"] for pod in api.pods("a=b")] == ["a"]
    (command, path, _) = server.asked[-1]
    assert (command, path.partition("?")[0]) == ("GET", "/api/v1/namespaces/research/pods")
    assert "labelSelector=a%3Db" in path


def test_a_pod_is_created_as_its_manifest_says(server):
    server.status = 201
    server.body = {"kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": []}}
    manifest = made(JobSpec(roles=(Role(resources=Resources(gpus=1)),)))["worker-0"]
    Kubernetes().create(manifest, dry_run=True)
    (command, path, body) = server.asked[-1]
    assert (command, "dryRun=All" in path) == ("POST", True)
    assert json.loads(body) == manifest


QUOTA = (
    'pods "a" is forbidden: exceeded quota: team, requested: requests.nvidia.com/gpu=2,'
    " used: requests.nvidia.com/gpu=3, limited: requests.nvidia.com/gpu=4"
)
BUSY = (
    'Operation cannot be fulfilled on resourcequotas "team": the object has been modified; please'
    " apply your changes to the latest version and try again"
)


@pytest.mark.parametrize(
    ("status", "why", "said", "error"),
    [
        (409, "AlreadyExists", 'pods "a" already exists', TakenError),
        (409, "Conflict", BUSY, ClusterError),
        (409, None, "of a server in between", ClusterError),
        (401, "Unauthorized", "", RefusedError),
        (403, "Forbidden", QUOTA, QuotaError),
        (403, "Forbidden", 'pods "a" is forbidden: status unknown for quota: team', ClusterError),
        (403, "Forbidden", 'pods is forbidden: User "u" cannot create them', SubmissionError),
        (500, "InternalError", "away", ClusterError),
    ],
)
def test_what_passes_is_not_refused(server, status, why, said, error):
    server.status = status
    server.body = {"kind": "Status", "message": said, **({"reason": why} if why else {})}
    with pytest.raises(error) as told:
        Kubernetes().create({"metadata": {"name": "a"}, "spec": {"containers": []}})
    assert type(told.value) is error
    assert shortened(said, 60).partition(" … ")[0] in told.value.what
    if error is not TakenError:
        assert told.value.fix


def test_an_error_of_one_pod_is_not_the_silence_of_the_server(server):
    """A webhook that changes pods has failed, say: all else is answered, and for all jobs."""
    server.status = 500
    said = "Internal error occurred: the pod cannot be changed"
    server.body = {"kind": "Status", "reason": "InternalError", "message": said}
    api = Kubernetes()
    with pytest.raises(ClusterError, match="the pod cannot be changed") as told:
        api.create({"metadata": {"name": "a"}, "spec": {"containers": []}})
    assert "does not answer" not in told.value.what
    assert told.value.fix
    server.status, server.body = 200, {"items": []}
    assert api.pods("a=b") == []
    server.status, server.body = 502, b"<html>Bad Gateway</html>"
    with pytest.raises(ClusterError, match="does not answer"):
        api.create({"metadata": {"name": "a"}, "spec": {"containers": []}})
    with pytest.raises(ClusterError, match="does not answer"):
        api.pods("a=b")


@pytest.mark.parametrize(
    "body",
    [b"<html>Log in to the network</html>", b"", b"[]", b"7", {}, {"items": "none"}],
)
def test_what_is_no_list_is_silence_and_not_that_there_are_no_pods(server, monkeypatch, body):
    """A proxy's page has the status 200, too: jobs that run would be taken for lost."""
    monkeypatch.setattr(client, "_SILENT_FOR", 0.0)
    server.body = body
    api = Kubernetes()
    for ask in (lambda: api.pods("a=b"), api.all_pods, api.nodes, lambda: api.events("a")):
        with pytest.raises(ClusterError, match="does not answer") as told:
            ask()
        assert told.value.where == server.url
    server.body = {"items": None}  # as Go writes an empty one
    assert api.pods("a=b") == []


@pytest.mark.parametrize("body", [b"<html>Log in</html>", b"[]", b"null"])
def test_a_pod_is_created_where_the_server_says_so_alone(server, body):
    server.body = body
    with pytest.raises(ClusterError, match="does not answer"):
        Kubernetes().create({"metadata": {"name": "a"}, "spec": {"containers": []}})


@pytest.mark.parametrize("body", [b"<html>no</html>", b"[]", b"7"])
def test_a_refusal_that_is_no_json_is_told(server, body):
    server.status, server.body = 403, body
    with pytest.raises(RefusedError, match="may not do that"):
        Kubernetes().pods("a=b")


def quota_of(**limited):
    """Return how a server refuses a pod that asks for one of each."""
    one = ",".join(f"{name}=1" for name in limited)
    most = ",".join(f"{name}={amount}" for name, amount in limited.items())
    told = f"exceeded quota: team, requested: {one}, used: {one}, limited: {most}"
    return QuotaError("the quota", fix="ask for less", told=told)


@pytest.mark.parametrize(
    ("limited", "refuses"),
    [
        ({"requests.nvidia.com/gpu": "6"}, False),
        ({"requests.nvidia.com/gpu": "5"}, True),
        ({"pods": "3"}, False),
        ({"count/pods": "2"}, True),
        ({"pods": "3", "requests.nvidia.com/gpu": "5"}, True),
        ({"limits.memory": "2304Mi"}, False),  # those that serve files have 256 Mi each
        ({"limits.memory": "2303Mi"}, True),
        ({"requests.cpu": "6"}, False),
        ({"cpu": "5500m"}, True),
        ({"what.is/new": "1"}, False),
        ({"what.is/new": "500m"}, True),  # the server itself says that a pod asks for one
        ({}, False),
    ],
)
def test_what_a_quota_never_gives_is_refused_and_what_it_gives_later_is_not(limited, refuses):
    role = Role(count=3, resources=Resources(gpus=2, vcores=2, memory=512))
    pods = [pod["spec"] for pod in made(JobSpec(roles=(role,))).values()]
    error = quota_of(**limited)
    if not refuses:
        refuse_beyond_quota(error, pods)
        return
    with pytest.raises(SubmissionError, match="quota") as told:
        refuse_beyond_quota(error, pods)
    assert told.value.fix


@pytest.mark.parametrize(("used", "refused"), [(3, False), (0, True)])
def test_a_quota_that_is_in_use_refuses_no_job_before_it_is_there(server, tmp_path, used, refused):
    ready = {"type": "Ready", "status": "True"}
    room = {"nvidia.com/gpu": "8", "memory": "8Gi", "cpu": "8"}
    node = {"metadata": {"name": "n"}, "status": {"allocatable": room, "conditions": [ready]}}
    asks = 2 if used else 5
    said = (
        f'pods "a" is forbidden: exceeded quota: team, requested: requests.nvidia.com/gpu={asks},'
        f" used: requests.nvidia.com/gpu={used}, limited: requests.nvidia.com/gpu=4"
    )

    def answer(command, _path, _body):
        if command == "POST":
            return 403, {"kind": "Status", "reason": "Forbidden", "message": said}
        return 200, {"items": [node]}

    server.answers = answer
    spec = JobSpec(roles=(Role(resources=Resources(gpus=asks)),))
    if not refused:
        KubernetesBackend(tmp_path).check(spec)
        return
    with pytest.raises(SubmissionError, match=r"quota .* limited: requests.nvidia.com/gpu=4"):
        KubernetesBackend(tmp_path).check(spec)


def test_what_is_not_ours_to_know_is_none(server):
    server.status, server.body = 403, {"message": "forbidden"}
    api = Kubernetes()
    assert api.nodes() is None
    assert api.all_pods() is None
    with pytest.raises(ClusterError):
        api.pods("a=b")


def test_who_is_gone_is_deleted(server):
    server.status, server.body = 404, {"message": "not found"}
    Kubernetes().delete("a", grace=1)


def test_a_server_that_is_away_is_asked_once_by_many(server, tmp_path, monkeypatch):
    monkeypatch.setattr(client, "_SILENT_FOR", LIMIT)
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path / "away", "http://127.0.0.1:1")))
    api = Kubernetes()
    with pytest.raises(ClusterError, match="does not answer") as first:
        api.pods("a=b")
    with pytest.raises(ClusterError, match="does not answer") as second:
        api.pods("a=b")
    assert first.value is second.value
    assert "0x" not in str(first.value)


def test_more_than_a_node_has_is_refused(server, tmp_path):
    server.body = {"kind": "NodeList", "items": [{"metadata": {"name": "n"}, "status": {
        "allocatable": {"nvidia.com/gpu": "4"}}}]}  # fmt: skip
    spec = JobSpec(roles=(Role(resources=Resources(gpus=5)),))
    with pytest.raises(ResourcesError, match="the largest one has 4"):
        KubernetesBackend(tmp_path).check(spec)


def nodes_of(gpus):
    """Return an answer for every question: one node with so many GPUs, by which pods are taken."""
    room = {"nvidia.com/gpu": gpus, "memory": "8Gi", "cpu": "8"}
    node = {"metadata": {"name": "n"}, "status": {"allocatable": room}}
    return lambda _command, _path, _body: (200, {"items": [node]})


@pytest.mark.parametrize(
    ("setting", "free"), [(None, ["open", "of-gpus"]), ("team=x", ["open", "of-gpus", "of-team"])]
)
def test_gpus_of_nodes_whose_taints_jobs_do_not_tolerate_are_not_free(
    server, tmp_path, monkeypatch, setting, free
):
    if setting:
        monkeypatch.setenv("SUBMARINE_KUBERNETES_TOLERATIONS", setting)
    status = {
        "allocatable": {"nvidia.com/gpu": "1"},
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    taints = {
        "open": [],
        "of-gpus": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}],
        "of-team": [{"key": "team", "value": "x", "effect": "NoSchedule"}],
    }
    nodes = [
        {"metadata": {"name": name}, "spec": {"taints": there}, "status": status}
        for name, there in taints.items()
    ]
    server.answers = lambda _command, path, _body: (
        (200, {"items": nodes if path.startswith("/api/v1/nodes") else []})
    )
    found = {gpu.host: gpu for gpu in KubernetesBackend(tmp_path).gpus({})}
    assert [host for host, gpu in found.items() if not gpu.held_by] == free
    if not setting:
        assert "--tolerations" in found["of-team"].held_words


def smallest_role(_command, path, _body):
    """Answer as an API server does to who has the role `submarine` alone."""
    is_ours = "/namespaces/" in path
    return (200, {"items": []}) if is_ours else (403, {"message": "forbidden"})


@pytest.mark.parametrize(
    ("answers", "gpus"),
    [(nodes_of("4"), [1, 0]), (nodes_of("0"), [0, 0]), (smallest_role, [1, 0])],
    ids=["with-gpus", "without-gpus", "unseen"],
)
def test_gpus_that_are_left_open_are_those_of_the_role_and_the_cluster(
    server, tmp_path, answers, gpus
):
    server.answers = answers
    spec = KubernetesBackend(tmp_path).check(JobSpec(roles=(Role(), Role(name="ps"))))
    assert [role.resources.gpus for role in spec.roles] == gpus


def test_a_job_for_nodes_of_which_there_are_none_does_not_lose_its_gpu(server, tmp_path):
    server.answers = nodes_of("4")
    spec = JobSpec(options={"node_selector": "gpu=none-such"})
    with pytest.raises(ResourcesError, match="the largest one has 0"):
        KubernetesBackend(tmp_path).check(spec)


def test_the_doctor_only_notes_that_the_smallest_role_sees_no_gpus(server, monkeypatch, tmp_path):
    monkeypatch.setenv("SUBMARINE_HOME", str(tmp_path / "home"))
    server.answers = smallest_role
    (found,) = KubernetesBackend.checks(load_config())
    assert (found.title, found.verdict) == ("GPUs", NOTE)
    assert "jobs run without" in found.fix
    server.answers = lambda *_: (403, {"message": "forbidden"})
    with pytest.raises(ClusterError, match="forbidden"):  # nor may it list what jobs need
        list(KubernetesBackend.checks(load_config()))


@pytest.mark.parametrize("content", ["", "[]", "contexts: 3", "\0", "{not yaml"])
def test_a_kubeconfig_that_is_none_is_told(tmp_path, monkeypatch, content):
    path = tmp_path / "kubeconfig"
    path.write_text(content)
    monkeypatch.setenv("KUBECONFIG", str(path))
    with pytest.raises(ConfigError) as refused:
        Kubernetes()
    assert refused.value.fix


def test_where_there_is_no_kubeconfig_the_way_to_one_is_told(tmp_path, monkeypatch):
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert not KubernetesBackend.configured()
    with pytest.raises(ConfigError, match="there is no kubeconfig") as missing:
        Kubernetes()
    assert "KUBECONFIG" in missing.value.fix
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    with pytest.raises(ConfigError, match="no such kubeconfig"):
        Kubernetes()


def test_a_context_that_is_not_there_names_those_that_are(tmp_path, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path / "kubeconfig", "http://127.0.0.1:1")))
    monkeypatch.setenv("SUBMARINE_KUBERNETES_CONTEXT", "two")
    with pytest.raises(ConfigError, match="no context 'two'") as unknown:
        Kubernetes()
    assert "one" in unknown.value.fix


@pytest.fixture
def another(server):
    """Give a second API server."""
    found = StandInServer()
    found.body = {"items": []}
    yield found
    found.close()


def test_the_context_that_is_chosen_is_asked_of_several_kubeconfigs(
    server, another, tmp_path, monkeypatch
):
    """``KUBECONFIG=a:b`` is both, and what both have is the first one's, as kubectl has it."""
    server.body = {"items": []}
    one = kubeconfig(tmp_path / "one", server.url, {"token": "first"}, namespace="research")
    two = kubeconfig(
        tmp_path / "two", another.url, {"token": "second"}, called="two", namespace="teaching"
    )
    told = json.loads(two.read_text())
    told["users"].append({"name": "user-one", "user": {"token": "not-this-one"}})
    two.write_text(json.dumps(told))
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/none-such:{one}:{two}")
    first = Kubernetes()
    first.pods("a=b")
    assert (first.namespace, server.seen, another.asked) == ("research", ["Bearer first"], [])
    monkeypatch.setenv("SUBMARINE_KUBERNETES_CONTEXT", "two")
    second = Kubernetes()
    second.pods("a=b")
    assert (second.namespace, another.seen, len(server.asked)) == ("teaching", ["Bearer second"], 1)
    assert another.asked[0][1].startswith("/api/v1/namespaces/teaching/pods")
    assert first.fingerprint != second.fingerprint
    monkeypatch.setenv("KUBECONFIG", f"{two}:{one}")
    monkeypatch.delenv("SUBMARINE_KUBERNETES_CONTEXT")
    assert Kubernetes().namespace == "teaching", "the current context is the first file's"


@pytest.fixture
def in_a_pod(tmp_path, monkeypatch):
    """Have this process be in a pod, by whose service account the cluster's API is asked."""
    authority = certificate(tmp_path)
    server = StandInServer(tmp_path / "both.pem")
    account = tmp_path / "serviceaccount"
    account.mkdir()
    (account / "namespace").write_text("team-a\n")
    (account / "token").write_text("of-the-account")
    (account / "ca.crt").write_bytes(authority.read_bytes())
    monkeypatch.setattr(client, "_IN_CLUSTER", account)
    # Both ends of a handshake are this process: on a busy machine it may be late.
    monkeypatch.setattr(client, "PATIENCE", (LIMIT, LIMIT))
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(account / "token"))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(account / "ca.crt"))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(server.server.server_port))
    server.body = {"items": []}
    server.tokens = {"bearer of-the-account"}
    yield server, account
    server.close()


def test_in_a_pod_its_service_account_is_asked_as(in_a_pod):
    server, account = in_a_pod
    assert KubernetesBackend.configured()
    api = Kubernetes()
    assert api.namespace == "team-a"
    assert api.pods("a=b") == []
    assert server.asked[0][1].startswith("/api/v1/namespaces/team-a/pods")
    # A node writes another token into the pod before the one that it has is over.
    server.tokens = {"bearer of-the-next-hour"}
    (account / "token").write_text("of-the-next-hour")
    assert api.pods("a=b") == []
    assert [one.split()[1] for one in server.seen] == ["of-the-account"] * 2 + ["of-the-next-hour"]


def test_in_a_pod_a_kubeconfig_that_is_named_wins(in_a_pod, server, tmp_path, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    assert Kubernetes().namespace == "research"


def test_a_service_account_whose_token_is_missing_is_told(in_a_pod):
    (in_a_pod[1] / "token").unlink()
    with pytest.raises(ConfigError, match="service account") as refused:
        Kubernetes()
    assert refused.value.fix


def workload(name, age=0, priority=0, queue="team", message="", **more):
    conditions = [{"type": "QuotaReserved", "status": "False", "message": message}]
    return {
        "metadata": {
            "creationTimestamp": f"2026-01-01T00:00:{age:02}Z",
            "ownerReferences": [{"kind": "Pod", "name": name}],
        },
        "spec": {"queueName": queue, "priority": priority},
        "status": {"conditions": conditions},
        **more,
    }


def has_kueue(server, *items):
    group = {"name": "kueue.x-k8s.io", "preferredVersion": {"version": "v1beta2"}}
    server.status, server.body = 200, {"groups": [group], "items": list(items)}
    return Kueue(Kubernetes())


def test_who_is_before_a_job_in_its_queue_is_counted(server):
    admitted = {"status": {"conditions": [{"type": "QuotaReserved", "status": "True"}]}}
    said = (
        "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in"
        " flavor any, 2 more needed"
    )
    kueue = has_kueue(
        server,
        workload("mine", 5, message=said),
        workload("older", 4),
        workload("younger", 6),
        workload("younger-and-higher", 7, priority=10),
        workload("elsewhere", 1, queue="other"),
        workload("runs", 1, **admitted),
        workload("put-away", 1, spec={"queueName": "team", "active": False}),
    )
    kueue._workloads = Polled(kueue._workloads._ask, holds=LIMIT)  # however slow the machine
    before, words = kueue.waiting("team", ["mine"])
    assert before == 2
    assert words == ("the quota of the queue team is in use: 2 more of nvidia.com/gpu needed (any)")
    assert kueue.waiting("team", ["runs"]) == (0, "")
    path = "/apis/kueue.x-k8s.io/v1beta2/namespaces/research/workloads"
    assert [one for _, one, _ in server.asked if "kueue" in one] == [path], "asked once for both"


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("", "has not let it in yet"),
        ("ClusterQueue gpus is inactive", "the queue team is stopped, or not set up"),
        ("LocalQueue team is stopped", "the queue team is stopped, or not set up"),
        ("The ClusterQueue is stopped", "the queue team is stopped, or not set up"),
        (
            "insufficient quota for nvidia.com/gpu in flavor any, request > maximum capacity (4)",
            "asks for more of nvidia.com/gpu than the queue team ever gives",
        ),
        ("something\n new", "Kueue says: something new"),
    ],
)
def test_why_kueue_lets_a_job_wait_is_told_in_words(message, words):
    assert words in reason(workload("mine", message=message), "team")


def test_a_queue_of_kueues_that_is_none_is_refused_with_those_that_are(server):
    kueue = has_kueue(server, *({"metadata": {"name": name}} for name in ("team", "night")))
    kueue.refuse_unknown("team")
    with pytest.raises(UnsupportedError, match="no queue 'x' in the namespace research") as none:
        kueue.refuse_unknown("x")
    assert "night, team" in none.value.fix
    server.body = {"groups": []}
    with pytest.raises(UnsupportedError, match="has no Kueue") as missing:
        kueue.refuse_unknown("team")
    assert missing.value.fix
