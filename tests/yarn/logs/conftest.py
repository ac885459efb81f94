from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import parse_qs, urlsplit

import pytest
from submarine_engine.clusters.yarn.node_pages import NodeLogs, NodeSource
from submarine_engine.history import TaskPaths

CONTAINER = "container_1700000000000_0001_01_000002"


class NodeManagerDouble:
    """Speaks the NodeManager's own protocol for logs (Hadoop 3.4.1, `NMWebServices`).

    What it may do wrong is set by its attributes.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked: list[str] = []
        self.connections = 0
        self.status: int | None = None
        self.answer: bytes | None = None  # in place of any answer's body
        self.state: str | None = None  # of containers; None: they run where they have a folder
        self.after_list: Callable[[], None] = lambda: None
        self.after_length: Callable[[], None] = lambda: None
        self.break_off: int | None = None  # after so many bytes of a body
        self.rest: bytes | None = b""  # after the trailer; None: nothing, for as long as it runs
        handler = type("Handler", (_Handler,), {"node": self})
        self._server = _Server(("127.0.0.1", 0), handler)
        self._sockets: list[socket.socket] = []
        self.address = f"127.0.0.1:{self._server.server_port}"
        Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def log(self, name: str, container: str = CONTAINER) -> Path:
        (self.folder / container).mkdir(exist_ok=True)
        return self.folder / container / name

    def write(self, name: str, data: bytes) -> None:
        with self.log(name).open("ab") as file:
            file.write(data)

    def hang_up(self) -> None:
        for connection in self._sockets:
            with suppress(OSError):  # it is closed already
                connection.shutdown(socket.SHUT_RDWR)  # `close` waits for the handler's files
            connection.close()
        self._sockets.clear()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self.hang_up()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, *_: object) -> None:
        """Who asks may hang up at any time."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    node: NodeManagerDouble

    def setup(self) -> None:
        super().setup()
        self.node.connections += 1
        self.node._sockets.append(self.connection)

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        path = re.fullmatch(
            r"/ws/v1/node/containers/(container_[0-9_e]+)(/logs(?:/([^/?]+))?)?",
            urlsplit(self.path).path,
        )
        if path and not path[2] and self.node.status is None:
            self._state(self.node.folder / path[1])
            return
        self.node.asked.append(self.path)
        if self.node.status is not None or path is None:
            self._plain(self.node.status or 404, self.node.answer or b"no")
        elif self.node.answer is not None:
            self._plain(200, self.node.answer)
        elif path[3] is None:
            self._list(self.node.folder / path[1])
        else:
            size = int(parse_qs(urlsplit(self.path).query)["size"][0])
            self._log(self.node.folder / path[1] / path[3], size)

    def _plain(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        if 300 <= status < 400:
            self.send_header("Location", "http://127.0.0.1:9/jobhistory/logs")
        self.end_headers()
        self.wfile.write(body)

    def _state(self, folder: Path) -> None:
        if self.node.state is None and not folder.exists():
            self._plain(404, b'{"RemoteException":{"message":"container with id, is not found"}}')
            return
        told = {"container": {"id": folder.name, "state": self.node.state or "RUNNING"}}
        self._plain(200, json.dumps(told).encode())

    def _list(self, folder: Path) -> None:
        info: dict[str, object] = {"logAggregationType": "LOCAL", "containerId": folder.name}
        if not folder.exists():
            self._plain(503, b'{"RemoteException":{"message":"Unknown container."}}')
            return
        files = [
            {"fileName": path.name, "fileSize": str(path.stat().st_size), "lastModifiedTime": "…"}
            for path in folder.iterdir()
        ]
        if files:
            info["containerLogInfo"] = files if len(files) > 1 else files[0]
        self._plain(200, json.dumps({"containerLogsInfo": info}).encode())
        self.node.after_list()

    def _log(self, path: Path, size: int) -> None:
        if not path.exists():
            self._plain(404, b"java.lang.Exception: Cannot find this log on the local disk.")
            return
        container = path.parent.name
        with path.open("rb") as file:
            length = path.stat().st_size
            self.node.after_length()
            begins = max(0, length + size) if size < 0 else 0
            file.seek(begins)
            body = file.read(length - begins)
        first = f"Container: {container} on localhost:45454"
        head = (
            f"{first}\nLogAggregationType: LOCAL\n{'=' * len(first)}\nLogType:{path.name}\n"
            "LogLastModifiedTime:Sat Nov 21 05:32:56 +0000 2026\n"
            f"LogLength:{length}\nLogContents:\n"
        ).encode()
        end = f"End of LogType:{path.name}"
        tail = (
            f"{end}.This log file belongs to a running container ({container}) and so may not be"
            f" complete.\n{'*' * (len(end) + 50)}\n\n"
        ).encode()
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        if self.node.break_off is not None:
            self._chunk(head + body[: self.node.break_off])
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        self._chunk(head)
        for begin in range(0, len(body), 8192):
            self._chunk(body[begin : begin + 8192])
        self._chunk(tail)
        if self.node.rest is None:
            self.wfile.flush()
            self.connection.recv(1)  # until the other side has had enough
            return
        self._chunk(self.node.rest)
        self.wfile.write(b"0\r\n\r\n")

    def _chunk(self, data: bytes) -> None:
        if data:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))


@pytest.fixture
def node(tmp_path):
    (tmp_path / "node").mkdir()
    double = NodeManagerDouble(tmp_path / "node")
    yield double
    double.close()


@pytest.fixture
def logs(node):
    logs = NodeLogs(node.address, timeout=180)
    yield logs
    logs.close()


@pytest.fixture
def container():
    return CONTAINER


@pytest.fixture
def source(logs):
    return NodeSource(logs, CONTAINER)


@pytest.fixture
def task(tmp_path):
    (tmp_path / "task").mkdir()
    return TaskPaths(tmp_path / "task")
