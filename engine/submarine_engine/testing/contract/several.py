"""Jobs of several tasks: they begin together, and each knows where the others are.

A cluster that runs one task refuses them in words: give its `Place` ``several=False``.
"""

from __future__ import annotations

import json

import pytest

from submarine_engine.errors import ResultError, UnsupportedError
from submarine_engine.events import Started
from submarine_engine.job import JobState, Resources, Role, TaskState
from submarine_engine.testing.jobs import until

MEET = """
import json, os, socket
from submarine_runtime import job
address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
# Who serves is ended with the workers: they wait until it has said what it has to say.
others = int(os.environ["WORLD_SIZE"]) - 1 + int(os.environ.get("SERVERS", "0"))
heard = []
def tell():
    NAMES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "TF_CONFIG",
             "JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID")
    print(json.dumps({
        "heard": sorted(heard), "job": [job.rank, job.world_size, job.role, job.index, job.attempt,
        job.is_chief, len(job.hosts)], "env": {name: os.environ.get(name) for name in NAMES}}))
if job.rank < 0:
    tell()
if job.rank == 0:
    with socket.create_server(("", address[1])) as server:
        for _ in range(others):
            connection, _ = server.accept()
            with connection:
                heard.append(int(connection.recv(10)))
else:
    while True:
        try:
            with socket.create_connection(address) as connection:
                connection.sendall(str(job.rank).encode())
            break
        except ConnectionRefusedError:  # it does not listen yet
            pass
if job.rank >= 0:
    tell()
"""


def begin(cluster, script, *, command=None, env=None, **counts):
    """Submit a job of so many tasks of each role; None where the cluster refuses that, as it says.

    Parameters
    ----------
    command
        Runs in place of the script.
    """
    resources = Resources(gpus=0, memory=256, vcores=1)
    roles = tuple(
        Role(name=name, count=count, resources=resources, command=command)
        for name, count in counts.items()
    )
    if cluster.several:
        return cluster.submit(script, roles=roles, env=env or {})
    with pytest.raises(UnsupportedError, match="the job asks for"):
        cluster.submit(script, roles=roles, env=env or {})
    return None


def printed(cluster, job, task):
    """Return what a task of a job that is over has printed."""
    job.wait(180)
    status = job.status()
    assert status.state is JobState.SUCCEEDED, status.reason
    return cluster.paths(job).task(task).stdout.read_text()


def test_workers_begin_together_and_find_each_other(cluster):
    job = begin(cluster, MEET, worker=3)
    if job is None:
        return
    told = [json.loads(printed(cluster, job, f"worker-{n}")) for n in range(3)]
    assert [one["heard"] for one in told] == [[1, 2], [], []]
    assert [one["job"] for one in told] == [[n, 3, "worker", n, 1, n == 0, 3] for n in range(3)]
    for number, one in enumerate(told):
        env = one["env"]
        assert (env["RANK"], env["WORLD_SIZE"]) == (str(number), "3")
        assert (env["LOCAL_RANK"], env["LOCAL_WORLD_SIZE"]) == ("0", "1")
        assert (env["JAX_PROCESS_ID"], env["JAX_NUM_PROCESSES"]) == (str(number), "3")
        config = json.loads(env["TF_CONFIG"])
        assert config["task"] == {"type": "worker", "index": number}
        assert len(set(config["cluster"]["worker"])) == 3
    assert len({one["env"]["JAX_COORDINATOR_ADDRESS"] for one in told}) == 1


def test_each_role_has_its_place(cluster):
    job = begin(cluster, MEET, ps=1, worker=1, evaluator=1, chief=1, env={"SERVERS": "2"})
    if job is None:
        return
    tasks = ("chief-0", "worker-0", "ps-0", "evaluator-0")
    told = {task: json.loads(printed(cluster, job, task)) for task in tasks}
    assert told["chief-0"]["job"] == [0, 2, "chief", 0, 1, True, 2]
    assert told["worker-0"]["job"] == [1, 2, "worker", 0, 1, False, 2]
    assert told["ps-0"]["job"] == [-1, 2, "ps", 0, 1, False, 2]
    assert (told["ps-0"]["env"]["RANK"], told["ps-0"]["env"]["WORLD_SIZE"]) == (None, "2")
    config = json.loads(told["evaluator-0"]["env"]["TF_CONFIG"])
    assert {name: len(found) for name, found in config["cluster"].items()} == {
        "chief": 1, "worker": 1, "ps": 1,
    }  # fmt: skip
    assert config["task"] == {"type": "evaluator", "index": 0}


SEES = """
import os
from submarine_runtime import job
print(os.environ["CUDA_VISIBLE_DEVICES"])
near = 0 <= job.local_rank < job.local_world_size
print(job.rank, job.world_size, os.environ["LOCAL_RANK"], near)
"""


def test_each_gpu_of_a_task_may_be_a_rank(cluster):
    resources = Resources(gpus=2, memory=512, vcores=2)
    options = {"roles": (Role(resources=resources),), "ranks_per_task": "gpu"}
    if not cluster.several:
        with pytest.raises(UnsupportedError, match="the job asks for"):
            cluster.submit(SEES, **options)
        return
    job = cluster.submit(SEES, **options)
    told = [printed(cluster, job, f"worker-{n}").splitlines() for n in range(2)]
    granted = [list(task.gpus) for task in job.status().tasks]
    assert [[gpus] for gpus, _ in told] == granted
    assert len({gpus for gpus, _ in told}) == len(told)
    assert [place for _, place in told] == ["0 2 0 True", "1 2 0 True"]


def test_a_command_is_told_by_its_variables(cluster):
    job = begin(cluster, "1", worker=2, command='echo "$RANK of $WORLD_SIZE"')
    if job is None:
        return
    assert printed(cluster, job, "worker-0") == "0 of 2\n"
    assert printed(cluster, job, "worker-1") == "1 of 2\n"


def test_a_task_that_cannot_begin_keeps_no_other_waiting(cluster):
    """Its runtime does not come so far that it could say hello."""
    script = "raise SystemExit('no task of it may begin')\n"
    broken = "import os\nos.environ['SUBMARINE_TASK'] == 'worker-1' and os._exit(9)\n"
    (cluster.folder / "broken").mkdir()
    (cluster.folder / "broken" / "sitecustomize.py").write_text(broken)
    job = begin(cluster, script, worker=2, env={"PYTHONPATH": str(cluster.folder / "broken")})
    if job is None:
        return
    job.wait(180)
    status = job.status()
    assert status.state is JobState.FAILED
    assert "code 9" in status.reason
    assert cluster.holders() == {}


FAILS = """
import time
from submarine_runtime import job
if job.rank == 1:
    raise ValueError("rank 1 says why")
time.sleep(3600)  # it waits for rank 1
"""


def test_the_first_to_fail_speaks_and_ends_the_others(cluster):
    job = begin(cluster, FAILS, worker=2, ps=1)
    if job is None:
        return
    job.wait(180)
    status = job.status()
    assert status.state is JobState.FAILED
    assert status.reason == "ValueError: rank 1 says why"
    assert all(task.released for task in status.tasks)
    assert cluster.holders() == {}


LOSES = """
import atexit, os, socket, time
from submarine_runtime import job
address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
if job.rank == 0:
    with socket.create_server(("", address[1])) as server:
        for connection in [server.accept()[0] for _ in range(2)]:
            while data := connection.recv(10):
                pass
            while not os.path.exists({said!r}):
                time.sleep(0.01)
            raise ConnectionResetError("rank 0 has lost another")
while True:
    try:
        connection = socket.create_connection(address)
        break
    except ConnectionRefusedError:  # it does not listen yet
        pass
if job.rank == 2:
    # It has said why, and ends a moment after who has lost it.
    atexit.register(lambda: (open({said!r}, "w").close(), time.sleep(0.1)))
    try:
        raise ValueError("rank 2 says why")
    finally:
        connection.close()
time.sleep(3600)
"""


def test_who_failed_by_itself_speaks_though_others_lost_it_sooner(cluster):
    job = begin(cluster, LOSES.format(said=str(cluster.folder / "said")), worker=3)
    if job is None:
        return
    job.wait(180)
    status = job.status()
    assert (status.failed_task, status.reason) == ("worker-2", "ValueError: rank 2 says why")
    with pytest.raises(ValueError, match="rank 2 says why") as caught:
        job.result()
    host = status.task("worker-2").host
    assert f"the first to fail was worker-2 on {host}" in str(caught.value)
    assert "--task worker-2" in str(caught.value)


VALUES = """
import sys, types
from submarine_runtime import job
value = {"rank": job.rank}
if job.rank == 1:
    gone = sys.modules["gone"] = types.ModuleType("gone")
    exec("class Of: pass", vars(gone))
    value = gone.Of()
while job.role == "ps":
    pass
value
"""


def test_the_value_of_each_task_comes_home_when_it_is_asked_for(cluster):
    job = begin(cluster, VALUES, ps=1, worker=3)
    if job is None:
        return
    results = job.results(180)
    assert results.value == {"rank": 0}  # whatever role was named first
    by_task = results.by_task
    assert list(by_task) == ["worker-0", "worker-1", "worker-2", "ps-0"]
    assert (by_task["worker-0"], by_task["worker-2"]) == ({"rank": 0}, {"rank": 2})
    for task, why in (("worker-1", "no module `gone`"), ("ps-0", "gave no value")):
        with pytest.raises(ResultError, match=why) as caught:
            by_task[task]
        assert caught.value.where.startswith(f"{task} on {job.status().task(task).host}, job ")
    with pytest.raises(KeyError, match="the job has worker-0"):
        by_task["worker-3"]


LEAVES = """
import atexit, os, socket, time
from submarine_runtime import job
address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
if job.rank == 0:
    with socket.create_server(("", address[1])) as server, server.accept()[0] as connection:
        connection.recv(10)
        while not os.path.exists({said!r}):
            time.sleep(0.01)
        raise ConnectionResetError("rank 0 has lost another")
atexit.register(lambda: open({said!r}, "w").close())
while True:
    try:
        socket.create_connection(address)
        break
    except ConnectionRefusedError:  # it does not listen yet
        pass
"""


def test_who_comes_to_the_end_early_is_named_where_others_needed_it(cluster):
    job = begin(cluster, LEAVES.format(said=str(cluster.folder / "said")), worker=2)
    if job is None:
        return
    with pytest.raises(ConnectionResetError, match="rank 0 has lost another") as caught:
        job.result(180)
    status = job.status()
    assert status.failed_task == "worker-0"
    states = {task.task: task.state for task in status.tasks}
    assert states == {"worker-0": TaskState.FAILED, "worker-1": TaskState.SUCCEEDED}
    assert "the first to fail was worker-0 on " in str(caught.value)


SERVES = """
import time
from submarine_runtime import job
while job.role == "ps":
    time.sleep(0.1)
job.rank
"""


def test_who_serves_ends_with_the_workers(cluster):
    job = begin(cluster, SERVES, worker=1, ps=1)
    if job is None:
        return
    assert job.result(180) == 0
    status = job.status()
    states = {task.task: task.state for task in status.tasks}
    assert states == {"worker-0": TaskState.SUCCEEDED, "ps-0": TaskState.KILLED}


def test_variables_of_the_rendezvous_are_the_job_s_own(cluster):
    if not cluster.several:
        begin(cluster, "1", worker=2, env={"RANK": "0"})
        return
    with pytest.raises(UnsupportedError, match="MASTER_PORT, RANK: each task") as caught:
        begin(cluster, "1", worker=2, env={"RANK": "0", "MASTER_PORT": "1"})
    assert caught.value.where == "--env"


NAMED = """
import os
from submarine_runtime import rendezvous
sorted(name for name in rendezvous.VARIABLES if name in os.environ)
"""


@pytest.mark.parametrize(
    ("framework", "names"),
    [
        ("tensorflow", ["TF_CONFIG"]),
        ("jax", ["JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID"]),
        ("none", ["MASTER_ADDR"]),
    ],
)
def test_a_named_framework_gets_its_own_variables_alone(cluster, framework, names):
    if not cluster.several:
        return
    resources = Resources(gpus=0, memory=256, vcores=1)
    job = cluster.submit(
        NAMED,
        roles=(Role(count=2, resources=resources),),
        framework=framework,
        env={"MASTER_ADDR": "mine"} if framework == "none" else {},
    )
    assert job.result(180) == names


def test_another_framework_s_variables_are_refused(cluster):
    if not cluster.several:
        return
    resources = Resources(gpus=0, memory=256, vcores=1)
    with pytest.raises(UnsupportedError, match="MASTER_ADDR: read by pytorch, and --framework jax"):
        cluster.submit(
            "1",
            roles=(Role(count=2, resources=resources),),
            framework="jax",
            env={"MASTER_ADDR": "mine"},
        )


def test_alone_a_task_is_the_first_of_one(cluster):
    script = """
        from submarine_runtime import job
        import os
        assert not {"RANK", "WORLD_SIZE"} & {*os.environ}
        job.rank, job.world_size, job.role, job.index, len(job.hosts), job.attempt, job.is_chief
    """
    job = cluster.submit("\n".join(line.strip() for line in script.splitlines()))
    assert job.result(180) == (0, 1, "worker", 0, 1, 1, True)
    assert sum(isinstance(event, Started) for event in cluster.follow(job).events) == 1


SHOW = """
import os, time
print(os.environ["CUDA_VISIBLE_DEVICES"])
if os.environ["SUBMARINE_TASK"] == "ps-0":
    open({served!r}, "w").close()
while not os.path.exists({served!r}):  # with the last worker it would be ended
    time.sleep(0.02)
"""


def test_each_task_sees_its_own_gpus_alone(cluster):
    if not cluster.several:
        return
    one, none = (Resources(gpus=gpus, memory=256, vcores=1) for gpus in (1, 0))
    served = cluster.folder / "served"
    job = cluster.submit(
        SHOW.format(served=str(served)),
        roles=(Role(count=2, resources=one), Role(name="ps", resources=none)),
    )
    seen = [printed(cluster, job, task).split(",") for task in ("worker-0", "worker-1", "ps-0")]
    assert [len(gpus) for gpus in seen] == [1, 1, 1]
    assert seen[0] != ["\n"] != seen[1]
    assert seen[2] == ["\n"]
    assert [len(task.gpus) for task in job.status().tasks] == [1, 1, 0]


def test_several_tasks_get_all_of_their_gpus_or_none(cluster):
    if not cluster.several:
        return
    holder, gate = cluster.hold(cluster.total() - 1)
    cluster.until_running(holder)
    resources = Resources(gpus=1, memory=256, vcores=1)
    job = cluster.submit("1", roles=(Role(count=2, resources=resources),))
    until(lambda: job.status().waiting_reason)
    assert cluster.holders() == {holder.id: cluster.total() - 1}
    gate.touch()
    job.wait(180)
    assert job.status().state is JobState.SUCCEEDED, job.status().reason
    until(lambda: cluster.holders() == {})
