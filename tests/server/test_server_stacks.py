"""Where the tasks of a running job stand, by REST."""

from __future__ import annotations

import pytest

from tests.jobs import until

STAYS = """
import pathlib, time
def stay():
    while not pathlib.Path("over").exists(): time.sleep(0.01)
stay()
"""


@pytest.fixture
def job(server, submit, tmp_path):
    """Give a job that goes on."""
    job_id = submit(STAYS, name="stays")
    until(lambda: server.get(f"/api/jobs/{job_id}/card").json()["state"] == "running")
    yield job_id
    (tmp_path / "over").touch()


def test_a_running_job_tells_where_it_stands_and_how_that_is_drawn(server, job):
    def told():
        answer = server.post(f"/api/jobs/{job}/stacks", json={})
        assert answer.status_code == 200, answer.text
        return answer.json()

    # Its code may just begin, or look at the file.
    found = until(lambda: "in stay()" in (one := told())["groups"][0]["place"] and one)
    assert found["groups"][0]["tasks"] == ["worker-0"]
    assert found["at"] > 1.7e9
    assert found["tree"][1] == {"class": "smc-places"}
    assert "script.py, line" in str(found["tree"])


def test_a_job_that_is_over_or_not_there_has_none(server, submit):
    job_id = submit("1")
    until(lambda: submit.cluster.status(job_id).state.final)
    answer = server.post(f"/api/jobs/{job_id}/stacks", json={})
    assert (answer.status_code, "it has no stacks any more" in answer.json()["what"]) == (409, True)
    assert server.post("/api/jobs/20260101-000000-aaaaa/stacks", json={}).status_code == 404
    assert server.get(f"/api/jobs/{job_id}/stacks").status_code == 405
