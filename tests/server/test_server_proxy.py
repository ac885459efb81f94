"""A port of a running job through Jupyter's server: for its owner, and as a stranger there."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import socket
from contextlib import closing
from dataclasses import replace

import pytest
import requests
from submarine_engine.history import JobPaths
from tornado.httpclient import HTTPRequest
from tornado.websocket import websocket_connect

from tests.jobs import LIMIT, bundle_of, spec_of, until
from tests.server.conftest import TOKEN
from tests.zeppelin.server import free_port

MUCH = 20 << 20
MORE = 128 << 20  # than all buffers on the way hold
SERVES = f"""
import asyncio, hashlib, socket
from tornado import web, websocket
from tornado.httpserver import HTTPServer

sent = 0

@web.stream_request_body
class Takes(web.RequestHandler):
    def prepare(self):
        self.sum = hashlib.sha256()
        self.request.connection.set_max_body_size(1 << 40)
    def data_received(self, chunk):
        self.sum.update(chunk)
    def post(self):
        self.write(self.sum.hexdigest())
    put = post

class Told(web.RequestHandler):
    def get(self):
        self.add_header("Set-Cookie", "own=1; Domain=127.0.0.1; Path=/")
        self.add_header("Set-Cookie", "own=2; Path=/")
        self.add_header("Set-Cookie", "_xsrf=theirs; Path=/")
        for name in ("Clear-Site-Data", "X-Accel-Redirect", "Service-Worker-Allowed"):
            self.set_header(name, "/")
        self.set_header("Content-Security-Policy", "script-src 'self'")
        self.write({{"headers": dict(self.request.headers.get_all()), "uri": self.request.uri}})

class Gives(web.RequestHandler):
    async def get(self):
        global sent
        for _ in range({MORE} >> 16):
            self.write(bytes(1 << 16))
            await self.flush()
            sent += 1 << 16

class Stays(web.RequestHandler):
    left = asyncio.Event()
    async def get(self):
        self.write("begins")
        await self.flush()
        await self.left.wait()
    def on_connection_close(self):
        self.left.set()

class Left(web.RequestHandler):
    async def get(self):
        await Stays.left.wait()
        self.write(str(sent))

class Leads(web.RequestHandler):
    def get(self):
        self.redirect(self.get_argument("to").replace("HOST", self.request.host))

class Echo(websocket.WebSocketHandler):
    def select_subprotocol(self, names):
        return names[-1] if names else None
    def on_message(self, message):
        self.write_message(message, binary=isinstance(message, bytes))

async def cut(reader, writer):
    await reader.readuntil(b"\\r\\n\\r\\n")
    writer.write(b"HTTP/1.1 200 OK\\r\\nContent-Length: 10\\r\\n\\r\\nhalf")
    await writer.drain()
    writer.close()

async def odd(reader, writer):
    writer.write(b"220 no HTTP here\\r\\n\\r\\n")
    await writer.drain()
    writer.close()

async def main():
    routes = [("/told/.*", Told), ("/takes", Takes), ("/gives", Gives), ("/leads", Leads),
              ("/stays", Stays), ("/left", Left), ("/echo", Echo)]
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)
    HTTPServer(web.Application(routes)).add_sockets([listener])
    others = [await asyncio.start_server(one, "127.0.0.1", 0) for one in (cut, odd)]
    ports = [listener, *(other.sockets[0] for other in others)]
    print(*(port.getsockname()[1] for port in ports), flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""

NOTEBOOK = """
import asyncio, json, os, pathlib
from tornado import web

place = pathlib.Path(os.environ.get("SUBMARINE_SAVE") or os.environ["SUBMARINE_TASK_DIR"])
told = {"port": 0, "token": "first", "path": "/lab"}

def tell(**news):
    told.update(news)
    (place / "next").write_text(json.dumps(told))
    (place / "next").rename(place / "notebook.json")

class Asks(web.RequestHandler):
    def get(self):
        if self.request.headers.get("Authorization") != f"token {told['token']}":
            raise web.HTTPError(403)
        if self.request.path == "/again":
            tell(token="second")
        self.write("in")

async def main():
    server = web.Application([("/.*", Asks)]).listen(0, "127.0.0.1")
    tell(port=next(iter(server._sockets.values())).getsockname()[1])
    print(told["port"], flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


def by_cookie(server):
    """Return what a browser sends that has logged in."""
    session = requests.Session()
    session.trust_env = False
    session.get(f"{server.url}/api/clusters?token={TOKEN}", timeout=LIMIT).raise_for_status()
    cookies = "; ".join(f"{one.name}={one.value}" for one in session.cookies)
    return {"headers": {"Authorization": None, "Cookie": cookies}}


class Page:
    """What a browser has of a port: the address with its key, and no login."""

    def __init__(self, server, job, port):
        self.open = f"{server.url}/proxy/{job}/{port}"
        answer = server.get(f"/proxy/{job}/{port}/?a=1", allow_redirects=False, **by_cookie(server))
        assert answer.status_code == 302, answer.text
        self.key, _, query = answer.headers["Location"].partition("/?")
        assert query == "a=1"
        self.base = f"http://127.0.0.1:{server.port}{self.key}"
        self.session = requests.Session()
        self.session.trust_env = False

    def ask(self, path, method="GET", **options):
        return self.session.request(method, self.base + path, timeout=LIMIT, **options)


@pytest.fixture(scope="module")
def serving(server, cluster, module_home, tmp_path_factory):
    """Give a job that serves; its ports: of the app, of half answers, of no HTTP."""
    folder = tmp_path_factory.mktemp("serves")
    job = cluster.submit(spec_of(name="serves"), bundle_of(SERVES), workdir=folder)
    log = JobPaths(module_home, job).task("worker-0").stdout
    # A print is a write for each of its parts: the line is whole once it has its end.
    told = until(lambda: log.exists() and (text := log.read_text()).endswith("\n") and text)
    yield job, [int(port) for port in told.split()]
    cluster.kill(job)
    until(lambda: cluster.status(job).state.final)


def test_a_page_has_its_port_and_nothing_of_jupyters(server, serving):
    job, (port, *_) = serving
    page = Page(server, job, port)
    assert re.fullmatch(rf"/submarine/proxy/{job}/{port}/~[0-9a-f]{{64}}", page.key)
    hostile = {
        "Cookie": "_xsrf=ours; username-x=ours",
        "Authorization": f"token {TOKEN}",
        "X-XSRFToken": "ours",
        "X-Forwarded-Access-Token": "ours",
        "Referer": page.base,
        "Origin": "null",
        "Accept": "text/html",
    }
    for _ in range(2):  # the second time with the cookies that the job has set
        answer = page.ask("/told/%2F;x?q=%20&token=own", headers=hostile)
        assert answer.status_code == 200, answer.text
    told = answer.json()
    assert told["uri"] == "/told/%2F;x?q=%20&token=own"
    headers = told["headers"]
    assert set(headers["Cookie"].split("; ")) == {"own=2", "_xsrf=theirs"}
    assert headers["Host"] == f"localhost:{port}"
    assert headers["Origin"] == f"http://localhost:{port}"
    assert headers["X-Forwarded-Prefix"] == page.key
    assert not headers.keys() & {"Authorization", "X-Xsrftoken", "Referer"}
    assert "ours" not in answer.text
    assert not answer.headers.keys() & {
        "Set-Cookie", "Clear-Site-Data", "X-Accel-Redirect", "Service-Worker-Allowed"
    }  # fmt: skip
    policies = answer.headers["Content-Security-Policy"]
    assert policies.startswith("sandbox allow-scripts")
    assert "allow-same-origin" not in policies
    assert policies.endswith("script-src 'self'")
    assert answer.headers["Access-Control-Allow-Origin"] == "null"
    asks = {
        "Origin": "null",
        "Access-Control-Request-Method": "PUT",
        "Access-Control-Request-Headers": "content-type, x-own",
    }
    allowed = page.ask("/takes", "OPTIONS", headers=asks)
    assert (allowed.status_code, allowed.headers["Access-Control-Allow-Headers"]) == (
        204,
        "content-type, x-own",
    )
    for to, leads in (
        ("/a?b=1#c", f"{page.key}/a?b=1#c"),
        ("http://HOST/a", f"{page.key}/a"),
        ("next", "next"),
        ("http://elsewhere.invalid/", "http://elsewhere.invalid/"),
    ):
        answer = page.ask("/leads", params={"to": to}, allow_redirects=False)
        assert (answer.status_code, answer.headers["Location"]) == (302, leads)


def test_nobody_else_is_let_in(server, serving, start_server, module_home):
    job, (port, *_) = serving
    page = Page(server, job, port)
    nobody = requests.Session()
    nobody.trust_env = False
    almost = page.key[-66:-1] + ("1" if page.key.endswith("0") else "0")
    for path in ("", "/", "/told/", f"/~{'0' * 64}/told/", f"{almost}/told/"):
        answer = nobody.get(page.open + path, timeout=LIMIT, allow_redirects=False)
        assert answer.status_code == 302
        assert "/login?next=" in answer.headers["Location"]
        assert nobody.post(page.open + path, timeout=LIMIT).status_code == 403
    # A key is of one port alone, and who is logged in gets the right one for an old one.
    other = page.key.replace(f"/{port}/", f"/{port + 1}/")
    answer = nobody.get(f"http://127.0.0.1:{server.port}{other}/", timeout=LIMIT)
    assert "/login" in answer.url
    stale = f"/proxy/{job}/{port}/~{'0' * 64}/told/"
    answer = server.get(stale, allow_redirects=False, **by_cookie(server))
    assert answer.headers["Location"] == f"{page.key}/told/"
    # A login's cookie alone posts nothing: another site could have sent it.
    assert server.post(f"/proxy/{job}/{port}/takes", **by_cookie(server)).status_code == 403
    # A program shows its token, and gets the answer at once.
    answer = server.get(f"/proxy/{job}/worker-0:{port}/told/?token={TOKEN}&a=1")
    assert answer.json()["uri"] == "/told/?a=1"
    assert answer.json()["headers"]["X-Forwarded-Prefix"].endswith(f"/worker-0:{port}")
    assert "Authorization" not in answer.json()["headers"]
    other = start_server(SUBMARINE_USER="somebody-else")
    assert other.get(f"/proxy/{job}/{port}/told/").status_code == 404


def test_bodies_pass_as_fast_as_they_are_read(server, serving):
    job, (port, *_) = serving
    page = Page(server, job, port)
    much = os.urandom(MUCH)
    wanted = hashlib.sha256(much).hexdigest()
    assert page.ask("/takes", "POST", data=much).text == wanted
    pieces = (much[at : at + 99_999] for at in range(0, MUCH, 99_999))  # of no told length
    assert page.ask("/takes", "PUT", data=pieces).text == wanted
    head = page.ask("/told/", "HEAD")
    assert (head.status_code, head.content) == (405, b"")
    # A browser that reads nothing holds up the job, and is no memory of anybody's.
    with closing(socket.socket()) as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect(("127.0.0.1", server.port))
        host = f"Host: 127.0.0.1:{server.port}"
        slow.sendall(f"GET {page.key}/gives HTTP/1.1\r\n{host}\r\n\r\n".encode())
        slow.recv(1)
        with closing(page.ask("/stays", stream=True)) as staying:
            assert next(staying.iter_content(6)) == b"begins"
        # The job is told as well that a browser is gone, or it would never answer this.
        assert int(page.ask("/left").text) < MORE


def test_a_websocket_passes_both_ways(server, serving):
    job, (port, *_) = serving
    page = Page(server, job, port)
    url = page.base.replace("http:", "ws:") + "/echo"

    async def talk():
        request = HTTPRequest(url, headers={"Origin": "null"})
        connection = await websocket_connect(
            request, subprotocols=["a", "b"], compression_options={}, max_message_size=MUCH
        )
        assert connection.selected_subprotocol == "b"
        for said in ("ü", bytes(range(256)), os.urandom(3 << 20), "x" * (3 << 20)):
            await connection.write_message(said, binary=isinstance(said, bytes))
            assert await asyncio.wait_for(connection.read_message(), LIMIT) == said
        connection.close(4000, "enough")
        while await asyncio.wait_for(connection.read_message(), LIMIT) is not None:
            pass
        assert connection.close_code == 4000

    asyncio.run(talk())


def test_a_server_names_more_headers_and_counts_connections(serving, start_server):
    job, (port, *_) = serving
    options = (
        "--SubmarineApp.proxy_headers=X-Own",
        "--SubmarineApp.proxy_headers=Clear-Site-Data",
        "--SubmarineApp.proxy_connections=1",
    )
    server = start_server(*options)
    answer = server.get(f"/proxy/{job}/{port}/told/", headers={"X-Own": "1", "X-Other": "2"})
    assert answer.json()["headers"]["X-Own"] == "1"
    assert "X-Other" not in answer.json()["headers"]
    assert answer.headers["Clear-Site-Data"] == "/"
    with closing(server.get(f"/proxy/{job}/{port}/gives", stream=True)) as stays:
        pieces = stays.iter_content(6)  # closes the connection when it is collected
        assert next(pieces)
        answer = server.get(f"/proxy/{job}/{port}/told/")
        assert (answer.status_code, answer.json()["what"]) == (
            503,
            "1 connections into jobs are open",
        )
    until(lambda: server.get(f"/proxy/{job}/{port}/told/").status_code == 200)


def test_a_notebook_that_is_begun_again_is_asked_with_its_new_token(
    server, cluster, module_home, tmp_path
):
    spec = replace(spec_of(name="explore"), serves="notebook")
    job = cluster.submit(spec, bundle_of(NOTEBOOK), workdir=tmp_path)
    try:
        log = JobPaths(module_home, job).task("worker-0").stdout
        port = until(lambda: log.exists() and log.read_text().strip())
        page = Page(server, job, port)
        asked = [page.ask(path).status_code for path in ("/", "/again", "/", "/")]
        assert asked == [200, 200, 403, 200]
    finally:
        cluster.kill(job)
        until(lambda: cluster.status(job).state.final)


def test_what_cannot_be_is_said(server, serving, submit):
    job, (port, half, odd) = serving
    free = free_port()
    html = {"Accept": "text/html"}
    for path, status, words in (
        (f"{job}/{free}/", 502, f"port {free} of worker-0: nobody listens"),
        (f"{job}/{odd}/", 502, "has sent no answer in HTTP"),
        (f"{job}/notebook/", 404, "'notebook' is no port"),
        (f"{job}/70000/", 404, "'70000' is no port"),
        (f"{job}/%D9%A3/", 404, "is no port"),
        (f"{job}/worker-7:{port}/", 404, "no task 'worker-7'"),
        (f"{job[:-5]}aaaaa/{port}/", 404, "no such job"),
        (f"<b>/{port}/", 404, "is not a job id"),
    ):
        answer = server.get(f"/proxy/{path}")
        assert (answer.status_code, words in answer.json()["what"]) == (status, True), answer.text
        assert answer.json()["fix"]
        assert "sandbox" in answer.headers["Content-Security-Policy"]
        page = server.get(f"/proxy/{path}", headers=html)
        assert page.headers["Content-Type"].startswith("text/html")
        assert "<p>" in page.text
        assert "<b>" not in page.text
    with pytest.raises(
        requests.exceptions.ChunkedEncodingError
    ):  # cut, and not as if it were whole
        server.get(f"/proxy/{job}/{half}/")
    queued = [submit("import time\ntime.sleep(600)\n", gpus=2) for _ in range(2)][1]
    until(lambda: server.get(f"/api/jobs/{queued}").json()["state"] == "queued")
    answer = server.get(f"/proxy/{queued}/1/")
    assert (answer.status_code, "does not run yet" in answer.json()["what"]) == (503, True)
    submit.cluster.kill(queued)
    until(lambda: server.get(f"/api/jobs/{queued}").json()["state"] == "cancelled")
    answer = server.get(f"/proxy/{queued}/1/")
    assert (answer.status_code, "is over (cancelled)" in answer.json()["what"]) == (410, True)
