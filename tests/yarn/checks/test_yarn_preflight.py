import re
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from submarine_engine.clusters.yarn.gpus import read_devices
from submarine_engine.clusters.yarn.hadoop import load_hadoop
from submarine_engine.clusters.yarn.hadoop_json import clean_line
from submarine_engine.clusters.yarn.preflight import check_spec
from submarine_engine.clusters.yarn.rest import ResourceManager
from submarine_engine.clusters.yarn.scheduler import read_application, read_nodes, read_scheduler
from submarine_engine.errors import (
    ClusterError,
    ResourcesError,
    SubmarineError,
    UnsupportedError,
)
from submarine_engine.job import JobSpec, Resources, Role

ROOT = "/ws/v1/cluster"


def job(queue=None, count=1, role="worker", env=None, **resources):
    asked = Role(name=role, count=count, resources=Resources(**resources))
    return JobSpec(queue=queue, roles=(asked,), env=env or {})


def checked(manager, spec):
    return check_spec(spec, manager.conf, manager.rm)


def refused(manager, spec, kind=ResourcesError):
    with pytest.raises(kind) as caught:
        checked(manager, spec)
    return caught.value


@pytest.mark.parametrize("users", ["", "bob,", "bob carol", "*", "-x", "a/b", "x" * 65, "<b>"])
def test_who_may_see_a_job_is_named_as_yarn_takes_it(recorded, users):
    spec = replace(job(), options={"view_users": users})
    error = refused(recorded("held-back"), spec, UnsupportedError)
    assert error.where == "--view_users"
    assert "is no user's name" in error.what
    assert "--view_users bob,carol" in error.fix


def test_others_may_see_a_job_where_nodes_show_logs(recorded):
    spec = replace(job(), options={"view_users": "bob, carol_2.x"})
    assert checked(recorded("held-back"), spec).options == {"view_users": "bob, carol_2.x"}


def test_a_warm_application_has_no_priority_of_a_jobs_own(recorded):
    spec = replace(job(), options={"mode": "warm", "priority": 5})
    error = refused(recorded("held-back"), spec, UnsupportedError)
    assert error.where == "--mode"
    assert "--priority" in error.fix
    for options in ({"mode": "cold", "priority": 5}, {"priority": 5}, {"mode": "warm"}):
        assert checked(recorded("held-back"), replace(spec, options=options)).options == options


def test_what_is_left_open_is_filled_in(recorded):
    spec = checked(recorded("held-back"), job())
    assert spec.roles[0].resources == Resources(gpus=1, memory=2048, vcores=1)
    assert spec.gpus == 1


def test_what_is_asked_for_stays(recorded):
    wanted = Resources(gpus=2, memory=1000, vcores=3)
    spec = checked(recorded("held-back"), job(gpus=2, memory=1000, vcores=3))
    assert spec.roles[0].resources == wanted


def test_memory_is_rounded_as_the_scheduler_rounds_it(recorded):
    manager = recorded("held-back")
    conf = manager.configure(yarn__scheduler__minimum_allocation_mb="512")
    spec = check_spec(job(memory=1025), conf, manager.rm)
    assert spec.roles[0].resources.memory == 1536


def test_the_default_memory_is_no_more_than_a_container_may_have(recorded):
    manager = recorded("held-back")
    manager.queue("default")["maximumAllocation"]["resourceInformations"]["resourceInformation"][0][
        "value"
    ] = 1024
    assert checked(manager, job()).roles[0].resources.memory == 1024


def test_a_file_system_that_skein_cannot_send_to_is_refused(recorded):
    manager = recorded("held-back")
    manager.configure(fs__defaultFS="file:///")
    error = refused(manager, job(), UnsupportedError)
    assert "fs.defaultFS is file:///" in str(error)
    assert "such as hdfs://host:8020" in error.fix


def test_parameter_servers_get_no_gpu_by_themselves(recorded):
    roles = (Role(name="worker"), Role(name="ps"), Role(name="tensorboard"))
    spec = JobSpec(queue="labs", roles=roles)
    filled = checked(recorded("held-back"), spec)
    assert [role.resources.gpus for role in filled.roles] == [1, 0, 0]


def test_no_gpu_is_asked_for_where_there_is_none(recorded):
    assert checked(recorded("without-gpus"), job()).gpus == 0


def test_gpus_that_the_scheduler_does_not_know(recorded):
    error = refused(recorded("without-gpus"), job(gpus=2))
    assert "2 GPUs" in error.what
    assert "accounts no GPUs" in error.what
    assert "resource-types.xml" in error.fix
    assert "DominantResourceCalculator" in error.fix


def test_an_unknown_queue(recorded):
    error = refused(recorded("held-back"), job("nope"), UnsupportedError)
    assert error.what == "the ResourceManager has no queue 'nope'"
    assert error.fix == "its queues are default, closed, private, gpu.small, gpu.labs"


def test_a_queue_by_its_name_or_its_whole_path_alone(recorded):
    manager = recorded("held-back")
    assert checked(manager, job("labs")).queue == "labs"
    assert checked(manager, job("root.gpu.labs")).queue == "root.gpu.labs"
    error = refused(manager, job("gpu.labs"), UnsupportedError)
    assert error.fix == "write --queue root.gpu.labs"


def test_a_queue_of_queues(recorded):
    error = refused(recorded("held-back"), job("gpu"), UnsupportedError)
    assert error.fix == "choose one of root.gpu.small, root.gpu.labs"


def test_a_queue_that_is_made_on_demand_is_not_refused(recorded):
    manager = recorded("held-back")
    manager.queue("gpu")["autoCreateChildQueueEnabled"] = True
    assert checked(manager, job("mine")).queue == "mine"


@pytest.mark.parametrize("state", ["STOPPED", "DRAINING"])
def test_a_stopped_queue(recorded, state):
    manager = recorded("held-back")
    manager.queue("closed")["state"] = state
    error = refused(manager, job("closed"), UnsupportedError)
    assert f"the ResourceManager says it is {state}" in error.what
    assert "root.default" in error.fix


def test_the_manager_says_who_may_not_submit(recorded):
    manager = recorded("held-back")
    words = "User=me doesn't have access to queue=root.private with acl-type=SUBMIT_APPLICATIONS"
    asked = []
    manager.documents[f"{ROOT}/queues/root.private/access"] = lambda query: (
        asked.append(query) or {"allowed": "false", "user": "me", "diagnostics": words}
    )
    error = refused(manager, job("private"), UnsupportedError)
    assert words in error.what
    assert asked[0]["queue-acl-type"] == ["SUBMIT_APPLICATIONS"]


@pytest.mark.parametrize(
    ("user", "acls", "lists", "may"),
    [
        ("user3", "true", "user3", True),
        ("user9", "true", "user3", False),
        ("user9", "true", "user3 research", True),  # it may be of that group
        ("user9", "false", "user3", True),  # nobody looks at the lists
        ("user9", "true", "*", True),
    ],
)
def test_access_lists_where_the_manager_does_not_say(  # noqa: PLR0913, PLR0917 - one table
    recorded, monkeypatch, user, acls, lists, may
):
    monkeypatch.setenv("HADOOP_USER_NAME", user)
    manager = recorded("held-back")
    manager.configure(yarn__acl__enable=acls)
    for acl in manager.queue("private")["queueAcls"]["queueAcl"]:
        acl["accessControlList"] = lists if acl["accessType"] == "SUBMIT_APP" else " "
    if may:
        assert checked(manager, job("private")).queue == "private"
    else:
        error = refused(manager, job("private"), UnsupportedError)
        assert "user9 may not submit to queue root.private" in error.what


@pytest.mark.parametrize(
    ("asked", "words", "setting"),
    [
        ({"memory": 5000}, "5000 MiB, the scheduler gives 4096 MiB", "maximum-allocation-mb"),
        ({"vcores": 5}, "5 vcores, the scheduler gives 4 vcores", "maximum-allocation-vcores"),
    ],
)
def test_a_container_larger_than_the_scheduler_gives(recorded, asked, words, setting):
    error = refused(recorded("held-back"), job("labs", **asked))
    assert words in error.what
    assert setting in error.what
    assert error.where == "role worker"


def test_a_container_larger_than_any_node(recorded):
    manager = recorded("held-back")
    for name in ("gpu", "labs"):  # as if the rest lay on other nodes
        for one in manager.queue(name)["capacities"]["queueCapacitiesByPartition"]:
            for entry in one["effectiveMaxResource"]["resourceInformations"]["resourceInformation"]:
                entry["value"] = 100_000
    smaller = {
        **manager.nodes()[0],
        "id": "a:1",
        "nodeHostName": "a",
        "totalResource": {"memory": 9},
    }
    manager.nodes().append(smaller)
    error = refused(manager, job("labs", gpus=5))
    assert (
        "no node has that, the largest is localhost with 4 GPUs, 8192 MiB, 16 vcores" in error.what
    )


def test_more_gpus_than_the_queue_may_hold(recorded):
    error = refused(recorded("held-back"), job(gpus=3))
    assert error.what == (
        "the job asks for 3 GPUs in all; queue root.default may hold 2 GPUs at most"
    )


def test_containers_that_do_not_all_find_a_node(recorded):
    error = refused(recorded("held-back"), job("labs", count=3, gpus=1, memory=4096))
    assert "3 containers of 1 GPU, 4096 MiB, 1 vcore each; the nodes have room for 2" in error.what


def test_secrets_by_the_names_of_yarns_own_variables_are_refused(recorded):
    manager = recorded("held-back")
    error = refused(manager, JobSpec(queue="labs", secrets=("NM_HOST",)), UnsupportedError)
    assert ("NM_HOST is set in every container" in error.what, error.where) == (True, "--secret")


def test_all_problems_are_told_at_once(recorded):
    spec = job(gpus=9, memory=900_000, vcores=99, env={"CUDA_VISIBLE_DEVICES": "1", "NM_HOST": "x"})
    error = refused(recorded("held-back"), spec, UnsupportedError)
    assert "for 5 reasons" in error.what
    for word in ("CUDA_VISIBLE_DEVICES", "NM_HOST", "900000 MiB", "99 vcores", "9 GPUs"):
        assert word in error.what
    assert "ask for 4 vcores or less" in error.fix


def test_no_node_that_takes_containers(recorded):
    manager = recorded("held-back")
    manager.nodes()[0].update(state="UNHEALTHY", healthReport="1/1 local-dirs \x1b[31mare bad")
    error = refused(manager, job())
    assert "no node of the cluster takes containers (1 unhealthy)" in error.what
    assert "1/1 local-dirs \\x1b[31mare bad" in error.what


@pytest.mark.parametrize("name", ["fair", "fifo"])
def test_other_schedulers_refuse_less(recorded, name):
    manager = recorded(name)
    assert checked(manager, job("anything")).gpus == 1
    assert "the job asks for 5 GPUs" in refused(manager, job(gpus=1, count=5)).what


def test_the_fair_scheduler_has_limits_too(recorded):
    error = refused(recorded("fair"), job(gpus=4))
    assert "queue root.default may hold 3 GPUs at most" in error.what


def test_a_manager_that_is_not_there(recorded):
    manager = recorded("busy")
    manager.configure(yarn__resourcemanager__webapp__address="127.0.0.1:1")
    error = refused(manager, job(), ClusterError)
    assert "does not answer" in error.what


@pytest.mark.parametrize("path", ["scheduler", "nodes"])
@pytest.mark.parametrize(
    "answer",
    [b"<html>hello</html>", b"", b"7", b"[]", b"null", {"scheduler": 3}, {"nodes": {"node": "x"}}],
)
def test_nonsense_is_told_as_an_error_of_ours_or_passed_over(recorded, path, answer):
    manager = recorded("busy")
    manager.documents[f"{ROOT}/{path}"] = answer
    with suppress(SubmarineError):
        assert checked(manager, job()).gpus in (0, 1)


FIELDS = sorted(
    {
        word
        for path in Path(__file__).with_name("documents").glob("*.json")
        for word in re.findall(r'"([A-Za-z]+)":', path.read_text())
    }
)

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(FIELDS),
            inner,
            max_size=4,
        )
    ),
    max_leaves=25,
)


@given(anything)
def test_no_document_breaks_the_readers(document):
    for kind in ("capacityScheduler", "fairScheduler", "fifoScheduler"):
        info = {"queueName": "root", "rootQueue": document, "queues": document, "type": kind}
        rest = document if isinstance(document, dict) else {}
        for queue in read_scheduler({"scheduler": {"schedulerInfo": {**rest, **info}}}).queues:
            assert queue.path
    read_scheduler(document)
    read_nodes(document)
    read_nodes({"nodes": document})
    read_devices(document)
    read_application(document if isinstance(document, dict) else {})


@given(st.text(), st.integers(min_value=2, max_value=100))
def test_foreign_text_is_short_and_shown_not_obeyed(text, limit):
    line = clean_line(text, limit)
    assert len(line) <= 10 * limit
    assert line.isprintable()


def test_a_real_cluster_is_read_as_it_is(on_yarn):
    conf = load_hadoop()
    rm = ResourceManager(conf)
    assert check_spec(job(), conf, rm).gpus == 1
    with pytest.raises(UnsupportedError, match="no queue 'nope'"):
        check_spec(job("nope"), conf, rm)
    with pytest.raises(ResourcesError, match=r"queue root\.small may hold 1 GPU at most"):
        check_spec(job("small", gpus=2, memory=256), conf, rm)
    with pytest.raises(ResourcesError, match="1000 GPUs"):
        check_spec(job(gpus=1000), conf, rm)
