"""Many jobs on one warm master: what they leave behind at keeper, driver and ResourceManager."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import NamedTuple

from submarine_engine import Cell, Job, JobSpec, JobState, Resources, Role
from submarine_engine.bundle import build
from submarine_engine.clusters import open_cluster
from submarine_engine.clusters.yarn.hadoop import load_hadoop
from submarine_engine.clusters.yarn.rest import ResourceManager

from bench.table import Figure
from bench.yarnlogs import on_yarn

IN_TURN = 200
AT_ONCE = 50
FIRST = 8
SETTLE = 30.0
PATIENCE = 900.0
ALIVE = "NEW,NEW_SAVING,SUBMITTED,ACCEPTED,RUNNING"


class Counts(NamedTuple):
    """What there is of each: at the ResourceManager, and of keeper and driver together."""

    applications: int
    containers: int
    threads: int
    files: int
    connections: int


def processes() -> list[int]:
    """Return the pids of this home's keeper and driver."""
    home = Path(os.environ["SUBMARINE_HOME"])
    found = [int(json.loads(p.read_text())["pid"]) for p in home.glob("yarn/*/skein/driver")]
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"submarine_engine.clusters.keeper" in words and str(home).encode() in words:
                found.append(int(entry.name))
    return found


def count(rm: ResourceManager) -> Counts:
    """Count all of it."""
    alive = [app["id"] for app in rm.applications(states=ALIVE)]
    here = [Path(f"/proc/{pid}") for pid in processes()]
    threads = sum(len(list((one / "task").iterdir())) for one in here)
    opened = [target(path) for one in here for path in (one / "fd").iterdir()]
    sockets = sum(path.startswith("socket:") for path in opened)
    containers = sum(len(rm.containers(app)) for app in alive)
    return Counts(len(alive), containers, threads, len(opened) - sockets, sockets)


def target(path: Path) -> str:
    """Return what a descriptor is open on; empty where it is closed meanwhile."""
    try:
        return str(path.readlink())
    except OSError:
        return ""


def settled(rm: ResourceManager) -> Counts:
    """Count when nothing has become less for some seconds."""
    least, since = count(rm), time.monotonic()
    until = since + SETTLE * 4
    while time.monotonic() < min(since + SETTLE / 3, until):
        time.sleep(0.5)
        now = count(rm)
        if any(new < old for new, old in zip(now, least, strict=True)):
            least, since = now, time.monotonic()
    return count(rm)


def run(number: int) -> float:
    """Run so many jobs at once; return the seconds that they took."""
    cluster = open_cluster("yarn")
    bundle = build(Cell(number=1, source="print('line')"), [], {})
    roles = (Role(resources=Resources(gpus=1, memory=256)),)
    spec = JobSpec(name="bench", roles=roles, notebook="bench.ipynb", options={"mode": "warm"})
    begun = time.monotonic()
    jobs = [Job(cluster, cluster.submit(spec, bundle, workdir=Path.cwd())) for _ in range(number)]
    for job in jobs:
        status = job.wait(PATIENCE)
        assert status.state is JobState.SUCCEEDED, status.reason
    return time.monotonic() - begun


def many(folder: Path) -> Figure:
    """Run 200 jobs one after another and 50 at once on one warm master, and count before and after.

    Eight at once come first: what is kept for the next ones is there then.
    """
    with on_yarn(folder):
        os.environ["SUBMARINE_YARN_IDLE"] = "900"
        rm = ResourceManager(load_hadoop())
        run(FIRST)
        before = settled(rm)
        each = [run(1) for _ in range(IN_TURN)]
        between = settled(rm)
        together = run(AT_ONCE)
        after = settled(rm)
    for title, counts in (("before", before), ("after 200", between), ("after 50 more", after)):
        words = ", ".join(f"{n} {what}" for what, n in counts._asdict().items())
        print(f"\n{title}: {words}", end="", file=sys.stderr)
    mean = sum(each) / len(each)
    print(f"\n{mean:.2f} s each in turn, {together:.1f} s at once … ", end="", file=sys.stderr)
    return Figure(
        what="YARN: held after 200 jobs in turn and 50 at once",
        target="≤ before",
        unit="in all",
        ours=[float(sum(after))],
        peers={"before": [float(sum(before))]},
    )
