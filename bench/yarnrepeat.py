"""What the second run of an unchanged packed environment still writes to HDFS."""

from __future__ import annotations

import json
import time
from pathlib import Path

from submarine_engine import Cell, Job, JobSpec, JobState, Resources, Role
from submarine_engine.bundle import build
from submarine_engine.clusters import open_cluster
from submarine_engine.clusters.yarn.hadoop import load_hadoop
from submarine_engine.clusters.yarn.hdfs import name_nodes
from submarine_engine.clusters.yarn.rest import new_session

from bench.table import Figure
from bench.yarnlogs import on_yarn

ROUNDS = 3
QUIET = 12.0  # DataNodes tell what they have written every ten seconds
_INFO = "Hadoop:service=NameNode,name=NameNodeInfo"
_ACTIVITY = "Hadoop:service=DataNode,name=DataNodeActivity-*"


def written() -> float:
    """Return the megabytes that all DataNodes have written so far, as they count them (JMX)."""
    conf = load_hadoop()
    with new_session(conf) as session:

        def beans(address: str, query: str) -> list[dict[str, object]]:
            found: list[dict[str, object]] = session.get(
                f"{address}/jmx", params={"qry": query}
            ).json()["beans"]
            return found

        (info,) = beans(name_nodes(conf)[0].url, _INFO)
        nodes = json.loads(str(info["LiveNodes"])).values()
        each = [beans(f"http://{node['infoAddr']}", _ACTIVITY) for node in nodes]
    return sum(int(str(bean["BytesWritten"])) for found in each for bean in found) / 1e6


def job() -> float:
    """Run a job of a notebook in its own environment; return the megabytes written meanwhile."""
    before = written()
    cluster = open_cluster("yarn")
    bundle = build(Cell(number=1, source="print('line')"), [], {})
    roles = (Role(resources=Resources(gpus=1, memory=512)),)
    spec = JobSpec(
        name="bench",
        roles=roles,
        notebook="bench.ipynb",
        options={"mode": "warm", "environment": "pack"},
    )
    one = Job(cluster, cluster.submit(spec, bundle, workdir=Path.cwd()))
    status = one.wait()
    assert status.state is JobState.SUCCEEDED, status.reason
    time.sleep(QUIET)  # its results are copied when it is over
    return written() - before


def repeat(folder: Path) -> Figure:
    """Measure what the first job in a packed environment writes to HDFS, and the next ones."""
    with on_yarn(folder):
        first = job()
        again = [job() for _ in range(ROUNDS)]
    return Figure(
        what="YARN: written to HDFS by a repeated run",
        target="< 0.1 MB",
        unit="MB",
        ours=again,
        peers={"the first run": [first] * ROUNDS},
    )
