"""Jobs on the nodes of a label, on a cluster that was given labels."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from submarine_engine.errors import SubmissionError

pytestmark = pytest.mark.long

LABEL = "fast"
SITE = {"yarn.node-labels.enabled": "true"}
QUEUES = {
    f"yarn.scheduler.capacity.{queue}.{name}": value
    for queue in ("root", "root.default")
    for name, value in {
        "accessible-node-labels": "*",
        f"accessible-node-labels.{LABEL}.capacity": "100",
        f"accessible-node-labels.{LABEL}.maximum-capacity": "100",
    }.items()
}


def rmadmin(*words):
    done = subprocess.run(["yarn", "rmadmin", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def with_more(path: Path, properties):
    """Write more properties into a site file; return what it was."""
    before = path.read_text()
    more = "".join(
        f"<property><name>{name}</name><value>{value}</value></property>\n"
        for name, value in properties.items()
    )
    path.write_text(before.replace("</configuration>", f"{more}</configuration>"))
    return before


def restart(ground):
    manager = ground.yarn.daemon("resourcemanager")
    manager.kill()
    manager.start()
    ground.yarn.wait_ready()


@pytest.fixture
def labelled(ground, tmp_path):
    """Give the web address of the one node that has the label."""
    conf = ground.yarn.conf
    store = {"yarn.node-labels.fs-store.root-dir": f"file://{tmp_path}/labels"}
    before = {
        "yarn-site.xml": with_more(conf / "yarn-site.xml", {**SITE, **store}),
        "capacity-scheduler.xml": with_more(conf / "capacity-scheduler.xml", QUEUES),
    }
    try:
        restart(ground)
        rmadmin("-addToClusterNodeLabels", f"{LABEL}(exclusive=true)")
        node = ground.rm.nodes()[0]
        rmadmin("-replaceLabelsOnNode", f"{node['id']}={LABEL}")
        yield node["nodeHTTPAddress"]
    finally:
        for name, text in before.items():
            (conf / name).write_text(text)
        restart(ground)


def test_a_job_goes_to_the_nodes_of_its_label(ground, labelled):
    for mode in ("warm", "cold"):
        jobs = [ground.submit(node_label=LABEL, mode=mode) for _ in range(2)]
        for job in jobs:
            job.until_running()
            ((_, address, _),) = job.noted["containers"].values()
            assert address == labelled
        for job in jobs:
            job.follow_to_end()
    with pytest.raises(SubmissionError, match="'slow'"):
        ground.submit(node_label="slow")
    ground.until_free()
