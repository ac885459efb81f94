"""The listeners of the project, each as it is in use."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import struct
import subprocess
import sys
import threading
from contextlib import closing, suppress
from pathlib import Path

import pytest
from submarine_engine.clusters import open_cluster
from submarine_engine.clusters.local import LocalCluster
from submarine_engine.history import make_private
from submarine_engine.inside import Forward
from submarine_engine.job import JobState
from submarine_engine.records import open_job
from submarine_engine.serving.front import Front
from submarine_engine.serving.record import ServingRecord
from submarine_magics.card.pages import LogPages
from submarine_runtime import inside, xgboost_tracker, zygote
from submarine_runtime.channel import BEGIN, EXIT, INPUT, OUTPUT, SIZE, VERSION, Channel, wait
from submarine_zeppelin import links as zeppelin_links
from submarine_zeppelin.properties import LINKS_LISTEN
from submarine_zeppelin.wire import IDL, PROTOCOL
from thriftpy2.thrift import TMessageType
from thriftpy2.transport import TMemoryBuffer

from tests.jobs import bundle_of, end_processes_of, spec_of, until
from tests.runtime.test_runtime_inside import Far
from tests.zeppelin.talking import Talk

from .strangers import FEW, Listener


def by_port(port):
    return lambda: socket.create_connection(("127.0.0.1", port), timeout=10)


def asked(connection, said, size=1 << 20):
    """Return all that is answered."""
    found = b""
    with connection:
        connection.settimeout(60)
        connection.sendall(said)
        while len(found) < size and (piece := connection.recv(1 << 16)):
            found += piece
    return found


def head(text, host):
    return text.replace("HOST", host).replace("\n", "\r\n").encode()


def finished_job(home, script="print('one')"):
    cluster = LocalCluster(home)
    job_id = cluster.submit(spec_of(), bundle_of(script), workdir=home.parent)
    until(lambda: cluster.status(job_id).state.final)
    assert cluster.status(job_id).state is JobState.SUCCEEDED
    return cluster, job_id


@pytest.fixture
def log_pages(tmp_path, capfd):
    cluster, job_id = finished_job(tmp_path / "home")
    pages = LogPages(cluster, cluster.home)
    host = f"127.0.0.1:{pages.server_port}"
    path = pages.url(job_id).partition(host)[2]
    rest = " HTTP/1.1\nHost: HOST\nConnection: close\n\n"
    right = head(f"GET {path}state{rest}", host)
    guesses = [f"GET {path.replace(pages.token, 'x' * 32)}{name}{rest}" for name in ("", "state")]
    guesses += [
        f"POST /guess/jobs/{job_id}/cancel HTTP/1.1\nHost: HOST\nContent-Length: 999999999\n\n",
        f"GET /guess/jobs/{job_id}/logs/worker-0/stdout?offset=-1&limit=99999999999{rest}",
    ]

    def honest():
        assert b'"succeeded"' in asked(connect(), right)

    connect = by_port(pages.server_port)
    words = [head(one, host) for one in guesses]
    # With the secret in its words a stranger would be none.
    yield Listener(connect, honest, words, lambda: _shown(capfd), secret=pages.token.encode())
    pages.shutdown()
    pages.server_close()
    end_processes_of(cluster.home)


@pytest.fixture
def port():
    """A port that nobody else is given meanwhile: bound, and not listened at."""
    with closing(socket.socket()) as kept:
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        kept.bind(("127.0.0.1", 0))
        yield kept.getsockname()[1]


@pytest.fixture
def links(tmp_path, capfd, monkeypatch, port):
    """The pages of Zeppelin's links, and a TensorBoard behind them that is not there any more."""
    home = tmp_path / "home"
    cluster, job_id = finished_job(home)
    host = f"127.0.0.1:{port}"
    monkeypatch.setenv("SUBMARINE_HOME", str(home))
    monkeypatch.setenv(LINKS_LISTEN, host)
    pages = zeppelin_links.LinkPages(("127.0.0.1", port))
    board = f"/submarine/tensorboards/{'0' * 16}/~x/data/plugin"
    places = [
        zeppelin_links.log_link(open_job(job_id)).partition(host)[2],
        zeppelin_links.board_link(f"http://127.0.0.1{board}").partition(host)[2],
    ]
    rest = " HTTP/1.1\nHost: HOST\nConnection: close\n\n"
    right = head(f"GET {places[0]}state{rest}", host)
    secret = (home / "zeppelin/links.key").read_bytes()

    def honest():
        assert b'"succeeded"' in asked(connect(), right)

    connect = by_port(port)
    xsrf = "Host: HOST\nX-XSRF-Protected: 1"
    words = [
        *(f"GET {place}{rest}" for place in places),
        f"POST {places[0]}cancel HTTP/1.1\nHost: HOST\nContent-Length: 2\n\n{{}}",
        f"POST {places[1]} HTTP/1.1\n{xsrf}\nContent-Length: 999999999\n\nx",
        f"POST {places[1]} HTTP/1.1\n{xsrf}\nContent-Length: x\n\nx",
        f"GET {places[1].replace('~x', '..')}{rest}",
        f"GET /fff-{'0' * 32}/jobs/{job_id}/state{rest}",
    ]
    said = [head(one, host) for one in words]
    yield Listener(connect, honest, said, lambda: _shown(capfd), secret=secret)
    pages.shutdown()
    pages.server_close()
    end_processes_of(cluster.home)


def _shown(capfd):
    out, err = capfd.readouterr()
    return (out + err).encode()


@pytest.fixture
def tracker(capfd, port):
    trackers = xgboost_tracker.Trackers(2, "127.0.0.1", port)
    trackers._ports.append(4711)

    def honest():
        until(lambda: asked(by_port(port)(), b"0", 4) == b"4711")

    return Listener(by_port(port), honest, [b"0", b"1", b"-1", b"9" * 20], lambda: _shown(capfd))


def frame(kind, data=b""):
    return struct.pack(">cI", kind, len(data)) + data


def _begins(question=""):
    told = {"version": VERSION, "id": question}
    words = (
        {"argv": ["true"]}, {"argv": ["/"]}, {"argv": ["a\0b"]}, {"argv": ["\ud800"]},
        {"port": 0}, {"port": 1}, {"port": "x" * 9000}, {"argv": [[]]}, {"version": 9},
        {"argv": ["cat"], "terminal": {"rows": 1 << 40, "columns": -1, "term": "\0"}},
    )  # fmt: skip
    whole = [frame(BEGIN, json.dumps({**told, **one}).encode()) for one in words]
    cat = frame(BEGIN, json.dumps({**told, "argv": ["cat"]}).encode())
    return [*whole, cat + frame(INPUT, b"x" * 100) * 20 + frame(SIZE, b"[" * 9000)]


def echoes(channel):
    """Assert that what was begun echoes a word."""
    found = b""
    with closing(channel):
        while True:
            assert wait(channel, 60)
            for kind, data in channel.read():
                found += data if kind == OUTPUT else b""
                if kind == EXIT:
                    assert found == b"well\n"
                    return
            assert not channel.over


@pytest.fixture
def inside_here(tmp_path):
    folder = tmp_path / "task"
    make_private(folder)
    plan = {"task": "worker-0", "job_id": "j", "workdir": str(folder), "command": None}
    (folder / "task.json").write_text(json.dumps(plan))
    task = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    with (tmp_path / "log").open("wb") as log:
        server = subprocess.Popen(
            [sys.executable, "-I", inside.__file__, folder, str(task.pid)],
            env={"PATH": os.environ["PATH"], "PASSWORD": "hunter2"},
            stderr=log,
        )
    until((folder / inside.SOCKET).exists)

    def connect():
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(10)
        connection.connect(os.path.relpath(folder / inside.SOCKET))
        return connection

    def honest():
        channel = Channel(connect())
        asks = {"version": VERSION, "argv": ["echo", "well"]}
        channel.send(BEGIN, json.dumps(asks).encode())
        echoes(channel)

    told = (tmp_path / "log").read_bytes
    yield Listener(connect, honest, _begins(), told, secret=b"hunter2", pid=server.pid, short=FEW)
    task.communicate()
    server.wait(60)


@pytest.fixture
def far(tmp_path):
    found = Far(tmp_path)
    yield found
    found.process.kill()  # its pipe is the server's, too
    with found.process:
        pass


@pytest.fixture
def inside_far(far, capfd, monkeypatch):
    # On a busy machine a connection by TLS takes seconds.
    monkeypatch.setattr("submarine_engine.clusters.inside._CONNECT", 120.0)
    told = json.loads(far.told)

    def honest():
        echoes(far.begin(far.credentials, argv=["echo", "well"]))

    def connect():
        return socket.create_connection((told["host"], told["port"]), timeout=10)

    hello = bytes.fromhex("16030100420100003e0303") + bytes(range(32)) + b"\0\0\2\x13\1\1\0"
    words = [*_begins("guessed"), hello, hello * 3, b"GET / HTTP/1.1\r\n\r\n"]
    return Listener(connect, honest, words, lambda: _shown(capfd), secret=b"asked", short=FEW)


@pytest.fixture
def zygote_here(tmp_path):
    """A zygote of `decimal`, which says no to each question: a file hides a module."""
    folder, bundle = tmp_path / "zygote", tmp_path / "bundle"
    make_private(folder)
    make_private(bundle)
    (bundle / "decimal.py").touch()
    wanted = {"names": ["decimal"], "workdir": str(tmp_path), "idle": 600, "room": 0}
    (folder / zygote.WANTED).write_text(json.dumps(wanted))
    program = Path(zygote.__file__).with_name("__main__.py")
    environment = {zygote.DRIVER: "1", zygote.ROOM: " " * 128, "PASSWORD": "hunter2"}
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-u", program, zygote.OPTION, folder],
            env=environment,
            stdout=log,
            stderr=log,
        )
    log = tmp_path / "log"
    until(lambda: (folder / zygote.SOCKET).exists() or process.poll() is not None)
    assert process.poll() is None, (log.read_text(), *folder.glob("unfit"))
    asks = {"gpus": 0, "several": False, "bundle": str(bundle), "task": "", "own": False}

    def connect():
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(10)
        connection.connect(os.path.relpath(folder / zygote.SOCKET))
        return connection

    def say(told):
        data = json.dumps(told).encode() if not isinstance(told, bytes) else told
        return struct.pack("!I", len(data)) + data

    def is_refused():
        with suppress(OSError):
            return asked(connect(), say(asks)) == b"no: a file of the job hides a module"
        return False

    def honest():
        until(is_refused)  # who says nothing for two seconds is sent away, a busy machine's, too

    words = [say(asks), say({"gpus": []}), say({**asks, "bundle": 5}), say(b"[" * 30_000)]
    about = {"secret": b"hunter2", "pid": process.pid, "most_held": 0}
    yield Listener(connect, honest, words, log.read_bytes, **about)

    def has_ended():
        with suppress(OSError):  # who says nothing for two seconds is sent away, and not heard
            asked(connect(), say({"end": True}))
        with suppress(subprocess.TimeoutExpired):
            return process.wait(10) is not None
        return False

    until(has_ended)
    assert process.returncode == 0


@pytest.fixture
def front(tmp_path, monkeypatch, capfd, port):
    """A front whose replica cannot be begun: it has its page, and refuses requests."""
    monkeypatch.setattr("submarine_engine.serving.front._PATIENCE", 0.0)
    home = tmp_path / "home"
    make_private(home)
    folder = home / "servings" / "digits"
    make_private(folder)
    record = ServingRecord(folder=folder, cluster="local", port=port, workdir=str(tmp_path))
    record.write()
    serving = Front(record, open_cluster("local"), "")
    loop = asyncio.new_event_loop()
    running = loop.create_task(serving.run())

    def run():
        with suppress(asyncio.CancelledError):
            loop.run_until_complete(running)

    thread = threading.Thread(target=run)
    thread.start()
    host = f"127.0.0.1:{port}"
    right = head("GET / HTTP/1.1\nHost: HOST\nConnection: close\n\n", host)

    def honest():
        found = asked(by_port(port)(), right)
        assert found.startswith(b"HTTP/1.1 200 OK"), found

    def listens():
        with suppress(OSError):
            by_port(port)().close()
            return True
        return False

    until(listens)
    body = 'Host: HOST\nContent-Type: application/json\nContent-Length: 14\n\n{"inputs":[1]}'
    words = [
        f"POST /invocations HTTP/1.1\n{body}",
        f"POST /invocations HTTP/1.1\nExpect: 100-continue\n{body}",
        f"GET / HTTP/1.1\n{body}",
        "POST /v2 HTTP/1.1\nHost: HOST\nTransfer-Encoding: chunked\n\n7fffffffffff\nx\n0\n\n",
        "POST /v2 HTTP/1.1\nHost: HOST\nContent-Length: 99999999999\n\nx",
        "GET http://elsewhere/ HTTP/1.1\nHost: elsewhere\n\n",
    ]
    yield Listener(by_port(port), honest, [head(w, host) for w in words], lambda: _shown(capfd))
    loop.call_soon_threadsafe(running.cancel)
    thread.join(60)
    loop.close()


@pytest.fixture
def zeppelin(tmp_path, monkeypatch):
    """An interpreter's process, as Zeppelin starts it."""
    talking = Talk(tmp_path / "home", SUBMARINE_HOME=str(tmp_path / "home"))
    group = dict.fromkeys(("intpGroupId", "sessionId", "className", "userName"), "x")
    args = IDL.RemoteInterpreterService
    context = talking.context()
    said = {
        "getStatus": args.getStatus_args("s1", "j1"),
        "createInterpreter": args.createInterpreter_args(**group, properties={"a": "b"}),
        "getProgress": args.getProgress_args("s1", "x", context),
        "resourcePoolGetAll": args.resourcePoolGetAll_args(),
        "angularRegistryPush": args.angularRegistryPush_args("x"),
        "nothing": args.getStatus_args("s1", "j1"),
    }

    def honest():
        assert talking.call("resourcePoolGetAll") == []

    def told():
        # What is asked wrongly it notes in full, in its own log; what it does not catch is a fault.
        logs = [talking.log, *(tmp_path / "home").rglob("*.log")]
        faults = [b"Traceback" for log in logs if b"Exception in" in log.read_bytes()]
        return b"".join(faults)

    words = [_call(name, arguments) for name, arguments in said.items()]
    yield Listener(by_port(talking.port), honest, words, told, pid=talking.process.pid, short=FEW)
    talking.close()


def _call(name, arguments):
    memory = TMemoryBuffer()
    protocol = PROTOCOL.get_protocol(memory)
    protocol.write_message_begin(name, TMessageType.CALL, 1)
    arguments.write(protocol)
    protocol.write_message_end()
    return memory.getvalue()


ECHO = """
import os, socketserver
class Echo(socketserver.BaseRequestHandler):
    def handle(self):
        try:
            while data := self.request.recv(4096):
                self.request.sendall(data)
        except OSError:
            pass
class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
server = Server(("127.0.0.1", 0), Echo)
with open("port.part", "w") as file:
    file.write(str(server.server_address[1]))
os.replace("port.part", "port")
server.serve_forever()
"""


@pytest.fixture
def forward(tmp_path, capfd):
    cluster = LocalCluster(tmp_path / "home")
    job_id = cluster.submit(spec_of(), bundle_of(ECHO), workdir=tmp_path)
    until((tmp_path / "port").exists)
    failed = []
    leads = Forward(cluster, job_id, int((tmp_path / "port").read_text()), 0, failed=failed.append)
    threading.Thread(target=_serve, args=(leads,), daemon=True).start()

    def honest():
        assert asked(by_port(leads.port)(), b"well", 4) == b"well"

    words = [b"x" * 100_000, *_begins()]
    yield Listener(by_port(leads.port), honest, words, lambda: _shown(capfd), short=FEW)
    # Whose a connection was that is just being cut off cannot be told.
    assert not {*failed} - {"a connection of another user was refused"}
    cluster.kill(job_id)
    until(lambda: cluster.status(job_id).state.final)
    leads.close()
    end_processes_of(cluster.home)


def _serve(leads):
    with suppress(Exception):  # the job is over, and the listener closed
        leads.serve()
