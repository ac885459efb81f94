"""The environment of a job: the user's own, without the notebook's machinery."""

from __future__ import annotations

import json

import pytest
from submarine_engine.clusters.environment import job_environment
from submarine_engine.history import TaskPaths


@pytest.fixture
def made(tmp_path):
    def make(outer, wanted=None, **options):
        task = TaskPaths(tmp_path / "worker-0")
        return job_environment(outer, wanted or {}, job_id="some-job", task=task, **options)

    return make


def test_machinery_of_notebooks_stays_out(made):
    outer = {
        "JPY_PARENT_PID": "1",
        "JPY_SESSION_NAME": "x",
        "PYDEVD_USE_FRAME_EVAL": "NO",
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
        "SUBMARINE_INPUT_PATH": "/of/an/outer/job",
        "HOME": "/home/x",
        "PYTHONPATH": "/lib",
    }
    environment = made(outer)
    # The one thing of it that a job has as well: what is drawn comes home.
    assert environment["MPLBACKEND"] == "module://matplotlib_inline.backend_inline"
    assert environment["HOME"] == "/home/x"
    assert environment["PYTHONPATH"] == "/lib"
    assert not {"JPY_PARENT_PID", "JPY_SESSION_NAME", "PYDEVD_USE_FRAME_EVAL"} & set(environment)
    assert "SUBMARINE_INPUT_PATH" not in environment


def test_a_backend_that_the_user_chose_is_kept(made):
    assert made({"MPLBACKEND": "svg"})["MPLBACKEND"] == "svg"
    assert made({}, {"MPLBACKEND": "pdf"})["MPLBACKEND"] == "pdf"


def test_vcores_limit_threads_unless_the_user_said_otherwise(made):
    environment = made({"OMP_NUM_THREADS": "7"}, {"MKL_NUM_THREADS": "5"}, vcores=2)
    assert environment["OMP_NUM_THREADS"] == "7"
    assert environment["MKL_NUM_THREADS"] == "5"
    assert environment["OPENBLAS_NUM_THREADS"] == "2"
    assert "OPENBLAS_NUM_THREADS" not in made({})


def test_the_job_is_told_who_it_is_and_the_spec_wins(local, monkeypatch):
    monkeypatch.setenv("COLOUR", "red")
    job_id = local.submit(
        "import json, os; print(json.dumps(dict(os.environ)))", env={"COLOUR": "blue", "NEW": "1"}
    )
    seen = json.loads(local.follow(job_id).out)
    assert (seen["COLOUR"], seen["NEW"]) == ("blue", "1")
    assert seen["SUBMARINE_JOB_ID"] == job_id
    assert seen["SUBMARINE_TASK"] == "worker-0"
    assert seen["SUBMARINE_TASK_DIR"] == str(local.paths(job_id).task("worker-0").root)
    assert seen["PYTHONUNBUFFERED"] == "1"
    assert "SUBMARINE_DRIVER" not in seen


def test_a_variable_that_is_not_utf8_arrives_as_it_is(local, monkeypatch):
    import os

    monkeypatch.setitem(os.environb, b"ODD", b"\xff\xfe")
    story = local.run("import os; print(os.environb[b'ODD'])")
    assert story.out == "b'\\xff\\xfe'\n"
