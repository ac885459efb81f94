import uuid
from dataclasses import replace

import pytest
import requests
from submarine_engine.clusters.yarn.hadoop import load_hadoop
from submarine_engine.clusters.yarn.preflight import check_paths, check_spec
from submarine_engine.clusters.yarn.rest import ResourceManager
from submarine_engine.errors import ClusterError, SubmissionError
from submarine_engine.job import JobSpec


@pytest.fixture
def hdfs(on_yarn):
    """Give a function that changes HDFS as its owner does."""
    owner = load_hadoop().user
    base = on_yarn.namenode if "://" in on_yarn.namenode else f"http://{on_yarn.namenode}"
    with requests.Session() as session:
        session.trust_env = False

        def change(op, path, **query):
            pars = {"op": op, "user.name": owner, **query}
            answer = session.put(f"{base}/webhdfs/v1{path}", params=pars, timeout=180)
            answer.raise_for_status()
            return answer

        yield change


@pytest.fixture
def folder(hdfs):
    path = f"/data-{uuid.uuid4().hex}"
    hdfs("MKDIRS", path, permission="755")
    return path


def at(path):
    return f"{load_hadoop().default_fs}{path}"


def refused(**paths):
    with pytest.raises(SubmissionError) as caught:
        check_paths(JobSpec(**paths), load_hadoop())
    return caught.value


def test_what_can_be_read_and_written_passes(folder):
    conf = load_hadoop()
    spec = JobSpec(input_path=at(folder), checkpoint_path=at(f"{folder}/new/run-1"))
    check_paths(spec, conf)
    checked = check_spec(spec, conf, ResourceManager(conf))
    assert replace(checked, roles=spec.roles) == spec
    check_paths(JobSpec(input_path=f"hdfs://{folder}"), conf)


def test_an_input_that_is_not_there(folder):
    error = refused(input_path=at(f"{folder}/gone"))
    assert f"{folder}/gone cannot be read" in error.what
    assert "does not exist" in error.what.lower()
    assert error.where == "--input_path"


def test_folders_of_somebody_else(folder, hdfs, monkeypatch):
    hdfs("MKDIRS", f"{folder}/secret", permission="700")
    monkeypatch.setenv("HADOOP_USER_NAME", "somebody-else")
    check_paths(JobSpec(input_path=at(folder)), load_hadoop())
    error = refused(input_path=at(f"{folder}/secret"), checkpoint_path=at(f"{folder}/mine"))
    assert "for 2 reasons" in error.what
    assert error.what.count("Permission denied: user=somebody-else") == 2
    with pytest.raises(SubmissionError):
        check_spec(
            JobSpec(checkpoint_path=at(folder)), load_hadoop(), ResourceManager(load_hadoop())
        )


def test_a_checkpoint_folder_that_is_a_file(folder, hdfs):
    answer = hdfs("CREATE", f"{folder}/file", noredirect="true")
    requests.put(answer.json()["Location"], data=b"x", timeout=180, proxies={"http": ""})
    assert "file is a file" in refused(checkpoint_path=at(f"{folder}/file/below")).what


def test_a_quota_that_is_used_up(folder, hdfs):
    hdfs("SETQUOTA", folder, namespacequota="1")
    error = refused(checkpoint_path=at(f"{folder}/new"))
    assert error.what == f"the quota of {folder} is used up: 1 of 1 names"
    assert "quota raised" in error.fix


@pytest.mark.parametrize("path", ["s3a://bucket/x", "/data", "data/x", "hdfs://elsewhere:1/x"])
def test_other_storage_is_the_jobs_own_business(on_yarn, path):
    check_paths(JobSpec(input_path=path, checkpoint_path=path), load_hadoop())


def test_hdfs_that_does_not_answer(recorded):
    conf = recorded("busy").configure(
        fs__defaultFS="hdfs://127.0.0.1:1", dfs__namenode__http_address="127.0.0.1:1"
    )
    with pytest.raises(ClusterError, match="no NameNode answers"):
        check_paths(JobSpec(input_path="hdfs://127.0.0.1:1/x"), conf)
