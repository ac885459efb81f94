"""Logs of a job on YARN: how late a line is seen, and how long 100 MB take."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import ProxyHandler, build_opener

from submarine_engine import Cell, Job, JobSpec, Role
from submarine_engine.bundle import build
from submarine_engine.clusters import open_cluster
from submarine_engine.history import JobPaths, read_json
from submarine_engine.installer import HadoopCluster, Wanted
from submarine_engine.logs import Renderer, follow

from bench.peers import own_home
from bench.streams import Lateness, p95
from bench.table import Figure, in_turn

ROUNDS = 3
LINES_A_SECOND = 1_000
SECONDS = 6
MEGABYTES = 100
POLL = 0.05

TICK = f"""
import time

start = time.monotonic()
for number in range({LINES_A_SECOND * SECONDS}):
    while (due := start + number / {LINES_A_SECOND}) > time.monotonic():
        time.sleep(0.0002)
    print(time.monotonic())
"""

WRITE = f"""
import sys
import time

print(time.monotonic())
for _ in range({MEGABYTES} * 10_000 - 1):
    sys.stdout.write("x" * 99 + "\\n")
"""


@contextmanager
def on_yarn(folder: Path) -> Iterator[None]:
    """Let jobs go to YARN: to the cluster of ``HADOOP_CONF_DIR``, else to one of their own."""
    own = None
    before = dict(os.environ)
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            del os.environ[name]
    try:
        if "HADOOP_CONF_DIR" not in os.environ:
            own = HadoopCluster(folder, "bench")
            own.up(Wanted(gpus=4))
            os.environ.update(own.environment())
        os.environ["SUBMARINE_YARN_IDLE"] = "60"
        with own_home(folder / "home"):
            yield
    finally:
        if own is not None:
            own.down()
        os.environ.clear()
        os.environ.update(before)


def submit(source: str) -> Job:
    """Submit the source as a cell of a notebook would be, on its warm application."""
    cluster = open_cluster("yarn")
    bundle = build(Cell(number=1, source=source), [], {})
    spec = JobSpec(name="bench", roles=(Role(),), notebook="bench.ipynb", options={"mode": "warm"})
    return Job(cluster, cluster.submit(spec, bundle, workdir=Path.cwd()))


def container_of(job: Job) -> tuple[str, str]:
    """Return the id of the job's container and its node's web address, once it is placed."""
    paths = JobPaths(Path(os.environ["SUBMARINE_HOME"]), job.id)
    until = time.monotonic() + 120
    while time.monotonic() < until:
        noted = read_json(paths.root / "yarn.json") or {}
        for container, node, _ in noted.get("containers", {}).values():
            return container, node
        time.sleep(0.01)
    raise RuntimeError(f"job {job.id} has no container: {job.status().reason}")


def page(container: str, node: str) -> bytes:
    """Return what the node's page has of the whole log, Hadoop's own lines around it."""
    address = f"http://{node}/ws/v1/node/containers/{container}/logs/stdout"
    try:
        with build_opener(ProxyHandler({})).open(address) as answer:
            content: bytes = answer.read()
    except OSError:  # it is not there yet
        return b""
    return content


def command(container: str) -> bytes:
    """Return what Hadoop's own command has of the whole log, its own lines around it."""
    words = ["yarn", "logs", "-containerId", container, "-log_files", "stdout"]
    return subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout  # noqa: PLW1510 - not there yet


def lateness(read: object, pause: float) -> float:
    """Read a job's whole log again and again; return how late its lines are seen."""
    job = submit(f"{TICK}\ntime.sleep(600)\n")  # Hadoop's command wants a container that runs
    container, node = container_of(job)
    seen: list[float] = []
    until = time.monotonic() + 120
    while len(seen) < LINES_A_SECOND * SECONDS and time.monotonic() < until:
        content = page(container, node) if read is page else command(container)
        now = time.monotonic()
        lines = content.splitlines()
        written = [float(line) for line in lines if line.replace(b".", b"", 1).isdigit()]
        seen += [now - moment for moment in written[len(seen) :]]
        time.sleep(pause)
    job.cancel()
    job.wait()
    return p95(seen)


def lag(folder: Path) -> Figure:
    """Measure the lag of a follower, 95th percentile, at 1,000 lines a second."""

    def ours() -> float:
        renderer = Lateness()
        follow(submit(TICK), renderer)
        return p95(renderer.late)

    with on_yarn(folder):
        mine, pages, commands = in_turn(
            ROUNDS, ours, lambda: lateness(page, POLL), lambda: lateness(command, 0)
        )
    return Figure(
        what="YARN: lag p95 at 1,000 lines/s",
        target="≤ 0.3 s",
        unit="s",
        ours=mine,
        peers={f"whole page each {POLL} s": pages, "yarn logs": commands},
    )


class Arrival(Renderer):
    """Notes when the log's first line was written, and when the last was seen."""

    def __init__(self) -> None:
        super().__init__()
        self.written: float | None = None
        self.seen = 0.0

    def text(self, task: str, stream: str, text: str) -> None:  # noqa: ARG002 - as in the base
        """Take text of which the first line says when it was written."""
        if self.written is None:
            self.written = float(text.partition("\n")[0])
        self.seen = time.monotonic()


def hundred(folder: Path) -> Figure:
    """Measure from the first byte written to the last of 100 MB seen; peers read what is there."""
    last: list[tuple[str, str]] = []

    def ours() -> float:
        arrival = Arrival()
        job = submit(WRITE)
        follow(job, arrival)
        last[:] = [container_of(job)]
        assert arrival.written is not None
        return arrival.seen - arrival.written

    def theirs() -> float:
        start = time.monotonic()
        assert len(page(*last[0])) > MEGABYTES * 1_000_000
        return time.monotonic() - start

    with on_yarn(folder):
        mine, pages = in_turn(ROUNDS, ours, theirs)
    return Figure(
        what="YARN: 100 MB of log, written and seen",
        target="≤ 3 s",
        unit="s",
        ours=mine,
        peers={"the node's page, when all is written": pages},
    )
