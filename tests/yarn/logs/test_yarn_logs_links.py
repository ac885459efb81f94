"""Addresses of pages: of what the configuration and YARN say, only what is a web address."""

from __future__ import annotations

from pathlib import Path

import pytest
from submarine_engine.clusters.yarn.hadoop import HadoopConf, links, web_address

APP = "application_1700000000000_0001"
CONF = {"yarn.resourcemanager.webapp.address": "rm.example:8088"}
REPORT = {
    "id": APP,
    "state": "RUNNING",
    "user": "ada",
    "trackingUrl": "http://rm.example:8088/proxy/",
}
CONTAINER = {
    "containerId": "container_1700000000000_0001_01_000002",
    "nodeHttpAddress": "http://node1.example:8042",
}
LOG = "http://node1.example:8042/node/containerlogs/container_1700000000000_0001_01_000002/ada"


def conf(**more):
    return HadoopConf(Path("/etc/hadoop"), {**CONF, **more}, "0")


def test_while_it_runs_the_log_is_the_containers_page():
    assert links(conf(), REPORT, CONTAINER) == {
        "log": LOG,
        "application": f"http://rm.example:8088/cluster/app/{APP}",
        "cluster": "http://rm.example:8088/cluster",
        "tracking": "http://rm.example:8088/proxy/",
    }


@pytest.mark.parametrize("state", ["FINISHED", "FAILED", "KILLED"])
def test_after_it_the_log_is_the_applications_page(state):
    found = links(conf(), {**REPORT, "state": state}, CONTAINER)
    assert found["log"] == found["application"]


def test_before_there_is_a_container_likewise():
    found = links(conf(), {**REPORT, "state": "ACCEPTED", "trackingUrl": "UNASSIGNED"})
    assert found["log"] == found["application"]
    assert "tracking" not in found


def test_an_address_without_scheme_is_completed_as_the_cluster_is_set():
    bare = {**CONTAINER, "nodeHttpAddress": "node1.example:8042"}
    assert links(conf(), REPORT, bare)["log"] == LOG
    secure = conf(**{"yarn.http.policy": "HTTPS_ONLY"})
    assert links(secure, REPORT, bare)["log"] == LOG.replace("http:", "https:")


@pytest.mark.parametrize(
    "hostile",
    [
        "javascript:alert(1)",
        "data:text/html,x",
        "file:///etc/passwd",
        "http://",
        "//elsewhere",
        "http://user:password@host/",
        "http://host:port/",
        "http://[::1",
        "http://host/\nSet-Cookie: a",
        "http://host/\x1b[0m",
        "http://host/ onclick=x",
        'http://host/"><script>',
        "http://host/\\..",
        "http://host/" + "x" * 5000,
        None,
        5,
        ["http://host/"],
    ],
)
def test_what_is_no_plain_web_address_is_left_out(hostile):
    assert web_address(hostile) is None
    found = links(
        conf(), {**REPORT, "trackingUrl": hostile}, {**CONTAINER, "nodeHttpAddress": hostile}
    )
    assert "tracking" not in found
    assert found["log"] == found["application"]


def test_hostile_names_stay_part_of_the_path():
    found = links(conf(), {**REPORT, "user": "../../x?a=#b", "id": "../<b>"}, CONTAINER)
    assert found["log"].endswith("/..%2F..%2Fx%3Fa%3D%23b")
    assert found["application"].endswith("/cluster/app/..%2F%3Cb%3E")


def test_an_address_is_kept_as_it_is():
    for address in ("http://a", "https://[::1]:8443/x?y=1&z=%20#top", "HTTP://A/"):
        assert web_address(address) == address
