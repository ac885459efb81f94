"""Saving models on this machine: disks, paths, checkpoints, and the words of the command."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest
from submarine_engine import Job
from submarine_engine.cli import main
from submarine_engine.clusters import saving
from submarine_engine.clusters.local import LocalCluster
from submarine_engine.clusters.saving import FolderStorage, can_save, copy_newest, default_name
from submarine_engine.clusters.slurm.sbatch import disk_path
from submarine_engine.errors import SaveError, UnsupportedError
from submarine_engine.history import JobPaths

from tests.jobs import bundle_of, spec_of, until

TRAIN = """
import pathlib, time
import submarine_runtime

@submarine_runtime.on_save
def save(folder):
    (folder / "weights").write_bytes(bytes({size}))

while not pathlib.Path("over").exists(): time.sleep(0.01)
"""


@pytest.fixture
def train(tmp_path):
    """Return a function that begins a training, whose model has so many bytes."""
    cluster = LocalCluster(tmp_path / "home")
    work = tmp_path / "work"
    work.mkdir()
    begun = []

    def begin(size=1000, **options):
        script = TRAIN.format(size=size)
        job_id = cluster.submit(spec_of(**options), bundle_of(script), workdir=work)
        begun.append(Job(cluster, job_id))
        until(lambda: can_save(paths_of(begun[-1]), begun[-1].status()))
        return begun[-1]

    yield begin
    (work / "over").touch()
    for job in begun:
        assert job.wait(180).state.value == "succeeded"


def paths_of(job):

    return JobPaths(job.cluster.home, job.id)


def test_a_full_disk_is_told_and_nothing_of_the_model_stays(train, tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "submarine-test", str(small)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("may not mount a small disk here")
    try:
        job = train(size=4 << 20)
        with pytest.raises(SaveError, match="No space left on device") as caught:
            job.save(small / "model")
        assert "save()" in caught.value.where
        assert list(small.iterdir()) == []
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_paths_that_are_no_place_for_a_model(train, tmp_path):
    job = train()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "nowhere")
    with pytest.raises(SaveError, match="exists"):
        job.save(link)
    with pytest.raises(UnsupportedError, match="files of this machine, not hdfs:///model"):
        job.save("hdfs:///model")
    with pytest.raises(UnsupportedError, match="another machine"):
        job.save("file://elsewhere/model")
    with pytest.raises(SaveError, match="File name too long"):
        job.save(tmp_path.joinpath(*["x" * 250] * 18))
    assert job.save(f"file://{tmp_path}/with%20space").path == f"{tmp_path}/with space"
    assert [path.name for path in tmp_path.glob(".*.part")] == []


def test_the_folder_is_as_open_as_any_new_folder(train, tmp_path):
    before = os.umask(0o027)
    try:
        train().save(tmp_path / "model")
    finally:
        os.umask(before)
    assert (tmp_path / "model").stat().st_mode & 0o777 == 0o750


def test_the_command_says_where_the_model_is(train, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("SUBMARINE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    job = train(name="mnist")
    assert main(["job", "save", "mnist", "models/one", "--timeout", "1m"]) == 0
    told = capsys.readouterr()
    assert told.out == f"{tmp_path}/models/one\n"
    assert "by the code of worker-0: 1 file, 1,000 bytes" in told.err
    assert main(["job", "save", job.id, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["job"], found["by"], found["size"]) == (job.id, "hook", 1000)
    assert Path(found["path"]).parent == tmp_path
    assert Path(found["path"]).name.startswith("mnist-")
    assert main(["job", "save", "mnist", "models/one"]) != 0
    assert "exists" in capsys.readouterr().err


def test_a_process_that_is_stopped_is_told_after_patience(train, tmp_path):
    job = train()
    pid = json.loads((paths_of(job).root / "supervisor.lock").read_text())["session"]
    os.killpg(pid, signal.SIGSTOP)
    threads = Path(f"/proc/{pid}/task")
    until(lambda: all(") T " in (one / "stat").read_text() for one in threads.iterdir()))
    try:
        with pytest.raises(SaveError, match="has not answered in time"):
            job.save(tmp_path / "model", patience=0.5)
    finally:
        os.killpg(pid, signal.SIGCONT)
    until(lambda: not (tmp_path / "model").exists())
    until(lambda: _saves(job, tmp_path / "again"))


def _saves(job, path):
    with suppress(SaveError):  # it may hear the first one only now
        return job.save(path)


def test_a_name_is_made_of_any_name():
    assert default_name("../ä b/c").startswith("ä-b-c-")
    assert default_name("///").startswith("model-")
    assert "/" not in default_name("x" * 500 + "/y")


def put(root, *names, at=None):
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
        if at is not None:
            os.utime(path, (at, at))


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("older", "newer", "copied"),
    [
        (["1.pt"], ["2.pt"], ["2.pt"]),
        (["2.pt"], ["1/a", "1/b/c"], ["1/a", "1/b/c"]),
        (["1.pt"], [".2.pt", "2.pt.tmp", "2.pt.part", "tmp-2/x", "2.orbax-checkpoint-tmp-7/x",
                    "2~", "_temporary/x", "2.pt.incomplete"], ["1.pt"]),
        (["ckpt-1.index", "ckpt-1.data-00000-of-00001"],
         ["ckpt-2.index", "ckpt-2.data-00000-of-00002", "ckpt-2.data-00001-of-00002", "checkpoint"],
         ["ckpt-2.data-00000-of-00002", "ckpt-2.data-00001-of-00002", "ckpt-2.index"]),
        (["m-1.pt"], ["m-2.5.pt"], ["m-2.5.pt"]),
        (["template.pt"], ["attempt-2.pt"], ["attempt-2.pt"]),
    ],
)  # fmt: skip
def test_what_counts_as_the_last_complete_checkpoint(tmp_path, older, newer, copied):
    root, folder = tmp_path / "kept", tmp_path / "model"
    folder.mkdir()
    put(root, *older, at=time.time() - 100)
    put(root, *newer, at=time.time() - 50)
    name = copy_newest(FolderStorage(root), folder, "a job")
    found = [p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()]
    assert sorted(found) == copied
    assert copied[0].startswith(name)


def test_a_checkpoint_that_changes_while_it_is_copied_is_not_taken(tmp_path, monkeypatch):
    monkeypatch.setattr(saving, "REST", 0.01)  # what changes does so under its hands
    root, folder = tmp_path / "kept", tmp_path / "model"
    folder.mkdir()
    put(root, "1.pt", at=time.time() - 100)
    put(root, "2.pt", at=time.time() - 50)

    class Changing(FolderStorage):
        def get(self, path, to):
            super().get(path, to)
            if path in changing:
                (root / path).write_text("the next one, half")

    changing = {"2.pt"}
    assert copy_newest(Changing(root), folder, "a job") == "1.pt"
    assert [path.read_text() for path in folder.iterdir()] == ["1.pt"]
    (folder / "1.pt").unlink()
    changing.add("1.pt")
    with pytest.raises(SaveError, match="change all the time"):
        copy_newest(Changing(root), folder, "a job")
    assert list(folder.iterdir()) == []


def test_a_checkpoint_path_of_this_machine_is_read_as_the_cluster_means_it(tmp_path):
    paths = JobPaths(tmp_path, "20260101-000000-aaaaa")
    paths.root.mkdir(parents=True)
    asked = saving.SaveRequest(paths, lambda: None, None)

    def read(kept, *reader):
        record = {"workdir": "/disk", "spec": {"checkpoint_path": kept}}
        paths.record.write_text(json.dumps(record))
        found = saving.kept_storage(asked, *reader)
        return found and found.name

    assert read(None) is read("", disk_path) is read("s3://bucket/kept", disk_path) is None
    assert read("file:///shared/kept") == read("file:///shared/kept", disk_path) == "/shared/kept"
    assert read("runs/line") is None  # elsewhere, on clusters that take addresses alone
    assert read("runs/line", disk_path) == "/disk/runs/line"
    assert read("/shared/kept", disk_path) == "/shared/kept"


def test_no_checkpoint_yet(tmp_path, monkeypatch):
    monkeypatch.setattr(saving, "REST", 0.01)
    with pytest.raises(SaveError, match="there is no checkpoint in"):
        copy_newest(FolderStorage(tmp_path / "nowhere"), tmp_path, "a job")
