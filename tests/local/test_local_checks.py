"""What the local cluster refuses, in words, before anything runs or is written."""

from __future__ import annotations

import pytest
from submarine_engine.errors import (
    ConfigError,
    ResourcesError,
    SubmissionError,
    UnsupportedError,
)
from submarine_engine.job import JobSpec

UNSUPPORTED = [
    ({"docker_image": "tf:2"}, "docker"),
    ({"queue": "research"}, "research"),
    ({"input_path": "hdfs://nn/data"}, "hdfs://nn/data"),
    ({"checkpoint_path": "s3://bucket/x"}, "s3://bucket/x"),
    ({"env": {"CUDA_VISIBLE_DEVICES": "3"}}, "CUDA_VISIBLE_DEVICES"),
    ({"env": {"SUBMARINE_JOB_ID": "x"}}, "SUBMARINE_JOB_ID"),
    ({"env": {"KEY": "a\0b"}}, "NUL"),
]


@pytest.mark.parametrize(("fields", "word"), UNSUPPORTED)
def test_what_it_cannot_do_is_refused_with_a_way_out(local, fields, word):
    with pytest.raises(UnsupportedError) as caught:
        local.cluster.check(JobSpec(**fields))
    assert word in caught.value.what
    assert caught.value.fix


def test_another_system_is_refused(local, monkeypatch):
    monkeypatch.setattr("sys.platform", "darwin")
    with pytest.raises(UnsupportedError, match="needs Linux"):
        local.cluster.check(JobSpec())


def test_the_default_queue_may_be_named(local):
    assert local.cluster.check(JobSpec(queue="default")).gpus is not None


def test_more_gpus_than_there_are_says_how_many_and_how_to_declare_them(local, declare_gpus):
    declare_gpus(2)
    with pytest.raises(ResourcesError, match="this machine has 2") as caught:
        local.submit("1", gpus=3)
    assert "SUBMARINE_LOCAL_GPUS=3" in caught.value.fix
    declare_gpus(0)
    with pytest.raises(ResourcesError, match="this machine has none"):
        local.submit("1", gpus=1)


@pytest.mark.parametrize("declared", ["-1", "two", "1.5", "99999", "1e3"])
def test_a_declaration_that_is_no_number_is_refused(local, monkeypatch, declared):
    monkeypatch.setenv("SUBMARINE_LOCAL_GPUS", declared)
    with pytest.raises(ConfigError, match="SUBMARINE_LOCAL_GPUS"):
        local.cluster.check(JobSpec())


def test_paths_of_this_machine_reach_the_job(local, tmp_path):
    (tmp_path / "data").mkdir()
    script = (
        "import os; print(os.environ['SUBMARINE_INPUT_PATH'], "
        "os.environ['SUBMARINE_CHECKPOINT_PATH'])"
    )
    story = local.run(script, input_path="data", checkpoint_path=f"file://{tmp_path}/saved%20here")
    assert story.out == f"{tmp_path}/data {tmp_path}/saved here\n"
    assert (tmp_path / "saved here").is_dir()


def test_a_missing_input_is_an_error_at_submission(local, tmp_path):
    with pytest.raises(SubmissionError, match=r"no file or folder .*/not/there") as caught:
        local.submit("1", input_path="not/there")
    assert str(tmp_path) in caught.value.fix


def test_a_checkpoint_folder_that_cannot_be_made(local, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SubmissionError, match="cannot be made"):
        local.submit("1", checkpoint_path="file/below")


def test_a_working_directory_that_is_not_there(local, tmp_path):
    with pytest.raises(SubmissionError, match="there is no folder"):
        local.submit("1", workdir=tmp_path / "gone")
    assert not list(local.home.glob("**/*.json"))
