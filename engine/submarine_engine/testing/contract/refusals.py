"""What no cluster does is refused in words, before anything is on record."""

from __future__ import annotations

import pytest

from submarine_engine.errors import (
    CommandError,
    ResourcesError,
    SubmarineError,
    SubmissionError,
    UnsupportedError,
)
from submarine_engine.history import job_ids
from submarine_engine.job import JobSpec, Resources, Role


@pytest.fixture
def nothing_kept(cluster):
    """No job may be on record after the test that was not there before."""
    before = list(job_ids(cluster.home))
    yield
    assert list(job_ids(cluster.home)) == before
    assert not list((cluster.home / "staging").glob("jobs/*"))


REFUSED = [
    ({"gpus": 10_000}, ResourcesError, "GPU"),
    ({"memory": 1 << 40}, ResourcesError, f"{1 << 40} MiB"),
    ({"vcores": 100_000}, ResourcesError, "vcores"),
    ({"queue": "no-such-queue"}, (UnsupportedError, SubmissionError), "no-such-queue"),
    ({"env": {"CUDA_VISIBLE_DEVICES": "3"}}, UnsupportedError, "CUDA_VISIBLE_DEVICES"),
    ({"env": {"SUBMARINE_JOB_ID": "x"}}, UnsupportedError, "SUBMARINE_JOB_ID"),
    ({"env": {"KEY": "a\0b"}}, UnsupportedError, "NUL"),
]


@pytest.mark.parametrize(("options", "kind", "word"), REFUSED)
@pytest.mark.usefixtures("nothing_kept")
def test_what_cannot_be_is_refused_with_a_way_out(cluster, options, kind, word):
    with pytest.raises(kind) as caught:
        cluster.submit("1", **options)
    assert isinstance(caught.value, SubmarineError)
    assert word in caught.value.what
    assert caught.value.fix


@pytest.mark.usefixtures("nothing_kept")
def test_a_folder_that_is_not_there_is_no_place_to_submit_from(cluster):
    missing = cluster.folder / "missing"
    with pytest.raises(SubmissionError, match=str(missing)) as caught:
        cluster.submit("1", workdir=missing)
    assert caught.value.fix


@pytest.mark.usefixtures("nothing_kept")
def test_an_input_that_is_not_there_is_refused(cluster):
    missing = cluster.folder / "missing data"
    with pytest.raises(SubmissionError, match=str(missing)) as caught:
        cluster.submit("1", input_path=missing.as_uri())
    assert caught.value.where == "--input_path"
    with pytest.raises(UnsupportedError, match="elsewhere"):
        cluster.submit("1", input_path=f"file://elsewhere{missing}")


def test_file_addresses_reach_the_job_as_paths(cluster):
    there, made = cluster.folder / "some data", cluster.folder / "made" / "here"
    there.write_text("data")
    script = """
import os, pathlib
pathlib.Path(os.environ["SUBMARINE_CHECKPOINT_PATH"], "kept").touch()
print(pathlib.Path(os.environ["SUBMARINE_INPUT_PATH"]).read_text())
"""
    options = {"input_path": there.as_uri(), "checkpoint_path": made.as_uri()}
    story = cluster.run(script, gpus=0, **options)
    assert story.out == "data\n", story
    assert (made / "kept").exists()


@pytest.mark.parametrize(
    "build",
    [
        lambda: JobSpec(name="größe/../x"),
        lambda: JobSpec(env={"A=B": "x"}),
        lambda: JobSpec(outputs=("a b",)),
        lambda: JobSpec(roles=(Role(count=0),)),
        lambda: JobSpec(roles=(Role(resources=Resources(gpus=-1)),)),
    ],
)
def test_a_spec_that_means_nothing_is_none(build):
    with pytest.raises(CommandError) as caught:
        build()
    assert caught.value.fix


def test_checking_fills_in_what_was_left_open_and_changes_nothing_else(cluster):
    spec = JobSpec(name="mnist", env={"A": "1"}, outputs=("x",))
    checked = cluster.seam.check(spec)
    assert checked.gpus == 1
    assert (checked.name, checked.env, checked.outputs) == (spec.name, spec.env, spec.outputs)
    assert cluster.seam.check(checked) == checked
