"""The OpenAPI document is true: a real server answers made-up requests as the document says."""

from __future__ import annotations

import re

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.specs.openapi.checks import positive_data_acceptance
from submarine_jupyter.extension import PLUGINS
from submarine_jupyter.routes import BASE, all_routes

from tests.jobs import bundle_of, spec_of, until
from tests.server.conftest import TOKEN

HEADERS = {"Authorization": f"token {TOKEN}"}
ELSEWHERE = {
    ("get", "/stream"), ("get", "/jobs/{job_id}/events"), ("post", "/tensorboards"),
    ("post", "/notebooks"),
}  # fmt: skip
"""What need not end, and what starts processes: other tests ask for it."""
UNSAID = {("get", "/flows"), ("get", "/jobs/{job_id}/notebook")}
"""Whether a text is a path, and a job a notebook's, no schema can say."""
ASKED = [route for route in all_routes(PLUGINS) if (route.method, route.path) not in ELSEWHERE]
FAILS = "print('a line')\nraise ValueError('no')"


@pytest.fixture(scope="module")
def job_id(module_home, tmp_path_factory, cluster):
    folder = tmp_path_factory.mktemp("job")
    found = cluster.submit(spec_of(gpus=1), bundle_of(FAILS), workdir=folder)
    until(lambda: cluster.status(found).state.final)
    return found


@pytest.fixture(scope="module")
def document(server, job_id):
    found = schemathesis.openapi.from_url(f"{server.url}/api/openapi.json", headers=HEADERS)
    real = {"job_id": job_id, "cluster": "local", "task": "worker-0", "stream": "stdout"}

    @found.hook
    def map_path_parameters(context, path_parameters):
        """Ask for what there is, mostly: everything else is refused before anything is done."""
        known = {key: real[key] for key in path_parameters or {} if key in real}
        return {**(path_parameters or {}), **known}

    return found


@pytest.mark.long
def test_the_document_admits_no_line_break_that_a_route_refuses(server, job_id):
    paths = server.get("/api/openapi.json").json()["paths"]
    path = f"{BASE}/jobs/{{job_id}}/logs/{{task}}/{{stream}}/search"
    patterns = {
        one["name"]: one["schema"].get("pattern", "") for one in paths[path]["get"]["parameters"]
    }
    for name, value in (("task", "worker-0"), ("stream", "stdout"), ("text", "a line")):
        assert re.search(patterns[name], value)
        assert not re.search(patterns[name], f"{value}\n")
    log = f"/api/jobs/{job_id}/logs/worker-0/stdout/search"
    assert server.get(log, params={"text": "a line"}).json()["lines"] == [0]
    assert server.get(log, params={"text": "a line\n"}).status_code == 400


@pytest.mark.sampled
@pytest.mark.parametrize("route", ASKED, ids=lambda route: f"{route.method} {route.path}")
def test_answers_are_as_the_document_says(document, route):
    unsaid = route.body or (route.method, route.path) in UNSAID
    excluded = [positive_data_acceptance] if unsaid else []
    operation = document[BASE + route.path][route.method.upper()]
    most = settings().max_examples // 5  # each is a request: 10, and 60 in `make test-long`

    @settings(max_examples=most, deadline=None, suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy())
    def check(case):
        case.call_and_validate(headers=HEADERS, timeout=180, excluded_checks=excluded)

    check()
