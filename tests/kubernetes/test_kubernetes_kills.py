"""Whoever is killed: a job on Kubernetes has one set of pods, runs once, and leaves nothing."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile

import pytest
from submarine_engine import open_job
from submarine_engine.clusters.kubernetes.manifest import JOB, manifests
from submarine_engine.clusters.kubernetes.noted import pods_of
from submarine_engine.history import JobPaths, job_ids, read_json
from submarine_engine.job import JobSpec, JobState
from submarine_engine.records import list_jobs
from submarine_engine.testing.jobs import until

from tests.clusters.walking import CODE, DULL, recovered, submit, walk_all
from tests.kubernetes.test_kubernetes_cluster import kubectl
from tests.kubernetes_homes import end_keeper

pytestmark = pytest.mark.long

WALK = "tests.kubernetes.walked"
LOCAL = re.compile(rf"{DULL.pattern}|(open|os\.remove) (?!events\.jsonl)")
"""Points that a job of one is walked through, and one of two not once more for each of its tasks:
files of this machine that are opened, and those that are removed with their folder."""
OF_ONE = 'import os\nif os.environ["SUBMARINE_TASK"] == "worker-0":\n'


def listed(kind, *words):
    return json.loads(kubectl("get", kind, "-o", "json", *words))["items"]


def names_of(kind):
    return {one["metadata"]["name"] for one in listed(kind)}


def code_of(folder, gang):
    """Return what a job of two runs, of which the first one alone writes; "" for the usual one."""
    if not gang:
        return ""
    body = CODE.format(side=str(folder / "side"), gate=str(folder / "gate"), hold=False)
    return OF_ONE + "".join(f"    {line}\n" for line in body.strip().splitlines()) + "7\n"


def walk(  # noqa: PLR0913 - of a walk
    folder, home, role, number, *, where="", gang=False, cluster="kubernetes", **more
):
    """Submit a job while somebody is killed; return its story, which is held to the promises."""
    before = {kind: names_of(kind) for kind in ("secrets", "configmaps")}
    options = {**more, **({"roles": {"worker": 2}} if gang else {"gpus": 1})}
    submit(
        folder, cluster, role, number, where=where, walk=WALK, code=code_of(folder, gang), **options
    )
    story = recovered(folder, home, "kubernetes", tasks=1 + gang)
    for job_id in job_ids(home):
        (summary,) = list_jobs(home)
        assert (summary.id, summary.state) == (job_id, JobState.SUCCEEDED)
        assert open_job(job_id).result(60) == 7
        until(lambda job_id=job_id: not listed("pods", "-l", f"{JOB}={job_id}"))
        told = (event["involvedObject"] for event in listed("events"))
        # Kueue tells of a workload, too, which is called as its job is.
        told = (one for one in told if one["kind"] == "Pod" and job_id in one["name"])
        pods = {(one["name"], one["uid"]) for one in told}
        tasks = ["worker-0", "worker-1"] if gang else ["worker-0"]
        # The cluster has seen these pods of it, each once, and no other.
        assert sorted(name for name, _ in pods) == [f"submarine-{job_id}-1-0-{t}" for t in tasks]
        assert not (home / "jobs" / job_id / "pods").exists()
    assert {kind: names_of(kind) for kind in before} == before
    return story


@pytest.mark.parametrize(
    ("number", "where"),
    [
        (1, r"open .kubernetes\.json"),  # nothing is noted, and nothing asked
        (1, r"http\.POST pods"),  # its intent is noted, and no pod there
        (2, r"http\.POST pods"),  # one pod of the two is there
        (2, r"os\.rename .kubernetes\.json"),  # both are, and that is not noted
        (1, r"pod\.ask bring"),  # no files are brought
        (1, r"pod\.ask begin"),  # they are there, and the task was not told
        (2, r"pod\.ask bring"),  # one task begins, the other one has nothing
        (3, r"os\.rename .kubernetes\.json"),  # both have begun, and that is not noted
        (1, r"pod\.ask say"),  # the tasks are not told where the others are
        (2, r"pod\.ask say"),  # one is
        (1, r"pod\.ask end"),  # all is home, and the pod does not know
        (1, r"http\.DELETE submarine-"),  # and holds its GPU
        (2, r"http\.DELETE submarine-"),
        (1, r"shutil\.rmtree pods"),  # what the pods have left is not removed
    ],
)
def test_a_job_of_two_has_one_set_of_pods_whenever_its_keeper_is_killed(
    kubernetes_folder, walked_home, number, where
):
    assert (
        walk(kubernetes_folder, walked_home, "keeper", number, where=where, gang=True) is not None
    )
    assert (kubernetes_folder / "killed").exists()


@pytest.fixture
def archive(tmp_path):
    """Give an environment of a test's own, which no volume has: of several pieces."""
    folder = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (folder / "data").write_bytes(os.urandom(1 << 20))
    path = tmp_path / "environment.tar.gz"
    with tarfile.open(path, "w:gz") as file:
        file.add(folder, ".")
    return path


@pytest.mark.parametrize(
    ("number", "where"),
    [
        (1, r"pod\.ask choose"),  # nothing of the environment is there
        (3, r"pod\.ask piece"),  # a part of it is
        (1, r"pod\.ask unpack"),  # all of it is, as an archive
        (2, r"pod\.ask choose"),  # one task has it, the other one nothing
        (2, r"pod\.ask bring"),  # both have it, and one its job's files
    ],
)
def test_an_environment_comes_into_all_pods_whenever_its_keeper_is_killed(
    kubernetes_folder, walked_home, archive, number, where
):
    options = {"gang": True, "options": {"environment": str(archive)}}
    assert (
        walk(kubernetes_folder, walked_home, "keeper", number, where=where, **options) is not None
    )
    assert (kubernetes_folder / "killed").exists()


@pytest.mark.parametrize(
    ("number", "where"),
    [
        (1, r"http\.POST pods"),  # a cluster of the list is asked whether it would take the job
        (1, r"open record\.json|os\.rename .record\.json"),  # it is chosen, and nothing on record
        (1, r"open events\.jsonl"),
        (1, r"open .*-.*-[a-z2-7]{5}$"),  # on record, and not handed to the keeper
    ],
)
def test_a_job_of_any_cluster_is_asked_for_once_whenever_its_submitter_is_killed(
    kubernetes_folder, walked_home, monkeypatch, number, where
):
    monkeypatch.setenv("SUBMARINE_ANY_OF", "kubernetes,local")
    monkeypatch.setenv("SUBMARINE_ANY_WITHIN", "120")  # the machine may be busy
    walk(kubernetes_folder, walked_home, "submitter", number, where=where, cluster="any")
    assert (kubernetes_folder / "killed").exists()


def test_a_pod_that_is_created_when_its_job_is_over_is_deleted(kubernetes_folder, walked_home):
    """The request of a keeper that was killed is on its way until then: the test sends it."""
    options = {"where": r"http\.POST pods", "walk": WALK, "gpus": 1}
    job_id = submit(kubernetes_folder, "kubernetes", "keeper", 1, **options)
    until((kubernetes_folder / "killed").exists)
    paths = JobPaths(walked_home, job_id)
    (manifest,) = manifests(
        JobSpec.from_json(read_json(paths.record)["spec"]),
        job_id=job_id,
        attempt=1,
        turn=0,
        owner=(walked_home / "kubernetes/owner").read_text(),
        launch={"grace": 0.0, **read_json(paths.root / "launch.json")},
    ).values()
    assert manifest["metadata"]["name"] == pods_of(paths)["worker-0"]
    job = open_job(job_id)
    job.cancel()
    assert job.wait(180).state is JobState.CANCELLED
    until(lambda: not listed("pods", "-l", f"{JOB}={job_id}"))
    kubectl("create", "-f", "-", input=json.dumps(manifest))
    until(lambda: not listed("pods", "-l", f"{JOB}={job_id}"))
    assert not (kubernetes_folder / "side").exists()


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("whose", ["submitter", "keeper", "keeper of two"])
@pytest.mark.usefixtures("walked_home")
def test_a_kill_at_each_point_of_the_way_of_a_job(kubernetes_folder, monkeypatch, capsys, whose):
    role, _, gang = whose.partition(" of ")

    def one_walk(folder, number, where):
        own = folder / "home"
        monkeypatch.setenv("SUBMARINE_HOME", str(own))
        try:
            return walk(folder, own, role, number, where=where, gang=bool(gang))
        finally:
            end_keeper(own)

    with capsys.disabled():
        walk_all(kubernetes_folder, whose, one_walk, LOCAL if gang else DULL)
