"""TensorBoard through a real Jupyter server: known readers alone, a key against forgery, no path
that leads elsewhere."""

from __future__ import annotations

import http.client
import os
import re
import signal
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests
from submarine_engine.history import JobPaths
from submarine_engine.tensorboard import find_board

from tests.jobs import bundle_of, follow, spec_of, until
from tests.server.conftest import Server
from tests.tensorboard.conftest import end_boards, writes


@pytest.fixture(scope="module")
def module_home(tmp_path_factory):
    home = tmp_path_factory.mktemp("tb-home")
    yield home
    end_boards(home)


@pytest.fixture(scope="module")
def server(tmp_path_factory, module_home):
    server = Server(tmp_path_factory.mktemp("tb-server"), module_home)
    yield server
    server.stop()


@pytest.fixture
def run(module_home, tmp_path, monkeypatch):
    from submarine_engine.clusters.local import LocalCluster

    monkeypatch.setenv("SUBMARINE_HOME", str(module_home))
    cluster = LocalCluster(module_home)

    def run(script, **options):
        job_id = cluster.submit(spec_of(**options), bundle_of(script), workdir=tmp_path)
        assert follow(cluster, job_id).state.value == "succeeded"
        return job_id

    return run


@pytest.fixture
def opened(server, run):
    """Return the address of a TensorBoard over one job, and that job."""
    job_id = run(writes("loss", runs=("train",)), name="digits")
    answer = server.post("/api/tensorboards", json={"jobs": [job_id]})
    assert answer.status_code == 200, answer.text
    board = answer.json()
    assert board["jobs"] == [job_id]
    assert board["url"] == f"submarine/tensorboards/{board['id']}/"
    return f"/tensorboards/{board['id']}", job_id


def cookies_of(server):
    """Return a browser that has logged in by its token, and no longer shows it."""
    browser = requests.Session()
    browser.trust_env = False
    token = server.session.headers["Authorization"].split()[1]
    browser.get(f"{server.url}/api/clusters", params={"token": token}, timeout=180)
    browser.get(server.url.replace("/submarine", "/login"), timeout=180)
    assert browser.cookies
    return browser


def test_a_page_and_its_data_come_through(server, opened):
    path, job_id = opened
    page = server.get(f"{path}/")
    assert page.status_code == 200
    assert "<title>TensorBoard" in page.text
    policy = page.headers["Content-Security-Policy"]
    assert "frame-ancestors 'self'" in policy
    assert "default-src 'self'" in policy
    assert "Server" not in page.headers or "Werkzeug" not in page.headers["Server"]
    assert "Set-Cookie" not in page.headers
    script = server.get(f"{path}/index.js")
    assert script.headers["Content-Type"].startswith("text/javascript")
    run = f"digits-{job_id[-5:]}/train"
    until(lambda: server.get(f"{path}/data/runs").json() == [run])
    asked = {"run": run, "tag": "loss"}

    def steps():
        found = server.get(f"{path}/data/plugin/scalars/scalars", params=asked)
        return [step for _, step, _ in found.json()] if found.ok else []

    until(lambda: steps() == list(range(10)))


def test_a_job_s_own_address_leads_there(server, opened):
    path, job_id = opened
    page = server.get(f"/jobs/{job_id}/tensorboard/")
    assert page.url == f"{server.url}{path}/"
    assert server.get(path).url == f"{server.url}{path}/"
    assert [one["id"] for one in server.get("/api/tensorboards").json()["tensorboards"]]


def test_nobody_reads_or_opens_without_jupyter_s_token(server, opened):
    path, job_id = opened
    bare = requests.Session()
    bare.trust_env = False
    for place in (f"{path}/", f"{path}/data/runs", f"/jobs/{job_id}/tensorboard/",
                  "/api/tensorboards"):  # fmt: skip
        answer = bare.get(server.url + place, timeout=180, allow_redirects=False)
        assert answer.status_code in (302, 403)
        assert "TensorBoard" not in answer.text
    for method in ("post", "delete"):
        answer = bare.request(method, f"{server.url}/api/tensorboards/{'0' * 16}", timeout=180)
        assert answer.status_code in (403, 405)


def test_tensorboard_s_own_posts_pass_and_forged_ones_do_not(server, opened):
    path, job_id = opened
    run = f"digits-{job_id[-5:]}/train"
    asked = {"run": run, "tag": "loss"}  # a run is there before its data
    until(lambda: server.get(f"{path}/data/plugin/scalars/scalars", params=asked).ok)
    rest = "experiment/defaultExperimentId/data/plugin/timeseries/timeSeries"
    body = {"requests": f'[{{"plugin":"scalars","tag":"loss","run":"{run}"}}]'}
    browser = cookies_of(server)
    page = browser.get(f"{server.url}{path}/?x=a%2Fb", timeout=180)
    assert re.fullmatch(re.escape(f"{server.url}{path}/") + r"~[0-9a-f]{64}/\?x=a%2Fb", page.url)
    keyed = page.url.partition("?")[0]
    own = browser.post(keyed + rest, body, timeout=180)
    assert own.status_code == 200, own.text
    assert own.json()[0]["runToSeries"][run]
    stranger = requests.Session()
    stranger.trust_env = False
    for asks, place in (
        (browser, f"{server.url}{path}/{rest}"),
        (browser, f"{server.url}{path}/~{'0' * 64}/{rest}"),
        (stranger, keyed + rest),  # a key is no login
    ):
        for headers in ({}, {"X-XSRF-Protected": "1"}):
            answer = asks.post(place, body, headers=headers, timeout=180, allow_redirects=False)
            assert answer.status_code in (302, 403), place
    # As an address that was kept: its key is of a server that has ended.
    assert browser.get(f"{server.url}{path}/~{'0' * 64}/", timeout=180).url == keyed
    api = f"{server.url}/api/tensorboards"
    protected = {"X-XSRF-Protected": "1"}
    assert browser.post(api, json={"all": True}, headers=protected, timeout=180).status_code == 403


@pytest.mark.sampled
@pytest.mark.parametrize(
    "path",
    ["/../../../api/contents", "/..%2f..%2fapi", "/%2e%2e/%2e%2e/x", "/..\\x", "/%00", "/a/./b"],
)
def test_paths_lead_nowhere_else(server, opened, path):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=180)
    connection.request(
        "GET", f"/submarine{opened[0]}{path}", headers=dict(server.session.headers.items())
    )
    assert connection.getresponse().status in (400, 404)
    connection.close()


def test_ids_that_are_none_and_bodies_that_are_wrong(server, run, tmp_path):
    for path in (
        f"/tensorboards/{'0' * 16}/",
        "/tensorboards/../etc/",
        "/tensorboards/127.0.0.1:1/",
    ):
        assert server.get(path).status_code in (400, 404, 503)
    wrong = [{"jobs": "all"}, {"jobs": [1]}, {"all": "yes"}, {"logdir": 3}, {"host": "evil"}, [],
             {"jobs": ["../../etc"]}, {"jobs": ["20260101-000000-aaaaa"]},
             {"logdir": str(tmp_path / "none")}, {"logdir": "s3://x"}, {"logdir": "a\0b"},
             {"jobs": None, "all": None, "x": 1}]  # fmt: skip
    for body in wrong:
        answer = server.post("/api/tensorboards", json=body)
        assert answer.status_code in (400, 404), (body, answer.text)
        assert answer.json()["what"]
    assert server.get("/jobs/20260101-000000-aaaaa/tensorboard/").status_code == 404


def test_one_that_is_dead_is_started_again_by_its_reader(server, opened, module_home):
    path, _ = opened
    board_id = path.rpartition("/")[2]
    assert server.get(f"{path}/").ok
    first = find_board(module_home, board_id)
    os.kill(first.pid, signal.SIGKILL)
    until(lambda: find_board(module_home, board_id).port == 0)
    assert server.get(f"{path}/").ok
    assert find_board(module_home, board_id).pid != first.pid
    assert server.session.delete(f"{server.url}/api{path}", timeout=180).json()["stopped"]
    assert server.get(f"{path}/").status_code == 503


@pytest.mark.long
def test_one_that_hangs_holds_up_nobody(server, opened, run, module_home):
    path, _ = opened
    assert server.get(f"{path}/").ok
    board = find_board(module_home, path.rpartition("/")[2])
    other = run(writes(), name="other")
    os.kill(board.pid, signal.SIGSTOP)
    try:
        with ThreadPoolExecutor(8) as pool:
            stopped = threading.Event()
            hanging = [pool.submit(_ask_and_leave, server, path, stopped) for _ in range(8)]
            assert server.get(f"/api/jobs/{other}").ok
            found = server.post("/api/tensorboards", json={"jobs": [other]}).json()
            assert server.get(f"/tensorboards/{found['id']}/").ok
            stopped.set()
            for one in hanging:
                one.result()
    finally:
        os.kill(board.pid, signal.SIGCONT)


def _ask_and_leave(server, path, stopped):
    with socket.create_connection(("127.0.0.1", server.port)) as asked:
        token = server.session.headers["Authorization"]
        asked.sendall(
            f"GET /submarine{path}/ HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n"
            f"Authorization: {token}\r\n\r\n".encode()
        )
        stopped.wait(180)


def test_scalars_come_with_the_card(server, run, module_home):
    job_id = run(writes("loss", "<b>bad</b>", steps=1000), name="card")
    card = until(lambda: server.get(f"/api/jobs/{job_id}/card").json())
    assert card["tensorboard"]
    assert sorted(card["scalars"]) == ["<b>bad</b>", "loss"]
    points = card["scalars"]["loss"]
    assert len(points) <= 200
    assert points[0] == [0, 1.0]
    assert points[-1][0] == 999
    without = run("pass")
    card = server.get(f"/api/jobs/{without}/card").json()
    assert "scalars" not in card
    assert card["tensorboard"] is False
    assert JobPaths(module_home, without).task("worker-0").logdir.is_dir()
