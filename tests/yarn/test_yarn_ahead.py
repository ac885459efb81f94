"""What a notebook's first job would wait for is there before it, and never in anybody's way."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from submarine_engine.clusters.yarn.application import MASTER_MEMORY
from submarine_engine.clusters.yarn.cluster import last_job
from submarine_engine.clusters.yarn.hadoop import HadoopConf, load_hadoop
from submarine_engine.clusters.yarn.rest import ResourceManager
from submarine_engine.clusters.yarn.scheduler import master_fits
from submarine_engine.history import JobPaths, make_private, read_json, write_json
from submarine_engine.job import JobSpec, Resources, Role

from tests.hadoop import yarn_cluster
from tests.jobs import end_processes_of, until
from tests.kernels import Driven

PATIENCE = 200.0
FINAL = ("FINISHED", "FAILED", "KILLED")


@pytest.fixture
def start(tmp_path):
    """Return a function that starts a kernel of the test's home."""
    home = tmp_path / "home"
    home.mkdir()
    kernels = []

    def start(**settings):
        kernels.append(Driven(str(home), env={"SUBMARINE_YARN_AHEAD": "true", **settings}))
        return kernels[-1]

    yield start
    for kernel in kernels:
        if kernel.manager.is_alive():
            kernel.stop()
    shutil.rmtree(home, ignore_errors=True)
    end_processes_of(home, patience=3)  # the keeper goes, skein's driver waits for another


def masters(home):
    return [
        master
        for noted in Path(home).glob("yarn/*/masters.json")
        for master in json.loads(noted.read_text())["masters"]
    ]


def until_ready(kernel):
    until(lambda: masters(kernel.home) and masters(kernel.home)[0]["probe"], PATIENCE)
    [master] = masters(kernel.home)
    return master["app_id"]


def application_of(kernel, name):
    [job] = [
        path
        for path in Path(kernel.home).glob("jobs/*")
        if read_json(path / "record.json")["spec"]["name"] == name
    ]
    return read_json(job / "yarn.json")["app_id"]


@pytest.mark.long
def test_the_first_job_finds_a_master_without_gpus(on_yarn, start):
    rm = ResourceManager(load_hadoop())
    # Idle masters that the test before has left keep one from being made ahead until they end.
    until(lambda: master_fits(rm, None, MASTER_MEMORY), PATIENCE)
    # As configured: the kernel's start is enough. A busy machine takes its time for the first job.
    kernel = start(SUBMARINE_CLUSTER="yarn", SUBMARINE_YARN_IDLE="300")
    application = until_ready(kernel)
    report = rm.application(application)
    assert report["state"] == "RUNNING"
    assert [one["allocatedMB"] for one in rm.containers(application)] == ["256"]
    kernel.run("%submarine use yarn")  # once more
    ran = kernel.run("%%submarine --name first\nprint('here')", patience=PATIENCE)
    assert ran.stream("stdout") == "here\n", ran.text
    assert application_of(kernel, "first") == application
    assert [master["app_id"] for master in masters(kernel.home)] == [application]
    kernel.stop()
    until(lambda: rm.application(application)["state"] in FINAL, PATIENCE)


JOINED = (
    "import threading\n"
    "[one.join() for one in threading.enumerate() if one.name == 'submarine: get ready']"
)


def silent(folder):
    """Return the configuration of a cluster at which nobody answers."""
    folder.mkdir()
    named = "<name>yarn.resourcemanager.webapp.address</name><value>127.0.0.1:1</value>"
    site = f"<configuration><property>{named}</property></configuration>"
    (folder / "yarn-site.xml").write_text(site)
    return folder


@pytest.mark.service
def test_a_cluster_that_does_not_answer_is_told_by_the_job_alone(start, tmp_path):
    kernel = start(SUBMARINE_CLUSTER="yarn", HADOOP_CONF_DIR=str(silent(tmp_path / "conf")))
    ran = kernel.run("%submarine use yarn")
    assert ran.text == "this notebook's jobs go to yarn\n"
    assert kernel.run(JOINED).stream("stderr") == ""
    assert not (Path(kernel.home) / "yarn").exists()
    assert "ClusterError" in kernel.run("%%submarine\n1").text


@pytest.mark.service
def test_a_configuration_that_is_broken_does_not_keep_the_magics_from_loading(start):
    kernel = start(SUBMARINE_CLUSTER="yarn", SUBMARINE_GRACE="soon", HADOOP_CONF_DIR="/nowhere")
    assert "grace cannot be 'soon'" in kernel.run("%%submarine\n1").text


def test_it_can_be_turned_off(tmp_path):
    values = {"yarn.resourcemanager.webapp.address": "127.0.0.1:1"}
    cluster = yarn_cluster(tmp_path / "home", HadoopConf(tmp_path, values, "f"))
    cluster.get_ready("a.ipynb")  # nobody is asked
    assert not (tmp_path / "home").exists()


def recorded(home, number, notebook, *, mode="warm", cluster="yarn"):
    """Put on record what is read of a job that has been."""
    paths = JobPaths(home, f"20260101-00000{number}-aaaaa")
    make_private(paths.root)
    spec = JobSpec(notebook=notebook, roles=(Role(resources=Resources(gpus=number)),))
    state = {"version": 1, "id": paths.job_id, "name": "a", "cluster": cluster}
    more = {"state": "succeeded", "reason": "", "gpus": number, "created": None, "finished": None}
    write_json(paths.root / "status.json", {**state, **more})
    write_json(paths.root / "record.json", {"version": 1, "spec": spec.to_json()})
    write_json(paths.root / "yarn.json", {"version": 1, "mode": mode})
    write_json(paths.root / "launch.json", {"version": 1, "environment": str(number)})


def test_the_shape_is_that_of_the_notebooks_last_job(tmp_path):
    def gpus(notebook):
        spec, launch = last_job(tmp_path, notebook)
        return JobSpec.from_json(spec).gpus, launch["environment"]

    assert last_job(tmp_path, "a.ipynb") is None
    recorded(tmp_path, 1, "a.ipynb")
    recorded(tmp_path, 2, "a.ipynb")
    recorded(tmp_path, 3, "b.ipynb")
    recorded(tmp_path, 4, "a.ipynb", mode="cold")
    recorded(tmp_path, 5, "a.ipynb", cluster="local")
    assert gpus("a.ipynb") == (2, "2")
    assert gpus("b.ipynb") == (3, "3")
    assert gpus("new.ipynb") == (3, "3")
    (tmp_path / "jobs/20260101-000003-aaaaa/record.json").unlink()
    assert gpus("new.ipynb") == (2, "2")
