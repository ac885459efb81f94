"""Jupyter's authorizer is asked on every route, as its own routes ask it."""

from __future__ import annotations

import os

import pytest
from submarine_engine.job import JobState

from tests.jobs import until

AUTHORIZER = """
from jupyter_server.auth import Authorizer


class Told(Authorizer):
    def is_authorized(self, handler, user, action, resource):
        allowed = handler.request.headers.get("X-Allowed", "read write execute").split()
        return resource == "submarine" and action in allowed
"""
READS = "/submarine/jobs/{job}", "/submarine/tensorboards/0123456789abcdef/"


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    folder = tmp_path_factory.mktemp("authorizer")
    (folder / "told_authorizer.py").write_text(AUTHORIZER)
    return {
        "PYTHONPATH": os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
    }


def test_every_route_asks_it(start_server, submit, told):
    server = start_server("--ServerApp.authorizer_class=told_authorizer.Told", **told)
    base = server.url.removesuffix("/submarine")

    def ask(method, path, allowed):
        answer = server.session.request(
            method, base + path, headers={"X-Allowed": allowed}, timeout=180, stream=True
        )
        answer.close()
        return answer.status_code

    job_id = submit("import time; time.sleep(600)")
    names = {"job_id": job_id, "task": "worker-0", "stream": "stdout", "cluster": "local"}
    names |= {"board_id": "0123456789abcdef"}
    paths = server.get("/api/openapi.json").json()["paths"]
    asked = [
        (method, path)
        for path, routes in paths.items()
        for method in routes
        if method in ("get", "post", "delete")
    ]
    assert len(asked) > 20
    asked = [(method, path.format(**names)) for method, path in asked]
    asked += [("get", path.format(job=job_id)) for path in READS]
    asked += [("get", f"/submarine/jobs/{job_id}/tensorboard/"), ("get", "/submarine/api/none")]
    assert [one for one in asked if ask(*one, allowed="") != 403] == []
    changing = [one for one in asked if one[0] != "get" or one[1].endswith("/tensorboard/")]
    changing = [one for one in changing if not one[1].endswith("/stacks")]  # looks alone
    assert [one for one in changing if ask(*one, allowed="read") != 403] == []
    assert [one for one in asked if one not in changing and ask(*one, allowed="read") == 403] == []
    kill = f"/submarine/api/jobs/{job_id}/kill"
    assert server.get(f"/api/jobs/{job_id}").json()["state"] in ("starting", "running")
    assert ask("post", kill, allowed="write") == 200
    until(lambda: server.get(f"/api/jobs/{job_id}").json()["state"] == JobState.CANCELLED.value)
