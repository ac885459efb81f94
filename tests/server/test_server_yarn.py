"""Jobs on a real YARN through the API: the card, the log by line, cancel, GPUs and queues."""

from __future__ import annotations

from contextlib import closing

import pytest

from tests.hadoop import yarn_cluster
from tests.jobs import bundle_of, spec_of, until
from tests.server.conftest import Server

TALK = "import time\nprint('héllo from YARN', flush=True)\ntime.sleep(600)"


@pytest.fixture
def yarn_server(shared_home, tmp_path_factory):
    """A server for jobs on the cluster that `HADOOP_CONF_DIR` names."""
    server = Server(tmp_path_factory.mktemp("server"), shared_home)
    yield server
    server.stop()


def test_a_job_on_yarn_is_shown_read_and_cancelled(yarn_server, tmp_path):
    server, cluster = yarn_server, yarn_cluster()
    job_id = cluster.submit(spec_of(gpus=1, mode="cold"), bundle_of(TALK), workdir=tmp_path)
    log = f"/api/jobs/{job_id}/logs/worker-0/stdout"
    running, asked = None, False
    with closing(server.stream(f"/api/stream?jobs={job_id}")) as cards:
        for kind, card, _ in cards:
            assert (kind, card["cluster"]) == ("card", "yarn")
            # The first bytes of a log come home before the event that its task has started.
            has_begun = card["state"] == "running" and card["logs"][0]["size"]
            if has_begun and not asked:
                running, asked = card, True
                assert server.get(f"{log}/lines").json()["lines"] == ["héllo from YARN"]
                assert server.get(f"{log}/search?text=yarn").json()["lines"] == [0]
                told = server.get("/api/clusters/yarn/gpus").json()
                assert job_id in [gpu["job_id"] for gpu in told["gpus"]]
                assert server.post(f"/api/jobs/{job_id}/cancel").json()["asked"] is True
    assert (running["state"], running["running"]) == ("running", True)
    assert running["log_url"].startswith("http")
    assert "ResourceManager" in dict(running["links"])
    assert (card["state"], card["running"]) == ("cancelled", False)


@pytest.mark.long
def test_the_overview_tells_of_yarn(yarn_server):
    queues = yarn_server.get("/api/clusters/yarn/queues").json()["queues"]
    assert {"default", "small"} <= {queue["name"] for queue in queues}

    def told():
        found = yarn_server.get("/api/overview").json()["clusters"]
        return next(one for one in found if one["name"] == "yarn")

    found = until(lambda: (one := told())["total"] and one)  # one that answers late has no figures
    assert found["error"] == ""
    assert {"node", "queue"} == {share["kind"] for share in found["shares"]}
