"""Pages of a job on YARN, by what people call them: they come and go with its containers."""

from __future__ import annotations

from pathlib import Path

import pytest
from submarine_engine.clusters.local import LocalCluster
from submarine_engine.clusters.yarn import YarnBackend
from submarine_engine.clusters.yarn.hadoop import HadoopConf, job_links
from submarine_engine.events import Exited, Finished, Granted, Released, Started, Submitted
from submarine_engine.job import JobState
from submarine_engine.lifecycle import fold

APP = "application_1700000000000_0001"
RM = "http://rm.example:8088"
CONF = {"yarn.resourcemanager.webapp.address": "rm.example:8088"}


def conf(**more):
    return HadoopConf(Path("/etc/hadoop"), {**CONF, **more}, "0")


def container(number):
    return f"container_1700000000000_0001_01_00000{number}"


def noted(*tasks):
    found = {task: [container(n), f"node{n}:8042", 1.0] for n, task in enumerate(tasks, 2)}
    return {"version": 1, "app_id": APP, "containers": found}


def running(*tasks):
    events = [Submitted(gpus=len(tasks), tasks=tasks)]
    for number, task in enumerate(tasks, 2):
        events += [Granted(task=task, host="node", container=container(number), gpus=("0",))]
        events += [Started(task=task)]
    return events


def over(task):
    return [Exited(task=task, exit_code=0), Released(task=task)]


def test_a_job_without_an_application_has_no_page():
    assert job_links(conf(), {}, fold([])) == {}
    assert job_links(conf(), {"app_id": "", "containers": {}}, fold([])) == {}


def test_while_it_runs():
    user = conf().user
    assert job_links(conf(), noted("worker-0"), fold(running("worker-0"))) == {
        "log": f"http://node2:8042/node/containerlogs/{container(2)}/{user}",
        APP: f"{RM}/cluster/app/{APP}",
        "ResourceManager": f"{RM}/cluster",
        "tracking": f"{RM}/proxy/{APP}/",
    }


def test_before_and_after_it_the_log_is_the_applications_page():
    waiting = job_links(conf(), noted(), fold([Submitted(gpus=1, tasks=("worker-0",))]))
    end = [*running("worker-0"), *over("worker-0"), Finished(state=JobState.SUCCEEDED)]
    after = job_links(conf(), noted("worker-0"), fold(end))
    assert waiting["log"] == after["log"] == f"{RM}/cluster/app/{APP}"
    assert "tracking" in waiting
    assert "tracking" not in after


def test_of_several_tasks_each_has_its_own_while_it_runs():
    tasks = ("worker-0", "worker-1", "worker-2")
    found = job_links(conf(), noted(*tasks), fold([*running(*tasks), *over("worker-0")]))
    assert [name for name in found if name.startswith("worker")] == ["worker-1", "worker-2"]
    assert found["log"] == found["worker-1"]


def test_a_web_proxy_of_its_own_is_named():
    proxy = conf(**{"yarn.web-proxy.address": "proxy.example:9099"})
    found = job_links(proxy, noted(), fold([]))
    assert found["tracking"] == f"http://proxy.example:9099/proxy/{APP}/"


@pytest.mark.parametrize("node", ["", "javascript:alert(1)//", "user@evil:80", "a b:80", "x\n:1"])
def test_what_is_no_address_is_no_link(node):
    bad = {"app_id": APP, "containers": {"worker-0": [container(2), node, 1.0]}}
    found = job_links(conf(), bad, fold(running("worker-0")))
    assert found["log"] == f"{RM}/cluster/app/{APP}"


def test_the_page_of_a_log_is_called_yarn_s_on_yarn_alone():
    assert (YarnBackend.log_label, LocalCluster.log_label) == ("YARN LOG", "Log")
