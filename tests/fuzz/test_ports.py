"""A job's port in Jupyter: whatever the job answers there, and whatever strangers ask for."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest
import requests
from hypothesis import given, seed, settings
from hypothesis import strategies as st
from submarine_engine.clusters.local import LocalCluster
from submarine_engine.history import JobPaths
from urllib3.exceptions import HTTPError

from tests.jobs import bundle_of, end_processes_of, spec_of, until
from tests.server.conftest import TOKEN, Server
from tests.server.test_server_proxy import Page

from .conftest import by_port, head
from .strangers import Listener, besiege, strangers

pytestmark = pytest.mark.service

SAYS = """
import socket, threading

def answer(connection):
    with connection:
        said = b""
        while b"\\r\\n\\r\\n" not in said:
            piece = connection.recv(65536)
            if not piece:
                return
            said += piece
        connection.sendall(bytes.fromhex(said.split()[1].rpartition(b"/")[2].decode()))

listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
while True:
    threading.Thread(target=answer, args=(listener.accept()[0],), daemon=True).start()
"""
"""It answers with the bytes that stand in the address."""
WELL = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nwell"
ANSWERS = [
    WELL,
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nwell\r\n0\r\n\r\n",
    b"HTTP/1.0 200\r\nSet-Cookie: a=1; Domain=127.0.0.1\r\nSet-Cookie: _xsrf=2\r\n\r\nwell",
    b"HTTP/1.1 302 Found\r\nLocation: http://[::1/\r\nContent-Length: 0\r\n\r\n",
    b'HTTP/1.1 304 Not Modified\r\nETag: "x"\r\n\r\n',
    b"HTTP/1.1 204 No Content\r\nContent-Length: 4\r\n\r\nwell",
    b"HTTP/1.1 100 Continue\r\n\r\n" + WELL,
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Security-Policy: default-src *\r\nContent-Length: 4\r\n\r\nwell",
    b"HTTP/1.1 200 OK\r\nClear-Site-Data: *\r\nContent-Encoding: gzip\r\n\r\nwell",
    b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nwell",
    b"HTTP/1.1 200 OK\r\nContent-Length: 9999999999999\r\n\r\nwell",
    b"HTTP/1.1 200 OK\r\nX: y\r\n folded\r\nRetry-After: \xff\r\n\r\nwell",
]  # fmt: skip
FOUND = [
    ANSWERS[0].replace(b"\r\n\r\n", b"\r\nContent-Length: 5\r\n\r\n"),
    ANSWERS[0].replace(b": 4", b": 4, 4"),
    b"HTTP/1.1 304 Not Modified\r\nContent-Length: 4\r\n\r\nwell",
]
"""What broke the way through."""
SILENT = ("set-cookie", "clear-site-data", "service-worker-allowed", "x-accel-redirect")


@pytest.fixture(scope="module")
def port(tmp_path_factory):
    """Give a Jupyter server, and the page of a job's port there."""
    home, folder = tmp_path_factory.mktemp("ports-home"), tmp_path_factory.mktemp("ports")
    cluster = LocalCluster(home)
    job = cluster.submit(spec_of(), bundle_of(SAYS), workdir=folder)
    log = JobPaths(home, job).task("worker-0").stdout
    number = int(until(lambda: log.exists() and log.read_text().split())[0])
    server = Server(folder, home)
    yield server, Page(server, job, number)
    server.stop()
    cluster.kill(job)
    until(lambda: cluster.status(job).state.final)
    end_processes_of(home)


def served(server, page):
    """Assert that the next honest one is served."""
    page.session.close()  # a connection that was cut off is no honest one's
    assert page.ask(f"/{WELL.hex()}").content == b"well"
    assert server.get("/api/clusters").ok


def answers(port, seconds=0.0):
    server, page = port

    def look(said, closely):
        path = f"{page.base}/{said.hex()}"
        with (
            suppress(requests.ConnectionError, HTTPError),  # cut off, as the job has done it
            page.session.get(path, timeout=60, stream=True, allow_redirects=False) as answer,
        ):
            policies = answer.headers.get("Content-Security-Policy", "")
            assert "sandbox allow-scripts" in policies
            assert "allow-same-origin" not in policies.partition(",")[0]
            assert not [name for name in answer.headers if name.lower() in SILENT]
            assert TOKEN not in str(answer.headers)
            answer.raw.read(1 << 16, decode_content=False)
        if closely:
            served(server, page)

    end = time.monotonic() + seconds
    said = strangers(ANSWERS).map(lambda one: b"".join(one.pieces)[:20_000])
    own = settings(max_examples=100 if seconds else 30, derandomize=not seconds, database=None)
    while True:
        attacks = own(given(said, st.booleans())(look))
        (seed(time.time_ns())(attacks) if seconds else attacks)()
        if time.monotonic() >= end:
            break
    for one in FOUND:
        look(one, closely=True)
    served(server, page)
    log = (server.folder / "server.log").read_text(errors="replace")
    assert "Traceback" not in log, log[log.index("Traceback") - 500 :][:4000]
    assert TOKEN not in log


def asked(port):
    """Return the listener that strangers come to: Jupyter's, at addresses of the port."""
    server, page = port
    host = f"127.0.0.1:{server.port}"
    place = page.open.partition(host)[2]
    rest = " HTTP/1.1\nHost: HOST\nConnection: close\n\n"
    guess = f"{place}/~{'0' * 64}"
    other = place.rpartition("/")[0]
    preflight = "Access-Control-Request-Method: PUT\nAccess-Control-Request-Headers: a\n\n"
    socket = "Upgrade: websocket\nConnection: Upgrade\nSec-WebSocket-Key: x\n\n"
    words = [
        f"GET {place}/{rest}",
        f"GET {guess}/{WELL.hex()}{rest}",
        f"GET {place}/../../api/jobs{rest}",
        f"POST {guess}/x HTTP/1.1\nHost: HOST\nOrigin: null\nContent-Length: 999999999\n\nx",
        f"OPTIONS {guess}/ HTTP/1.1\nHost: HOST\nOrigin: null\n{preflight}",
        f"GET {guess}/ HTTP/1.1\nHost: HOST\n{socket}",
        f"GET {other}/99999/{rest}",
        f"GET {other}/worker-0:1/{rest}",
    ]

    def told():
        # Of a method that no HTTP knows, or a length of thousands of digits, Jupyter and tornado
        # tell by tracebacks of their own, at their own addresses, too.
        log = (server.folder / "server.log").read_bytes().split(b"\n[")
        return b"\n[".join(one for one in log if b"submarine_jupyter/" in one)

    return Listener(
        by_port(server.port),
        lambda: served(server, page),
        [head(one, host) for one in words],
        told,
        secret=TOKEN.encode(),
        pid=server.process.pid,
    )


def test_whatever_a_job_answers_stays_in_its_sandbox(port):
    answers(port)


def test_strangers_at_a_jobs_address_come_to_nothing(port):
    besiege(asked(port))


@pytest.mark.long
def test_jobs_answer_so_for_a_minute(port):
    answers(port, seconds=60)


@pytest.mark.long
def test_strangers_come_to_a_jobs_address_for_a_minute(port):
    besiege(asked(port), seconds=60)
