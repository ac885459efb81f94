"""Jobs of several containers: what tasks are told comes by the master, whichever way logs come."""

from __future__ import annotations

import ssl
from contextlib import closing

import pytest
from skein import Security
from submarine_engine.clusters import open_cluster
from submarine_engine.clusters.yarn.driver import KeeperFolder
from submarine_engine.clusters.yarn.hadoop import load_hadoop
from submarine_engine.clusters.yarn.rest import ResourceManager
from submarine_engine.history import JobPaths, read_json
from submarine_engine.job import JobSpec, JobState, Resources, Role
from submarine_runtime.skein_store import MASTER, Store

from tests.jobs import bundle_of, end_processes_of, spec_of, until

CODE = """
import sys
from submarine_runtime import job
assert "ssl" in sys.modules  # it has asked its application's master
print(job.rank, "of", job.world_size)
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("logs", "mode"),
    [("nodes", "warm"), ("hdfs", "warm"), ("after", "cold")],
)
@pytest.mark.usefixtures("on_yarn")
def test_what_is_told_needs_neither_nodes_nor_hdfs(tmp_path, monkeypatch, logs, mode):
    home = tmp_path / "home"
    monkeypatch.setenv("SUBMARINE_HOME", str(home))
    monkeypatch.setenv("SUBMARINE_YARN_LOGS", logs)
    cluster = open_cluster("yarn")
    role = Role(count=2, resources=Resources(gpus=0, memory=256, vcores=1))
    spec = JobSpec(name="several", roles=(role,), notebook="several.ipynb", options={"mode": mode})
    job_id = cluster.submit(spec, bundle_of(CODE), workdir=tmp_path)
    until(lambda: cluster.status(job_id).state.final, 300)
    status = cluster.status(job_id)
    assert status.state is JobState.SUCCEEDED, status.reason
    paths = JobPaths(home, job_id)
    for number in range(2):
        assert paths.task(f"worker-{number}").stdout.read_text() == f"{number} of 2\n"
    end_processes_of(home, patience=3)  # the keeper goes, skein's driver waits for another


@pytest.mark.long
@pytest.mark.usefixtures("on_yarn")
def test_only_who_has_the_certificate_reaches_what_tasks_are_told(tmp_path, monkeypatch, request):
    home = tmp_path / "home"
    monkeypatch.setenv("SUBMARINE_HOME", str(home))
    cluster, conf = open_cluster("yarn"), load_hadoop()
    spec = spec_of(notebook="told.ipynb", memory=256, mode="warm")
    gate = tmp_path / "gate"
    request.addfinalizer(gate.touch)
    # A master that is idle ends where another test's application waits for its place.
    held = f"import os, time\nwhile not os.path.exists({str(gate)!r}):\n    time.sleep(0.05)\n"
    job_id = cluster.submit(spec, bundle_of(held), workdir=tmp_path)
    until(lambda: cluster.status(job_id).state is JobState.RUNNING, 300)
    app_id = read_json(JobPaths(home, job_id).root / "yarn.json")["app_id"]
    monkeypatch.setenv(MASTER, ResourceManager(conf).application(app_id)["amRPCAddress"])
    monkeypatch.setenv("CONTAINER_ID", "container_1_0001_01_000002")
    mine, foreign = tmp_path / "mine", tmp_path / "foreign"
    keeper = KeeperFolder(home, conf).skein
    made = Security.new_credentials()
    certificates = {
        mine: ((keeper / "skein.crt").read_bytes(), (keeper / "skein.pem").read_bytes()),
        foreign: (made.cert_bytes, made.key_bytes),
    }
    for folder, (certificate, private) in certificates.items():
        folder.mkdir()
        (folder / ".skein.crt").write_bytes(certificate)
        (folder / ".skein.pem").write_bytes(private)
    with closing(Store(job_id, str(mine))) as store:
        store.say("answer.json", b"of the driver")
        stranger, nobody = Store(job_id, str(foreign)), Store(job_id, str(foreign))
        nobody._context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # shows no certificate at all
        nobody._context.set_alpn_protocols(["h2"])
        for one in (stranger, nobody):
            one._context.check_hostname = False
            one._context.verify_mode = ssl.CERT_NONE  # who attacks trusts any master
            with closing(one), pytest.raises(OSError, match=r"(?i)ssl|reset|closed|pipe"):
                one.say("answer.json", b"of a stranger")
        assert store.hear("answer.json") == b"of the driver"
    gate.touch()
    until(lambda: cluster.status(job_id).state.final, 300)
    end_processes_of(home, patience=3)
