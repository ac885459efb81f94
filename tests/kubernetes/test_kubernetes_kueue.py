"""Jobs in the queues of a real Kueue: they wait in words, come in whole, and give way to others.

Whoever is killed meanwhile, its controller or a job's keeper, no job is lost or runs twice.
"""

from __future__ import annotations

import json
import time

import pytest
from submarine_engine.errors import ClusterError, ResourcesError, SubmissionError, UnsupportedError
from submarine_engine.installer.kubernetes.files import NAMESPACE
from submarine_engine.job import JobState, Resources, Role
from submarine_engine.testing import Place
from submarine_engine.testing.jobs import until

from tests.kubernetes.conftest import takes
from tests.kubernetes.test_kubernetes_kills import walk

pytestmark = pytest.mark.long

PATIENCE = 180.0
WAITS = (
    "import os, time\nopen({flag!r}, 'a')\nwhile not os.path.exists({gate!r}): time.sleep(0.05)\n"
)


@pytest.fixture
def place(kueue, kubernetes_home, kubernetes_folder):
    kueue.set_queue("gpus", 2)
    kueue.set_local("team", "gpus")
    place = Place("kubernetes", kubernetes_home, kubernetes_folder)
    yield place
    place.clean_up()
    # What Kueue holds back it gives free as a job ends, and a moment later.
    until(lambda: not kueue.kubectl("get", "pods", "-o", "name"), PATIENCE)


def begin(place, name, **options):
    """Submit a job to the queue that waits for a gate of its name."""
    flag, gate = place.folder / f"{name}-runs", place.folder / f"{name}-gate"
    code = WAITS.format(flag=str(flag), gate=str(gate))
    return place.submit(code, queue="team", **options), flag, gate


def says(job, *words):
    """Return whether the card of a job that waits has these words."""
    status = job.status()
    return status.state is JobState.QUEUED and all(
        one in (status.waiting_reason or "") for one in words
    )


def placed(kueue, job):
    """Return how many pods of a job there are, and how many have a node."""
    words = ("get", "pods", "-l", f"submarine/job={job.id}", "-o", "json")
    pods = json.loads(kueue.kubectl(*words))["items"]
    return len(pods), sum("nodeName" in pod["spec"] for pod in pods)


def gang(gpus, count=2):
    return (Role(count=count, resources=Resources(gpus=gpus)),)


def is_another_second(kueue):
    """Return whether what comes now is younger than all that is there: Kueue counts in seconds."""
    told = max(one["metadata"]["creationTimestamp"] for one in kueue.workloads())
    return told < time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def test_jobs_wait_in_words_and_come_in_one_after_the_other(place, kueue):
    first, flag, gate = begin(place, "first", gpus=2)
    until(flag.exists, PATIENCE)
    second, flag_of_second, gate_of_second = begin(place, "second", gpus=1)
    until(lambda: says(second, "the quota of the queue team is in use", "1 more"), PATIENCE)
    assert second.status().ahead == 0
    until(lambda: is_another_second(kueue))
    third, _, gate_of_third = begin(place, "third", gpus=2)
    until(lambda: says(third, "queue team") and third.status().ahead == 1, PATIENCE)
    gate.touch()
    until(flag_of_second.exists, PATIENCE)
    gate_of_second.touch()
    gate_of_third.touch()
    for job in (first, second, third):
        assert job.wait(PATIENCE).state is JobState.SUCCEEDED


def test_a_gang_comes_in_whole_or_not_at_all(place, kueue):
    one, flag, gate = begin(place, "one", gpus=1)
    until(flag.exists, PATIENCE)
    two, _, gate_of_two = begin(place, "two", roles=gang(1))
    until(lambda: says(two, "the quota of the queue team is in use"), PATIENCE)
    assert placed(kueue, two) == (2, 0)
    gate.touch()
    gate_of_two.touch()
    assert two.wait(PATIENCE).state is JobState.SUCCEEDED
    assert one.wait(PATIENCE).state is JobState.SUCCEEDED


def test_a_job_that_is_larger_than_its_queue_is_told(place):
    job, _, _ = begin(place, "large", roles=gang(2))
    until(lambda: says(job, "more of nvidia.com/gpu than the queue team ever gives"), PATIENCE)
    job.cancel()
    assert job.wait(PATIENCE).state is JobState.CANCELLED


def test_who_gives_way_to_a_higher_priority_is_another_attempt(place, kueue):
    kueue.apply(*(
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
         "metadata": {"name": name}, "value": value}
        for name, value in (("small", 10), ("large", 1000))
    ))  # fmt: skip
    for name in ("small", "large"):
        until(lambda name=name: takes(place, gpus=2, priority_class=name, queue="team"), PATIENCE)
    low, flag, gate = begin(place, "low", gpus=2, retries=1, priority_class="small")
    until(flag.exists, PATIENCE)
    high, flag_of_high, gate_of_high = begin(place, "high", gpus=2, priority_class="large")
    until(flag_of_high.exists, PATIENCE)
    until(lambda: low.status().attempt == 2, PATIENCE)
    until(lambda: says(low, "the quota of the queue team is in use"), PATIENCE)
    assert "reempted" in low.status().retried
    gate_of_high.touch()
    gate.touch()
    assert high.wait(PATIENCE).state is JobState.SUCCEEDED
    status = low.wait(PATIENCE)
    assert (status.state, status.attempt) == (JobState.SUCCEEDED, 2)


def test_a_stopped_queue_is_told_and_one_that_is_drained_gives_jobs_back(place, kueue):
    kueue.set_queue("gpus", 2, stopped="Hold")
    told = "jsonpath={.status.conditions[?(@.type=='Active')].status}"
    words = ("get", "clusterqueue", "gpus", "-o", told)
    until(lambda: kueue.kubectl(*words) == "False", PATIENCE)  # Kueue hears of it a moment later
    job, flag, gate = begin(place, "held", gpus=1, retries=1)
    until(lambda: says(job, "the queue team is stopped"), PATIENCE)
    kueue.set_queue("gpus", 2)
    until(flag.exists, PATIENCE)
    kueue.set_queue("gpus", 2, stopped="HoldAndDrain")
    until(lambda: job.status().attempt == 2, PATIENCE)
    until(lambda: says(job, "the queue team is stopped"), PATIENCE)
    kueue.set_queue("gpus", 2)
    gate.touch()
    assert job.wait(PATIENCE).state is JobState.SUCCEEDED


def test_a_queue_that_is_not_there_is_refused_before_there_is_a_job(place, kueue):
    kueue.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "others"}})
    kueue.set_local("theirs", "gpus", "others")
    for name in ("none", "theirs"):
        with pytest.raises(UnsupportedError, match=f"no queue '{name}'") as refused:
            place.submit("1", queue=name)
        assert "team" in refused.value.fix
    assert not placed(kueue, type("Job", (), {"id": "any"}))[0]
    with pytest.raises(ResourcesError):
        place.submit("1", queue="team", gpus=5)


def test_a_job_that_is_cancelled_while_it_waits_leaves_nothing(place, kueue):
    first, flag, gate = begin(place, "first", gpus=2)
    until(flag.exists, PATIENCE)
    waiting = [begin(place, "one", gpus=1)[0], begin(place, "two", roles=gang(1))[0]]
    for job in waiting:
        until(lambda job=job: says(job, "queue team"), PATIENCE)
        job.cancel()
    for job in waiting:
        assert job.wait(PATIENCE).state is JobState.CANCELLED
    gate.touch()
    assert first.wait(PATIENCE).state is JobState.SUCCEEDED
    until(lambda: not kueue.workloads(), PATIENCE)


def test_a_gang_that_fails_leaves_nothing(place, kueue):
    code = "import os\nassert os.environ['SUBMARINE_TASK'] != 'worker-1', 'on purpose'"
    job = place.submit(code, queue="team", roles=gang(1))
    status = job.wait(PATIENCE)
    assert status.state is JobState.FAILED
    assert "on purpose" in status.reason


def test_who_deletes_a_workload_by_hand_ends_the_job(place, kueue):
    job, flag, _ = begin(place, "job", gpus=1, retries=3)
    until(flag.exists, PATIENCE)
    # That of a former test goes a moment after its pods.
    (workload,) = until(lambda: len(found := kueue.workloads()) == 1 and found, PATIENCE)
    kueue.kubectl(
        "delete", "workloads.kueue.x-k8s.io", workload["metadata"]["name"], "--wait=false"
    )
    status = job.wait(PATIENCE)
    assert status.state in {JobState.CANCELLED, JobState.FAILED}
    assert {task.attempt for task in status.tasks} == {1}


def test_the_roles_of_jobs_and_of_kueues_users_are_enough(
    place, kueue, kubernetes, monkeypatch, tmp_path
):
    from tests.kubernetes.test_kubernetes_role import ROLE

    admin = kubernetes.kubeconfig
    kueue.kubectl("apply", "-f", str(ROLE))
    kueue.kubectl("create", "serviceaccount", "queen")
    config = json.loads(admin.read_text())
    config["users"] = [
        {"name": "queen", "user": {"token": kueue.kubectl("create", "token", "queen").strip()}}
    ]
    config["contexts"][0]["context"]["user"] = "queen"
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(config))
    path.chmod(0o600)
    monkeypatch.setenv("KUBECONFIG", str(path))
    bound = f"--serviceaccount={NAMESPACE}:queen"
    try:
        kueue.kubectl("create", "rolebinding", "queen", "--role=submarine", bound)
        theirs = Place("kubernetes", place.home, place.folder)
        with pytest.raises(SubmissionError, match="localqueues") as refused:
            theirs.submit("1", queue="team")
        assert "kueue-batch-user-role" in refused.value.fix
        words = ("create", "rolebinding", "queen-of-kueue", "--clusterrole=kueue-batch-user-role")
        kueue.kubectl(*words, bound)
        job = until(lambda: _admitted(theirs), PATIENCE)
        assert job.result(PATIENCE) == 42
        words = ("get", "pods", "-l", f"submarine/job={job.id}", "-o", "name")
        until(lambda: not kueue.kubectl(*words), PATIENCE)  # its keeper needs the role for that
        theirs.clean_up()
    finally:
        kueue.kubectl("delete", "rolebinding", "queen", "queen-of-kueue", check=False)
        kueue.kubectl("delete", "serviceaccount", "queen", check=False)


def _admitted(place):
    """Submit a job; None where the cluster does not know of a role's binding yet."""
    try:
        return place.submit("6 * 7", queue="team", gpus=1)
    except SubmissionError:
        return None


@pytest.mark.parametrize(
    ("number", "where"),
    [
        (1, r"http\.POST pods"),  # its intent is noted, and no pod there
        (2, r"http\.POST pods"),  # one pod of the group is there: Kueue waits for the other one
        (2, r"os\.rename .kubernetes\.json"),  # both are, and that is not noted
        (1, r"pod\.ask bring"),  # Kueue has let both in, and no files are brought
        (1, r"pod\.ask end"),  # all is home, and the pod does not know
        (2, r"pod\.ask end"),  # one has ended, as Kueue wants to see
    ],
)
def test_a_gang_in_a_queue_is_one_group_whenever_its_keeper_is_killed(
    kubernetes_folder, walked_home, kueue, number, where
):
    kueue.set_queue("gpus", 2)
    kueue.set_local("team", "gpus")
    options = {"gang": True, "queue": "team"}
    assert walk(kubernetes_folder, walked_home, "keeper", number, where=where, **options)
    assert (kubernetes_folder / "killed").exists()
    until(lambda: not kueue.workloads(), PATIENCE)


def test_jobs_outlive_kueues_controller(place, kueue):
    first, flag, gate = begin(place, "first", gpus=2)
    until(flag.exists, PATIENCE)
    second, flag_of_second, gate_of_second = begin(place, "second", gpus=1)
    until(lambda: says(second, "the quota of the queue team is in use"), PATIENCE)
    kueue.kill()
    try:
        gate.touch()
        assert first.wait(PATIENCE).state is JobState.SUCCEEDED
        # Nothing can be asked for in its queues: that is told before there is a job.
        with pytest.raises(ClusterError, match="webhook") as refused:
            begin(place, "third", gpus=1)
        assert "later" in refused.value.fix
        assert second.status().state is JobState.QUEUED
    finally:
        kueue.begin()
    until(flag_of_second.exists, PATIENCE)
    third, _, gate_of_third = begin(place, "third", gpus=1)
    gate_of_second.touch()
    gate_of_third.touch()
    for job in (second, third):
        assert job.wait(PATIENCE).state is JobState.SUCCEEDED
