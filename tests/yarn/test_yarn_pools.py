"""Maps, sweeps and remembered results on a real YARN cluster."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import pytest
from submarine_engine.sweeps.found import open_sweep
from submarine_engine.testing.contract import pools

from tests.hadoop import yarn_cluster
from tests.jobs import bundle_of, end_processes_of, follow, spec_of, until
from tests.sweeps.programs import run_program

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

PATIENCE = 180.0


@pytest.fixture
def home(on_yarn, tmp_path, monkeypatch):
    """Give a home of the test's own: its keeper keeps to what the test sets."""
    home = tmp_path / "home"
    monkeypatch.setenv("SUBMARINE_HOME", str(home))
    yield home
    shutil.rmtree(home, ignore_errors=True)
    end_processes_of(home, patience=3)


def run(folder, source):
    program = folder / "program.py"
    program.write_text(source)
    ran = subprocess.run(
        [sys.executable, str(program), "yarn"],
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE,
        check=False,
    )
    return ran.returncode, ran.stdout, ran.stderr


@pytest.mark.usefixtures("home")
def test_calls_and_what_comes_of_them_go_by_hdfs_where_nodes_cannot_be_reached(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("SUBMARINE_YARN_LOGS", "hdfs")
    code, out, err = run(tmp_path, pools.PROGRAM)
    assert code == 0, err
    pools.expect(json.loads(out.splitlines()[-1]))


@pytest.mark.usefixtures("home")
def test_where_nothing_is_seen_before_the_end_a_map_says_so_and_ends(tmp_path, monkeypatch):
    monkeypatch.setenv("SUBMARINE_YARN_LOGS", "after")
    code, _, err = run(tmp_path, pools.PROGRAM)
    assert code == 1
    assert "no worker can begin" in err
    assert "cannot be followed here: the setting `yarn_logs` says so" in err


HOLD = """
from submarine_runtime import job, report

flags = {flags!r}

def hold(x):
    open(f"{{flags}}/{{x}}.{{os.getpid()}}", "w").close()
    for step in job.steps(4000, {{}}):
        report(step, loss=x)
        if os.path.exists(f"{{flags}}/go"):
            break
        time.sleep(0.05)
    return {{"loss": x}}
"""


@pytest.mark.usefixtures("home")
def test_a_sweep_gives_way_to_a_job_of_somebody_else(tmp_path):
    flags = tmp_path / "flags"
    flags.mkdir()
    # Whose job it is the ResourceManager alone knows: it is of another home.
    other = yarn_cluster(tmp_path / "other")
    told, _ = run_program(
        tmp_path,
        """
        found = search(hold, {"x": list(range(4))}, trials=4, sampler="grid", pruner="none",
                       gpus=1, memory=256, cluster="yarn", wait=False, name="held")
        print(json.dumps(found.job.id))
        """,
        HOLD.format(flags=str(flags)),
    )
    found = open_sweep(told)
    try:
        until(lambda: len(list(flags.iterdir())) == 4, PATIENCE)
        job_id = other.submit(spec_of(gpus=2, memory=256), bundle_of("7 * 6"), workdir=tmp_path)
        assert follow(other, job_id, patience=PATIENCE).state.value == "succeeded"
        assert not found.job.done()
        # They come back where they were as soon as that one has gone.
        until(lambda: len(list(flags.iterdir())) == 6, PATIENCE)
    finally:
        (flags / "go").touch()
        shutil.rmtree(tmp_path / "other", ignore_errors=True)
        end_processes_of(tmp_path / "other", patience=3)
    found.wait()
    assert [trial.state for trial in found.trials] == ["complete"] * 4


RANKS = """
import os, sys
from submarine_engine import map
from submarine_runtime import job

def call(n):
    return n, job.rank, job.world_size, bool(os.environ["MASTER_PORT"])

if __name__ == "__main__":
    print(list(map(call, range(6), gpus=1, memory=256, num_workers=2, cluster=sys.argv[1])))
"""


@pytest.mark.usefixtures("home")
def test_calls_of_several_ranks_are_run_by_containers_that_meet(tmp_path):
    code, out, err = run(tmp_path, RANKS)
    assert code == 0, err
    assert out.splitlines()[-1] == str([(n, 0, 2, True) for n in range(6)])


CACHED = """
import sys
from submarine_engine import launch, list_jobs

rate = float(sys.argv[2])

def train(n):
    print("training")
    import random
    return n * rate, random.random()

if __name__ == "__main__":
    found = launch(train, 4, gpus=0, cluster=sys.argv[1], cache=True)
    print(len(list_jobs()), found)
"""


@pytest.mark.usefixtures("home")
def test_a_remembered_result_needs_no_container(tmp_path):
    program = tmp_path / "cached.py"
    program.write_text(CACHED)

    def train(rate):
        command = [sys.executable, str(program), "yarn", rate]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
        assert ran.returncode == 0, ran.stderr
        jobs, _, value = ran.stdout.splitlines()[-1].partition(" ")
        return int(jobs), value

    first = train("0.5")
    assert first[0] == 1
    assert train("0.5") == first
    assert train("0.25")[0] == 2
    assert train("0.5") == (2, first[1])
