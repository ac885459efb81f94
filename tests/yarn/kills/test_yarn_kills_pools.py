"""A sweep whose workers are on YARN: one of them is killed, then a node; each trial comes once."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest
from submarine_engine.history import JobPaths, read_json
from submarine_engine.records import children_of
from submarine_engine.sweeps.found import open_sweep

from tests.jobs import until
from tests.sweeps.programs import run_program

from .ground import ALIVE, PATIENCE, kill

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

TRIALS = 5
BODY = """
from submarine_runtime import job, report

flags = {flags!r}

def hold(x):
    state = {{"steps": []}}
    open(f"{{flags}}/{{x}}.{{os.getppid()}}", "w").close()
    for step in job.steps(4000, state, every=1):
        state["steps"].append(step)
        report(step, loss=x)
        if os.path.exists(f"{{flags}}/go"):
            break
        time.sleep(0.05)
    assert state["steps"] == list(range(step + 1))
    return {{"loss": x}}
"""


def test_a_killed_worker_and_a_lost_node_cost_a_sweep_no_trial(ground, tmp_path):
    flags = tmp_path / "flags"
    flags.mkdir()

    def begun(number=1):
        """Return the workers of each trial's tries, where there are as many tries as that."""
        found = {}
        for path in flags.glob("*.*"):
            found.setdefault(path.stem, []).append(int(path.suffix[1:]))
        return {trial: pids for trial, pids in found.items() if len(pids) >= number}

    # With three GPUs of a node's four, each worker is on a node of its own.
    told, _ = run_program(
        tmp_path,
        f"""
        space = {{"x": list(range({TRIALS}))}}
        found = search(hold, space, trials={TRIALS}, sampler="grid", pruner="none", gpus=3,
                       memory=256, cluster="yarn", wait=False, name="held")
        print(json.dumps(found.job.id))
        """,
        BODY.format(flags=str(flags)),
    )
    found = open_sweep(told)
    try:
        until(lambda: len(begun()) == 3, PATIENCE)
        [application] = ground.rm.applications(
            states=",".join(ALIVE), applicationTags=f"submarine-parent:{told}"
        )
        victim = begun().popitem()[1][0]
        kill(victim)
        # Its trial is given to the worker that takes its place.
        until(lambda: len(begun(2)) == 1, PATIENCE)
        until(lambda: len({pid for pids in begun().values() for pid in pids}) == 4, PATIENCE)
        lost = lose_node(ground, told, application)
        log = JobPaths(ground.home, told).task("worker-0").stdout
        until(lambda: log.read_text().count("was lost with its worker") == 2, PATIENCE)
    finally:
        (flags / "go").touch()
    found.wait()
    assert len(begun(2)) == 2
    lost.start()
    ground.yarn.wait_ready()
    assert [trial.state for trial in found.trials] == ["complete"] * TRIALS
    assert sorted(trial.value for trial in found.trials) == list(range(TRIALS))
    assert found.job.status().state.value == "succeeded"
    # One application was all of it, and it ends with the sweep.
    until(lambda: application["id"] not in ground.alive(), PATIENCE)
    tagged = ground.rm.applications(applicationTags=f"submarine-parent:{told}")
    assert [one["id"] for one in tagged] == [application["id"]]


def lose_node(ground, parent, application):
    """Kill a node that has a worker and not the application's master, and what runs there."""
    master = ground.node_at(application["amHostHttpAddress"]).name
    for job_id in children_of(ground.home, parent):
        noted = read_json(ground.home / "jobs" / job_id / "yarn.json") or {}
        for name, address, *_ in noted.get("containers", {}).values():
            node = ground.node_at(address)
            if node.name != master and (pids := processes_in(name)):
                node.kill()
                for pid in pids:
                    with suppress(ProcessLookupError):  # its parent's end was its own
                        kill(pid)
                return node
    raise AssertionError("all workers are beside the master")


def processes_in(container):
    """Return the processes whose environment says that they are a container's."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):  # it is gone
            if f"CONTAINER_ID={container}".encode() in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
    return [pid for pid in found if pid != os.getpid()]
