"""Jupyter's server with our extension: many followers, a very long log, and how late a line is."""

from __future__ import annotations

import base64
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import requests
from submarine_engine import Job
from submarine_engine.history import JobPaths
from submarine_engine.logs import follow

from bench.peers import own_home, submit
from bench.streams import Lateness, p95
from bench.table import Figure, in_turn

ROUNDS = 3
FOLLOWERS = 100
SECONDS = 5
MEGABYTES = 100
_TOKEN = "of-the-bench"  # noqa: S105 - of a server on loopback that ends with the figure
_LINE = b"x" * 99 + b"\n"

TALK = "import time\nwhile True:\n    print(time.monotonic(), flush=True)\n    time.sleep(0.02)"
TICK = (
    "import time\nfor _ in range(250):\n"
    "    print(time.monotonic(), flush=True)\n    time.sleep(0.02)"
)
COUNTING = """
import os
from submarine_engine.clusters.local import LocalCluster

class Counting(LocalCluster):
    name = "counting"

    def read(self, *args, **options):
        with open(os.environ["BENCH_READS"], "ab") as reads:
            reads.write(b".")
        return super().read(*args, **options)
"""


@contextmanager
def served(folder: Path, **environment: str) -> Iterator[requests.Session]:
    """Run a server over the jobs of this home; the session's ``url`` is below its base URL."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "jupyter_server", "--allow-root", "--no-browser"]
    command += [f"--ServerApp.port={port}", f"--IdentityProvider.token={_TOKEN}"]
    command += ["--ServerApp.jpserver_extensions=submarine_jupyter=True"]
    places = {f"JUPYTER_{kind}_DIR": str(folder) for kind in ("CONFIG", "RUNTIME", "DATA")}
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, **places, **environment},
            stdout=log,
            stderr=log,
        )
    session = _Session(f"http://127.0.0.1:{port}/submarine/api")
    try:
        while not session.answers():
            if process.poll() is not None:
                raise RuntimeError((folder / "server.log").read_text())
            time.sleep(0.05)
        yield session
    finally:
        process.terminate()
        process.wait()


class _Session(requests.Session):
    """Asks below `base`, as somebody whom the server knows."""

    def __init__(self, base: str) -> None:
        super().__init__()
        self.base = base
        self.trust_env = False
        self.headers["Authorization"] = f"token {_TOKEN}"

    def request(self, method: str, url: str, *args: object, **options: object) -> requests.Response:  # type: ignore[override]  # passed on
        """Ask for what is below `base`."""
        return super().request(method, self.base + url, *args, **options)  # type: ignore[arg-type]  # passed on

    def answers(self) -> bool:
        """Return whether the server is there."""
        try:
            return self.get("/clusters", timeout=10).ok
        except requests.ConnectionError:
            return False


def followers(folder: Path) -> Figure:
    """Count how often the cluster is asked for a job that 100 follow, beside one."""
    (folder / "counting.py").write_text(COUNTING)
    told = folder / "counting-1.dist-info"
    told.mkdir()
    (told / "METADATA").write_text("Metadata-Version: 2.1\nName: counting\nVersion: 1\n")
    (told / "entry_points.txt").write_text("[submarine.clusters]\ncounting = counting:Counting\n")
    reads = folder / "reads"
    reads.touch()
    environment = {"PYTHONPATH": str(folder), "BENCH_READS": str(reads)}
    with own_home(folder / "home") as home:
        job = submit(TALK)
        record = JobPaths(home, job.id).record
        record.write_text(json.dumps(json.loads(record.read_text()) | {"cluster": "counting"}))
        with served(folder / "server", **environment) as server:

            def rate(number: int) -> float:
                gone = threading.Event()
                seen = [threading.Event() for _ in range(number)]
                threads = [
                    threading.Thread(target=_read, args=(server, job.id, event, gone))
                    for event in seen
                ]
                for thread in threads:
                    thread.start()
                for event in seen:
                    event.wait()
                before = reads.stat().st_size
                time.sleep(SECONDS)
                found = (reads.stat().st_size - before) / SECONDS
                gone.set()
                for thread in threads:
                    thread.join()
                return found

            mine, one = in_turn(ROUNDS, lambda: rate(FOLLOWERS), lambda: rate(1))
        job.kill()
        job.wait()
    return Figure(
        what=f"reads of a job that {FOLLOWERS} follow in Jupyter",
        target="as for one",
        unit="/s",
        ours=mine,
        peers={"one follower": one},
    )


def _read(
    server: requests.Session, job_id: str, seen: threading.Event, gone: threading.Event
) -> None:
    with server.get(f"/jobs/{job_id}/events", stream=True) as answer:
        for _ in answer.iter_content(chunk_size=None):
            seen.set()
            if gone.is_set():
                return


def hundred(folder: Path) -> Figure:
    """Measure the last page of a log of 100 MB that nobody has looked at yet."""
    with own_home(folder / "home") as home, served(folder / "server") as server:
        job = submit("pass")
        job.wait()
        log = JobPaths(home, job.id).task("worker-0").stdout

        def ours() -> float:
            new = log.with_name("new")
            new.write_bytes(_LINE * (MEGABYTES * 10_000))
            new.rename(log)
            start = time.perf_counter()
            found = server.get(f"/jobs/{job.id}/logs/worker-0/stdout/lines?count=200").json()
            spent = (time.perf_counter() - start) * 1000
            if found["total"] != MEGABYTES * 10_000 or len(found["lines"]) != 200:
                raise RuntimeError(found["total"])
            return spent

        def wc() -> float:
            start = time.perf_counter()
            subprocess.run(["wc", "-l", log], check=True, capture_output=True)
            subprocess.run(["tail", "-n", "200", log], check=True, capture_output=True)
            return (time.perf_counter() - start) * 1000

        mine, theirs = in_turn(5, ours, wc)
    return Figure(
        what="last page of a log of 100 MB in Jupyter",
        target="≤ 1000 ms",
        unit="ms",
        ours=mine,
        peers={"wc -l; tail": theirs},
    )


def lag(folder: Path) -> Figure:
    """Measure how late a line is in the server's stream: the 95th percentile of 250 lines."""
    with own_home(folder / "home"), served(folder / "server") as server:

        def ours() -> float:
            job = submit(TICK)
            late, rest = [], ""
            for data in _log_of(server, job):
                now = time.monotonic()
                *lines, rest = (rest + data).split("\n")
                late += [now - float(line) for line in lines]
            return p95(late) * 1000

        def terminal() -> float:
            renderer = Lateness()
            follow(submit(TICK), renderer)
            return p95(renderer.late) * 1000

        mine, theirs = in_turn(ROUNDS, ours, terminal)
    return Figure(
        what="log line to the server's stream, p95",
        target="≤ 500 ms",
        unit="ms",
        ours=mine,
        peers={"the terminal's follower": theirs},
    )


def _log_of(server: requests.Session, job: Job) -> Iterator[str]:
    with server.get(f"/jobs/{job.id}/events", stream=True) as answer:
        left = b""
        for chunk in answer.iter_content(chunk_size=None):
            *whole, left = (left + chunk).split(b"\n\n")
            for event in whole:
                if b"event: log\n" in event:
                    data = json.loads(event.partition(b"data: ")[2])
                    yield base64.b64decode(data["data"]).decode()
