"""Logs by way of HDFS: whatever fails on the way, each byte arrives once and is the log's own."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from submarine_engine.clusters.log_mirror import LogMirror, LogsGoneError
from submarine_engine.clusters.yarn import application, log_transport
from submarine_engine.clusters.yarn.log_transport import HdfsSource
from submarine_engine.history import TaskPaths
from submarine_runtime import ship
from submarine_runtime.ship import Shipper, WebFolder

FOLDER = "/user/a b/logs"


class Entry(NamedTuple):
    path: str
    size: int
    folder: bool = False


class HdfsDouble:
    """Speaks WebHDFS as far as it takes to write (Hadoop 3.4.1), and holds files in memory.

    What fails is said in advance: each operation takes the next of `faults`. ``before`` fails
    with nothing done, ``after`` when all is done, ``half`` in the middle.
    """

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.faults: list[str] = []
        self.asked: list[str] = []
        self.standby = False
        self._server = ThreadingHTTPServer(
            ("127.0.0.1", 0), type("Handler", (_Handler,), {"hdfs": self})
        )
        self.root = f"http://127.0.0.1:{self._server.server_port}/webhdfs/v1"
        Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"{self.root}/user/a%20b/logs?op=OPEN&user.name=a+b"

    def list(self, folder: str) -> list[Entry]:
        return [
            Entry(path, len(data))
            for path, data in self.files.copy().items()  # at once: a handler may be adding to it
            if path.startswith(f"{folder}/")
        ]

    def read(self, path: str, offset: int, limit: int) -> bytes:
        return self.files[path][offset : offset + limit]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    hdfs: HdfsDouble

    def log_message(self, *_: object) -> None:
        pass

    def do_PUT(self) -> None:
        where = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(where.query).items()}
        path = unquote(where.path.partition("/webhdfs/v1")[2])
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        assert query["user.name"] == "a b"
        self.hdfs.asked.append(query["op"])
        if self.hdfs.standby:
            self._answer(403, b"StandbyException")
        elif query["op"] == "RENAME":
            self.hdfs.files[query["destination"]] = self.hdfs.files.pop(path)
            self._answer(200)
        elif "there" not in query:
            assert not body
            self._answer(307, location=f"{self.path}&there=1")
        else:
            self._do(query["op"], path, body)

    def do_POST(self) -> None:
        self.do_PUT()

    def _do(self, op: str, path: str, body: bytes) -> None:
        fault = self.hdfs.faults.pop(0) if self.hdfs.faults else ""
        if fault != "before":
            part = body[: len(body) // 2] if fault == "half" else body
            before = self.hdfs.files[path] if op == "APPEND" else b""
            self.hdfs.files[path] = before + part
        if fault:
            self.close_connection = True
        else:
            self._answer(201 if op == "CREATE" else 200)

    def _answer(self, status: int, body: bytes = b"", location: str = "") -> None:
        self.send_response(status)
        if location:
            self.send_header("Location", f"http://127.0.0.1:{self.server.server_port}{location}")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def hdfs(monkeypatch):
    monkeypatch.setattr(log_transport, "EVERY", 0.0)
    double = HdfsDouble()
    yield double
    double.close()


FAULTS = st.sampled_from(["", "", "before", "after", "half"])
STEPS = st.lists(
    st.one_of(st.binary(min_size=1, max_size=50), st.lists(FAULTS, max_size=3)), max_size=12
)


@given(steps=STEPS)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_each_byte_arrives_once(hdfs, container, tmp_path_factory, steps):
    hdfs.files.clear()
    folder = tmp_path_factory.mktemp("node")
    task = TaskPaths(tmp_path_factory.mktemp("task"))
    shipper = Shipper(str(folder), WebFolder(hdfs.url))
    source = HdfsSource(hdfs, FOLDER, container)
    log = folder / "stdout"
    for step in steps:
        if isinstance(step, bytes):
            with log.open("ab") as file:
                file.write(step)
            continue
        hdfs.faults = list(step)
        try:
            shipper.step()
        except OSError:
            assert any(step)
        hdfs.faults = []
        LogMirror(task, source).step(37)
        copied = task.stdout.read_bytes() if task.stdout.exists() else b""
        assert (log.read_bytes() if log.exists() else b"").startswith(copied)
    assert shipper.step()
    assert not LogMirror(task, source).drain(seconds=0)  # more may come
    WebFolder(hdfs.url).create("@over", b"")
    if log.exists():
        assert LogMirror(task, source).drain()
        assert task.stdout.read_bytes() == log.read_bytes()


def test_the_outcome_comes_when_the_logs_are_there(hdfs, container, tmp_path, monkeypatch):
    monkeypatch.setattr(ship, "_SHIP_PIECE", 4)
    (tmp_path / "stdout").write_bytes(b"123456")
    (tmp_path / "outcome.json").write_text("{}")
    (tmp_path / "progress.json").write_text('{"fraction": 0.5}')
    (tmp_path / ".hidden").write_text("x")
    (tmp_path / "link").symlink_to("/etc/hostname")
    (tmp_path / "folder").mkdir()
    shipper = Shipper(str(tmp_path), WebFolder(hdfs.url))
    source = HdfsSource(hdfs, FOLDER, container)
    assert not shipper.step()
    assert source.sizes() == {"stdout": 4, "progress.json": 17}
    assert shipper.step()
    assert source.sizes() == {"stdout": 6, "progress.json": 17, "outcome.json": 2}
    assert source.read("stdout", 1, 100) == b"23456"
    assert source.read("stdout", 6, 100) == b""
    with pytest.raises(LogsGoneError):
        source.read("results", 0, 1)
    asked = len(hdfs.asked)
    assert shipper.step()
    assert len(hdfs.asked) == asked  # nothing has changed
    (tmp_path / "progress.json").write_text("{}")
    shipper.step()
    assert source.read("progress.json", 0, 100) == b"{}"


def test_of_an_ha_pair_the_active_one_is_found(hdfs, tmp_path):
    other = HdfsDouble()
    other.standby = True
    folder = WebFolder(f"{other.url} {hdfs.url}")
    for text in (b"a", b"b"):
        folder.create("x", text)
    assert hdfs.files[f"{FOLDER}/x"] == b"b"
    assert other.asked == ["CREATE"]
    other.close()
    with closing(socket.socket()) as nobody:  # bound, and so nobody else's meanwhile
        nobody.bind(("127.0.0.1", 0))
        root = f"http://127.0.0.1:{nobody.getsockname()[1]}/webhdfs/v1"
        with pytest.raises(OSError, match="refused"):
            WebFolder(f"{root}/logs?op=OPEN&user.name=a+b").create("x", b"")


def test_names_that_are_no_segments_are_left_out(hdfs, container):
    hdfs.files = {f"{FOLDER}/{name}": b"x" for name in ("stdout@1", "outcome.json@part", "ok")}
    assert HdfsSource(hdfs, FOLDER, container).sizes() == {"ok": 1}


def test_the_rest_is_brought_when_the_task_was_killed(hdfs, container, tmp_path, task):
    log = tmp_path / "logs"
    log.mkdir()
    code = (
        "import sys, time\n"
        f"sys.path.insert(0, {str(Path(ship.__file__).parents[1])!r})\n"
        "from submarine_runtime import ship\n"
        "import os\n"
        f"ship.start({str(log)!r}, {hdfs.url!r}, 'container_1', os.getpid())\n"
        f"with open({str(log / 'stdout')!r}, 'wb', 0) as file:\n"
        "    while True: file.write(b'line\\n' * 99); time.sleep(0.001)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    source = HdfsSource(hdfs, f"{FOLDER}/container_1", container)
    try:
        wait(lambda: source.sizes().get("stdout", 0) > 10_000)
        assert not source.complete
    finally:
        os.killpg(process.pid, 9)  # as YARN ends a container
        process.wait()
    assert LogMirror(task, source).drain()
    assert source.complete
    assert task.stdout.read_bytes() == (log / "stdout").read_bytes()
    wait(lambda: not shippers(log))


def test_all_is_brought_where_the_node_removes_the_files_at_once(hdfs, container, tmp_path, task):
    log = tmp_path / "logs"
    log.mkdir()
    hdfs.faults = ["before"] * 6  # so nothing is there before the files are gone
    code = (
        "import os, sys\n"
        f"sys.path.insert(0, {str(Path(ship.__file__).parents[1])!r})\n"
        "from submarine_runtime import ship\n"
        f"ship.start({str(log)!r}, {hdfs.url!r}, 'container_1', os.getppid())\n"
        f"open({str(log / 'stdout')!r}, 'wb').write(b'trained\\n' * 9)\n"
        f"open({str(log / 'outcome.json')!r}, 'w').write('how it ended')\n"
    )
    # The end of the script that a container's shell runs, which waits for the files to be held.
    end = "".join(application._SCRIPT.partition('echo "$code')[1:])
    shell = f'"$0" -c "$1"; L="$2" code=3 oom=; {end}'
    command = ["bash", "-c", shell, sys.executable, code, str(log)]
    assert subprocess.run(command, check=False, timeout=180).returncode == 3
    shutil.rmtree(log)
    source = HdfsSource(hdfs, f"{FOLDER}/container_1", container)
    assert LogMirror(task, source).drain()
    assert task.stdout.read_bytes() == b"trained\n" * 9
    assert source.read("outcome.json", 0, 99) == b"how it ended"
    assert source.read("exit", 0, 99) == b"3\n"
    wait(lambda: not shippers(log))


def shippers(log):
    done = subprocess.run(["ps", "-eo", "args"], capture_output=True, check=True, text=True)
    return str(log) in done.stdout


def wait(condition):
    until = time.monotonic() + 180
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_displays_come_as_they_grow_and_before_the_outcome(
    hdfs, container, tmp_path, task, monkeypatch
):
    monkeypatch.setattr(ship, "_SHIP_PIECE", 4)
    (tmp_path / "displays").write_bytes(b"123456\n")
    (tmp_path / "outcome.json").write_text("{}")
    shipper = Shipper(str(tmp_path), WebFolder(hdfs.url))
    source = HdfsSource(hdfs, FOLDER, container)
    assert not shipper.step()
    assert source.sizes() == {"displays": 4}
    assert shipper.step()
    assert "outcome.json" in source.sizes()
    LogMirror(task, source).step()
    assert task.displays.read_bytes() == b"123456\n"


def test_a_result_comes_whatever_its_size(hdfs, tmp_path, monkeypatch):
    monkeypatch.setattr(ship, "_LARGEST", 1 << 20)
    content = os.urandom(5 << 20)
    for name in ("home.pkl", "var-model.pkl", "core"):
        (tmp_path / name).write_bytes(content)
    hdfs.faults = ["before", "half"]
    shipper = Shipper(str(tmp_path), WebFolder(hdfs.url))
    for _ in range(2):
        with pytest.raises(OSError, match="127"):
            shipper.step()
    assert shipper.step()
    arrived = {path.rpartition("/")[2]: data for path, data in hdfs.files.items()}
    assert arrived == {"home.pkl": content, "var-model.pkl": content}
