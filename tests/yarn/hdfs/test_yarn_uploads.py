"""What jobs keep in a real HDFS: sent once, kept while it is used, removed by age."""

from __future__ import annotations

import secrets
import threading
import time

import pytest
from submarine_engine.clusters.yarn import uploads
from submarine_engine.clusters.yarn.hdfs import open_hdfs
from submarine_engine.clusters.yarn.uploads import Uploading, send_archive
from submarine_engine.errors import JobNotFoundError, SubmissionError

DAY = 24 * 3600.0
JOB = "20250101-000000-abcde"


def modified(files, path):
    return files._web.ask("GETFILESTATUS", path)["FileStatus"]["modificationTime"]


def age(files, path, seconds):
    """Let a file look as if it had been used last that long ago."""
    then = int((time.time() - seconds) * 1000)
    files._web.change("SETTIMES", path, modificationtime=then, accesstime=then)
    return then


def names(files, part):
    folder = f"{files.home}/.submarine/{part}"
    return [entry.path.removeprefix(f"{folder}/") for entry in files.list(folder)]


def test_the_same_content_is_sent_once(files, tmp_path):
    (tmp_path / "file").write_bytes(b"content")
    path, sent = uploads.send_once(files, b"content", ".tar.gz")
    assert sent == 7
    assert path.startswith(f"{files.home}/.submarine/cache/")
    assert path.endswith(".tar.gz")
    assert files.get(path) == b"content"
    at = modified(files, path)
    assert uploads.send_once(files, tmp_path / "file", ".tar.gz") == (path, 0)
    assert modified(files, path) == at
    (tmp_path / "file").write_bytes(b"changed")
    assert uploads.upload_once(files, tmp_path / "file", ".tar.gz") != path


def test_a_file_of_the_wrong_size_is_sent_again(files):
    path = uploads.upload_once(files, b"content", ".bin")
    files.put(b"con", path)
    assert uploads.upload_once(files, b"content", ".bin") == path
    assert files.get(path) == b"content"


def test_what_is_used_stays_as_yarn_knows_it(files):
    """YARN fails containers whose file has got a new time of modification."""
    path = uploads.upload_once(files, b"content", ".bin")
    then = age(files, path, 10 * DAY)
    uploads.upload_once(files, b"content", ".bin")
    assert modified(files, path) == then
    assert files.entry(path).used > time.time() - DAY
    assert uploads.clean(files, older_than=5 * DAY) == 0


def test_many_at_once_send_one_file(files, conf):
    user = files.home.rpartition("/")[2]
    done = []

    def send():
        own = open_hdfs(conf, user)
        done.append((uploads.upload_once(own, b"x" * 500_000, ".bin"), own))

    threads = [threading.Thread(target=send) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({path for path, _ in done}) == 1
    assert len(done) == 6
    assert len(names(files, "cache")) == 1
    for _, own in done:
        own.close()


def test_what_nobody_uses_is_removed(files):
    old = uploads.upload_once(files, b"old", ".bin")
    new = uploads.upload_once(files, b"new", ".bin")
    half = f"{files.home}/.submarine/cache/.x.part"
    files.put(b"half", half)
    job = uploads.job_folder(files, JOB)
    files.put(b"{}", f"{job}/outcome.json")
    assert uploads.clean(files, older_than=DAY) == 0
    for path in (old, half, job):
        age(files, path, 2 * DAY)
    assert uploads.clean(files, older_than=30 * DAY) == 1
    assert uploads.clean(files, older_than=DAY) == 2
    assert names(files, "cache") == [new.rpartition("/")[2]]
    assert names(files, "jobs") == []
    assert uploads.clean(files, older_than=DAY) == 0


@pytest.mark.parametrize("part", ["logs", "events"])
def test_what_a_job_left_there_is_removed_unless_it_goes_on(files, part):
    """HDFS was away at the end of the job that they are of."""
    other = f"{JOB[:-1]}f"
    for job_id in (JOB, other):
        folder = f"{files.home}/.submarine/{part}/{job_id}"
        files.put(b"line\n", f"{folder}/container_1/stdout@00000000000000000000")
        age(files, folder, 2 * DAY)
    assert uploads.clean(files, older_than=30 * DAY, going_on=[JOB]) == 1
    assert names(files, part) == [JOB]
    assert uploads.clean(files, older_than=30 * DAY) == 1
    assert names(files, part) == []


def test_what_has_to_be_made_is_made_once(files, tmp_path):
    made = []

    def make():
        made.append(tmp_path / f"{len(made)}")
        made[-1].write_bytes(b"layer")
        return made[-1]

    path, sent = uploads.upload_made(files, "key", ".tar.gz", make)
    assert (files.get(path), sent) == (b"layer", 5)
    assert uploads.upload_made(files, "key", ".tar.gz", make) == (path, 0)
    assert len(made) == 1
    assert not made[0].exists()


def test_results_are_kept_in_hdfs(files, tmp_path):
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "return.pkl").write_bytes(b"value")
    (tmp_path / "outcome.json").write_text("{}")
    (tmp_path / "stdout").write_text("not a result")
    folder = uploads.keep_results(files, JOB, tmp_path)
    assert [entry.path for entry in files.list(folder)] == [
        f"{folder}/outcome.json",
        f"{folder}/results",
    ]
    assert files.get(f"{folder}/results/return.pkl") == b"value"


def test_it_is_told_how_much_went(files, tmp_path, monkeypatch):
    monkeypatch.setattr(uploads, "_EVERY", 600.0)  # longer than it takes on a busy machine
    size = 5_000_000
    (tmp_path / "file").write_bytes(secrets.token_bytes(size))
    said, went = [], []
    path, sent = send_archive(files, tmp_path / "file", ".zip", said.append)
    assert sent == size
    assert send_archive(files, tmp_path / "file", ".zip", said.append) == (path, 0)
    assert said == [
        "uploading file (5.0 MB)",
        "the environment is in HDFS: 5.0 MB sent",
        "the environment is in HDFS already, as it was sent before",
    ]
    uploads.send_once(files, tmp_path / "file", ".tgz", went.append)
    assert sum(went) == size
    assert len(went) > 10
    uploading = Uploading("file", said.append)
    uploading.begin(size)
    uploading.went(1_000_000)
    uploading._said_at -= 1000.0
    uploading.went(2_000_000)
    assert said[-1] == "uploading file: 3.0 MB of 5.0 MB"


def test_a_refused_upload_leaves_nothing(files):
    files._web.chmod(files.home, 555)
    with pytest.raises(SubmissionError):
        uploads.upload_once(files, b"content", ".bin")
    files._web.chmod(files.home, 755)
    assert files.list(files.home) == []


@pytest.mark.parametrize("job_id", ["", "..", "20250101-000000-abcde/../x"])
def test_only_jobs_have_folders(files, job_id):
    with pytest.raises(JobNotFoundError):
        uploads.job_folder(files, job_id)
