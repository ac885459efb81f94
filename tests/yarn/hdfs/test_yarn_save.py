"""Models of running jobs on YARN: to HDFS, from checkpoints there, and where nodes are silent."""

from __future__ import annotations

import shutil
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from submarine_engine import Job
from submarine_engine.clusters import open_cluster, saving
from submarine_engine.clusters.saving import can_save
from submarine_engine.clusters.yarn import saving as yarn_saving
from submarine_engine.clusters.yarn.hadoop import HadoopConf
from submarine_engine.clusters.yarn.hdfs import Entry, open_hdfs
from submarine_engine.clusters.yarn.log_transport import Channel, Choice, LogTransport
from submarine_engine.errors import SaveError, UnsupportedError
from submarine_engine.history import JobPaths, write_json
from submarine_engine.job import JobSpec, JobState, Resources, Role
from submarine_engine.lifecycle import JobStatus

from tests.jobs import bundle_of, end_processes_of, spec_of, until

PATIENCE = 200
TRAIN = """
import os, time
import submarine_runtime

me = os.environ["SUBMARINE_TASK"]

@submarine_runtime.on_save
def save(folder):
    (folder / "layers").mkdir()
    (folder / "layers" / me).write_bytes(bytes(range(256)) * {size})
    (folder / "größe #1?.txt").write_text(me)

print("training", flush=True)
while not os.path.exists({gate!r}): time.sleep(0.02)
"""
WRITE_HALF = """
import os, time, fsspec
import submarine_runtime

fs, path = fsspec.url_to_fs(os.environ["SUBMARINE_CHECKPOINT_PATH"])
fs.makedirs(path + "/step-1")
with fs.open(path + "/step-1/weights", "wb") as file:
    file.write(b"whole")
print("training", flush=True)
while not os.path.exists({gate!r}): time.sleep(0.02)
"""
STEPS = """
import os, time
from submarine_runtime import job

for step in job.steps(10**6, {{}}, every=0):
    if os.path.exists({gate!r}): break
    time.sleep(2)  # two are kept, and one is copied that has rested for a second
"""


class Ground:
    def __init__(self, conf, folder, home):
        self.files = open_hdfs(conf)
        self.there = f"{self.files.home}/{folder.name}"
        self.home, self.folder, self.gate = home, folder, folder / "gate"
        self.jobs = []

    def train(self, script=TRAIN, spec=None, begun=(JobState.RUNNING,), size=1000, **options):
        """Begin a training that goes on until the gate is made."""
        cluster = open_cluster("yarn")
        spec = spec or spec_of(**options)
        bundle = bundle_of(script.format(gate=str(self.gate), size=size))
        job = Job(cluster, cluster.submit(spec, bundle, workdir=self.folder))
        self.jobs.append(job)
        until(lambda: job.status().state in begun, PATIENCE)
        return job

    def clean_up(self):
        self.gate.touch()
        for job in self.jobs:
            assert job.wait(PATIENCE).state is JobState.SUCCEEDED
        self.files.remove(self.there)
        self.files.close()


@pytest.fixture
def ground(conf, tmp_path, shared_home):
    ground = Ground(conf, tmp_path, shared_home)
    yield ground
    ground.clean_up()


@pytest.fixture
def ground_of_its_own(conf, tmp_path):
    """Give one with a keeper of its own, which looks for logs where the test says."""
    ground = Ground(conf, tmp_path, tmp_path / "home")
    yield ground
    ground.clean_up()
    shutil.rmtree(ground.home, ignore_errors=True)
    end_processes_of(ground.home, patience=3)


def test_a_model_comes_to_hdfs_whole(ground):
    job = ground.train()
    paths = JobPaths(ground.home, job.id)
    until(lambda: can_save(paths, job.status()), PATIENCE)
    address = ground.files.uri(f"{ground.there}/models/one")
    saved = job.save(address)
    assert (saved.path, saved.by, saved.files) == (address, "hook", 2)
    there = f"{ground.there}/models/one"
    assert ground.files.get(f"{there}/layers/worker-0") == bytes(range(256)) * 1000
    assert ground.files.get(f"{there}/größe #1?.txt") == b"worker-0"
    with pytest.raises(SaveError, match="exists"):
        job.save(address)
    with pytest.raises(UnsupportedError, match="not in this cluster's storage"):
        job.save("hdfs://elsewhere:8020/model")
    with pytest.raises(UnsupportedError, match="not to s3://bucket/model"):
        job.save("s3://bucket/model")
    ground.files.put(b"a file", f"{ground.there}/file")
    with pytest.raises(SaveError):
        job.save(f"hdfs://{ground.there}/file/model")
    assert [e.path for e in ground.files.list(f"{ground.there}/models")] == [there]
    assert not list(paths.root.glob("saving-*"))


@pytest.mark.long
def test_the_last_whole_checkpoint_in_hdfs_is_copied(ground):
    kept = f"{ground.there}/kept"
    job = ground.train(WRITE_HALF, checkpoint_path=ground.files.uri(kept))
    until(lambda: ground.files.size(f"{kept}/step-1/weights") == 5, PATIENCE)
    web = ground.files._web
    begun = web._call("CREATE", method="put", path=f"{kept}/step-2", redirect=False)
    assert not ground.files.exists(f"{kept}/step-2")  # a file is there once its bytes come
    where = urlsplit(begun.headers["Location"])
    writer = HTTPConnection(where.netloc)
    writer.putrequest("PUT", f"{where.path}?{where.query}")
    writer.putheader("Content-Type", "application/octet-stream")
    writer.putheader("Content-Length", "100000")
    writer.endheaders(b"half")
    try:
        until(lambda: ground.files.exists(f"{kept}/step-2"), PATIENCE)
        saved = job.save(ground.folder / "model")
    finally:
        writer.close()
    assert (saved.by, saved.source, saved.files) == ("checkpoint", "step-1", 1)
    assert (ground.folder / "model" / "step-1" / "weights").read_bytes() == b"whole"


class HereAsHdfs:
    """A folder of this machine, asked as HDFS is."""

    def __init__(self, root):
        self.home = str(root)

    def uri(self, path):
        return f"hdfs://here{path}"

    def exists(self, path):
        return Path(path).exists()

    def list(self, folder):
        return [
            Entry(str(path), path.stat().st_size, 0.0, path.is_dir(), path.stat().st_mtime)
            for path in sorted(Path(folder).glob("*"))
        ]

    def get(self, path, to):
        shutil.copy(path, to)

    def is_open(self, path):  # noqa: ARG002 - as HDFS has it
        return False

    def close(self):
        pass


@pytest.mark.parametrize("unseen", [False, True])
def test_without_a_path_the_jobs_own_checkpoints_in_hdfs_are_copied(tmp_path, monkeypatch, unseen):
    monkeypatch.setattr(saving, "REST", 0.01)  # nobody writes there
    way = Choice(Channel.AFTER if unseen else Channel.NODES, "nodes are silent")
    monkeypatch.setattr(yarn_saving, "open_hdfs", lambda _: HereAsHdfs(tmp_path))
    monkeypatch.setattr(LogTransport, "choice", lambda _: way)
    paths = JobPaths(tmp_path / "home", "20260101-000000-aaaaa")
    paths.root.mkdir(parents=True)
    write_json(paths.record, {"spec": {"checkpoint_path": None}})
    asked = saving.SaveRequest(paths, lambda: JobStatus(state=JobState.RUNNING), None)
    conf = HadoopConf(tmp_path, {"fs.defaultFS": "hdfs://here"}, "")

    def save(name, asked=asked):
        return yarn_saving.save_yarn(asked, str(tmp_path / name), conf, None)

    with pytest.raises(SaveError, match="cannot be reached" if unseen else "gives no way to"):
        save("nothing")
    kept = tmp_path / ".submarine" / "checkpoints" / paths.job_id / "step-000000000003"
    kept.mkdir(parents=True)
    (kept / "state.pickle").write_bytes(b"whole")
    saved = save("model")
    assert (saved.by, saved.source, saved.files) == ("checkpoint", kept.name, 1)
    assert (tmp_path / "model" / kept.name / "state.pickle").read_bytes() == b"whole"
    with pytest.raises(SaveError):
        save("of code", asked._replace(of_code=True))

    def nobody(*_):
        pytest.fail("of a job that is over nothing is asked")

    monkeypatch.setattr(yarn_saving, "open_hdfs", nobody)
    monkeypatch.setattr(yarn_saving._Packed, "find", nobody)
    over = asked._replace(status=lambda: JobStatus(state=JobState.FAILED))
    with pytest.raises(SaveError, match="over"):
        save("over", over)


@pytest.mark.long
def test_the_jobs_own_checkpoints_are_offered_once_there_is_one(ground):
    job = ground.train(STEPS)
    until(lambda: can_save(JobPaths(ground.home, job.id), job.status()), PATIENCE)
    saved = job.save(ground.folder / "model")
    assert saved.by == "checkpoint"
    assert (ground.folder / "model" / saved.source / "state.pickle").exists()


@pytest.mark.long
def test_where_nodes_are_silent_it_comes_by_hdfs(ground_of_its_own, monkeypatch):
    ground = ground_of_its_own
    monkeypatch.setenv("SUBMARINE_YARN_LOGS", "hdfs")
    job = ground.train(size=270_000)  # more than comes as one piece
    until(lambda: can_save(JobPaths(ground.home, job.id), job.status()), PATIENCE)
    assert job.save(ground.folder / "model").files == 2
    found = (ground.folder / "model" / "layers" / "worker-0").read_bytes()
    assert found == bytes(range(256)) * 270_000
    assert job.save(ground.folder / "again").files == 2


@pytest.mark.long
def test_where_nothing_can_be_reached_that_is_said(ground_of_its_own, monkeypatch):
    ground = ground_of_its_own
    monkeypatch.setenv("SUBMARINE_YARN_LOGS", "after")
    job = ground.train(begun=(JobState.STARTING,))  # it runs, but nobody sees that
    with pytest.raises(SaveError, match="its containers cannot be reached from here"):
        job.save(ground.folder / "model")


@pytest.mark.long
def test_of_several_tasks_the_chiefs_model_counts(ground):
    small = Resources(gpus=0, memory=256)
    roles = (Role(name="chief", resources=small), Role(count=2, resources=small))
    job = ground.train(spec=JobSpec(roles=roles))
    until((JobPaths(ground.home, job.id).task("chief-0").root / "save.json").exists, PATIENCE)
    assert job.save(ground.folder / "model").source == "chief-0"
    assert [path.name for path in (ground.folder / "model" / "layers").iterdir()] == ["chief-0"]
