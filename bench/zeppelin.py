"""Zeppelin: the interpreter's start, a paragraph's overhead, the log's lag, and a cancelled job.

All but the start are measured in a real server, seen through its websocket as its page sees them.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from submarine_engine.clusters import open_cluster
from submarine_engine.logs import follow
from submarine_zeppelin.wire import IDL, PROTOCOL, TRANSPORT
from thriftpy2.rpc import make_server

from bench.peers import own_home, submit
from bench.streams import Lateness, p95
from bench.table import Figure, in_turn
from tests.zeppelin.rest import Client, Socket, text
from tests.zeppelin.server import Server, free_port

ROUNDS = 5
LINES_A_SECOND = 200
SECONDS = 5
OVER = ("FINISHED", "ERROR", "ABORT")
BARE = Path(__file__).with_name("bareinterpreter.py")

TICK = f"""
import time

start = time.monotonic()
for number in range({LINES_A_SECOND * SECONDS}):
    while (due := start + number / {LINES_A_SECOND}) > time.monotonic():
        time.sleep(0.001)
    print(time.monotonic())
"""
SLEEP = "import time\nprint('begun', flush=True)\ntime.sleep(600)\n"


class Registered:
    """Stands in for Zeppelin where only its event server is asked; speaks its protocol."""

    def __init__(self) -> None:
        self.at = threading.Event()

    def registerInterpreterProcess(self, _info: object) -> None:  # noqa: N802 - Zeppelin's name
        """Note that the process is there."""
        self.at.set()


def launch(_folder: Path) -> Figure:
    """Measure from the start of the process until Zeppelin may send paragraphs."""
    port, handler = free_port(), Registered()
    logging.getLogger("thriftpy2").setLevel(logging.CRITICAL + 1)  # processes are killed below
    server = make_server(
        IDL.RemoteInterpreterEventService, handler, "127.0.0.1", port,
        proto_factory=PROTOCOL, trans_factory=TRANSPORT,
    )  # fmt: skip
    threading.Thread(target=server.serve, daemon=True).start()
    told = ["-c", "127.0.0.1", "-p", str(port), "-r", ":", "-i", "bench", "-g", "submarine"]

    def started(*program: str) -> float:
        handler.at.clear()
        start = time.monotonic()
        process = subprocess.Popen([sys.executable, *program, *told])
        assert handler.at.wait(60)
        taken = time.monotonic() - start
        process.kill()
        process.wait()
        return taken

    mine, bare = in_turn(
        ROUNDS, lambda: started("-m", "submarine_zeppelin"), lambda: started(str(BARE))
    )
    return Figure(
        what="Zeppelin: launch → registered",
        target="≤ 0.5 s",
        unit="s",
        ours=mine,
        peers={"an interpreter that does nothing": bare},
    )


@contextmanager
def in_zeppelin(folder: Path, *, bare: bool = False) -> Iterator[tuple[Server, Client, Socket]]:
    """Start a server; with `bare` its notes may say ``%bare`` too."""
    server = Server(folder / "zeppelin", environment={"SUBMARINE_LOCAL_GPUS": "1"})
    if bare:
        _install_bare(server.home / "interpreter/bare")
    try:
        server.start()
        client = Client(server.url)
        with client.socket() as socket:
            yield server, client, socket
    finally:
        server.close()


def _install_bare(folder: Path) -> None:
    folder.mkdir()
    script = folder / "bare.sh"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} {BARE} "$@"\n')
    script.chmod(0o755)
    entry = {
        "group": "bare", "name": "bare", "className": "bare.Bare", "properties": {},
        "runner": {"linux": str(script)},
    }  # fmt: skip
    (folder / "interpreter-setting.json").write_text(json.dumps([entry]))


def run(socket: Socket, shown: Mapping[str, Any]) -> None:
    """Run a paragraph as the page does; return when it has begun."""
    told = {key: shown.get(key) for key in ("id", "title", "config")}
    told["params"] = {}
    socket.send("RUN_PARAGRAPH", paragraph=shown["text"], **told)
    # What was told of its last run may come only now, and more than once.
    _until(socket, str(shown["id"]), ("PENDING", "RUNNING"))


def ended(socket: Socket, shown: Mapping[str, Any]) -> str:
    """Wait for the end of what runs; return its state."""
    return _until(socket, str(shown["id"]), OVER)


def _until(socket: Socket, paragraph: str, states: Sequence[str]) -> str:
    while True:
        told = socket.until("PARAGRAPH", lambda data: data["paragraph"]["id"] == paragraph)
        if (state := str(told["paragraph"]["status"])) in states:
            return state


def overhead(folder: Path) -> Figure:
    """Measure ``1 + 1`` from the page's click to the result on it."""
    with in_zeppelin(folder, bare=True) as (_, client, socket):
        note = client.note("bench", "%submarine.python\n1 + 1", "%bare\n1 + 1")
        python, nothing = socket.watch(note)["paragraphs"]

        def took(shown: Mapping[str, Any]) -> float:
            start = time.monotonic()
            run(socket, shown)
            assert ended(socket, shown) == "FINISHED"
            return (time.monotonic() - start) * 1000

        mine, bare = in_turn(3 * ROUNDS, lambda: took(python), lambda: took(nothing))
    return Figure(
        what="Zeppelin: a paragraph",
        target="≤ 50 ms more",
        unit="ms",
        ours=mine,
        peers={"an interpreter that does nothing": bare},
    )


def text_of(message: dict[str, Any]) -> str:
    """Return the text that a message brings to the page, as an update or with the result."""
    data = message.get("data") or {}
    if message["op"] == "PARAGRAPH_UPDATE_OUTPUT" and data["type"] == "TEXT":
        return str(data["data"])
    if message["op"] == "PARAGRAPH":
        return text(data["paragraph"])
    return ""


def lag(folder: Path) -> Figure:
    """Measure how late a job's lines are on the page, 95th percentile."""
    with in_zeppelin(folder) as (_, client, socket):
        note = client.note("bench", f"%submarine.run --gpus 0 --name lag\n{TICK}")
        [shown] = socket.watch(note)["paragraphs"]

        def ours() -> float:
            late: list[float] = []
            run(socket, shown)
            seen = 0
            while len(late) < LINES_A_SECOND * SECONDS:
                page = text_of(socket.next())
                now = time.monotonic()
                lines = page.splitlines(keepends=True)
                written = [line for line in lines if line.endswith("\n") and line[:1].isdigit()]
                late += [now - float(line) for line in written[seen:]]
                seen = max(seen, len(written))
            if socket.messages[-1]["op"] != "PARAGRAPH":
                assert ended(socket, shown) == "FINISHED"
            return p95(late)

        def terminal() -> float:
            renderer = Lateness()
            follow(submit(TICK), renderer)
            return p95(renderer.late)

        with own_home(folder / "home"):
            mine, terminals = in_turn(3, ours, terminal)
    return Figure(
        what=f"Zeppelin: log lag p95 at {LINES_A_SECOND} lines/s",
        target="≤ 0.5 s",
        unit="s",
        ours=mine,
        peers={"a terminal's follower": terminals},
    )


def cancel(folder: Path) -> Figure:
    """Measure from the page's *Cancel* until another process sees the GPU free."""
    with in_zeppelin(folder) as (server, client, socket):
        note = client.note("bench", f"%submarine.run --gpus 1 --name cancelled\n{SLEEP}")
        [shown] = socket.watch(note)["paragraphs"]

        def held() -> bool:
            return any(gpu.job_id for gpu in open_cluster().gpus())

        def ours() -> float:
            run(socket, shown)
            socket.until("PARAGRAPH_UPDATE_OUTPUT", lambda data: "begun\n" in data["data"])
            start = time.monotonic()
            note.cancel(0)
            while held():
                time.sleep(0.005)
            taken = time.monotonic() - start
            ended(socket, shown)
            return taken

        def theirs() -> float:
            job = submit(SLEEP, gpus=1)
            while b"begun" not in b"".join(
                path.read_bytes()
                for path in Path(os.environ["SUBMARINE_HOME"]).glob(f"jobs/{job.id}/tasks/*/stdout")
            ):
                time.sleep(0.005)
            start = time.monotonic()
            job.cancel()
            while held():
                time.sleep(0.005)
            return time.monotonic() - start

        with own_home(server.jobs_home, gpus=1):
            mine, plains = in_turn(ROUNDS, ours, theirs)
    return Figure(
        what="Zeppelin: cancel → GPU free",
        target="≤ 1 s + grace",
        unit="s",
        ours=mine,
        peers={"Job.cancel()": plains},
    )
