"""Jobs on a real Kubernetes: what it refuses, ends and forgets, and what kills leave of a job."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from submarine_engine.cli import main
from submarine_engine.clusters import open_cluster
from submarine_engine.clusters.kubernetes.client import Kubernetes
from submarine_engine.clusters.kubernetes.manifest import JOB
from submarine_engine.clusters.store import read_events
from submarine_engine.errors import ClusterError, ResourcesError, SubmissionError, UnsupportedError
from submarine_engine.events import Warned
from submarine_engine.job import JobState, Resources, Role
from submarine_engine.testing import Place
from submarine_engine.testing.jobs import end_processes_of, until

from tests.clusters.walking import recovered, submit
from tests.kubernetes.conftest import takes

pytestmark = pytest.mark.long

WAITS = (
    "import os, time\nopen({flag!r}, 'w')\nwhile not os.path.exists({gate!r}): time.sleep(0.05)\n"
)


@pytest.fixture
def place(kubernetes_home, kubernetes_folder):
    place = Place("kubernetes", kubernetes_home, kubernetes_folder)
    yield place
    place.clean_up()


def kubectl(*words, check=True, **given):
    """Run ``kubectl`` as who runs the cluster; return what it says."""
    program = Path(os.environ["KUBECONFIG"]).with_name("bin") / "kubectl"
    done = subprocess.run(
        [program, *words], capture_output=True, text=True, check=False, timeout=120, **given
    )
    assert not check or done.returncode == 0, done.stderr
    return done.stdout


def pods(job):
    told = kubectl("get", "pods", "-o", "json", "-l", f"{JOB}={job.id}")
    return json.loads(told)["items"]


def begin(place, **options):
    """Submit a job that waits for a gate; return it and the gate."""
    flag, gate = place.folder / "runs", place.folder / "gate"
    job = place.submit(WAITS.format(flag=str(flag), gate=str(gate)), **options)
    place.until_running(job, flag)
    return job, gate


def refusal_of(place, **options):
    """Return why a job is refused; None where it is not."""
    try:
        place.submit("1", **options).kill()
    except SubmissionError as error:
        return error
    except ClusterError:  # it has not counted a new quota yet, and wants to be asked again
        return None
    return None


def test_an_address_elsewhere_reaches_the_code_as_it_was_given(place):
    code = "import os\n[os.environ[f'SUBMARINE_{one}_PATH'] for one in ('INPUT', 'CHECKPOINT')]"
    given = ["s3://bucket/train", "file:///data/run"]
    job = place.submit(code, input_path=given[0], checkpoint_path=given[1], gpus=0)
    assert job.result(180) == [given[0], "/data/run"]


def test_a_job_is_a_pod_and_leaves_nothing(place):
    job, gate = begin(place, gpus=1)
    (pod,) = pods(job)
    assert pod["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "1"
    assert place.holders() == {job.id: 1}
    gate.touch()
    assert job.wait(180).state is JobState.SUCCEEDED
    until(lambda: not pods(job))
    assert not (place.paths(job).root / "pods").exists()


def test_a_job_that_hangs_says_so(place):
    script = "import time\nprint('there', flush=True)\nwhile True: time.sleep(0.05)"
    resources = Resources(gpus=0, memory=256, vcores=1)
    job = place.submit(script, roles=(Role(count=2, resources=resources),), hang_after=3.0)
    until(lambda: job.status().warning, 180)
    assert "the job seems to hang" in job.status().warning
    assert "ranks 0, 1: " in job.status().warning
    job.cancel("enough")
    assert job.wait(180).state is JobState.CANCELLED


def test_what_it_would_never_run_is_refused_before_there_is_a_job(place, monkeypatch):
    for options, error, word in (
        ({"priority_class": "no-such-class"}, SubmissionError, "no-such-class"),
        ({"service_account": "no-such-account"}, SubmissionError, "no-such-account"),
        ({"queue": "no-such-queue"}, UnsupportedError, "no-such-queue"),
        ({"gpus": 5}, ResourcesError, "the largest one has 4"),
        ({"node_selector": "gpu=none", "gpus": 1}, ResourcesError, "the largest one has 0"),
    ):
        with pytest.raises(error, match=word) as refused:
            place.submit("1", **options)
        assert refused.value.fix
    kubectl("create", "quota", "small", "--hard=requests.nvidia.com/gpu=1")
    try:
        # The cluster begins to count a moment after it was told.
        error = until(lambda: refusal_of(place, gpus=2))
        assert "quota" in error.what
    finally:
        kubectl("delete", "quota", "small")
    monkeypatch.setenv("SUBMARINE_KUBERNETES_NAMESPACE", "no-such-namespace")
    elsewhere = Place("kubernetes", place.home, place.folder)
    with pytest.raises(SubmissionError, match="no namespace 'no-such-namespace'"):
        elsewhere.submit("1")


def test_a_token_that_is_none_is_told(place, monkeypatch, tmp_path):
    config = tmp_path / "kubeconfig"
    config.write_bytes(Path(os.environ["KUBECONFIG"]).read_bytes())
    config.chmod(0o600)
    words = ["config", "--kubeconfig", str(config)]
    user = json.loads(kubectl(*words, "view", "-o", "json"))["contexts"][0]["context"]["user"]
    kubectl(*words, "delete-user", user)
    kubectl(*words, "set-credentials", user, "--token=expired")
    monkeypatch.setenv("KUBECONFIG", str(config))
    with pytest.raises(ClusterError, match="expired"):
        Kubernetes().pods("a=b")


def test_an_image_without_python_is_told(place, monkeypatch):
    monkeypatch.setenv("SUBMARINE_KUBERNETES_PYTHON", "/opt/none/bin/python3")
    job = place.submit("1")
    status = job.wait(180)
    assert status.state is JobState.FAILED
    assert "python" in status.reason
    assert "kubernetes_python" in status.reason


def test_an_image_that_cannot_be_pulled_is_told_at_once_and_refused_with_its_cause(
    place, monkeypatch, capfd
):
    image = "registry.invalid/some-team/a-model-with-a-long-name:1"
    script = place.folder / "train.py"
    script.write_text("1")
    monkeypatch.chdir(place.folder)
    job = place.submit("1", docker_image=image)
    until(lambda: "cannot be pulled" in job.status().warning, 100)
    assert not job.done()
    assert "it is tried for 2 min" in job.status().warning
    # Whoever follows it reads that as a line of its own, also where nobody sits at a terminal.
    assert (
        main(["job", "run", str(script), "--cluster", "kubernetes", "--docker_image", image]) != 0
    )
    said = [line for line in capfd.readouterr().err.splitlines() if "warning: its image" in line]
    assert len(said) == 1
    status = job.wait(180)
    assert status.state is JobState.FAILED
    told = status.reason.partition(" (")[0]
    assert "its image cannot be pulled" in told
    assert "no such host" in told or "dial tcp" in told or "lookup" in told
    events = [event for event, _ in read_events(place.paths(job).events)[0]]
    warned = [event.text for event in events if isinstance(event, Warned)]
    assert len(warned) == 1


def test_kubectl_delete_by_hand_ends_a_job(place):
    job, _ = begin(place, gpus=1, retries=3)
    (pod,) = pods(job)
    kubectl("delete", "pod", pod["metadata"]["name"], "--wait=false")
    status = job.wait(180)
    assert status.state is JobState.CANCELLED
    assert status.reason == "somebody deleted its pod in Kubernetes"
    assert {task.attempt for task in status.tasks} == {1}
    until(lambda: place.holders() == {})


def test_an_evicted_task_is_another_attempt(place):
    job, gate = begin(place, gpus=1, retries=1)
    (pod,) = pods(job)
    name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
    told = {
        "apiVersion": "policy/v1", "kind": "Eviction",
        "metadata": {"name": name, "namespace": namespace},
    }  # fmt: skip
    path = f"/api/v1/namespaces/{namespace}/pods/{name}/eviction"
    kubectl("create", "--raw", path, "-f", "-", input=json.dumps(told))
    until(lambda: job.status().attempt == 2)
    gate.touch()
    status = job.wait(180)
    assert (status.state, status.attempt) == (JobState.SUCCEEDED, 2)
    assert "vict" in status.retried


def test_a_task_that_takes_too_much_memory_is_named_and_has_its_log(place):
    script = "print('so far', flush=True)\nblock = [bytearray(1 << 20) for n in range(2000)]"
    job = place.submit(script, memory=96)
    story = place.follow(job)
    assert story.state is JobState.FAILED
    assert "OOMKilled" in story.status.reason
    assert "memory" in story.status.reason
    assert story.out == "so far\n"


def test_a_killed_keeper_is_followed_by_another_that_asks_for_nothing_twice(place):
    job, gate = begin(place, gpus=1)
    (pod,) = pods(job)
    # Those of other tests' users may linger in the same home.
    lock = place.home / "kubernetes" / Kubernetes().fingerprint / "keeper.lock"
    pid = next(pid for pid, _ in keepers(place.home) if has_open(pid, lock))
    os.kill(pid, signal.SIGKILL)
    assert lock.exists()
    gate.touch()
    another = place.submit("'another'")
    assert another.result(180) == "another"
    assert job.wait(180).state is JobState.SUCCEEDED
    assert {task.attempt for task in job.status().tasks} == {1}
    assert pod["metadata"]["name"].endswith("-1-0-worker-0")


def has_open(pid, path):
    """Return whether a process has a file open."""
    with suppress(OSError):  # it has ended since
        return str(path) in {os.path.realpath(one) for one in Path(f"/proc/{pid}/fd").iterdir()}
    return False


def keepers(home):
    """Yield the keepers of a home: pid and command line."""
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdecimal() else []
        except OSError:
            continue
        if b"submarine_engine.clusters.keeper" in words and str(home).encode() in words:
            yield int(entry.name), words


def test_a_namespace_that_goes_takes_the_job_along_in_words(place, monkeypatch):
    kubectl("create", "namespace", "passing")
    account = ("get", "serviceaccount", "default", "-n", "passing")
    until(lambda: kubectl(*account, check=False))  # a moment later: no pod is taken before
    monkeypatch.setenv("SUBMARINE_KUBERNETES_NAMESPACE", "passing")
    monkeypatch.delenv("SUBMARINE_KUBERNETES_VOLUMES")
    monkeypatch.delenv("SUBMARINE_KUBERNETES_PYTHON")  # it lies on that volume
    elsewhere = Place("kubernetes", place.home, place.folder)
    job = elsewhere.submit("import time\nprint('runs', flush=True)\ntime.sleep(600)")
    until(lambda: job.status().state is JobState.RUNNING)
    kubectl("delete", "namespace", "passing", "--wait=false")
    status = job.wait(180)
    assert status.state is JobState.CANCELLED
    assert status.reason == "somebody deleted its pod in Kubernetes"
    with pytest.raises(SubmissionError, match="no namespace 'passing', or it is being removed"):
        elsewhere.submit("1")


ENDS_OR_WAITS = """\
import os, time
if os.environ["SUBMARINE_TASK"] == "worker-1":
    while not os.path.exists({gate!r}): time.sleep(0.05)
print("ends", flush=True)
os.environ["SUBMARINE_TASK"]
"""


def test_a_task_that_has_ended_gives_its_pod_back_and_no_other_keeper_asks_for_it(place):
    gate = place.folder / "gate"
    roles = (Role(count=2, resources=Resources(gpus=1)),)
    job = place.submit(ENDS_OR_WAITS.format(gate=str(gate)), roles=roles)
    until(lambda: [pod["metadata"]["name"][-8:] for pod in pods(job)] == ["worker-1"], 180)
    assert place.holders() == {job.id: 1}
    for pid, _ in keepers(place.home):
        os.kill(pid, signal.SIGKILL)
    assert place.submit("'another'").result(180) == "another"
    assert not job.done()
    gate.touch()
    assert job.result(180) == "worker-0"
    assert job.wait(180).state is JobState.SUCCEEDED
    assert {task.attempt for task in job.status().tasks} == {1}


def test_a_pod_that_is_deleted_while_it_waits_ends_the_job_in_words(place):
    job = place.submit("1", node_selector="kubernetes.io/hostname=none", retries=2)
    until(lambda: pods(job), 180)
    kubectl("delete", "pod", "-l", f"{JOB}={job.id}")
    status = job.wait(180)
    assert status.state is JobState.CANCELLED
    assert "deleted before its task began" in status.reason


@pytest.fixture
def tainted(kubernetes_home):
    """Have the node with GPUs take those pods alone that tolerate its taint."""
    kubectl("taint", "node", "n1", "team=vision:NoSchedule")
    yield "team=vision"
    kubectl("taint", "node", "n1", "team-", check=False)


def test_a_taint_keeps_a_job_waiting_in_words_unless_it_is_tolerated(place, tainted):
    job = place.submit("1", gpus=1)
    until(lambda: "taints that it does not tolerate" in (job.status().waiting_reason or ""), 180)
    assert "--tolerations" in job.status().waiting_reason
    assert job.status().state is JobState.QUEUED
    job.cancel()
    assert job.wait(180).state is JobState.CANCELLED
    assert all("--tolerations" in gpu.held_words for gpu in open_cluster("kubernetes").gpus())
    assert place.submit("'here'", gpus=1, tolerations=tainted).result(180) == "here"


@pytest.fixture
def priorities(kubernetes_home):
    """Give the names of two priority classes, the lower one first."""
    classes = {"early": 10, "urgent": 1000}
    for name, value in classes.items():
        kubectl("create", "priorityclass", name, f"--value={value}")
    yield tuple(classes)
    kubectl("delete", "priorityclass", *classes)


def test_who_is_preempted_by_a_higher_priority_is_another_attempt(place, priorities):
    low, high = priorities
    for name in priorities:
        until(lambda name=name: takes(place, gpus=4, priority_class=name))

    def hold(name, **options):
        flag, gate = place.folder / f"{name}-runs", place.folder / f"{name}-gate"
        code = WAITS.format(flag=str(flag), gate=str(gate))
        return place.submit(code, gpus=4, priority_class=name, **options), flag, gate

    gives_way, flag, gate = hold(low, retries=1)
    until(flag.exists, 180)
    comes_first, flag_of_high, gate_of_high = hold(high)
    until(flag_of_high.exists, 180)
    until(lambda: gives_way.status().attempt == 2, 180)
    assert "reempt" in gives_way.status().retried
    until(lambda: "GPUs free" in (gives_way.status().waiting_reason or ""), 180)
    gate.touch()
    gate_of_high.touch()
    assert comes_first.wait(180).state is JobState.SUCCEEDED
    status = gives_way.wait(180)
    assert (status.state, status.attempt) == (JobState.SUCCEEDED, 2)


FAILS = """
import os, signal
descriptor = os.open({side!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
os.write(descriptor, b"ran\\n")
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def new_home(kubernetes_home, tmp_path, monkeypatch):
    """Give a home whose keeper is the test's own, to be killed."""
    home = tmp_path / "home"
    monkeypatch.setenv("SUBMARINE_HOME", str(home))
    yield home
    assert not end_processes_of(home)


def test_a_task_that_nobody_looks_after_any_more_gives_its_gpu_back(
    kubernetes_folder, new_home, monkeypatch
):
    monkeypatch.setenv("SUBMARINE_KUBERNETES_LEASE", "20s")
    monkeypatch.setenv("SUBMARINE_KUBERNETES_KEEP", "1s")
    alone = Place("kubernetes", new_home, kubernetes_folder)
    job, _ = begin(alone, gpus=1)
    for pid, _ in keepers(new_home):  # and nothing of the user's asks for the job any more
        os.kill(pid, signal.SIGKILL)
    until(lambda: pods(job)[0]["status"]["phase"] in {"Succeeded", "Failed"}, 180)
    assert alone.holders() == {}
    status = job.wait(180)
    assert status.state is JobState.FAILED
    assert "its lease is over" in status.reason
    until(lambda: not pods(job))


@pytest.mark.parametrize("where", [r"shutil\.rmtree pods$", r"os\.remove reserve$"])
@pytest.mark.parametrize("fails", [False, True], ids=["succeeds", "fails"])
def test_a_keeper_killed_as_the_end_is_told_is_followed_by_one_that_tells_the_same(
    kubernetes_folder, new_home, where, fails
):
    folder = kubernetes_folder
    code = FAILS.format(side=str(folder / "side")) if fails else ""
    options = {"where": where, "code": code, "gpus": 1, "retries": 1}
    job_id = submit(folder, "kubernetes", "keeper", 1, **options)
    if fails:
        cluster = open_cluster("kubernetes")
        until(lambda: cluster.status(job_id).state.final, 180)
        assert cluster.status(job_id).state is JobState.FAILED
        assert (folder / "side").read_text() == "ran\n" * 2
    else:
        story = recovered(folder, new_home, "kubernetes")
        assert {task.attempt for task in story.status.tasks} == {1}
    assert (folder / "killed").exists()
    assert not (new_home / "jobs" / job_id / "pods").exists()
