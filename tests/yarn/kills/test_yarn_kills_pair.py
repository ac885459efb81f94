"""Two ResourceManagers (high availability): the active one is killed, the other takes over."""

from __future__ import annotations

import shutil

import pytest
from submarine_engine.errors import ClusterError

from tests.hadoop import use
from tests.jobs import end_processes_of, until

from .ground import Ground
from .pair import Pair

pytestmark = pytest.mark.long


@pytest.fixture
def pair(home_of_its_own):
    pair = Pair(home_of_its_own)
    yield pair
    pair.cluster.down()


@pytest.fixture
def ground(pair, tmp_path, monkeypatch):
    use(pair.yarn, monkeypatch)
    home = tmp_path / "jobs-home"
    monkeypatch.setenv("SUBMARINE_HOME", str(home))
    ground = Ground(pair.yarn, home, tmp_path)
    yield ground
    ground.end()
    shutil.rmtree(home, ignore_errors=True)
    end_processes_of(home, patience=5)


def test_a_job_goes_on_while_the_pair_changes_over(pair, ground):
    job = ground.submit().until_running().until_further()
    [master] = ground.alive()
    pair.daemon("rm1").kill()
    with pytest.raises(ClusterError, match=r"no ResourceManager is active: http\S+ on standby; "):
        ground.rm.nodes()
    job.until_further()
    pair.activate("rm2")
    until(lambda: ground.alive() == [master] and ground.gpus_in_use() == 1)
    assert ground.rm.url == pair.webs["rm2"]
    job.until_further().follow_to_end()
    ground.until_free()
    # The warm master has found its way to the other one; and one on standby again is passed over.
    pair.start("rm1")
    ground.submit().until_running().follow_to_end()
    assert ground.alive() == [master]
    ground.submit(mode="cold").until_running().follow_to_end()
    ground.until_free()
