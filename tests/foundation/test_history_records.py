"""Job records: names that never lead astray, files that are whole or not there, and ours alone."""

from __future__ import annotations

import json
import re
import stat
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from submarine_engine import history, records
from submarine_engine.errors import JobNotFoundError
from submarine_engine.history import (
    JobPaths,
    find_job,
    job_ids,
    make_private,
    new_job_id,
    write_aside,
)

IDS = st.from_regex(r"20[0-9]{6}-[0-9]{6}-[a-z2-7]{5}", fullmatch=True)


def record(home, job_id, name="mnist", created=0.0, parent=None):
    """Put a job on record, as far as finding it goes."""
    paths = JobPaths(home, job_id)
    paths.root.mkdir(parents=True)
    told = {"spec": {"name": name, "parent": parent}, "created": [created, 0.0], "user": "ann"}
    paths.record.write_text(json.dumps(told))
    paths.status.write_text(json.dumps({"name": name}))
    return paths


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_ids_differ_and_sort_by_age(tmp_path, monkeypatch):
    # Of two hundred in one second, two would be alike in one of 1,700 runs.
    ids = {new_job_id() for _ in range(20)}
    assert len(ids) == 20
    assert all(JobPaths(tmp_path, job_id).job_id == job_id for job_id in ids)
    monkeypatch.setattr(history.time, "strftime", lambda *_: "19700101-000000-")
    assert new_job_id() < min(ids)


@pytest.mark.parametrize(
    "job_id",
    ["", ".", "..", "../../etc", "20260101-000000-abcde/..", "20260101-000000-abcde\n",
     "/20260101-000000-abcde", "20260101-000000-ABCDE", "٢٠٢٦٠١٠١-000000-abcde", "x\0y"],
)  # fmt: skip
def test_what_is_no_job_id_leads_nowhere(tmp_path, job_id):
    with pytest.raises(JobNotFoundError, match="is not a job id"):
        JobPaths(tmp_path, job_id)


@given(st.text())
def test_no_text_leads_out_of_the_jobs_folder(tmp_path_factory, text):
    home = tmp_path_factory.getbasetemp()
    try:
        root = JobPaths(home, text).root
    except JobNotFoundError:
        return
    assert root.resolve().parent == (home / "jobs").resolve()


@pytest.mark.parametrize("task", ["", "..", "worker", "worker-0/../..", "worker-0\n", "Worker-0"])
def test_what_is_no_task_id_leads_nowhere(tmp_path, task):
    with pytest.raises(ValueError, match=f"^{re.escape(task)}$"):
        JobPaths(tmp_path, new_job_id()).task(task)


def test_a_log_is_stdout_or_stderr(tmp_path):
    task = JobPaths(tmp_path, new_job_id()).task("worker-0")
    assert {task.log("stdout"), task.log("stderr")} == {task.stdout, task.stderr}
    with pytest.raises(ValueError, match="syslog"):
        task.log("syslog")


def test_every_file_of_a_job_lies_in_its_folder(tmp_path):
    paths = JobPaths(tmp_path, new_job_id())
    task = paths.task("worker-0")
    files = [
        value
        for value in (*vars(paths).values(), *vars(task).values())
        if hasattr(value, "is_relative_to")
    ]
    assert len(files) == len(set(files)) > 10
    assert all(file.is_relative_to(paths.root) for file in files)


def test_private_folders_and_files(tmp_path):
    folder = make_private(tmp_path / "home/jobs/x")
    assert [mode(folder), mode(folder.parent)] == [0o700, 0o700]
    write_aside(folder / "status.json", b"{}")
    assert mode(folder / "status.json") == 0o600
    assert make_private(folder) == folder


def test_a_reader_sees_a_whole_file_always(tmp_path):
    path = tmp_path / "status.json"
    contents = {bytes([65 + i]) * 50_000 for i in range(4)}
    write_aside(path, min(contents))
    seen, stop = set(), threading.Event()

    def read():
        while not stop.is_set():
            seen.add(path.read_bytes())

    reader = threading.Thread(target=read)
    reader.start()
    for _ in range(30):
        for content in contents:
            write_aside(path, content)
    stop.set()
    reader.join()
    assert seen <= contents


def test_a_write_that_fails_leaves_what_was_there(tmp_path):
    path = tmp_path / "status.json"
    write_aside(path, b"old")
    with pytest.raises(TypeError):
        write_aside(path, "text is not bytes")
    assert path.read_bytes() == b"old"
    assert [file.name for file in tmp_path.iterdir()] == ["status.json"]


def test_a_folder_that_is_gone_says_so(tmp_path):
    with pytest.raises(FileNotFoundError):
        write_aside(tmp_path / "gone" / "status.json", b"{}")


def test_json_that_is_not_there_is_none(tmp_path):
    assert history.read_json(tmp_path / "record.json") is None
    history.write_json(tmp_path / "record.json", {"größe": 1})
    assert history.read_json(tmp_path / "record.json") == {"größe": 1}


@given(ids=st.sets(IDS, max_size=8))
def test_jobs_are_listed_newest_first_and_nothing_else_is(tmp_path_factory, ids):
    home = tmp_path_factory.mktemp("home")
    for name in (*ids, ".trash", "notes.txt"):
        (home / "jobs" / name).mkdir(parents=True)
    assert list(job_ids(home)) == sorted(ids, reverse=True)


def test_no_jobs_yet(tmp_path):
    assert list(job_ids(tmp_path / "nowhere")) == []
    with pytest.raises(JobNotFoundError, match="no job 'x' is on record"):
        find_job(tmp_path / "nowhere", "x")


def test_a_job_is_found_by_id_ending_and_name(tmp_path):
    old = record(tmp_path, "20260101-000000-aaaaa")
    new = record(tmp_path, "20260102-000000-bbbaa")
    other = record(tmp_path, "20260103-000000-ccccc", name="other")
    assert find_job(tmp_path, old.job_id).root == old.root
    assert find_job(tmp_path, "bbaa").root == new.root
    assert find_job(tmp_path, "mnist").root == new.root
    assert find_job(tmp_path, "other").root == other.root


def test_of_jobs_of_one_second_and_name_the_newest_is_found(tmp_path):
    record(tmp_path, "20260101-000000-ccccc", created=0.2)
    newest = record(tmp_path, "20260101-000000-bbbbb", created=0.3)
    record(tmp_path, "20260101-000000-aaaaa", created=0.1)
    record(tmp_path, "20251231-235959-zzzzz", created=0.4)  # by a clock that was set back
    assert find_job(tmp_path, "mnist").root == newest.root


def test_a_name_is_that_of_the_job_not_of_what_works_for_it(tmp_path):
    job = record(tmp_path, "20260101-000000-aaaaa")
    worker = record(tmp_path, "20260101-000001-bbbbb", created=1.0, parent=job.job_id)
    assert find_job(tmp_path, "mnist").root == job.root
    assert find_job(tmp_path, worker.job_id).root == worker.root


def test_what_works_for_a_job_is_found_though_the_clock_was_set_back(tmp_path):
    def child(job_id, parent):
        told = {"name": "mnist", "cluster": "local", "state": "running", "reason": "", "gpus": 1,
                "created": [0.0, 0.0], "finished": None, "parent": parent}  # fmt: skip
        record(tmp_path, job_id).status.write_text(json.dumps(told))
        return job_id

    parent, another = "20260102-003000-aaaaa", "20260102-001000-aaaaa"
    later = child("20260102-003001-bbbbb", parent)
    child("20260102-001500-ccccc", another)
    earlier = child("20260101-233500-ddddd", parent)
    child("20260101-233000-eeeee", another)
    assert records.children_of(tmp_path, parent) == [earlier, later]


def test_an_ending_of_several_jobs_is_refused_with_their_ids(tmp_path):
    ids = ["20260101-000000-aaaaa", "20260102-000000-bbbaa"]
    for job_id in ids:
        record(tmp_path, job_id)
    with pytest.raises(JobNotFoundError, match="2 jobs have an id that ends in 'aa'") as caught:
        find_job(tmp_path, "aa")
    assert all(job_id in caught.value.fix for job_id in ids)


@pytest.mark.parametrize("wanted", ["", "nope", "../jobs"])
def test_a_job_that_is_not_there(tmp_path, wanted):
    record(tmp_path, "20260101-000000-aaaaa")
    with pytest.raises(JobNotFoundError, match="is on record in") as caught:
        find_job(tmp_path, wanted)
    assert "submarine job list" in caught.value.fix


def test_a_half_made_record_hides_no_other_job(tmp_path):
    wanted = record(tmp_path, "20260101-000000-aaaaa")
    (tmp_path / "jobs/20260102-000000-bbbbb").mkdir()
    assert find_job(tmp_path, "mnist").root == wanted.root


def test_the_home_comes_from_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("SUBMARINE_HOME", str(tmp_path / "mine"))
    assert history.default_home() == tmp_path / "mine"
    monkeypatch.delenv("SUBMARINE_HOME")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert history.default_home() == tmp_path / "data/submarine"
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert history.default_home() == tmp_path / ".local/share/submarine"


def test_no_record_is_read_but_of_jobs_that_may_have_the_name(tmp_path, monkeypatch):
    """Ten thousand jobs are gone through in no time: most of it is one small file of each."""
    for second in range(10, 50):
        record(tmp_path, f"20260102-0000{second:02}-aaaaa", name=f"job-{second}")
    wanted = record(tmp_path, "20260101-000000-aaaaa", name="job-9")
    read = []
    real = history.read_json
    monkeypatch.setattr(history, "read_json", lambda path: read.append(path) or real(path))
    assert find_job(tmp_path, "job-9").root == wanted.root
    assert read == [wanted.record]
    assert find_job(tmp_path, "job-9", "ann").root == wanted.root
    with pytest.raises(JobNotFoundError):
        find_job(tmp_path, "job-9", "bob")
    assert len(read) == 3
