"""What is brought home of a container that is over, in an application that lives on."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest
from submarine_engine.clusters.container import Container
from submarine_engine.clusters.log_mirror import LogsGoneError
from submarine_engine.clusters.yarn import request
from submarine_engine.clusters.yarn.log_transport import NoSource
from submarine_engine.events import Moment
from submarine_engine.history import JobPaths

from tests.jobs import until

APPLICATION = "application_1700000000000_0001"
LIMIT = 60.0


@pytest.fixture
def over(node, source, tmp_path, monkeypatch):
    """Give the end of a container: a function that looks for its logs for as long as it takes."""
    monkeypatch.setattr(request, "_PATIENCE", float("inf"))
    monkeypatch.setattr(request, "_RECOVERY_INTERVAL", 0.001)
    task = Container(JobPaths(tmp_path, "20260101-000000-aaaaa"), "worker-0", 1)
    task.id, task.node = source.container, node.address
    task.see(source)
    running = {"state": "RUNNING", "logAggregationStatus": "RUNNING"}

    def application(_):
        recover.looks += 1
        return running

    def fetch(*_, **__):
        raise LogsGoneError("nobody has them")

    monkeypatch.setattr(request, "fetch_aggregated", fetch)
    nodes = [{"nodeHTTPAddress": node.address}]
    manager = SimpleNamespace(application=application, nodes=lambda: nodes)
    conf = SimpleNamespace(web_user=None, node_tls=None, folder=tmp_path)
    services = SimpleNamespace(rm=manager, conf=conf)

    def recover():
        looking = threading.Thread(
            target=request.recover_logs, args=(services, APPLICATION, task), daemon=True
        )
        looking.start()
        return looking

    recover.task, recover.report, recover.looks = task, running, 0
    return recover


@pytest.mark.parametrize("wrote", [(), ("prelaunch.out", "launch_container.sh")])
def test_logs_that_were_never_begun_are_not_waited_for(over, node, wrote):
    for name in wrote:
        node.write(name, b"by YARN itself\n")
    looking = over()
    looking.join(LIMIT)
    assert not looking.is_alive()


@pytest.mark.parametrize("why", ["it has begun", "its node is silent", "it is seen after the end"])
def test_others_are_waited_for(over, node, container, tmp_path, why):
    if why == "it has begun":
        over.task.started = Moment.now()
    elif why == "its node is silent":
        node.status = 500
    else:
        over.task.see(NoSource(container))
    looking = over()
    until(lambda: over.looks > 5 * request._NEVER)
    assert looking.is_alive()
    over.report["state"] = "KILLED"  # its application is over, and keeps no logs
    over.report["logAggregationStatus"] = "DISABLED"
    looking.join(LIMIT)
    assert not looking.is_alive()
