"""What jobs have cost, by REST."""

from __future__ import annotations

import pytest

from tests.jobs import until


def test_the_panel_is_told_what_jobs_have_cost(server, submit):
    job_id = submit("1", name="small", gpus=1)
    until(lambda: server.get(f"/api/jobs/{job_id}").json()["state"] == "succeeded")
    told = server.get("/api/usage", params={"by": "name", "days": 0}).json()
    [row] = [one for one in told["rows"] if one["of"] == "small"]
    assert row["jobs"] >= 1
    assert row["held"] >= row["busy"] > 0
    assert row["idle"] is None  # it was too short to be measured
    assert told["words"].startswith("GPU-hours")
    assert (told["by"], told["price"], told["left_out"]) == ("name", None, 0)
    assert server.get("/api/usage").json()["by"] == "notebook"


@pytest.mark.parametrize("query", ["by=mood", "days=-1", "days=x", "days=99999999"])
def test_what_cannot_be_counted_is_refused(server, query):
    answer = server.get(f"/api/usage?{query}")
    assert answer.status_code == 400
    assert answer.json()["fix"]
