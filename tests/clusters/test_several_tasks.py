"""Jobs of several tasks on hosts of which one does not what it should."""

from __future__ import annotations

import pytest
from submarine_engine.clusters import open_cluster
from submarine_engine.errors import JobFailedError
from submarine_engine.future import Job
from submarine_engine.job import JobState, Resources, Role

from tests.contract.conftest import use_backend
from tests.jobs import bundle_of, end_processes_of, mute_port, spec_of, until

LIE = """
import json, os, sys, time
if os.environ.get("SUBMARINE_TASK") == "worker-1":
    from pathlib import Path
    folder = Path(os.environ["SUBMARINE_TASK_DIR"])
    told = dict(version=1, job_id=os.environ["SUBMARINE_JOB_ID"], task="worker-1", attempt=1,
                host="evil", network="", ports=[1, 2, 3, 4], pid=1)
    aside, hello = folder / ".hello", folder / "hello.json"
    {lie}
    time.sleep(3600)
"""
LIES = {
    "another job": ("told['job_id'] = 'x'", "of another task, job or release"),
    "another task": ("told['task'] = 'worker-0'", "of another task, job or release"),
    "a host that is none": ("told['host'] = 'a b'", "invalid host name in its hello"),
    "no JSON": ("told = 'no hello'", "what it said is no hello"),
    "too large": ("told['more'] = 'x' * 100_000", "more than 65,536 bytes"),
}
WRITE = "; aside.write_text(json.dumps(told)); aside.rename(hello)"
LIES = {name: (lie + WRITE, words) for name, (lie, words) in LIES.items()} | {
    "a link": ("aside.symlink_to('/etc/hostname'); aside.rename(hello)", "no hello"),
    "a pipe": ("os.mkfifo(aside); aside.rename(hello)", "no hello"),
    "silence": ("pass", "did not say hello within 30 s"),
}


@pytest.fixture
def home(tmp_path, monkeypatch):
    use_backend(monkeypatch, tmp_path / "site", "hosts = submarine_hosts:HostsBackend")
    home = tmp_path / "home"
    monkeypatch.setenv("SUBMARINE_HOME", str(home))
    yield home
    end_processes_of(home)


@pytest.mark.sampled
@pytest.mark.parametrize("name", sorted(LIES))
def test_who_does_not_say_hello_is_named_with_its_host(tmp_path, home, monkeypatch, name):
    lie, words = LIES[name]
    if name == "silence":  # on a busy machine the honest one takes seconds to begin
        monkeypatch.setenv("HOSTS_HELLO_WITHIN", "30")
    (tmp_path / "lies").mkdir()
    (tmp_path / "lies" / "sitecustomize.py").write_text(LIE.format(lie=lie))
    cluster = open_cluster("hosts")
    role = Role(count=2, resources=Resources(gpus=1))
    spec = spec_of(roles=(role,), env={"PYTHONPATH": str(tmp_path / "lies")})
    code = bundle_of(f"open({str(tmp_path / 'ran')!r}, 'w')")
    job_id = cluster.submit(spec, code, workdir=tmp_path)
    until(lambda: cluster.status(job_id).state.final)
    status = cluster.status(job_id)
    assert status.state is JobState.FAILED
    assert status.reason.startswith("worker-1 on alpha ")
    assert words in status.reason
    assert not (tmp_path / "ran").exists()  # nobody began without it
    until(lambda: all(gpu.job_id is None for gpu in cluster.gpus()))


@pytest.mark.long
def test_who_cannot_be_reached_is_named_before_the_code_begins(tmp_path, home, monkeypatch):
    monkeypatch.setenv("HOSTS_FRAMES_WITHIN", "1")  # who lies keeps none, and is not waited for
    (tmp_path / "lies").mkdir()
    with mute_port() as port:
        lie = f"told.update(host='127.0.0.2', ports=[{port}] * 4)"
        text = LIE.format(lie=f"{lie}; aside.write_text(json.dumps(told)); aside.rename(hello)")
        (tmp_path / "lies" / "sitecustomize.py").write_text(text)
        cluster = open_cluster("hosts")
        role = Role(count=2, resources=Resources(gpus=1))
        spec = spec_of(roles=(role,), env={"PYTHONPATH": str(tmp_path / "lies")})
        code = bundle_of(f"open({str(tmp_path / 'ran')!r}, 'w')")
        job = Job(cluster, cluster.submit(spec, code, workdir=tmp_path))
        with pytest.raises(JobFailedError) as caught:
            job.result(180)
    assert isinstance(caught.value, OSError)
    words = f"cannot reach worker-1 at 127.0.0.2:{port} (no answer within 5 s); is there a firewall"
    assert words in caught.value.what
    assert "the first to fail was worker-0 on alpha" in caught.value.fix
    assert not (tmp_path / "ran").exists()
    until(lambda: all(gpu.job_id is None for gpu in cluster.gpus()))
