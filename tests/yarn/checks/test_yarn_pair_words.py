"""A pair of ResourceManagers: who is asked, and what is said where none is the active one."""

from __future__ import annotations

import json
import socket
import threading
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from submarine_engine.clusters.yarn.hadoop import HadoopConf
from submarine_engine.clusters.yarn.rest import ResourceManager
from submarine_engine.errors import ClusterError


class ResourceManagerDouble(ThreadingHTTPServer):
    """One of a pair: the active one knows a node, a standby sends to the address `to`."""

    daemon_threads = True

    def __init__(self, to=""):
        self.to = to
        self.asked = 0
        super().__init__(("127.0.0.1", 0), _Page)
        self.address = f"127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    def __exit__(self, *told):
        self.shutdown()
        super().__exit__(*told)


class _Page(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked += 1
        data = json.dumps({"nodes": {"node": [{"id": "one"}]}}).encode()
        self.send_response(307 if self.server.to else 200)
        if self.server.to:
            self.send_header("Location", f"http://{self.server.to}{self.path}")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        """Say nothing."""


@pytest.fixture
def nobody():
    """Give an address where nobody listens: bound, and so nobody else's meanwhile."""
    with closing(socket.socket()) as held:
        held.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{held.getsockname()[1]}"


def manager(first, second):
    own = "yarn.resourcemanager"
    values = {
        f"{own}.ha.enabled": "true",
        f"{own}.ha.rm-ids": "rm1,rm2",
        f"{own}.webapp.address.rm1": first,
        f"{own}.webapp.address.rm2": second,
    }
    return ResourceManager(HadoopConf(Path("/nowhere"), values, "0"))


def test_a_standby_is_passed_over_and_where_it_sends_nobody_goes():
    with (
        ResourceManagerDouble() as stranger,
        ResourceManagerDouble() as active,
        ResourceManagerDouble(stranger.address) as standby,
    ):
        rm = manager(standby.address, active.address)
        assert [node["id"] for node in rm.nodes()] == ["one"]
        rm.nodes()
        assert (standby.asked, active.asked, stranger.asked) == (1, 2, 0)


def test_of_two_none_of_which_is_active_it_is_said_how_each_is(nobody):
    with ResourceManagerDouble(nobody) as one, ResourceManagerDouble(nobody) as other:
        with pytest.raises(ClusterError) as both:
            manager(one.address, other.address).nodes()
        assert both.value.what == (
            f"no ResourceManager is active: http://{one.address}, http://{other.address} on standby"
        )
        assert "getAllServiceState" in both.value.fix
        with pytest.raises(ClusterError) as half:
            manager(nobody, one.address).nodes()
        assert half.value.what.endswith(
            f"http://{one.address} on standby; http://{nobody} does not answer"
        )
    with pytest.raises(ClusterError) as gone:
        manager(nobody, nobody).nodes()
    assert gone.value.what.endswith(f"http://{nobody} and http://{nobody} do not answer")
    assert "submarine doctor --cluster yarn" in gone.value.fix


class _Beginning(BaseHTTPRequestHandler):
    """A ResourceManager that recovers: its pages are there before it knows an application."""

    def do_GET(self):
        server = self.server
        if self.path.startswith("/ws/v1/cluster/info"):
            state, told = "ACTIVE" if server.active else "INITIALIZING", 200
            data = {"clusterInfo": {"haState": state}}
            server.known = server.known or (server.active and server.recovers)
        elif server.known:
            told, data = 200, {"app": {"id": "application_1_0001", "state": "RUNNING"}}
        else:
            words = "app with id: application_1_0001 not found"
            told, data = 404, {"RemoteException": {
                "exception": "NotFoundException", "message": words,
                "javaClassName": "org.apache.hadoop.yarn.webapp.NotFoundException",
            }}  # fmt: skip
        content = json.dumps(data).encode()
        self.send_response(told)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        """Say nothing."""


def test_one_that_recovers_has_forgotten_nothing():
    """Its web pages come up before it has read what ran: no job may be taken for lost by that."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Beginning) as server:
        server.active, server.known, server.recovers = False, False, True
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        rm = manager(f"127.0.0.1:{server.server_port}", f"127.0.0.1:{server.server_port}")
        with pytest.raises(ClusterError, match="not found"):
            rm.application("application_1_0001")
        server.active = True  # between the first question and the second
        assert rm.application("application_1_0001")["state"] == "RUNNING"
        server.known = server.recovers = False  # it was started without recovery
        told = rm.application("application_1_0001")
        assert (told["state"], "does not know it" in told["diagnostics"]) == ("FAILED", True)
        server.shutdown()
