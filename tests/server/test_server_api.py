"""The API as a front end uses it: jobs, logs, endings, and what it refuses."""

from __future__ import annotations

import pytest
import requests
from submarine_jupyter.extension import PLUGINS
from submarine_jupyter.routes import BASE, all_routes

from tests.jobs import until

ROUTES = all_routes(PLUGINS)
NOWHERE = "20260101-000000-aaaaa"
SLEEP = "import time\nprint('begun')\ntime.sleep(600)"


def over(submit, job_id):
    until(lambda: submit.cluster.status(job_id).state.final)
    return job_id


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_nobody_gets_in_without_a_token(server, route):
    names = {"job_id": NOWHERE, "task": "worker-0", "stream": "stdout", "cluster": "local"}
    path = route.path.format(**names, board_id="0" * 16)
    answer = requests.request(route.method, server.url + "/api" + path, timeout=180)
    assert answer.status_code == 403


def test_the_page_asks_strangers_to_log_in(server):
    answer = requests.get(f"{server.url}/jobs/{NOWHERE}", timeout=180, allow_redirects=False)
    assert answer.status_code == 302
    assert "/login" in answer.headers["Location"]


def test_a_cookie_alone_ends_no_job(server, submit):
    job_id = submit(SLEEP)
    browser = requests.Session()
    browser.get(f"{server.url}/api/jobs?token={server.session.headers['Authorization'][6:]}")
    del_token = browser.post(f"{server.url}/api/jobs/{job_id}/kill", timeout=180)
    assert del_token.status_code == 403
    assert not submit.cluster.status(job_id).state.final


def test_a_job_is_listed_and_shown(server, submit):
    job_id = over(submit, submit("print('héllo')\n42", gpus=1, name="shown"))
    listed = {job["id"]: job for job in server.get("/api/jobs").json()["jobs"]}
    assert listed[job_id]["state"] == "succeeded"
    shown = server.get(f"/api/jobs/{job_id}").json()
    assert (shown["id"], shown["name"], shown["cluster"]) == (job_id, "shown", "local")
    assert shown["tasks"][0]["exit_code"] == 0
    assert shown["ledger"]["gpus"] == 1
    assert shown["progress"] == 1.0
    assert server.get(f"/api/jobs/{job_id}/manifest").json()["entry"] == "script.py"
    assert server.get(f"/api/jobs/{job_id}/script").content.decode() == "print('héllo')\n42"


def test_a_log_is_read_by_offset(server, submit):
    job_id = over(submit, submit("print('0123456789')"))
    path = f"/api/jobs/{job_id}/logs/worker-0/stdout"
    assert server.get(path, params={"offset": 3, "limit": 4}).content == b"3456"
    end = server.get(path, params={"offset": 999})
    assert (end.content, end.headers["X-Log-Size"]) == (b"", "11")


def test_hostile_text_stays_text(server, submit):
    evil = "<script>alert(1)</script>"
    job_id = over(submit, submit(f"print({evil!r})", name="evil"))
    raw = server.get(f"/api/jobs/{job_id}/logs/worker-0/stdout")
    assert raw.text == evil + "\n"
    assert raw.headers["Content-Type"].startswith("text/plain")
    assert raw.headers["X-Content-Type-Options"] == "nosniff"
    page = server.get(f"/jobs/{job_id}")
    assert page.status_code == 200
    assert "<script" not in page.text
    assert "&lt;script&gt;alert(1)" in page.text
    assert "default-src 'none'" in page.headers["Content-Security-Policy"]
    assert "script-src" not in page.headers["Content-Security-Policy"]


@pytest.mark.parametrize("what", ["cancel", "kill"])
def test_a_job_is_ended(server, submit, what):
    job_id = submit(SLEEP)
    until(lambda: server.get(f"/api/jobs/{job_id}").json()["state"] == "running")
    assert server.post(f"/api/jobs/{job_id}/{what}").json() == {"id": job_id, "asked": True}
    over(submit, job_id)
    assert server.get(f"/api/jobs/{job_id}").json()["state"] == "cancelled"
    assert server.post(f"/api/jobs/{job_id}/{what}").json()["asked"] is False


@pytest.mark.parametrize(
    ("path", "status"),
    [
        (f"jobs/{NOWHERE}", 404),
        (f"jobs/{NOWHERE}/events", 404),
        (f"jobs/{NOWHERE}/logs/worker-0/stdout", 404),
        ("jobs/..%2f..%2fetc", 404),
        ("jobs/x%00y/script", 404),
        (f"jobs/{NOWHERE}/logs/worker-0/passwd", 404),
        ("clusters/nowhere/gpus", 404),
        ("nothing", 404),
        ("jobs?limit=0", 400),
        ("jobs?limit=1e3", 400),
        (f"jobs/{NOWHERE}/script?offset=-1", 400),
        (f"jobs/{NOWHERE}/script?limit=99999999999", 400),
        (f"jobs/{NOWHERE}/events?cursor=%7B%7D", 400),
        (f"jobs/{NOWHERE}/events?cursor=" + "[" * 5000, 400),
    ],
)
def test_what_is_wrong_is_said(server, path, status):
    answer = server.get(f"/api/{path}")
    assert answer.status_code == status, answer.text
    assert set(answer.json()) == {"what", "where", "fix"}
    assert answer.json()["what"]


def test_clusters_and_gpus(server, submit):
    assert {"name": "local"} in server.get("/api/clusters").json()["clusters"]
    job_id = submit(SLEEP, gpus=1)
    until(lambda: server.get("/api/clusters/local/gpus").json()["free"] == 1)
    gpus = server.get("/api/clusters/local/gpus").json()
    assert gpus["total"] == 2
    assert job_id in [gpu["job_id"] for gpu in gpus["gpus"]]
    assert server.get("/api/clusters/local/queues").json() == {"cluster": "local", "queues": []}


def test_the_document_names_every_route(server):
    paths = server.get("/api/openapi.json").json()["paths"]
    named = {(method, path) for path, methods in paths.items() for method in methods}
    assert named == {(route.method, BASE + route.path) for route in ROUTES}


@pytest.mark.parametrize(
    "asked",
    [{"jobs": [NOWHERE] * 201}, {"jobs": ["x" * 4097]}, {"logdir": "x" * 4097}],
    ids=["too many", "too long", "too long a folder"],
)
def test_a_tensorboard_over_too_much_is_refused_with_the_limit(server, asked):
    answer = server.post("/api/tensorboards", json=asked)
    assert answer.status_code == 400
    assert answer.json()["fix"] == "send 200 texts at most, of 4096 characters at most each"
    assert f"{next(iter(asked))!r} has" in answer.json()["what"]
