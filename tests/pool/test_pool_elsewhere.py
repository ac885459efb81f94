"""A pool whose workers are elsewhere, on the tests' own backend: what is killed costs no call."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections import Counter

import pytest
from submarine_engine import Job
from submarine_engine.clusters import open_cluster
from submarine_engine.records import iter_jobs, record_of
from submarine_engine.testing.place import HOLD

from tests.contract.conftest import use_backend
from tests.jobs import bundle_of, end_processes_of, processes_of, spec_of, until
from tests.pool.programs import Program

pytestmark = pytest.mark.service

PROGRAM = """
    import json, os, sys, time

    from submarine_engine import map

    def slow(n):
        with open(os.environ["SIDE"], "a") as file:
            file.write(f"{n} {os.getppid()}\\n")
        for first, gate in (14, "keeper"), (30, "worker"):  # some are left whenever one is killed
            while n >= first and not os.path.exists(f"{os.environ['SIDE']}-{gate}"):
                time.sleep(0.01)
        time.sleep(0.1)
        return n

    if __name__ == "__main__":
"""


@pytest.fixture
def home(tmp_path, monkeypatch):
    use_backend(monkeypatch, tmp_path / "site", "hosts = submarine_hosts:HostsBackend")
    home = tmp_path / "home"
    monkeypatch.setenv("SUBMARINE_HOME", str(home))
    yield home
    left = end_processes_of(home, 60)
    assert not left, f"left running: {left}"


def test_a_keeper_and_a_worker_that_are_killed_cost_no_call(home, tmp_path, monkeypatch):
    side = tmp_path / "side"
    side.touch()
    monkeypatch.setenv("SIDE", str(side))
    command = Program(tmp_path, PROGRAM).command("""
        found = map(slow, range(40), cluster="hosts", gpus=0, max_workers=2,
                    env={"SIDE": os.environ["SIDE"]})
        print(json.dumps(list(found)))
    """)

    def begun():
        return [tuple(map(int, line.split())) for line in side.read_text().splitlines()]

    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        until(lambda: len({worker for _, worker in begun()}) == 2, 120)
        until(lambda: len(begun()) > 10, 120)
        [keeper] = [pid for pid, told in processes_of(home).items() if "clusters.keeper" in told]
        os.kill(keeper, signal.SIGKILL)
        count = len(begun())
        (tmp_path / "side-keeper").touch()
        until(lambda: len(begun()) > count + 8, 120)
        os.kill(begun()[-1][1], signal.SIGKILL)
        # Who takes its place is there before the last calls: else the pool withdraws it.
        until(lambda: len({worker for _, worker in begun()}) == 3, 120)
        (tmp_path / "side-worker").touch()
        out, _ = program.communicate(timeout=200)
    assert json.loads(out) == list(range(40))
    (controller,) = iter_jobs(home)
    assert (controller.cluster, controller.runs_on) == ("local", "hosts")
    assert record_of(controller.id)["spec"]["workers_on"] == "hosts"
    tries = Counter(n for n, _ in begun())
    # The one that ran in the worker which was killed ran again, and no other did.
    assert sorted(tries) == list(range(40))
    assert max(tries.values()) <= 2
    assert sum(count == 2 for count in tries.values()) <= 1

    def states():
        return Counter(job.state.value for job in iter_jobs(home, children=True) if job.parent)

    until(lambda: set(states()) == {"failed", "succeeded"})  # a summary comes after its event
    assert states()["failed"] == 1


@pytest.mark.usefixtures("home")
def test_a_worker_that_still_waits_is_withdrawn_once_its_pool_is_over(tmp_path, monkeypatch):
    monkeypatch.setenv("HOSTS_LEASE", "0")
    cluster = open_cluster("hosts")

    def submit(script, **options):
        spec = spec_of(notebook=None, **options)
        return Job(cluster, cluster.submit(spec, bundle_of(script), workdir=tmp_path))

    gate, over = tmp_path / "gate", submit("1", gpus=0)
    holds = submit(HOLD.format(str(gate)), gpus=4)
    assert over.wait(120).state.value == "succeeded"
    until(lambda: holds.status().state.value == "running", 120)
    kept, worker = (submit("2", gpus=1, parent=job.id) for job in (holds, over))
    ended = worker.wait(120)
    assert (ended.state.value, ended.reason) == (
        "cancelled",
        "the job that it works for is over",
    )
    assert kept.status().state.value == "queued"
    gate.touch()
    assert kept.wait(120).state.value in ("succeeded", "cancelled")  # its own is over just then
