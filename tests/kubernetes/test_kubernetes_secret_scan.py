"""Every byte of a job with secrets on Kubernetes that somebody else can read, or that stays.

The secrets are one of ``--secret NAME``, a value that the cell has captured, and a credential of an
object store among the job's variables. Another user of the machine reads files and lists of
processes; who looks after the cluster reads what the API server tells of pods, their events and
logs, and what its daemons have written.
"""

from __future__ import annotations

import json
import os
import stat
from contextlib import suppress
from pathlib import Path

import pytest
from submarine_engine.bundle.model import Bundle, Manifest
from submarine_engine.clusters import open_cluster
from submarine_engine.clusters.kubernetes.manifest import JOB
from submarine_engine.history import JobPaths
from submarine_engine.job import JobSpec, JobState, Resources, Role
from submarine_engine.testing.jobs import follow, until

from tests.kernel.test_secret_scan import MARK, answers_of, let_others_in
from tests.kubernetes.test_kubernetes_cluster import kubectl
from tests.yarn.test_yarn_secret_scan import GIVEN, SEEN, read_as_nobody
from tests.yarn.test_yarn_secrets import command_lines

pytestmark = pytest.mark.long

PATIENCE = 300.0
STORE = "S70r3S3cr3t" * 3
MARKS = (MARK, GIVEN, STORE)
SCRIPT = """\
import os, time
with open(__file__.replace("script.py", "values/token")) as file:
    token = file.read()
print({seen!r}, flush=True)
while not os.path.exists({gate!r}):
    time.sleep(0.05)
print("mine is", os.environ["MARKED"], flush=True)
len(token), len(os.environ["MARKED"]), len(os.environ["AWS_SECRET_ACCESS_KEY"])
"""
OBJECTS = ("pods", "events", "secrets", "configmaps", "serviceaccounts", "jobs")


def marked(data):
    return any(mark.encode() in data for mark in MARKS)


def files_below(*folders):
    """Yield plain files, and what they hold; nothing of other file systems that lie below."""
    for folder in folders:
        device = folder.stat().st_dev
        for top, names, found in os.walk(folder):
            known = ((name, status_of(Path(top, name))) for name in names)
            names[:] = [name for name, told in known if told and told.st_dev == device]
            for name in found:
                path = Path(top, name)
                with suppress(OSError):  # gone meanwhile
                    if stat.S_ISREG(path.lstat().st_mode):
                        yield path, path.read_bytes()


def status_of(path):
    """Return what is told of a path; None where it is gone meanwhile."""
    with suppress(OSError):
        return path.lstat()


def of_the_cluster():
    """Return what the API server tells of all namespaces, with the logs of their pods."""
    told = {kind: kubectl("get", kind, "-A", "-o", "json") for kind in OBJECTS}
    for pod in json.loads(told["pods"])["items"]:
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        for one in pod["spec"]["containers"]:
            words = ["logs", name, "-c", one["name"], "-n", namespace]
            with suppress(AssertionError):  # it has ended meanwhile
                told[f"log of {name}/{one['name']}"] = kubectl(*words)
    return told


def places_of(cluster, home):
    """Return where a cluster's daemons, and a home's keeper, write what is not a job's own."""
    places = [cluster.root / "etcd", cluster.layout.logs, home / "kubernetes"]
    assert all(place.is_dir() for place in places)
    return places


def test_nobody_else_reads_a_secret_and_none_stays(
    kubernetes, kubernetes_home, kubernetes_folder, tmp_path, monkeypatch
):
    gate = kubernetes_folder / "gate"
    script = SCRIPT.format(gate=str(gate), seen=SEEN).encode()
    content = {"script.py": script, "values/token": MARK.encode()}
    bundle = Bundle(files=content, manifest=Manifest(entry="script.py", python="3.11"))
    cluster = open_cluster("kubernetes")
    spec = JobSpec(
        name="s", roles=(Role(count=1, resources=Resources(gpus=1)),), notebook="s.ipynb",
        secrets=("MARKED",), env={"AWS_SECRET_ACCESS_KEY": STORE},
    )  # fmt: skip
    with monkeypatch.context() as given:
        given.setenv("MARKED", GIVEN)
        job_id = cluster.submit(spec, bundle, workdir=tmp_path)
    paths = JobPaths(kubernetes_home, job_id)
    # What of a node is not its images; pods' volumes and logs are there.
    kubelets = list(kubernetes.root.glob("nodes/*/kubelet"))
    until(lambda: cluster.status(job_id).state is JobState.RUNNING, PATIENCE)
    until(paths.task("worker-0").stdout.exists, PATIENCE)
    let_others_in(tmp_path)
    let_others_in(kubernetes_home)
    (tmp_path / "open").write_text(SEEN)
    (tmp_path / "open").chmod(0o644)

    def scan():
        assert read_as_nobody(SEEN, [tmp_path]) == [f"['{tmp_path / 'open'}']"]  # it does look
        for mark in MARKS:
            assert read_as_nobody(mark, [kubernetes_home, kubernetes.root, tmp_path]) == []
        told = of_the_cluster()
        assert [kind for kind, text in told.items() if marked(text.encode())] == []
        # What is root's own here, and holds none all the same.
        assert [line for line in command_lines() if marked(line.encode("latin-1"))] == []
        own = dict(files_below(paths.root))
        modes = (status_of(path) for path in own)
        assert {stat.S_IMODE(told.st_mode) for told in modes if told} == {0o600}
        held = {path.name for path, data in own.items() if marked(data)}
        assert [
            path
            for path, data in files_below(*places_of(kubernetes, kubernetes_home))
            if marked(data)
        ] == []
        return held, told

    try:
        held, told = scan()
        # The variables of `--env` are the job's own description, which is its owner's.
        assert held <= {"token", "secret-values.json", "record.json", "task.json"}
        assert job_id in told["pods"]  # it does look there
        node = [path for path, data in files_below(*kubelets) if marked(data)]
        # On the node they are in the pod's own volume, and go with it.
        assert node
        assert {path.parts[path.parts.index("volumes") + 1] for path in node} == {
            "kubernetes.io~empty-dir"
        }
    finally:
        gate.touch()
    story = follow(cluster, job_id, patience=PATIENCE)
    assert story.state is JobState.SUCCEEDED, story.status.reason
    # What it has printed is in its own log, and nowhere shown.
    assert GIVEN.encode() in paths.task("worker-0").stdout.read_bytes()
    assert "mine is <secret MARKED>" in story.out
    selector = ["-l", f"{JOB}={job_id}"]
    until(lambda: not json.loads(kubectl("get", "pods", "-o", "json", *selector))["items"])
    until(lambda: not (paths.root / "reserve").exists())
    held, _ = scan()
    assert held <= {"token", "record.json", "task.json", "stdout"}
    until(lambda: not any(marked(data) for _, data in files_below(*kubelets)))
    answers = answers_of(tmp_path / "server", kubernetes_home, job_id)
    assert [answer.url for answer in answers if GIVEN in answer.text or MARK in answer.text] == []
