"""A server whose addresses have a prefix, as below a Hub: links, redirections and pages have it."""

from __future__ import annotations

import re
from html import unescape
from urllib.parse import urljoin

import pytest
import requests

from tests.jobs import LIMIT, until
from tests.server.conftest import Server

PREFIX = "/user/alice"
SERVES = """
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Answer(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(302 if self.path == "/led" else 200)
        self.send_header("Location", "/there")
        self.end_headers()
        self.wfile.write(self.headers["X-Forwarded-Prefix"].encode())

server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
print("port", server.server_port, flush=True)
server.serve_forever()
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory, module_home):
    folder = tmp_path_factory.mktemp("prefixed")
    server = Server(folder, module_home, f"--ServerApp.base_url={PREFIX}/", base=PREFIX)
    yield server
    server.stop()


def test_a_job_s_page_and_the_document_name_addresses_below_the_prefix(server, submit):
    job = submit("print('a line')")
    until(lambda: submit.cluster.status(job).state.final)
    page = server.get(f"/jobs/{job}").text
    links = [unescape(link) for link in re.findall(r'href="([^"#?]+)"', page)]
    assert f"../api/jobs/{job}/output/worker-0/file" in links
    for link in links:
        assert server.session.get(urljoin(f"{server.url}/jobs/{job}", link)).ok, link
    document = server.get("/api/openapi.json").json()
    (root,) = (one["url"] for one in document["servers"])
    assert root == PREFIX
    assert "/submarine/api/overview" in document["paths"]
    missing = server.get("/api/none")
    assert missing.status_code == 404
    assert missing.json()["fix"] == f"see {PREFIX}/submarine/api/openapi.json"


def test_pages_are_led_to_addresses_below_the_prefix(server, submit):
    job = submit(SERVES)
    log = f"/api/jobs/{job}/logs/worker-0/stdout"
    port = until(lambda: re.search(r"port (\d+)", server.get(log).text))[1]
    place = f"{PREFIX}/submarine/proxy/{job}/{port}"
    assert server.get(f"/proxy/{job}/{port}/").text == place
    led = server.get(f"/proxy/{job}/{port}/led", allow_redirects=False)
    assert led.headers["Location"] == f"{place}/there"
    board = server.post("/api/tensorboards", json={"jobs": [job]}).json()
    led = server.get(f"/jobs/{job}/tensorboard/", allow_redirects=False)
    assert led.headers["Location"] == f"{PREFIX}/{board['url']}"
    token = server.session.headers["Authorization"].split()[1]
    there = f"{server.url}/tensorboards/{board['id']}/"
    led = requests.get(there, params={"token": token}, timeout=LIMIT, allow_redirects=False)
    assert re.fullmatch(f"{PREFIX}/{board['url']}~[0-9a-f]{{64}}/", led.headers["Location"])
    assert "<title>TensorBoard" in server.get(f"/tensorboards/{board['id']}/").text
    server.session.delete(f"{server.url}/api/tensorboards/{board['id']}", timeout=LIMIT)
    server.post(f"/api/jobs/{job}/kill")
