"""What frameworks are told of the tasks of their job, and when."""

from __future__ import annotations

import os
import socket
import sys
import types
from contextlib import ExitStack
from typing import ClassVar

import pytest
from submarine_runtime import exchange, jax_cluster, job, rendezvous, xgboost_tracker
from submarine_runtime.rendezvous import AUTO, FRAMEWORKS, HOSTS, NONE, READS, VARIABLES

from tests.runtime.conftest import wait_for

TASKS = {
    "worker-0": {"role": "worker", "index": 0, "rank": 0, "host": "a", "ports": [1, 2, 3, 4]},
    "worker-1": {"role": "worker", "index": 1, "rank": 1, "host": "b", "ports": [5, 6, 7, 8]},
    "ps-0": {"role": "ps", "index": 0, "rank": None, "host": "a", "ports": [9, 10, 11, 12]},
}


@pytest.fixture
def clean(monkeypatch):
    """Take the variables of this test away again."""
    for name in VARIABLES:
        monkeypatch.setenv(name, "of the user's shell")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")


def found():
    return {name: os.environ[name] for name in VARIABLES if name in os.environ}


@pytest.mark.usefixtures("clean")
@pytest.mark.parametrize("framework", sorted(READS))
def test_a_named_one_has_its_own_variables_and_no_other(tmp_path, framework):
    rendezvous.enter(str(tmp_path), TASKS, "worker-1", framework)
    assert set(found()) == set(READS[framework])
    assert "of the user's shell" not in found().values()


@pytest.mark.usefixtures("clean")
def test_all_get_all_of_them_without_conflict(tmp_path):
    rendezvous.enter(str(tmp_path), TASKS, "worker-1", AUTO)
    told = found()
    assert set(told) == set(VARIABLES)
    names = ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "PET_NNODES", "PET_NODE_RANK")
    assert [told[name] for name in names] == ["a", "1", "1", "2", "2", "1"]
    assert told["PET_NPROC_PER_NODE"] == "2"  # a process for each GPU is torchrun's own way
    assert {told[name] for name in READS["mpi"]} == {str(tmp_path / HOSTS)}
    assert (tmp_path / HOSTS).read_text() == "a\nb\n"
    assert (tmp_path / HOSTS).stat().st_mode & 0o777 == 0o600


@pytest.mark.usefixtures("clean")
def test_a_server_is_no_rank_whatever_the_shell_says(tmp_path):
    rendezvous.enter(str(tmp_path), TASKS, "ps-0", AUTO)
    assert "RANK" not in found()
    assert "of the user's shell" not in found().values()


@pytest.mark.usefixtures("clean")
def test_none_leaves_all_as_it_is(tmp_path):
    rendezvous.enter(str(tmp_path), TASKS, "worker-1", NONE)
    assert set(found().values()) == {"of the user's shell"}
    assert not (tmp_path / HOSTS).exists()


def test_each_variable_is_one_framework_s():
    assert len(set(VARIABLES)) == len(VARIABLES)
    assert FRAMEWORKS[0] == AUTO
    assert FRAMEWORKS[-1] == NONE


def cluster_of_jax():
    """Return a module as JAX has it, which knows Slurm already."""
    module = types.ModuleType("jax._src.clusters.cluster")

    class ClusterEnv:
        _cluster_types: ClassVar[list] = []

        def __init_subclass__(cls):
            cls._cluster_types.append(cls)

    class SlurmCluster(ClusterEnv):
        pass

    module.ClusterEnv, module.SlurmCluster = ClusterEnv, SlurmCluster
    return module


def test_jax_asks_us_before_slurm(tmp_path, monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    module = cluster_of_jax()
    monkeypatch.setitem(sys.modules, module.__name__, module)
    jax_cluster.join()
    ours, *others = module.ClusterEnv._cluster_types
    assert others == [module.SlurmCluster]
    assert not ours.is_env_present()
    for name in VARIABLES:
        monkeypatch.setenv(name, "")
    rendezvous.enter(str(tmp_path), TASKS, "worker-1", "jax")
    assert ours.is_env_present()
    address = ours.get_coordinator_address(timeout_secs=1, override_coordinator_port=None)
    assert (address, ours.get_process_count(), ours.get_process_id()) == ("a:3", 2, 1)


def test_a_jax_of_another_kind_is_left_alone(monkeypatch):
    module = types.ModuleType("jax._src.clusters.cluster")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    jax_cluster.join()
    assert not hasattr(module, "ClusterEnv")


class Tracker:
    """A tracker as XGBoost has it, but that nobody trains with it."""

    made: ClassVar[list] = []

    def __init__(self, **told):
        self.told = told
        self.made.append(self)
        self.waited = 0

    def start(self):
        pass

    def worker_args(self):
        return {"dmlc_tracker_uri": "0.0.0.0", "dmlc_tracker_port": 7000 + len(self.made)}  # noqa: S104

    def wait_for(self):
        self.waited += 1


@pytest.fixture
def tracker(monkeypatch):
    module = types.ModuleType("xgboost.tracker")
    module.RabitTracker = Tracker
    monkeypatch.setitem(sys.modules, "xgboost.tracker", module)
    monkeypatch.setattr(Tracker, "made", [])
    monkeypatch.setattr(xgboost_tracker, "_own", [])
    return Tracker


@pytest.fixture
def port():
    with socket.socket() as one:
        one.bind(("", 0))
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        yield one.getsockname()[1]


def test_each_training_has_a_tracker_that_every_worker_finds(tracker, port, monkeypatch):
    for number in range(2):
        monkeypatch.setattr(xgboost_tracker, "_begun", number)
        first = xgboost_tracker.arguments(0, 2, "127.0.0.1", port)
        assert (first["dmlc_tracker_port"], first["dmlc_task_id"]) == (7001 + number, "000000")
        monkeypatch.setattr(xgboost_tracker, "_begun", number)
        second = xgboost_tracker.arguments(1, 2, "127.0.0.1", port)
        assert second == {**first, "dmlc_task_id": "000001"}
    assert [one.waited for one in tracker.made] == [1, 0]  # the last is in use
    assert tracker.made[0].told["n_workers"] == 2


@pytest.mark.usefixtures("tracker")
def test_outside_a_job_there_is_a_training_of_one():
    for number in range(2):
        told = job.xgboost()
        assert (told["dmlc_tracker_uri"], told["dmlc_tracker_port"]) == ("127.0.0.1", 7001 + number)
    assert Tracker.made[0].told["n_workers"] == 1


def test_who_asks_for_a_training_that_has_not_begun_waits_and_names_rank_0(
    tracker, port, monkeypatch
):
    monkeypatch.setattr(xgboost_tracker, "PATIENCE", 0.3)
    monkeypatch.setenv("SUBMARINE_TASK", "worker-1")
    me = f"worker-1 on {os.uname().nodename}: rank 0 at 127.0.0.1:{port} has not answered within"
    with pytest.raises(RuntimeError, match=f"{me} 0.3 s: it has not called job.xgboost"):
        xgboost_tracker.arguments(1, 2, "127.0.0.1", port)
    monkeypatch.setattr(xgboost_tracker, "_begun", 0)
    xgboost_tracker.arguments(0, 2, "127.0.0.1", port)
    with pytest.raises(RuntimeError, match=f"{me} 0.3 s: it has begun no such training"):
        xgboost_tracker.arguments(1, 2, "127.0.0.1", port)
    assert len(tracker.made) == 1


@pytest.mark.parametrize(("host", "listens"), [("127.0.0.1", "127.0.0.1"), ("node-7", "0.0.0.0")])  # noqa: S104
def test_tasks_of_one_machine_are_not_listened_for_elsewhere(
    tracker, port, monkeypatch, host, listens
):
    made = []
    real = socket.create_server

    def create_server(address, **more):
        made.append(address[0])
        return real(address, **more)

    monkeypatch.setattr(socket, "create_server", create_server)
    xgboost_tracker.arguments(0, 2, host, port)
    assert (made, tracker.made[0].told["host_ip"]) == ([listens], listens)


@pytest.mark.usefixtures("tracker")
def test_strangers_who_say_nothing_keep_no_worker_waiting(port, monkeypatch):
    monkeypatch.setattr(xgboost_tracker, "_begun", 0)
    monkeypatch.setattr(xgboost_tracker, "_LONGEST_CALL", 60.0)
    told = xgboost_tracker.arguments(0, 2, "127.0.0.1", port)
    with ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(socket.create_connection(("127.0.0.1", port)))
        with socket.create_connection(("127.0.0.1", port), timeout=180) as worker:
            worker.sendall(b"0")
            assert worker.recv(20) == b"%d" % told["dmlc_tracker_port"]


def test_a_firewall_is_thought_of(monkeypatch):
    def dropped(*_told, **_more):
        raise TimeoutError("timed out")

    monkeypatch.setattr(socket, "create_connection", dropped)
    monkeypatch.setattr(xgboost_tracker, "PATIENCE", 0.0)
    with pytest.raises(RuntimeError, match="timed out: is there a firewall between the two"):
        xgboost_tracker.arguments(1, 2, "elsewhere", 1)


@pytest.mark.usefixtures("tracker")
def test_a_port_that_somebody_took_is_named_with_task_and_host(monkeypatch):
    monkeypatch.setenv("SUBMARINE_TASK", "worker-0")
    with socket.create_server(("", 0)) as other:
        port = other.getsockname()[1]
        words = f"worker-0 on {os.uname().nodename}: .* at port {port}: Address already in use"
        with pytest.raises(RuntimeError, match=words):
            xgboost_tracker.arguments(0, 2, "127.0.0.1", port)


def test_the_ports_stay_the_task_s_while_it_runs(task):
    code = """
        import os, socket
        port = int(os.environ["MASTER_PORT"])
        try:
            socket.socket().bind(("", port))  # somebody who does not mean it
        except OSError as error:
            print(error.strerror)
        socket.create_server(("", port)).close()
        socket.create_server(("", port)).close()
    """
    from submarine_engine.clusters.exchange import answer, read_hello
    from submarine_engine.job import JobSpec, Role

    task.start(code, peers=2)
    hello = wait_for(
        lambda: (
            (task.folder / exchange.HELLO).exists() and (task.folder / exchange.HELLO).read_bytes()
        )
    )
    mine = read_hello(hello, "20250101-000000-abcde", "worker-0")
    data = answer(JobSpec(roles=(Role(count=2),)), {"worker-0": mine, "worker-1": mine})
    (task.folder / ".answer").write_bytes(data)
    (task.folder / ".answer").rename(task.folder / exchange.ANSWER)
    assert task.wait() == 0, task.stderr
    assert task.stdout == "Address already in use\n"
