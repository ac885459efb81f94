import copy
import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest
from submarine_engine.clusters.base import GpuRoom, GpuShare
from submarine_engine.clusters.yarn import gpus
from submarine_engine.clusters.yarn.gpus import (
    Devices,
    cluster_gpus,
    gpu_room,
    gpu_shares,
    gpus_of,
    read_devices,
)
from submarine_engine.clusters.yarn.hadoop import load_hadoop
from submarine_engine.clusters.yarn.rest import ResourceManager
from submarine_engine.clusters.yarn.scheduler import waiting_reason
from submarine_engine.job import JobSpec, Resources, Role

pytestmark = pytest.mark.filterwarnings("ignore:distutils Version:DeprecationWarning")  # skein's

ROOT = "/ws/v1/cluster"
GPU_PATH = "/ws/v1/node/resources/yarn.io%2Fgpu"
HOLDER, SECOND = (f"application_1795238167760_000{n}" for n in (4, 5))


@pytest.fixture
def busy(recorded, monkeypatch):
    monkeypatch.setattr(gpus, "_NODE_TIMEOUT", 30.0)  # its names count here, on a busy machine too
    manager = recorded("busy")
    manager.nodes()[0]["nodeHTTPAddress"] = manager.address
    return manager


def container(app_id, number):
    return f"container{app_id.removeprefix('application')}_01_{number:06}"


def test_who_holds_what(busy):
    found = cluster_gpus(busy.rm)
    assert [gpu.id for gpu in found] == ["0", "1", "2", "3"]
    assert {gpu.name for gpu in found} == {"Declared GPU"}
    assert {gpu.memory for gpu in found} == {16000}
    jobs = ["20261121-holder", "20261121-holder", "20261121-second", "20261121-second"]
    assert [gpu.job_id for gpu in found] == jobs
    assert found[0].holder == f"root: holder ({HOLDER})"
    assert found[0].queue == "default"


def test_jobs_of_this_home_by_their_containers(busy):
    mine = {container(SECOND, 2): "my-job"}
    found = cluster_gpus(busy.rm, mine)
    assert [gpu.job_id for gpu in found].count("my-job") == 1


def test_other_peoples_applications_are_named(busy):
    for one in busy.documents[f"{ROOT}/apps"]["apps"]["app"]:
        one.update(applicationTags="", name="spark \x1b[31mshell")
    found = cluster_gpus(busy.rm)
    assert all(gpu.job_id is None for gpu in found)
    assert found[0].held_by == f"root: spark \\x1b[31mshell ({HOLDER})"


def test_holders_that_the_manager_does_not_show(busy):
    busy.documents[f"{ROOT}/apps"] = {"apps": None}
    found = cluster_gpus(busy.rm)
    assert {gpu.held_by for gpu in found} == {"an application that you may not see"}


def test_devices_by_name_where_the_node_isolates_them(busy):
    told = busy.documents[GPU_PATH]
    told["totalGpuDevices"] = [{"index": n, "minorNumber": n} for n in range(4)]
    told["assignedGpuDevices"] = [
        {"index": 2, "minorNumber": 2, "containerId": container(SECOND, 2)},
        {"index": 3, "minorNumber": 3, "containerId": "container_unknown"},
    ]
    found = cluster_gpus(busy.rm)
    assert [gpu.id for gpu in found] == [f"GPU-0000000{n}" for n in range(4)]
    assert [gpu.job_id for gpu in found] == [None, None, "20261121-second", None]
    assert [gpu.held_by is None for gpu in found] == [True, True, False, False]


@pytest.mark.parametrize("answer", [b"<html>", b"[[[[", (500, {"no": 1}), {"totalGpuDevices": 3}])
def test_nodes_that_answer_nonsense_still_have_numbers(busy, answer):
    busy.documents[GPU_PATH] = answer
    found = cluster_gpus(busy.rm)
    assert [(gpu.id, gpu.name) for gpu in found] == [(str(n), "GPU") for n in range(4)]
    assert all(gpu.held_by for gpu in found)


def test_nodes_that_cannot_be_reached_still_have_numbers(recorded):
    manager = recorded("busy")
    manager.nodes()[0]["nodeHTTPAddress"] = "127.0.0.1:1"
    assert len(cluster_gpus(manager.rm)) == 4


def test_a_container_that_is_one_object_not_a_list(busy):
    path = f"{ROOT}/apps/{HOLDER}/appattempts/appattempt{HOLDER[11:]}_000001/containers"
    holding = busy.documents[path]["container"]
    gpus = [one for one in holding if container(HOLDER, 2) == one["containerId"]]
    busy.documents[path] = {"container": gpus[0]}
    assert [gpu.job_id for gpu in cluster_gpus(busy.rm)].count("20261121-holder") == 2


def test_a_lost_node_has_no_gpus(busy):
    lost = copy.deepcopy({**busy.nodes()[0], "state": "LOST", "id": "b:1", "nodeHostName": "b"})
    for entry in lost["usedResource"]["resourceInformations"]["resourceInformation"]:
        entry["value"] = 0
    busy.nodes().append(lost)
    assert {gpu.host for gpu in cluster_gpus(busy.rm)} == {"localhost"}
    assert GpuShare("node", "localhost", 0, 4) in gpu_shares(busy.rm)


def test_no_gpus_at_all(recorded):
    rm = recorded("without-gpus").rm
    assert cluster_gpus(rm) == []
    assert gpu_shares(rm) == []


def test_free_and_total_by_node_and_queue(recorded):
    assert gpu_shares(recorded("busy").rm) == [
        GpuShare("node", "localhost", 0, 4),
        GpuShare("queue", "default", 0, 4),
    ]
    shares = gpu_shares(recorded("held-back").rm)
    assert GpuShare("queue", "default", 2, 2) in shares
    assert GpuShare("queue", "gpu.labs", 4, 4) in shares


def test_what_a_node_tells_is_read_without_trust():
    assert read_devices({"gpuDeviceInformation": {"gpus": [{}, "x"]}}) == Devices(
        read_devices({"gpuDeviceInformation": {"gpus": [{}]}}).found
    )


def test_a_real_cluster_tells_its_gpus(on_yarn):
    command = [sys.executable, "-m", "submarine_engine.cli", "gpus", "--json", "--cluster", "yarn"]
    done = subprocess.run(command, env={**os.environ}, capture_output=True, text=True, check=True)
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert len([one for one in told if "id" in one]) == 4
    assert {one["queue"]: one["total"] for one in told if "total" in one and "queue" in one} == {
        "default": 4,
        "small": 1,
    }


@pytest.mark.long
def test_a_real_cluster_tells_who_holds_and_who_waits(on_yarn, submitted, until):
    holder = submitted(queue="small", gpus=1, tags={"submarine", "submarine-job:20260101-mine"})
    rm = ResourceManager(load_hadoop())
    held = until(lambda: [gpu for gpu in cluster_gpus(rm) if holder in (gpu.holder or "")])
    assert [(gpu.job_id, gpu.queue) for gpu in held] == [("20260101-mine", "small")]
    assert GpuShare("queue", "small", 0, 1) in gpu_shares(rm)
    (holding,) = [one for one in rm.containers(holder) if gpus_of(one)]
    found = cluster_gpus(rm, {holding["containerId"]: "of-this-home"})
    assert [gpu.job_id for gpu in found].count("of-this-home") == 1

    spec = JobSpec(queue="small", roles=(Role(resources=Resources(gpus=1, memory=256)),))
    waiter = submitted(queue="small", gpus=1, tags=set())
    told = (0, "queue small: 1/1 GPU in use")
    until(lambda: waiting_reason(rm, waiter, spec) == told)
    told = (1, "queue small: 1/1 GPU in use, 1 job ahead")
    until(lambda: waiting_reason(rm, None, spec) == told)  # what other tests left there ends


@pytest.mark.long
def test_the_terminal_names_the_holder_that_is_not_ours(on_yarn, submitted, until):
    foreign = submitted(queue="small", gpus=1, tags=set())
    rm = ResourceManager(load_hadoop())
    until(lambda: [gpu for gpu in cluster_gpus(rm) if foreign in (gpu.holder or "")])
    command = [sys.executable, "-m", "submarine_engine.cli", "gpus", "--cluster", "yarn"]
    shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    (line,) = [line for line in shown.splitlines() if foreign in line]
    assert line.endswith(f"({foreign}) in small")
    assert f"{rm.user}: " in line
    parts = [line.split() for line in shown.splitlines()]
    assert ["queue", "small", "0", "1"] in parts
    assert any(words[:2] == ["node", "localhost"] and words[3] == "4" for words in parts)
    told = subprocess.run([*command, "--json"], check=True, capture_output=True, text=True).stdout
    gpus = [json.loads(line) for line in told.splitlines()]
    assert [one["queue"] for one in gpus if foreign in one.get("holder", "")] == ["small"]


def test_others_who_wait_are_counted_where_a_job_of_ours_could_make_room(busy):
    one = JobSpec(roles=(Role(resources=Resources(gpus=1, memory=256, vcores=1)),))
    assert gpu_room(busy.rm, one) == GpuRoom(free=0, wanted=2)
    # Their queue is full: what we have in another one is nothing to them.
    assert gpu_room(busy.rm, replace(one, queue="another")) == GpuRoom(free=0)


def test_what_jobs_could_have_is_what_nodes_and_queue_have_left(busy):
    one = JobSpec(roles=(Role(resources=Resources(gpus=1, memory=256, vcores=1)),))
    use_gpus(busy.documents[f"{ROOT}/nodes"], 0)
    assert gpu_room(busy.rm, one).free == 0  # the queue is used up
    use_gpus(busy.documents[f"{ROOT}/scheduler"], 1)
    assert gpu_room(busy.rm, one).free == 3
    pairs = replace(one, roles=(Role(resources=Resources(gpus=2, memory=256, vcores=1)),))
    assert gpu_room(busy.rm, pairs).free == 2


def use_gpus(document, count):
    """Write into all of a document that so many GPUs are used."""
    for name, value in document.items() if isinstance(document, dict) else enumerate(document):
        if name in ("used", "usedResource", "resourcesUsed"):
            told = value["resourceInformations"]["resourceInformation"]
            next(one for one in told if one["name"] == "yarn.io/gpu")["value"] = count
        elif isinstance(value, (dict, list)):
            use_gpus(value, count)
