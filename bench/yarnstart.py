"""From the request to the first line on YARN, and from the return to the free GPU, beside skein."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import skein
from submarine_engine import Cell, Job, JobSpec, Resources, Role
from submarine_engine.bundle import build
from submarine_engine.clusters import open_cluster
from submarine_engine.clusters.yarn.application import heartbeat_jar
from submarine_engine.clusters.yarn.driver import KeeperFolder, read_masters
from submarine_engine.clusters.yarn.gpus import gpus_of
from submarine_engine.clusters.yarn.hadoop import load_hadoop
from submarine_engine.clusters.yarn.rest import ResourceManager
from submarine_engine.installer import HadoopCluster, Wanted
from submarine_engine.logs import Renderer, follow

from bench.peers import own_home
from bench.table import Figure, in_turn
from bench.yarnlogs import on_yarn

ROUNDS = 5
WARM_ROUNDS = 40
PATIENCE = 120.0
LINE = "import time, sys; open(sys.argv[1], 'w').write(str(time.monotonic()))"
"""What a peer's container runs: the first line of a job, as a moment."""


class FirstText(Renderer):
    """Notes when the first text was seen."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = 0.0

    def text(self, task: str, stream: str, text: str) -> None:  # noqa: ARG002 - as in the base
        """Take text."""
        self.seen = self.seen or time.monotonic()


def ours(mode: str) -> float:
    """Submit one line as a notebook's cell; return the seconds until a follower has seen it."""
    cluster = open_cluster("yarn")
    bundle = build(Cell(number=1, source="print(1)"), [], {})
    roles = (Role(resources=Resources(gpus=1, memory=512)),)
    spec = JobSpec(name="bench", roles=roles, notebook="bench.ipynb", options={"mode": mode})
    begun = time.monotonic()
    job = Job(cluster, cluster.submit(spec, bundle, workdir=Path.cwd()))
    renderer = FirstText()
    follow(job, renderer)
    return renderer.seen - begun


def written(path: Path) -> float:
    """Wait for the moment that a peer's container writes to `path`; return it."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        if path.exists() and (text := path.read_text()):
            path.unlink()
            return float(text)
        time.sleep(0.005)
    raise RuntimeError(f"nothing was written to {path}")


def until_free(rm: ResourceManager, app_id: str) -> None:
    """Wait until the ResourceManager counts no GPU of an application."""
    while any(map(gpus_of, rm.containers(app_id))):
        time.sleep(0.005)


def service(path: Path, instances: int) -> skein.Service:
    """Return a GPU container that writes its first line to `path`."""
    script = f'exec {sys.executable} -c "{LINE}" {path}'
    asked = skein.Resources(memory="512 MiB", vcores=1, gpus=1)
    return skein.Service(instances=instances, resources=asked, script=script, allow_failures=True)


@contextmanager
def bare_master(client: skein.Client, path: Path, home: Path) -> Iterator[Any]:
    """Keep an application as warm as ours, without anything else of ours."""
    folder = KeeperFolder(home, load_hadoop())
    folder.make()
    master = skein.Master(
        resources=skein.Resources(memory="256 MiB", vcores=1),
        files={"quick.jar": skein.File(str(heartbeat_jar(folder)), type="file")},
        script="exec sleep 2147483647",
    )
    spec = skein.ApplicationSpec(name="bare", master=master, services={"w": service(path, 0)})
    app = client.submit_and_connect(spec)
    try:
        yield app
    finally:
        app.shutdown()


def by_client(client: skein.Client, path: Path) -> float:
    """Submit by skein's Python client, its driver up already."""
    spec = skein.ApplicationSpec(name="client", services={"w": service(path, 1)})
    begun = time.monotonic()
    client.submit(spec)
    return written(path) - begun


def by_command(spec: Path, path: Path) -> float:
    """Submit by skein's command, which starts a driver of its own."""
    begun = time.monotonic()
    words = [sys.executable, "-m", "skein.cli", "application", "submit", str(spec)]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return written(path) - begun


def warm(folder: Path) -> Figure:
    """Measure a warm notebook's job beside a bare warm container.

    Ours ends when a follower has seen the line, the container's when it has written it: nobody
    shows it to anybody. Requests fall anywhere between two heartbeats (200 ms) of the masters.
    """
    path = folder / "first"
    chance = random.Random(1)  # noqa: S311 - no secret

    def mine() -> float:
        time.sleep(chance.uniform(0, 0.4))
        return ours("warm")

    def bare() -> float:
        time.sleep(chance.uniform(0, 0.4))
        begun = time.monotonic()
        app.add_container("w")
        took = written(path) - begun
        until_free(rm, app.id)  # or its end would take of the next job's time
        return took

    with (
        on_yarn(folder),
        skein.Client(log=False) as client,
        bare_master(client, path, folder / "bare") as app,
    ):
        rm = ResourceManager(load_hadoop())
        shown, container = in_turn(WARM_ROUNDS, mine, bare)
    return Figure(
        what="YARN: request → first line, warm",
        target="≤ 1.2 of bare",
        unit="s",
        ours=shown,
        peers={"bare warm container": container},
    )


EACH = """
import sys
from bench.yarnstart import ours
for _ in sys.stdin:
    print(ours("warm"), flush=True)
"""


@contextmanager
def jobs_of(folder: Path, *, secure: bool) -> Iterator[Callable[[], float]]:
    """Give what measures a warm job on a cluster of its own, by a process that has its ticket."""
    own = HadoopCluster(folder, "secure" if secure else "plain")
    own.up(Wanted(gpus=4, secure=secure))
    try:
        with own_home(folder / f"home-{own.name}"):
            direct = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")}
            environment = {**direct, **own.environment(direct), "SUBMARINE_YARN_IDLE": "60"}
            words = [sys.executable, "-c", EACH]
            with subprocess.Popen(
                words, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            ) as asked:

                def measure() -> float:
                    assert asked.stdin is not None
                    assert asked.stdout is not None
                    asked.stdin.write("one\n")
                    asked.stdin.flush()
                    return float(asked.stdout.readline())

                yield measure
                asked.terminate()
    finally:
        own.down()


def secure(folder: Path) -> Figure:
    """Measure a warm notebook's job where Hadoop asks for Kerberos beside one where it does not."""
    with jobs_of(folder, secure=True) as mine, jobs_of(folder, secure=False) as plain:
        shown, beside = in_turn(WARM_ROUNDS, mine, plain)
    return Figure(
        what="secure YARN: request → first line, warm",
        target="≤ 1.3 of plain",
        unit="s",
        ours=shown,
        peers={"the same without Kerberos": beside},
    )


FIRST = """
import sys, time
from bench.yarnstart import first_job
first_job(ahead=sys.argv[1] == "ahead")
"""


def first_job(*, ahead: bool) -> None:
    """Print the seconds to the first line of this process's first job on YARN.

    With `ahead` its master is there already, as after a minute of reading the notebook.
    """
    if ahead:
        cluster = open_cluster("yarn")
        cluster.get_ready("bench.ipynb")
        folder = cluster.backend.folder()
        while not any(master.get("probe") for master in read_masters(folder)):
            time.sleep(0.05)
    print(ours("warm"))


def first(folder: Path) -> Figure:
    """Measure a session's first job whose master was started ahead beside one that waits for it.

    Each is a process with a home of its own: neither finds a keeper or skein's driver.
    """
    homes = count()

    def run(how: str) -> float:
        environment = {**os.environ, "SUBMARINE_HOME": str(folder / f"first-{next(homes)}")}
        words = [sys.executable, "-c", FIRST, how]
        done = subprocess.run(words, env=environment, check=True, capture_output=True, text=True)
        return float(done.stdout)

    with on_yarn(folder):
        mine, theirs = in_turn(ROUNDS, lambda: run("ahead"), lambda: run("not"))
    return Figure(
        what="YARN: request → first line, first job of a session",
        target="≤ 2 s",
        unit="s",
        ours=mine,
        peers={"without a start ahead": theirs},
    )


def command(folder: Path) -> Figure:
    """Measure a warm notebook's job beside skein's command, which starts a JVM and uploads."""
    path = folder / "first"
    file = folder / "application.yaml"
    with on_yarn(folder):
        spec = skein.ApplicationSpec(name="command", services={"w": service(path, 1)})
        file.write_text(spec.to_yaml())
        mine, theirs = in_turn(ROUNDS, lambda: ours("warm"), lambda: by_command(file, path))
    return Figure(
        what="YARN: request → first line, warm",
        target="≤ 0.15 of command",
        unit="s",
        ours=mine,
        peers={"skein application submit": theirs},
    )


def cold(folder: Path) -> Figure:
    """Measure a job of its own application beside skein's Python client."""
    path = folder / "first"
    with on_yarn(folder), skein.Client(log=False) as client:
        mine, theirs = in_turn(ROUNDS, lambda: ours("cold"), lambda: by_client(client, path))
    return Figure(
        what="YARN: request → first line, cold",
        target="≤ 1.0 of client",
        unit="s",
        ours=mine,
        peers={"skein's Python client": theirs},
    )


def release(folder: Path) -> Figure:
    """Measure from the return to the ResourceManager's count, beside a bare container's end."""
    path = folder / "first"

    def mine() -> float:
        cluster = open_cluster("yarn")
        bundle = build(Cell(number=1, source="print(1)"), [], {})
        roles = (Role(resources=Resources(gpus=1, memory=512)),)
        spec = JobSpec(name="bench", roles=roles, notebook="bench.ipynb", options={"mode": "warm"})
        job = Job(cluster, cluster.submit(spec, bundle, workdir=Path.cwd()))
        job.wait()
        found = job.status().ledger.released_after
        assert found is not None
        return found

    def bare() -> float:
        app.add_container("w")
        ended = written(path)
        until_free(rm, app.id)
        return time.monotonic() - ended

    with on_yarn(folder), skein.Client(log=False) as client:
        rm = ResourceManager(load_hadoop())
        with bare_master(client, path, folder / "bare") as app:
            released, theirs = in_turn(ROUNDS, mine, bare)
    return Figure(
        what="YARN: return → GPU free at the RM",
        target="≤ bare + 0.25 s",
        unit="s",
        ours=released,
        peers={"bare container": theirs},
    )
