"""Two people of one machine at one JupyterHub: one queue, addresses below a prefix, users apart."""

from __future__ import annotations

import re
from html import unescape
from urllib.parse import quote, urljoin

import pytest

from tests.hub.hub_site import LEAVES, job_of
from tests.jobs import until

pytestmark = pytest.mark.long

WAITS = """
import os, time
print("it runs")
while not os.path.exists({!r}):
    time.sleep(0.05)
"""
SERVES = """%%submarine --name serves --detach
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Answer(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.headers["X-Forwarded-Prefix"].encode())

server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
print("port", server.server_port, flush=True)
server.serve_forever()
"""
PASSED = (200, 204)
REFUSED = 403


@pytest.fixture
def gate(place, request):
    path = place.folder / re.sub(r"\W+", "-", f"gate-{request.node.name}")
    yield path
    path.touch()


def test_one_queue_for_all_and_its_words_are_in_the_cell(alice, bob, alices, gate):
    alices.run(f"%%submarine --name long --gpus 1 --detach{WAITS.format(str(gate))}")
    until(lambda: alice.get("submarine/api/clusters/local/gpus").json()["free"] == 1)
    kernel = bob.notebook()
    kernel.run("%load_ext submarine_magics")
    sent = kernel.send("%%submarine --name both --gpus 2\nprint('bob has both')")
    shown = kernel.shown(sent)
    words = f"1 of 2 GPUs is {alice.name}'s; you are next"
    next(one for one in shown if words in str(one.get("text/plain", "")))
    gate.touch()
    assert "bob has both" in "".join(str(one) for one in shown)
    kernel.close()


def test_every_route_and_link_works_below_the_prefix_and_for_its_user_alone(alice, bob, alices):
    alices.run(LEAVES)
    job = job_of(alice, "leaves")
    alices.run("%submarine tensorboard leaves")
    (board,) = alice.get("submarine/api/tensorboards").json()["tensorboards"]
    (left,) = alice.get(f"submarine/api/jobs/{job}/artifacts").json()["artifacts"]
    names = {"job_id": job, "task": "worker-0", "stream": "stdout", "cluster": "local",
             "board_id": board["id"]}  # fmt: skip
    queries = {
        "search": {"text": "line"},
        "artifacts/worker-0/file": {"path": left["path"]},
        "display": {"offset": 0},
        "flows": {"path": "none.ipynb"},
        "stream": {"overview": "1"},
    }
    asked = 0
    for path, methods in alice.get("submarine/api/openapi.json").json()["paths"].items():
        place = f"submarine/api{path.removeprefix('/submarine/api').format(**names)}"
        query = next((given for end, given in queries.items() if place.endswith(f"/{end}")), {})
        for method in methods:
            for other in (bob.session, None):
                answer = bob.hub.stranger(method, f"{alice.base}{place}", other)
                assert answer in {REFUSED, *([302] if other is None else [])}, (method, place)
            asked += 1
        if "get" in methods:
            answer = alice.ask("GET", f"{alice.base}{place}", params=query, stream=True)
            assert answer.status_code not in {401, 403, 405, 500, 502, 503}, (place, answer.text)
            assert "no such route" not in (answer.text if answer.status_code == 404 else "")
            answer.close()
    assert asked > 40
    file = f"submarine/api/jobs/{job}/artifacts/worker-0/file"
    assert alice.get(f"{file}?path={quote(left['path'], safe='')}").text == "left"
    page = alice.get(f"submarine/jobs/{job}")
    links = {
        urljoin(f"{alice.base}submarine/jobs/{job}", unescape(link))
        for link in re.findall(r'(?:href|src)="([^"#]+)"', page.text)
        if not link.startswith("data:")
    }
    assert any(link.endswith("/output/worker-0/file") for link in links)
    for link in links:
        assert link.startswith(f"{alice.base}submarine/")
        assert alice.ask("GET", link).ok, link
        assert bob.ask("GET", link).status_code == REFUSED, link
    led = alice.ask("GET", f"{alice.base}submarine/jobs/{job}/tensorboard/")
    assert led.headers["Location"] == f"{alice.base}{board['url']}"
    assert "<title>TensorBoard" in alice.ask("GET", led.headers["Location"]).text
    assert bob.ask("GET", led.headers["Location"]).status_code == REFUSED


def test_what_a_cell_links_to_is_below_the_prefix(alice, alices):
    alices.run(LEAVES)
    (shown,) = [one for one in alices.run("%submarine tensorboard leaves") if "text/html" in one]
    frame = re.search(r'<iframe src="([^"]+)"', shown["text/html"])[1]
    assert frame.startswith(f"{alice.base}submarine/tensorboards/")
    assert "<title>TensorBoard" in alice.ask("GET", unescape(frame)).text


def test_a_port_of_a_job_is_its_user_s_alone(alice, bob, alices):
    alices.run(SERVES)
    job = job_of(alice, "serves")
    log = f"submarine/api/jobs/{job}/logs/worker-0/stdout"
    port = until(lambda: re.search(r"port (\d+)", alice.get(log).text))[1]
    place = f"{alice.base}submarine/proxy/{job}/{port}/"
    assert alice.ask("GET", place).text == place.rstrip("/")
    assert bob.ask("GET", place).status_code == REFUSED
    assert bob.ask("POST", place).status_code == REFUSED
    alice.ask("POST", f"{alice.base}submarine/api/jobs/{job}/kill")


def test_a_notebook_server_that_is_a_job_is_reached_below_the_prefix(alice, bob, alices):
    text = alices.text("%submarine notebook start --name inner")
    path = re.search(r"the notebook: (\S+)", text)[1]
    assert path.startswith(f"{alice.base}submarine/proxy/")
    led = alice.ask("GET", path)
    if led.is_redirect:
        led = alice.ask("GET", urljoin(path, led.headers["Location"]))
    assert bob.ask("GET", path).status_code == REFUSED
    alices.run("%submarine notebook stop inner")


def test_jobs_outlive_their_user_s_server(alice, alices, gate):
    alices.run(f"%%submarine --name stays --gpus 1 --detach{WAITS.format(str(gate))}")
    job = job_of(alice, "stays")
    until(lambda: alice.get(f"submarine/api/jobs/{job}").json()["state"] == "running")
    alice.stop()
    alice.start()
    assert alice.get(f"submarine/api/jobs/{job}").json()["state"] == "running"
    gate.touch()
    until(lambda: alice.get(f"submarine/api/jobs/{job}").json()["state"] == "succeeded")
