import copy

import pytest
from submarine_engine.clusters.yarn.scheduler import master_fits, waiting_reason
from submarine_engine.errors import ClusterError
from submarine_engine.job import JobSpec, Resources, Role

ROOT = "/ws/v1/cluster"
HOLDER, SECOND, WAITER = (f"application_1795238167760_000{n}" for n in (4, 5, 6))
HELD_BACK = "application_1795239558676_00"


def job(queue=None, gpus=2, memory=256, count=1):
    resources = Resources(gpus=gpus, memory=memory, vcores=1)
    return JobSpec(queue=queue, roles=(Role(resources=resources, count=count),))


def set_amounts(resource, **values):
    names = {"gpus": "yarn.io/gpu", "memory": "memory-mb", "vcores": "vcores"}
    for name, value in values.items():
        for entry in resource["resourceInformations"]["resourceInformation"]:
            if entry["name"] == names[name]:
                entry["value"] = value


def free_gpus(manager, node=4, queue=4):
    set_amounts(manager.nodes()[0]["usedResource"], gpus=4 - node)
    usages = manager.queue("default")["resources"]["resourceUsagesByPartition"]
    set_amounts(usages[0]["used"], gpus=4 - queue)


def app(manager, app_id):
    return next(
        one for one in manager.documents[f"{ROOT}/apps"]["apps"]["app"] if one["id"] == app_id
    )


def test_all_gpus_in_use(recorded):
    assert waiting_reason(recorded("busy").rm, WAITER, job()) == (
        0,
        "queue default: 4/4 GPUs in use",
    )


def test_jobs_ahead(recorded):
    rm = recorded("busy").rm
    assert waiting_reason(rm, None, job()) == (1, "queue default: 4/4 GPUs in use, 1 job ahead")
    assert waiting_reason(rm, WAITER, job(), ahead=2) == (
        2,
        "queue default: 4/4 GPUs in use, 2 jobs ahead",
    )


def test_only_earlier_ones_of_the_same_queue_are_ahead(recorded):
    manager = recorded("busy")
    waiter = app(manager, WAITER)
    apps = manager.documents[f"{ROOT}/apps"]["apps"]["app"]
    later = copy.deepcopy({**waiter, "id": f"{WAITER}7", "startedTime": waiter["startedTime"] + 9})
    elsewhere = copy.deepcopy({**waiter, "id": f"{WAITER}8", "queue": "root.other"})
    urgent = copy.deepcopy({**later, "id": f"{WAITER}9", "priority": 5})
    apps += [later, elsewhere, urgent]
    assert waiting_reason(manager.rm, WAITER, job())[0] == 1
    assert waiting_reason(manager.rm, urgent["id"], job())[0] == 0
    assert waiting_reason(manager.rm, later["id"], job())[0] == 2


def test_the_cluster_is_full_where_the_queue_is_not(recorded):
    manager = recorded("busy")
    free_gpus(manager, node=1, queue=4)
    reason = waiting_reason(manager.rm, WAITER, job())[1]
    assert reason == "queue default: 3/4 GPUs of the cluster in use"


def test_a_queue_above_is_full(recorded):
    manager = recorded("held-back")
    used = manager.queue("gpu")["resources"]["resourceUsagesByPartition"][0]["used"]
    set_amounts(used, gpus=3)
    reason = waiting_reason(manager.rm, None, job("labs"))[1]
    assert reason.startswith("queue labs: queue root.gpu above it has 3/4 GPUs in use")


def test_memory_that_is_missing(recorded):
    manager = recorded("busy")
    free_gpus(manager)
    reason = waiting_reason(manager.rm, WAITER, job(memory=7000))[1]
    assert reason.startswith("queue default: 1536/8192 MiB in use")


def test_gpus_that_are_free_on_different_nodes(recorded):
    manager = recorded("busy")
    first = manager.nodes()[0]
    second = copy.deepcopy({**first, "id": "b:1", "nodeHostName": "b"})
    manager.nodes().append(second)
    free_gpus(manager, node=1)
    set_amounts(second["usedResource"], gpus=3)
    reason = waiting_reason(manager.rm, WAITER, job(gpus=2))[1]
    assert "no node has 2 GPUs free beside the rest (b 1, localhost 1 free)" in reason


def test_room_is_there(recorded):
    manager = recorded("busy")
    free_gpus(manager)
    reason = waiting_reason(manager.rm, WAITER, job())[1]
    assert reason == "queue default: 0/4 GPUs of the cluster in use; it is being placed"


def test_masters_that_are_held_back(recorded):
    rm = recorded("held-back").rm
    ahead, reason = waiting_reason(rm, f"{HELD_BACK}04", job())
    assert ahead == 2
    assert "Queue's AM resource limit exceeded" in reason
    assert "masters hold 256 of 512 MiB and 1 of 1 vcore" in reason
    assert reason.endswith(", 2 jobs ahead")
    reason = waiting_reason(rm, f"{HELD_BACK}14", job())[1]
    assert reason.startswith("queue gpu.small: its application master waits")
    assert "User's AM resource limit exceeded" in reason


def test_a_user_who_has_used_up_a_share(recorded):
    manager = recorded("held-back")
    user = manager.queue("labs")["users"]["user"][0]
    set_amounts(user["userResourceLimit"], gpus=1)
    set_amounts(user["resourcesUsed"], gpus=2)
    reason = waiting_reason(manager.rm, f"{HELD_BACK}06", job("labs"))[1]
    assert "user1 holds 2/1 GPU that one user may hold in it" in reason


def test_a_queue_that_was_stopped_meanwhile(recorded):
    manager = recorded("busy")
    manager.queue("default")["state"] = "DRAINING"
    reason = waiting_reason(manager.rm, WAITER, job())[1]
    assert reason == "queue default (draining): 4/4 GPUs in use"


def test_no_node_is_healthy(recorded):
    manager = recorded("busy")
    manager.nodes()[0].update(state="UNHEALTHY", healthReport="disks are full")
    reason = waiting_reason(manager.rm, WAITER, job())[1]
    assert "no node of the cluster takes containers (1 unhealthy): disks are full" in reason


@pytest.mark.parametrize(
    ("name", "words"), [("fair", "0/3 GPUs in use"), ("fifo", "0/4 GPUs of the cluster in use")]
)
def test_other_schedulers(recorded, name, words):
    assert words in waiting_reason(recorded(name).rm, None, job(gpus=5))[1]


def test_foreign_words_stay_one_short_line(recorded):
    manager = recorded("held-back")
    one = app(manager, f"{HELD_BACK}04")
    one["diagnostics"] = "x is not yet activated. \x1b]0;gotcha\x07\n" + "A" * 5000
    one["queue"] = "root.default"
    reason = waiting_reason(manager.rm, f"{HELD_BACK}04", job())[1]
    assert reason.isprintable()
    assert len(reason) < 600


def test_a_manager_that_is_gone(recorded):
    manager = recorded("busy")
    manager.configure(yarn__resourcemanager__webapp__address="127.0.0.1:1")
    with pytest.raises(ClusterError):
        waiting_reason(manager.rm, None, job())


def test_a_master_fits_where_others_can_start_too(recorded):
    rm = recorded("busy").rm
    assert master_fits(rm, "default", 256, "root")
    assert master_fits(rm, None, 256)
    assert not master_fits(rm, "default", 3000)  # 768 of 4096 MiB are held, others need some


def test_no_master_fits_where_applications_wait_or_are_too_many(recorded):
    rm = recorded("held-back").rm
    assert not master_fits(rm, "default", 256)
    assert not master_fits(rm, "labs", 256)  # it takes two applications


def test_a_users_own_limit_of_masters(recorded):
    manager = recorded("busy")
    user = manager.queue("default")["users"]["user"][0]
    set_amounts(manager.queue("default")["userAMResourceLimit"], memory=800)
    assert not master_fits(manager.rm, "default", 256, user["username"])
    assert master_fits(manager.rm, "default", 256, "somebody-else")


@pytest.mark.parametrize("name", ["fair", "fifo"])
def test_a_master_fits_where_no_limit_is_told(recorded, name):
    assert master_fits(recorded(name).rm, "default", 256)
